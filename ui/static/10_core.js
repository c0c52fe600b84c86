/* What every part of the page shares: making elements (text only, never HTML), numbers, the poll, the bar. */
"use strict";
window.nsd = (() => {
  const MARK = "\u2060"; // see markup.py: put between "<" and a tag name so that Markdown shows it
  const unmark = (text) => text.replaceAll("<" + MARK, "<").replaceAll("!" + MARK + "[", "![");
  const parts = {}; // name -> {element, ...} of mounted parts
  const SVG = "http://www.w3.org/2000/svg";

  /** An element; `attrs` go through setAttribute, children are nodes or text. Never parses HTML. */
  function h(tag, attrs = {}, ...children) {
    const svg = ["svg", "path", "rect", "circle", "line", "polyline"].includes(tag);
    const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attrs)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child != null));
    return node;
  }

  const unknown = "–";
  const number = (value, digits = 1) => (value == null ? unknown : value.toFixed(digits));
  const percent = (value) => (value == null ? unknown : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`);
  const bytes = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB` : `${Math.round(n / 1e6)} MB`);
  /** Sets text only where it changed: an untouched node costs no layout. */
  function put(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }
  const icon = (d) =>
    h("svg", { viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": "1.8",
      "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" }, h("path", { d }));

  /* The poll: one small request while something happens, as often as the server says (at most 10 a second) and the page
     bears. */
  const poll = { server: null, trigger: null, place: { conversation: "", job: 0, version: 0 }, timer: 0, busy: false, pace: 0.12, lag: 0 };
  const listeners = [];
  const have = { job: 0, rows: 0, rounds: 0, race: 0, kept: "" };

  /** One part that fails must not silence the others. */
  async function tell(listen, reply) {
    try { await listen(reply); } catch (error) { console.error(error); }
  }

  async function ask() {
    clearTimeout(poll.timer);
    if (poll.asking) { poll.again = true; return; }
    poll.asking = true;
    const start = performance.now(), asked = poll.place.version;
    let cost = 0;
    try {
      const view = document.body.dataset.view;
      const reply = await poll.server.live({ conversation: poll.place.conversation, lag: poll.lag, view, ...have });
      const got = performance.now();
      poll.pace = reply.status.pace;
      poll.busy = reply.status.jobs > 0 || reply.status.engine === "opening";
      if (asked !== poll.place.version) poll.again = true; // the page has turned meanwhile: this is of another one
      else for (const listen of listeners) tell(listen, reply);
      cost = performance.now() - got + (got - start) / 4;
    } catch {
      poll.busy = false; // the server is gone or restarting; Gradio shows that itself
    }
    poll.asking = false;
    nsdFrames.pause = poll.busy ? Math.min(1500, 1500 * poll.pace) : 0;
    nsdFrames.draw(); // with what this reply changed
    const wait = poll.again ? 0 : poll.busy ? Math.max(1000 * poll.pace, Math.min(500, 25 * cost)) : 2500;
    poll.again = false;
    const due = performance.now() + wait;
    poll.timer = setTimeout(() => {
      // How late the timer is tells how long drawing kept the page; the server then sends text less often.
      poll.lag = poll.busy ? Math.max((performance.now() - due) / 1000, 0.7 * poll.lag) : 0;
      ask();
    }, wait);
  }

  /** The part of the page that knows where this tab is: its conversation, the job it follows, the version it shows. */
  function mountDesk(element, server, props, watch, trigger) {
    Object.assign(poll, { server, trigger });
    const moved = () => {
      const place = props.value || {};
      if (place.conversation !== poll.place.conversation || place.version !== poll.place.version) {
        Object.assign(have, { job: 0, rows: 0, rounds: 0, kept: "" });
        if (place.conversation !== poll.place.conversation && document.body.dataset.drawer === "left") drawer("");
        for (const part of Object.values(parts)) part.moved?.(place);
      }
      poll.place = { ...place };
      document.body.dataset.busy = place.busy ? "yes" : "";
      if (place.said) putBack(place.said);
      document.body.dataset.version = place.version; // tells tests and the curious that the page has turned
      ask();
    };
    watch("value", moved);
    moved();
    document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
    document.addEventListener("nsd-view", ask);
  }

  /** Puts text into the message box, as if it were typed. */
  function putBack(text) {
    const box = document.querySelector("#ask textarea");
    if (!box || box.value) return; // never over what a person is writing
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    box.focus();
  }

  const on = (listen) => listeners.push(listen);
  const act = (name, data = {}) => poll.trigger("act", { name, ...data });

  /** Saves the conversation as a file, made here from its text. */
  async function download(kind) {
    const file = await poll.server.export({ conversation: poll.place.conversation, kind });
    if (!file) return;
    const url = URL.createObjectURL(new Blob([file.text], { type: "text/plain;charset=utf-8" }));
    h("a", { href: url, download: file.name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  /* The bar */
  const LOGO = "M4 17c3-9 6-9 8 0s5 9 8-10";
  function themeButton() {
    const dark = () => document.body.classList.contains("dark");
    const button = h("button", { class: "n-icon", type: "button", "aria-label": "Light or dark", title: "Light or dark" },
      icon("M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9Z"));
    button.addEventListener("click", () => {
      document.body.classList.toggle("dark");
      localStorage.setItem("nsd-theme", dark() ? "dark" : "light");
    });
    return button;
  }
  function drawerButton(side, label, path) {
    const button = h("button", { class: "n-icon n-drawer-button", type: "button", "aria-label": label, title: label,
      "aria-expanded": "false", "data-side": side }, icon(path));
    button.addEventListener("click", () => drawer(document.body.dataset.drawer === side ? "" : side));
    return button;
  }
  /** Opens the left or right column over the chat on narrow screens; "" closes. */
  function drawer(side) {
    document.body.dataset.drawer = side;
    for (const button of document.querySelectorAll(".n-drawer-button"))
      button.setAttribute("aria-expanded", String(button.dataset.side === side));
    const column = side && document.querySelector(side === "left" ? "#left" : "#right");
    if (column) {
      column.tabIndex = -1;
      column.focus({ preventScroll: true });
    }
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.body.dataset.drawer) {
      const side = document.body.dataset.drawer;
      drawer("");
      document.querySelector(`.n-drawer-button[data-side="${side}"]`)?.focus();
    }
  });
  document.addEventListener("click", (event) => {
    if (document.body.dataset.drawer && event.target.id === "desk") drawer("");
  });

  function mountBar(element) {
    const label = h("span", {}, "Starting");
    const chip = h("div", { class: "n-chip", role: "status", "data-state": "none" }, h("i"), label);
    element.replaceChildren(
      h("header", { class: "n-bar" },
        h("div", { class: "n-brand" },
          h("svg", { viewBox: "0 0 24 24", fill: "none", "aria-hidden": "true" },
            h("rect", { x: "0", y: "0", width: "24", height: "24", rx: "7", fill: "var(--n-accent)" }),
            h("path", { d: LOGO, stroke: "var(--n-on-accent)", "stroke-width": "2", "stroke-linecap": "round" })),
          h("span", {}, "nsd-local")),
        h("div", { class: "n-space" }), chip,
        drawerButton("left", "Conversations", "M4 6h16M4 12h16M4 18h10"),
        drawerButton("right", "Meters and controls", "M4 7h10m4 0h2M4 17h2m4 0h10M16 5v4M8 15v4"),
        themeButton()));
    on(({ status }) => {
      chip.dataset.state = status.engine;
      put(label, status.label);
      chip.title = status.label;
    });
  }

  function mountBanners(element) {
    let shown = "";
    const root = document.documentElement;
    new ResizeObserver(() => root.style.setProperty("--n-banners", `${Math.ceil(element.offsetHeight)}px`)).observe(element);
    on(({ banners }) => {
      const now = JSON.stringify(banners);
      if (now === shown) return;
      shown = now;
      element.replaceChildren(...banners.map((banner) => {
        const text = h("p", {}, h("b", {}, banner.title), banner.text ? ` ${banner.text}` : "");
        if (banner.total) text.append(h("progress", { max: banner.total, value: banner.done, "aria-label": banner.title }));
        const row = h("div", { class: "n-banner", "data-level": banner.level, role: banner.level === "error" ? "alert" : "status" }, text);
        if (banner.action)
          row.append(h("button", { class: "n-button", type: "button", onclick: () => act(banner.action) }, banner.label));
        return row;
      }));
    });
  }

  /* Everything that is copied from the page loses the marks. */
  const write = navigator.clipboard?.writeText?.bind(navigator.clipboard);
  if (write) navigator.clipboard.writeText = (text) => write(unmark(text));
  document.addEventListener("copy", (event) => {
    const text = String(window.getSelection());
    if (!text.includes(MARK)) return;
    event.clipboardData.setData("text/plain", unmark(text));
    event.preventDefault();
  });

  function applyTheme() {
    const chosen = localStorage.getItem("nsd-theme");
    if (chosen) document.body.classList.toggle("dark", chosen === "dark");
  }
  document.addEventListener("DOMContentLoaded", applyTheme);

  const mounts = { desk: mountDesk, bar: mountBar, banners: mountBanners };
  /** Called once by each of our components when Gradio has put it on the page. */
  function mount(name, element, server, props, watch, trigger) {
    applyTheme();
    const part = mounts[name](element.querySelector(".n-mount"), server, props, watch, trigger);
    if (part) parts[name] = part;
  }
  return { h, put, number, percent, bytes, icon, unknown, on, act, ask, download, poll, have, parts, mounts, mount, unmark };
})();

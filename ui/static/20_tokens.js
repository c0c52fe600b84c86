/* Answers as tokens: coloured and underlined by kind, with what is known of each on hover or focus. */
"use strict";
(() => {
  const { h, put, number, percent, unknown } = nsd;
  const KINDS = ["ratio", "nucleus", "recovered", "bonus", "plain", "dropped"];
  const SHAPES = ["●", "◆", "▲", "★", "○", "✕"];
  let meanings = {};

  const tip = h("div", { id: "n-tip", role: "tooltip", hidden: true });
  const small = (value) => (value == null ? unknown : String(value));

  function shown(text) {
    if (text === "") return "◌";
    return text.replaceAll("\n", "↵\n");
  }

  /** Appends the spans of `rows` to `box`; a row is [text, kind, p, q, rank, divergence, deviation, round]. The tab stop is
      the first token of the text: a rejected draft may be hidden. */
  function append(box, rows) {
    const all = document.createDocumentFragment();
    for (const row of rows) {
      const index = box.rows.push(row) - 1;
      const dropped = row[1] === KINDS.indexOf("dropped"), stop = !dropped && !box.hasStop;
      box.hasStop ||= stop;
      all.append(h(dropped ? "s" : "span", { class: `t t-${KINDS[row[1]]}`, "data-i": index, tabindex: stop ? "0" : "-1" },
        shown(row[0])));
    }
    box.append(all);
  }

  function describe(row) {
    const kind = KINDS[row[1]];
    const line = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    return [
      h("div", { class: "tip-head" }, h("span", { class: `t-shape s-${kind}`, "aria-hidden": "true" }, SHAPES[row[1]]),
        h("b", {}, kind), h("code", {}, JSON.stringify(row[0]))),
      h("p", {}, meanings[kind] || ""),
      h("dl", {},
        line("p, target", small(row[2])), line("q, draft", small(row[3])),
        line("rank in target", small(row[4])), line("divergence", small(row[5])),
        line("deviation", small(row[6])), line("round", String(row[7] + 1))),
    ];
  }

  function show(token) {
    const row = token.parentNode.rows?.[token.dataset.i];
    if (!row) return;
    tip.replaceChildren(...describe(row));
    tip.hidden = false;
    const at = token.getClientRects()[0] || token.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, innerWidth - tip.offsetWidth - 8));
    const below = at.bottom + 8 + tip.offsetHeight < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? at.bottom + 6 : Math.max(8, at.top - tip.offsetHeight - 6)}px`;
    token.setAttribute("aria-describedby", "n-tip");
  }
  function hide(token) {
    tip.hidden = true;
    token?.removeAttribute("aria-describedby");
  }

  /** One tab stop for all tokens of an answer; the arrow keys walk through them. */
  function walk(event) {
    const token = event.target.closest(".t");
    if (!token) return;
    const all = token.parentNode.children;
    const i = Number(token.dataset.i);
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape") hide(token);
    if (to == null || !all[to]) return;
    event.preventDefault();
    let step = all[to];
    if (getComputedStyle(step).display === "none") {
      const next = to > i ? "nextElementSibling" : "previousElementSibling";
      while (step && getComputedStyle(step).display === "none") step = step[next];
    }
    if (!step) return;
    token.tabIndex = -1;
    step.tabIndex = 0;
    step.focus();
  }

  function listen(root) {
    root.addEventListener("mouseover", (event) => { const t = event.target.closest(".t"); if (t) show(t); });
    root.addEventListener("mouseout", (event) => { const t = event.target.closest(".t"); if (t) hide(t); });
    root.addEventListener("focusin", (event) => { const t = event.target.closest(".t"); if (t) show(t); });
    root.addEventListener("focusout", (event) => { const t = event.target.closest(".t"); if (t) hide(t); });
    root.addEventListener("click", (event) => { const t = event.target.closest(".t"); if (t) show(t); });
    root.addEventListener("keydown", walk);
  }

  function tokenBox(rows = []) {
    const box = h("div", { class: "tokens", role: "group", "aria-label": "Tokens of the answer; arrow keys walk through them" });
    box.rows = [];
    append(box, rows);
    return box;
  }

  function turn(message) {
    if (message.role === "user")
      return h("div", { class: "turn turn-user" }, h("div", { class: "turn-text" }, message.text));
    if (!message.rows)
      return h("div", { class: "turn" }, h("div", { class: "turn-text" }, message.text),
        h("p", { class: "turn-note" }, "No token record is kept of this answer."));
    return h("div", { class: "turn" }, tokenBox(message.rows), h("p", { class: "turn-note" }, message.summary || ""));
  }

  /** The transcript as tokens. It asks for the finished answers when it is first looked at, and appends the running one. */
  function mountTokens(element) {
    const list = h("div", { class: "turns", tabindex: "0", role: "region", "aria-label": "Conversation as tokens" });
    const empty = h("p", { class: "n-empty" }, "Ask something: every token of the answer appears here, coloured by how it came about.");
    element.replaceChildren(list);
    document.body.append(tip);
    listen(list);
    let fresh = false, shownOf = "";
    let kept = []; // {key, element} of each finished turn that is shown: one that did not change is left under the pointer
    let running = null;

    async function fill() {
      if (fresh || !isShown()) return;
      fresh = true;
      const asked = nsd.poll.place.version;
      const messages = await nsd.poll.server.answers({ conversation: nsd.poll.place.conversation });
      if (asked !== nsd.poll.place.version) { fresh = false; return fill(); }
      const same = shownOf === nsd.poll.place.conversation && list.scrollHeight - list.scrollTop - list.clientHeight > 60;
      const at = list.scrollTop;
      shownOf = nsd.poll.place.conversation;
      kept = messages.map((message, i) => {
        const key = JSON.stringify(message);
        return kept[i]?.key === key ? kept[i] : { key, element: turn(message) };
      });
      const now = kept.length ? kept.map((turn) => turn.element) : [empty];
      if (running) now.push(running.turn);
      for (const old of [...list.children]) if (!now.includes(old)) old.remove();
      now.forEach((element, i) => { if (list.children[i] !== element) list.insertBefore(element, list.children[i] || null); });
      if (!tip.hidden && !list.querySelector("[aria-describedby]")) hide();
      list.scrollTop = same ? at : list.scrollHeight; // whoever scrolled up to read stays there
    }
    function live(job) {
      if (!running || running.id !== job.id) {
        running?.turn.remove();
        const box = tokenBox();
        running = { id: job.id, box, turn: h("div", { class: "turn", "data-live": true }, box) };
        empty.remove();
        list.append(running.turn);
      }
      if (!job.rows.length) return;
      const bottom = list.scrollHeight - list.scrollTop - list.clientHeight < 60;
      append(running.box, job.rows);
      if (bottom && isShown()) list.scrollTop = list.scrollHeight;
    }
    const isShown = () => document.body.dataset.view === "tokens";
    nsd.on((reply) => {
      if (!reply.job || reply.job.ended) return;
      if (reply.job.from_row === 0 && running?.id === reply.job.id) {
        Object.assign(running.box, { rows: [], hasStop: false });
        running.box.replaceChildren();
      }
      live(reply.job);
      nsd.have.job = reply.job.id;
      nsd.have.rows = reply.job.from_row + reply.job.rows.length;
      nsd.have.rounds = reply.job.meters.rounds;
    });
    document.addEventListener("nsd-view", fill);
    return { moved() { fresh = false; running?.turn.remove(); running = null; queueMicrotask(fill); } };
  }

  /** Text or tokens, dropped drafts or not, and the legend. Remembered in this browser. */
  function mountToolbar(element, server, props) {
    meanings = Object.fromEntries(props.legend.map((entry) => [entry.name, entry.meaning]));
    const store = (name, value) => localStorage.setItem(`nsd-${name}`, value);
    const choice = (value, label) => {
      const input = h("input", { type: "radio", name: "nsd-view", value });
      input.addEventListener("change", () => setView(value));
      return h("label", {}, input, h("span", {}, label));
    };
    const dropped = h("input", { type: "checkbox", id: "nsd-dropped" });
    dropped.addEventListener("change", () => {
      document.body.dataset.dropped = dropped.checked ? "shown" : "";
      store("dropped", document.body.dataset.dropped);
    });
    const legend = h("ul", { class: "n-legend", "aria-label": "Legend: how each token came about" },
      ...props.legend.map((entry, i) => h("li", { title: entry.meaning, class: entry.name === "dropped" ? "only-dropped" : "" },
        h("span", { class: `t-shape s-${entry.name}`, "aria-hidden": "true" }, SHAPES[i]),
        h("span", { class: `t t-${entry.name}` }, entry.name))));
    const status = h("p", { class: "n-line", role: "status" });
    element.replaceChildren(
      h("div", { class: "n-toolbar" },
        h("fieldset", { class: "n-switch" }, h("legend", { class: "visually-hidden" }, "Show answers as"),
          choice("text", "Text"), choice("tokens", "Tokens")),
        h("label", { class: "n-check only-tokens" }, dropped, h("span", {}, "Rejected drafts")),
        status),
      legend);
    function setView(value) {
      document.body.dataset.view = value;
      store("view", value);
      element.querySelector(`input[value="${value}"]`).checked = true;
      document.dispatchEvent(new Event("nsd-view"));
    }
    dropped.checked = localStorage.getItem("nsd-dropped") === "shown";
    document.body.dataset.dropped = dropped.checked ? "shown" : "";
    setView(localStorage.getItem("nsd-view") === "tokens" ? "tokens" : "text");
    nsd.on(({ job }) => put(status, job ? line(job) : ""));
  }

  /** One line on the running answer. */
  function line(job) {
    if (job.state === "queued") return job.ahead ? `Waiting: ${job.ahead} answer${job.ahead > 1 ? "s" : ""} before this one` : "Starting";
    if (job.state === "loading") return job.note || "Loading the model";
    if (job.state === "reading") return `Reading the prompt: ${job.prefill[0]} of ${job.prefill[1]} tokens`;
    if (job.state === "writing") return `Writing: ${number(job.meters.now)} tok/s`;
    if (job.state === "stopped") return "Stopped";
    return "";
  }

  Object.assign(nsd.mounts, { tokens: mountTokens, toolbar: mountToolbar });
  Object.assign(nsd, { tokenBox, appendTokens: append, KINDS, SHAPES, percent });
})();

/* The live meters: a few numbers, three bars and one small chart, touched only where a value changed. */
"use strict";
(() => {
  const { h, put, number, percent, unknown } = nsd;
  const PARTS = ["draft", "verify", "accept", "rollback", "other"];
  const PART_COLOURS = ["var(--k-bonus)", "var(--n-accent)", "var(--k-nucleus)", "var(--k-recovered)", "var(--k-plain)"];
  const KINDS = nsd.KINDS.slice(0, 5);
  const LAST = 64; // rounds in the chart

  function bar(names, colours, label) {
    const pieces = names.map((name, i) => h("i", { style: `background:${colours[i]}`, class: `bar-${name}` }));
    const strip = h("div", { class: "m-bar", role: "img", "aria-label": label }, ...pieces);
    const values = names.map(() => h("b", {}, unknown));
    const list = h("ul", { class: "m-list" },
      ...names.map((name, i) => h("li", {}, h("i", { style: `background:${colours[i]}` }), h("span", {}, name), values[i])));
    function set(numbers) {
      const sum = numbers.reduce((a, b) => a + b, 0);
      numbers.forEach((value, i) => {
        const share = sum ? value / sum : 0;
        const width = `${(100 * share).toFixed(1)}%`;
        if (pieces[i].style.width !== width) pieces[i].style.width = width;
        put(values[i], sum ? percent(share) : unknown);
      });
      strip.setAttribute("aria-label", `${label}: ${names.map((name, i) => `${name} ${values[i].textContent}`).join(", ")}`);
    }
    return { nodes: [strip, list], set };
  }

  function chart() {
    const path = h("path", { fill: "none", stroke: "var(--n-accent)", "stroke-width": "1.5", "vector-effect": "non-scaling-stroke" });
    const svg = h("svg", { class: "m-chart", viewBox: `0 0 ${LAST} 10`, preserveAspectRatio: "none", role: "img", "aria-label": "Draft length over the last rounds" }, path);
    function set(ks) {
      const last = ks.slice(-LAST);
      const top = Math.max(4, ...last) + 1;
      const y = (k) => (9.5 - (9 * k) / top).toFixed(2);
      path.setAttribute("d", last.map((k, i) => `${i ? "H" : "M"}${i ? i : `0 ${y(k)}`}${i ? `V${y(k)}` : ""}`).join("") + (last.length ? `H${last.length}` : ""));
    }
    return { svg, set };
  }

  function tile(label, id) {
    const value = h("b", { id }, unknown);
    return { node: h("div", { class: "m-tile" }, h("span", {}, label), value), value };
  }

  function mountMeters(element) {
    const now = tile("tok/s now", "m-now"), average = tile("average", "m-average"), ratio = tile("× plain", "m-ratio");
    const origin = h("p", { class: "m-note", id: "m-origin" });
    const kinds = bar(KINDS, KINDS.map((k) => `var(--k-${k})`), "Tokens by kind");
    const kept = h("b", { id: "m-kept" }, unknown), tau = h("b", { id: "m-tau" }, unknown), count = h("b", { id: "m-count" }, unknown);
    const lengths = chart();
    const k = h("b", { id: "m-k" }, unknown), why = h("p", { class: "m-note", id: "m-why" });
    const time = bar(PARTS, PART_COLOURS, "Time per round");
    const spent = h("b", { id: "m-deviation" }, unknown), left = h("p", { class: "m-note", id: "m-budget" });
    const budget = h("i", {});
    const line = (label, value) => h("div", { class: "m-line" }, h("span", {}, label), value);
    let ks = [];
    element.replaceChildren(
      h("section", { class: "m-panel", "aria-label": "Meters of the last answer" },
        h("div", { class: "m-tiles" }, now.node, average.node, ratio.node), origin,
        h("h3", {}, "Tokens by kind"), ...kinds.nodes,
        line("drafts kept", kept), line("tokens per pass", tau), line("tokens", count),
        h("h3", {}, "Draft length k"), lengths.svg, line("last k", k), why,
        h("h3", {}, "Time"), ...time.nodes,
        h("h3", {}, "Deviation"), h("div", { class: "m-bar m-budget", "aria-hidden": "true" }, budget), line("spent", spent), left));

    function draw(m) {
      if (m.ks_from === 0) ks = [];
      ks.push(...m.ks);
      put(now.value, number(m.now));
      put(average.value, number(m.average));
      put(ratio.value, m.ratio == null ? unknown : `${number(m.ratio, 2)}`);
      put(origin, !m.tokens ? "" : m.plain ? `Plain decoding: ${number(m.plain[0])} tok/s, ${m.plain[1]}` : "Plain speed not known yet: run a race with a plain lane, or nsd-local tune.");
      kinds.set(KINDS.map((kind) => m.kinds[kind]));
      const accepted = m.kinds.ratio + m.kinds.nucleus;
      put(kept, !m.tokens ? unknown : m.drafted ? `${percent(accepted / m.drafted)} of ${m.drafted}` : "none drafted");
      put(tau, number(m.tau, 2));
      put(count, m.tokens ? `${m.tokens} in ${m.rounds} passes` : unknown);
      lengths.set(ks);
      put(k, ks.length ? String(ks.at(-1)) : unknown);
      put(why, m.why);
      time.set(PARTS.map((part) => m.seconds[part]));
      put(spent, m.tokens ? number(m.deviation, 3) : unknown);
      put(left, !m.tokens ? "" : m.budget == null ? "No budget is set." : `${number(Math.max(0, m.budget - m.deviation), 3)} of ${m.budget} left`);
      budget.style.width = m.budget ? `${Math.min(100, (100 * m.deviation) / m.budget)}%` : "0";
    }
    const blank = { tokens: 0, rounds: 0, kinds: Object.fromEntries(KINDS.map((kind) => [kind, 0])), drafted: 0, ks_from: 0, ks: [], why: "",
      seconds: Object.fromEntries(PARTS.map((name) => [name, 0])), deviation: 0, budget: null };
    nsd.on(({ job, kept }) => {
      if (job) draw(job.meters);
      else if (kept) {
        nsd.have.kept = kept.key;
        draw(kept.meters || blank);
      }
    });
  }
  nsd.mounts.meters = mountMeters;
})();

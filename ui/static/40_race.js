/* The race: how it stands while the lanes run in turn, and the replay side by side at their true speeds. */
"use strict";
(() => {
  const { h, put, number, percent, unknown } = nsd;
  const STATES = { queued: "waits for its turn", loading: "waits for the model", reading: "reads the prompt", writing: "runs", done: "done", stopped: "stopped", failed: "failed" };

  function laneCard(name) {
    const speed = h("b", {}, unknown), state = h("span", { class: "lane-state" }, ""), box = nsd.tokenBox();
    box.setAttribute("aria-label", `Answer of the lane ${name}`);
    box.setAttribute("tabindex", "0");
    const progress = h("i", {});
    return { name, speed, state, box, progress, shown: 0,
      node: h("article", { class: "lane", "aria-label": `Lane ${name}` },
        h("header", {}, h("h3", {}, name), h("span", { class: "lane-speed" }, speed, " tok/s")), state,
        h("div", { class: "m-bar", "aria-hidden": "true" }, progress), box) };
  }

  function resultCard(lanes) {
    const base = lanes.find((lane) => lane.meters.drafted === 0) || lanes[0];
    const fastest = lanes.reduce((a, b) => ((b.speed || 0) > (a.speed || 0) ? b : a));
    const ratio = fastest.speed / base.speed;
    const verdict = fastest === base ? `${base.name} was the fastest here.`
      : `${fastest.name} ran at ${number(ratio, 2)} times the speed of ${base.name}.`;
    const row = (lane) => {
      const kept = lane.meters.kinds.ratio + lane.meters.kinds.nucleus;
      return h("tr", {}, h("th", { scope: "row" }, lane.name), h("td", {}, number(lane.speed)), h("td", {}, number(lane.speed / base.speed, 2)),
        h("td", {}, String(lane.tokens)), h("td", {}, lane.meters.drafted ? percent(kept / lane.meters.drafted) : unknown),
        h("td", {}, number(lane.meters.tau, 2)), h("td", {}, number(lane.meters.deviation, 2)),
        h("td", {}, lane === base ? unknown : lane.text === base.text ? "same" : "differs"));
    };
    const heads = ["Lane", "tok/s", `× ${base.name}`, "tokens", "kept", "per pass", "deviation", "text"];
    return h("section", { class: "race-result", "aria-label": "Result" }, h("h2", {}, verdict),
      h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Result of each lane" },
        h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, ...lanes.map(row)))),
      h("p", { class: "m-note" }, "Speeds count decoding only, not the reading of the prompt. Texts differ where a rule draws differently; under exact they follow the same law."));
  }

  function mountRace(element) {
    const line = h("p", { class: "n-line race-line", role: "status" });
    const track = h("div", { class: "lanes" }), result = h("div", {});
    const again = h("button", { class: "n-button", type: "button", id: "race-again", onclick: () => play() }, "Replay");
    const end = h("button", { class: "n-button", type: "button", id: "race-end", onclick: () => finish() }, "Show the end");
    const heading = h("h2", { class: "race-heading" }, "Replay: the lanes ran in turn, one after the other");
    const bar = h("div", { class: "race-bar", hidden: true }, heading, again, end);
    element.replaceChildren(line, bar, track, result);
    let cards = [], lanes = [], timer = 0, started = 0, shownId = 0;

    function lay(names) {
      cards = names.map(laneCard);
      track.style.setProperty("--lanes", names.length);
      track.replaceChildren(...cards.map((card) => card.node));
    }
    function upTo(card, lane, seconds) {
      let rows = card.shown;
      while (card.frame < lane.frames.length && lane.frames[card.frame][0] <= seconds) rows = lane.frames[card.frame++][1];
      if (rows > card.shown) {
        nsd.appendTokens(card.box, lane.rows.slice(card.shown, rows).map(([text, kind]) => [text, kind, null, null, null, null, null, 0]));
        card.shown = rows;
        card.box.scrollTop = card.box.scrollHeight;
      }
      const last = lane.frames.at(-1)[0];
      const over = seconds >= last;
      card.progress.style.width = `${Math.min(100, (100 * seconds) / last)}%`;
      put(card.state, over ? `done after ${number(last)} s` : `${number(seconds)} s`);
      return over;
    }
    function tick(seconds) {
      const over = cards.map((card, i) => upTo(card, lanes[i], seconds));
      if (over.every(Boolean)) clearInterval(timer);
    }
    function reset() {
      clearInterval(timer);
      lay(lanes.map((lane) => lane.name));
      cards.forEach((card, i) => { card.frame = 0; put(card.speed, number(lanes[i].speed)); });
    }
    function play() {
      reset();
      started = performance.now();
      timer = setInterval(() => tick((performance.now() - started) / 1000), 100);
    }
    function finish() { reset(); tick(Infinity); }

    nsd.on(async ({ race }) => {
      if (!race) return;
      if (race.id !== shownId) {
        shownId = race.id;
        clearInterval(timer);
        lanes = [];
        bar.hidden = true;
        result.replaceChildren();
        lay(race.lanes.map((lane) => lane.name));
      }
      race.lanes.forEach((lane, i) => {
        if (!cards[i]) return;
        put(cards[i].speed, number(lane.speed));
        put(cards[i].state, lane.state === "writing" ? `runs: ${lane.tokens} tokens` : STATES[lane.state]);
      });
      put(line, race.ended ? "" : race.ahead ? `Waiting: ${race.ahead} before this race` : "The lanes run one after the other; the replay follows.");
      if (!race.ended) return;
      nsd.have.race = race.id;
      put(line, race.state === "failed" ? race.note : race.state === "stopped" ? "Stopped." : "");
      lanes = await nsd.poll.server.replay({ race: race.id });
      if (!lanes.length) return;
      bar.hidden = false;
      result.replaceChildren(resultCard(lanes));
      play();
    });
  }
  nsd.mounts.race = mountRace;
})();

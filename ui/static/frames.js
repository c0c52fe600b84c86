/* Runs before any other script. While an event is pending, Gradio draws a (hidden) clock sixty times a second; on a machine
   whose cores all decode, that costs a tenth of the speed. So frames are drawn together, every `pause` ms at the latest: 0 but
   while answering. */
"use strict";
window.nsdFrames = { pause: 0, draw: () => {} };
(() => {
  const frame = requestAnimationFrame.bind(window), cancel = cancelAnimationFrame.bind(window);
  const waiting = new Map(), asked = new Map(); // handle given out -> what to draw; -> the browser's own handle
  let handles = 0, timer = 0;
  const ask = (handle, draw) => asked.set(handle, frame((now) => { asked.delete(handle); draw(now); }));
  /** Draws all that waits in one frame, now. */
  nsdFrames.draw = () => {
    clearTimeout(timer);
    timer = 0;
    for (const [handle, draw] of waiting) ask(handle, draw);
    waiting.clear();
  };
  window.requestAnimationFrame = (draw) => {
    const handle = ++handles;
    if (nsdFrames.pause) {
      waiting.set(handle, draw);
      timer ||= setTimeout(nsdFrames.draw, nsdFrames.pause);
    } else ask(handle, draw);
    return handle;
  };
  window.cancelAnimationFrame = (handle) => {
    waiting.delete(handle);
    cancel(asked.get(handle));
    asked.delete(handle);
  };
})();

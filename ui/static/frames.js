/* Runs before any other script. While an event is pending, Gradio draws a (hidden) clock sixty times a second; on a machine
   whose cores all decode, that costs a tenth of the speed. So frames wait `nsdFrames.pause` ms: 0 but while answering. */
"use strict";
window.nsdFrames = { pause: 0 };
(() => {
  const frame = requestAnimationFrame.bind(window), cancel = cancelAnimationFrame.bind(window);
  const asked = new Map(); // handle given out -> how to call it off
  let handles = 0;
  window.requestAnimationFrame = (draw) => {
    const handle = ++handles;
    const ask = () => {
      const own = frame((now) => { asked.delete(handle); draw(now); });
      asked.set(handle, () => cancel(own));
    };
    const pause = window.nsdFrames.pause;
    if (pause) {
      const timer = setTimeout(ask, pause);
      asked.set(handle, () => clearTimeout(timer));
    } else ask();
    return handle;
  };
  window.cancelAnimationFrame = (handle) => {
    asked.get(handle)?.();
    asked.delete(handle);
  };
})();

// Gestures, the same for every plot: point, drag a box, wheel, pinch, keys.
//
// `chart` offers size() -> [width, height], hover(x, y, event), leave(),
// zoomBox(x0, y0, x1, y1), zoomAt(x, y, factor), reset() and step(dx, dy).
// The wheel zooms a plot only once it has been clicked or tabbed to (or with Ctrl held),
// so that scrolling past a plot stays scrolling.

const LEAST_DRAG = 6; // pixels; less is a click with an unsteady hand
const DOUBLE_TAP = 320; // milliseconds

function gestures(surface, chart) {
  const touches = new Map();
  const box = element("div", { class: "box", hidden: "" }, null, surface);
  let start = null;
  let lastTap = 0;
  let spread = 0;

  const local = (event) => {
    const area = surface.getBoundingClientRect();
    const [width, height] = chart.size();
    return [((event.clientX - area.left) * width) / (area.width || 1),
      ((event.clientY - area.top) * height) / (area.height || 1)];
  };
  const drawBox = (from, to) => {
    box.hidden = false;
    box.style.left = `${Math.min(from[0], to[0])}px`;
    box.style.top = `${Math.min(from[1], to[1])}px`;
    box.style.width = `${Math.abs(from[0] - to[0])}px`;
    box.style.height = `${Math.abs(from[1] - to[1])}px`;
  };
  const distance = () => {
    const [a, b] = [...touches.values()];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  };

  surface.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    if (event.pointerType === "touch") {
      touches.set(event.pointerId, local(event));
      if (touches.size === 2) spread = distance();
      else chart.hover(...local(event), event);
      return;
    }
    start = local(event);
    try {
      surface.setPointerCapture(event.pointerId);
    } catch {
      // A pointer that has gone meanwhile: the drag ends when it comes back.
    }
  });
  surface.addEventListener("pointermove", (event) => {
    if (touches.has(event.pointerId)) {
      touches.set(event.pointerId, local(event));
      if (touches.size === 2 && spread > 0) {
        const [a, b] = [...touches.values()];
        const now = distance();
        if (now > 0) chart.zoomAt((a[0] + b[0]) / 2, (a[1] + b[1]) / 2, spread / now);
        spread = now;
        return;
      }
    }
    if (start === null) {
      chart.hover(...local(event), event);
      return;
    }
    chart.leave();
    drawBox(start, local(event));
  });
  const finish = (event) => {
    const wasTouch = touches.delete(event.pointerId);
    if (wasTouch && event.type === "pointerup") {
      const now = Date.now();
      if (now - lastTap < DOUBLE_TAP) chart.reset();
      lastTap = now;
    }
    if (start === null) return;
    const end = local(event);
    box.hidden = true;
    const dragged = Math.hypot(end[0] - start[0], end[1] - start[1]) >= LEAST_DRAG;
    if (dragged && event.type === "pointerup") chart.zoomBox(...start, ...end);
    start = null;
  };
  surface.addEventListener("pointerup", finish);
  surface.addEventListener("pointercancel", finish);
  surface.addEventListener("pointerleave", () => {
    if (start === null) chart.leave();
  });
  surface.addEventListener("dblclick", () => chart.reset());
  surface.addEventListener("blur", () => chart.leave());
  surface.addEventListener("wheel", (event) => {
    if (document.activeElement !== surface && !event.ctrlKey) return;
    event.preventDefault();
    const turns = event.deltaMode === 1 ? event.deltaY / 3 : event.deltaY / 100;
    chart.zoomAt(...local(event), 1.25 ** clamp(turns, -3, 3));
  }, { passive: false });
  surface.addEventListener("keydown", (event) => {
    const [width, height] = chart.size();
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in moves) chart.step(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") chart.zoomAt(width / 2, height / 2, 0.8);
    else if (event.key === "-") chart.zoomAt(width / 2, height / 2, 1.25);
    else if (event.key === "0" || event.key === "Escape") chart.reset();
    else return;
    event.preventDefault();
  });
}

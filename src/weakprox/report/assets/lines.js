// Line plots as SVG: bands, lines, steps and stems; several panels share one legend.

const COLOURS = 7;
const DOTS_BELOW = 40; // points of a series that are few enough to be marked one by one
const REACH = 40; // pixels: how far from the cross-hair a series still has a value to show

class LinePlot {
  constructor(parent, panel, figure) {
    this.panel = panel;
    this.figure = figure;
    const label = (axis) => {
      const text = panel[`${axis}_label`];
      return text && panel[`log_${axis}`] ? `${text} (log)` : text;
    };
    this.labels = { x: label("x"), y: label("y") };
    const words = panel.title || [panel.y_label, panel.x_label].filter(Boolean).join(" against ");
    if (panel.title) element("h4", {}, panel.title, parent);
    this.surface = element("div", {
      class: "plot", tabindex: "0", role: "img",
      "aria-label": `${figure.block.title}: ${words}. Arrow keys read values, plus and minus zoom.`,
    }, null, parent);
    this.svg = shape("svg", { "aria-hidden": "false" }, this.surface);
    this.clip = `clip-${figure.block.id}-${figure.plots.length}`;
    this.series = panel.series.map((one) => {
      const x = one.x.map((value) => forward(value, panel.log_x));
      const y = one.y.map((value) => forward(value, panel.log_y));
      const low = one.low && one.low.map((value) => forward(value, panel.log_y));
      const high = one.high && one.high.map((value) => forward(value, panel.log_y));
      return { ...one, at: { x, y, low, high }, colour: figure.block.names.indexOf(one.name) };
    });
    this.wholeX = this.series.every((one) => one.stems) && !panel.log_x;
    this.zoomed = false;
    this.view = this.full();
    gestures(this.surface, this);
    redrawOnResize(this.surface, () => this.draw());
    charts.push(this);
    this.draw();
  }

  visible() {
    return this.series.filter((one) => !this.figure.hidden.has(one.name));
  }

  // The view that shows all that is visible.
  full() {
    const ends = { x: [Infinity, -Infinity], y: [Infinity, -Infinity] };
    const stretch = (axis, value) => {
      if (value === null) return;
      ends[axis] = [Math.min(ends[axis][0], value), Math.max(ends[axis][1], value)];
    };
    for (const one of this.visible()) {
      one.at.x.forEach((x, i) => {
        if (x === null || one.at.y[i] === null) return;
        stretch("x", x);
        for (const values of [one.at.y, one.at.low, one.at.high]) {
          if (values) stretch("y", values[i]);
        }
        if (one.stems && !this.panel.log_y) stretch("y", 0);
      });
    }
    let y = padded(...ends.y, 0.06);
    if (this.wholeX && this.panel.log_y) y[0] -= 0.1 * (y[1] - y[0]); // the shortest stem shows
    const wished = (this.panel.y_range || []).map((value) => forward(value, this.panel.log_y));
    if (wished.length === 2 && wished[0] !== null && wished[1] > wished[0]) y = wished;
    const stems = this.wholeX && ends.x[0] <= ends.x[1];
    return { x: stems ? [ends.x[0] - 0.6, ends.x[1] + 0.6] : padded(...ends.x, 0.03), y };
  }

  size() {
    return [this.width || 1, this.height || 1];
  }

  draw() {
    this.width = Math.max(this.surface.clientWidth, 120);
    this.height = clamp(this.width * 0.62, 210, 380);
    const yTicks = ticksOf(this.view.y, this.panel.log_y, Math.floor(this.height / 40));
    const longest = Math.max(3, ...yTicks.map((tick) => tick.label.length));
    const left = 12 + longest * 6.6 + (this.panel.y_label ? 18 : 0);
    const plot = this.plot = { left, right: this.width - 12, top: 10,
      bottom: this.height - (this.panel.x_label ? 42 : 26) };
    const panel = this.panel;
    const across = (gap) => ticksOf(this.view.x, this.panel.log_x,
      Math.max(2, Math.floor((plot.right - plot.left) / gap)), this.wholeX || panel.whole_x);
    const dense = across(38); // short labels may stand closer together
    const xTicks = dense.every((tick) => tick.label.length <= 3) ? dense : across(52);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.replaceChildren();
    shape("desc", {}, this.svg, this.describe());
    const clip = shape("clipPath", { id: this.clip }, this.svg);
    shape("rect", { x: plot.left, y: plot.top, width: plot.right - plot.left,
      height: plot.bottom - plot.top }, clip);
    this.drawAxes(xTicks, yTicks);
    const area = shape("g", { "clip-path": `url(#${this.clip})` }, this.svg);
    for (const one of this.visible()) this.drawBand(one, area);
    for (const one of this.visible()) this.drawSeries(one, area);
    if (!this.visible().some((one) => this.runs(one, one.at.y).length)) {
      const why = this.panel.log_x || this.panel.log_y ? "no positive values to draw"
        : "no values to draw";
      shape("text", { class: "empty", x: (plot.left + plot.right) / 2,
        y: (plot.top + plot.bottom) / 2 }, this.svg, why);
    }
    this.cross = shape("g", { class: "cross" }, this.svg);
  }

  describe() {
    const names = this.visible().map((one) => `${one.name} (${one.x.length} points)`);
    const range = (axis) => this.view[axis]
      .map((end) => short(backward(end, this.panel[`log_${axis}`]))).join(" to ");
    return `${names.join(", ")}; x from ${range("x")}, y from ${range("y")}.`;
  }

  px(x) {
    const { left, right } = this.plot;
    return left + ((x - this.view.x[0]) / (this.view.x[1] - this.view.x[0])) * (right - left);
  }

  py(y) {
    const { top, bottom } = this.plot;
    return bottom - ((y - this.view.y[0]) / (this.view.y[1] - this.view.y[0])) * (bottom - top);
  }

  // Stems over the same number stand side by side.
  place(one, i) {
    const stems = this.visible().filter((other) => other.stems);
    const aside = one.stems ? stems.indexOf(one) - (stems.length - 1) / 2 : 0;
    return this.px(one.at.x[i]) + 6 * aside;
  }

  drawAxes(xTicks, yTicks) {
    const { left, right, top, bottom } = this.plot;
    for (const tick of xTicks) {
      const x = this.px(tick.at);
      shape("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }, this.svg);
      const room = this.width - 3.3 * tick.label.length; // long ones stay inside
      shape("text", { class: "tick-x", x: Math.min(x, room), y: bottom + 15 }, this.svg, tick.label);
    }
    for (const tick of yTicks) {
      const y = this.py(tick.at);
      shape("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }, this.svg);
      shape("text", { class: "tick-y", x: left - 6, y: y + 4 }, this.svg, tick.label);
    }
    shape("path", { class: "frame", d: `M${left} ${top}V${bottom}H${right}` }, this.svg);
    const middle = [(left + right) / 2, (top + bottom) / 2];
    shape("text", { class: "label-x", x: middle[0], y: this.height - 6 }, this.svg,
      this.labels.x);
    shape("text", { class: "label-y", transform: `translate(13 ${middle[1]}) rotate(-90)` },
      this.svg, this.labels.y);
  }

  // Runs of neighbouring points that all exist, as lists of indices.
  runs(one, ...needed) {
    const found = [];
    let run = [];
    one.at.x.forEach((x, i) => {
      if (x !== null && needed.every((values) => values[i] !== null)) run.push(i);
      else if (run.length) { found.push(run); run = []; }
    });
    if (run.length) found.push(run);
    return found;
  }

  drawBand(one, area) {
    if (!one.low) return;
    const point = (i, values) => `${this.px(one.at.x[i]).toFixed(2)} ${this.py(values[i]).toFixed(2)}`;
    const d = this.runs(one, one.at.low, one.at.high).map((run) =>
      "M" + run.map((i) => point(i, one.at.high)).join("L") +
      "L" + [...run].reverse().map((i) => point(i, one.at.low)).join("L") + "Z").join("");
    shape("path", { class: `band s${one.colour % COLOURS}`, d }, area);
  }

  drawSeries(one, area) {
    const colour = `s${one.colour % COLOURS}`;
    const spot = (i) => [this.place(one, i).toFixed(2), this.py(one.at.y[i]).toFixed(2)];
    const runs = this.runs(one, one.at.y);
    const floor = this.panel.log_y ? this.plot.bottom : this.py(0);
    const d = runs.map((run) => {
      if (one.stems) return run.map((i) => `M${spot(i)[0]} ${floor}V${spot(i)[1]}`).join("");
      if (one.points) return run.map((i) => `M${spot(i).join(" ")}h0`).join("");
      return run.map((i, k) => {
        const [x, y] = spot(i);
        return k === 0 ? `M${x} ${y}` : one.steps ? `H${x}V${y}` : `L${x} ${y}`;
      }).join("");
    }).join("");
    const dashed = one.dashed || Math.floor(one.colour / COLOURS) % 2 === 1 ? " dashed" : "";
    const stems = one.stems ? " stems" : one.points ? " points" : "";
    shape("path", { class: `line ${colour}${dashed}${stems}`, d, "data-name": one.name }, area);
    const count = runs.reduce((sum, run) => sum + run.length, 0);
    if (one.points) return;
    for (const run of runs) {
      if (count > DOTS_BELOW && run.length > 1 && !one.stems) continue;
      for (const i of run) {
        const [cx, cy] = spot(i);
        shape("circle", { class: `dot ${colour}`, cx, cy, r: one.stems ? 3.2 : 2.4 }, area);
      }
    }
  }
  // ---- what the pointer does

  nearest(one, x) {
    let best = -1;
    one.at.x.forEach((at, i) => {
      if (at === null || one.at.y[i] === null) return;
      if (at < this.view.x[0] || at > this.view.x[1]) return;
      if (best < 0 || Math.abs(at - x) < Math.abs(one.at.x[best] - x)) best = i;
    });
    return best;
  }

  hover(px, py, event) {
    const { left, right } = this.plot;
    const share = clamp((px - left) / (right - left), 0, 1);
    this.read(this.view.x[0] + share * (this.view.x[1] - this.view.x[0]),
      event.clientX, event.clientY);
  }

  // Values nearest to x, marked in the plot and listed in the tooltip.
  read(x, clientX, clientY) {
    const found = this.visible().map((one) => ({ one, i: this.nearest(one, x) }))
      .filter(({ i }) => i >= 0);
    this.cross.replaceChildren();
    if (found.length === 0) { hideTooltip(); return; }
    const away = ({ one, i }) => Math.abs(one.at.x[i] - x);
    const closest = found.reduce((a, b) => (away(b) < away(a) ? b : a));
    const at = this.at = closest.one.at.x[closest.i];
    shape("line", { x1: this.px(at), x2: this.px(at), y1: this.plot.top, y2: this.plot.bottom },
      this.cross);
    const there = closest.one.x[closest.i];
    const heading = `${this.panel.x_label || "x"}: ${this.panel.whole_x ? there : short(there)}`;
    const lines = [];
    for (const { one, i } of found) {
      if (Math.abs(this.px(one.at.x[i]) - this.px(at)) > REACH) continue;
      shape("circle", { class: `s${one.colour % COLOURS}`, cx: this.place(one, i),
        cy: clamp(this.py(one.at.y[i]), this.plot.top, this.plot.bottom), r: 4 }, this.cross);
      const band = one.low ? ` [${short(one.low[i])}, ${short(one.high[i])}]` : "";
      const elsewhere = one.at.x[i] === at ? "" : ` at ${short(one.x[i])}`;
      lines.push({ swatch: one.colour % COLOURS, name: one.name,
        value: short(one.y[i]) + band + elsewhere });
    }
    showTooltip(clientX, clientY, heading, lines);
  }

  leave() {
    this.cross.replaceChildren();
    hideTooltip();
  }

  // Other panels that count the same along x follow.
  linked() {
    return this.panel.linked ? charts.filter((other) =>
      other !== this && other.panel && other.panel.linked === this.panel.linked) : [];
  }

  show(view, alone = false) {
    for (const axis of ["x", "y"]) {
      const span = view[axis][1] - view[axis][0];
      const least = 1e-12 * Math.max(1, Math.abs(view[axis][0]), Math.abs(view[axis][1]));
      if (!(span > least) || span > 1e6 * (this.full()[axis][1] - this.full()[axis][0])) return;
    }
    this.view = view;
    this.zoomed = true;
    this.draw();
    this.figure.changed();
    if (!alone) this.linked().forEach((other) => other.show({ x: view.x, y: other.view.y }, true));
  }

  zoomBox(x0, y0, x1, y1) {
    const { left, right, top, bottom } = this.plot;
    const xs = [x0, x1].map((x) => clamp((x - left) / (right - left), 0, 1)).sort((a, b) => a - b);
    const ys = [y0, y1].map((y) => clamp((bottom - y) / (bottom - top), 0, 1)).sort((a, b) => a - b);
    const part = (view, ends) => ends.map((end) => view[0] + end * (view[1] - view[0]));
    // A flat box means one axis only: nobody drags a straight line by intent.
    this.show({ x: Math.abs(x1 - x0) < 12 ? this.view.x : part(this.view.x, xs),
      y: Math.abs(y1 - y0) < 12 ? this.view.y : part(this.view.y, ys) });
  }

  zoomAt(px, py, factor) {
    const { left, right, top, bottom } = this.plot;
    const x = this.view.x[0] + ((px - left) / (right - left)) * (this.view.x[1] - this.view.x[0]);
    const y = this.view.y[0] + ((bottom - py) / (bottom - top)) * (this.view.y[1] - this.view.y[0]);
    this.show({ x: zoomed(this.view.x, x, factor), y: zoomed(this.view.y, y, factor) });
  }

  reset(alone = false) {
    this.view = this.full();
    this.zoomed = false;
    this.draw();
    this.figure.changed();
    if (!alone) this.linked().forEach((other) => other.reset(true));
  }

  // A series came or went: a view that nobody chose follows what is left.
  refit() {
    if (!this.zoomed) this.view = this.full();
    this.draw();
  }

  // Arrow keys: to the next point of any series, left or right.
  step(dx) {
    const all = this.visible().flatMap((one) => one.at.x.filter((x, i) =>
      x !== null && one.at.y[i] !== null && x >= this.view.x[0] && x <= this.view.x[1]));
    const sorted = [...new Set(all)].sort((a, b) => a - b);
    if (!dx || sorted.length === 0) return;
    const here = this.at === undefined ? (dx > 0 ? -Infinity : Infinity) : this.at;
    const next = dx > 0 ? sorted.find((x) => x > here) : sorted.findLast((x) => x < here);
    const x = next === undefined ? (dx > 0 ? sorted.at(-1) : sorted[0]) : next;
    const area = this.surface.getBoundingClientRect();
    this.read(x, area.left + (this.px(x) * area.width) / this.width, area.top + area.height / 2);
  }
}

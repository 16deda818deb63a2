// Heat maps on a canvas: diverging colours about zero, missing entries grey.

const STOPS = ["--map-low", "--map-below", "--map-zero", "--map-above", "--map-high"];
const LEAST_GAP = 14; // pixels between two labels
const MOST_LABEL = 96; // pixels a label may take
const MOST_LETTERS = 40; // more never fit: the rest is not even measured

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function palette(block) {
  const missing = channels(colourOf("--map-missing"));
  if (block.binary) {
    const [off, on] = [channels(colourOf("--map-off")), channels(colourOf("--map-on"))];
    return (value) => (value === null ? missing : value ? on : off);
  }
  const stops = STOPS.map((name) => channels(colourOf(name)));
  return (value) => {
    if (value === null) return missing;
    const place = clamp((value / block.limit + 1) * 2, 0, 4);
    const below = Math.min(3, Math.floor(place));
    return stops[below].map((c, k) => c + (place - below) * (stops[below + 1][k] - c));
  };
}

class HeatMap {
  constructor(parent, figure) {
    this.figure = figure;
    this.block = figure.block;
    this.rows = this.block.rows.length;
    this.columns = this.block.columns.length;
    this.surface = element("div", {
      class: "plot map", tabindex: "0", role: "img",
      "aria-label": `${this.block.title}: heat map of ${this.rows} by ${this.columns} cells. ` +
        "Arrow keys read cells, plus and minus zoom.",
    }, null, parent);
    // A cell of many entries is called "first … last"; beside the axis the first will do.
    const first = (name) => (this.block.reduced ? name.split(" … ")[0] : name);
    this.marks = { rows: this.block.rows.map(first), columns: this.block.columns.map(first) };
    this.canvas = element("canvas", {}, null, this.surface);
    this.cursor = element("div", { class: "cursor", hidden: "" }, null, this.surface);
    this.scale = element("div", { class: "scale" }, null, parent);
    this.zoomed = false;
    this.view = this.full();
    gestures(this.surface, this);
    redrawOnResize(this.surface, () => this.draw());
    charts.push(this);
    this.draw();
  }

  full() {
    return { x: [0, this.columns], y: [0, this.rows] };
  }

  size() {
    return [this.width || 1, this.height || 1];
  }

  // One pixel per cell; scaled up when drawn.
  image() {
    const made = element("canvas", { width: this.columns, height: this.rows });
    const context = made.getContext("2d");
    const pixels = context.createImageData(this.columns, this.rows);
    const colour = palette(this.block);
    this.block.cells.forEach((row, i) => row.forEach((value, j) => {
      const at = 4 * (i * this.columns + j);
      const [red, green, blue] = colour(value);
      pixels.data.set([red, green, blue, 255], at);
    }));
    context.putImageData(pixels, 0, 0);
    return made;
  }

  draw() {
    const context = this.canvas.getContext("2d");
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    this.width = Math.max(this.surface.clientWidth, 120);
    context.font = font;
    const wide = (names) => Math.min(MOST_LABEL, 2 + Math.max(0, ...names.map((name) =>
      context.measureText(name.slice(0, MOST_LETTERS)).width)));
    const left = Math.ceil(wide(this.marks.rows)) + 8;
    const across = this.width - left - 4;
    const columnWidth = wide(this.marks.columns);
    const turned = columnWidth > 34;
    const down = clamp((across * this.rows) / this.columns, 60, across * 1.2);
    this.plot = { left, top: 4, width: across, height: down };
    this.height = Math.ceil(4 + down + (turned ? columnWidth + 8 : 20));
    // Never fewer pixels than cells, or nearest-neighbour drawing would drop some.
    const ratio = Math.min(4, Math.max(window.devicePixelRatio || 1, this.columns / across,
      this.rows / down));
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = false;
    const { x, y } = this.view;
    context.drawImage(this.image(), x[0], y[0], x[1] - x[0], y[1] - y[0],
      left, 4, across, down);
    context.strokeStyle = colourOf("--line");
    context.strokeRect(left - 0.5, 3.5, across + 1, down + 1);
    context.font = font;
    context.fillStyle = colourOf("--quiet");
    this.drawLabels(context, turned, turned ? LEAST_GAP : columnWidth + 10);
    this.drawScale();
  }

  drawLabels(context, turned, columnGap) {
    const { left, top, width, height } = this.plot;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const over = (text) => context.measureText(text).width > MOST_LABEL;
    const fit = (name) => {
      const kept = [...name.slice(0, MOST_LETTERS)]; // whole characters
      if (name.length <= MOST_LETTERS && !over(name)) return name;
      while (kept.length > 1 && over(kept.join("") + "…")) kept.pop();
      return kept.join("") + "…";
    };
    for (const [i, y] of this.places(this.view.y, height, LEAST_GAP)) {
      context.fillText(fit(this.marks.rows[i]), left - 5, top + y);
    }
    for (const [j, x] of this.places(this.view.x, width, columnGap)) {
      const name = fit(this.marks.columns[j]);
      const half = turned ? 0 : context.measureText(name).width / 2; // kept off the edge
      context.save();
      context.translate(Math.min(left + x, this.width - half), top + height + (turned ? 5 : 10));
      if (turned) context.rotate(-Math.PI / 2);
      context.textAlign = turned ? "right" : "center";
      context.fillText(name, 0, 0);
      context.restore();
    }
  }

  // Every so many cells of the view that labels keep their distance: [index, middle].
  places(view, length, gap) {
    const pixels = length / (view[1] - view[0]);
    const every = Math.max(1, Math.ceil(gap / pixels));
    const found = [];
    for (let i = Math.max(0, Math.floor(view[0])); i < view[1]; i++) {
      const middle = (i + 0.5 - view[0]) * pixels;
      if (i % every === 0 && middle >= 0 && middle <= length) found.push([i, middle]);
    }
    return found;
  }

  drawScale() {
    this.scale.replaceChildren();
    const missing = this.block.cells.some((row) => row.includes(null));
    if (this.block.binary) {
      element("span", { class: "chip on" }, "", this.scale);
      element("span", {}, "entry", this.scale);
      element("span", { class: "chip off" }, "", this.scale);
      element("span", {}, "zero", this.scale);
    } else {
      const beyond = (sign) => this.block.cells.some((row) =>
        row.some((value) => value !== null && sign * value > this.block.limit * 1.0001));
      const limit = Number(this.block.limit.toPrecision(3));
      element("span", {}, (beyond(-1) ? "≤ " : "") + short(-limit), this.scale);
      element("span", { class: "ramp" }, "", this.scale);
      element("span", {}, (beyond(1) ? "≥ " : "") + short(limit), this.scale);
    }
    if (missing) {
      element("span", { class: "chip missing" }, "", this.scale);
      element("span", {}, "missing", this.scale);
    }
  }

  hover(px, py, event) {
    const { left, top, width, height } = this.plot;
    const { x, y } = this.view;
    const j = Math.floor(x[0] + ((px - left) / width) * (x[1] - x[0]));
    const i = Math.floor(y[0] + ((py - top) / height) * (y[1] - y[0]));
    const outside = px < left || py < top || px > left + width || py > top + height;
    if (outside || i < 0 || j < 0 || i >= this.rows || j >= this.columns) this.leave();
    else this.read(i, j, event.clientX, event.clientY);
  }

  read(i, j, clientX, clientY) {
    this.at = [i, j];
    const { left, top, width, height } = this.plot;
    const { x, y } = this.view;
    const [w, h] = [width / (x[1] - x[0]), height / (y[1] - y[0])];
    this.cursor.hidden = false;
    this.cursor.style.left = `${left + (j - x[0]) * w - 1}px`;
    this.cursor.style.top = `${top + (i - y[0]) * h - 1}px`;
    this.cursor.style.width = `${Math.max(w, 2)}px`;
    this.cursor.style.height = `${Math.max(h, 2)}px`;
    const value = this.block.cells[i][j];
    const text = value === null ? "missing" : this.block.binary ? (value ? "entry" : "zero")
      : short(value);
    showTooltip(clientX, clientY, text, [
      { name: "row", value: this.block.rows[i] }, { name: "column", value: this.block.columns[j] }]);
  }

  leave() {
    this.cursor.hidden = true;
    hideTooltip();
  }

  show(view, alone = false) {
    const whole = this.full();
    const kept = {};
    for (const axis of ["x", "y"]) {
      const span = clamp(view[axis][1] - view[axis][0], Math.min(2, whole[axis][1]), whole[axis][1]);
      const first = clamp(view[axis][0], 0, whole[axis][1] - span);
      kept[axis] = [first, first + span];
    }
    this.view = kept;
    this.zoomed = JSON.stringify(kept) !== JSON.stringify(whole);
    this.leave();
    this.draw();
    this.figure.changed();
    if (!alone) this.linked().forEach((other) => other.show(kept, true));
  }

  // Other maps of the same matrix follow.
  linked() {
    return this.block.linked ? charts.filter((other) =>
      other !== this && other.block && other.block.linked === this.block.linked
      && other.rows === this.rows && other.columns === this.columns) : [];
  }

  // From pixels to cells.
  cell(px, py) {
    const { left, top, width, height } = this.plot;
    const { x, y } = this.view;
    return [x[0] + clamp((px - left) / width, 0, 1) * (x[1] - x[0]),
      y[0] + clamp((py - top) / height, 0, 1) * (y[1] - y[0])];
  }

  zoomBox(x0, y0, x1, y1) {
    const [a, b] = [this.cell(x0, y0), this.cell(x1, y1)];
    const ends = (k) => [Math.floor(Math.min(a[k], b[k])), Math.ceil(Math.max(a[k], b[k]))];
    this.show({ x: ends(0), y: ends(1) });
  }

  zoomAt(px, py, factor) {
    const [x, y] = this.cell(px, py);
    this.show({ x: zoomed(this.view.x, x, factor), y: zoomed(this.view.y, y, factor) });
  }

  reset() {
    this.show(this.full());
  }

  step(dx, dy) {
    const [i, j] = this.at || [Math.floor(this.view.y[0]) - dy, Math.floor(this.view.x[0]) - dx];
    const row = clamp(i + dy, Math.floor(this.view.y[0]), Math.ceil(this.view.y[1]) - 1);
    const column = clamp(j + dx, Math.floor(this.view.x[0]), Math.ceil(this.view.x[1]) - 1);
    const area = this.surface.getBoundingClientRect();
    const { left, top, width, height } = this.plot;
    const { x, y } = this.view;
    this.read(row, column, area.left + left + ((column + 0.5 - x[0]) / (x[1] - x[0])) * width,
      area.top + top + ((row + 0.5 - y[0]) / (y[1] - y[0])) * height);
  }
}

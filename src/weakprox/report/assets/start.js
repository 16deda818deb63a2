// Reads the page's data, fills every figure, and keeps colours and print in step.

class FigureView {
  constructor(block) {
    this.block = block;
    this.hidden = new Set();
    this.plots = [];
    const frame = document.getElementById(block.id);
    const drawing = frame.querySelector(".drawing");
    this.tools = element("div", { class: "tools" }, null, frame.querySelector("figcaption"));
    if (block.kind === "panels") this.fillPanels(drawing);
    if (block.kind === "heatmap") this.plots.push(new HeatMap(drawing, this));
    if (this.plots.length === 0) return;
    this.resetButton = element("button", { type: "button", class: "reset", hidden: "" },
      "Reset zoom", this.tools);
    this.resetButton.addEventListener("click", () => this.plots.forEach((plot) => plot.reset()));
    const save = element("button", { type: "button", class: "save",
      "aria-label": `Data of ${block.title} as CSV` }, "CSV", this.tools);
    save.addEventListener("click", () => download(`${block.id}.csv`, csv(this.rows())));
  }

  fillPanels(drawing) {
    if (this.block.names.length > 1) this.fillLegend(drawing);
    const row = element("div", { class: "row-of-panels" }, null, drawing);
    for (const panel of this.block.panels) {
      const place = element("div", { class: "panel" }, null, row);
      this.plots.push(new LinePlot(place, panel, this));
    }
  }

  fillLegend(drawing) {
    const legend = element("div", { class: "legend", role: "group", "aria-label": "Series" },
      null, drawing);
    const all = this.block.panels.flatMap((panel) => panel.series);
    this.block.names.forEach((name, index) => {
      const button = element("button", { type: "button", "aria-pressed": "true",
        title: "Show or hide this series" }, null, legend);
      const dashed = all.find((one) => one.name === name).dashed
        || Math.floor(index / COLOURS) % 2 === 1;
      const key = shape("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, button);
      shape("path", { class: `line s${index % COLOURS}${dashed ? " dashed" : ""}`, d: "M1 5H25" }, key);
      element("span", {}, name, button);
      button.addEventListener("click", () => {
        const gone = this.hidden.delete(name) ? false : Boolean(this.hidden.add(name));
        button.setAttribute("aria-pressed", String(!gone));
        this.plots.forEach((plot) => plot.refit());
      });
    });
  }

  changed() {
    if (this.resetButton) this.resetButton.hidden = !this.plots.some((plot) => plot.zoomed);
  }

  // The data as a table: one line per point, or the matrix with its labels.
  rows() {
    if (this.block.kind === "heatmap") {
      return [["", ...this.block.columns],
        ...this.block.cells.map((row, i) => [this.block.rows[i], ...row])];
    }
    const rows = [["panel", "series", "x", "y", "low", "high"]];
    this.block.panels.forEach((panel, k) => panel.series.forEach((one) => one.x.forEach((x, i) =>
      rows.push([panel.title || panel.x_label || k + 1, one.name, x, one.y[i],
        one.low ? one.low[i] : "", one.high ? one.high[i] : ""]))));
    return rows;
  }
}

function redraw() {
  charts.forEach((chart) => chart.draw());
}

function start() {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const button = document.getElementById("theme");
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  document.body.appendChild(tooltip);
  button.hidden = false;
  name();
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
    redraw();
  });
  system.addEventListener("change", () => { name(); redraw(); });

  const data = JSON.parse(document.getElementById("report-data").textContent);
  for (const block of data.figures) new FigureView(block);

  // Paper is white, and canvases do not follow a style sheet by themselves.
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme || "";
    root.dataset.theme = "light";
    redraw();
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    redraw();
  });
  window.addEventListener("scroll", hideTooltip, { passive: true });
  root.dataset.drawn = "yes";
}

start();

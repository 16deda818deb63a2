// Small helpers: elements, numbers as text, the tooltip, downloads.

const DASH = "–";
const charts = []; // everything that draws itself anew when size or colours change

function element(name, attributes = {}, text = null, parent = null) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

function shape(name, attributes = {}, parent = null, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// Six digits, as the tables of the page show them.
function short(value) {
  if (!isNumber(value)) return DASH;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) {
    const [digits, power] = value.toExponential(5).split("e");
    return `${Number(digits)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  }
  return String(Number(value.toPrecision(6)));
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

function colourOf(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

// ---- one tooltip for the page

const tooltip = element("div", { id: "tooltip", role: "status", "aria-live": "polite" });

// A longer name would cover the screen.
function cut(text) {
  return text.length > 200 ? [...text.slice(0, 200)].slice(0, -1).join("") + "…" : text;
}

// `lines` holds {swatch, name, value}; all of it is set as text, never as markup.
function showTooltip(clientX, clientY, heading, lines) {
  tooltip.replaceChildren();
  element("div", { class: "heading" }, heading, tooltip);
  for (const line of lines) {
    const row = element("div", { class: "row" }, null, tooltip);
    if (line.swatch !== undefined) element("span", { class: `swatch s${line.swatch}` }, "", row);
    element("span", { class: "name" }, cut(line.name), row);
    element("span", { class: "value" }, cut(line.value), row);
  }
  tooltip.classList.add("shown");
  const box = tooltip.getBoundingClientRect();
  const right = clientX + 16 + box.width > window.innerWidth - 4;
  const left = right ? clientX - 16 - box.width : clientX + 16;
  tooltip.style.left = `${clamp(left, 4, Math.max(4, window.innerWidth - box.width - 4))}px`;
  const top = clamp(clientY - box.height / 2, 4, window.innerHeight - box.height - 4);
  tooltip.style.top = `${top}px`;
}

function hideTooltip() {
  tooltip.classList.remove("shown");
}

// ---- data as CSV

function csvCell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csv(rows) {
  return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function download(name, text) {
  const blob = new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" });
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// Drawing may change the size that is observed: so it waits for the next frame, or the
// browser would report a loop.
function redrawOnResize(node, draw) {
  let waiting = false;
  new ResizeObserver(() => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }).observe(node);
}

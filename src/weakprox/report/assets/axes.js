// Axes: a view is a pair of ends, in powers of ten on logarithmic axes.

const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶",
  7: "⁷", 8: "⁸", 9: "⁹" };

function forward(value, log) {
  if (!isNumber(value)) return null;
  if (!log) return value;
  return value > 0 ? Math.log10(value) : null;
}

function backward(position, log) {
  return log ? 10 ** position : position;
}

// Ends with a little air; a lone value gets room around it.
function padded(low, high, share) {
  if (!(low <= high)) return [0, 1];
  if (low === high) {
    const room = Math.abs(low) * 0.05 || 1;
    return [low - room, high + room];
  }
  const room = (high - low) * share;
  return [low - room, high + room];
}

function powerOfTen(exponent) {
  if (exponent >= -2 && exponent <= 4) return String(Number((10 ** exponent).toPrecision(1)));
  return "10" + [...String(exponent)].map((c) => SUPERSCRIPTS[c]).join("");
}

function niceStep(span, count) {
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((multiple) => multiple * power >= rough * 0.999);
  return step * power;
}

function linearLabel(value, step) {
  if (Math.abs(value) < step / 1e6) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) {
    const digits = clamp(Math.ceil(Math.log10(size / step) - 1e-9), 0, 15);
    const [mantissa, power] = value.toExponential(digits).split("e");
    const tens = "10" + [...String(Number(power))].map((c) => SUPERSCRIPTS[c]).join("");
    return Number(mantissa) === 1 ? tens : `${Number(mantissa)}·${tens}`;
  }
  return value.toFixed(clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 12));
}

function linearTicks(view, count, whole) {
  let step = niceStep(view[1] - view[0], count);
  if (whole) step = Math.max(1, Math.round(step));
  const ticks = [];
  const first = Math.ceil(view[0] / step - 1e-9);
  for (let k = first; k * step <= view[1] + step * 1e-9 && ticks.length < 50; k++) {
    ticks.push({ at: k * step, label: linearLabel(k * step, step) });
  }
  return ticks;
}

function logTicks(view, count, whole) {
  const decades = view[1] - view[0];
  if (decades < 0.7) {
    // Less than a decade: round numbers, at their places on the logarithmic axis.
    const ends = [10 ** view[0], 10 ** view[1]];
    return linearTicks(ends, Math.min(count, 4), whole)
      .filter((tick) => tick.at > 0)
      .map((tick) => ({ at: Math.log10(tick.at), label: tick.label }));
  }
  const step = Math.max(1, Math.ceil(decades / count));
  const multiples = decades < 1.5 ? [1, 2, 5] : decades < 2.5 && count > 5 ? [1, 3] : [1];
  const ticks = [];
  for (let p = Math.floor(view[0]); p <= Math.ceil(view[1]); p++) {
    if (((p % step) + step) % step !== 0) continue;
    for (const multiple of multiples) {
      const at = p + Math.log10(multiple);
      if (at < view[0] - 1e-9 || at > view[1] + 1e-9) continue;
      const plain = p >= -3 && p <= 3 && multiple !== 1;
      const label = multiple === 1 ? powerOfTen(p)
        : plain ? String(Number((multiple * 10 ** p).toPrecision(2)))
        : `${multiple}·${powerOfTen(p)}`;
      ticks.push({ at, label });
    }
  }
  return ticks;
}

function ticksOf(view, log, count, whole = false) {
  return log ? logTicks(view, count, whole) : linearTicks(view, count, whole);
}

// The part of [low, high] around `centre` that a zoom by `factor` leaves.
function zoomed(view, centre, factor) {
  return [centre - (centre - view[0]) * factor, centre + (view[1] - centre) * factor];
}

// Strips: what a client's level, lag and retention were over the last minute, in columns of a second.
// Each is drawn once a column: drawing is what a page costs, and dials show what is now.

import { set } from "./dial.js";
import { WINDOW_S } from "./model.js";

const COLUMN_S = 1, COLUMNS = WINDOW_S / COLUMN_S, HEIGHT = 40, PAD = 3;
const column = (at) => Math.floor(at / COLUMN_S);
const last = (points, key) => points.at(-1)[key];

export const STRIPS = [
  { key: "level", title: "Level", unit: "share", has_range: true, of: last },
  // The largest of a column: a gap over LIMIT is not to be missed.
  { key: "delta", title: "Lag", unit: "packets",
    of: (points, key) => Math.max(...points.map((point) => point[key])) },
  { key: "retained", title: "Retained", unit: "share", of: last },
];

export class Strip {
  constructor(svg, strip, about) {
    Object.assign(this, { strip, about, drawn: null });
    for (const name of ["band", "limit", "line", "latest"]) this[name] = svg.querySelector(`.${name}`);
  }

  // Whether there was something new.
  draw(history, now) {
    const end = column(now);
    // What is past may become another one: in a replay, and where a page comes back.
    const seen = `${end} ${history.length ? column(history[0].at) : ""}`;
    if (this.drawn === seen) return false;
    this.drawn = seen;
    const columns = this.columns(history, end);
    const values = columns.map(({ points }) => this.strip.of(points, this.strip.key));
    const limit = this.strip.key === "delta" ? this.about.limit : null;
    const top = this.strip.unit === "share" ? 1
      : Math.max((this.about.limit ?? this.about.buffer) * 1.25, ...values);
    const y = (value) => (HEIGHT - PAD - value / top * (HEIGHT - 2 * PAD)).toFixed(1);
    const line = columns.map(({ x }, place) => `${x} ${y(values[place])}`);
    set(this.line, { d: line.length ? `M${line.join("L")}` : "" });
    // Within the strip, whose end cuts it off.
    set(this.latest, { d: line.length ? `M${columns.at(-1).x - 1} ${y(values.at(-1))}h0` : "" });
    set(this.limit, { d: limit ? `M0 ${y(limit)}H${COLUMNS}` : "" });
    if (this.strip.has_range) set(this.band, { d: range(columns, y) });
    return true;
  }

  // Where there is something to show: the column's place, and its points.
  columns(history, end) {
    const made = new Map();
    for (const point of history) {
      const x = COLUMNS - (end - column(point.at));
      if (point[this.strip.key] === null || x < 0 || x > COLUMNS) continue;
      if (made.has(x)) made.get(x).push(point);
      else made.set(x, [point]);
    }
    return [...made].map(([x, points]) => ({ x, points }));
  }
}

// A rectangle for as long as the range stays the same.
function range(columns, y) {
  const parts = [];
  for (const { x, points } of columns) {
    const { low, high } = points.at(-1), part = parts.at(-1);
    if (part) part.to = x;
    if (!part || part.low !== low || part.high !== high) parts.push({ low, high, from: x, to: x });
  }
  return parts.map((part) => `M${part.from} ${y(part.low)}H${part.to}V${y(part.high)}H${part.from}Z`).join("");
}

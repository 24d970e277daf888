// Strips: what a client's level, lag and retention were over the last minute, in columns of a second.
// They are drawn once a column, on a canvas: of a document, all that is near them would be drawn anew.

import { percent, WINDOW_S } from "./model.js";

const COLUMN_S = 1, COLUMNS = WINDOW_S / COLUMN_S, PAD = 3, DOT = 2.5;
const GRID = [15, 30, 45].map((seconds) => seconds / COLUMN_S);
const column = (at) => Math.floor(at / COLUMN_S);
const last = (points, key) => points.at(-1)[key];
const share = { top: () => 1, words: percent };

const STRIPS = [
  { key: "level", title: "Level", colour: "--level", has_range: true, of: last, ...share },
  // The largest of a column: a gap over LIMIT is not to be missed.
  { key: "delta", title: "Lag", colour: "--lag", words: String,
    of: (points, key) => Math.max(...points.map((point) => point[key])),
    limit: (about) => about.limit,
    top: (about, values) => Math.max((about.limit ?? about.buffer) * 1.25, ...values) },
  { key: "retained", title: "Retained", colour: "--retained", of: last, ...share },
];

export class Strips {
  constructor(parent, name, about) {
    Object.assign(this, { parent, name, about, seen: null, history: [], end: 0 });
    this.plots = STRIPS.map((strip) => this.row(strip));
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.context = this.canvas.getContext("2d");
    parent.append(this.canvas);
    new ResizeObserver(() => this.fit()).observe(parent);
  }

  // A strip's row of the page, and the place in it for what is drawn.
  row(strip) {
    const row = document.getElementById("strip").content.cloneNode(true).firstElementChild;
    row.dataset.strip = strip.key;
    const what = row.querySelector(".what"), limit = strip.limit?.(this.about);
    what.textContent = strip.title;
    if (limit) {
      const small = document.createElement("small");
      small.textContent = `LIMIT ${limit}`;
      what.append(small);
    }
    this.parent.append(row);
    return row.querySelector(".plot");
  }

  // As many points as the screen has there, and the page's own colours and letters.
  fit() {
    const { width, height, left, top } = this.canvas.getBoundingClientRect();
    if (!width) return;
    const style = getComputedStyle(this.canvas), named = (name) => style.getPropertyValue(name);
    this.width = width;
    this.height = height;
    this.boxes = this.plots.map((plot) => {
      const box = plot.getBoundingClientRect();
      return { left: box.left - left, top: box.top - top + PAD, width: box.width, height: box.height - 2 * PAD };
    });
    this.colours = { ink: style.color, band: named("--band"), grid: named("--line"), limit: named("--bad"),
                     lines: STRIPS.map((strip) => named(strip.colour)) };
    this.canvas.width = Math.round(width * devicePixelRatio);
    this.canvas.height = Math.round(height * devicePixelRatio);
    this.context.scale(devicePixelRatio, devicePixelRatio);
    Object.assign(this.context, { font: `600 ${style.fontSize} ${style.fontFamily}`, lineJoin: "bevel",
                                  textAlign: "right", textBaseline: "middle" });
    this.paint();
  }

  draw(history, now) {
    const end = column(now);
    // What is past may become another one: in a replay, and where a page comes back.
    const seen = `${end} ${history.length ? column(history[0].at) : ""}`;
    if (this.seen === seen) return;
    Object.assign(this, { seen, history, end });
    this.paint();
  }

  paint() {
    if (!this.boxes) return;
    this.context.clearRect(0, 0, this.width, this.height);
    const words = STRIPS.map((strip, place) => {
      const said = this.strip(strip, this.boxes[place], this.colours.lines[place]);
      return `${strip.title.toLowerCase()} ${said}`;
    });
    this.canvas.setAttribute("aria-label", `The last minute of ${this.name}; now: ${words.join(", ")}`);
  }

  // Draw one, and say its latest value.
  strip(strip, box, colour) {
    const columns = this.columns(strip.key), values = columns.map(({ points }) => strip.of(points, strip.key));
    const top = strip.top(this.about, values), limit = strip.limit?.(this.about);
    const x = (place) => box.left + place / COLUMNS * box.width;
    const y = (value) => box.top + (1 - value / top) * box.height;
    if (strip.has_range) this.range(columns, x, y);
    const { context } = this, { grid, ink } = this.colours;
    context.fillStyle = grid;
    for (const place of GRID) context.fillRect(Math.round(x(place)), box.top - PAD, 1, box.height + 2 * PAD);
    if (limit) {
      context.setLineDash([4, 3]);
      this.line([[x(0), y(limit)], [x(COLUMNS), y(limit)]], this.colours.limit, 1);
      context.setLineDash([]);
    }
    this.line(columns.map((one, place) => [x(one.x), y(values[place])]), colour, 1.75);
    if (values.length) this.dot(x(columns.at(-1).x) - DOT, y(values.at(-1)), colour);
    const latest = this.history.at(-1)?.[strip.key] ?? null, words = latest === null ? "–" : strip.words(latest);
    context.fillStyle = ink;
    context.fillText(words, this.width, box.top + box.height / 2);
    return words;
  }

  line(points, colour, width) {
    const { context } = this;
    Object.assign(context, { strokeStyle: colour, lineWidth: width });
    context.beginPath();
    for (const point of points) context.lineTo(...point);
    context.stroke();
  }

  dot(x, y, colour) {
    this.context.fillStyle = colour;
    this.context.beginPath();
    this.context.arc(x, y, DOT, 0, 2 * Math.PI);
    this.context.fill();
  }

  // A rectangle for as long as the range stays the same.
  range(columns, x, y) {
    const parts = [];
    for (const { x: place, points } of columns) {
      const { low, high } = points.at(-1), part = parts.at(-1);
      if (part) part.to = place;
      if (!part || part.low !== low || part.high !== high) parts.push({ low, high, from: place, to: place });
    }
    this.context.fillStyle = this.colours.band;
    for (const { low, high, from, to } of parts) {
      this.context.fillRect(x(from), y(high), x(to) - x(from), y(low) - y(high));
    }
  }

  // Where there is something to show: the column's place, and its points.
  columns(key) {
    const made = new Map();
    for (const point of this.history) {
      const x = COLUMNS - (this.end - column(point.at));
      if (point[key] === null || x < 0 || x > COLUMNS) continue;
      if (made.has(x)) made.get(x).push(point);
      else made.set(x, [point]);
    }
    return [...made].map(([x, points]) => ({ x, points }));
  }
}

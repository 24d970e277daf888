// Strips: what a client's level, lag and retention were over the last minute, drawn on a canvas.

import { WINDOW_S } from "./model.js";

export const STRIPS = [
  { key: "level", title: "Level", colour: "--level", top: () => 1, unit: "share" },
  { key: "delta", title: "Lag", colour: "--lag", unit: "packets",
    top: (history, about) => Math.max((about.limit ?? about.buffer) * 1.25,
                                      ...history.map((point) => point.delta)) },
  { key: "retained", title: "Retained", colour: "--retained", top: () => 1, unit: "share" },
];

// A canvas knows no variables of the style sheet: they are read once for each colour scheme.
let inks = {};
const read = () => {
  const style = getComputedStyle(document.documentElement);
  inks = Object.fromEntries(["--level", "--lag", "--retained", "--line", "--muted", "--band", "--bad"]
    .map((name) => [name, style.getPropertyValue(name).trim()]));
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", read);

export class Strip {
  constructor(canvas, strip) {
    Object.assign(this, { canvas, strip, width: 0, height: 0 });
    if (!inks["--level"]) read();
    // Asking for a size each time would lay out the page each time.
    new ResizeObserver(() => this.fit()).observe(canvas);
  }

  fit() {
    const { canvas } = this, ratio = devicePixelRatio || 1;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    this.pen = canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.last) this.draw(...this.last);
  }

  draw(history, now, about) {
    this.last = [history, now, about];
    const { pen, strip, width, height } = this;
    if (!width) return;
    pen.clearRect(0, 0, width, height);
    const top = strip.top(history, about), pad = 3;
    const x = (at) => width - (now - at) / WINDOW_S * width;
    const y = (value) => height - pad - value / top * (height - 2 * pad);
    this.grid(pen, width, height, x, now);
    if (strip.key === "level") this.range(pen, history, x, y);
    if (strip.key === "delta" && about.limit) this.limit(pen, width, y(about.limit));
    this.line(pen, history, x, y);
  }

  grid(pen, width, height, x, now) {
    pen.strokeStyle = inks["--line"];
    pen.lineWidth = 1;
    pen.beginPath();
    for (let back = 15; back < WINDOW_S; back += 15) {
      const at = Math.round(x(now - back)) + 0.5;
      pen.moveTo(at, 0);
      pen.lineTo(at, height);
    }
    pen.stroke();
  }

  range(pen, history, x, y) {
    if (!history.length) return;
    pen.fillStyle = inks["--band"];
    pen.beginPath();
    for (const point of history) pen.lineTo(x(point.at), y(point.high));
    for (const point of history.toReversed()) pen.lineTo(x(point.at), y(point.low));
    pen.fill();
  }

  limit(pen, width, at) {
    pen.strokeStyle = inks["--bad"];
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(0, at);
    pen.lineTo(width, at);
    pen.stroke();
    pen.setLineDash([]);
  }

  line(pen, history, x, y) {
    const points = history.filter((point) => point[this.strip.key] !== null);
    if (!points.length) return;
    pen.strokeStyle = inks[this.strip.colour];
    pen.lineWidth = 1.75;
    pen.lineJoin = "round";
    pen.beginPath();
    for (const point of points) pen.lineTo(x(point.at), y(point[this.strip.key]));
    pen.stroke();
    const last = points.at(-1);
    pen.fillStyle = inks[this.strip.colour];
    pen.beginPath();
    pen.arc(Math.min(x(last.at), this.width - 2.5), y(last[this.strip.key]), 2.5, 0, 7);
    pen.fill();
  }
}

export const repaint = read;

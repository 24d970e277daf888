// The level now on a dial: an arc up to it, a pointer and the number. They change five times a second, and
// are drawn on a canvas: what changes in a document is styled, laid out and painted anew each time.

import { angle, CENTRE, point, RADIUS, VIEW } from "./geometry.js";

const TELLING_MS = 1000, GAP = 3, BASELINE = 10, SIZE = 38, UNIT_SIZE = 18;
// The part of the dial that the arc encloses: what is drawn is paid for by the point.
const PART = { left: 48, top: 40, width: 164, height: 142 };
const share = (length, of) => `${100 * length / of}%`;

export class Pointer {
  constructor(parent, name) {
    Object.assign(this, { name, level: null, drawn: undefined, widths: new Map() });
    this.canvas = document.createElement("canvas");
    this.canvas.className = "pointer";
    Object.assign(this.canvas.style, {
      left: share(PART.left - VIEW.left, VIEW.width), width: share(PART.width, VIEW.width),
      top: share(PART.top - VIEW.top, VIEW.height), height: share(PART.height, VIEW.height) });
    this.canvas.setAttribute("role", "img");
    this.context = this.canvas.getContext("2d");
    parent.append(this.canvas);
    new ResizeObserver(() => this.fit()).observe(this.canvas);
    this.tell();
  }

  // A level, or null where there is none; what is the same as before to the per cent costs nothing.
  show(level) {
    const shown = level === null ? null : Math.round(100 * level);
    // In words once a second, nobody listens faster; and also where it is out of sight, and not drawn.
    if (shown !== this.level) this.telling ??= setTimeout(() => this.tell(), TELLING_MS);
    this.level = shown;
    if (shown !== this.drawn && this.scale) this.draw();
  }

  tell() {
    this.telling = null;
    this.canvas.setAttribute("aria-label", `${this.name}: ${
      this.level === null ? "no level now" : `${this.level} per cent verified now`}`);
  }

  // As many points as the screen has there, and the page's own colours and letters.
  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas, style = getComputedStyle(this.canvas);
    if (!width) return;
    this.canvas.width = Math.round(width * devicePixelRatio);
    this.canvas.height = Math.round(height * devicePixelRatio);
    this.scale = this.canvas.width / PART.width;
    this.ink = style.color;
    this.muted = style.getPropertyValue("--muted");
    this.line = style.getPropertyValue("--level");
    // Once: a change of letters has the whole page's style looked at.
    this.context.font = `600 ${SIZE}px ${style.fontFamily}`;
    this.context.lineWidth = 3;
    this.widths.clear();
    this.draw();
  }

  draw() {
    const { context, level } = this;
    this.drawn = level;
    this.place();
    context.clearRect(PART.left, PART.top, PART.width + 1, PART.height + 1);
    this.write(level === null ? "–" : String(level), level === null ? "" : "%");
    if (level !== null) this.point(level / 100);
  }

  // Where a point of the dial is, `size` times as large as it is on the dial.
  place(left = 0, top = 0, size = 1) {
    const { scale } = this;
    this.context.setTransform(size * scale, 0, 0, size * scale, (left - PART.left) * scale, (top - PART.top) * scale);
  }

  write(number, unit) {
    const { context } = this, small = UNIT_SIZE / SIZE, wide = this.width(number);
    const width = unit ? wide + GAP + small * this.width(unit) : wide;
    const left = CENTRE[0] - width / 2, baseline = CENTRE[1] + BASELINE;
    context.fillStyle = this.ink;
    context.fillText(number, left, baseline);
    if (!unit) return;
    context.fillStyle = this.muted;
    this.place(left + wide + GAP, baseline, small);
    context.fillText(unit, 0, 0);
    this.place();
  }

  // Of figures, all as wide as one another.
  width(text) {
    const alike = text.replace(/\d/g, "0");
    if (!this.widths.has(alike)) this.widths.set(alike, this.context.measureText(alike).width);
    return this.widths.get(alike);
  }

  point(level) {
    const { context } = this;
    context.strokeStyle = context.fillStyle = this.line;
    context.beginPath();
    context.arc(...CENTRE, RADIUS - 9, angle(0), angle(level));
    context.stroke();
    context.beginPath();
    context.moveTo(...point(level, RADIUS - 11));
    context.lineTo(...point(level - 0.022, RADIUS - 27));
    context.lineTo(...point(level + 0.022, RADIUS - 27));
    context.fill();
  }
}

// A dial: the range that a user permits between two handles, the floor marked, the level now.

import { CENTRE, FROM, point, RADIUS, SWEEP, VIEW } from "./geometry.js";
import { Pointer } from "./pointer.js";
import { put } from "./put.js";

const SVG = "http://www.w3.org/2000/svg";
const STEP = 0.01, LEAP = 0.1, QUIET_MS = 350;

const clamp = (level, low, high) => Math.min(Math.max(level, low), high);

function arc(from, to, radius) {
  const [x0, y0] = point(from, radius), [x1, y1] = point(Math.max(to, from + 0.0005), radius);
  return `M${x0} ${y0}A${radius} ${radius} 0 ${(to - from) * SWEEP > 180 ? 1 : 0} 1 ${x1} ${y1}`;
}

function made(parent, kind, attributes = {}) {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

// Sets what differs from what is there.
function set(element, attributes) {
  const there = element.there ??= {};
  for (const [name, value] of Object.entries(attributes)) {
    if (there[name] === value) continue;
    there[name] = value;
    element.setAttribute(name, value);
  }
}

export class Dial {
  // `onTurn` gets {low, high, level} when the user has let go.
  constructor(parent, name, onTurn) {
    this.onTurn = onTurn;
    this.wish = { low: 0, high: 1, level: 1 };
    this.hasSetPoint = this.isEnabled = false;
    this.svg = made(parent, "svg", { viewBox: Object.values(VIEW).join(" "), class: "dial", role: "group",
                                     "aria-label": `Dial of ${name}` });
    this.draw(name);
    // What changes with each reading lies above what does not, which is then not drawn anew.
    this.pointer = new Pointer(parent, name);
  }

  draw(name) {
    made(this.svg, "path", { class: "track", d: arc(0, 1, RADIUS) });
    this.band = made(this.svg, "path", { class: "band" });
    const ticks = Array.from({ length: 21 }, (_, tick) => `M${point(tick / 20, RADIUS - 15)}L${
      point(tick / 20, RADIUS - (tick % 5 ? 19 : 24))}`);
    made(this.svg, "path", { class: "ticks", d: ticks.join("") });
    for (const level of [0, 0.5, 1]) {
      const [x, y] = point(level, RADIUS - 37);
      made(this.svg, "text", { class: "scale", x, y: y + 3.5 }).textContent = String(100 * level);
    }
    this.floor = made(this.svg, "line", { class: "floor" });
    this.floorWord = made(this.svg, "text", { class: "floor-word" });
    this.floorWord.textContent = "floor";
    this.caption = made(this.svg, "text", { class: "caption", x: CENTRE[0], y: CENTRE[1] + 29 });
    this.caption.textContent = "verified now";
    this.below = made(this.svg, "text", { class: "below", x: CENTRE[0], y: 213 });
    this.handles = {
      low: this.handle("low", `${name}: floor, the lowest level permitted`, RADIUS, ""),
      level: this.handle("level", `${name}: level`, RADIUS, "M0 -10 L8 0 L0 10 L-8 0Z"),
      high: this.handle("high", `${name}: highest level permitted`, RADIUS, ""),
    };
  }

  handle(which, label, radius, shape) {
    const handle = made(this.svg, "g", {
      class: `handle ${which}`, role: "slider", tabindex: 0, "aria-label": label,
      "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 });
    made(handle, "circle", { class: "halo", r: 15 });
    if (shape) made(handle, "path", { class: "knob", d: shape });
    else made(handle, "circle", { class: "knob", r: 8.5 });
    handle.radius = radius;
    handle.addEventListener("keydown", (event) => this.press(event, which));
    handle.addEventListener("pointerdown", (event) => this.grab(event, which));
    return handle;
  }

  // --- what the user does ------------------------------------------------------------------------

  press(event, which) {
    const steps = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP,
                    PageUp: LEAP, PageDown: -LEAP, Home: -1, End: 1 };
    if (!this.isEnabled || !(event.key in steps) || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    this.move(which, this.wish[which] + steps[event.key] * (event.shiftKey ? 5 : 1));
    clearTimeout(this.quiet);
    this.isHeld = true;
    this.quiet = setTimeout(() => this.letGo(), QUIET_MS);
  }

  grab(event, which) {
    if (!this.isEnabled) return;
    event.preventDefault();
    const handle = this.handles[which];
    handle.focus();
    handle.setPointerCapture(event.pointerId);
    this.isHeld = true;
    const drag = (moved) => this.move(which, this.levelAt(moved));
    const drop = () => {
      handle.removeEventListener("pointermove", drag);
      this.letGo();
    };
    handle.addEventListener("pointermove", drag);
    handle.addEventListener("lostpointercapture", drop, { once: true });
  }

  levelAt(event) {
    const box = this.svg.getBoundingClientRect(), scale = VIEW.width / box.width;
    const x = (event.clientX - box.left) * scale - CENTRE[0];
    const y = (event.clientY - box.top) * scale + VIEW.top - CENTRE[1];
    const turned = (Math.atan2(y, x) * 180 / Math.PI - FROM + 720) % 360;
    return turned <= SWEEP ? turned / SWEEP : turned < (360 + SWEEP) / 2 ? 1 : 0;
  }

  move(which, level) {
    const wish = this.wish, exact = Math.round(100 * clamp(level, 0, 1)) / 100;
    if (which === "low") wish.low = Math.min(exact, wish.high);
    if (which === "high") wish.high = Math.max(exact, wish.low);
    wish.level = which === "level" ? clamp(exact, wish.low, wish.high) : clamp(wish.level, wish.low, wish.high);
    this.place();
  }

  letGo() {
    this.isHeld = false;
    this.onTurn({ ...this.wish });
  }

  // --- what is shown -----------------------------------------------------------------------------

  // `level` now (null: none), the user's `wish`, and what else stands on the dial.
  show({ level, wish, hasSetPoint, isEnabled, below }) {
    this.isEnabled = isEnabled;
    this.hasSetPoint = hasSetPoint;
    if (!this.isHeld) this.wish = { low: wish.low, high: wish.high, level: wish.level };
    put(this.below, "textContent", below);
    this.pointer.show(level);
    if (this.toPlace() !== this.placed) this.place();
  }

  // All that knobs and floor depend on.
  toPlace() {
    const { low, high, level } = this.wish;
    return [low, high, level, this.hasSetPoint, this.isEnabled].join();
  }

  place() {
    const { low, high, level } = this.wish;
    this.placed = this.toPlace();
    set(this.band, { d: arc(low, high, RADIUS) });
    const [x1, y1] = point(low, RADIUS - 15), [x2, y2] = point(low, RADIUS + 15);
    set(this.floor, { x1, y1, x2, y2 });
    const [x, y] = point(low, RADIUS + 22);
    set(this.floorWord, { x, y: y + 3, "text-anchor": Math.abs(x - CENTRE[0]) < 20 ? "middle"
      : x < CENTRE[0] ? "end" : "start" });
    const limits = { low: [0, high], high: [low, 1], level: [low, high] };
    for (const [which, handle] of Object.entries(this.handles)) {
      const value = { low, high, level }[which], at = point(value, handle.radius);
      const isThere = which !== "level" || this.hasSetPoint;
      set(handle, {
        transform: `translate(${at[0]} ${at[1]})rotate(${FROM + SWEEP * value + 90})`,
        visibility: isThere ? "visible" : "hidden", tabindex: this.isEnabled && isThere ? 0 : -1,
        "aria-disabled": String(!this.isEnabled), "aria-valuemin": Math.round(100 * limits[which][0]),
        "aria-valuemax": Math.round(100 * limits[which][1]), "aria-valuenow": Math.round(100 * value),
        "aria-valuetext": `${Math.round(100 * value)} per cent` });
    }
  }
}

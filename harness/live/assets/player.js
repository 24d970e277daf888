// Plays a recording: hands over its lines when they are due, at any pace, from any place.

const TICK_MS = 100;

export class Player {
  // `onLines` gets the lines that have become due, `onReset` is called before a jump back,
  // `onMove` hears the position and the length in seconds.
  constructor({ onLines, onReset, onMove }) {
    Object.assign(this, { onLines, onReset, onMove });
    this.lines = [];
    this.at = this.length = this.next = 0;
    this.pace = 1;
    this.timer = null;
  }

  load(lines) {
    this.pause();
    const times = lines.map((line) => line.time_s).filter(Number.isFinite);
    this.begin = Math.min(...times);
    this.length = Math.max(...times) - this.begin;
    // What has no time stands where it was said: first, or last.
    let last = this.begin;
    this.lines = lines.map((line) => {
      if (Number.isFinite(line.time_s)) last = line.time_s;
      return { line, at: last - this.begin };
    });
    this.seek(0);
  }

  get isPlaying() { return this.timer !== null; }

  play() {
    if (this.isPlaying) return;
    if (this.at >= this.length) this.seek(0);
    let before = performance.now();
    this.timer = setInterval(() => {
      const now = performance.now();
      this.move(this.at + (now - before) / 1000 * this.pace);
      before = now;
    }, TICK_MS);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
  }

  seek(at) {
    if (at < this.at || this.next === 0) {
      this.next = 0;
      this.onReset();
    }
    this.move(at);
  }

  move(at) {
    this.at = Math.min(Math.max(at, 0), this.length);
    const from = this.next;
    while (this.next < this.lines.length && this.lines[this.next].at <= this.at) this.next += 1;
    if (this.next > from) this.onLines(this.lines.slice(from, this.next).map((one) => one.line));
    if (this.at >= this.length) this.pause();
    this.onMove(this.at, this.length);
  }
}

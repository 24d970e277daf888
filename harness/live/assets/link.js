// The line to a run: what is said of it comes as server-sent events, messages go out by POST.

const AGAIN_MS = 1000;

export class Link {
  // `onLine` gets each line, `onReset` is called where all begins anew, `onState` hears
  // "live" and "away".
  constructor({ onLine, onReset, onState }) {
    Object.assign(this, { onLine, onReset, onState });
    this.open();
  }

  open() {
    const source = new EventSource("lines");
    source.onopen = () => this.onState("live");
    source.addEventListener("reset", () => this.onReset());
    source.onmessage = (event) => this.onLine(JSON.parse(event.data));
    source.onerror = () => {
      this.onState("away");
      // The browser tries again by itself, unless it was refused.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.open(), AGAIN_MS);
    };
  }

  // Say something to the repetition that is shown; rejects with a line for the user.
  async tell(message) {
    let answer;
    try {
      answer = await fetch("tell", {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify(message),
      });
    } catch {
      throw new Error("the command that serves this page does not answer; is it still there?");
    }
    if (!answer.ok) throw new Error((await answer.json()).error);
  }
}

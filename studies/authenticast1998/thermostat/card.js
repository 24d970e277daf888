// A client's card: its dial, what else its user may say, and its strips.

import { Dial } from "./dial.js";
import { inWords, percent, SCHEMES } from "./model.js";
import { put } from "./put.js";
import { Strips } from "./strips.js";

const PATIENCE_S = 4;
const STATES = { waiting: "waiting", streaming: "streaming", ended: "ended" };

export class Card {
  // `send` takes a message for the run; null where nothing can be said.
  constructor(parent, name, about, send) {
    Object.assign(this, { name, about, send, asked: null, words: {} });
    const template = document.getElementById("client").content.cloneNode(true);
    this.root = template.querySelector("article");
    this.root.setAttribute("aria-label", `Client ${name}`);
    this.root.dataset.client = name;
    this.root.querySelector("h3").textContent = name;
    parent.append(template);
    this.dial = new Dial(this.root.querySelector(".dial-place"), name, (turned) => this.turn(turned));
    this.fields = Object.fromEntries(["scheme", "bundle", "algorithm", "automatic"].map(
      (field) => [field, this.root.querySelector(`[name=${field}]`)]));
    this.fill(this.fields.scheme, about.schemes.map((scheme) => [scheme.name, SCHEMES[scheme.name]]));
    this.fill(this.fields.algorithm, about.algorithms.map((one) => [one, one.toUpperCase()]));
    this.bundled = new Set(about.schemes.filter((scheme) => scheme.has_bundles).map((one) => one.name));
    for (const [field, input] of Object.entries(this.fields)) {
      input.setAttribute("aria-label", `${name}: ${field === "automatic" ? "the controller decides" : field}`);
      input.addEventListener("change", () => this.choose(field, input));
    }
    this.strips = new Strips(this.root.querySelector(".strips"), name, about);
    this.said = this.root.querySelector(".said");
  }

  fill(select, options) {
    for (const [value, text] of options) select.add(new Option(text, value));
  }

  // What is drawn has the colours that the page had then.
  fit() {
    this.dial.pointer.fit();
    this.strips.fit();
  }

  // --- what the user says --------------------------------------------------------------------------

  choose(field, input) {
    if (field === "bundle" && !input.checkValidity()) {
      this.say(`a bundle has 1 to ${input.max} packets`);
      return;
    }
    this.ask({ [field]: field === "automatic" ? input.checked
      : field === "bundle" ? Number(input.value) : input.value });
  }

  // Only by percentage is less than everything verified: who permits no more than that wants it.
  turn(turned) {
    const wish = this.asked?.wish ?? this.client.wish;
    this.ask(turned.high < 1 && !wish.automatic ? { ...turned, scheme: "percentage" } : turned);
  }

  // What is to be, in full: what the user has not touched stays as it is in force.
  ask(change) {
    const { setting } = this.client, wish = this.asked?.wish ?? this.client.wish;
    const base = wish.automatic && setting ? { ...wish, scheme: setting.scheme, bundle: setting.bundle,
                                               level: setting.level } : wish;
    const next = { ...base, algorithm: this.fields.algorithm.value, ...change };
    next.level = Math.min(Math.max(next.level, next.low), next.high);
    this.asked = { wish: next, at: performance.now() };
    this.say("sending …");
    this.send({
      client: this.name, range: [whole(next.low), whole(next.high)], level: whole(next.level),
      scheme: next.scheme.replace("_", "-"), bundle: next.bundle,
      algorithm: next.algorithm.toUpperCase(), automatic: next.automatic,
    }).catch((error) => {
      this.asked = null;
      this.say(error.message);
    });
  }

  say(text) {
    put(this.said, "textContent", text);
  }

  // --- what is shown -------------------------------------------------------------------------------

  show(client, now) {
    this.client = client;
    this.heed(client.wish);
    const wish = this.asked?.wish ?? client.wish, setting = client.setting;
    const isEnabled = this.send !== null && client.state !== "ended";
    const point = client.history.at(-1);
    put(this.root.dataset, "state", client.state);
    this.text(".state", STATES[client.state] ?? client.state);
    this.text(".in-force", setting ? inWords(setting) : "no stream yet");
    this.dial.show({
      level: point && client.state === "streaming" ? point.level : null, wish, isEnabled,
      hasSetPoint: !wish.automatic && wish.scheme === "percentage",
      below: `permitted: ${percent(this.dial.isHeld ? this.dial.wish.low : wish.low)} to ${
        percent(this.dial.isHeld ? this.dial.wish.high : wish.high)}` });
    this.settings(wish, setting, isEnabled);
    if (now !== null) this.strips.draw(client.history, now);
  }

  text(selector, text) {
    put(this.words[selector] ??= this.root.querySelector(selector), "textContent", text);
  }

  // Whether what was asked for is what the client's program wants by now.
  heed(wish) {
    if (!this.asked) return;
    const passed = (performance.now() - this.asked.at) / 1000, asked = this.asked.wish;
    const isHeeded = ["low", "high", "scheme", "automatic", "bundle"].every((key) => asked[key] === wish[key])
      && (asked.scheme !== "percentage" || Math.abs(asked.level - wish.level) < 0.005);
    if (isHeeded) this.say(`in force after ${passed.toFixed(1)} s`);
    else if (passed > PATIENCE_S) this.say("not heeded; the events say why");
    if (isHeeded || passed > PATIENCE_S) this.asked = null;
  }

  settings(wish, setting, isEnabled) {
    const shown = wish.automatic && setting && !this.asked ? setting : wish;
    const values = { scheme: shown.scheme, bundle: String(shown.bundle) };
    if (shown.algorithm !== "hmac") values.algorithm = shown.algorithm;
    for (const [field, value] of Object.entries(values)) {
      const input = this.fields[field];
      if (document.activeElement !== input) put(input, "value", value);
    }
    put(this.fields.automatic, "checked", wish.automatic);
    for (const [field, input] of Object.entries(this.fields)) {
      put(input, "disabled", !isEnabled || (field !== "automatic" && wish.automatic)
        || (field === "bundle" && !this.bundled.has(shown.scheme))
        || (field === "algorithm" && this.about.algorithms.length < 2));
    }
  }
}

const whole = (share) => Math.round(100 * share);

// What the page knows of the streams: lines of a run are folded into it, and nothing else is.

export const WINDOW_S = 60;
const RETENTION_S = 2;

export class Model {
  constructor() { this.reset(); }

  reset() {
    this.about = null;
    this.name = "";
    this.phase = "waiting"; // waiting, streaming, judging, recorded
    this.clients = new Map();
    this.notes = [];
    this.evidence = null;
    this.begin = this.now = null;
  }

  take(line) {
    const handler = HANDLERS[line.event === "report" ? `report ${line.name}` : line.event];
    if (handler) handler(this, line);
  }

  note(client, at, kind, text) {
    this.notes.push({ client, at, kind, text });
  }
}

const HANDLERS = {
  about(model, line) {
    model.reset();
    model.name = line.name;
    if (!line.clients) return;
    model.about = line;
    for (const name of line.clients) {
      model.clients.set(name, { name, state: "waiting", wish: line.wish, setting: null, history: [] });
    }
  },
  "report reading"(model, line) {
    model.begin ??= line.time_s;
    model.now = line.time_s;
    if (model.phase === "waiting") model.phase = "streaming"; // a late reading undoes no end
    for (const [name, said] of Object.entries(line.clients)) read(model, name, said, line.time_s);
    for (const note of line.notes) tell(model, note);
  },
  "report refused"(model, line) {
    model.note("", line.time_s, "refused", line.reason);
  },
  "repetition-measured"(model) { model.phase = "judging"; },
  "repetition-recorded"(model) { model.phase = "recorded"; },
  "testbed-lost"(model, line) { model.note("", line.at, "refused", `the machine was lost: ${line.reason}`); },
  evidence(model, line) {
    model.evidence = line;
    model.phase = "recorded";
  },
  "run-ended"(model) { if (model.phase !== "recorded") model.phase = "ended"; },
};

function read(model, name, said, at) {
  const client = model.clients.get(name);
  if (!client) return;
  const { state, wish, setting, ...counts } = said;
  Object.assign(client, { state, wish, setting: setting ?? client.setting });
  if (counts.sent === undefined || state === "ended") return;
  client.counts = counts;
  const settled = counts.sent - counts.delta - counts.waiting;
  const history = client.history;
  while (history.length && history[0].at < at - WINDOW_S - 1) history.shift();
  const before = history.findLast((point) => point.at <= at - RETENTION_S) ?? history[0];
  const of = before ? settled - before.settled : settled;
  const got = before ? counts.processed - before.processed : counts.processed;
  const retained = of > 0 ? Math.min(1, Math.max(0, got / of)) : history.at(-1)?.retained ?? null;
  history.push({ at, settled, processed: counts.processed, level: counts.level,
                 delta: counts.delta, retained, low: wish.low, high: wish.high });
}

// --- events in words -----------------------------------------------------------------------------

export const SCHEMES = {
  percentage: "by percentage", delayed: "delayed", tree: "tree", secret_key: "secret key",
  tesla: "TESLA",
};

export const percent = (share) => `${Math.round(100 * share)} %`;

export function inWords(setting) {
  const scheme = SCHEMES[setting.scheme] ?? setting.scheme;
  const what = setting.scheme === "percentage" ? `${scheme}, ${percent(setting.level)}`
    : ["delayed", "tree"].includes(setting.scheme) ? `${scheme}, bundles of ${setting.bundle}` : scheme;
  return `${what}, ${setting.algorithm.toUpperCase()}`;
}

function tell(model, note) {
  const say = (kind, text) => model.note(note.client, note.at_s, kind, text);
  const words = WORDS[note.what];
  if (words) words(say, note);
}

const WORDS = {
  granted: (say, note) => say("start", `stream granted, ${SCHEMES[note.scheme]}`),
  turned: (say, note) => say("turned", `dial turned: ${percent(note.low)} to ${percent(note.high)}, `
    + `${inWords(note)}${note.automatic ? ", automatic" : ""}; signed message ${note.number}`),
  switched: (say, note) => say("switched",
    `${note.cause.split(": ")[0]} → ${inWords(note)}`),
  refused: (say, note) => say("refused", `refused: ${note.reason}`),
  error: (say, note) => say("refused", note.reason.replace(/^command: /, "")),
  failed: (say, note) => say("refused", note.reason),
  silence: (say) => say("refused", "the server is silent; asking anew"),
  unacknowledged: (say) => say("refused", "a change was not acknowledged"),
  ended: (say, note) => {
    const lost = Object.entries(note.lost ?? {}).filter(([, count]) => count > 0)
      .map(([cause, count]) => `${count} ${cause.replaceAll("_", " ")}`);
    say("end", `ended: ${note.processed} of ${note.sent} packets processed`
      + (lost.length ? `; lost: ${lost.join(", ")}` : ", none lost"));
  },
};

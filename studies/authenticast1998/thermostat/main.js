// The page: lines of a run, live or recorded, become a model, and the model is shown.

import { Card } from "./card.js";
import { Link } from "./live/link.js";
import { Player } from "./live/player.js";
import { Model } from "./model.js";
import { put } from "./put.js";

const SHOWN_EVENTS = 300;
const SURE_MS = 4000;
const $ = (id) => document.getElementById(id);

const model = new Model();
const cards = new Map();
let send = null;
let isDue = false;
let shownNotes = 0;

function show() {
  if (isDue) return;
  isDue = true;
  // Once a frame, however many lines came; and also where frames are not drawn.
  const paint = () => {
    if (!isDue) return;
    clearTimeout(late);
    isDue = false;
    render();
  };
  const late = setTimeout(paint, 100);
  requestAnimationFrame(paint);
}

function render() {
  const about = model.about;
  put($("waiting"), "hidden", about !== null);
  if (about && !cards.size) begin(about);
  for (const [name, card] of cards) card.show(model.clients.get(name), model.now);
  showNotes();
  showEvidence();
  put($("end"), "hidden", send === null || model.phase !== "streaming");
}

function begin(about) {
  const count = about.clients.length;
  $("what").textContent = `${about.titles.heuristic}; ${count} client${count > 1 ? "s" : ""}; ${
    about.titles.load}; ${about.devices.join(", ")}`;
  $("clock").textContent = `${about.clock} time`;
  $("clients").dataset.count = count;
  for (const name of about.clients) cards.set(name, new Card($("clients"), name, about, send));
  $("layers").replaceChildren(...about.layers.map((layer) => item("li", "", [
    item("b", "", layer.layer), ` ${layer.does} `, item("span", "proof", "")])));
}

function reset() {
  model.reset();
  cards.clear();
  shownNotes = 0;
  $("clients").replaceChildren();
  $("events").replaceChildren();
  show();
}

function take(line) {
  if (line.event === "about") reset();
  model.take(line);
  show();
}

// --- events and evidence -------------------------------------------------------------------------

function item(kind, name, content) {
  const element = document.createElement(kind);
  if (name) element.className = name;
  element.append(...[content].flat());
  return element;
}

const minutes = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

function showNotes() {
  const list = $("events");
  for (const note of model.notes.slice(shownNotes)) {
    const entry = item("li", note.kind, [
      item("time", "", minutes(Math.max(0, note.at - (model.begin ?? note.at)))),
      item("span", "who", note.client || "all"), item("span", "text", note.text)]);
    list.prepend(entry);
  }
  while (list.children.length > SHOWN_EVENTS) list.lastChild.remove();
  shownNotes = model.notes.length;
}

const VERDICTS = {
  waiting: "Nothing is proven yet.",
  streaming: "Evidence is pending: captures are judged when the streams have ended.",
  judging: "The streams have ended; their captures are being judged …",
  ended: "The run has ended.",
};

// A badge says what is proven of its layer; nothing before the captures are judged.
function showLayers(said) {
  model.about?.layers.forEach((layer, place) => {
    const badge = $("layers").children[place];
    const checks = (said?.checks ?? []).filter((check) => layer.checks.some((part) => check.check.includes(part)));
    const failed = checks.filter((check) => !check.ok).length;
    put(badge, "className", !checks.length ? "" : failed ? "fails" : "holds");
    const text = !layer.checks.length ? "" : !said ? "pending" : !checks.length ? "not proven"
      : failed ? `✗ ${failed} of ${checks.length} checks fail` : `✓ ${checks.length} checks hold`;
    put(badge.lastChild, "textContent", text);
  });
}

function showEvidence() {
  const said = model.evidence;
  showLayers(said);
  const text = said ? (said.status === "ok" ? `Recorded as ${said.name}: every check holds.`
    : `Recorded as ${said.name}, ${said.status}: ${said.reason || "no reason is given"}`)
    : VERDICTS[model.phase] ?? "";
  put($("verdict"), "textContent", text);
  put($("verdict").dataset, "status", said ? said.status : "");
  if (($("checks").childElementCount > 0) === Boolean(said)) return;
  $("checks").replaceChildren(...(said?.checks ?? []).map((check) => item(
    "li", check.ok ? "holds" : "fails", [
      item("b", "", `${check.ok ? "✓ holds" : "✗ fails"}: ${check.check}`), item("span", "", check.detail)])));
}

// --- a run that lasts ----------------------------------------------------------------------------

function live() {
  const link = new Link({
    onLine: take, onReset: reset,
    onState: (state) => line(state, state === "live" ? "live" : "reconnecting …"),
  });
  send = (message) => link.tell(message);
  let isSure = false;
  $("end").addEventListener("click", () => {
    if (isSure) {
      send({ stop: true }).catch((error) => model.note("", model.now, "refused", error.message)).then(show);
    }
    isSure = !isSure;
    $("end").textContent = isSure ? "End and record: sure?" : "End the streams";
    if (isSure) setTimeout(() => { isSure = false; $("end").textContent = "End the streams"; }, SURE_MS);
  });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const card of cards.values()) card.fit();
});

function line(state, text) {
  $("line").dataset.state = state;
  $("line").textContent = text;
}

// --- a recording ---------------------------------------------------------------------------------

function replay(names) {
  line("replay", "replay");
  $("replay").hidden = false;
  $("name").append(...names.map((name) => new Option(name, name)));
  const player = new Player({
    onLines: (lines) => {
      // One reset in all: `about` is first.
      lines.forEach(take);
    },
    onReset: reset,
    onMove: (at, length) => {
      $("place").max = length;
      $("place").value = at;
      $("place").setAttribute("aria-valuetext", `${minutes(at)} of ${minutes(length)}`);
      $("time").textContent = `${minutes(at)} / ${minutes(length)}`;
      $("play").textContent = player.isPlaying ? "❚❚" : "▶";
      $("play").setAttribute("aria-label", player.isPlaying ? "Pause" : "Play");
      show();
    },
  });
  const open = async (name) => {
    const answer = await fetch(`recording/${encodeURIComponent(name)}`);
    const said = await answer.json();
    if (!answer.ok) {
      reset();
      $("waiting").textContent = said.error;
      return;
    }
    player.load(said.lines);
    player.play();
    player.move(0);
  };
  $("play").addEventListener("click", () => {
    if (player.isPlaying) player.pause();
    else player.play();
    player.move(player.at);
  });
  $("place").addEventListener("input", () => player.seek(Number($("place").value)));
  $("pace").addEventListener("change", () => { player.pace = Number($("pace").value); });
  $("name").addEventListener("change", () => open($("name").value));
  open(names[0]);
}

async function start() {
  let mode;
  try {
    mode = await (await fetch("mode")).json();
  } catch {
    setTimeout(start, 1000);
    return;
  }
  document.title = `Thermostat: ${mode.folder}`;
  if (mode.mode === "replay") replay(mode.names);
  else live();
}

start();

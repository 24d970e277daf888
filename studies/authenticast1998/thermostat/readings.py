"""Report the state of running streams to a web page, and pass its user's commands to clients.

A server signs the packets of a stream, and a client verifies a fraction of them (its level). On the
page, the user sets for each client which levels are permitted. The 1998 paper calls this control a
security thermostat. A client sends this request to the server (event `turned`). The server grants
it (`granted`), and may later switch to another setting (`switched`).

`StreamReporter` runs in the guest (virtual machine). It reports the state five times a second (a
reading). For a recorded run, `StreamReadings` computes the states from stored events. Standard
library only. The paper is Schneck and Schwan (1998).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from measure.agent.workload import Session

#: Seconds between two readings.
EVERY_S = 0.2
#: Fields of a server's report that a reading repeats. They are numbers of packets since the start,
#: except `lag_s`:
#: - `sent`, `processed`, `verified`, `failed`: sent by the server, read by the application,
#:   verified, and with a failed verification
#: - `delta`: sent, but not yet read by the receiver
#: - `buffer`, `air`: dropped by the full receive buffer, and lost on the way
#: - `waiting`: held until they can be verified
#: - `holes`: gaps between processed packets
#: - `lag_s`: delay of the last processed packet beyond the smallest delay
_COUNTS = ("sent", "delta", "processed", "verified", "failed", "buffer", "air", "waiting", "holes",
           "lag_s")
_SETTING = ("scheme", "algorithm", "bundle", "level")
#: Events that a reading lists as notes.
_NOTES = frozenset({"granted", "turned", "switched", "refused", "silence", "replaced", "ended",
                    "error", "failed", "left", "unacknowledged"})
#: Fields of these events that a note keeps.
_SAID = ("low", "high", "scheme", "algorithm", "bundle", "level", "automatic", "shed", "cause",
         "reason", "number", "epoch", "sequence", "sent", "processed", "lost")


class StreamReadings:
    """The state of all clients' streams, as the events of their programs show it so far.

    `wishes` are the settings that each client requests at first, by its name.
    """

    def __init__(self, wishes: Mapping[str, Mapping[str, Any]]) -> None:
        self._clients: dict[str, dict[str, Any]] = {
            name: {"state": "waiting", "wish": dict(wish)} for name, wish in wishes.items()}
        self._notes: list[dict[str, Any]] = []

    def apply_event(self, node: str, event: Mapping[str, Any]) -> None:
        """Update the state with an event of the program on a node."""
        kind, name = event["event"], event.get("client", node)
        if kind in _NOTES:
            self._notes.append({"at_s": event["at_s"], "client": name, "by": node, "what": kind,
                                **{key: event[key] for key in _SAID if key in event}})
        client = self._clients.get(name)
        if client is None:
            return
        if kind == "report":
            client.update({key: event[key] for key in _COUNTS if key in event},
                          state="streaming", level=event["level"])
        elif kind in {"stream", "switched"}:
            client["setting"] = {**client.get("setting", client["wish"]), **event}
            client["setting"] = {key: client["setting"][key] for key in _SETTING}
        elif kind == "turned":
            client["wish"] = {key: event[key] for key in event if key not in {
                "event", "at_s", "number"}}
        elif kind in {"ended", "left", "failed"}:
            client["state"] = "ended"

    def mark_ended(self, name: str) -> None:
        """Mark a client's stream as ended, because its program has ended."""
        self._clients[name]["state"] = "ended"

    def take_reading(self) -> dict[str, Any]:
        """Return the state of all streams, and the events since the last call."""
        notes, self._notes = sorted(self._notes, key=lambda note: float(note["at_s"])), []
        return {"clients": {name: dict(state) for name, state in self._clients.items()},
                "notes": notes}


class EventLogReader:
    """A reader of new lines in the log files of programs."""

    def __init__(self, logs: Mapping[str, Path]) -> None:
        self._logs = logs
        self._at = dict.fromkeys(logs, 0)

    def read_new_events(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield each new event whose line is complete, after the name of the node that wrote it."""
        for node, log in self._logs.items():
            if not log.exists():
                continue
            with log.open("rb") as file:
                file.seek(self._at[node])
                new, newline, _ = file.read().rpartition(b"\n")
            self._at[node] += len(new) + len(newline)
            for line in new.splitlines():
                if line.startswith(b"{"):
                    yield node, json.loads(line)


# --- Reporter of running streams, which passes the users' commands to the clients ---

#: Checks for commands between two readings.
_LOOKS = 4


class ProgramLauncher(Protocol):
    """An interface to the clients' running programs (see `measure.services.programs`)."""

    def send_line(self, node: str, command: Mapping[str, Any]) -> bool:
        """Send a command to the program on a node, and return whether it was received."""

    def wait_ended(self, node: str, for_s: float) -> bool:
        """Wait up to `for_s` seconds, and return whether the program on a node has ended."""


class StreamReporter:
    """A reporter of the state of a repetition's streams, until all clients have ended."""

    def __init__(self, programs: ProgramLauncher, session: Session, logs: Mapping[str, Path],
                 documents: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, str]) -> None:
        self._programs, self._session, self._nodes = programs, session, nodes
        self._listener = EventLogReader(logs)
        self._readings = StreamReadings({name: settings_from_configuration(document)
                                         for name, document in documents.items()})
        self._going = list(documents)

    def report_until_end(self, for_s: float, due_s: float = 0.0,
                         then: Callable[[], object] | None = None) -> None:
        """Report states and carry out commands until all clients have ended.

        Args:
            for_s: longest duration (s).
            due_s: time of the guest's monotonic clock (s) at which `then` is called.
            then: a function to call once.
        """
        until_s = time.monotonic() + for_s
        while self._going and time.monotonic() < until_s:
            for _ in range(_LOOKS):
                for message in self._session.take_commands():
                    self._handle_message(message)
                time.sleep(EVERY_S / _LOOKS)
            if then is not None and time.monotonic() >= due_s:
                then()
                then = None
            for name in [name for name in self._going
                         if self._programs.wait_ended(self._nodes[name], 0)]:
                self._going.remove(name)
                self._readings.mark_ended(name)
            self._report_reading()

    def _report_reading(self) -> None:
        for node, event in self._listener.read_new_events():
            self._readings.apply_event(node, event)
        self._session.report("reading", **self._readings.take_reading())

    def _handle_message(self, message: Mapping[str, Any]) -> None:
        """Carry out a message of the user: stop a client, or change its request for the stream.

        The message is `{"client": NAME, ...}` with `"stop": true` or settings. Without `client` it
        goes to all clients.
        """
        fields = dict(message)
        name = fields.pop("client", None)
        if name is not None and name not in self._going:
            self._report_refusal(f"client {name!r}: no such client is listening; choose from "
                                 f"{', '.join(self._going) or 'none'}")
            return
        is_end = fields.pop("stop", False) is True
        if is_end == bool(fields):
            self._report_refusal("say stop=true, or what the dial is to be: range, level, scheme, "
                                 "algorithm, bundle, automatic")
            return
        self._send_command([name] if name else self._going, {"do": "stop"} if is_end else
                           {"do": "dial", **fields})

    def _send_command(self, names: Iterable[str], command: Mapping[str, Any]) -> None:
        for name in names:
            if not self._programs.send_line(self._nodes[name], command):
                self._report_refusal(f"client {name}: does not listen any more")

    def _report_refusal(self, reason: str) -> None:
        self._session.report("refused", reason=reason)


def settings_from_configuration(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's settings from its configuration, with the names that its events use."""
    low, high = document.get("range", (0, 100))
    scheme = str(document.get("scheme", "percentage"))
    level = document.get("level", high) if scheme == "percentage" else 100
    return {"low": low / 100, "high": high / 100, "scheme": scheme.replace("-", "_"),
            "algorithm": str(document.get("algorithm", "ed25519")).lower(),
            "bundle": document.get("bundle", 1), "level": level / 100,
            "automatic": document.get("automatic", False)}

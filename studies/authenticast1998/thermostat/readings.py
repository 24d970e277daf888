"""Readings of running streams: the events of their programs, condensed for the live page.

The guest makes a reading five times a second while streams run. For a recorded run they are made
again from the same events. Runs inside the guest: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: Seconds between two readings.
EVERY_S = 0.2
#: Fields of a server's report that a reading repeats.
_COUNTS = ("sent", "delta", "processed", "verified", "failed", "buffer", "air", "waiting", "holes",
           "lag_s")
_SETTING = ("scheme", "algorithm", "bundle", "level")
#: Events that a reading lists as notes.
_NOTES = frozenset({"granted", "turned", "switched", "refused", "silence", "replaced", "ended",
                    "error", "failed", "left", "unacknowledged"})
#: Fields of these events that a note keeps.
_SAID = ("low", "high", "scheme", "algorithm", "bundle", "level", "automatic", "shed", "cause",
         "reason", "number", "epoch", "sequence", "sent", "processed", "lost")


class Readings:
    """State of all clients' streams, from the events of their programs so far."""

    def __init__(self, wishes: Mapping[str, Mapping[str, Any]]) -> None:
        self._clients: dict[str, dict[str, Any]] = {
            name: {"state": "waiting", "wish": dict(wish)} for name, wish in wishes.items()}
        self._notes: list[dict[str, Any]] = []

    def apply_event(self, node: str, event: Mapping[str, Any]) -> None:
        """Apply an event of the program on a node."""
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
        """Return the state of all streams, and the events since the last reading."""
        notes, self._notes = sorted(self._notes, key=lambda note: float(note["at_s"])), []
        return {"clients": {name: dict(state) for name, state in self._clients.items()},
                "notes": notes}


class Listener:
    """Reader of new lines in the logs of programs."""

    def __init__(self, logs: Mapping[str, Path]) -> None:
        self._logs = logs
        self._at = dict.fromkeys(logs, 0)

    def read_new_events(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield whole new events, with the node whose program wrote them."""
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

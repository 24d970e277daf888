"""Reporter of running streams, which also passes their users' commands to the clients.

Runs inside the guest: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from measure.workload import Session
from studies.authenticast1998.thermostat.readings import EVERY_S, Listener, Readings

#: Checks for commands between two readings.
_LOOKS = 4


class Programs(Protocol):
    """Launcher of the clients' programs (measure.services.launcher)."""

    def send_line(self, node: str, command: Mapping[str, Any]) -> bool:
        """Send a command to a node's program. Return whether the program got it."""

    def wait_ended(self, node: str, for_s: float) -> bool:
        """Return whether a node's program ends within `for_s` seconds."""


class Watching:
    """The streams of a repetition until its clients end."""

    def __init__(self, programs: Programs, session: Session, logs: Mapping[str, Path],
                 documents: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, str]) -> None:
        self._programs, self._session, self._nodes = programs, session, nodes
        self._listener = Listener(logs)
        self._readings = Readings({name: settings_from_configuration(document)
                                   for name, document in documents.items()})
        self._going = list(documents)

    def until_ended(self, for_s: float, due_s: float = 0.0,
                    then: Callable[[], object] | None = None) -> None:
        """Report and carry out commands until all clients' programs have ended, or `for_s` is over.

        `then` is called once, when the guest's monotonic clock reaches `due_s` seconds.
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
        """Carry out a message `{"client": NAME, ...}` with `"stop": true` or a dial's settings.

        Without `client` the message goes to all clients.
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

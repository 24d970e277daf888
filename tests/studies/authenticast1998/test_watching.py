"""What the machine reports of streams that run, and what it makes of what it is told."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from studies.authenticast1998.thermostat import page
from studies.authenticast1998.thermostat import readings as thermostat_readings
from studies.authenticast1998.thermostat.readings import (
    EventLogReader,
    StreamReadings,
    StreamReporter,
)

DOCUMENTS = {"c1": {"scheme": "percentage", "range": [10, 90], "level": 40, "algorithm": "DSA"},
             "c2": {"scheme": "delayed", "bundle": 3, "algorithm": "DSA", "automatic": True}}
#: What clients are called, and what they run on.
NODES = {"c1": "mn", "c2": "c2"}
NAMES = {node: name for name, node in NODES.items()}


class Programs:
    """Programs that end after so many looks, and what they are told."""

    def __init__(self, **looks: int) -> None:
        self.looks, self.told = looks, []

    def send_line(self, node: str, command: Mapping[str, Any]) -> bool:
        """Hear it."""
        self.told.append((NAMES[node], dict(command)))
        return self.looks[NAMES[node]] > 0

    def wait_ended(self, node: str, for_s: float) -> bool:
        """One look."""
        self.looks[NAMES[node]] -= 1
        return self.looks[NAMES[node]] <= 0


class Session:
    """A session with messages that wait, and what was reported."""

    def __init__(self, *messages: Mapping[str, Any]) -> None:
        self.messages, self.reports = deque(messages), []

    def take_commands(self):
        """What was said."""
        while self.messages:
            yield self.messages.popleft()

    def report(self, name: str, **fields: Any) -> None:
        """Keep it."""
        self.reports.append({"name": name, **fields})

    def refused(self) -> list[str]:
        """Why, each time."""
        return [report["reason"] for report in self.reports if report["name"] == "refused"]


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, Path]:
    """Logs of a server and two clients."""
    return {name: tmp_path / f"{name}.jsonl" for name in ("server", "c1", "c2")}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thermostat_readings.time, "sleep", lambda _: None)


def watch(logs: dict[str, Path], programs: Programs, *messages: Mapping[str, Any]) -> Session:
    """Streams until their ends, with messages that come at once."""
    session = Session(*messages)
    StreamReporter(programs, session, logs, DOCUMENTS, NODES).report_until_end(60)
    return session


def test_messages_become_commands_of_the_clients(logs: dict[str, Path]) -> None:
    """A dial's for the client that is named, or for all; an end likewise."""
    programs = Programs(c1=2, c2=2)
    session = watch(logs, programs, {"client": "c1", "range": [5, 20]}, {"scheme": "tree"},
                    {"client": "c2", "stop": True})
    assert programs.told == [
        ("c1", {"do": "dial", "range": [5, 20]}), ("c1", {"do": "dial", "scheme": "tree"}),
        ("c2", {"do": "dial", "scheme": "tree"}), ("c2", {"do": "stop"})]
    assert session.refused() == []


@pytest.mark.parametrize(("message", "reason"), [
    ({"client": "c9", "level": 1}, "client 'c9': no such client is listening; choose from c1, c2"),
    ({"client": ["c1"], "level": 1}, "client ['c1']: no such client is listening"),
    ({"client": "c1"}, "say stop=true, or what the dial is to be"), ({}, "say stop=true, or"),
    ({"stop": True, "level": 3}, "say stop=true, or"),
    ({"stop": "yes"}, "say stop=true, or")], ids=str)
def test_what_is_no_message_is_refused(logs: dict[str, Path], message: dict[str, Any],
                                       reason: str) -> None:
    """One line of why, and no client hears anything."""
    programs = Programs(c1=1, c2=1)
    [said] = watch(logs, programs, message).refused()
    assert said.startswith(reason) and programs.told == []


def test_a_client_that_died_ends_nothing(logs: dict[str, Path]) -> None:
    """The others are watched on; it is shown as ended, and can be told nothing."""
    programs = Programs(c1=5, c2=1)
    session = watch(logs, programs)
    states = [[report["clients"][name]["state"] for name in ("c1", "c2")]
              for report in session.reports]
    assert states == [["waiting", "ended"]] * 4 + [["ended", "ended"]]


def test_readings_say_what_programs_said(logs: dict[str, Path]) -> None:
    """Numbers of the newest report, the setting in force, what the user wants, events in order."""
    readings = StreamReadings({name: thermostat_readings.settings_from_configuration(said) for name,
                               said
                               in DOCUMENTS.items()})
    listener = EventLogReader(logs)
    report = {"event": "report", "client": "c1", "at_s": 1.0, "sent": 9, "delta": 2, "level": 0.4}
    lines = [{"event": "stream", "client": "c1", "at_s": 0.5, "scheme": "percentage",
              "algorithm": "dsa"}, {"event": "report", "client": "c1", "at_s": 0.9, "sent": 1,
                                    "delta": 1, "level": 1.0}, report,
             {"event": "switched", "client": "c1", "at_s": 2.0, "scheme": "delayed",
              "algorithm": "dsa", "bundle": 8, "level": 1.0, "cause": "stable"}]
    logs["server"].write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"half')
    logs["c1"].write_text(json.dumps({"event": "turned", "at_s": 1.9, "number": 1, "low": 0.2,
                                      "high": 0.3}) + "\n")
    for node, event in listener.read_new_events():
        readings.apply_event(node, event)
    assert list(listener.read_new_events()) == []
    said = readings.take_reading()
    first, second = said["clients"]["c1"], said["clients"]["c2"]
    assert (first["state"], first["sent"], first["delta"], first["level"]) == (
        "streaming", 9, 2, 0.4)
    assert first["setting"] == {"scheme": "delayed", "algorithm": "dsa", "bundle": 8, "level": 1.0}
    assert first["wish"] == {"low": 0.2, "high": 0.3}
    assert second["state"] == "waiting" and second["wish"]["automatic"]
    assert [note["what"] for note in said["notes"]] == ["turned", "switched"]
    assert readings.take_reading()["notes"] == []


def test_each_check_belongs_to_a_layer() -> None:
    """Badges of the layers below have all checks of a policy that has them, each once."""
    checks = ["WEP-104 on every data frame", "initialisation vectors differ", "EAP method TLS",
              "EAP-Success", "mutual authentication", "port is closed before", "ISAKMP packets",
              "no clear inner packet", "IKE proposal", "ESP transforms in the kernel",
              "keys delivered by EAPOL-Key", "frames open with the keys in force",
              "frames are as long as the air charges",
              "messages are signed", "no packet arrives twice", "level in the user's range"]
    for check in checks:
        [_] = [layer for layer, parts in page._CHECKS.items()
               if any(part in check for part in parts)]

"""Tests of measure.agent.worker.

Commands in their order, what is told to a repetition, what it says.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from measure.agent import kernel_state
from measure.agent.worker import (
    CommandQueue,
    CommandSource,
    FileCommands,
    RepetitionSession,
    StreamCommands,
)
from measure.cpu import clock


class Pipe:
    """Both ends of a worker's input."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()

    def write(self, *commands: dict[str, Any], text: str = "") -> None:
        """Commands, or any text."""
        lines = "".join(json.dumps(command) + "\n" for command in commands)
        os.write(self._writing, (lines + text).encode())

    def end(self) -> None:
        """Nothing more comes."""
        os.close(self._writing)


class Folder:
    """Commands as files, as the harness writes them in virtual time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sent = 0

    def write(self, *commands: dict[str, Any]) -> None:
        """Commands, whole at once."""
        for command in commands:
            self._sent += 1
            place = self.path / f"{self._sent}.json"
            place.with_suffix(".new").write_text(json.dumps(command))
            place.with_suffix(".new").rename(place)


@pytest.fixture(params=["lines", "files"])
def line(request: pytest.FixtureRequest,
         tmp_path: Path) -> Iterator[tuple[Pipe | Folder, CommandSource]]:
    """Where commands are written, and where they are read."""
    if request.param == "files":
        yield Folder(tmp_path), FileCommands(tmp_path)
        return
    pipe = Pipe()
    yield pipe, StreamCommands(pipe.reading)
    os.close(pipe.reading)


def test_commands_come_in_order(line: tuple[Pipe | Folder, CommandSource]) -> None:
    """What was written first is taken first; without anything there, taking does not wait."""
    writer, source = line
    assert source.take_command(wait=False) is None
    writer.write({"do": "measure", "n": 1}, {"do": "measure", "n": 2})
    assert source.take_command(wait=True) == {"do": "measure", "n": 1}
    assert source.take_command(wait=False) == {"do": "measure", "n": 2}
    assert source.take_command(wait=False) is None


def test_waiting_ends_with_a_command(line: tuple[Pipe | Folder, CommandSource]) -> None:
    """A command that comes later is what a waiting worker goes on with."""
    writer, source = line
    later = threading.Timer(0.05, writer.write, [{"do": "stop"}])
    later.start()
    assert source.take_command(wait=True) == {"do": "stop"}
    later.join()


def test_what_is_told_passes_what_waits(line: tuple[Pipe | Folder, CommandSource]) -> None:
    """A repetition takes what is told to it; other commands keep their order for later."""
    writer, source = line
    inbox = CommandQueue(source)
    writer.write({"do": "shell", "n": 1}, {"do": "tell", "level": 3}, {"do": "stop"},
                 {"do": "tell", "level": 4})
    assert list(inbox.take_messages()) == [{"level": 3}, {"level": 4}]
    assert list(inbox.take_messages()) == []
    commands = iter(inbox)
    assert next(commands) == {"do": "shell", "n": 1}
    assert next(commands) == {"do": "stop"}


def test_what_was_told_to_an_earlier_repetition_is_dropped(
    line: tuple[Pipe | Folder, CommandSource],
) -> None:
    """A command that came too late is neither taken by the next repetition nor by the worker."""
    writer, source = line
    inbox = CommandQueue(source)
    writer.write({"do": "tell", "level": 3}, {"do": "measure"})
    assert next(iter(inbox)) == {"do": "measure"}
    writer.write({"do": "tell", "level": 4})
    inbox.drop_messages()
    assert list(inbox.take_messages()) == []


def test_half_a_line_is_no_command() -> None:
    """A line that is still being written is waited for, also while a repetition looks for more."""
    pipe = Pipe()
    source = StreamCommands(pipe.reading)
    pipe.write(text='{"do": ')
    assert source.take_command(wait=False) is None
    pipe.write(text='"stop"}\n')
    assert source.take_command(wait=False) == {"do": "stop"}


def test_the_end_of_input_ends_the_commands() -> None:
    """The harness is gone: nothing more is waited for, now or later."""
    pipe = Pipe()
    pipe.write({"do": "tell", "level": 3})
    pipe.end()
    inbox = CommandQueue(StreamCommands(pipe.reading))
    assert list(inbox.take_messages()) == [{"level": 3}]
    assert list(inbox) == []
    assert list(inbox.take_messages()) == []


def test_events_say_when(line: tuple[Pipe | Folder, CommandSource],
                         capsys: pytest.CaptureFixture[str]) -> None:
    """Reports, the word that others may share, and each command taken: one event each, in order."""
    writer, source = line
    session = RepetitionSession(CommandQueue(source))
    session.stamp("start")
    session.report("level", value=2)
    session.report_shareable()
    writer.write({"do": "tell", "level": 3})
    assert list(session.take_commands()) == [{"level": 3}]
    session.stamp("end")
    events = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["report"] * 3
    assert [event["name"] for event in events] == ["level", "shareable", "told"]
    assert events[0]["value"] == 2
    assert events[2]["command"] == {"level": 3}
    stamps = session.raw["stamps"]
    times = [stamps["start"], *(event["time_s"] for event in events), stamps["end"]]
    assert times == sorted(times)


def test_a_part_has_raw_values_of_its_own(line: tuple[Pipe | Folder, CommandSource]) -> None:
    """What a part stamps and leaves is kept by its name, in order, and moves nothing else."""
    session = RepetitionSession(CommandQueue(line[1]))
    for name in ("first", "second"):
        part = session.create_part(name)
        part.stamp("start")
        part.raw["left"] = name
    session.stamp("end")
    assert list(session.raw["stamps"]) == ["end"]
    assert list(session.raw["parts"]) == ["first", "second"]
    for name, part_raw in session.raw["parts"].items():
        assert list(part_raw["stamps"]) == ["start"] and part_raw["left"] == name
    # A clock that was set back between two parts is found out, too.
    assert not clock.describe_clock_step(session.raw)
    session.raw["parts"]["first"]["stamps"]["start"] += 60
    assert "set back" in clock.describe_clock_step(session.raw)


def test_company_is_divided_out_before_what_is_timed(line: tuple[Pipe | Folder,
                                                                 CommandSource]) -> None:
    """Parts do it by the same; by other clocks there is nothing to do."""
    divided: list[str] = []
    session = RepetitionSession(CommandQueue(line[1]), lambda: divided.append("once"))
    session.before_timing()
    session.create_part("first").before_timing()
    assert divided == ["once"] * 2
    RepetitionSession(CommandQueue(line[1])).before_timing()
    assert divided == ["once"] * 2


def test_whoever_does_not_ask_has_company_divided_out_before_its_first_stamp(
    line: tuple[Pipe | Folder, CommandSource],
) -> None:
    """Once, and not again where it was asked for before."""
    divided: list[str] = []
    session = RepetitionSession(CommandQueue(line[1]), lambda: divided.append("once"))
    session.stamp("start")
    session.stamp("end")
    assert divided == ["once"]
    part = session.create_part("first")
    part.before_timing()
    part.stamp("start")
    assert divided == ["once"] * 2


def test_stamps_have_what_was_computed_for_nothing(
    line: tuple[Pipe | Folder, CommandSource], monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the processor clock each stamp has the harness' work so far; by others there is none."""
    session = RepetitionSession(CommandQueue(line[1]))
    session.stamp("start")
    assert "harness_work" not in session.raw
    counted = [{"work_ns": 5, "entries": 2, "faults": 1}, {"work_ns": 9, "entries": 3, "faults": 1}]
    left = iter(counted)
    monkeypatch.setattr(kernel_state, "harness_work", lambda: next(left))
    session.stamp("link")
    session.stamp("end")
    assert session.raw["harness_work"] == dict(zip(("link", "end"), counted, strict=True))

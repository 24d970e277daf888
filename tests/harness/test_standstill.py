"""A guest that computes while its clock stands still: how it is told, shown and ended."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

import plans
from guest.boot import GuestClock, GuestClockError, parse_console_answer
from harness import secrets
from harness.commands import status
from harness.engine import clock_watchdog
from harness.engine import testbed as testbeds
from harness.engine.clock_watchdog import (
    ENDED_AFTER_S,
    REPORTED_AFTER_S,
    Standstill,
    StandstillDetector,
)
from harness.engine.events import EventLog, RunState
from harness.engine.progress import ProgressDisplay
from speaking_machine import EmptyRenderer, SpeakingMachine

#: What 7.2.12 answered when asked with `clock`, and what it answers to a command it lacks.
ANSWERED = struct.pack("=III", 0, 0, 25) + b"4978204231936 56 free rad\0"
REFUSED = struct.pack("=III", 1, 0, 16) + b"Unknown command\0"


def judged(readings: Iterable[tuple[GuestClock | None, float]]) -> list[Standstill | None]:
    """What becomes of readings, each with the processor time by then."""
    judge = StandstillDetector()
    return [judge.add_reading(clock, computed_s) for clock, computed_s in readings]


def test_answer_of_the_kernel_is_parsed() -> None:
    """The name of a program may hold blanks."""
    assert parse_console_answer(ANSWERED) == GuestClock(4978.204231936, "free rad")
    with pytest.raises(GuestClockError, match="Unknown command"):
        parse_console_answer(REFUSED)


def test_clock_that_stands_still_is_told_with_the_program_that_ran_most() -> None:
    """After ten seconds of computing it is shown, after thirty it is the end."""
    programs = itertools.cycle(["freeradius", "freeradius", "kworker/0:1"])
    found = judged((GuestClock(12.5, next(programs)), float(second)) for second in range(0, 40, 2))
    first = next(number for number, standstill in enumerate(found) if standstill)
    shown, last = found[first], found[-1]
    assert shown is not None and last is not None
    assert shown.computed_s == REPORTED_AFTER_S and last.computed_s > ENDED_AFTER_S
    assert (last.at_s, last.program) == (12.5, "freeradius")
    assert "stood still at 12.500 s while it computed for 38 s, most of it freeradius" in str(last)


def test_clock_that_creeps_stands_still() -> None:
    """A guest that gets on by a ten-thousandth of what it computes gets nowhere."""
    found = judged((GuestClock(5 + second * 1e-4, "python3"), float(second))
                   for second in range(0, 40, 2))
    assert found[-1] is not None and found[-1].computed_s > ENDED_AFTER_S


def test_kernel_that_does_not_answer_stands_still() -> None:
    """Its interrupts are off for good; the clock is then unknown."""
    found = judged([(GuestClock(1.0, "hostapd"), 1.0),
                    *((None, float(second)) for second in range(2, 40, 2))])
    assert found[-1] is not None
    assert found[-1].at_s is None and found[-1].program == "hostapd"


def test_clock_that_moves_is_no_standstill() -> None:
    """However much is computed: a second of the air may take a hundred of the processor."""
    assert not any(judged((GuestClock(second / 100, "iperf3"), float(second))
                          for second in range(0, 400, 4)))


def test_guest_that_is_stopped_or_starved_is_no_standstill() -> None:
    """It does not compute: its clock may stand for as long as that lasts, and it cannot answer."""
    assert not any(judged([(GuestClock(1.0, "iperf3"), 3.0), *[(None, 3.2)] * 1000]))


@pytest.mark.parametrize(("while_asked_s", "ends"), [(0.0, False), (0.2, True)])
async def test_guest_that_is_stopped_whenever_it_is_asked_is_no_standstill(
        monkeypatch: pytest.MonkeyPatch, while_asked_s: float, ends: bool) -> None:
    """As between two repetitions: it computes, but not while it gives no answer."""
    used_s, shown = 0.0, []

    def compute(_pid: int) -> float:
        nonlocal used_s
        used_s += 5.0
        return used_s

    async def give_no_answer(_pid: int) -> None:
        nonlocal used_s
        await asyncio.sleep(0)
        used_s += while_asked_s - 5.0  # the next reading adds 5 s

    monkeypatch.setattr(clock_watchdog, "_EVERY_S", 0.0)
    monkeypatch.setattr(clock_watchdog, "read_used_cpu_s", compute)
    monkeypatch.setattr(clock_watchdog, "read_guest_clock", give_no_answer)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            shown.append(await clock_watchdog.watch_clock(1, lambda _: None))
    assert bool(shown) == ends


def test_standstill_is_over_once_the_clock_moves() -> None:
    """Computing before does not count after."""
    found = judged([(GuestClock(1.0, "a"), 0.0), (GuestClock(1.0, "a"), 29.0),
                    (GuestClock(2.0, "a"), 30.0), (GuestClock(2.0, "a"), 35.0)])
    assert [standstill is not None for standstill in found] == [False, True, False, False]


def test_status_and_terminal_show_what_is_waited_for(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which repetition, since when its guest's clock has not moved, and the program that runs."""
    plan = plans.plan_of("P1")
    events = EventLog(tmp_path, ProgressDisplay(plan, tmp_path).show_event)
    events.emit_event("run-started", already=0, total=1)
    events.emit_event("repetition-started", name="P1-N2-001", testbed="P1", attempt=1)
    events.emit_event("clock-still", testbed="P1", at_s=12.5, since=0.0, computed_s=10.0,
                      program="freeradius")
    state = RunState.from_folder(tmp_path)
    assert state is not None
    status._show_live(tmp_path, state)
    shown = capsys.readouterr()
    assert "P1-N2-001: the guest's clock stands still at 12.500 s for " in shown.err
    [line] = [line for line in shown.out.splitlines() if "running: P1-N2-001" in line]
    assert "the guest's clock stands still at 12.500 s for " in line
    assert line.endswith("freeradius runs")


def test_status_and_terminal_show_a_wait_that_a_repetition_reports(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Until the repetition has been measured, or begins anew."""
    events = EventLog(tmp_path, ProgressDisplay(plans.plan_of("P1"), tmp_path).show_event)
    events.emit_event("run-started", already=0, total=1)
    events.emit_event("repetition-started", name="P1-N2-001", testbed="P1", attempt=1)
    events.emit_event("repetition-waits", name="P1-N2-001", waits="latency: 20 messages in 30 h")
    state = RunState.from_folder(tmp_path)
    assert state is not None
    status._show_live(tmp_path, state)
    shown = capsys.readouterr()
    assert "P1-N2-001: latency: 20 messages in 30 h" in shown.err
    [line] = [line for line in shown.out.splitlines() if "running: P1-N2-001" in line]
    assert line.endswith("; latency: 20 messages in 30 h")
    events.emit_event("repetition-started", name="P1-N2-001", testbed="P1", attempt=2)
    state = RunState.from_folder(tmp_path)
    assert state is not None and not state.waits


@pytest.mark.parametrize("event", ["clock-moves", "testbed-lost", "testbed-ended"])
def test_standstill_is_shown_no_longer_than_it_lasts(tmp_path: Path, event: str) -> None:
    """The clock moves again, or the guest is gone."""
    events = EventLog(tmp_path)
    events.emit_event("run-started", already=0, total=1)
    events.emit_event("repetition-started", name="P1-N2-001", testbed="P1", attempt=1)
    events.emit_event("clock-still", testbed="P1", at_s=None, since=0.0, computed_s=10.0,
                      program="x")
    events.emit_event(event, testbed="P1")
    state = RunState.from_folder(tmp_path)
    assert state is not None and not state.still and "P1-N2-001" in state.running


async def test_guest_out_of_memory_is_lost_with_the_program_that_was_ended(tmp_path: Path) -> None:
    """Whatever the repetition came to: a program is missing."""
    plan = plans.plan_of("P1")
    [planned] = plan.testbeds.values()
    testbed = testbeds.TestbedClient(SpeakingMachine(), 0, planned, plan, tmp_path)
    try:
        await testbed.open(secrets.make_secrets(), EmptyRenderer(tmp_path / "none"))  # type: ignore[arg-type]
        await testbed.measure_repetition("first", {}, 20)
        (testbed.logs / "console.log").write_text(
            "Out of memory: Killed process 56 (freeradius) total-vm:351204kB, anon-rss:97280kB, "
            "file-rss:3072kB, shmem-rss:0kB, UID:0 pgtables:340kB oom_score_adj:0\n")
        with pytest.raises(testbeds.TestbedLost,
                           match="out of memory: its kernel ended freeradius, which had 95 of"):
            await testbed.measure_repetition("second", {}, 20)
    finally:
        await testbed.close()

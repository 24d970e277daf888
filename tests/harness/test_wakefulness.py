"""Processors are kept from resting while real time is measured: by what, and until when."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.engine import host, machine
from harness.engine.plan import RunSettings
from harness.errors import UserError

PROCESSORS = sorted(os.sched_getaffinity(0))
DEADLINE_S = 20.0


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that comes about by itself."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    """Whether a process is there that is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def used_ticks(pid: int) -> int:
    """What a process has had of its processor."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_each_processor_has_a_program_that_gives_way() -> None:
    """One a processor, on no other, of the lowest priority; it never waits for anything."""
    with host.keep_processors_awake(PROCESSORS) as pids:
        assert [os.sched_getaffinity(pid) for pid in pids] == [{each} for each in PROCESSORS]
        assert {os.sched_getscheduler(pid) for pid in pids} == {os.SCHED_IDLE}
        sessions = [Path(f"/proc/{pid}/autogroup") for pid in pids]
        assert all(each.read_text().endswith(" nice 19\n") for each in sessions if each.exists())
        until(lambda: min(map(used_ticks, pids)) > 2)
    assert not any(map(is_there, pids))


def test_they_end_however_the_run_ends() -> None:
    """Killed, too: what is left over would take a processor for good."""
    program = ("from harness.engine import host\n"
               "import time\n"
               f"with host.keep_processors_awake({PROCESSORS[:1]}) as pids:\n"
               "    print(*pids, flush=True)\n"
               "    time.sleep(600)\n")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                          text=True) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        assert is_there(pid)
        run.kill()
        until(lambda: not is_there(pid))


@pytest.mark.parametrize(("on", "clock", "keeps"), [
    ("guest", "real", True), ("guest", "virtual", False), ("guest", "processor", False),
    ("host", "real", False)])
def test_only_guests_in_real_time_have_them(on: str, clock: str, keeps: bool) -> None:
    """What is skipped needs no waking up, and a machine of one's own is left as it is."""
    settings = RunSettings(on=on, clock=clock)  # type: ignore[arg-type]
    assert settings.needs_idle_burners is keeps


@pytest.mark.parametrize(("listed", "processors"), [
    ("", PROCESSORS), ("0", [0]), (f"{PROCESSORS[-1]},0,0", sorted({0, PROCESSORS[-1]}))])
def test_guests_have_the_processors_that_are_listed(
    monkeypatch: pytest.MonkeyPatch, listed: str, processors: list[int],
) -> None:
    """Whatever the harness itself may use; without a list they are the same."""
    monkeypatch.setenv("QOP_PROCESSORS", listed)
    assert machine._guest_processors() == processors


@pytest.mark.parametrize("listed", ["one", "0-1", "-1", "4096"])
def test_what_is_no_processor_is_refused(monkeypatch: pytest.MonkeyPatch, listed: str) -> None:
    """One line that names the variable."""
    monkeypatch.setenv("QOP_PROCESSORS", listed)
    with pytest.raises(UserError, match=f"QOP_PROCESSORS={listed}"):
        machine._guest_processors()

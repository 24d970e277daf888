"""Whatever ends a run, nothing is left over, nothing is half written, and the next run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from conftest import PATIENCE_S, VIRTUAL, Qop, wait_until
from harness.engine import events

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

#: Arguments of a run of two policies.
ARGUMENTS = ("run", "--out", "out", "--scenarios", "N2", "--policies", "P1,P2",
             "--stream-bytes", "300k")


@pytest.fixture
def repetitions() -> int:
    """Repetitions of each policy, so many that a run is not over when its first records are there.

    What is measured faster than it is dissected is up to four for each processor.
    """
    return 2 + 3 * len(os.sched_getaffinity(0))


def record_files(qop: Qop) -> list[Path]:
    """Everything that lies in the records' folder, hidden files too."""
    return list((qop.folder / "out" / "records").glob("*")) + \
        list((qop.folder / "out" / "records").glob(".*"))


def mounts(qop: Qop) -> list[str]:
    """What is mounted below this folder, or from there."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines()
            if str(qop.folder) in line]


def guests(qop: Qop) -> list[int]:
    """Process ids of the running guests of this folder."""
    named = {int(line.split(":")[0]) for line in qop.left_over(0) if "mac80211_hwsim" in line}
    # Each address space in a guest is a process here, which has the kernel's name at first.
    return [process.pid for process in psutil.process_iter(["ppid"])
            if process.pid in named and process.info["ppid"] not in named]


def started(qop: Qop) -> set[str]:
    """The testbeds that have begun to measure."""
    return {event["testbed"] for event in events.read_events(qop.folder / "out" / events.FILE)
            if event["event"] == "repetition-started"}


def interrupted(qop: Qop, how: signal.Signals, running: subprocess.Popen[str]) -> dict[str, int]:
    """Send a signal when there is a record; each whole record's file, and when it was written.

    And again, as who is impatient does: what the first one began goes on to its end.
    """
    wait_until(lambda: record_files(qop))
    assert guests(qop), running.poll()
    for _ in range(4):
        running.send_signal(how)
        time.sleep(0.01)
    _, complaint = running.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in complaint and "is closed" not in complaint, complaint
    assert qop.left_over() == []
    assert mounts(qop) == []
    for path in record_files(qop):
        assert path.suffix == ".json" or how == signal.SIGKILL
        if path.suffix == ".json":
            json.loads(path.read_text())
    return {path.name: path.stat().st_mtime_ns for path in record_files(qop)
            if path.suffix == ".json"}


def resumed(qop: Qop, kept: dict[str, int], repetitions: int) -> None:
    """The same run once more measures what is missing, and touches nothing that is there."""
    folder = qop.folder / "out" / "records"
    done = qop(*ARGUMENTS, "--repetitions", str(repetitions))
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} of them measured already" in done.stderr, (kept, done.stderr)
    records = qop.records("out")
    assert len(records) == 2 * repetitions
    assert all(found.status == "ok" for found in records.values())
    for name, stamp in kept.items():
        assert (folder / name).stat().st_mtime_ns == stamp


def test_interrupted_run_leaves_nothing_and_goes_on(qop: Qop, repetitions: int) -> None:
    """While it lasts, another shell sees it, and no second run writes there; after Ctrl-C: nothing.

    No process, no mount, no half record; then all of them, made with the same things.
    """
    arguments, total = (*ARGUMENTS, "--repetitions", str(repetitions)), 2 * repetitions
    running = qop.start(*arguments)
    # Asking all the time would take the processor from the run.
    wait_until(lambda: started(qop))
    wait_until(lambda: "running: " in (said := qop("status", "out").stdout)
               or f"1 of {total}" in said)
    assert "out: running" in qop("status", "out").stdout
    second = qop(*arguments)
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1 and "another run is writing there" in second.stderr
    resumed(qop, interrupted(qop, signal.SIGINT, running), repetitions)
    assert len(json.loads((qop.folder / "out" / "provenance.json").read_text())) == 1
    said = qop("status", "out").stdout
    assert f"not running; {total} of {total} repetitions ok, 0 failed" in said
    assert "running: " not in said


def test_killed_run_leaves_nothing_and_goes_on(qop: Qop, repetitions: int) -> None:
    """After kill -9: no process, no mount; what is half written does not count; then all."""
    running = qop.start(*ARGUMENTS, "--repetitions", str(repetitions))
    resumed(qop, interrupted(qop, signal.SIGKILL, running), repetitions)


def test_lost_guests_are_replaced_and_reported(
        qop: Qop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that dies and one that hangs cost a second attempt each, and the run says so.

    Both have most of their repetitions to come: a guest that has nothing more to do is not missed.
    """
    # A guest hangs when this is added to its repetition's limit of 62 s. A good one takes 1.5 s.
    monkeypatch.setenv("QOP_WATCHDOG_S", "-35")
    # Where waiting is skipped, guests are stopped between commands anyway, and go on with the next.
    running = qop.start(*ARGUMENTS, "--clock", "real", "--repetitions", "3")
    wait_until(lambda: len(started(qop)) == 2)
    dying, hanging = guests(qop)
    os.kill(dying, signal.SIGKILL)
    os.kill(hanging, signal.SIGSTOP)
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, errors
    records = qop.records("out")
    assert len(records) == 6 and all(found.status == "ok" for found in records.values())
    happened = list(events.read_events(qop.folder / "out" / events.FILE))
    lost = [event["reason"] for event in happened if event["event"] == "testbed-lost"]
    assert any("SIGKILL" in reason for reason in lost), lost
    assert any("watchdog" in reason for reason in lost), lost
    assert sum(found.attempt == 2 for found in records.values()) >= 2
    assert "second attempt" in errors
    assert qop.left_over() == []


def test_full_disk_ends_the_run_and_loses_nothing(qop: Qop) -> None:
    """Where a record cannot be kept, one line says so; what was kept stays, and the run goes on."""
    done, before = qop.run("out", *VIRTUAL, "--policies", "P1", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    # Nothing can be made inside a file: the captures' folder is one now.
    kept = qop.folder / "out" / "captures"
    kept.rename(qop.folder / "captures")
    kept.write_text("no folder")
    done, after = qop.run("out", *VIRTUAL, "--policies", "P1", "--repetitions", "2")
    assert done.returncode == 1
    assert "P1-N2-002 cannot be kept" in done.stderr and "Traceback" not in done.stderr
    assert after == before
    kept.unlink()
    done, records = qop.run("out", *VIRTUAL, "--policies", "P1", "--repetitions", "2")
    assert done.returncode == 0, done.stderr
    assert len(records) == 2
    assert qop.left_over() == []

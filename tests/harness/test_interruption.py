"""Whatever ends a run, nothing is left over, nothing is half written, and the next run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import PROJECT, Qop, wait_until

pytestmark = pytest.mark.guest

ARGUMENTS = ("run", "--out", "out", "--scenarios", "N2", "--policies", "P1,P2",
             "--repetitions", "3", "--stream-bytes", "1M")


def record_files(qop: Qop) -> list[Path]:
    """Everything that lies in the records' folder, hidden files too."""
    return list((qop.folder / "out" / "records").glob("*")) + \
        list((qop.folder / "out" / "records").glob(".*"))


def mounts() -> str:
    """This process' mounts."""
    return Path("/proc/self/mounts").read_text()


def guests(qop: Qop) -> list[int]:
    """Process ids of the running guests of this folder."""
    return [int(line.split(":")[0]) for line in qop.left_over(0) if "mac80211_hwsim" in line]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_run_leaves_nothing_and_goes_on(qop: Qop, how: signal.Signals) -> None:
    """After Ctrl-C, kill or kill -9: no process, no mount, no half record; then all six."""
    before = mounts()
    running = qop.start(*ARGUMENTS)
    wait_until(lambda: record_files(qop))
    assert guests(qop), running.poll()
    running.send_signal(how)
    running.communicate(timeout=30)
    assert qop.left_over() == []
    assert mounts() == before
    for path in record_files(qop):
        if how != signal.SIGKILL:
            assert path.suffix == ".json"
        if path.suffix == ".json":
            json.loads(path.read_text())
    kept = {path.name: path.stat().st_mtime_ns for path in record_files(qop)
            if path.suffix == ".json"}
    flagged = {path.name for path in record_files(qop) if path.suffix == ".json"
               and json.loads(path.read_text())["environment"].get("flags")}
    done = subprocess.run(qop.argv(*ARGUMENTS), cwd=qop.folder, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(PROJECT)},
                          timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(kept)} of them measured already" in done.stderr
    records = qop.records("out")
    assert len(records) == 6 and all(found.status == "ok" for found in records.values())
    for name, stamp in kept.items():
        if name in flagged:
            continue  # waited for the processor: measured again, alone, by rule
        assert (qop.folder / "out" / "records" / name).stat().st_mtime_ns == stamp


def test_killed_guest_is_retried_and_reported(qop: Qop) -> None:
    """A guest that dies in the middle costs a second attempt, which the record tells of."""
    running = qop.start(*ARGUMENTS)
    wait_until(lambda: record_files(qop))
    os.kill(guests(qop)[0], signal.SIGKILL)
    _, errors = running.communicate(timeout=200)
    assert running.returncode == 0, errors
    records = qop.records("out")
    assert len(records) == 6 and all(found.status == "ok" for found in records.values())
    again = [found for found in records.values() if found.attempt == 2]
    assert again and "SIGKILL" in again[0].environment["first_attempt"]
    assert "second attempt" in errors
    assert qop.left_over() == []


def test_hung_guest_is_killed_by_the_watchdog(qop: Qop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that stops answering is killed in time; its repetition succeeds on a fresh one."""
    monkeypatch.setenv("QOP_WATCHDOG_S", "12")
    running = qop.start(*ARGUMENTS)
    wait_until(lambda: record_files(qop))
    hung = guests(qop)[0]
    os.kill(hung, signal.SIGSTOP)
    _, errors = running.communicate(timeout=200)
    assert running.returncode == 0, errors
    again = [found for found in qop.records("out").values() if found.attempt == 2]
    assert again and "watchdog" in again[0].environment["first_attempt"]
    assert qop.left_over() == []


def test_second_run_on_one_folder_is_refused(qop: Qop) -> None:
    """Two runs cannot write to one folder: the second says so on one line and changes nothing."""
    running = qop.start(*ARGUMENTS)
    wait_until(lambda: record_files(qop))
    second = qop(*ARGUMENTS)
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1 and "another run is writing there" in second.stderr
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)


def test_full_disk_ends_the_run_and_loses_nothing(qop: Qop) -> None:
    """Where a record cannot be kept, one line says so; what was kept stays, and the run goes on."""
    done, before = qop.run("out", "--policies", "P1", "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    # Nothing can be made inside a file: the captures' folder is one now.
    kept = qop.folder / "out" / "captures"
    kept.rename(qop.folder / "captures")
    kept.write_text("no folder")
    done, after = qop.run("out", "--policies", "P1", "--repetitions", "2")
    assert done.returncode == 1
    assert "P1-N2-002 cannot be kept" in done.stderr and "Traceback" not in done.stderr
    assert after == before
    kept.unlink()
    done, records = qop.run("out", "--policies", "P1", "--repetitions", "2")
    assert done.returncode == 0, done.stderr
    assert len(records) == 2
    assert qop.left_over() == []

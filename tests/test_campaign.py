"""A run as a whole: one testbed a policy, flags for a busy processor, a view from another shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import Qop, wait_until

pytestmark = pytest.mark.guest


def test_one_testbed_serves_a_policy_in_all_its_scenarios(qop: Qop) -> None:
    """Two policies in three scenarios boot two guests, and every cell is proven."""
    done, records = qop.run("out", "--policies", "P2,P3", "--scenarios", "N1,N2,R2",
                            "--repetitions", "2")
    assert done.returncode == 0, done.stderr
    assert len(records) == 12
    logs = qop.folder / "out" / "logs"
    assert {path.name for path in logs.iterdir()} == {"P2", "P3", "cells"}
    # One daemon served them all: a second one would have said a second time that it starts.
    starts = (logs / "P3" / "ha-a-charon.log").read_text().count("Starting IKE charon daemon")
    assert starts == 1
    for cell in ("P2-N1", "P3-R2"):
        lines = (logs / "cells" / f"{cell}.log").read_text().splitlines()
        assert sum(" ok, attempt 1" in line for line in lines) >= 2


def test_results_say_what_they_were_made_with(qop: Qop) -> None:
    """Code, image, programs and machine, once for all records made with them."""
    for repetitions in ("1", "2"):
        done, _ = qop.run("out", "--policies", "P1", "--repetitions", repetitions)
        assert done.returncode == 0, done.stderr
    [found] = json.loads((qop.folder / "out" / "provenance.json").read_text())
    assert found["image"]["kernel"]["version"] and found["image"]["root"]["packages"]
    assert found["programs"]["tshark"] and found["host"]["processors"] >= 1
    assert set(found["scenarios"]) == {"N2"}


@contextmanager
def busy_processors(each: int) -> Iterator[None]:
    """So many busy processes on every processor."""
    hogs = [subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c",
                              "while True: pass"])
            for core in os.sched_getaffinity(0) for _ in range(each)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.send_signal(signal.SIGKILL)
            hog.wait()


def test_what_waited_for_the_processor_is_flagged_and_measured_again_alone(qop: Qop) -> None:
    """Others take the processors during the streams: flagged, and repeated when they are gone."""
    running = qop.start("run", "--out", "out", "--policies", "P1", "--scenarios", "N2",
                        "--repetitions", "1", "--stream-bytes", "4M")
    log = qop.folder / "out" / "logs" / "cells" / "P1-N2.log"
    wait_until(lambda: "running: P1-N2-001" in qop("status", "out").stdout)
    with busy_processors(each=4):
        time.sleep(8)  # most of the 11 s that the streams take
    _, errors = running.communicate(timeout=200)
    assert running.returncode == 0, errors
    assert "[1/2]" in errors and "[2/2]" in errors
    first, *_ = log.read_text().splitlines()
    assert "'limits': []" not in first
    [found] = qop.records("out").values()
    assert found.environment["alone"] is True


def test_status_from_another_shell(qop: Qop) -> None:
    """While a run lasts, its folder tells what is being measured; afterwards, what came of it."""
    running = qop.start("run", "--out", "out", "--policies", "P1,P2", "--scenarios", "N2",
                        "--repetitions", "2", "--stream-bytes", "1M")
    wait_until(lambda: "running: P" in qop("status", "out").stdout)
    said = qop("status", "out").stdout
    assert "out: running" in said and "measuring side by side" in said
    _, errors = running.communicate(timeout=200)
    assert running.returncode == 0, errors
    said = qop("status", "out").stdout
    assert "not running; 4 of 4 repetitions ok, 0 failed" in said
    assert not (qop.folder / "out" / "state.json").exists()

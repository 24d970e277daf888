"""A run as a whole: one testbed a policy, flags for a busy processor, a view from another shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import PROJECT, Qop, wait_until

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
    assert set(json.loads((qop.folder / "out" / "plan.json").read_text())["levels"][
        "scenario"]) == {"N2"}


#: The command line, but for a limit that every repetition passes.
IMPATIENT = ("import sys; import studies; from harness import cli; "
             "from studies.study import Stage; study = type(studies.load('qop2007')); "
             "study.stages = (Stage('udp', ('udp_start',), ('udp_end',), limit=-1.0),); "
             "sys.exit(cli.main())")


def test_what_waited_for_the_processor_is_flagged_and_measured_again_exclusively(qop: Qop) -> None:
    """A flagged repetition is repeated at the end, exclusively, once; its flag is not hidden."""
    argv = ["run", "--out", "out", "--policies", "P1", "--scenarios", "N2", "--repetitions", "1",
            "--stream-bytes", "200k"]
    done = subprocess.run([sys.executable, "-c", IMPATIENT, *argv], cwd=qop.folder, text=True,
                          capture_output=True, check=False, timeout=200,
                          env={**os.environ, "PYTHONPATH": str(PROJECT)})
    assert done.returncode == 0, done.stderr
    assert "[1/2]" in done.stderr and "[2/2]" in done.stderr
    assert "measured exclusively; flagged: waited for the processor" in done.stderr
    [found] = qop.records("out").values()
    assert found.environment["flags"] == ["processor"]
    assert found.environment["alone"] is True
    assert found.environment["processor"]["limits"] == ["udp"]
    again = qop(*argv)
    assert again.returncode == 0 and "[1/" not in again.stderr
    assert list(qop.records("out").values()) == [found]


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
    assert "running: " not in said

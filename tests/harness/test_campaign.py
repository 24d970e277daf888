"""A run as a whole: one testbed a policy, what made it, flags for a busy processor."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from conftest import MEASURED, PATIENCE_S, Qop
from measure.records.record import Record

pytestmark = [pytest.mark.guest, pytest.mark.shareable]


def test_one_testbed_serves_a_policy_in_all_its_scenarios(
        shared_qop: Qop, measured: dict[str, Record]) -> None:
    """Six policies in two scenarios boot six guests, and every cell is proven."""
    assert len(measured) == 12
    logs = shared_qop.folder / "measured" / "logs"
    assert {path.name for path in logs.iterdir()} == {*MEASURED, "cells"}
    # One daemon served both: a second one would have said a second time that it starts.
    starts = (logs / "P3" / "ha-a-charon.log").read_text().count("Starting IKE charon daemon")
    assert starts == 1
    for cell in ("P2-N2", "P3-R1"):
        lines = (logs / "cells" / f"{cell}.log").read_text().splitlines()
        assert any(" ok, attempt 1" in line for line in lines)


def test_results_say_what_they_were_made_with(
        shared_qop: Qop, measured: dict[str, Record]) -> None:
    """Code, image, programs and machine, once for all records made with them."""
    folder = shared_qop.folder / "measured"
    [found] = json.loads((folder / "provenance.json").read_text())
    assert found["image"]["kernel"]["version"] and found["image"]["root"]["packages"]
    assert found["programs"]["tshark"] and found["host"]["processors"] >= 1
    assert set(json.loads((folder / "plan.json").read_text())["levels"]["scenario"]) == {"N2", "R1"}


#: The command line, but for a limit that every repetition passes.
IMPATIENT = ("import sys; import studies; from harness import cli; "
             "from studies.study import Stage; study = type(studies.load_study('qop2007')); "
             "study.stages = (Stage('udp', ('udp_start',), ('udp_end',), limit=-1.0),); "
             "sys.exit(cli.main())")


def test_what_waited_for_the_processor_is_flagged_and_measured_again_exclusively(
        qop: Qop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flagged repetition is repeated at the end, exclusively, once; its flag is not hidden."""
    monkeypatch.setenv("QOP_FLAGGED", "")
    argv = ["run", "--out", "out", "--policies", "P1", "--scenarios", "N2", "--repetitions", "1",
            "--stream-bytes", "200k", "--clock", "real"]
    done = subprocess.run([sys.executable, "-c", IMPATIENT, *argv], cwd=qop.folder, text=True,
                          capture_output=True, check=False, timeout=PATIENCE_S,
                          env=qop.environment())
    assert done.returncode == 0, done.stderr
    assert "[1/2]" in done.stderr and "[2/2]" in done.stderr
    assert "measured exclusively; flagged: waited long for the processor" in done.stderr
    [found] = qop.records("out").values()
    assert found.environment["flags"] == ["processor"]
    assert found.environment["alone"] is True
    assert "udp" in found.environment["processor"]["limits"]
    again = qop(*argv)
    assert again.returncode == 0 and "[1/" not in again.stderr
    assert list(qop.records("out").values()) == [found]

"""A drive in a guest: the signal decides each roam, and what is no such roam is found."""

from __future__ import annotations

import pytest

import studies
from conftest import Qop
from measure.records.record import Record

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
DRIVE = ("run", "drivetest", "--scenarios", "D1", "--repetitions", "1")


def only(qop: Qop, out: str) -> Record:
    """The record of a run that has one."""
    [record] = qop.records(out).values()
    return record


@pytest.mark.parametrize(("policy", "eapol_frames"), [("M2", 4), ("M2-ft", 0)])
def test_a_station_roams_twice_by_its_signal(shared_qop: Qop, policy: str,
                                             eapol_frames: int) -> None:
    """From one access point to the next, below the threshold, and with little interruption."""
    done = shared_qop(*DRIVE, "--policies", policy, "--out", f"drive-{policy}")
    record = only(shared_qop, f"drive-{policy}")
    assert done.returncode == 0, record.reason + done.stderr
    assert record.measured is not None
    roams = record.measured["roams"]
    assert [(roam["from_ap"], roam["to_ap"]) for roam in roams] == [("ap-1", "ap-2"),
                                                                    ("ap-2", "ap-3")]
    assert all(roam["left_dbm"] < -70 and roam["joined_dbm"] > roam["left_dbm"] + 3
               and roam["eapol_frames"] == eapol_frames for roam in roams)
    assert shared_qop("report", f"drive-{policy}").returncode == 0
    assert "fig-drive-" in (shared_qop.folder / f"drive-{policy}" / "report.html").read_text()


@pytest.mark.parametrize("name", ["drive-no-scans", "drive-commanded", "drive-not-moved",
                                  "drive-cut-off", "drive-without-ft"])
def test_a_drive_without_its_cause_is_no_proof(shared_qop: Qop, name: str) -> None:
    """Traffic flows as before, and exactly the checks of the control fail."""
    fault = studies.load_study("drivetest").find_fault(name)
    assert fault is not None
    shared_qop(*DRIVE, "--policies", fault.on["policy"], "--out", name, "--fault", name)
    evidence = only(shared_qop, name).evidence
    assert {check.check for check in evidence if not check.ok} == set(fault.fails)

"""A drive in a guest: the signal and the access points' hints decide each roam."""

from __future__ import annotations

import pytest

from conftest import PROJECT, Qop
from measure.records.record import Record
from studies.drivetest import measurements

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
DRIVE = ("run", "drivetest", "--repetitions", "1", "--scenarios")


def only(qop: Qop, out: str) -> Record:
    """The record of a run that has one."""
    [record] = qop.records(out).values()
    return record


@pytest.mark.parametrize(("policy", "eapol_frames"), [("M2", 4), ("M2-ft", 0)])
def test_a_station_roams_twice_by_its_signal(shared_qop: Qop, policy: str,
                                             eapol_frames: int) -> None:
    """From one access point to the next, below the threshold, and with little interruption."""
    done = shared_qop(*DRIVE, "D1", "--policies", policy, "--out", f"drive-{policy}")
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


@pytest.mark.parametrize(("policy", "probed"), [
    ("wpa2-psk-neighbor-report", [[2437], [2412, 2462]]), ("wpa3-sae-802.11kv", [[2437], [2462]])])
def test_a_station_follows_the_hints_of_its_access_points(shared_qop: Qop, policy: str,
                                                          probed: list[list[int]]) -> None:
    """It scans what they name, and their frames are proven, also where PMF protects them."""
    file = str(PROJECT / "examples" / f"{policy}.yml")
    done = shared_qop(*DRIVE, "D2", "--policies", file, "--out", policy)
    record = only(shared_qop, policy)
    assert done.returncode == 0, record.reason + done.stderr
    assert record.measured is not None
    assert [roam["probed_mhz"] for roam in record.measured["roams"]] == probed
    assert {measurements.REPORTS, measurements.SCANS_NAMED} <= {
        check.check for check in record.evidence}

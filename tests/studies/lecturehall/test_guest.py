"""A full hall in a guest: all get on and stream, or the cause is named."""

from __future__ import annotations

from statistics import median

import pytest

import studies
from conftest import Qop
from measure.records.record import Record

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
HALL = ("run", "lecturehall", "--policies", "M2", "--only", "stations=10", "--repetitions", "1",
        "--medium", "802.11g-positions")


def only(qop: Qop, out: str) -> Record:
    """The record of a run that has one."""
    [record] = qop.records(out).values()
    return record


def test_ten_stations_get_on_at_once_and_stream(shared_qop: Qop) -> None:
    """Beside each other, in their seats: every check holds, and they get what they stream.

    Whose first question for the server's address collides, asks again a second later.
    """
    done = shared_qop(*HALL, "--out", "hall")
    record = only(shared_qop, "hall")
    assert done.returncode == 0, record.reason + done.stderr
    assert record.measured is not None
    assert len(record.measured["admissions_s"]) == len(record.measured["handshakes_s"]) == 10
    assert median(record.measured["streams_bps"]) == pytest.approx(1e6, rel=0.03)


def test_stations_that_cannot_get_on_show_the_cause_of_the_supplicant(shared_qop: Qop) -> None:
    """The server has another name than the policy's options ask for."""
    (shared_qop.folder / "named.yml").write_text(
        "id: NAMED\nname: named\nlayers:\n  link: {cipher: CCMP, keys: eap, pmf: 1}\n"
        "  dot1x:\n    eap: PEAP\n    inner: MSCHAPV2\n    identity: anonymous\n"
        "    options:\n      wpa_supplicant: {domain_suffix_match: wrong.example}\n")
    shared_qop("run", "lecturehall", "--policy", "named.yml", "--only", "stations=10",
               "--repetitions", "1", "--out", "named")
    reason = only(shared_qop, "named").reason
    assert reason.startswith("s1, s2, s3: not on after 60 s, with 10 of 10; wpa_supplicant on s1")
    assert "Domain suffix match 'wrong.example' not found" in reason


def test_a_station_that_did_not_authenticate_is_told_from_nine_that_did(shared_qop: Qop) -> None:
    """It has keys and is let in, but not by this authentication: nothing else of it differs."""
    name = "hall-one-remembered"
    fault = studies.load_study("lecturehall").find_fault(name)
    assert fault is not None
    shared_qop("run", "lecturehall", "--policies", fault.on["policy"], "--only", "stations=10",
               "--repetitions", "1", "--out", name, "--fault", name)
    evidence = only(shared_qop, name).evidence
    assert {check.check for check in evidence if not check.ok} == set(fault.fails)
    [authenticated] = [check for check in evidence if check.check == "each authenticated"]
    assert authenticated.detail.startswith("9 of 10 stations")

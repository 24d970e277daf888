"""The hall as a design: who sits where, what is refused, what its numbers come to."""

from __future__ import annotations

from pathlib import Path

import pytest

import studies
from conftest import PROJECT
from harness.engine.request import RunRequest, build_plan
from studies import policy_factors
from studies.lecturehall import network
from studies.lecturehall.judge import judge_repetition
from studies.lecturehall.measurements import HallMeasurements
from studies.study import Repetition, StudyError
from topologies import checks
from topologies.loader import load_medium
from topologies.medium_model import distance_m

STUDY = studies.load_study("lecturehall")


@pytest.mark.parametrize("stations", [1, 10, 50])
def test_a_hall_is_a_network(stations: int) -> None:
    """It passes every check, and each seat is near enough for the highest rate."""
    hall = network.build_hall(stations)
    checks.check_network(hall, "hall")
    nodes, signal = hall.nodes, load_medium("802.11g-positions").signal
    assert signal is not None
    seats = [node.position for node in nodes.values() if node.has_duty("station") and node.position]
    assert len({tuple(seat) for seat in seats}) == stations
    for seat in seats:
        away_m = distance_m(seat, nodes[network.ACCESS_POINT].position or ())
        assert signal.best_rate_bps(signal.received_dbm(away_m, 2.412e9)) == 54_000_000


@pytest.mark.parametrize(("example", "field"), [
    ("wpa2-tkip-group", "group_cipher"), ("wpa2-psk-by-device", "passphrases"),
    ("owe-transition", "owe_transition"), ("wpa2-eap-accounting", "dot1x.accounting"),
    ("wpa2-eap-message-authenticator", "dot1x.message_authenticator"),
    ("wpa2-wpa3-sae", "link.offered"), ("wpa3-sae-groups", "link.station_groups")])
def test_policies_that_the_hall_cannot_prove_are_refused(example: str, field: str) -> None:
    """Its judge knows one cipher and one passphrase for all, and no beacons."""
    [policies] = [factor for factor in STUDY.factors if factor.name == "policy"]
    with pytest.raises(StudyError, match=f"{field} is not proven here; leave it out, or run"):
        policies.read([], [PROJECT / "examples" / f"{example}.yml"])


@pytest.mark.parametrize(("policy", "tunnel"), [("P12", "IPsec"), ("M10", "WireGuard")])
def test_policies_with_tunnels_are_refused(policy: str, tunnel: str) -> None:
    """In one line: no station in the hall would build a tunnel."""
    [policies] = [factor for factor in STUDY.factors if factor.name == "policy"]
    with pytest.raises(StudyError, match=f"policy {policy}: {tunnel} is not measured here"):
        policies.read([policy], [])


def test_a_hall_has_an_air() -> None:
    """Without one there is nothing to share."""
    with pytest.raises(StudyError, match="setting medium: none"):
        STUDY.check_clock("virtual", STUDY.settings_type(medium=policy_factors.NO_MEDIUM))


def test_values_of_a_hall() -> None:
    """The last admission, means, the slowest stream, Jain's index."""
    values = STUDY.values(HallMeasurements(handshakes_s=[0.1, 0.3], admissions_s=[0.5, 1.5],
                                           streams_bps=[1e6, 3e6]))
    assert values == {"all_admitted_s": 1.5, "admission_mean_s": 1.0,
                      "handshake_mean_s": pytest.approx(0.2), "streams_total_bps": 4e6,
                      "stream_worst_bps": 1e6, "stream_fairness": pytest.approx(0.8)}


def test_what_broke_off_says_why(tmp_path: Path) -> None:
    """The machine's own words are the record's, not what its captures lack for want of an end."""
    cell = build_plan(RunRequest(STUDY, levels={"policy": ["M2"], "stations": ["10"]}), {}).cells[0]
    raw = {"captures": [], "elapsed_s": 60.0, "stamps": {"start": 1.0},
           "failure": {"stage": "link", "reason": "s3: not on after 60 s, with 9 of 10"}}
    judged = judge_repetition(Repetition(cell, STUDY.settings_type(), tmp_path, {}), raw)
    assert (judged.status, judged.reason) == ("failed", "s3: not on after 60 s, with 9 of 10")
    assert judged.measured is None and judged.raw["failure"] == raw["failure"]

"""A drive as a design and its checks: where it leads, what is refused, what a roam has to show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import studies
from conftest import PROJECT
from policies import load_named
from studies.drivetest import judge, measurements, path, report
from studies.drivetest.measurements import RoamRecord
from studies.drivetest.settings import DriveSettings
from studies.study import Cell, StudyError
from topologies.loader import load_medium, load_scenario
from topologies.model import Roaming, Scenario

STUDY = studies.load_study("drivetest")
PLACED, D1 = load_medium("802.11b-positions"), load_scenario("D1")


def roam(**changes: Any) -> RoamRecord:
    """A roam from ap-1 to ap-2 as D1 has it, changed."""
    return RoamRecord.model_validate({
        "from_ap": "ap-1", "to_ap": "ap-2", "begin_s": 20.0, "end_s": 20.01, "left_dbm": -76.0,
        "joined_dbm": -66.0, "is_reassociation": True, "fast": False, "eapol_frames": 4,
        "eap_frames": 0, "gap_down_s": 0.04, "gap_up_s": 0.02, "lost_down": 1, "lost_up": 0,
        **changes})


SECOND = roam(from_ap="ap-2", to_ap="ap-3", begin_s=45.0, end_s=45.01)


def failed(*roams: RoamRecord, policy: str = "M2", scenario: Scenario = D1) -> set[str]:
    """The checks of roams that do not hold."""
    made = [*judge._check_roams(roams, "ap-1", scenario, PLACED, 0.0),
            *judge._check_exchange(load_named(policy), roams)]
    return {check.check for check in made if not check.ok}


def test_two_roams_as_the_signal_demands_hold() -> None:
    """Each check has something to hold for."""
    assert failed(roam(), SECOND) == set()


@pytest.mark.parametrize(("roams", "checks"), [
    ([roam()], {measurements.VISITS}),
    ([roam(left_dbm=-69.0), SECOND], {measurements.THRESHOLD}),
    ([roam(joined_dbm=-76.0), SECOND], {measurements.STRONGER}),
    ([roam(is_reassociation=False), SECOND], {measurements.CONNECTED}),
    ([roam(eapol_frames=3), SECOND], {measurements.EXCHANGE}),
    ([roam(eap_frames=3, eapol_frames=7), SECOND], {measurements.EXCHANGE}),
    ([roam(fast=True), SECOND], {measurements.EXCHANGE}),
    ([], {measurements.VISITS, measurements.THRESHOLD, measurements.STRONGER,
          measurements.CONNECTED, measurements.EXCHANGE})])
def test_a_roam_that_the_signal_did_not_decide_is_found(
        roams: list[RoamRecord], checks: set[str]) -> None:
    """One check for each thing that can be wrong, and all without a roam."""
    assert failed(*roams) == checks


def test_a_scan_after_the_long_interval_may_find_a_better_one() -> None:
    """wpa_supplicant roams after any scan, and scans at a good signal, too, after `long_s`."""
    laptop = D1.network.nodes["laptop"]
    often = replace(D1, network=replace(D1.network, nodes={
        **D1.network.nodes, "laptop": replace(laptop, roaming=Roaming("simple", -70, 2, 20))}))
    for begin_s, expected in ((45.0, set()), (30.0, {measurements.THRESHOLD})):
        early = roam(from_ap="ap-2", to_ap="ap-3", begin_s=begin_s, end_s=begin_s + 0.01,
                     left_dbm=-60.0, joined_dbm=-50.0)
        assert failed(roam(), early, scenario=often) == expected


def test_fast_transition_has_no_handshake() -> None:
    """FT's authentication and no EAPOL frame, in each roam."""
    fast = {"fast": True, "eapol_frames": 0}
    second = SECOND.model_copy(update=fast)
    assert failed(roam(**fast), second, policy="M2-ft") == set()
    assert failed(roam(), second, policy="M2-ft") == {measurements.EXCHANGE}


def test_signals_that_do_not_follow_the_positions_are_found() -> None:
    """A station that stands still hears its access point as before, and the positions say less."""
    steps = path.list_steps(D1)
    times = [100.0 + step.at_s for step in steps]
    moved = [round(path.signals_at(D1, PLACED, step.position)["ap-1"]) for step in steps]
    heard = judge.Heard(times, moved)
    assert judge._check_places({"ap-1": heard}, D1, PLACED, 100.0).ok
    still = judge.Heard(times, [moved[0]] * len(times))
    assert not judge._check_places({"ap-1": still}, D1, PLACED, 100.0).ok
    assert not judge._check_places({}, D1, PLACED, 100.0).ok


@pytest.mark.parametrize(("lost", "gap_s", "count"), [
    ((), 0.02, 0), ((50, 51, 52), 0.08, 3), ((10, 11), 0.02, 0)])
def test_an_interruption_is_that_of_its_roam(lost: tuple[int, ...], gap_s: float,
                                             count: int) -> None:
    """The longest gap around the roam at 1 s, and the packets lost in it; others do not count."""
    arrivals = [(number, number * 0.02) for number in range(200) if number not in lost]
    found = judge._find_interruption(arrivals, 1.0, 1.03)
    assert found == (pytest.approx(gap_s), count)
    assert judge._find_interruption(arrivals[:50], 1.0, 1.03)[0] is None


def test_the_drives_lead_past_three_access_points() -> None:
    """D1 and D2 visit all three, and a threshold that is never reached leads nowhere."""
    for name in ("D1", "D2"):
        assert path.expected_visits(load_scenario(name), PLACED) == ["ap-1", "ap-2", "ap-3"]
    assert path.range_m(PLACED, 1, -70.0) == pytest.approx(22.4, abs=0.2)


def cell(tmp_path: Path, policy: str = "M2", **words: str) -> Cell:
    """A cell of D1 with other words in its file."""
    text = (PROJECT / "topologies/scenarios/D1.yml").read_text().replace("id: D1", "id: MINE")
    for old, new in words.values():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "mine.yml").write_text(text)
    [policies, scenarios] = STUDY.factors
    return Cell({"policy": policies.read([policy], [])[0],
                 "scenario": scenarios.read([], [tmp_path / "mine.yml"])[0]})


def test_a_drive_that_leads_to_no_roam_is_refused(tmp_path: Path) -> None:
    """Before anything starts, with what to do."""
    near = cell(tmp_path, way=("to: [130, 45]", "to: [30, 45]"))
    with pytest.raises(StudyError, match="has no reason to leave ap-1; drive farther, or raise"):
        STUDY.testbed(near, DriveSettings())
    assert STUDY.testbed(cell(tmp_path), DriveSettings()).network.nodes["laptop"].roaming


@pytest.mark.parametrize("medium", ["none", "802.11b-short", "802.11ac"])
def test_a_medium_without_a_signal_is_refused(medium: str) -> None:
    """Nothing would make the station roam."""
    with pytest.raises(StudyError, match=f"{medium} has no signal by distance"):
        STUDY.check_clock("virtual", DriveSettings(medium=medium))


@pytest.mark.parametrize(("policy", "message"), [
    ("P2", "WEP is not measured here"), ("P3", "IPsec is not measured here"),
    ("P5", "802.1X without encryption"), ("M8-pmksa", "link.roaming pmksa is not proven here"),
    ("M5-radsec", "leave dot1x.transport out"), ("M9", "link.roaming fils is not proven here")])
def test_policies_that_a_drive_cannot_prove_are_refused(policy: str, message: str) -> None:
    """The words say what to leave out, or which study measures it."""
    with pytest.raises(StudyError, match=message):
        STUDY.factors[0].read([policy], [])


def test_the_drawing_has_the_way_the_ranges_and_the_roams() -> None:
    """A star where the station roamed, a circle for each range, and a line for each roam."""
    measured = measurements.DriveMeasurements(
        roams=[roam(), SECOND], home="ap-1", lost_packets=2,
        positions=[(step.at_s, step.position[0], step.position[1])
                   for step in path.list_steps(D1)],
        heard_dbm={"ap-1": [(0.0, -50.0), (0.5, -51.0)]})
    series = report.to_series(measured)
    there = report._map_panel(D1, PLACED, series)
    stars = next(trace for trace in there.data if trace["name"] == "roam")
    assert stars["x"] == [pytest.approx(56, abs=1), pytest.approx(106, abs=1)]
    assert sum(trace["mode"] == "lines" for trace in there.data) == 3 * 2 + 1
    signals = report._signal_panel(D1, series)
    assert [label["text"] for label in signals.layout["annotations"]] == ["ap-1 to ap-2",
                                                                          "ap-2 to ap-3"]
    assert len(signals.layout["shapes"]) == 3  # two roams and the threshold

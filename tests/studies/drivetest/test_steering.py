"""802.11k and 802.11v in a drive: who names whom, what both ends do, and what the frames show."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from conftest import PROJECT
from measure.services.hostap import ControlSocket, Event
from policies import load_policy
from policies.link import LinkLayer
from studies.drivetest import measurements, neighbors, steering, steering_checks
from studies.drivetest.measurements import RoamRecord
from studies.drivetest.steering import NeighborRequests, Steering
from studies.drivetest.steering_checks import Drive, Hint, Visit
from topologies.loader import load_medium, load_scenario
from topologies.model import Roaming

PLACED, D1, D2 = load_medium("802.11b-positions"), load_scenario("D1"), load_scenario("D2")
NEIGHBORS = neighbors.list_neighbors(D2, PLACED)
BSSIDS = {name: D2.network.nodes[name].radio_mac for name in NEIGHBORS}
STATION, ROAMING = (D2.network.nodes["laptop"].radio_mac,
                    cast("Roaming", D2.network.nodes["laptop"].roaming))


class Daemon:
    """A control socket that notes commands, and has a signal and events."""

    def __init__(self, signal: int = -50, refuses: Sequence[str] = ()) -> None:
        self.signal, self.refuses = signal, tuple(refuses)
        self.commands: list[str] = []
        self.pending: list[Event] = []

    def request(self, command: str) -> str:
        """Note a command, and answer it."""
        self.commands.append(command)
        if command.startswith("STA "):
            return f"{STATION}\nsignal={self.signal}\n"
        return "FAIL\n" if self.refuses and command.startswith(self.refuses) else "OK\n"

    send_command = request

    def read_pending(self) -> list[Event]:
        """The events since the last call."""
        events, self.pending = self.pending, []
        return events


def control(daemon: Daemon) -> ControlSocket:
    return cast("ControlSocket", daemon)


def test_neighbors_are_access_points_that_receive_each_other() -> None:
    """The outer ones of the corridor are 100 m apart."""
    assert {name: [each.name for each in others] for name, others in NEIGHBORS.items()} == {
        "ap-1": ["ap-2"], "ap-2": ["ap-1", "ap-3"], "ap-3": ["ap-2"]}
    [second] = NEIGHBORS["ap-1"]
    assert (second.operating_class, second.channel, second.frequency_mhz) == (81, 6, 2437)
    assert second.to_element() == "02000000a200" + "07000000" + "510606"
    assert second.to_candidate() == "02:00:00:00:a2:00,0x7,81,6,6"


def test_a_drive_with_weak_candidates_is_recognized() -> None:
    """A station takes each candidate above -80 dBm, and leaves at -70 dBm."""
    assert not neighbors.find_weak_candidate(D2, PLACED)
    why = neighbors.find_weak_candidate(D1, PLACED)
    assert why.startswith("at -70 dBm of ap-1, its station would take ap-2 at -74 dBm")


def test_a_station_asks_below_its_threshold_and_scans_what_is_named(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """All channels only if it gets no report."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    daemon = Daemon()
    requests = NeighborRequests(control(daemon), ROAMING, [2412, 2437, 2462])
    requests.begin_visit()
    assert daemon.commands == ["SIGNAL_MONITOR THRESHOLD=-80 HYSTERESIS=4"]
    requests.handle_event(Event(0.0, "CTRL-EVENT-SIGNAL-CHANGE", "above=0 signal=-81"))
    requests.handle_event(Event(0.0, "CTRL-EVENT-SIGNAL-CHANGE", "above=0 signal=-85"))
    assert daemon.commands[1:] == ["NEIGHBOR_REP_REQUEST"]
    for channel in (11, 1):
        requests.handle_event(Event(0.0, "RRM-NEIGHBOR-REP-RECEIVED",
                                    f"bssid=x info=0x7 op_class=81 chan={channel} phy_type=6"))
    assert daemon.commands[2:] == []
    now[0] = requests.due_s
    requests.handle_event(None)
    assert daemon.commands[2:] == ["SCAN freq=2412,2462"]
    assert requests.due_s == now[0] + 2
    requests.handle_event(Event(0.0, "CTRL-EVENT-SIGNAL-CHANGE", "above=1 signal=-70"))
    assert requests.due_s > now[0] + 1000
    requests.handle_event(Event(0.0, "CTRL-EVENT-SIGNAL-CHANGE", "above=0 signal=-81"))
    requests.handle_event(Event(0.0, "RRM-NEIGHBOR-REP-REQUEST-FAILED", ""))
    assert daemon.commands[-1] == "SCAN freq=2412,2462"


@pytest.mark.parametrize("refuses", [("NEIGHBOR_REP_REQUEST",), ()])
def test_a_station_without_a_report_scans_all_channels(refuses: Sequence[str]) -> None:
    daemon = Daemon(refuses=refuses)
    requests = NeighborRequests(control(daemon), ROAMING, [2412, 2437, 2462])
    requests.begin_visit()
    requests.handle_event(Event(0.0, "CTRL-EVENT-SIGNAL-CHANGE", "above=0 signal=-81"))
    requests.handle_event(Event(0.0, "RRM-NEIGHBOR-REP-REQUEST-FAILED", ""))
    assert "SCAN freq=2412,2437,2462" in daemon.commands


def test_a_network_asks_a_weak_station_to_move_on() -> None:
    """Not back to where it came from, and no more often than every `short_s`."""
    daemons = {name: Daemon() for name in NEIGHBORS}
    steered = Steering({name: control(each) for name, each in daemons.items()}, STATION, ROAMING,
                       NEIGHBORS)
    steered.check_signal(0.0)
    daemons["ap-1"].pending = [Event(0.0, "AP-STA-CONNECTED", STATION)]
    steered.check_signal(1.0)
    assert daemons["ap-1"].commands == [f"STA {STATION}"]
    daemons["ap-2"].pending = [Event(0.0, "AP-STA-CONNECTED", STATION)]
    daemons["ap-2"].signal = -81
    for now_s in (2.0, 3.0, 4.5):
        steered.check_signal(now_s)
    [third] = [each for each in NEIGHBORS["ap-2"] if each.name == "ap-3"]
    due = [f"STA {STATION}",
           f"BSS_TM_REQ {STATION} valid_int=50 pref=1 neighbor={third.to_candidate()}"]
    assert daemons["ap-2"].commands == due * 2


def test_access_points_get_their_neighbors() -> None:
    daemons = {name: Daemon() for name in NEIGHBORS}
    steering.name_neighbors({name: control(each) for name, each in daemons.items()}, D2, NEIGHBORS)
    assert daemons["ap-1"].commands[-2:] == [
        f"REMOVE_NEIGHBOR {BSSIDS['ap-3']}",
        'SET_NEIGHBOR 02:00:00:00:a2:00 ssid="corridor" nr=02000000a20007000000510606']


# --- Checks ---

REPORT, REQUEST = (load_policy(PROJECT / "examples" / f"wpa2-psk-{name}.yml").layers.link
                   for name in ("neighbor-report", "bss-transition"))
PROTECTED = load_policy(PROJECT / "examples" / "wpa3-sae-802.11kv.yml").layers.link


def named(access_point: str, *, but: str = "") -> frozenset[tuple[str, int, int]]:
    return frozenset((each.bssid, each.operating_class, each.channel)
                     for each in NEIGHBORS[access_point] if each.name != but)


def hint(at_s: float, kind: tuple[int, int] | None, *, at: str = "", by_station: bool = False,
         **changes: Any) -> Hint:
    """A probe request, or an action frame between the station and an access point."""
    ends = (STATION, BSSIDS.get(at, "ff:ff:ff:ff:ff:ff"))
    sender, receiver = ends if by_station or kind is None else ends[::-1]
    category, action = kind or (None, None)
    return replace(Hint(at_s, sender, receiver, is_probe=kind is None, is_protected=False,
                        category=category, action=action, named=frozenset(), status=None,
                        target="", frequency_mhz=2437), **changes)


def frames(**changes: Any) -> list[Hint]:
    """Two visits with a report, a request, its answer and scans each, and a third one without."""
    made = []
    for at_s, here, former, there in ((10.0, "ap-1", "", "ap-2"), (30.0, "ap-2", "ap-1", "ap-3")):
        target = next(each for each in NEIGHBORS[here] if each.name == there)
        made += [hint(at_s, (5, 4), at=here, by_station=True),
                 hint(at_s + 1, (5, 5), at=here, named=named(here)),
                 hint(at_s + 2, (10, 7), at=here, named=named(here, but=former)),
                 hint(at_s + 3, None, frequency_mhz=target.frequency_mhz),
                 hint(at_s + 4, (10, 8), at=here, by_station=True, status=0, target=target.bssid)]
    return [replace(each, **changes) for each in made]


def roam(to_ap: str) -> RoamRecord:
    return RoamRecord(from_ap="", to_ap=to_ap, begin_s=0, end_s=0, left_dbm=-81, joined_dbm=-57,
                      is_reassociation=True, fast=False, eapol_frames=4, eap_frames=0,
                      gap_down_s=0.1, gap_up_s=0.1, lost_down=0, lost_up=0)


def failed(link: LinkLayer | None, hints: Sequence[Hint], targets: Sequence[str] = (
        "ap-2", "ap-3")) -> set[str]:
    """Names of the checks that do not hold."""
    assert link is not None
    names = ("ap-1", *targets)
    visits = [Visit(name, 20.0 * place, 20.0 * place + 20) for place, name in enumerate(names)]
    drive = Drive(visits, [roam(name) for name in targets], hints, NEIGHBORS, BSSIDS)
    return {check.check for check in steering_checks.check_hints(link, drive) if not check.ok}


REPORTS, REQUESTS, ACCEPTED = measurements.REPORTS, measurements.REQUESTS, measurements.ACCEPTED
SCANS, ROAMS = measurements.SCANS_NAMED, measurements.ROAMS_NAMED


def test_a_drive_with_all_frames_holds() -> None:
    """Each check has something to hold for."""
    assert failed(REPORT, frames()) == failed(REQUEST, frames()) == set()
    assert failed(PROTECTED, frames(is_protected=True)) == set()


@pytest.mark.parametrize(("place", "changes", "checks"), [
    (0, {"at_s": 50.0}, {REPORTS}), (1, {"at_s": 50.0}, {REPORTS}),
    (1, {"named": frozenset()}, {REPORTS}), (6, {"named": named("ap-2", but="ap-1")}, {REPORTS}),
    (1, {"sender": BSSIDS["ap-3"]}, {REPORTS}),
    (1, {"named": frozenset({("02:00:00:00:a2:ff", 81, 6)})}, {REPORTS}),
    (1, {"is_protected": True}, {REPORTS}), (2, {"named": frozenset()}, {REQUESTS}),
    (7, {"named": named("ap-2")}, {REQUESTS}), (2, {"action": 8}, {REQUESTS}),
    (4, {"status": 1}, {ACCEPTED}), (4, {"target": BSSIDS["ap-3"]}, {ACCEPTED}),
    (9, {"at_s": 50.0}, {ACCEPTED}), (3, {"frequency_mhz": 2462}, {SCANS}),
    (3, {"is_probe": False}, {SCANS})])
def test_one_frame_otherwise_fails_its_check(place: int, changes: dict[str, Any],
                                             checks: set[str]) -> None:
    link = LinkLayer.model_validate({"cipher": "CCMP", "keys": "psk", "neighbor_report": 1,
                                     "bss_transition": 1})
    hints = frames()
    hints[place] = replace(hints[place], **changes)
    assert failed(link, hints) == checks


def test_a_roam_to_an_access_point_that_was_not_named_is_found() -> None:
    assert failed(REPORT, frames(), ("ap-3", "ap-2")) >= {ROAMS}


def test_frames_in_clear_are_found_where_they_have_to_be_protected() -> None:
    assert failed(PROTECTED, frames()) == {REPORTS, REQUESTS}


def test_a_drive_without_roams_proves_nothing() -> None:
    assert failed(REPORT, frames(), ()) == {REPORTS, SCANS, ROAMS}
    assert failed(REQUEST, [], ("ap-2",)) == {REQUESTS, ACCEPTED, SCANS, ROAMS}

"""Move a station past access points, and let its supplicant decide when to roam.

The study drivetest measures this. `Workload.measure` runs one measurement (repetition) in the
guest, the virtual machine of the test network. It tells the kernel the station's positions, sends
UDP packets in both directions, and captures frames on the air and at the station. It commands no
roam.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from measure.agent import kernel_state
from measure.agent.errors import MeasureError
from measure.agent.workload import Service, Session, Site
from measure.capture.tcpdump import (
    AIR_INTERFACE,
    CaptureDetail,
    CapturePoint,
    capture_packets,
    settle_captures,
)
from measure.mobile_node.outages import send_probe_streams
from measure.services.hostap import ControlSocket, Hostapd, WpaSupplicant, disconnect_station
from measure.services.radius import FreeRadius
from studies.drivetest.neighbors import Neighbor
from studies.drivetest.path import Step, list_steps
from studies.drivetest.steering import (
    NeighborRequests,
    Steering,
    name_neighbors,
)
from topologies.medium import frequency_mhz
from topologies.model import ACCESS_POINT, Scenario, from_json

#: Prefix of the captures, and interface on which the station's radio shows all that it receives.
PART, MONITOR = "drive", "mon0"
#: Frames of the probe stream fit in; the headers of all others.
_DETAIL = CaptureDetail(snap_bytes=400, buffer_kib=8192, in_blocks=True)
_UP = "CTRL-EVENT-CONNECTED"
#: Time for the first connection, and time after the drive in which a last roam may end (s).
_CONNECT_S, _AFTER_S = 20.0, 4.0
#: Controls: no background scans; the kernel is not told of positions; the harness commands a roam
#: soon after the station drives off; nothing is routed to the station in the second half.
NO_SCANS, FROZEN, COMMANDED = "drive-no-scans", "drive-not-moved", "drive-commanded"
CUT_OFF = "drive-cut-off"
#: Controls: access points know no neighbors, or others with the same channels; the station scans
#: all channels in spite of a report; it ignores requests, and scans in the background.
NO_NEIGHBORS, NO_CANDIDATES = "drive-no-neighbors", "drive-no-candidates"
OTHER_NEIGHBORS = "drive-other-neighbors"
REPORT_IGNORED, REQUEST_IGNORED = "drive-report-ignored", "drive-request-ignored"
#: Time from the start of the drive to a commanded roam, and time limit of its scan (s).
_COMMAND_AFTER_S, _SCAN_S = 3.0, 2.0

#: A step of the drive with the function that tells the kernel.
_Move = tuple[Step, Callable[[], None]]


class Workload:
    """A workload: a station that is driven past access points."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._radius = FreeRadius(site)
        self._supplicants = WpaSupplicant(site)
        self._hostapd = Hostapd(site)
        self._moves: dict[str, list[_Move]] = {}
        self._requests: NeighborRequests | None = None
        self._steering: Steering | None = None
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the services that the policy needs, such as RADIUS."""
        return [self._radius, self._supplicants, self._hostapd]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Run one repetition, from the first connection to the end of the drive.

        Args:
            task: instructions for the repetition, with the scenario.
            out: folder of the repetition, which gets the captures.
            session: raw values and time stamps of the repetition.

        Raises:
            MeasureError: the station does not connect in time.
        """
        scenario: Scenario = from_json(Scenario, task["scenario"])
        raw, station = session.raw, scenario.mobile_node
        raw |= {"captures": [], "link_keys": [], "connected": []}
        control = self._supplicants.controls[station]
        moves = self._plan_moves(scenario)
        moves[0][1]()
        self._prepare_hints(scenario, control, task["hints"])
        self._connect_station(scenario, control)
        with ExitStack() as stack:
            if self._site.fault == CUT_OFF:  # after the captures, for another repetition
                stack.callback(self._route_station, scenario, "flush")
            stack.enter_context(self._add_monitor(station))
            for points in ([CapturePoint("air", None, AIR_INTERFACE,
                                         "not type ctl and not subtype beacon")],
                           [CapturePoint("station", station, MONITOR, "type mgt")]):
                stack.enter_context(capture_packets(
                    self._site.testbed, points, _DETAIL, part=PART, out=out, logs=self._site.logs,
                    summaries=raw["captures"]))
            self._note_keys(scenario, raw)
            with send_probe_streams(self._site, session, (station, scenario.peer),
                                    task["asked"]["probe_interval_ms"]):
                self._drive_past(scenario, moves, control, session)
            raw["authorized_at"] = self._authorizing_access_points(scenario)
            settle_captures()

    def _plan_moves(self, scenario: Scenario) -> list[_Move]:
        """Return the steps of a drive, computed once for all repetitions."""
        if scenario.id not in self._moves:
            testbed = self._site.testbed
            self._moves[scenario.id] = [
                (step, testbed.plan_move(scenario.mobile_node, step.position))
                for step in list_steps(scenario)]
        return self._moves[scenario.id]

    def _connect_station(self, scenario: Scenario, control: ControlSocket) -> None:
        """Connect the station, without cached keys and scan results of earlier connections.

        Raises:
            MeasureError: the station is not connected within `_CONNECT_S`.
        """
        mac = scenario.network.nodes[scenario.mobile_node].radio_mac
        # Else the kernel forgets the gateway's address in each roam, and asks for it before the new
        # access point lets anything pass: traffic would stop for a second.
        self._site.testbed.run_command(scenario.mobile_node, ["sysctl", "-qw", (
            f"net.ipv4.conf.{scenario.network.nodes[scenario.mobile_node].radio_interface}"
            ".arp_evict_nocarrier=0")])
        disconnect_station(control)
        self._hostapd.forget_station(mac)
        control.drop_events()
        if self._site.fault == NO_SCANS:
            control.send_command('SET_NETWORK 0 bgscan ""')
        control.send_command("ENABLE_NETWORK 0")
        if control.wait_event({_UP}, time.monotonic() + _CONNECT_S) is None:
            daemon = self._supplicants.daemons[scenario.mobile_node]
            cause = daemon.recent_cause()
            raise MeasureError("link", f"{scenario.mobile_node}: not connected after "
                               f"{_CONNECT_S:g} s{f'; {daemon.name}: {cause}' if cause else ''}")

    def _prepare_hints(self, scenario: Scenario, control: ControlSocket,
                       hints: Mapping[str, Any]) -> None:
        """Prepare neighbor reports and BSS transition requests, as far as the policy has them.

        Args:
            scenario: the scenario of the drive.
            control: control socket of the station's wpa_supplicant.
            hints: whether the policy has `neighbor_report` and `bss_transition`, with the
                `neighbors` by access point.
        """
        fault, controls = self._site.fault, self._hostapd.controls
        neighbors = {name: [_alter_neighbor(Neighbor(**each), fault) for each in others]
                     for name, others in hints["neighbors"].items()}
        if fault in (NO_NEIGHBORS, NO_CANDIDATES):
            neighbors = {name: [] for name in neighbors}
        self._requests = self._steering = None
        station = scenario.network.nodes[scenario.mobile_node]
        assert station.roaming is not None
        if hints["neighbor_report"]:
            # A control takes neighbor reports away from access points.
            if self._has_option("rrm_neighbor_report"):
                name_neighbors(controls, scenario, neighbors)
            self._requests = NeighborRequests(
                control, station.roaming, hints["frequencies_mhz"],
                is_ignored=fault == REPORT_IGNORED, decides=not hints["bss_transition"])
        if hints["bss_transition"] and self._has_option("bss_transition"):
            self._steering = Steering(controls, station.radio_mac, station.roaming, neighbors)
        if fault == REQUEST_IGNORED:
            control.send_command("SET disable_btm 1")
            channels = " ".join(map(str, hints["frequencies_mhz"]))
            control.send_command(f"SET_NETWORK 0 scan_freq {channels}")
            control.send_command(f'SET_NETWORK 0 bgscan "{station.roaming.bgscan_option}"')

    def _has_option(self, option: str) -> bool:
        """Return whether the access points' configuration switches an option of hostapd on."""
        return all(f"\n{option}=1\n" in (self._site.mount / name / Hostapd.file).read_text()
                   for name in self._hostapd.controls)

    @contextmanager
    def _add_monitor(self, station: str) -> Iterator[None]:
        """Give the station a monitor interface, whose frames have the received signal."""
        radio = self._site.network.nodes[station].radio_interface
        run = self._site.testbed.run_command
        run(station, ["iw", "dev", radio, "interface", "add", MONITOR, "type", "monitor"])
        try:
            run(station, ["ip", "link", "set", MONITOR, "up"])
            yield
        finally:
            run(station, ["iw", "dev", MONITOR, "del"])

    def _drive_past(self, scenario: Scenario, moves: Sequence[_Move], control: ControlSocket,
               session: Session) -> None:
        """Tell the kernel each position at its time, and note connections and keys meanwhile."""
        assert scenario.mobility is not None
        begun_s, drive = time.monotonic(), scenario.mobility
        session.stamp("start")
        if self._requests is not None:
            self._requests.begin_visit()
        faults = {COMMANDED: (drive.start_s + _COMMAND_AFTER_S, self._command_roam),
                  CUT_OFF: ((drive.start_s + drive.stop_s) / 2, self._cut_off)}
        fault_s, inject = faults.pop(self._site.fault, (math.inf, None))
        for step, tell in moves[1:]:
            self._watch_until(control, begun_s + step.at_s, session.raw)
            # An access point takes its key in use a moment after the station reports the roam.
            self._note_keys(scenario, session.raw)
            if self._steering is not None:
                self._steering.check_signal(time.monotonic())
            if self._site.fault != FROZEN:
                tell()
            if inject is not None and step.at_s >= fault_s:
                inject(scenario, control)
                inject = None
        self._watch_until(control, begun_s + scenario.mobility.stop_s + _AFTER_S, session.raw)
        session.stamp("end")

    def _watch_until(self, control: ControlSocket, until_s: float, raw: dict[str, Any]) -> None:
        """Read the supplicant's events until a time, and note each connection."""
        requests = self._requests
        while time.monotonic() < until_s:
            event = control.wait_event({_UP, *(requests.events if requests else ())},
                                       min(until_s, requests.due_s if requests else until_s))
            if event is not None and event.name == _UP:
                raw["connected"].append([event.at_s, event.text])
            if requests is not None:
                requests.handle_event(event)

    def _note_keys(self, scenario: Scenario, raw: dict[str, Any]) -> None:
        mac = scenario.network.nodes[scenario.mobile_node].radio_mac
        raw["link_keys"] += [key for key in kernel_state.link_keys(mac)
                             if key not in raw["link_keys"]]

    def _command_roam(self, scenario: Scenario, control: ControlSocket) -> None:
        """Command a roam to the next access point, which is still far: an injected fault."""
        nodes = scenario.network.nodes
        other = next(name for name in scenario.network.of_duty(ACCESS_POINT)
                     if name != scenario.home)
        control.request(f"SCAN freq={frequency_mhz(nodes[other].channel or 0)}")
        control.wait_event({"CTRL-EVENT-SCAN-RESULTS"}, time.monotonic() + _SCAN_S)
        control.request(f"ROAM {nodes[other].radio_mac}")

    def _cut_off(self, scenario: Scenario, _control: ControlSocket) -> None:
        """Let the gateway drop all packets for the station: an injected fault."""
        self._route_station(scenario, "add")

    def _route_station(self, scenario: Scenario, action: str) -> None:
        """Add or remove ("flush") the gateway's route that drops packets for the station."""
        address = scenario.network.nodes[scenario.mobile_node].address
        self._site.testbed.run_command(scenario.agent, [
            "ip", "route", action, *(["type"] if action == "flush" else []), "blackhole",
            f"{address}/32"])

    def _authorizing_access_points(self, scenario: Scenario) -> list[str]:
        """Return the access points whose kernels authorize the station at the end."""
        nodes = scenario.network.nodes
        mac = nodes[scenario.mobile_node].radio_mac
        return [name for name in scenario.network.of_duty(ACCESS_POINT)
                if kernel_state.is_authorized(self._site.testbed, name,
                                              nodes[name].radio_interface, mac)]


def _alter_neighbor(neighbor: Neighbor, fault: str) -> Neighbor:
    """Return a neighbor, with a BSSID that no access point has if this is the injected fault."""
    if fault != OTHER_NEIGHBORS:
        return neighbor
    return replace(neighbor, bssid=f"{neighbor.bssid[:-2]}ff")

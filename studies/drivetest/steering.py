"""Ask for neighbor reports (802.11k), and send BSS transition requests (802.11v), during a drive.

`NeighborRequests` is the part of a station's network manager: wpa_supplicant 2.10 asks for a report
on command only. `Steering` is the part of a wireless network's controller: hostapd 2.10 asks a
station to move on command only. Both use the daemons' control sockets, and send no frames.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from measure.services.hostap import ControlSocket, Event
from studies.drivetest.neighbors import Neighbor
from topologies.medium import frequency_mhz
from topologies.model import ACCESS_POINT, Roaming, Scenario

#: Events of wpa_supplicant: a connection, the signal has passed a threshold, each neighbor of a
#: report, and a report that is empty or did not come.
_CONNECTED, _SIGNAL_CHANGE = "CTRL-EVENT-CONNECTED", "CTRL-EVENT-SIGNAL-CHANGE"
_NEIGHBOR, _NO_NEIGHBOR = "RRM-NEIGHBOR-REP-RECEIVED", "RRM-NEIGHBOR-REP-REQUEST-FAILED"
_REPORTED = re.compile(r"op_class=(\d+) chan=(\d+)")
_SIGNAL = re.compile(r"^signal=(-?\d+)$", re.MULTILINE)
#: First operating class in 6 GHz.
_FIRST_CLASS_OF_6_GHZ = 131
#: Difference in dB from which on another event about the signal comes, as with bgscan.
_HYSTERESIS_DB = 4
#: Time in s from the first reported neighbor to the scan, in which the events of the others come.
_AFTER_REPORT_S = 0.01
#: Beacon intervals for which a list of candidates is valid.
_VALID_BEACONS = 50


@dataclass
class NeighborRequests:
    """Requests of a station for neighbor reports, and scans of the channels that they name.

    As bgscan does, the station scans every `short_s` while its access point's signal is below
    `threshold_dbm`. It asks for a report first, and scans the reported channels only.

    - `control`: control socket of the station's wpa_supplicant
    - `roaming`: threshold of the station, and interval of its scans
    - `all_mhz`: all frequencies of the network
    - `is_ignored`: the station scans all channels in any case, which is an injected fault
    - `decides`: the station scans by itself. If the network asks it to move, it only asks for a
      report after each connection.
    - `due_s`: time of the next scan on the monotonic clock
    """

    control: ControlSocket
    roaming: Roaming
    all_mhz: Sequence[int]
    is_ignored: bool = False
    decides: bool = True
    due_s: float = field(default=math.inf, init=False)
    _reported_mhz: list[int] = field(default_factory=list, init=False)
    _is_weak: bool = field(default=False, init=False)
    #: Events of wpa_supplicant that `handle_event` needs.
    events: ClassVar[frozenset[str]] = frozenset((_NEIGHBOR, _NO_NEIGHBOR, _SIGNAL_CHANGE))

    def begin_visit(self) -> None:
        """Watch the signal of another access point. Call this after each connection."""
        self._reported_mhz, self._is_weak, self.due_s = [], False, math.inf
        if self.decides:
            self.control.request(f"SIGNAL_MONITOR THRESHOLD={self.roaming.threshold_dbm} "
                                  f"HYSTERESIS={_HYSTERESIS_DB}")
        else:
            self._request_report()

    def handle_event(self, event: Event | None) -> None:
        """Act on an event of wpa_supplicant, and scan when the time has come.

        Args:
            event: the event, or None at a time limit.
        """
        if event is not None and event.name == _CONNECTED:
            self.begin_visit()
        elif event is not None and event.name == _SIGNAL_CHANGE:
            is_weak = "above=0" in event.text
            if is_weak and not self._is_weak:
                self._request_report()
            elif not is_weak:
                self.due_s = math.inf
            self._is_weak = is_weak
        elif event is not None and event.name == _NEIGHBOR:
            self._take_neighbor(event)
        elif event is not None and event.name == _NO_NEIGHBOR:
            self._schedule_scan(0.0)
        if time.monotonic() >= self.due_s:
            reported = [] if self.is_ignored else self._reported_mhz
            frequencies = ",".join(map(str, reported or self.all_mhz))
            self._schedule_scan(self.roaming.short_s)
            # While a scan goes on, wpa_supplicant refuses another one.
            self.control.request(f"SCAN freq={frequencies}")

    def _request_report(self) -> None:
        """Ask the access point for its neighbors. Without its support, scan all channels."""
        if not self.control.request("NEIGHBOR_REP_REQUEST").startswith("OK"):
            self._schedule_scan(0.0)

    def _take_neighbor(self, event: Event) -> None:
        """Add the channel of a reported neighbor. There is one event for each neighbor."""
        reported = _REPORTED.search(event.text)
        if reported is None:
            return
        operating_class, channel = map(int, reported.groups())
        self._reported_mhz.append(frequency_mhz(
            channel, is_in_6_ghz=operating_class >= _FIRST_CLASS_OF_6_GHZ))
        self._reported_mhz = sorted({*self._reported_mhz})
        self._schedule_scan(_AFTER_REPORT_S)

    def _schedule_scan(self, after_s: float) -> None:
        self.due_s = time.monotonic() + after_s if self.decides else math.inf


def name_neighbors(controls: Mapping[str, ControlSocket], scenario: Scenario,
                   neighbors: Mapping[str, Sequence[Neighbor]]) -> None:
    """Configure the neighbors that each access point lists in its neighbor reports.

    Args:
        controls: control sockets of the access points' hostapd.
        scenario: scenario with the access points.
        neighbors: neighbors by access point.

    Raises:
        MeasureError: a hostapd rejects a neighbor.
    """
    for name, control in controls.items():
        node = scenario.network.nodes[name]
        # hostapd has an entry of its own, and entries of an earlier repetition.
        for other in scenario.network.of_duty(ACCESS_POINT):
            control.request(f"REMOVE_NEIGHBOR {scenario.network.nodes[other].radio_mac}")
        for neighbor in neighbors[name]:
            control.send_command(f'SET_NEIGHBOR {neighbor.bssid} ssid="{node.ssid}" '
                                 f"nr={neighbor.to_element()}")


@dataclass
class Steering:
    """Requests of a network to a station with a weak signal to move to another access point.

    - `controls`: control sockets of the access points' hostapd
    - `mac`: MAC address of the station
    - `roaming`: threshold of the station, and interval of requests
    - `neighbors`: candidates by access point, empty lists for a request without candidates
    """

    controls: Mapping[str, ControlSocket]
    mac: str
    roaming: Roaming
    neighbors: Mapping[str, Sequence[Neighbor]]
    _serving: str = field(default="", init=False)
    _former: str = field(default="", init=False)
    _due_s: float = field(default=0.0, init=False)

    def check_signal(self, now_s: float) -> None:
        """Send a BSS transition request if the station's signal is below the threshold.

        The signal is that at the serving access point. Requests are at least `short_s` apart. The
        access point that the station came from is not offered as a candidate.

        Args:
            now_s: time of a monotonic clock, in s.
        """
        for name, control in self.controls.items():
            if any(event.name == "AP-STA-CONNECTED" and event.text.startswith(self.mac)
                   for event in control.read_pending()):
                self._serving, self._former = name, self._serving
        if not self._serving or now_s < self._due_s:
            return
        control = self.controls[self._serving]
        signal = _SIGNAL.search(control.request(f"STA {self.mac}"))
        if signal is None or int(signal[1]) >= self.roaming.threshold_dbm:
            return
        self._due_s = now_s + self.roaming.short_s
        candidates = "".join(f" neighbor={each.to_candidate()}"
                             for each in self.neighbors[self._serving]
                             if each.name != self._former)
        # A station that has just left makes hostapd refuse the command.
        control.request(f"BSS_TM_REQ {self.mac} valid_int={_VALID_BEACONS}"
                        + (f" pref=1{candidates}" if candidates else ""))

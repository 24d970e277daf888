"""One repetition inside the machine: authenticate from nothing, move if asked, stream, tidy up.

What comes out is raw: captures, events, kernel state, iperf3's JSON. Times on the wall clock of
the machine, which also stamps the captures. Judging is done outside, see `assemble`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import iperf, kernel, sampling
from measure.capture import Capture, Point, settle
from measure.errors import MeasureError
from measure.services import Services
from measure.station import LINK_S
from topologies.model import Scenario

DATA_S = 2
_GATE_S = 0.25
_AUTH_FILTER = ("ether proto 0x888e or arp or icmp or udp port 434 or udp port 500 "
                "or udp port 4500")
# More than any frame has here. Without blocks the kernel keeps room for as many for each.
_WHOLE_BYTES = 4096
# Enough for radio, 802.11, WEP, IP, ESP and UDP headers; payloads are not needed.
_HEADER_BYTES = 192
# What the kernel holds for a capture, in KiB: getting on the network is some hundred frames, and a
# second of busy air two thousand headers; without a medium only the processor limits a stream. A
# capture that loses packets cannot serve as evidence; but a guest is small, and what this takes is
# missing where programs' pages are kept.
_AUTH_KIB, _STREAM_KIB, _UNLIMITED_KIB = 1024, 2048, 8192


@dataclass(frozen=True)
class Streams:
    """Sizes of the TCP and UDP streams, and how UDP is offered."""

    tcp_bytes: int
    udp_bytes: int
    udp_payload_bytes: int
    udp_rate_bps: float
    timeout_s: float
    #: Captures keep one in so many of the packets that the streams should consist of.
    one_in: int = 1


class Repetition:
    """The steps of one repetition; `raw` fills as they go, so a failure keeps what was seen."""

    def __init__(self, services: Services, scenario: Scenario, out: Path,
                 streams: Streams) -> None:
        self.services = services
        self.testbed = services.testbed
        self.scenario = scenario
        self.station = services.stations[scenario.mobile_node]
        self.out = out
        self.streams = streams
        self.raw: dict[str, Any] = {"captures": [], "stamps": {}, "events": [], "kernel": {}}
        self._nodes = self.testbed.network.nodes
        self._peer = self._nodes[self.scenario.peer].address

    def run(self, on_the_network: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """All steps; raises MeasureError at the first that fails, captures closed all the same.

        `on_the_network` is called when the mobile node is where its streams begin.
        """
        cpu = kernel.processor_seconds()
        try:
            self._reset()
            with self._captures("auth", self._auth_points(), snap_bytes=_WHOLE_BYTES,
                                buffer_kib=_AUTH_KIB):
                self._get_on(self.scenario.home, "")
                if self.scenario.roams_to:
                    self._stamp("handoff")
                    self.station.leave()
                    self._get_on(self.scenario.roams_to, "foreign_")
            held_kib = _STREAM_KIB if self.testbed.medium else _UNLIMITED_KIB
            with self._captures("traffic", self._traffic_points(), snap_bytes=_HEADER_BYTES,
                                buffer_kib=held_kib, in_blocks=True):
                on_the_network()
                self._streams()
                self._kernel_state("after_traffic")
                settle()
        finally:
            self._stamp("end")
            after = kernel.processor_seconds()
            self.raw["processor_s"] = {use: round(after[use] - cpu[use], 2) for use in after}
            self.raw["events"] = [vars(event) for event in self.station.supplicant.history]
            self.raw["ike_sas"] = self.station.ike_sas
        return self.raw

    def check_port_closed(self) -> dict[str, Any]:
        """Associate while the authentication server is held still: nothing may pass the port."""
        self._reset()
        supplicant = self.station.supplicant
        home = self._nodes[self.scenario.home]
        with self.services.silent_radius(self.scenario.agent):
            self.station.begin(home)
            met = supplicant.wait({"CTRL-EVENT-EAP-STARTED"}, time.monotonic() + LINK_S)
            flags = self._station_flags(self.scenario.home)
            agent = self._nodes[self.scenario.agent].address
            answered = met is not None and self.station.resolves(agent, _GATE_S)
        self._reset()
        return {"associated": met is not None, "authorized": flags.get("authorized", "unknown"),
                "answered": answered}

    def connect(self) -> None:
        """Authenticate from nothing and stay connected; nothing is captured."""
        self._reset()
        self.station.connect(self._nodes[self.scenario.home])

    def _reset(self) -> None:
        """Take away what an earlier repetition left: link, scan results, IPsec SAs."""
        self.services.enter(self.scenario)
        self.services.take_off(self.station)
        if self.station.left_over():
            raise MeasureError("testbed", f"{self.station.name}: IPsec SAs are left over")
        self.testbed.run(self.station.name, ["ip", "neigh", "flush", "dev", self.station.radio])
        self.station.supplicant.forget()

    def _get_on(self, access_point: str, prefix: str) -> None:
        """Everything from the first probe to the first answered packet, at one access point."""
        self._stamp(f"{prefix}start")
        try:
            self.station.join(self._nodes[access_point])
        finally:
            self._stamp(f"{prefix}link")
            self.raw["kernel"][f"{prefix}station"] = self._station_flags(access_point)
        self.station.register()
        self._stamp(f"{prefix}registered")
        self.raw[f"{prefix}registration"] = self.station.registration.history
        self.station.tunnel()
        self._stamp(f"{prefix}tunnel")
        answered = self.station.ping(self._peer, DATA_S)
        self._stamp(f"{prefix}first_packet")
        # Once more: the access point opens its port a frame later than the station.
        self.raw["kernel"][f"{prefix}station"] = self._station_flags(access_point)
        if not answered:
            raise MeasureError("data", f"{self.station.name}: associated, but no packet "
                               f"comes back from {self._peer} within {DATA_S:g} s")

    def _streams(self) -> None:
        sizes = self.streams
        for protocol, size in (("tcp", sizes.tcp_bytes), ("udp", sizes.udp_bytes)):
            self._stamp(f"{protocol}_start")
            self.raw[f"iperf_{protocol}"] = iperf.stream(
                self.testbed, self.station.name, self._peer, protocol=protocol,
                size_bytes=size, timeout_s=sizes.timeout_s, rate_bps=sizes.udp_rate_bps,
                payload_bytes=sizes.udp_payload_bytes)
            self._stamp(f"{protocol}_end")

    def _station_flags(self, access_point: str) -> dict[str, str]:
        stations = kernel.station_flags(self.testbed, access_point,
                                        self._nodes[access_point].radio_interface)
        return stations.get(self.station.mac, {})

    def _kernel_state(self, moment: str) -> None:
        """IPsec SAs between the mobile node and its agent, at both ends."""
        if not self.services.has_ipsec:
            return
        ends = {self.station.address, self._nodes[self.scenario.agent].address}
        self.raw["kernel"][moment] = {
            node: [state for state in kernel.xfrm_states(self.testbed, node)
                   if {state["src"], state["dst"]} == ends]
            for node in (self.station.name, self.scenario.agent)}

    def _stamp(self, name: str) -> None:
        self.raw["stamps"][name] = time.time()

    def _auth_points(self) -> list[Point]:
        """The air, the mobile node's own interface, and the wire behind each access point used."""
        points = [Point("air", None, "hwsim0"),
                  Point("mn", self.station.name, self.station.radio, _AUTH_FILTER),
                  self._wire("wire", self.scenario.home)]
        if self.scenario.roams_to:
            points.append(self._wire("foreign", self.scenario.roams_to))
        return points

    def _traffic_points(self) -> list[Point]:
        """The air, the wire behind the mobile node's access point, the agents' wire, the peer."""
        one_in, has_ipsec = self.streams.one_in, self.services.has_ipsec
        air = sampling.air(one_in, has_link=bool(self.testbed.cipher_bytes), has_ipsec=has_ipsec)
        wire = sampling.wire(one_in, has_ipsec=has_ipsec)
        places = [("wire", self.scenario.access_point)]
        places += [("core", router) for router in self.scenario.network.of_kind("router")]
        return [Point("air", None, "hwsim0", air, one_in), self._receiver(),
                *(self._wire(name, node, wire, one_in) for name, node in places)]

    def _wire(self, name: str, node: str, expression: str = "", one_in: int = 1) -> Point:
        """A node's first wire: it shows what is on it, and nothing that is unpacked elsewhere."""
        end = next(end for link in self.testbed.network.links for end in link.ends
                   if end.startswith(f"{node}/"))
        return Point(name, node, end.partition("/")[2], expression, one_in)

    def _receiver(self) -> Point:
        """Where the stream arrives; inside a tunnel it shows there both as ESP and unpacked."""
        peer = self._nodes[self.scenario.peer]
        return Point("peer", self.scenario.peer, peer.interface_of(peer.address),
                      f"udp dst port {iperf.PORT} or esp")

    def _captures(self, part: str, points: list[Point], *, snap_bytes: int, buffer_kib: int,
                  in_blocks: bool = False) -> ExitStack:
        """Captures of this part of the repetition, running; closing them notes their counts."""
        with ExitStack() as stack:
            running = []
            for point in points:
                capture = Capture(self.testbed, point, self.out / f"{part}-{point.name}.pcap",
                                  self.services.logs / f"{point.name}-tcpdump.log",
                                  snap_bytes=snap_bytes, buffer_kib=buffer_kib,
                                  in_blocks=in_blocks)
                stack.callback(self._close, capture.stop)
                running.append(capture)
            for capture in running:
                capture.wait_ready()
            return stack.pop_all()

    def _close(self, stop: Callable[[], dict[str, object]]) -> None:
        self.raw["captures"].append(stop())

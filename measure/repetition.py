"""One repetition inside the machine: authenticate from nothing, prove it, stream, tidy up.

What comes out is raw: captures, events, kernel state, iperf3's JSON. Times on the wall clock of
the machine, which also stamps the captures. Judging is done outside, see `assemble`.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import ike, iperf, kernel
from measure.capture import Capture
from measure.errors import MeasureError
from measure.services import Services

LINK_S = 6.0
IKE_S = 8.0
DATA_S = 2.0
_AUTH_FILTER = "ether proto 0x888e or arp or icmp or udp port 500 or udp port 4500"
_WIRE_FILTER = ("arp or icmp or esp or udp port 500 or udp port 4500 or udp port 1812 "
                "or tcp or udp")
# Enough for radio, 802.11, WEP, IP, ESP and UDP headers; payloads are not needed.
_HEADER_BYTES = 192
_UP = {"CTRL-EVENT-CONNECTED", "CTRL-EVENT-EAP-FAILURE", "CTRL-EVENT-ASSOC-REJECT",
       "CTRL-EVENT-AUTH-REJECT", "CTRL-EVENT-SSID-TEMP-DISABLED"}
_REFUSED = {"CTRL-EVENT-EAP-FAILURE": "EAP-Failure",
            "CTRL-EVENT-ASSOC-REJECT": "association refused",
            "CTRL-EVENT-AUTH-REJECT": "802.11 authentication refused",
            "CTRL-EVENT-SSID-TEMP-DISABLED": "network given up by the supplicant"}


@dataclass(frozen=True)
class Streams:
    """Sizes of the TCP and UDP streams, and how UDP is offered."""

    tcp_bytes: int
    udp_bytes: int
    udp_payload_bytes: int
    udp_rate_bps: float
    timeout_s: float


NO_STREAMS = Streams(0, 0, 0, 0.0, 0.0)


class Repetition:
    """The steps of one repetition; `raw` fills as they go, so a failure keeps what was seen."""

    def __init__(self, services: Services, out: Path, streams: Streams) -> None:
        self.services = services
        self.testbed = services.testbed
        self.scenario = services.scenario
        self.out = out
        self.streams = streams
        self.raw: dict[str, Any] = {"captures": [], "stamps": {}, "events": [], "kernel": {}}
        nodes = self.testbed.network.nodes
        self._station = nodes[self.scenario.mobile_node]
        self._radio = self._station.radio_interface
        self._ap_radio = nodes[self.scenario.access_point].radio_interface
        self._mac = self._station.interfaces[self._radio].radio or ""
        self._peer = nodes[self.scenario.peer].address

    def run(self) -> dict[str, Any]:
        """All steps; raises MeasureError at the first that fails, captures closed all the same."""
        cpu = kernel.processor_seconds()
        try:
            self._reset()
            with self._captures("auth", snap_bytes=0):
                self._stamp("start")
                self._link()
                if self.services.has_ipsec:
                    self._tunnel()
                self._first_packet()
                self._kernel_state("after_authentication")
            with self._captures("traffic", snap_bytes=_HEADER_BYTES):
                self._streams()
                self._kernel_state("after_traffic")
        finally:
            self._stamp("end")
            after = kernel.processor_seconds()
            self.raw["processor_s"] = {use: round(after[use] - cpu[use], 2) for use in after}
            self.raw["events"] = [vars(event) for event in self.services.supplicant.history]
        return self.raw

    def connect(self) -> None:
        """Authenticate from nothing and stay connected; nothing is captured."""
        self._reset()
        self._link()
        if self.services.has_ipsec:
            self._tunnel()
        self._first_packet()

    def check_port_closed(self) -> dict[str, Any]:
        """Associate while the authentication server is held still: nothing may pass the port."""
        self._reset()
        with self.services.silent_radius():
            self.services.supplicant.command("ENABLE_NETWORK 0")
            met = self.services.supplicant.wait({"CTRL-EVENT-EAP-STARTED"},
                                                time.monotonic() + LINK_S)
            flags = self._station_flags()
            answered = met is not None and self._ping(0.3)
        self._reset()
        return {"associated": met is not None, "authorized": flags.get("authorized", "unknown"),
                "answered": answered}

    def _reset(self) -> None:
        """Take away what an earlier repetition left: link, scan results, IPsec SAs."""
        supplicant = self.services.supplicant
        supplicant.command("DISABLE_NETWORK 0")
        supplicant.command("BSS_FLUSH 0")
        if self.services.has_ipsec:
            for node in (self.scenario.mobile_node, self.scenario.agent):
                with ike.session(self.services.charon_socket(node)) as charon:
                    ike.terminate_all(charon)
                if kernel.xfrm_states(self.testbed, node):
                    raise MeasureError("testbed", f"{node}: IPsec SAs are left over")
        self.services.authenticator.request(f"DEAUTHENTICATE {self._mac}")
        self.testbed.run(self.scenario.mobile_node, ["ip", "neigh", "flush", "dev", self._radio])
        supplicant.forget()

    def _link(self) -> None:
        supplicant = self.services.supplicant
        supplicant.command("ENABLE_NETWORK 0")
        event = supplicant.wait(_UP, time.monotonic() + LINK_S)
        self._stamp("link")
        self.raw["kernel"]["station"] = self._station_flags()
        if event is not None and event.name == "CTRL-EVENT-CONNECTED":
            return
        seen = {past.name for past in supplicant.history}
        stage = "dot1x" if "CTRL-EVENT-EAP-STARTED" in seen else "link"
        if event is not None:
            raise MeasureError(stage, f"{self.scenario.mobile_node}: {_REFUSED[event.name]} "
                               f"{self._clue()}".strip())
        goal = "802.1X did not finish" if stage == "dot1x" else "no association"
        raise MeasureError(stage, f"{self.scenario.mobile_node}: {goal} within {LINK_S:g} s "
                           f"{self._clue()}".strip())

    def _clue(self) -> str:
        """What the supplicant said of certificates, if anything."""
        for event in self.services.supplicant.history:
            if event.name == "CTRL-EVENT-EAP-TLS-CERT-ERROR":
                match = re.search(r"err='([^']*)'", event.text)
                return f"({match[1] if match else event.text})"
        return ""

    def _tunnel(self) -> None:
        with ike.session(self.services.charon_socket(self.scenario.mobile_node)) as charon:
            try:
                self.raw["ike_log"] = ike.initiate(charon, "qop", IKE_S)
            finally:
                self._stamp("tunnel")
            self.raw["ike_sas"] = ike.security_associations(charon)

    def _first_packet(self) -> None:
        answered = self._ping(DATA_S)
        self._stamp("first_packet")
        if not answered:
            raise MeasureError("data", f"{self.scenario.mobile_node}: associated, but no packet "
                               f"comes back from {self._peer} within {DATA_S:g} s")

    def _ping(self, seconds: float) -> bool:
        argv = ["ping", "-n", "-q", "-c", "1", "-i", "0.2", "-w", str(max(1, round(seconds))),
                self._peer]
        if seconds < 1:
            argv = ["ping", "-n", "-q", "-c", "1", "-W", str(seconds), self._peer]
        done = subprocess.run(self.testbed.command(self.scenario.mobile_node, argv),
                              capture_output=True, timeout=seconds + 10, check=False)
        return done.returncode == 0

    def _streams(self) -> None:
        sizes = self.streams
        for protocol, size in (("tcp", sizes.tcp_bytes), ("udp", sizes.udp_bytes)):
            if not size:
                continue
            self._stamp(f"{protocol}_start")
            self.raw[f"iperf_{protocol}"] = iperf.stream(
                self.testbed, self.scenario.mobile_node, self._peer, protocol=protocol,
                size_bytes=size, timeout_s=sizes.timeout_s, rate_bps=sizes.udp_rate_bps,
                payload_bytes=sizes.udp_payload_bytes)
            self._stamp(f"{protocol}_end")

    def _station_flags(self) -> dict[str, str]:
        stations = kernel.station_flags(self.testbed, self.scenario.access_point, self._ap_radio)
        return stations.get(self._mac, {})

    def _kernel_state(self, moment: str) -> None:
        if self.services.has_ipsec:
            self.raw["kernel"][moment] = {
                node: kernel.xfrm_states(self.testbed, node)
                for node in (self.scenario.mobile_node, self.scenario.agent)}

    def _stamp(self, name: str) -> None:
        self.raw["stamps"][name] = time.time()

    def _captures(self, part: str, snap_bytes: int) -> ExitStack:
        """Captures of this part of the repetition, running; closing them notes their counts."""
        scenario = self.scenario
        wire = next(end for link in self.testbed.network.links for end in link.ends
                    if end.startswith(f"{scenario.access_point}/"))
        points: list[tuple[str, str | None, str, str]] = [
            ("air", None, "hwsim0", ""),
            ("wire", scenario.access_point, wire.partition("/")[2], _WIRE_FILTER)]
        if part == "auth":
            points.append(("mn", scenario.mobile_node, self._radio, _AUTH_FILTER))
        stack = ExitStack()
        running = [Capture(self.testbed, point, node, interface, self.out / f"{part}-{point}.pcap",
                           self.services.logs / f"{point}-tcpdump.log", snap_bytes=snap_bytes,
                           expression=expression) for point, node, interface, expression in points]
        for capture in running:
            stack.callback(self._close, capture.stop)
        for capture in running:
            capture.wait_ready()
        return stack

    def _close(self, stop: Callable[[], dict[str, object]]) -> None:
        self.raw["captures"].append(stop())

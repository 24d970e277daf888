"""Capture packets at several points of a test network with tcpdump, and count lost packets.

Studies use this module in the guest while they measure. `capture_packets` takes capture points
(node, interface and pcap filter). It waits until each tcpdump captures, and writes one file per
point, also where several interfaces hear the air. The summary of each capture has the packets
captured and dropped. `auth_points` and `path_points` return the points that a scenario needs.
`air_filter` and similar functions return filters that keep 1 in n of a stream's packets.
`wait_beacon_ns` waits for the next beacon, so that repetitions of a measurement start at equal
times. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon, Start
from measure.agent.workload import Site
from measure.capture.pcap import merge_captures
from measure.cpu.realtime_priority import OBSERVER_COMMAND
from measure.services import iperf
from topologies import queueing_disciplines
from topologies.model import IPV6, OCSP_RESPONDER, ROUTER, STATION, Network, Scenario
from topologies.namespaces import network_of

if TYPE_CHECKING:
    from topologies.builder import Testbed


#: Process name of captures.
PROGRAMS = ("tcpdump",)
_COUNTS = re.compile(r"^(\d+) packets? (captured|received by filter|dropped by kernel)$")
# Wait for the kernel's blocks in s, and the interval of prompt captures in ms. tcpdump gets a block
# after a second at the latest. With prompt.c it gets one after 100 ms, or after the interval that a
# capture's detail states. Blocks are used up even if they are partly empty. A shorter interval
# therefore leaves less time before packets are lost: 40 ms were too few during a stream on a busy
# machine.
_SETTLE_S, _PROMPTLY_MS = 1.2, 100
#: Wait in s for frames that a card's driver delivers late.
_DRIVER_S = 0.2
#: Wait in s until tcpdump has read packets that it gets one by one.
_READ_S = 0.02
#: Resolution of the kernel's timers, with a margin, in s.
_TIMERS_S = 0.05
#: Shell program that runs its further arguments if its parent is the process of the first one. The
#: parent may have ended before the death signal was set.
_IF_PARENT_LIVES = 'test "$PPID" = "$1" && shift && exec "$@"'


@dataclass(frozen=True)
class CapturePoint:
    """A place to capture at: its name, node (None: the guest itself), interface and filter.

    The filter may keep only 1 in `one_in` of the packets (see `air_filter`).
    """

    name: str
    node: str | None
    interface: str
    expression: str = ""
    one_in: int = 1


@dataclass(frozen=True)
class CaptureDetail:
    """Settings of a capture: the bytes to keep of each packet, and the kernel's buffer.

    A capture that loses packets is no evidence. But a guest is small, and buffers take memory from
    its page cache.

    - `snap_bytes`: number of bytes to keep of each packet
    - `buffer_kib`: size of the kernel's buffer (KiB)
    - `in_blocks`: whether the capture wakes up for many packets at a time, which needs far less CPU
      time. Call `settle_captures` before such a capture ends, or its last second is lost.
    - `promptly_ms`: replaces this second if the testbed's captures are prompt (ms)
    """

    snap_bytes: int
    buffer_kib: int
    in_blocks: bool = False
    promptly_ms: int = _PROMPTLY_MS


#: Longer than any frame. Without blocks the kernel reserves these bytes for each packet; an
#: authentication has some hundred frames.
WHOLE = CaptureDetail(snap_bytes=4096, buffer_kib=1024)
#: Whole frames in real time: a capture that wakes up for each packet takes processor time from the
#: timed programs. Blocks reduce the wake-ups of two dozen programs to a few.
WHOLE_PROMPTLY = CaptureDetail(snap_bytes=4096, buffer_kib=2048, in_blocks=True, promptly_ms=20)
#: Whole frames during a stream: frames on these networks are shorter, but there are more of them.
WHOLE_AMID_STREAM = CaptureDetail(snap_bytes=2048, buffer_kib=4096)
#: Enough for radiotap, 802.11, WEP, IP, ESP and UDP headers; payloads are not needed. A second of
#: busy air has two thousand frames; without a medium only the processor limits a stream.
HEADERS = CaptureDetail(snap_bytes=192, buffer_kib=2048, in_blocks=True)
HEADERS_UNLIMITED = CaptureDetail(snap_bytes=192, buffer_kib=8192, in_blocks=True)
#: The same with whole beacons of 802.11n, ac and ax, which end with their check.
HEADERS_AND_BEACONS = CaptureDetail(snap_bytes=320, buffer_kib=4096, in_blocks=True)


@dataclass(frozen=True)
class CaptureSummary:
    """The result of a capture: its point and file, and how many packets the kernel counted.

    The capture keeps 1 in `one_in` of the packets.
    """

    point: str
    file: str
    captured: int
    dropped: int
    one_in: int = 1


def parse_counts(lines: list[str]) -> dict[str, int]:
    """Parse the packet counts that tcpdump prints at its end.

    Keys are `captured`, `received by filter` and `dropped by kernel`.
    """
    matches = (_COUNTS.match(line.strip()) for line in lines)
    return {match[2]: int(match[1]) for match in matches if match}


def whole_frames(testbed: Testbed) -> CaptureDetail:
    """Return the settings of a capture that keeps whole frames, for authentications.

    Packets are captured one by one where waiting is skipped or captures cannot be prompt.
    """
    return WHOLE_PROMPTLY if testbed.for_captures else WHOLE


def settle_captures(testbed: Testbed | None = None, detail: CaptureDetail = HEADERS) -> None:
    """Wait until captures have received all packets sent so far.

    The wait is short if the testbed's captures are prompt, and shortest without blocks. Real radios
    may deliver frames late.
    """
    if testbed is not None and not detail.in_blocks:
        time.sleep(_DRIVER_S if testbed.uses_cards else _READ_S)
    if detail.in_blocks:
        is_prompt = testbed is not None and testbed.for_captures
        time.sleep(detail.promptly_ms / 1e3 + _TIMERS_S if is_prompt else _SETTLE_S)


class Capture:
    """A running tcpdump process."""

    def __init__(self, testbed: Testbed, point: CapturePoint, file: Path, log: Path, *,
                 detail: CaptureDetail) -> None:
        self.point = point
        self.file = file
        # To standard output: tcpdump changes the owner of a file of its own. That fails if the file
        # is the host's and the host's user is not root.
        argv = ["tcpdump", "-i", point.interface, "-n", "-p", "-w", "-",
                "-B", str(detail.buffer_kib), "-s", str(detail.snap_bytes)]
        argv += [] if detail.in_blocks else ["-U", "--immediate-mode"]
        argv += [point.expression] if point.expression else []
        is_prompt = bool(testbed.for_captures) and detail.in_blocks
        # On the machine itself, computing is charged to no node anyway.
        env = testbed.tool_environment if point.node else None
        command: Sequence[str] | Start = argv
        # A copied tcpdump is prompt for all captures or for none.
        if testbed.copies is not None and is_prompt == bool(testbed.for_captures):
            command = partial(testbed.copies.start_fork, argv,
                              of_process=testbed.node(point.node).pid if point.node else None,
                              promptly_ms=detail.promptly_ms if is_prompt else None)
        elif is_prompt:
            # In real time no process has real-time priority; a guest ends with its worker, and so
            # do captures.
            command = testbed.plain_command(point.node, argv) if point.node else argv
            env = {**os.environ, "LD_PRELOAD": testbed.for_captures,
                   "QOP_PROMPTLY_MS": str(detail.promptly_ms)}
        else:
            # A tcpdump that changes its user is no longer ended with its parent: the kernel clears
            # the signal. A capture that stays keeps the interface of a card in use.
            argv = [*OBSERVER_COMMAND, *argv[:1], "-Z", "root", *argv[1:]]
            command = testbed.tool_command(point.node, argv) if point.node else \
                ["setpriv", "--pdeathsig", "KILL", "sh", "-c", _IF_PARENT_LIVES, "sh",
                 str(os.getpid()), *argv]
        self._daemon = Daemon(f"tcpdump ({point.name})", command, log, r"listening on",
                              stop_signal=signal.SIGINT, data=file, env=env)

    def wait_ready(self) -> None:
        """Wait until tcpdump has started to capture."""
        self._daemon.wait_ready()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the tcpdump process.

        Raises:
            MeasureError: The capture has ended.
        """
        if self._daemon.process.poll() is not None:
            raise MeasureError("testbed", f"{self._daemon.name} has ended and takes no signal "
                               f"{number.name} (log: {self._daemon.log.name})")
        self._daemon.process.send_signal(number)

    def ask_to_stop(self) -> None:
        """Send tcpdump its stop signal, without waiting for its end."""
        self._daemon.ask_to_stop()

    def stop(self) -> dict[str, object]:
        """End the capture and return its summary as JSON data.

        The file is complete afterwards.
        """
        self._daemon.stop()
        counts = parse_counts(self._daemon.last_lines())
        return asdict(CaptureSummary(self.point.name, self.file.name, counts.get("captured", 0),
                                     counts.get("dropped by kernel", -1), self.point.one_in))


@contextmanager
def capture_packets(testbed: Testbed, points: Iterable[CapturePoint], detail: CaptureDetail, *,
                    part: str, out: Path,
                    logs: Path, summaries: list[dict[str, object]]) -> Iterator[Sequence[Capture]]:
    """Capture at all points inside the context, to files `out/PART-POINT.pcap`.

    However the context ends, each capture is complete, and its summary is appended to `summaries`.
    Points on the air are at the testbed's interfaces for it, and left out if it has none. Captures
    of several interfaces become one file.

    Args:
        testbed: The running testbed.
        points: The capture points.
        detail: Snapshot length and buffer.
        part: Prefix of the file names.
        out: Folder for the captures.
        logs: Folder for tcpdump's logs.
        summaries: Receives the summaries.
    """
    running: list[Capture] = []
    with ExitStack() as stack:
        for point in points:
            copies: list[Capture] = []
            for number, place in enumerate(_find_on_air(testbed, point)):
                name = f"{part}-{point.name}" + f"-{number}" * bool(number)
                if not copies:
                    stack.callback(_stop_captures, copies, summaries)
                copies.append(Capture(testbed, place, out / f"{name}.pcap",
                                      logs / f"{name}-tcpdump.log", detail=detail))
            running += copies
        for capture in running:
            capture.wait_ready()
        try:
            yield running
        finally:
            for capture in running:
                capture.ask_to_stop()


def _find_on_air(testbed: Testbed, point: CapturePoint) -> list[CapturePoint]:
    """Return a capture point, or one for each of the testbed's interfaces for the air."""
    if point.interface != AIR_INTERFACE:
        return [point]
    return [replace(point, node=node, interface=interface)
            for node, interface in testbed.air_interfaces]


@contextmanager
def open_air(testbed: Testbed) -> Iterator[list[socket.socket]]:
    """Open packet sockets that receive every frame on the air, with its radiotap header.

    There is a socket for each interface that hears the air.

    Raises:
        MeasureError: Nothing captures the air.
    """
    if not testbed.air_interfaces:
        raise MeasureError("testbed", "nothing captures the air; add a card by --card monitor=NAME")
    with ExitStack() as stack:
        sockets = []
        for node, interface in testbed.air_interfaces:
            with network_of(testbed.node(node).pid) if node else contextlib.nullcontext():
                air = stack.enter_context(socket.socket(
                    socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)))
            air.bind((interface, 0))
            sockets.append(air)
        yield sockets


def _stop_captures(copies: Sequence[Capture], summaries: list[dict[str, object]]) -> None:
    """End the captures of a point, and append one summary. Several files become the first one."""
    first, *others = [capture.stop() for capture in copies]
    if others:
        files = [capture.file for capture in copies]
        counts = [int(str(each["dropped"])) for each in (first, *others)]
        # -1: a capture has no count, so the whole has none.
        first |= {"captured": merge_captures(files, files[0]),
                  "dropped": sum(counts) if min(counts) >= 0 else -1}
        for file in files[1:]:
            file.unlink()
    summaries.append(first)


# --- Capture filters that sample expected packets ---
# A long stream repeats one packet ten thousand times. 1 in 16 of the packets that the policy
# requires is kept, by half a byte of a counter in their headers. All other packets are kept, such
# as frames in clear, so no violation is missed.

#: The only sampling ratio besides 1: four bits of a counter must be zero.
ONE_IN = 16
#: MAC-layer acknowledgements follow every frame and show nothing of the policy.
NO_CONTROL = "not type ctl"
_STREAM = f"port {iperf.PORT}"
_SEQUENCE_CONTROL = "wlan[22] & 0xf0 = 0"
_ESP_SEQUENCE = "ip[27] & 0x0f = 0"
_MACSEC, _MACSEC_NUMBER = "ether proto 0x88e5", "ether[19] & 0x0f = 0"
_IP_IDENTIFICATION = "ip[5] & 0x0f = 0"


def air_filter(one_in: int, *, has_link: bool, has_ipsec: bool) -> str:
    """Return a pcap filter for the air that keeps 1 in `one_in` of the stream's frames.

    `has_link` and `has_ipsec` say whether the policy encrypts on the link or by IPsec, so that the
    stream's packets look different.
    """
    if one_in == 1:
        return NO_CONTROL
    # The IP part comes first: after a wlan[...] term, libpcap does not find the IP header.
    expected = "type data and wlan[1] & 0x40 != 0" if has_link else \
        f"{'esp' if has_ipsec else _STREAM} and type data and wlan[1] & 0x40 = 0"
    return f"{NO_CONTROL} and (not ({expected}) or {_SEQUENCE_CONTROL})"


def wire_filter(one_in: int, *, has_ipsec: bool) -> str:
    """Return a pcap filter for wires that keeps 1 in `one_in` of the stream's packets.

    `has_ipsec` says whether the stream's packets are in ESP.
    """
    if one_in == 1:
        return ""
    if has_ipsec:
        return f"not esp or {_ESP_SEQUENCE}"
    return f"not (ip proto 4 or {_STREAM}) or {_IP_IDENTIFICATION}"


def macsec_filter(one_in: int) -> str:
    """Return a pcap filter for MACsec frames on wires that keeps 1 in `one_in` of them."""
    return "" if one_in == 1 else f"not {_MACSEC} or {_MACSEC_NUMBER}"


# --- Capture points of mobile networks: air, mobile node and wires ---

#: Name of the part with authentication and handoff, for studies that run their own programs on the
#: air.
AIR_PART = "air"
#: Prefixes of captures: authentication at home, traffic, handoff, and on both sides of NAT.
AUTH, TRAFFIC, MOVE, NAT = "auth", "traffic", "move", "nat"
#: Point at the mobile node while the RADIUS server shows a certificate with another name.
OTHER_NAME = "othername"
#: Capture filter on a mobile node's interface during an authentication.
AUTH_FILTER = ("ether proto 0x888e or arp or icmp or icmp6 or udp port 434 or udp port 500 "
               "or udp port 4500 or udp port 51820 or udp port 4433 or tcp port 4434 "
               "or udp port 67 or udp port 68")
#: Points below MACsec: the wire behind the first access point in use, and behind the second.
MACSEC_POINTS = ("macsec", "macsecforeign")
#: Points on the wires of RADIUS servers that are nodes of their own: of the first access point's
#: server, and of the second one's if that is another.
RADIUS_POINTS = ("radius", "radiusforeign")
#: TCP port of OCSP responders (HTTP), and points of their captures: of the RADIUS server of the
#: first access point, and of the second one's if that asks another responder.
OCSP_PORT = 80
OCSP_POINTS = ("ocsp", "ocspforeign")
#: Stands for the interface that shows every frame on the air of a testbed (`Testbed.air`).
AIR_INTERFACE = "air"


def auth_points(scenario: Scenario, *, has_macsec: bool = False,
                has_ocsp: bool = False) -> Sequence[CapturePoint]:
    """Return the capture points of an authentication, from the air to RADIUS servers.

    With MACsec, the points that see encrypted frames come first. Their captures start before, and
    end after, the captures of the frames inside. With OCSP, there are points at the responders,
    too.
    """
    nodes = scenario.network.nodes
    used = [scenario.home, *([scenario.roams_to] if scenario.roams_to else [])]
    points = [*(_macsec_points(scenario.network, used) if has_macsec else ()),
              CapturePoint("air", None, AIR_INTERFACE),
              CapturePoint("mn", scenario.mobile_node, nodes[scenario.mobile_node].radio_interface,
                           AUTH_FILTER),
              wire_point(scenario.network, "wire", scenario.home)]
    if scenario.roams_to:
        points.append(wire_point(scenario.network, "foreign", scenario.roams_to))
    servers = dict.fromkeys(scenario.separate_radius_servers.values())
    return [*points, *(wire_point(scenario.network, name, server)
                       for name, server in zip(RADIUS_POINTS, servers, strict=False)),
            *(ocsp_points(scenario) if has_ocsp else ())]


def ocsp_points(scenario: Scenario) -> list[CapturePoint]:
    """Return where OCSP requests pass: on the responder's wire, or inside RADIUS servers."""
    expression = f"tcp port {OCSP_PORT}"
    for responder in scenario.network.of_duty(OCSP_RESPONDER)[:1]:
        return [wire_point(scenario.network, OCSP_POINTS[0], responder, expression)]
    servers = dict.fromkeys(scenario.deciding_servers.values())
    return [CapturePoint(name, server, "lo", expression)
            for name, server in zip(OCSP_POINTS, servers, strict=False)]


def path_points(site: Site, scenario: Scenario, *, has_ipsec: bool, one_in: int = 1,
                access_points: Sequence[str] = ()) -> list[CapturePoint]:
    """Return the capture points between mobile node and peer: the air and every wire passed.

    The wires are those behind the access point in use (or behind all of `access_points`) and
    between the home agents. If the peer has another access point, the wire behind it is added.
    `has_ipsec` says whether the policy has an IPsec tunnel, and 1 in `one_in` packets is kept.
    """
    air = air_filter(one_in, has_link=bool(site.testbed.cipher_bytes), has_ipsec=has_ipsec)
    # No field of IPv6 counts packets, so all are kept.
    wire_one_in = 1 if site.network.ip == IPV6 else one_in
    wire = wire_filter(wire_one_in, has_ipsec=has_ipsec)
    used = list(access_points or [scenario.access_point])
    places = list(zip(("wire", "foreign"), used, strict=False))
    # Where the stream returns to the air, behind another access point.
    if site.network.nodes[scenario.peer].has_duty(STATION) and \
            (far := scenario.home_of(scenario.peer)) not in used:
        places.append(("far", far))
    places += [("core", router) for router in scenario.network.of_duty(ROUTER)]
    below = _macsec_points(site.network, used, one_in) if site.testbed.macsec else []
    return [*below, CapturePoint("air", None, AIR_INTERFACE, air, one_in), *(
        wire_point(site.network, name, node, wire, wire_one_in) for name, node in places)]


def _macsec_points(network: Network, used: Sequence[str], one_in: int = 1) -> list[CapturePoint]:
    """Return the capture points that see MACsec frames, on the wires behind access points."""
    points = (wire_point(network, name, node, macsec_filter(one_in), one_in)
              for name, node in zip(MACSEC_POINTS, used, strict=False))
    return [replace(point, interface=queueing_disciplines.physical_name(point.interface)) for point
            in points]


def wire_point(network: Network, name: str, node: str, expression: str = "",
               one_in: int = 1) -> CapturePoint:
    """Return a capture point on a node's first wire.

    The capture does not show packets that are decapsulated elsewhere.
    """
    interface, _ = network.link_of(node)
    return CapturePoint(name, node, interface, expression, one_in)


# --- Waiting for a beacon on the air ---
# The next step then has an equal phase to the beacons in every run.

_ALL_PROTOCOLS = 0x0003
_BEACON = 0x80
_WAIT_S = 2.0


def wait_beacon_ns(testbed: Testbed) -> int:
    """Wait for the next beacon on the air, and return its time (monotonic clock, ns).

    Raises:
        MeasureError: No beacon came in time.
    """
    with open_air(testbed) as sockets:
        until_s = time.monotonic() + _WAIT_S
        while (left_s := until_s - time.monotonic()) > 0:
            for air in select.select(sockets, [], [], left_s)[0]:
                if _is_beacon(air.recv(256)):
                    return time.monotonic_ns()
        raise MeasureError("testbed", f"no beacon on the air within {_WAIT_S:g} s")


def _is_beacon(captured: bytes) -> bool:
    """Return whether a captured frame is a beacon, after its radiotap header."""
    at = int.from_bytes(captured[2:4], "little")
    return captured[at:at + 1] == bytes((_BEACON,))

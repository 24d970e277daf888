"""Inject and replay frames that a station's own kernel would never send, as an attacker would.

Checks show by captures whether the receiver drops these frames, so that a policy's protection is
proven. Functions such as `arp_request` and `deauthentication_frame` build frames. `inject_frame`
sends one from a monitor interface of a node's radio, `send_on_interface` on a wire.
`replay_echo_request` and `replay_macsec_frame` send a frame of a node a second time. Standard
library only: this runs inside the network's virtual machine.
"""

from __future__ import annotations

import contextlib
import math
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from measure.agent.errors import MeasureError
from measure.capture.tcpdump import open_air
from topologies.model import Node
from topologies.namespaces import network_of

if TYPE_CHECKING:
    from measure.mobile_node.station import MeasuredStation
    from topologies.builder import Testbed


BROADCAST = "ff:ff:ff:ff:ff:ff"
#: LLC and SNAP header of ARP.
ARP = bytes.fromhex("aaaa030000000806")
#: As long as an ARP packet, but without content.
READABLE = ARP + bytes(28)
#: Protected Frame bit.
PROTECTED = 0x40
_MONITOR = "clear0"
_TO_ACCESS_POINT, _FROM_ACCESS_POINT = 0x01, 0x02
#: Reason code 7: class 3 frame from a station that is not associated.
_NOT_ASSOCIATED = bytes((7, 0))
_REQUEST = bytes.fromhex("0001080006040001")
#: An empty radiotap header.
_RADIOTAP = bytes.fromhex("0000080000000000")
# Packet numbers are in bytes 16 to 19; samples have those whose last four bits are 0.
_REPEAT = """
import socket, subprocess, sys
port, source, target = sys.argv[1:]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
wire.bind((port, 3))
wire.settimeout(5)
asking = subprocess.Popen(["ping", "-q", "-c", "40", "-i", "0.01", "-I", source, target],
                          stdout=subprocess.DEVNULL)
while True:
    frame, (_, _, kind, *_) = wire.recvfrom(4096)
    if kind == socket.PACKET_OUTGOING and frame[12:14] == b"\\x88\\xe5" and not frame[19] & 15:
        break
wire.send(frame)
asking.wait()
"""


def inject_frame(testbed: Testbed, name: str, node: Node, frame: bytes) -> None:
    """Send a frame, given with its 802.11 header, by a node's radio.

    Raises:
        OSError: The frame cannot be sent.
        CalledProcessError: The radio cannot have a monitor interface.
    """
    testbed.run_command(name,
                        ["iw", "dev", node.radio_interface, "interface", "add", _MONITOR, "type",
                         "monitor"])
    try:
        testbed.run_command(name, ["ip", "link", "set", _MONITOR, "up"])
        send_on_interface(testbed, name, _MONITOR, _RADIOTAP + frame)
    finally:
        testbed.run_command(name, ["iw", "dev", _MONITOR, "del"])


def send_on_interface(testbed: Testbed, name: str, port: str, frame: bytes) -> None:
    """Send a frame with its link header on a node's interface.

    Raises:
        OSError: The frame cannot be sent.
    """
    with network_of(testbed.node(name).pid), \
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as line:
        line.bind((port, 0))
        line.send(frame)


def replay_macsec_frame(testbed: Testbed, name: str, port: str, source: str, target: str) -> None:
    """Capture a MACsec frame that a node sends on an interface, and send it again.

    The node sends echo requests from `source` to `target`, until the captures keep one of its
    frames. They keep only a sample.
    """
    testbed.run_command(name, [sys.executable, "-c", _REPEAT, port, source, target])


def broadcast_frame(station: str) -> bytes:
    """Return an empty broadcast Ethernet frame in a station's name."""
    return mac_bytes(BROADCAST) + mac_bytes(station) + ARP[-2:] + READABLE[len(ARP):]


def station_frame(station: str, cell: str, to: str, payload: bytes, *, flags: int = 0) -> bytes:
    """Return a data frame that a station sends to `to` through its access point."""
    return (bytes((0x08, _TO_ACCESS_POINT | flags)) + bytes(2) + mac_bytes(cell)
            + mac_bytes(station)
            + mac_bytes(to) + bytes(2) + payload)


def access_point_frame(cell: str, to: str, payload: bytes) -> bytes:
    """Return a data frame to a station in an access point's name."""
    return (bytes((0x08, _FROM_ACCESS_POINT)) + bytes(2) + mac_bytes(to) + mac_bytes(cell) * 2
            + bytes(2) + payload)


def deauthentication_frame(cell: str, to: str) -> bytes:
    """Return a deauthentication frame to a station in an access point's name."""
    return (bytes((0xC0, 0x00)) + bytes(2) + mac_bytes(to) + mac_bytes(cell) * 2 + bytes(2)
            + _NOT_ASSOCIATED)


def arp_request(station: str, address: str, target: str) -> bytes:
    """Return an ARP request with LLC header: who has `target`, tell `address` at `station`."""
    return (ARP + _REQUEST + mac_bytes(station) + socket.inet_aton(address) + bytes(6)
            + socket.inet_aton(target))


def mac_bytes(mac: str) -> bytes:
    """Return the six bytes of a MAC address text."""
    return bytes.fromhex(mac.replace(":", ""))


# --- Replay of a frame from the air, unchanged ---
# The attacker has no key: the frame keeps its address and packet number.

#: Payload in bytes: longer than other packets, and one frame even with a tunnel's headers.
PAYLOAD_BYTES = 900
_ASKED_S, _SPARE_S = 5, 5.0
_SETTLE_S = 0.25
_ANY_PROTOCOL = 0x0003
_FRAME_BYTES = 4096
_DATA_TYPE, _TYPE_MASK = 0x08, 0x0C
_TRANSMITTER = slice(10, 16)


def replay_echo_request(station: MeasuredStation, peer: str, within_s: float) -> None:
    """Have a mobile node send an ICMP echo request, and send its frame a second time.

    The second frame is sent by the node's own radio with the same address and packet number. The
    echo reply is awaited for `within_s` at most.

    Raises:
        MeasureError: No frame was captured.
    """
    with open_air(station.testbed) as sockets:
        limit_s = max(_ASKED_S, math.ceil(within_s))
        station.testbed.run_unchecked(station.name, [
            "ping", "-n", "-q", "-c", "1", "-w", str(limit_s), "-s", str(PAYLOAD_BYTES), peer],
            limit_s + _SPARE_S)
        frame = longest_frame(_read_pending(sockets), station.mac)
    if not frame:
        raise MeasureError("data", f"{station.name}: no frame of its question to {peer} was heard "
                           "on the air, so none can be sent once more")
    inject_frame(station.testbed, station.name, station.node, frame)
    time.sleep(_SETTLE_S)  # time for a frame that must not come


def longest_frame(packets: Iterable[bytes], transmitter: str) -> bytes:
    """Return the longest of a station's captured data frames, without radiotap header.

    The result is b"" if the station sent none.
    """
    sender = mac_bytes(transmitter)
    frames = (packet[int.from_bytes(packet[2:4], "little"):] for packet in packets)
    return max((frame for frame in frames if frame[_TRANSMITTER] == sender
                and frame[0] & _TYPE_MASK == _DATA_TYPE), key=len, default=b"")


def _read_pending(sockets: Iterable[socket.socket]) -> Iterator[bytes]:
    """Yield the packets that have arrived on the sockets."""
    for air in sockets:
        air.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                yield air.recv(_FRAME_BYTES)

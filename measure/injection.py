"""Inject frames from a monitor interface that no station's own kernel would send.

Standard library only.
"""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

from topologies.model import Node
from topologies.namespaces import network_of

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
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


def inject(testbed: Testbed, name: str, node: Node, frame: bytes) -> None:
    """Send a frame with its 802.11 header on a node's radio.

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
    """Replay a MACsec frame that a node sends on an interface.

    The node sends echo requests from `source` to `target` until a sent frame is one that samples
    include.
    """
    testbed.run_command(name, [sys.executable, "-c", _REPEAT, port, source, target])


def broadcast_frame(station: str) -> bytes:
    """Return a broadcast Ethernet frame from a station, without content."""
    return mac_bytes(BROADCAST) + mac_bytes(station) + ARP[-2:] + READABLE[len(ARP):]


def station_frame(station: str, cell: str, to: str, payload: bytes, *, flags: int = 0) -> bytes:
    """Return a data frame that a station sends to `to` through its access point."""
    return (bytes((0x08, _TO_ACCESS_POINT | flags)) + bytes(2) + mac_bytes(cell)
            + mac_bytes(station)
            + mac_bytes(to) + bytes(2) + payload)


def access_point_frame(cell: str, to: str, payload: bytes) -> bytes:
    """Return a data frame that an access point originates."""
    return (bytes((0x08, _FROM_ACCESS_POINT)) + bytes(2) + mac_bytes(to) + mac_bytes(cell) * 2
            + bytes(2) + payload)


def deauthentication_frame(cell: str, to: str) -> bytes:
    """Return a deauthentication frame in an access point's name."""
    return (bytes((0xC0, 0x00)) + bytes(2) + mac_bytes(to) + mac_bytes(cell) * 2 + bytes(2)
            + _NOT_ASSOCIATED)


def arp_request(station: str, address: str, target: str) -> bytes:
    """Return an ARP request with LLC header: who has `target`, tell `address` at `station`."""
    return (ARP + _REQUEST + mac_bytes(station) + socket.inet_aton(address) + bytes(6)
            + socket.inet_aton(target))


def mac_bytes(mac: str) -> bytes:
    """Return a MAC address as bytes."""
    return bytes.fromhex(mac.replace(":", ""))

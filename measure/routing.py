"""Query a node's routes and neighbours by rtnetlink, as `ip` does.

Starting `ip` takes 10 ms in a guest, several times per repetition. Structures and numbers:
linux/rtnetlink.h, linux/neighbour.h.
"""

from __future__ import annotations

import contextlib
import socket
import struct

from topologies.namespaces import network_of
from topologies.netlink import ACK, DUMP, NetlinkSocket, encode_attribute, parse_attributes

_DEL_NEIGHBOUR, _GET_NEIGHBOUR, _GET_ROUTE = 29, 30, 26
_ROUTE, _NEIGHBOUR = struct.Struct("=BBBBBBBBI"), struct.Struct("=BxxxiHBB")
_ROUTE_TO, _ROUTE_BY, _NEIGHBOUR_AT = 1, 4, 1
#: States of neighbours that were not learnt: set by hand, or without an address.
_NO_ARP, _PERMANENT = 0x40, 0x80


def output_device(pid: int, address: str) -> str:
    """Return the device by which a process's network namespace routes an IPv4 address.

    Raises:
        OSError: The query failed, or there is no route.
    """
    with network_of(pid), NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        [answer] = netlink.send_request(_GET_ROUTE, ACK, _ROUTE.pack(
            socket.AF_INET, 32, 0, 0, 0, 0, 0, 0, 0) + encode_attribute(
                _ROUTE_TO, socket.inet_aton(address)))
        (index,) = struct.unpack("=I", parse_attributes(answer[_ROUTE.size:])[_ROUTE_BY])
        return socket.if_indextoname(index)


def delete_neighbours(pid: int, device: str) -> None:
    """Delete the learnt neighbours of a device in a process's network namespace.

    Raises:
        OSError: The query or a deletion failed.
    """
    with network_of(pid):
        index = socket.if_nametoindex(device)
        netlink = NetlinkSocket(socket.NETLINK_ROUTE)
    with netlink:
        for known in netlink.send_request(_GET_NEIGHBOUR, DUMP, _NEIGHBOUR.pack(0, 0, 0, 0, 0)):
            family, at, state, _, _ = _NEIGHBOUR.unpack_from(known)
            if at != index or state & (_NO_ARP | _PERMANENT):
                continue
            address = parse_attributes(known[_NEIGHBOUR.size:])[_NEIGHBOUR_AT]
            with contextlib.suppress(FileNotFoundError):  # it expired meanwhile
                netlink.send_request(_DEL_NEIGHBOUR, ACK, _NEIGHBOUR.pack(family, index, 0, 0, 0)
                                     + encode_attribute(_NEIGHBOUR_AT, address))

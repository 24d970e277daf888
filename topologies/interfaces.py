"""Configure interfaces, addresses and routes of a node's network namespace through rtnetlink.

`enter_namespace` enters the namespace of a process, and yields `Interfaces`, whose methods create
wires (veth pairs), bridges, addresses and routes. They replace the command `ip`: a request takes
0.1 ms, where starting `ip` takes 10 ms in a guest (virtual machine). Structures and numbers:
linux/rtnetlink.h, if_link.h, if_addr.h, fib_rules.h, veth.h.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from topologies.namespaces import network_of
from topologies.netlink import ACK, NetlinkSocket, encode_attribute

_CREATE = 0x600  # and it must not exist yet
_NEW_LINK, _NEW_ADDRESS, _NEW_ROUTE, _NEW_RULE = 16, 20, 24, 32
_UP = 1
# IFLA_...
_NAME, _MTU, _LINK_BELOW, _MASTER, _INFO, _PROCESS, _GSO_SEGMENTS = 3, 4, 5, 10, 18, 19, 40
_INFO_KIND, _INFO_DATA = 1, 2
_VETH_PEER = 1
_VLAN_ID = 1
_FORWARD_DELAY, _SNOOPING = 1, 23
# IFA_..., RTA_..., FRA_...
_LOCAL, _BROADCAST, _ADDRESS = 2, 4, 1
_DESTINATION, _DEVICE, _GATEWAY, _PREFERRED, _TABLE = 1, 4, 5, 7, 15
_RULE_SOURCE, _RULE_TABLE = 2, 15
_MAIN, _BOOT, _UNICAST, _TO_TABLE = 254, 3, 1, 1
_UNIVERSE, _LINK = 0, 253
_ONLINK = 4
#: Longest prefix length that leaves a broadcast address.
_LAST_WITH_BROADCAST = 30
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
#: IFA_F_NODAD: an address that is used at once, without a search for duplicates.
_NO_DETECTION = 0x02
_SYSCTL = Path("/proc/sys")


@dataclass(frozen=True)
class WireEnd:
    """An end of a wire to be created: its interface's name, and a process in its namespace."""

    name: str
    pid: int


@dataclass(frozen=True)
class Route:
    """A route to a prefix, through a router or a device or both.

    With `on_link` the router need not be in a subnet of the device. `table` 0 is the main table.
    """

    prefix: str = "0.0.0.0/0"
    via: str = ""
    device: str = ""
    source: str = ""
    table: int = 0
    on_link: bool = False


class Interfaces:
    """The interfaces of the current network namespace.

    A context manager. If the kernel refuses a request, the OSError names the request.
    """

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(socket.NETLINK_ROUTE)

    def __enter__(self) -> Interfaces:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._netlink.close()

    def add_wire(self, left: WireEnd, right: WireEnd, mtu_bytes: int) -> None:
        """Create a wire (veth pair) between two namespaces, without segmentation offload.

        So every packet on the wire is one real packet.
        """
        peer = encode_attribute(_VETH_PEER, _link_header() + _end_attributes(right, mtu_bytes))
        self._send_request(f"wire {left.name} - {right.name}", _NEW_LINK, _CREATE,
                           _link_header() + _end_attributes(left, mtu_bytes)
                           + _link_info("veth", peer))

    def add_dummy(self, name: str) -> None:
        """Create a dummy interface, which leads nowhere."""
        self._add_interface(name, _link_info("dummy"))

    def add_detour(self, name: str) -> None:
        """Create an interface (ifb) to which frames are redirected, and set it up."""
        self._add_interface(name, _link_info("ifb"))
        self._set_up(name)

    def add_vlan(self, port: str, name: str, vlan: int) -> None:
        """Create an interface for the frames of a port that have the tag of a VLAN (802.1Q)."""
        below = encode_attribute(_LINK_BELOW, struct.pack("=i", socket.if_nametoindex(port)))
        self._send_request(f"interface {name}", _NEW_LINK, _CREATE, _link_header()
                           + encode_attribute(_NAME, _encode_text(name)) + below
                           + _link_info("vlan", encode_attribute(_VLAN_ID,
                                                                 struct.pack("=H", vlan))))

    def add_bridge(self, name: str, ports: Sequence[str]) -> None:
        """Create a bridge with these ports, which is up and forwards at once."""
        data = encode_attribute(_FORWARD_DELAY,
                                struct.pack("=I", 0)) + encode_attribute(_SNOOPING, b"\0")
        self._add_interface(name, _link_info("bridge", data))
        master = encode_attribute(_MASTER, struct.pack("=i", socket.if_nametoindex(name)))
        for port in ports:
            self._set_up(port, master)
        self._set_up(name)

    def set_up(self, name: str) -> None:
        """Set an interface up."""
        self._set_up(name)

    def add_address(self, address: str, name: str) -> None:
        """Give an interface an address with its prefix, and with its broadcast address for IPv4."""
        own = ipaddress.ip_interface(address)
        length, is_ipv4 = own.network.prefixlen, own.version == 4
        body = struct.pack("=BBBBi", _FAMILIES[own.version], length,
                           0 if is_ipv4 else _NO_DETECTION, _UNIVERSE,
                           self._find_index(name, address))
        body += encode_attribute(_LOCAL, own.ip.packed) + encode_attribute(_ADDRESS, own.ip.packed)
        if is_ipv4 and length <= _LAST_WITH_BROADCAST:
            body += encode_attribute(_BROADCAST, own.network.broadcast_address.packed)
        self._send_request(f"address {address} on {name}", _NEW_ADDRESS, _CREATE, body)

    def add_route(self, route: Route) -> None:
        """Create a route that does not exist yet."""
        target = ipaddress.ip_network(route.prefix)
        # Table numbers above 255 fit only into the attribute.
        table = route.table or _MAIN
        body = struct.pack("=BBBBBBBBI", _FAMILIES[target.version], target.prefixlen, 0, 0,
                           table if table < 256 else 0, _BOOT,
                           _UNIVERSE if route.via else _LINK, _UNICAST,
                           _ONLINK if route.on_link else 0)
        if target.prefixlen:
            body += encode_attribute(_DESTINATION, target.network_address.packed)
        body += encode_attribute(_TABLE, struct.pack("=I", table))
        for kind, address in ((_GATEWAY, route.via), (_PREFERRED, route.source)):
            if address:
                body += encode_attribute(kind, ipaddress.ip_address(address).packed)
        if route.device:
            body += encode_attribute(
                _DEVICE, struct.pack("=i", self._find_index(route.device, route.prefix)))
        self._send_request(f"{route}", _NEW_ROUTE, _CREATE, body)

    def add_rule(self, source: str, table: int) -> None:
        """Create a rule: packets from an address are routed by a certain table."""
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 32, 0, 0, 0, 0, _TO_TABLE, 0)
        body += encode_attribute(_RULE_SOURCE, socket.inet_aton(source))
        body += encode_attribute(_RULE_TABLE, struct.pack("=I", table))
        self._send_request(f"rule from {source}", _NEW_RULE, _CREATE, body)

    def _add_interface(self, name: str, info: bytes) -> None:
        self._send_request(f"interface {name}", _NEW_LINK, _CREATE,
                           _link_header() + encode_attribute(_NAME, _encode_text(name)) + info)

    def _set_up(self, name: str, further: bytes = b"") -> None:
        self._send_request(f"interface {name}", _NEW_LINK, 0,
                           _link_header(self._find_index(name, "up"), _UP) + further)

    def _find_index(self, name: str, what: str) -> int:
        try:
            return socket.if_nametoindex(name)
        except OSError as error:
            raise OSError(error.errno, f"{what}: there is no interface {name}") from None

    def _send_request(self, what: str, kind: int, flags: int, body: bytes) -> None:
        try:
            self._netlink.send_request(kind, flags | ACK, body)
        except OSError as error:
            raise OSError(error.errno, f"{what}: {error.strerror}") from None


@contextmanager
def enter_namespace(pid: int) -> Iterator[Interfaces]:
    """Enter the network namespace of a process, and yield its interfaces."""
    with network_of(pid), Interfaces() as interfaces:
        yield interfaces


def set_sysctls(settings: Sequence[str]) -> None:
    """Set sysctls given as NAME=VALUE. Settings below `net` are the current namespace's.

    A name with the point of an interface is written with slashes, as for sysctl(8).
    """
    for setting in settings:
        name, _, value = setting.partition("=")
        (_SYSCTL / (name if "/" in name else name.replace(".", "/"))).write_text(value)


def _link_header(index: int = 0, flags: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _end_attributes(end: WireEnd, mtu_bytes: int) -> bytes:
    return (encode_attribute(_NAME, _encode_text(end.name))
            + encode_attribute(_PROCESS, struct.pack("=I", end.pid))
            + encode_attribute(_MTU, struct.pack("=I", mtu_bytes))
            + encode_attribute(_GSO_SEGMENTS, struct.pack("=I", 1)))


def _link_info(kind: str, data: bytes = b"") -> bytes:
    return encode_attribute(_INFO, encode_attribute(_INFO_KIND, _encode_text(kind))
                            + (encode_attribute(_INFO_DATA, data) if data else b""))


def _encode_text(text: str) -> bytes:
    return text.encode() + b"\0"

"""The rtnetlink requests of the daemons.

They are for links, addresses, routes, rules and neighbours.

A registration waits for them, so they are sent over one socket, which takes 0.1 ms each in the
embedded guest. There, starting `ip` takes 4 ms and importing pyroute2 200 ms. Errors are OSError.
Structures: linux/rtnetlink.h, linux/if_link.h, linux/if_tunnel.h, linux/fib_rules.h,
linux/neighbour.h.
"""

from __future__ import annotations

import os
import socket
import struct
from socket import inet_aton

_HEAD = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_REQUEST, _ACK, _REPLACE, _EXCLUSIVE, _CREATE = 1, 4, 0x100, 0x200, 0x400
_NEW_LINK, _DEL_LINK, _NEW_ADDRESS, _DEL_ADDRESS = 16, 17, 20, 21
_NEW_ROUTE, _DEL_ROUTE, _NEW_NEIGHBOUR, _DEL_NEIGHBOUR = 24, 25, 28, 29
_NEW_RULE, _DEL_RULE = 32, 33
_ERROR = 2
_INET = socket.AF_INET
_UP = 1
_ONLINK = 4
_STATIC = 4
_UNIVERSE, _LINK_SCOPE, _ANY_SCOPE = 0, 253, 255
_UNICAST = 1
_TO_TABLE = 1
PERMANENT, REACHABLE = 0x80, 0x02
_PROXY = 8


class Netlink:
    """A connection to the kernel's routing tables.

    It belongs to the network namespace in which it is opened.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def add_tunnel(self, name: str, local: str, remote: str) -> int:
        """Create an IP-in-IP interface that is up (RFC 2003), and return its index."""
        data = (_encode_attribute(2, inet_aton(local)) + _encode_attribute(3, inet_aton(remote))
                + _encode_attribute(4, b"\x40")
                + _encode_attribute(10, b"\x01"))  # TTL 64, path MTU discovery
        info = _encode_attribute(1, b"ipip") + _encode_attribute(2, data)
        body = struct.pack("=BxHiII", 0, 0, 0, _UP, _UP)
        body += _encode_attribute(3, name.encode() + b"\0") + _encode_attribute(18, info)
        self._send_request(_NEW_LINK, _CREATE | _EXCLUSIVE, body)
        return socket.if_nametoindex(name)

    def delete_link(self, name: str) -> None:
        """Remove an interface and its routes."""
        body = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + _encode_attribute(3, name.encode() + b"\0")
        self._send_request(_DEL_LINK, 0, body)

    def add_address(self, address: str, interface: int) -> None:
        """Give an interface a /32 address."""
        self._send_request(_NEW_ADDRESS, _CREATE | _EXCLUSIVE, _address_body(address, interface))

    def delete_address(self, address: str, interface: int) -> None:
        """Remove a /32 address."""
        self._send_request(_DEL_ADDRESS, 0, _address_body(address, interface))

    def set_route(self, table: int, interface: int, address: str | None = None,
                  via: str | None = None, source: str | None = None) -> None:
        """Route an address (None: everything) to an interface.

        `via` need not be in a subnet of the interface.
        """
        self._send_request(_NEW_ROUTE, _CREATE | _REPLACE,
                           _route_body(table, interface, address, via, source))

    def delete_route(self, table: int, interface: int, address: str | None = None) -> None:
        """Remove a route that `set_route` created."""
        self._send_request(_DEL_ROUTE, 0,
                           _route_body(table, interface, address, None, None, _ANY_SCOPE))

    def add_rule(self, priority: int, table: int, source: str | None = None,
                 interface: str | None = None) -> None:
        """Look packets up in a table: all packets, or those from an address or interface."""
        self._send_request(_NEW_RULE, _CREATE | _EXCLUSIVE,
                           _rule_body(priority, table, source, interface))

    def delete_rule(self, priority: int, table: int, source: str | None = None,
                    interface: str | None = None) -> None:
        """Remove a rule that `add_rule` created."""
        self._send_request(_DEL_RULE, 0, _rule_body(priority, table, source, interface))

    def flush_rules(self, priority: int) -> None:
        """Remove all rules of a priority, regardless of their creator."""
        while True:
            try:
                self._send_request(_DEL_RULE, 0, _rule_body(priority, 0, None, None))
            except FileNotFoundError:
                return

    def set_neighbour(self, address: str, link: bytes, interface: int, state: int) -> None:
        """Set an address's link-layer address."""
        self._send_request(_NEW_NEIGHBOUR, _CREATE | _REPLACE,
                           _neighbour_body(address, interface, state, 0)
                           + _encode_attribute(2, link))

    def delete_neighbour(self, address: str, interface: int) -> None:
        """Remove an address's link-layer address."""
        self._send_request(_DEL_NEIGHBOUR, 0, _neighbour_body(address, interface, 0, 0))

    def add_proxy(self, address: str, interface: int) -> None:
        """Answer ARP requests for an address (`ip neighbour add proxy`)."""
        self._send_request(_NEW_NEIGHBOUR, _CREATE,
                           _neighbour_body(address, interface, PERMANENT, _PROXY))

    def delete_proxy(self, address: str, interface: int) -> None:
        """Stop answering ARP requests for an address."""
        self._send_request(_DEL_NEIGHBOUR, 0, _neighbour_body(address, interface, 0, _PROXY))

    def _send_request(self, kind: int, flags: int, body: bytes) -> None:
        """Send one request and read its acknowledgement.

        Raises:
            OSError: The kernel refuses; it has the kernel's error number.
        """
        self._sequence += 1
        head = _HEAD.pack(_HEAD.size + len(body), kind, _REQUEST | _ACK | flags, self._sequence, 0)
        self._socket.send(head + body)
        while True:
            answer = self._socket.recv(65536)
            _, answer_kind, _, sequence, _ = _HEAD.unpack_from(answer)
            if answer_kind == _ERROR and sequence == self._sequence:
                break
        (number,) = struct.unpack_from("=i", answer, _HEAD.size)
        if number:
            raise OSError(-number, os.strerror(-number))


def _encode_attribute(kind: int, data: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(data), kind) + data + bytes(-len(data) % 4)


def _encode_number(kind: int, value: int) -> bytes:
    return _encode_attribute(kind, struct.pack("=I", value))


def _address_body(address: str, interface: int) -> bytes:
    packed = inet_aton(address)
    return (struct.pack("=BBBBI", _INET, 32, 0, _UNIVERSE, interface)
            + _encode_attribute(2, packed) + _encode_attribute(1, packed))


def _route_body(table: int, interface: int, address: str | None, via: str | None,
                source: str | None, scope: int | None = None) -> bytes:
    if scope is None:
        scope = _UNIVERSE if via else _LINK_SCOPE
    head = struct.pack("=BBBBBBBBI", _INET, 32 if address else 0, 0, 0, 0, _STATIC, scope,
                       _UNICAST, _ONLINK if via else 0)
    body = head + _encode_number(15, table) + _encode_number(4, interface)
    for kind, value in ((1, address), (5, via), (7, source)):
        if value:
            body += _encode_attribute(kind, inet_aton(value))
    return body


def _rule_body(priority: int, table: int, source: str | None, interface: str | None) -> bytes:
    body = struct.pack("=BBBBBBBBI", _INET, 0, 32 if source else 0, 0, 0, 0, 0, _TO_TABLE, 0)
    body += _encode_number(6, priority) + _encode_number(15, table)
    if source:
        body += _encode_attribute(2, inet_aton(source))
    if interface:
        body += _encode_attribute(3, interface.encode() + b"\0")
    return body


def _neighbour_body(address: str, interface: int, state: int, flags: int) -> bytes:
    return (struct.pack("=BxHiHBB", _INET, 0, interface, state, flags, _UNICAST)
            + _encode_attribute(1, inet_aton(address)))

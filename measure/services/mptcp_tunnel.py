"""Carry IPv4 packets between a mobile node and its home agent in a Multipath TCP connection.

The program runs at both endpoints of a tunnel. Its files and commands are those of
`measure.services.tunnel_program`, with `MptcpSettings`. A mobile node has the further command
`follow`, which says that the node's addresses and routes have changed. The kernel implements
Multipath TCP (RFC 8684), and its path manager opens and closes subflows. Nothing is encrypted.

The mobile node sends its inner address on the connection, and the home agent answers with the same
four bytes. Then both send IPv4 packets without separators. The receiver finds the end of a packet
by the length in its IPv4 header.

On `follow`, the program does what a network manager does with `ip mptcp endpoint`. It closes the
subflow of the old address and adds the new address as an endpoint. The kernel then joins the
connection from there (MP_JOIN). When the subflow is established, the program removes the old
address once more, so that the home agent gets REMOVE_ADDR. If the connection is plain TCP or the
join fails, the program opens another connection.
"""

from __future__ import annotations

import ctypes
import json
import socket
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure.services.tunnel_program import (
    MOST_WAITING,
    SHORTEST_IPV4,
    SOCKET_MARK,
    TunnelEnd,
    TunnelSettings,
)
from topologies.netlink import GenericNetlink, encode_attribute, encode_nested

#: Protocol number and option level of MPTCP sockets: linux/in.h, linux/socket.h.
IPPROTO_MPTCP, _SOL_MPTCP = 262, 284
#: linux/mptcp.h: the option with a connection's state, and place and bits of its fields.
_INFO, _INFO_BYTES, _INFO_FIELDS = 1, 16, struct.Struct("=8xII")
_FALLBACK = 1
#: Bytes of a connection that wait in the kernel, sent and unsent: 64 full packets.
_SEND_BUFFER_BYTES = 65536
_READ_BYTES = 65536
_ADDRESS_BYTES, _ADDRESS_STRUCTURE_BYTES = 4, 16
#: Longest time until a new address has joined the connection, in s: two attempts to connect.
_JOIN_S = 3.5


@dataclass(frozen=True)
class MptcpSettings(TunnelSettings):
    """The settings of a Multipath TCP tunnel's endpoint.

    - `users`: inner addresses of the mobile nodes that may use the tunnel
    """

    users: list[str]


@dataclass(eq=False)
class _Link:
    """A connection with its socket, and the data that waits on both sides.

    `user` is the inner address of the mobile node, "" until the gateway has accepted it.
    """

    connection: socket.socket
    user: str = ""
    #: Token of the connection when the gateway accepted it, None for plain TCP.
    opened_token: int | None = None
    waiting: deque[bytes] = field(default_factory=deque)
    received: bytearray = field(default_factory=bytearray)
    has_ended: bool = False

    def accept_user(self, user: str) -> None:
        """Store the mobile node of this connection, and the connection's token."""
        self.user, self.opened_token = user, read_token(self.connection)

    def send_packet(self, packet: bytes, counts: Counter[str]) -> None:
        """Send an IP packet, or drop it if `MOST_WAITING` packets already wait."""
        if len(self.waiting) >= MOST_WAITING:
            counts["dropped"] += 1
            return
        counts["sent"] += 1
        self.waiting.append(packet)
        self.send_waiting()

    def send_waiting(self) -> None:
        """Send the data that the kernel takes now."""
        try:
            while self.waiting:
                sent = self.connection.send(self.waiting[0])
                rest = self.waiting.popleft()[sent:]
                if rest:
                    self.waiting.appendleft(rest)
        except BlockingIOError:
            return
        except OSError:
            self.has_ended = True

    def read_data(self) -> None:
        """Read the data that has arrived."""
        try:
            data = self.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.has_ended |= not data
        self.received += data

    def take_address(self) -> str:
        """Return the inner address at the start of the received data, "" if it is incomplete."""
        if len(self.received) < _ADDRESS_BYTES:
            return ""
        address = socket.inet_ntoa(self.received[:_ADDRESS_BYTES])
        del self.received[:_ADDRESS_BYTES]
        return address

    def take_packets(self) -> Iterator[bytes]:
        """Yield the complete IPv4 packets of the received data."""
        while len(self.received) >= SHORTEST_IPV4:
            size = int.from_bytes(self.received[2:4], "big")
            if self.received[0] >> 4 != 4 or size < SHORTEST_IPV4:
                self.has_ended = True  # no packet begins here
                return
            if len(self.received) < size:
                return
            yield bytes(self.received[:size])
            del self.received[:size]

    def reset_connection(self) -> None:
        """Reset all subflows of the connection, so that the kernel sends nothing again."""
        with self.connection:
            # Python cannot connect to an unspecified address, which resets a connection.
            ctypes.CDLL(None).connect(self.connection.fileno(), bytes(_ADDRESS_STRUCTURE_BYTES),
                                      _ADDRESS_STRUCTURE_BYTES)


def read_token(connection: socket.socket) -> int | None:
    """Return the token of a connection in this kernel, or None if it is plain TCP."""
    try:
        info = connection.getsockopt(_SOL_MPTCP, _INFO, _INFO_BYTES)
    except OSError:
        return None
    flags, token = _INFO_FIELDS.unpack_from(info)
    return None if flags & _FALLBACK else token


# --- The kernel's path manager: linux/mptcp_pm.h ---

_ADD_ADDRESS, _DELETE_ADDRESS, _FLUSH_ADDRESSES = 1, 2, 4
_ADDRESS_ATTRIBUTE = 1
_FAMILY, _ID, _IPV4, _FLAGS = 1, 2, 3, 6
_OPENS_SUBFLOWS = 2
_INITIAL_ID = 0
#: Events of a connection, and their attributes.
SUBFLOW_ESTABLISHED, SUBFLOW_CLOSED = 10, 11
_EVENT_TOKEN, _EVENT_SOURCE = 1, 5


def _open_family() -> GenericNetlink:
    return GenericNetlink("mptcp_pm")


@dataclass(frozen=True)
class PathManager:
    """The kernel's path manager in this network namespace.

    Raises:
        FileNotFoundError: The kernel has no MPTCP.
    """

    _commands: GenericNetlink = field(default_factory=_open_family)
    _events: GenericNetlink = field(default_factory=_open_family)

    def join_events(self) -> socket.socket:
        """Subscribe to the kernel's MPTCP events, and return the netlink socket that gets them."""
        return self._events.join_group("mptcp_pm_events")

    def remove_endpoints(self) -> None:
        """Remove all addresses from the path manager."""
        self._commands.send_command(_FLUSH_ADDRESSES, b"")

    def add_endpoint(self, address: str) -> None:
        """Add an address, from which the kernel opens a subflow of each connection."""
        self._commands.send_command(_ADD_ADDRESS, _encode_endpoint(address, encode_attribute(
            _FLAGS, struct.pack("=I", _OPENS_SUBFLOWS))))

    def remove_initial_address(self, address: str) -> None:
        """Close the first subflows of connections that were opened from an address.

        REMOVE_ADDR is sent on the first subflow that can send.
        """
        self._commands.send_command(_DELETE_ADDRESS, _encode_endpoint(address, encode_attribute(
            _ID, bytes([_INITIAL_ID]))))

    def read_events(self) -> list[tuple[int, int, str]]:
        """Return kind, token and local address of each event of a subflow that has arrived."""
        return [(kind, int.from_bytes(found[_EVENT_TOKEN], sys.byteorder),
                 socket.inet_ntoa(found[_EVENT_SOURCE]))
                for kind, found in self._events.receive_messages()
                if kind in (SUBFLOW_ESTABLISHED, SUBFLOW_CLOSED) and _EVENT_SOURCE in found]


def _encode_endpoint(address: str, *attributes: bytes) -> bytes:
    return encode_nested(_ADDRESS_ATTRIBUTE,
                         encode_attribute(_FAMILY, struct.pack("=H", socket.AF_INET)),
                         encode_attribute(_IPV4, socket.inet_aton(address)), *attributes)


def list_subflows(port: int) -> list[list[str]]:
    """Return local and remote address of each established TCP connection with a port.

    Args:
        port: The port at either end.
    """
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        ends = [end.split(":") for end in (local, remote)]
        if state == "01" and any(int(end[1], 16) == port for end in ends):
            found.append([socket.inet_ntoa(struct.pack("=I", int(end[0], 16))) for end in ends])
    return found


# --- The endpoints ---

class _End(TunnelEnd):
    """A tunnel endpoint: TUN device and MPTCP connections."""

    settings: MptcpSettings

    def list_links(self) -> list[_Link]:
        """Return the connections of the tunnel that have not ended."""
        raise NotImplementedError

    def find_link(self, packet: bytes) -> _Link | None:
        """Return the connection for an IP packet from the TUN device, None without one."""
        raise NotImplementedError

    def forward_packet(self, packet: bytes) -> None:
        """Send a packet on its connection, if there is one."""
        if (link := self.find_link(packet)) is not None:
            link.send_packet(packet, self.counts)

    def list_blocked_sockets(self) -> list[socket.socket]:
        """Return the sockets of connections with data that the kernel did not take."""
        return [link.connection for link in self.list_links() if link.waiting]

    def write_socket(self, target: socket.socket) -> None:
        """Send the data that has waited for a connection."""
        for link in self.list_links():
            if link.connection is target:
                link.send_waiting()

    def describe_state(self) -> dict[str, Any]:
        """Return the counters, and the kernel's state of the connections and subflows."""
        return {**self.counts, "subflows": list_subflows(self.settings.port), "connections": [
            {"user": link.user, "opened_token": link.opened_token,
             "token": read_token(link.connection)} for link in self.list_links()]}

    def configure_socket(self, connection: socket.socket) -> None:
        """Set the options of a socket."""
        connection.setblocking(False)  # noqa: FBT003 - signature of the standard library
        connection.setsockopt(socket.SOL_SOCKET, SOCKET_MARK, self.settings.mark)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Client(_End):
    """A tunnel endpoint at a mobile node, whose connection follows the node's address."""

    def open_resources(self) -> None:
        """Open the sockets of the path manager."""
        self._link: _Link | None = None
        self._source = self._opener = ""
        #: When the new address must have joined the connection, None if it need not.
        self._join_until_s: float | None = None
        [self._address] = self.settings.users
        self._paths = PathManager()
        self._events = self._paths.join_events()

    def list_links(self) -> list[_Link]:
        """Return the connection, if there is one."""
        return [self._link] if self._link is not None and not self._link.has_ended else []

    def list_sockets(self) -> list[socket.socket]:
        """Return the sockets of the path manager's events, and of the connection."""
        return [self._events, *(link.connection for link in self.list_links())]

    def read_socket(self, source: socket.socket) -> None:
        """Read packets of the connection, or react to changes of its subflows."""
        if source is self._events:
            for kind, token, address in self._paths.read_events():
                self._handle_subflow(kind, token, address)
        elif self._link is not None and source is self._link.connection:
            self._read_link(self._link)

    def find_link(self, packet: bytes) -> _Link | None:
        """Return the connection once the gateway has accepted this node."""
        return next((link for link in self.list_links() if link.user), None)

    def next_timer_s(self) -> float | None:
        """Return when a new address must have joined the connection."""
        return self._join_until_s

    def handle_timers(self) -> None:
        """Open another connection if the new address did not join this one in time."""
        if self._join_until_s is not None and time.monotonic() >= self._join_until_s:
            self._open_link()

    def run_command(self, command: str) -> bool:
        """Open a connection, move or delete it.

        `connect` is complete when the gateway has answered.
        """
        if command == "connect":
            self.begin_connection()
            self._open_link()
            return False
        if command == "follow":
            self._follow_address()
        if command.partition(" ")[0] == "reset":
            self._drop_link()
        return super().run_command(command)

    def _read_link(self, link: _Link) -> None:
        link.read_data()
        if not link.user and link.take_address() == self._address:
            link.accept_user(self._address)
            self.finish_connection()
        for packet in link.take_packets() if link.user else ():
            self.counts["received"] += 1
            self.tun.write(packet)
        if link.has_ended and link.user:
            self._open_link()

    def _open_link(self) -> None:
        self._drop_link()
        self._source = self._opener = self.find_source() or self._source
        self._link = _Link(socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP))
        self.configure_socket(self._link.connection)
        self._link.connection.bind((self._source, 0))
        self._link.connection.connect_ex((self.settings.address, self.settings.port))
        # It waits until the connection can be written to.
        self._link.waiting.append(socket.inet_aton(self._address))
        self.counts["connections"] += 1

    def _drop_link(self) -> None:
        self._join_until_s = None
        if self._link is not None:
            self._link.reset_connection()
            self._link = None
        self._paths.remove_endpoints()

    def _follow_address(self) -> None:
        """Join the connection from the node's new address, or open another one there."""
        source = self.find_source()
        if self._link is None or not source or source == self._source:
            return
        if read_token(self._link.connection) is None or not self._link.user:
            self._open_link()
            return
        self._source = source
        self._paths.remove_initial_address(self._opener)
        self._paths.remove_endpoints()
        self._paths.add_endpoint(source)
        self._join_until_s = time.monotonic() + _JOIN_S
        self.counts["joins"] += 1

    def _handle_subflow(self, kind: int, token: int, address: str) -> None:
        """React to the subflow of a new address, which is established or refused.

        This end has established it before the agent refuses it.
        """
        if self._link is None or token != self._link.opened_token or (
                address != self._source or address == self._opener):
            return
        if kind == SUBFLOW_CLOSED:
            self._open_link()
        elif self._join_until_s is not None:
            self._join_until_s = None
            # The first time, no subflow could carry REMOVE_ADDR.
            self._paths.remove_initial_address(self._opener)


class Gateway(_End):
    """A tunnel endpoint at a home agent, which accepts mobile nodes and forwards their packets."""

    def open_resources(self) -> None:
        """Open the socket at which mobile nodes connect."""
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((self.settings.address, self.settings.port))
        self.configure_socket(self._listener)
        self._listener.listen()
        self._links: list[_Link] = []

    def list_links(self) -> list[_Link]:
        """Return all connections that have not ended."""
        return self._links

    def list_sockets(self) -> list[socket.socket]:
        """Return the sockets of the listener and of all connections."""
        return [self._listener, *(link.connection for link in self._links)]

    def read_socket(self, source: socket.socket) -> None:
        """Accept a connection, or read its packets."""
        if source is self._listener:
            connection, _ = self._listener.accept()
            self.configure_socket(connection)
            self._links.append(_Link(connection))
            self.counts["connections"] += 1
        for link in [each for each in self._links if each.connection is source]:
            self._read_link(link)
            if link.has_ended:
                self._forget_link(link)

    def find_link(self, packet: bytes) -> _Link | None:
        """Return the connection of the mobile node to which a packet is addressed."""
        address = socket.inet_ntoa(packet[16:20])
        return next((link for link in self._links if link.user == address), None)

    def _read_link(self, link: _Link) -> None:
        link.read_data()
        if not link.user and (address := link.take_address()) in self.settings.users:
            self.forget_user(address)  # of which this one is not yet
            link.accept_user(address)
            link.waiting.append(socket.inet_aton(address))
            link.send_waiting()
        for packet in link.take_packets() if link.user else ():
            if packet[12:16] == socket.inet_aton(link.user):
                self.counts["received"] += 1
                self.tun.write(packet)
            else:
                self.counts["refused"] += 1

    def forget_user(self, address: str) -> None:
        """Delete the connection of a mobile node."""
        for link in [each for each in self._links if each.user == address]:
            self._forget_link(link)

    def _forget_link(self, link: _Link) -> None:
        self._links.remove(link)
        link.reset_connection()


def run_endpoint(file: str) -> None:
    """Run a tunnel endpoint until standard input is closed."""
    settings = MptcpSettings(**json.loads(Path(file).read_text()))
    try:
        end = (Client if settings.duty == "mobile" else Gateway)(settings)
    except OSError as error:
        sys.exit(f"MPTCP: {error.strerror}; the kernel needs CONFIG_MPTCP, and net.mptcp.enabled 1")
    end.pass_packets()


if __name__ == "__main__":
    run_endpoint(*sys.argv[1:])

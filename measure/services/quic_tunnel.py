"""Carry IP packets between a mobile node and its home agent in QUIC DATAGRAM frames (RFC 9221).

The program runs at both endpoints of a tunnel, and uses the library aioquic. Its files and commands
are those of `measure.services.tunnel_program`, with `QuicSettings`. The mobile node authenticates
itself by a token on a QUIC stream, and the home agent by its certificate.

The mobile node's program watches the kernel's addresses and routes. When the source address
changes, it migrates the connection there with a new connection ID (RFC 9000, 9). With `reconnects`,
it opens another connection instead.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aioquic.buffer import Buffer
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicPacketType, pull_quic_header

from measure.services.tunnel_program import (
    MOST_WAITING,
    SOCKET_MARK,
    TunnelEnd,
    TunnelSettings,
)

#: Application protocol in the TLS handshake (ALPN).
_ALPN = "qop-tunnel"
#: Largest UDP payload on Ethernet.
_UDP_BYTES = 1472
_CONNECTION_ID_BYTES = 8
_IDLE_S = 3600.0
_READ_BYTES, _NETLINK_BYTES = 2048, 65536
#: linux/rtnetlink.h: changes of IPv4 addresses and routes.
_ADDRESS_GROUP, _ROUTE_GROUP = 0x10, 0x40


@dataclass(frozen=True)
class QuicSettings(TunnelSettings):
    """The settings of a QUIC tunnel's endpoint.

    - `name`: name in the gateway's certificate
    - `certificate`, `key`: files of the gateway's certificate, and of its key ("" at a mobile node)
    - `secrets`: file to which TLS secrets are logged, for Wireshark
    - `users`: token of each mobile node, by its inner address
    - `reconnects`: whether the client opens another connection when its address changes
    """

    name: str
    certificate: str
    key: str
    secrets: str
    users: dict[str, str]
    reconnects: bool = False


@dataclass(eq=False)
class _Link:
    """A QUIC connection and the UDP socket that it uses.

    `user` is the inner address of the mobile node, "" until the gateway has accepted its token.
    `opener` is the address from which a client opened the connection.
    """

    connection: QuicConnection
    udp: socket.socket
    opener: str = ""
    user: str = ""
    has_ended: bool = False

    def send_packet(self, packet: bytes, counts: Counter[str]) -> None:
        """Send an IP packet from the TUN device in a DATAGRAM frame of this connection.

        If `MOST_WAITING` frames already wait for the congestion window, the packet is dropped.
        """
        # aioquic has no limit of its own, and does not show how many DATAGRAM frames wait.
        if len(self.connection._datagrams_pending) >= MOST_WAITING:  # noqa: SLF001
            counts["dropped"] += 1
            return
        self.connection.send_datagram_frame(packet)
        counts["sent"] += 1
        self.send_waiting()

    def send_waiting(self) -> None:
        """Send all QUIC packets that may be sent now."""
        for data, address in self.connection.datagrams_to_send(now=time.monotonic()):
            try:
                self.udp.sendto(data, address)
            except OSError:
                continue  # no link or no route: lost like any other packet


class _End(TunnelEnd):
    """A tunnel endpoint: TUN device, UDP socket and QUIC connections."""

    settings: QuicSettings

    def open_resources(self) -> None:
        """Open the file of TLS secrets, until the end."""
        self._secrets = Path(self.settings.secrets).open("a", buffering=1)  # noqa: SIM115

    def make_configuration(self) -> QuicConfiguration:
        """Return aioquic's configuration of this endpoint."""
        is_client = self.settings.duty == "mobile"
        configuration = QuicConfiguration(
            alpn_protocols=[_ALPN], is_client=is_client, max_datagram_size=_UDP_BYTES,
            max_datagram_frame_size=65535, idle_timeout=_IDLE_S, secrets_log_file=self._secrets,
            connection_id_length=_CONNECTION_ID_BYTES)
        if is_client:
            configuration.server_name = self.settings.name
            configuration.load_verify_locations(self.settings.certificate)
        else:
            configuration.load_cert_chain(self.settings.certificate, self.settings.key)
        return configuration

    def list_links(self) -> list[_Link]:
        """Return all connections."""
        raise NotImplementedError

    def route_packet(self, packet: bytes) -> _Link | None:
        """Return the connection for an IP packet from the TUN device, None without one."""
        raise NotImplementedError

    def handle_event(self, link: _Link, event: events.QuicEvent) -> None:
        """Write inner packets to the TUN device, and note the end of a connection."""
        if isinstance(event, events.DatagramFrameReceived) and link.user:
            self.counts["received"] += 1
            self.tun.write(event.data)
        elif isinstance(event, events.ConnectionTerminated):
            link.has_ended = True

    def next_timer_s(self) -> float | None:
        """Return when the next timer of a connection expires."""
        return min((timer for link in self.list_links()
                    if (timer := link.connection.get_timer()) is not None), default=None)

    def handle_timers(self) -> None:
        """Handle all timers that have expired, such as for retransmissions."""
        for link in self.list_links():
            timer = link.connection.get_timer()
            if timer is not None and timer <= time.monotonic():
                link.connection.handle_timer(now=time.monotonic())
                self.serve_link(link)

    def forward_packet(self, packet: bytes) -> None:
        """Send a packet in a DATAGRAM frame, if there is a connection for it."""
        if (link := self.route_packet(packet)) is not None:
            link.send_packet(packet, self.counts)

    def serve_link(self, link: _Link) -> None:
        """Handle all events of a connection, and send its pending QUIC packets."""
        while (event := link.connection.next_event()) is not None:
            self.handle_event(link, event)
        link.send_waiting()

    def _open_socket(self, source: tuple[str, int]) -> socket.socket:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, SOCKET_MARK, self.settings.mark)
        udp.setblocking(False)  # noqa: FBT003 - signature of the standard library
        udp.bind(source)
        return udp


def _read_datagrams(udp: socket.socket) -> Iterator[tuple[bytes, tuple[str, int]]]:
    """Yield all datagrams that have arrived on a socket."""
    while True:
        try:
            data, address = udp.recvfrom(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            continue  # an ICMP error for an earlier datagram
        yield data, address


class Client(_End):
    """A tunnel endpoint at a mobile node, which opens the connection.

    When the node's address changes, the client migrates the connection or opens another one.
    """

    def __init__(self, settings: QuicSettings) -> None:
        super().__init__(settings)
        self._link: _Link | None = None
        self._source = ""
        #: Whether nothing has come from the gateway since the address changed.
        self._is_unanswered = False
        [(self._address, self._token)] = settings.users.items()
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._netlink.setblocking(False)  # noqa: FBT003 - signature of the standard library
        self._netlink.bind((0, _ADDRESS_GROUP | _ROUTE_GROUP))

    def list_links(self) -> list[_Link]:
        """Return the connection, if there is one."""
        return [self._link] if self._link is not None and not self._link.has_ended else []

    def list_sockets(self) -> list[socket.socket]:
        """Return the sockets to read: the kernel's address changes, and the QUIC connection."""
        return [self._netlink, *(link.udp for link in self.list_links())]

    def read_socket(self, source: socket.socket) -> None:
        """Give QUIC packets to the connection, or react to changes of addresses and routes."""
        if source is self._netlink:
            self._netlink.recv(_NETLINK_BYTES)
            self._follow_address()
        elif self._link is not None and source is self._link.udp:
            for data, address in _read_datagrams(source):
                self._is_unanswered = False
                self._link.connection.receive_datagram(data, address, now=time.monotonic())
            self.serve_link(self._link)

    def route_packet(self, packet: bytes) -> _Link | None:
        """Return the connection once the gateway has accepted this node."""
        return self._link if self._link is not None and self._link.user else None

    def handle_event(self, link: _Link, event: events.QuicEvent) -> None:
        """Send the token after the handshake, and read the gateway's answer."""
        if isinstance(event, events.HandshakeCompleted):
            stream = link.connection.get_next_available_stream_id()
            link.connection.send_stream_data(
                stream, f"{self._address} {self._token}\n".encode(), end_stream=True)
        elif isinstance(event, events.StreamDataReceived) and event.data == b"accepted\n":
            link.user = self._address
            self.finish_connection()
        super().handle_event(link, event)

    def run_command(self, command: str) -> bool:
        """Open a connection, or delete it without notifying the gateway.

        `connect` is complete when the gateway has accepted the token, or when the time limit ends.
        """
        if command == "connect":
            self.begin_connection()
            self._open_link()
            return False
        if command.partition(" ")[0] == "reset":
            self._drop_link()
        return super().run_command(command)

    def _open_link(self) -> None:
        self._drop_link()
        self._source = self.find_source() or self._source
        self._link = _Link(QuicConnection(configuration=self.make_configuration()),
                           self._open_socket((self._source, 0)))
        self.counts["connections"] += 1
        self._link.connection.connect((self.settings.address, self.settings.port),
                                      now=time.monotonic())
        self._link.send_waiting()

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.udp.close()
            self._link = None

    def _follow_address(self) -> None:
        """Move the connection to the node's new address, or open another one there.

        Without an answer of the gateway, each further change of addresses or routes repeats the
        move. The first packet may have left by the old route.
        """
        source = self.find_source()
        has_moved = source != self._source
        if self._link is None or not source or not (has_moved or self._is_unanswered):
            return
        self._is_unanswered = True
        if self.settings.reconnects or not self._link.user:
            self._open_link()
            return
        if has_moved:
            self._source = source
            self._link.udp.close()
            self._link.udp = self._open_socket((source, 0))
            # A connection ID is used from one address only (RFC 9000, 9.5).
            self._link.connection.change_connection_id()
            self.counts["migrations"] += 1
        # The gateway learns the address at once, even if no packet is waiting.
        self._link.connection.send_ping(0)
        self._link.send_waiting()


class Gateway(_End):
    """A tunnel endpoint at a home agent, which accepts mobile nodes and forwards their packets."""

    def __init__(self, settings: QuicSettings) -> None:
        super().__init__(settings)
        self._udp = self._open_socket((settings.address, settings.port))
        self._configuration = self.make_configuration()
        self._by_id: dict[bytes, _Link] = {}
        self._by_user: dict[str, _Link] = {}

    def list_links(self) -> list[_Link]:
        """Return all connections that have not ended."""
        return [link for link in dict.fromkeys(self._by_id.values()) if not link.has_ended]

    def list_sockets(self) -> list[socket.socket]:
        """Return the socket of all connections."""
        return [self._udp]

    def read_socket(self, source: socket.socket) -> None:
        """Give each UDP datagram to the connection that has its connection ID."""
        for data, address in _read_datagrams(source):
            link = self._find_link(data, address[0])
            if link is not None:
                link.connection.receive_datagram(data, address, now=time.monotonic())
                self.serve_link(link)

    def _find_link(self, data: bytes, source: str) -> _Link | None:
        try:
            header = pull_quic_header(Buffer(data=data), host_cid_length=_CONNECTION_ID_BYTES)
        except ValueError:
            return None
        link = self._by_id.get(header.destination_cid)
        if link is None and header.packet_type == QuicPacketType.INITIAL:
            # An earlier attempt from there was given up.
            self._by_id = {name: each for name, each in self._by_id.items()
                           if each.user or each.opener != source}
            link = _Link(QuicConnection(
                configuration=self._configuration,
                original_destination_connection_id=header.destination_cid), self._udp, source)
            self.counts["connections"] += 1
            self._by_id[header.destination_cid] = link
            self._by_id[link.connection.host_cid] = link
        return link

    def route_packet(self, packet: bytes) -> _Link | None:
        """Return the connection of the mobile node to which a packet is addressed."""
        return self._by_user.get(socket.inet_ntoa(packet[16:20]))

    def handle_event(self, link: _Link, event: events.QuicEvent) -> None:
        """Store connection IDs, and accept a mobile node by its token."""
        if isinstance(event, events.ConnectionIdIssued):
            self._by_id[event.connection_id] = link
        elif isinstance(event, events.ConnectionIdRetired):
            self._by_id.pop(event.connection_id, None)
        elif isinstance(event, events.StreamDataReceived):
            address, _, token = event.data.decode(errors="replace").strip().partition(" ")
            if token and self.settings.users.get(address) == token:
                self.forget_user(address)  # of which this one is not yet
                link.user = address
                self._by_user[address] = link
                link.connection.send_stream_data(event.stream_id, b"accepted\n", end_stream=True)
        elif isinstance(event, events.DatagramFrameReceived) and (
                not link.user or event.data[12:16] != socket.inet_aton(link.user)):
            self.counts["refused"] += 1
            return
        super().handle_event(link, event)

    def forget_user(self, address: str) -> None:
        """Delete the connection of a mobile node."""
        self._by_user.pop(address, None)
        self._by_id = {name: link for name, link in self._by_id.items() if link.user != address}


def main(file: str) -> None:
    """Run a tunnel endpoint until standard input is closed."""
    settings = QuicSettings(**json.loads(Path(file).read_text()))
    (Client if settings.duty == "mobile" else Gateway)(settings).pass_packets()


if __name__ == "__main__":
    main(*sys.argv[1:])

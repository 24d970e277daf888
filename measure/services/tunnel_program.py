"""Carry IP packets between a TUN device and a transport connection, controlled by commands.

`TunnelEnd` is the common part of the tunnel programs: `measure.services.quic_tunnel` and
`measure.services.mptcp_tunnel`. Each of them runs at both endpoints of a tunnel, and takes a file:

    python3 -m measure.services.quic_tunnel FILE

FILE is JSON with the keys of the program's settings (`TunnelSettings`, or a subclass). The program
creates a TUN device and prints `ready`. Then it reads commands from standard input, one command a
line:

- `connect`: open a connection to the home agent (mobile node only)
- `reset ADDRESS`: delete the connection of the mobile node with this inner address, without
  notifying the other endpoint
- `state`: write counters to the file in `TunnelSettings.state`

The program prints `done` and the command after each completed command. If the connection takes too
long, it prints `failed connect`.
"""

from __future__ import annotations

import fcntl
import json
import select
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Most packets that wait for a connection, like the queue of a network device.
MOST_WAITING = 64
#: Longest time to open a connection, in s.
_CONNECT_S = 10.0
_READ_BYTES = 2048
#: linux/if_tun.h.
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SOCKET_MARK = 36
SHORTEST_IPV4 = 20


@dataclass(frozen=True)
class TunnelSettings:
    """The settings of a tunnel endpoint.

    - `duty`: `mobile` at a mobile node, or `gateway` at a home agent
    - `device`, `mark`: name of the TUN device, and firewall mark of the tunnel's own packets
    - `address`, `port`: the gateway's address, and UDP or TCP port
    - `state`: file to which counters are written
    """

    duty: str
    device: str
    mark: int
    address: str
    port: int
    state: str


class TunnelEnd:
    """A tunnel endpoint: TUN device, commands, and the sockets of a transport protocol."""

    def __init__(self, settings: TunnelSettings) -> None:
        self.settings = settings
        self.counts = Counter[str]()
        #: When a client began to open a connection that the gateway has not accepted yet.
        self._begun_s: float | None = None
        self.tun = open("/dev/net/tun", "r+b", buffering=0)  # noqa: SIM115 - open until the end
        fcntl.ioctl(self.tun, _TUNSETIFF, struct.pack(
            "16sH22x", settings.device.encode(), _IFF_TUN | _IFF_NO_PI))
        self.open_resources()

    def open_resources(self) -> None:
        """Open what the protocol needs, such as sockets, before the program is ready."""

    def list_sockets(self) -> Sequence[socket.socket]:
        """Return the sockets to wait for."""
        raise NotImplementedError

    def list_blocked_sockets(self) -> Sequence[socket.socket]:
        """Return the sockets that data waits for until they can take more."""
        return ()

    def read_socket(self, source: socket.socket) -> None:
        """Process all data that has arrived on a socket of this endpoint."""
        raise NotImplementedError

    def write_socket(self, target: socket.socket) -> None:
        """Send the data that has waited for a socket."""

    def forward_packet(self, packet: bytes) -> None:
        """Send an IPv4 packet from the TUN device through the tunnel."""
        raise NotImplementedError

    def next_timer_s(self) -> float | None:
        """Return when the next timer expires, on the monotonic clock in s. None without one."""
        return None

    def handle_timers(self) -> None:
        """Handle all timers that have expired."""

    def describe_state(self) -> dict[str, Any]:
        """Return what the command `state` writes: the counters by name."""
        return dict(self.counts)

    def run_command(self, command: str) -> bool:
        """Run a command from standard input, and return whether it is complete.

        An incomplete command, such as `connect`, prints its own answer later.
        """
        word, _, address = command.partition(" ")
        if word == "state":
            Path(self.settings.state).write_text(json.dumps(self.describe_state()))
        elif word == "reset":
            self.forget_user(address)
        return True

    def forget_user(self, address: str) -> None:
        """Delete the connection of a mobile node, by its address. Only gateways do this."""

    def pass_packets(self) -> None:
        """Forward packets and run commands until standard input is closed."""
        print_answer("ready")
        while True:
            timer_s = self.next_timer_s()
            wait_s = None if timer_s is None else max(0.0, timer_s - time.monotonic())
            ready, blocked, _ = select.select([sys.stdin, self.tun, *self.list_sockets()],
                                              self.list_blocked_sockets(), [], wait_s)
            self.handle_timers()
            for target in blocked:
                self.write_socket(target)
            for source in ready:
                if source is self.tun:
                    self._read_tun()
                elif isinstance(source, socket.socket):
                    self.read_socket(source)
            if sys.stdin in ready:
                line = sys.stdin.readline()
                if not line:
                    return
                if self.run_command(line.strip()):
                    print_answer(f"done {line.strip()}")
            self._check_deadline()

    def begin_connection(self) -> None:
        """Start the time limit of the command `connect`."""
        self._begun_s = time.monotonic()

    def finish_connection(self) -> None:
        """Answer the command `connect`, if its connection was awaited."""
        if self._begun_s is not None:
            self._begun_s = None
            print_answer("done connect")

    def find_source(self) -> str:
        """Return the address from which the kernel would send to the gateway, "" without route."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as scratch:
            scratch.setsockopt(socket.SOL_SOCKET, SOCKET_MARK, self.settings.mark)
            try:
                scratch.connect((self.settings.address, self.settings.port))
            except OSError:
                return ""
            return str(scratch.getsockname()[0])

    def _check_deadline(self) -> None:
        """Report a connection that the gateway has not accepted within `_CONNECT_S`."""
        if self._begun_s is not None and time.monotonic() > self._begun_s + _CONNECT_S:
            self._begun_s = None
            sys.stderr.write(f"no connection with {self.settings.address} within "
                             f"{_CONNECT_S:g} s\n")
            sys.stderr.flush()
            print_answer("failed connect")

    def _read_tun(self) -> None:
        packet = self.tun.read(_READ_BYTES)
        # IPv4 only: the kernel also sends IPv6's router solicitations to the device.
        if len(packet) >= SHORTEST_IPV4 and packet[0] >> 4 == 4:
            self.forward_packet(packet)


def print_answer(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()

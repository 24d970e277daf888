"""Non-blocking UDP socket with arrival times and drop counts from the kernel."""

from __future__ import annotations

import socket
import struct
from collections import deque
from dataclasses import dataclass

from protocols.authenticast.clock import WallClock
from protocols.authenticast.events import write_event

Address = tuple[str, int]
_MAX_DATAGRAM = 65535
# Socket options from Linux' <asm/socket.h> that Python's socket module does not name.
_SO_TIMESTAMPNS = 35
_SO_RXQ_OVFL = 40
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_TIMESPEC = struct.Struct("@ll")
_DROPS = struct.Struct("@I")
_ANCILLARY_BYTES = 128


@dataclass(frozen=True)
class StampedDatagram:
    """A datagram with its source, its arrival time and the drop count.

    `read_drop_count` is the kernel's count of datagrams dropped before this one.
    """

    datagram: bytes
    source: Address
    arrived_ns: int
    dropped: int


class Port:
    """A UDP socket that never blocks. Raises OSError."""

    def __init__(self, clock: WallClock, address: str, port: int,
                 buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            if buffer_bytes is not None:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            for option in (_SO_RXQ_OVFL, _SO_TIMESTAMPNS):
                self.socket.setsockopt(socket.SOL_SOCKET, option, 1)
            self.socket.bind((address, port))
        except OSError:
            self.socket.close()
            raise
        self._clock = clock
        self._dropped = 0
        #: A datagram that was read before its arrival time (stepped clock only).
        self._early: StampedDatagram | None = None
        self._out: deque[tuple[bytes, Address]] = deque()
        self._burst = (0, 0)

    def __enter__(self) -> Port:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def number(self) -> int:
        """Return the port number."""
        return int(self.socket.getsockname()[1])

    @property
    def is_ahead(self) -> bool:
        """Return whether a datagram was read before its arrival time.

        That happens with a stepped clock: such a datagram counts as arrived at the next step.
        """
        return self._early is not None

    def due_ns(self) -> int | None:
        """Return the time at which a queued datagram can be received or sent.

        None if no datagram is queued in this program.
        """
        times = [self._early.arrived_ns] if self._early else []
        times += [self._clock.now_ns() + 1] if self._out else []
        return min(times, default=None)

    def receive(self) -> StampedDatagram | None:
        """Return the next datagram that has arrived, or None."""
        arrival, self._early = self._early or self._read_socket(), None
        if arrival is not None and arrival.arrived_ns > self._clock.now_ns():
            self._early = arrival
            return None
        return arrival

    def read_drop_count(self) -> int:
        """Return the kernel's current drop count."""
        info = self.socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        return int(_MEMINFO.unpack(info)[8])

    def send(self, payload: bytes, destination: Address) -> None:
        """Send a datagram, after those that are queued."""
        self._out.append((payload, destination))
        self.flush()

    def flush(self) -> None:
        """Send the queued datagrams that the clock's burst limit permits.

        A datagram that the system refuses is lost. An event `error` reports it.
        """
        while self._out and self._has_room(len(self._out[0][0])):
            payload, to = self._out.popleft()
            try:
                self.socket.sendto(payload, to)
            except OSError as error:
                write_event("error", self._clock.now_ns() / 1e9,
                            reason=f"{to[0]}: {error.strerror}")

    def _has_room(self, size: int) -> bool:
        """Return whether a burst may contain `size` more bytes, and count them.

        A burst may always contain its first datagram, of any size.
        """
        limit, now_ns = self._clock.burst_bytes, self._clock.now_ns()
        if limit is None:
            return True
        used = self._burst[1] if self._burst[0] == now_ns else 0
        if used and used + size > limit:
            return False
        self._burst = now_ns, used + size
        return True

    def _read_socket(self) -> StampedDatagram | None:
        try:
            datagram, ancillary, _, source = self.socket.recvmsg(_MAX_DATAGRAM, _ANCILLARY_BYTES)
        except (BlockingIOError, ConnectionRefusedError):
            return None  # refused: the other program has ended, which its silence will show
        arrived_ns = self._clock.now_ns()
        for _, kind, data in ancillary:
            if kind == _SO_RXQ_OVFL:
                self._dropped, = _DROPS.unpack_from(data)
            elif kind == _SO_TIMESTAMPNS:
                seconds, ns = _TIMESPEC.unpack_from(data)
                arrived_ns = self._clock.arrived_ns(seconds * 1_000_000_000 + ns)
        return StampedDatagram(datagram, source, arrived_ns, self._dropped)

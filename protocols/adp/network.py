"""The insecure datagram service: sockets for IP with a protocol number, and for UDP."""

from __future__ import annotations

import contextlib
import socket

_BUFFER_BYTES = 1 << 20
_LARGEST = 65_535
#: Linux constants. Datagrams are fragmented wherever a link is too small. Path MTU discovery would
#: drop them and report an error, but ADP knows no links.
IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 10, 0


class Datagrams:
    """A bound socket.

    IP fragments datagrams that exceed the link's MTU.
    """

    def __init__(self, kind: str, number: int, address: str) -> None:
        """Open the socket. Raises OSError: a raw socket needs CAP_NET_RAW."""
        self._is_raw = kind == "ip"
        self._port = 0 if self._is_raw else number
        if self._is_raw:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, number)
        else:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
            self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
            self._socket.bind((address, self._port))
            self._socket.settimeout(0)
            # One buffer for all datagrams: allocating 64 kB takes longer than processing many a
            # datagram.
            self._buffer = memoryview(bytearray(_LARGEST))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the file descriptor to wait for."""
        return self._socket.fileno()

    def send(self, payload: bytes, address: str) -> None:
        """Send a datagram.

        It is lost if the socket buffer is full. Raises OSError.
        """
        with contextlib.suppress(BlockingIOError):
            self._socket.sendto(payload, (address, self._port))

    def receive(self) -> tuple[bytes, str] | None:
        """Return a datagram and its sender's address, or None if none is waiting."""
        try:
            size, (address, port) = self._socket.recvfrom_into(self._buffer)
        except (BlockingIOError, ConnectionRefusedError):
            return None
        data = self._buffer[:size]
        if self._is_raw:
            return bytes(data[4 * (data[0] & 0x0F):]), address
        return (bytes(data), address) if port == self._port else (b"", address)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

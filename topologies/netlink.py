"""Requests to the kernel by netlink, and what it answers. Structures: linux/netlink.h.

Without pyroute2, which a guest takes half a second to import, and without programs such as `ip` and
`iw`, which take 10 ms to start there.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from types import TracebackType

#: What a request may ask for beside what its kind does: an acknowledgement, or all that there is.
ACK, DUMP = 0x4, 0x300
#: Bits of an attribute's kind that say what is in it.
_KIND = 0x3FFF
_HEAD = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_NUMBER = struct.Struct("=i")
_REQUEST = 1
_ERROR, _DONE = 2, 3
_BYTES = 1 << 16


class NetlinkSocket:
    """A connection to one of netlink's protocols, in the network namespace that it is made in.

    A context manager. A `port` of 0 is the kernel's to choose.
    """

    def __init__(self, protocol: int, port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._sequence = 0
        try:
            self._socket.bind((port, 0))
        except OSError:
            self.close()
            raise

    def __enter__(self) -> NetlinkSocket:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and what belongs to it."""
        self._socket.close()

    def ask(self, kind: int, flags: int, body: bytes) -> list[bytes]:
        """What is answered to a request that has ACK or DUMP among its flags, without heads.

        Raises OSError with the kernel's error number.
        """
        self._sequence += 1
        self._socket.send(_HEAD.pack(_HEAD.size + len(body), kind, _REQUEST | flags,
                                     self._sequence, 0) + body)
        return list(self._answers())

    def _answers(self) -> Iterator[bytes]:
        """What is said to the last request, until that is acknowledged or the list has ended."""
        while True:
            said, place = self._socket.recv(_BYTES), 0
            while place < len(said):
                size, kind, _, sequence, _ = _HEAD.unpack_from(said, place)
                body, place = said[place + _HEAD.size:place + size], place + _padded(size)
                if sequence != self._sequence:
                    continue
                if kind in (_ERROR, _DONE):
                    (number,) = _NUMBER.unpack_from(body)
                    # Some acknowledge with what they made, which is no error.
                    if number < 0:
                        raise OSError(-number, os.strerror(-number))
                    return
                yield body


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute, padded as the next one wants it."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(octets: bytes) -> dict[int, bytes]:
    """Attributes by their kind; those within one are its value."""
    found, place = {}, 0
    while place < len(octets):
        size, kind = _ATTRIBUTE.unpack_from(octets, place)
        found[kind & _KIND] = octets[place + _ATTRIBUTE.size:place + size]
        place += _padded(size)
    return found


def _padded(size: int) -> int:
    return size + -size % 4

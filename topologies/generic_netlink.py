"""Requests to a family of the kernel's generic netlink, such as mac80211_hwsim's.

Without pyroute2, which a guest takes half a second to import. Structures: linux/netlink.h,
linux/genetlink.h.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
from collections.abc import Iterator
from types import TracebackType

from topologies.rtnetlink import attribute

_NETLINK_GENERIC = 16
_HEAD = struct.Struct("=IHHII")
_GENERIC_HEAD = struct.Struct("=BBxx")
_ATTRIBUTE = struct.Struct("=HH")
_NUMBER = struct.Struct("=i")
#: Bits of an attribute's kind that say what is in it.
_KIND = 0x3FFF
_REQUEST, _ACK, _DUMP = 1, 4, 0x300
_ERROR, _DONE = 2, 3
_VERSION = 1
# Of the family that knows the others: what gives one by its name.
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_BYTES = 1 << 16
#: Of a port, a process' number; those above tell its sockets apart.
_PORT_BITS = 22
_NUMBERS = itertools.cycle(range(1, 1 << 32 - _PORT_BITS))


class GenericNetlink:
    """A connection to one family, in the network namespace that it is made in.

    A context manager. Raises FileNotFoundError where the kernel lacks the family.
    """

    def __init__(self, family: str) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC)
        self._sequence = 0
        try:
            self._bind()
            self._send(_CONTROL, _GET_FAMILY, _ACK, attribute(_FAMILY_NAME, _text(family)))
            [answer] = [attributes for attributes in self._answers() if attributes]
            (self._family,) = struct.unpack("=H", answer[_FAMILY_ID])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> GenericNetlink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and what belongs to it."""
        self._socket.close()

    def _bind(self) -> None:
        """Take a port that no other socket of this process has, in whichever namespace.

        One that is not bound gets the process' own number, once in each family and namespace. When
        any of them closes, mac80211_hwsim (of Linux 6.1) removes the radios of that port's maker.
        """
        self._socket.bind((os.getpid() % (1 << _PORT_BITS) | next(_NUMBERS) << _PORT_BITS, 0))

    def do(self, command: int, attributes: bytes) -> None:
        """One request and its acknowledgement. Raises OSError with the kernel's error number."""
        self._send(self._family, command, _ACK, attributes)
        list(self._answers())

    def dump(self, command: int) -> list[dict[int, bytes]]:
        """All that the kernel has to list, each as its attributes by their kind."""
        self._send(self._family, command, _DUMP, b"")
        return list(self._answers())

    def _send(self, family: int, command: int, flags: int, attributes: bytes) -> None:
        self._sequence += 1
        body = _GENERIC_HEAD.pack(command, _VERSION) + attributes
        self._socket.send(_HEAD.pack(_HEAD.size + len(body), family, _REQUEST | flags,
                                     self._sequence, 0) + body)

    def _answers(self) -> Iterator[dict[int, bytes]]:
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
                yield _attributes(body[_GENERIC_HEAD.size:])


def _attributes(octets: bytes) -> dict[int, bytes]:
    attributes, place = {}, 0
    while place < len(octets):
        size, kind = _ATTRIBUTE.unpack_from(octets, place)
        attributes[kind & _KIND] = octets[place + _ATTRIBUTE.size:place + size]
        place += _padded(size)
    return attributes


def _padded(size: int) -> int:
    return size + -size % 4


def _text(value: str) -> bytes:
    return value.encode() + b"\0"

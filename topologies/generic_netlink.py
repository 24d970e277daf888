"""Requests to a family of the kernel's generic netlink, such as mac80211_hwsim's.

Structures: linux/genetlink.h.
"""

from __future__ import annotations

import itertools
import os
import struct
from types import TracebackType

from topologies import netlink
from topologies.netlink import ACK, DUMP, NetlinkSocket, attribute

_NETLINK_GENERIC = 16
_HEAD = struct.Struct("=BBxx")
_VERSION = 1
# Of the family that knows the others: what gives one by its name.
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
#: Of a port, a process' number; those above tell its sockets apart.
_PORT_BITS = 22
_NUMBERS = itertools.cycle(range(1, 1 << 32 - _PORT_BITS))


class GenericNetlink:
    """A connection to one family, in the network namespace that it is made in.

    A context manager. Raises FileNotFoundError where the kernel lacks the family.
    """

    def __init__(self, family: str) -> None:
        self._netlink = NetlinkSocket(_NETLINK_GENERIC, _port())
        try:
            [answer] = self._ask(_CONTROL, _GET_FAMILY, ACK,
                                 attribute(_FAMILY_NAME, family.encode() + b"\0"))
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
        self._netlink.close()

    def do(self, command: int, attributes: bytes) -> None:
        """One request and its acknowledgement. Raises OSError with the kernel's error number."""
        self._ask(self._family, command, ACK, attributes)

    def dump(self, command: int, attributes: bytes = b"") -> list[dict[int, bytes]]:
        """All that the kernel has to list, each as its attributes by their kind."""
        return self._ask(self._family, command, DUMP, attributes)

    def _ask(self, family: int, command: int, flags: int,
             attributes: bytes) -> list[dict[int, bytes]]:
        answers = self._netlink.ask(family, flags, _HEAD.pack(command, _VERSION) + attributes)
        return [netlink.attributes(answer[_HEAD.size:]) for answer in answers]


def _port() -> int:
    """A port that no other socket of this process has, in whichever namespace.

    One that is not bound gets the process' own number, once in each family and namespace. When
    any of them closes, mac80211_hwsim (of Linux 6.1) removes the radios of that port's maker.
    """
    return os.getpid() % (1 << _PORT_BITS) | next(_NUMBERS) << _PORT_BITS

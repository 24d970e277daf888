"""Requests to a family of the kernel's generic netlink, such as mac80211_hwsim.

Structures: linux/genetlink.h.
"""

from __future__ import annotations

import itertools
import os
import struct
from types import TracebackType

from topologies import netlink
from topologies.netlink import ACK, DUMP, NetlinkSocket, encode_attribute

_NETLINK_GENERIC = 16
_HEAD = struct.Struct("=BBxx")
_VERSION = 1
# The control family, which resolves the names of the others.
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
#: Size in bits of the process number in a netlink port ID; higher bits number the sockets.
_PORT_BITS = 22
_NUMBERS = itertools.cycle(range(1, 1 << 32 - _PORT_BITS))


class GenericNetlink:
    """A connection to one family, in the network namespace in which it is opened.

    A context manager. Raises FileNotFoundError if the kernel lacks the family.
    """

    def __init__(self, family: str) -> None:
        self._netlink = NetlinkSocket(_NETLINK_GENERIC, _choose_port())
        try:
            [answer] = self._send_request(_CONTROL, _GET_FAMILY, ACK,
                                          encode_attribute(_FAMILY_NAME, family.encode() + b"\0"))
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
        """Close the connection, and remove the kernel objects that depend on it."""
        self._netlink.close()

    def send_command(self, command: int, attributes: bytes) -> None:
        """Send one request and read its acknowledgement.

        Raises:
            OSError: The kernel refuses; it has the kernel's error number.
        """
        self._send_request(self._family, command, ACK, attributes)

    def list_entries(self, command: int, attributes: bytes = b"") -> list[dict[int, bytes]]:
        """Return all entries that the kernel lists, each as its attributes by kind."""
        return self._send_request(self._family, command, DUMP, attributes)

    def _send_request(self, family: int, command: int, flags: int,
                      attributes: bytes) -> list[dict[int, bytes]]:
        answers = self._netlink.send_request(family, flags, _HEAD.pack(command, _VERSION)
                                             + attributes)
        return [netlink.parse_attributes(answer[_HEAD.size:]) for answer in answers]


def _choose_port() -> int:
    """Return a port ID that no other socket of this process has, in any namespace.

    A socket that is not bound gets the process's number, once in each family and namespace. When
    one of these sockets closes, mac80211_hwsim (Linux 6.1) removes the radios of all with that
    port ID.
    """
    return os.getpid() % (1 << _PORT_BITS) | next(_NUMBERS) << _PORT_BITS

"""Send netlink requests to the kernel and read the answers.

`NetlinkSocket` talks one netlink protocol, and `GenericNetlink` one family of generic netlink, such
as nl80211. `encode_attribute` and `parse_attributes` convert attributes. Other modules configure
radios, interfaces and queues of emulated networks with them. They need no import of pyroute2, which
takes half a second in a guest (virtual machine). They replace programs such as `ip` and `iw`, which
take 10 ms to start there. Structures: linux/netlink.h.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
from collections.abc import Iterator
from types import TracebackType

#: Flags of a request: return an acknowledgement, or return all entries.
ACK, DUMP = 0x4, 0x300
#: Bits of an attribute's kind without its type flags, and the flag of nested attributes.
_KIND, _NESTED = 0x3FFF, 0x8000
_HEAD = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_NUMBER = struct.Struct("=i")
_REQUEST = 1
_ERROR, _DONE = 2, 3
_BYTES = 1 << 16


class NetlinkSocket:
    """A netlink connection to the kernel, in the network namespace in which it is opened.

    A context manager. With `port` 0 the kernel chooses the port. `groups` is the mask of the
    multicast groups whose messages the connection receives.
    """

    def __init__(self, protocol: int, port: int = 0, groups: int = 0) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._sequence = 0
        try:
            self._socket.bind((port, groups))
        except OSError:
            self.close()
            raise

    def __enter__(self) -> NetlinkSocket:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, and remove the kernel objects that depend on it."""
        self._socket.close()

    def send_request(self, kind: int, flags: int, body: bytes) -> list[bytes]:
        """Send a netlink request, and return the answers without headers.

        ACK or DUMP must be among its flags.

        Raises:
            OSError: The kernel refuses; it has the kernel's error number.
        """
        self._sequence += 1
        self._socket.send(encode_request(kind, flags, body, self._sequence))
        return list(self._read_answers())

    @property
    def event_socket(self) -> socket.socket:
        """Return the socket, for callers that limit how long it blocks."""
        return self._socket

    def receive_messages(self) -> list[tuple[int, bytes]]:
        """Wait for messages of the groups, and return each with its kind and without its header.

        Raises:
            BlockingIOError: No message came within the socket's time limit.
        """
        return [(kind, body) for kind, _, body in _split_messages(self._socket.recv(_BYTES))]

    def _read_answers(self) -> Iterator[bytes]:
        """Yield the answers to the last request, up to its acknowledgement or the list's end."""
        while True:
            for kind, sequence, body in _split_messages(self._socket.recv(_BYTES)):
                if sequence != self._sequence:
                    continue
                if kind in (_ERROR, _DONE):
                    (number,) = _NUMBER.unpack_from(body)
                    # Some requests are acknowledged with the number of what they created, which is
                    # no error.
                    if number < 0:
                        raise OSError(-number, os.strerror(-number))
                    return
                yield body


def _split_messages(octets: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, sequence number and body of each message of a datagram."""
    place = 0
    while place < len(octets):
        size, kind, _, sequence, _ = _HEAD.unpack_from(octets, place)
        yield kind, sequence, octets[place + _HEAD.size:place + size]
        place += _padded_size(size)


def encode_request(kind: int, flags: int, body: bytes, sequence: int = 0) -> bytes:
    """Return a netlink request as bytes."""
    return _HEAD.pack(_HEAD.size + len(body), kind, _REQUEST | flags, sequence, 0) + body


def encode_attribute(kind: int, value: bytes) -> bytes:
    """Return a netlink attribute as bytes, padded to the alignment of the next."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def encode_nested(kind: int, *attributes: bytes) -> bytes:
    """Return a netlink attribute whose value consists of other attributes."""
    return encode_attribute(kind | _NESTED, b"".join(attributes))


def parse_attributes(octets: bytes) -> dict[int, bytes]:
    """Return netlink attributes by their kind. Nested attributes are in the value."""
    return dict(iterate_attributes(octets))


def iterate_attributes(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and value of each netlink attribute. Attributes of a list have the same kind."""
    place = 0
    while place < len(octets):
        size, kind = _ATTRIBUTE.unpack_from(octets, place)
        yield kind & _KIND, octets[place + _ATTRIBUTE.size:place + size]
        place += _padded_size(size)


def _padded_size(size: int) -> int:
    return size + -size % 4


# --- Families of generic netlink, such as mac80211_hwsim ---
# Structures: linux/genetlink.h.

_NETLINK_GENERIC = 16
_GENERIC_HEAD = struct.Struct("=BBxx")
_VERSION = 1
# The control family, which resolves the names of the others.
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
# Multicast groups of a family: their list, and name and number of each.
_GROUPS, _GROUP_NAME, _GROUP_ID = 7, 1, 2
_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
#: Size in bits of the process number in a netlink port ID; higher bits number the sockets.
_PORT_BITS = 22
_NUMBERS = itertools.cycle(range(1, 1 << 32 - _PORT_BITS))


class GenericNetlink:
    """A connection to one generic netlink family (such as nl80211) in a network namespace.

    It belongs to the namespace in which it is opened. A context manager. Raises FileNotFoundError
    if the kernel lacks the family.
    """

    def __init__(self, family: str) -> None:
        self._netlink = NetlinkSocket(_NETLINK_GENERIC, _choose_port())
        try:
            [answer] = self._send_request(_CONTROL, _GET_FAMILY, ACK,
                                          encode_attribute(_FAMILY_NAME, family.encode() + b"\0"))
            (self._family,) = struct.unpack("=H", answer[_FAMILY_ID])
            self._groups = answer.get(_GROUPS, b"")
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
        """Send one generic netlink request and read its acknowledgement.

        Raises:
            OSError: The kernel refuses the request. `errno` is the kernel's error number.
        """
        self._send_request(self._family, command, ACK, attributes)

    def list_entries(self, command: int, attributes: bytes = b"") -> list[dict[int, bytes]]:
        """Return one dictionary for each listed entry, from attribute type to value."""
        return self._send_request(self._family, command, DUMP, attributes)

    def request_answers(self, command: int, attributes: bytes) -> list[dict[int, bytes]]:
        """Send one generic netlink request, and return the kernel's replies.

        Returns:
            One dictionary for each reply, from attribute type to value.

        Raises:
            OSError: The kernel refuses the request. `errno` is the kernel's error number.
        """
        return self._send_request(self._family, command, ACK, attributes)

    def join_group(self, name: str) -> socket.socket:
        """Receive the messages of a multicast group, and return the socket at which they arrive.

        Such a connection is for messages only. A request would discard those that wait.
        """
        groups = [parse_attributes(group) for _, group in iterate_attributes(self._groups)]
        [number] = [group[_GROUP_ID] for group in groups
                    if group[_GROUP_NAME].rstrip(b"\0") == name.encode()]
        self._netlink.event_socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, number)
        return self._netlink.event_socket

    def receive_messages(self) -> list[tuple[int, dict[int, bytes]]]:
        """Wait for messages of the groups, and return command and attributes of each."""
        return [(body[0], parse_attributes(body[_GENERIC_HEAD.size:]))
                for _, body in self._netlink.receive_messages()]

    def _send_request(self, family: int, command: int, flags: int,
                      attributes: bytes) -> list[dict[int, bytes]]:
        answers = self._netlink.send_request(family, flags, _GENERIC_HEAD.pack(command, _VERSION)
                                             + attributes)
        return [parse_attributes(answer[_GENERIC_HEAD.size:]) for answer in answers]


def _choose_port() -> int:
    """Return a netlink port ID that no other socket of this process has, in any namespace.

    A socket that is not bound gets the process's number, once in each family and namespace. When
    one of these sockets closes, mac80211_hwsim (Linux 6.1) removes the radios of all with that port
    ID.
    """
    return os.getpid() % (1 << _PORT_BITS) | next(_NUMBERS) << _PORT_BITS

"""Netlink's transport, in messages as Linux lays them out, and held against one end of a pair."""

from __future__ import annotations

import socket
import struct

import pytest

from topologies import netlink
from topologies.netlink import DUMP, NetlinkSocket, encode_attribute, parse_attributes


@pytest.fixture(name="kernel")
def in_place_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """The other end of whatever connection is made next."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    class Line:
        """What a connection does with its socket, but for the address."""

        def __init__(self, *_: object) -> None:
            self.send, self.recv, self.close = ours.send, ours.recv, ours.close

        def bind(self, _: object) -> None:
            """Anywhere."""

    monkeypatch.setattr(netlink.socket, "socket", Line)
    return theirs


def message(kind: int, body: bytes, sequence: int = 1) -> bytes:
    """With its head."""
    return struct.pack("=IHHII", 16 + len(body), kind, 2, sequence, 0) + body


def test_a_list_comes_in_several_pieces(kernel: socket.socket) -> None:
    """What answers an earlier request is passed over; the list ends where it says so."""
    done = message(3, struct.pack("=i", 0))
    for said in (message(16, b"late", sequence=0) + message(16, b"one."),
                 message(16, b"two.") + message(16, b"3..."), done):
        kernel.send(said)
    with kernel, NetlinkSocket(socket.NETLINK_ROUTE) as line:
        assert line.send_request(18, DUMP, b"body") == [b"one.", b"two.", b"3..."]
        assert kernel.recv(100) == struct.pack("=IHHII", 20, 18, 1 | DUMP, 1, 0) + b"body"


def test_a_refusal_is_an_error_with_its_number(kernel: socket.socket) -> None:
    """And the next request is answered again; some acknowledge with what they made."""
    kernel.send(message(2, struct.pack("=i", -1)))
    kernel.send(message(2, struct.pack("=i", 7), sequence=2))
    with kernel, NetlinkSocket(socket.NETLINK_ROUTE) as line:
        with pytest.raises(PermissionError):
            line.send_request(18, DUMP, b"")
        assert line.send_request(18, DUMP, b"") == []


def test_attributes_are_read_as_they_were_written() -> None:
    """By fours, with those within one as its value; a bit that says so is none of the kind's."""
    inner = encode_attribute(17, b"ab") + encode_attribute(18, b"")
    octets = encode_attribute(0x8000 | 21, inner) + encode_attribute(6, b"abcdef")
    assert parse_attributes(octets) == {21: inner, 6: b"abcdef"}
    assert parse_attributes(inner) == {17: b"ab", 18: b""}

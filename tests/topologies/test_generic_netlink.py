"""Generic netlink is asked of the kernel at hand, by the one family that every kernel has."""

from __future__ import annotations

import os
import socket
import struct

import pytest

from topologies.netlink import GenericNetlink, encode_attribute

_CONTROLLER = "nlctrl"
_GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 3, 1, 2


def test_a_list_has_every_entry_with_its_attributes() -> None:
    """The controller knows itself, among others: lists come in several parts."""
    with GenericNetlink(_CONTROLLER) as netlink:
        families = {entry[_FAMILY_NAME].rstrip(b"\0").decode(): entry[_FAMILY_ID]
                    for entry in netlink.list_entries(_GET_FAMILY)}
    assert struct.unpack("=H", families[_CONTROLLER]) == (0x10,)
    assert len(families) > 1


def test_requests_follow_each_other() -> None:
    """Each has the answer to itself: what came before is read to its end."""
    with GenericNetlink(_CONTROLLER) as netlink:
        for _ in range(3):
            netlink.send_command(_GET_FAMILY, encode_attribute(_FAMILY_NAME, b"nlctrl\0"))
            assert netlink.list_entries(_GET_FAMILY)


def test_no_other_socket_has_its_port() -> None:
    """Radios went with a socket of routing that had the process' number for a port, too."""
    with GenericNetlink(_CONTROLLER) as one, GenericNetlink(_CONTROLLER) as other, \
            socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as unbound:
        unbound.bind((0, 0))
        sockets = (one._netlink._socket, other._netlink._socket, unbound)
        ports = [each.getsockname()[0] for each in sockets]
    assert len(set(ports)) == 3 and os.getpid() not in ports[:2]


def test_what_a_kernel_lacks_is_not_found() -> None:
    """A family, and what is asked of one."""
    with pytest.raises(FileNotFoundError):
        GenericNetlink("no-such-family")
    with GenericNetlink(_CONTROLLER) as netlink, pytest.raises(FileNotFoundError):
        netlink.send_command(_GET_FAMILY, encode_attribute(_FAMILY_NAME, b"no-such\0"))


def test_attributes_are_padded_and_say_their_own_length() -> None:
    """By fours, as the kernel reads them; a flag is its head alone."""
    assert encode_attribute(18, b"") == struct.pack("=HH", 4, 18)
    assert encode_attribute(17, b"ab") == struct.pack("=HH", 6, 17) + b"ab\0\0"

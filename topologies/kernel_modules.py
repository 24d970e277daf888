"""Unload kernel modules of interfaces that a test network has loaded, if nothing uses them.

The kernel loads a module with the first interface of its kind. Some modules then create interfaces
by themselves, such as `dummy0`. `unload_new_modules` is for hosts: afterwards the machine has no
such interface that it did not have before.
"""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from topologies.namespaces import call_in_networks
from topologies.netlink import DUMP, NetlinkSocket, parse_attributes

_MODULES = Path("/sys/module")
# rtnetlink: the request for all links, its header, and attributes of a link (linux/if_link.h).
_GET_LINK, _LINK = 18, struct.Struct("=BxHiII")
_NAME, _INFO, _INFO_KIND, _UP = 3, 18, 1, 1
_MODPROBE_S = 10.0


@dataclass(frozen=True)
class _Link:
    """An interface: its name, its kind such as `dummy`, and whether it is up."""

    name: str
    kind: str
    is_up: bool


#: Modules that test networks need, and the interfaces that each creates by itself.
_OWN_LINKS = {"dummy": ("dummy0",), "ifb": ("ifb0", "ifb1"), "ipip": ("tunl0",)}


@contextmanager
def unload_new_modules() -> Iterator[None]:
    """Unload those modules at the end that were loaded inside the context and are not in use.

    A module is in use if a network namespace has an interface of its kind that is up, or that the
    module did not create by itself.
    """
    before = {name for name in _OWN_LINKS if (_MODULES / name).exists()}
    try:
        yield
    finally:
        for name in _OWN_LINKS.keys() - before:
            if (_MODULES / name / "initstate").exists() and not _is_in_use(name):
                subprocess.run(["modprobe", "-r", "-q", name], check=False, timeout=_MODPROBE_S,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)


def _is_in_use(module: str) -> bool:
    """Return whether a network namespace has a used interface of a module."""
    return any(link.kind == module and (link.is_up or link.name not in _OWN_LINKS[module])
               for links in call_in_networks(_list_links) for link in links)


def _list_links() -> list[_Link]:
    """Return the interfaces of the current network namespace that have a kind."""
    links = []
    with NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        for answer in netlink.send_request(_GET_LINK, DUMP, _LINK.pack(0, 0, 0, 0, 0)):
            *_, flags, _ = _LINK.unpack_from(answer)
            attributes = parse_attributes(answer[_LINK.size:])
            kind = parse_attributes(attributes.get(_INFO, b"")).get(_INFO_KIND)
            if kind:
                links.append(_Link(attributes[_NAME].rstrip(b"\0").decode(errors="replace"),
                                   kind.rstrip(b"\0").decode(), bool(flags & _UP)))
    return links

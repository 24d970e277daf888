"""Find the programs that use an 802.11 card: hostapd, wpa_supplicant, iwd and others.

`describe_use` takes the state of a card and returns the programs that use it, "" without any.
Programs are found by their control sockets, packet sockets and command lines in /proc. Standard
library only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from measure.cards.wireless import ACCESS_POINT, MONITOR, CardState, is_connected

_PROC = Path("/proc")
#: Programs that use an interface which their command line names.
_NAMING = frozenset({"hostapd", "wpa_supplicant", "dhclient", "dhcpcd", "udhcpc", "airodump-ng",
                     "tcpdump", "dumpcap"})
#: Programs that use every card, by D-Bus.
_EVERYWHERE = frozenset({"iwd", "connmand"})
#: Column of the interface and of the inode in /proc/net/packet, and of both in /proc/net/unix.
_PACKET_INTERFACE, _PACKET_INODE, _UNIX_INODE, _UNIX_PATH = 4, 8, 6, 7


def describe_use(state: CardState) -> str:
    """Return the programs that use a card, "" without any.

    Programs of other network namespaces cannot use it.
    """
    users = dict(_find_users(state))
    own = {os.getpid(), *_list_ancestors(os.getpid())}
    # NetworkManager keeps sockets after it has let go. `CardState.has_manager` says if it has not.
    named = [f"{name} (process {pid})" for pid, name in sorted(users.items())
             if pid not in own and name != "NetworkManager"]
    if named:
        return ", ".join(named)
    if state.type == ACCESS_POINT:
        return "an access point, by an unknown program"
    # A monitor has a carrier as soon as it is up.
    has_link = state.type != MONITOR and is_connected(state.name)
    return "a connection, by an unknown program" if has_link else ""


def _find_users(state: CardState) -> Iterator[tuple[int, str]]:
    inodes = {*_packet_inodes(state.index), *_control_inodes(state.name)}
    for pid, name in list_processes():
        words = _read_words(pid)[1:]
        if name in _EVERYWHERE or (name in _NAMING and any(
                word in (state.name, f"-i{state.name}") for word in words)) or (
                inodes and inodes & set(_socket_inodes(pid))) or (
                state.type == ACCESS_POINT and name == "hostapd"):
            yield pid, name


def _packet_inodes(index: int) -> Iterator[str]:
    """Yield the inodes of packet sockets on an interface."""
    for fields in _read_table("packet"):
        if len(fields) > _PACKET_INODE and fields[_PACKET_INTERFACE] == str(index):
            yield fields[_PACKET_INODE]


def _control_inodes(name: str) -> Iterator[str]:
    """Yield the inodes of sockets that are named after an interface, as hostapd's are."""
    for fields in _read_table("unix"):
        if len(fields) > _UNIX_PATH and Path(fields[_UNIX_PATH]).name == name:
            yield fields[_UNIX_INODE]


def _read_table(name: str) -> list[list[str]]:
    try:
        return [line.split() for line in (_PROC / "net" / name).read_text().splitlines()[1:]]
    except OSError:
        return []


def list_processes() -> Iterator[tuple[int, str]]:
    """Yield number and name of each process in this network namespace that can be seen."""
    own = (_PROC / "self/ns/net").stat().st_ino
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if (folder / "ns/net").stat().st_ino == own:
                    yield int(folder.name), (folder / "comm").read_text().strip()


def _read_words(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        text = (_PROC / str(pid) / "cmdline").read_bytes()
        return [os.fsdecode(word) for word in text.split(b"\0")]
    return []


def find_processes(text: str) -> list[int]:
    """Return the processes of this network namespace that have a text in their arguments."""
    return [pid for pid, _ in list_processes()
            if pid != os.getpid() and any(text in word for word in _read_words(pid)[1:])]


def _socket_inodes(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    yield target[len("socket:["):-1]


def _list_ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        try:
            pid = int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
        yield pid

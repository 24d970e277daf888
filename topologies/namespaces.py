"""Create Linux network and mount namespaces, and enter those of a process.

`Namespaces` creates both for a node of an emulated network. `network_of` enters the network
namespace of a process temporarily: objects such as sockets that are created meanwhile belong to it.
`call_in_networks` calls a function in each network namespace. `enter_namespaces` enters
permanently. This replaces Mininet's program mnexec, because starting programs takes 10 ms and more
in a guest (virtual machine).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

ResultT = TypeVar("ResultT")
_CLONE_FS, _CLONE_NEWNS, _CLONE_NEWNET = 0x200, 0x20000, 0x40000000
_MS_REC_PRIVATE = 0x4000 | 1 << 18
#: Kinds of namespaces by their names in /proc/PID/ns.
_KINDS = {"net": _CLONE_NEWNET, "mnt": _CLONE_NEWNS}


class Namespaces:
    """A new network namespace and mount namespace, until they are released or this process ends.

    `mnexec -n` creates the same ones. Here a waiting thread holds them, because starting two
    programs for it takes 15 ms in a guest. `pid` is the thread's ID, which the kernel accepts like
    a process's. Raises OSError.
    """

    def __init__(self) -> None:
        self.pid = 0
        self._failure: OSError | None = None
        self._are_made, self._may_go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold_namespaces, daemon=True)
        self._thread.start()
        self._are_made.wait()
        if self._failure is not None:
            raise self._failure

    def let_go(self) -> None:
        """Release the namespaces by ending the thread. Programs that still run there keep them."""
        self._may_go.set()
        self._thread.join()

    def _hold_namespaces(self) -> None:
        try:
            _call_libc("unshare", _CLONE_NEWNET | _CLONE_NEWNS)
            # Mounts stay private to this namespace, and /sys shows this network.
            _call_libc("mount", b"none", b"/", None, _MS_REC_PRIVATE, None)
            _call_libc("mount", b"sysfs", b"/sys", b"sysfs", 0, None)
            self.pid = threading.get_native_id()
        except OSError as error:
            self._failure = error
            return
        finally:
            self._are_made.set()
        self._may_go.wait()


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Enter the network namespace of a process inside the context. Other threads do not move.

    Raises:
        OSError: The namespace cannot be entered.
    """
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _inside_network(there):
            yield
    finally:
        os.close(there)


@contextmanager
def _inside_network(namespace: int) -> Iterator[None]:
    """Enter a network namespace, given by its descriptor, inside the context."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter_network(namespace)
        try:
            yield
        finally:
            _enter_network(here)
    finally:
        os.close(here)


def call_in_networks(function: Callable[[], ResultT]) -> list[ResultT]:
    """Call a function in each network namespace, and return its results.

    Namespaces are found by processes, by their threads, and by names of `ip netns`. Those that
    cannot be entered are left out, and those in which the function raises OSError.
    """
    results, visited = [], set[int]()
    for file in _list_network_files():
        with suppress(OSError):
            namespace = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if (inode := os.fstat(namespace).st_ino) not in visited:
                    visited.add(inode)
                    with _inside_network(namespace):
                        results.append(function())
            finally:
                os.close(namespace)
    return results


def _list_network_files() -> Iterator[Path]:
    """Yield a file for the network namespace of each thread, and for each with a name."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # the process has ended
            yield from (task / "ns/net" for task in Path("/proc", pid, "task").iterdir())
    yield from Path("/run/netns").glob("*")


def mount_in_memory(pid: int, folder: str) -> None:
    """Mount an empty tmpfs on a folder in a process's mount namespace.

    A temporary thread does that: starting `mnexec` and `mount` takes 10 ms in a guest.

    Raises:
        OSError: The folder cannot be mounted.
    """
    failures: list[OSError] = []

    def mount_tmpfs() -> None:
        try:
            # Only a thread with its own root and working folder may enter another mount namespace.
            _call_libc("unshare", _CLONE_FS)
            enter_namespaces(pid, "mnt")
            _call_libc("mount", b"tmpfs", folder.encode(), b"tmpfs", 0, None)
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=mount_tmpfs)
    thread.start()
    thread.join()
    if failures:
        raise OSError(failures[0].errno, f"cannot mount {folder}: {failures[0].strerror}")


def enter_namespaces(pid: int | str, *kinds: str) -> None:
    """Enter a process's namespaces of these kinds, "net" or "mnt", permanently.

    Raises:
        OSError: A namespace cannot be entered.
    """
    for kind in kinds:
        there = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _call_libc("setns", there, _KINDS[kind])
        finally:
            os.close(there)


def _enter_network(namespace: int) -> None:
    _call_libc("setns", namespace, _CLONE_NEWNET)


def _call_libc(name: str, *arguments: object) -> None:
    """Call a system call through the C library.

    Raises:
        OSError: The call fails.
    """
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")

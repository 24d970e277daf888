"""Holds a process where it forks, by ptrace(2)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from pathlib import Path

import pytest

_LIBC = ctypes.CDLL(None, use_errno=True)
_CONT, _DETACH, _GET_EVENT, _SEIZE = 7, 17, 0x4201, 0x4206
# fork(), vfork() and clone().
_FORKS = (1, 2, 3)
_OPTIONS = sum(1 << event for event in _FORKS)
_ANY_CHILD = 0x40000000
#: As /proc/PID/status says it, of a process whose system calls are filtered.
FILTERED = "2"


def _ptrace(request: int, pid: int, argument: int = 0) -> None:
    words = [ctypes.c_ulong(word) for word in (pid, 0, argument)]
    if _LIBC.ptrace(ctypes.c_long(request), *words) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")


class Traced:
    """A process that is traced, and what it forks. Only the thread that made it can use it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._made: int | None = None
        try:
            _ptrace(_SEIZE, pid, _OPTIONS)
        except PermissionError:
            pytest.skip("this machine lets no process trace another")

    def child(self) -> int:
        """Let it go on until it has made a process, which stands still; returns that process."""
        while True:
            _, status = os.waitpid(self._pid, _ANY_CHILD)
            assert os.WIFSTOPPED(status), f"it ended: {status}"
            event = status >> 16
            if event in _FORKS:
                made = ctypes.c_ulong()
                _ptrace(_GET_EVENT, self._pid, ctypes.addressof(made))
                self._made = made.value
                os.waitpid(self._made, _ANY_CHILD)  # until it stands
                return self._made
            _ptrace(_CONT, self._pid, 0 if event else os.WSTOPSIG(status))

    def end(self) -> None:
        """Wait until somebody has killed it, and what it made is another's child."""
        status = 0
        while not os.WIFSIGNALED(status):
            _, status = os.waitpid(self._pid, _ANY_CHILD)
            assert not os.WIFSTOPPED(status)
        while int(state_of(self._made or 0)["PPid"]) == self._pid:
            time.sleep(0.01)

    def __enter__(self) -> Traced:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of what is still there."""
        for pid in (self._pid, self._made):
            with contextlib.suppress(OSError):
                _ptrace(_DETACH, pid or 0)


def state_of(pid: int) -> dict[str, str]:
    """What /proc/PID/status says, by name; nothing of a process that has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        state = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return {} if state["State"][0] in "ZX" else state
    return {}

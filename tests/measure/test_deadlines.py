"""A socket that waits by the kernel's own count: for so long, and no call more than it takes."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from measure.agent.process import wait_at_most

_LISTENS = """
import socket
from measure.agent.process import wait_at_most
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
{limit}
other.send(b"x")
one.recv(1)
"""


def test_it_waits_for_so_long() -> None:
    """Data comes at once; without any, the end comes at the limit."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, other:
        wait_at_most(one, 0.2)
        other.send(b"here")
        assert one.recv(10) == b"here"
        begin_s = time.monotonic()
        with pytest.raises(BlockingIOError):
            one.recv(10)
        assert time.monotonic() - begin_s >= 0.19


def test_no_limit_is_no_meant_limit() -> None:
    """What has no time left ends at once, where the kernel's 0 would wait for ever."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        wait_at_most(one, 0.0)
        with pytest.raises(BlockingIOError):
            one.recv(10)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize(("limit", "polls"), [
    ("wait_at_most(one, 5)", False), ("one.settimeout(5)", True)])
def test_nobody_polls(limit: str, polls: bool, tmp_path: Path) -> None:
    """A call on such a socket is one of the kernel's; with Python's own timeout it polls first."""
    log = tmp_path / "calls"
    subprocess.run(["strace", "-o", str(log), "-e", "trace=poll,recvfrom", sys.executable, "-c",
                    _LISTENS.format(limit=limit)], check=True)
    calls = [line.partition("(")[0] for line in log.read_text().splitlines() if "(" in line]
    assert calls.count("recvfrom") == 1
    assert ("poll" in calls) is polls

"""A socket waits for so long and no longer, by the kernel's own count.

Python's timeouts ask the clock before each call, and poll. In virtual time that is what moves time
on: a program that looks on would delay those that it looks at, more or less by who runs first.
Runs inside a machine: standard library only.
"""

from __future__ import annotations

import socket
import struct

#: As `struct timeval` of socket(7): seconds and microseconds.
_TIMEVAL = "ll"


def wait_at_most(sock: socket.socket, seconds: float) -> None:
    """Have each call on a socket block, for so long at most; then it raises BlockingIOError.

    At least a microsecond: the kernel takes none for no limit.
    """
    micros = max(1, round(seconds * 1e6))
    limit = struct.pack(_TIMEVAL, *divmod(micros, 1_000_000))
    sock.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, limit)

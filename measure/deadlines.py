"""Set a limit on blocking socket calls that the kernel enforces.

Python's timeouts read the clock before each call, and poll. In virtual time, reading the clock
advances the time. An observer would then delay the observed programs, by an amount that depends on
scheduling. Runs inside a machine: standard library only.
"""

from __future__ import annotations

import socket
import struct

#: `struct timeval` of socket(7): seconds and microseconds.
_TIMEVAL = "ll"


def wait_at_most(sock: socket.socket, seconds: float) -> None:
    """Limit each blocking call on a socket to `seconds`.

    After this time the call raises BlockingIOError. The limit is at least a microsecond, because 0
    means no limit to the kernel.
    """
    micros = max(1, round(seconds * 1e6))
    limit = struct.pack(_TIMEVAL, *divmod(micros, 1_000_000))
    sock.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, limit)

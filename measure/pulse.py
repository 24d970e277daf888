"""Sends and receives small numbered datagrams at a steady pace, on a node, while it moves.

`python3 -m measure.pulse ADDRESS INTERVAL_MS FILE [OWN]`: says `ready`, begins at the word `begin`,
and at the end of its input writes what it sent and what arrived, by the kernel's stamps. A number
is used up whether or not the datagram could be sent. With an address of its own it sends from that
one alone, wherever it is, as a session does that outlives a move.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from pathlib import Path

#: UDP's port at both ends.
PORT = 5210
#: As much as 20 ms of telephone speech.
PAYLOAD_BYTES = 160
_NUMBER = struct.Struct("!I")
_STAMP = struct.Struct("@qq")
#: SO_TIMESTAMPNS of Linux, which Python has no name for.
_TIMESTAMP_NS = 35


class Pulse:
    """One end: sends a datagram each interval, and notes when each of the other end's arrives."""

    def __init__(self, address: str, interval_s: float, own: str = "") -> None:
        self._target = (address, PORT)
        self._interval_s = interval_s
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMP_NS, 1)
        self._socket.bind((own, PORT))
        self._socket.setblocking(False)  # noqa: FBT003 - the library's own signature
        self._sent = 0
        self._arrivals: list[tuple[int, float]] = []

    def run(self) -> None:
        """Send and receive until there is no more input."""
        next_s = time.monotonic()
        while True:
            readable, _, _ = select.select([self._socket, sys.stdin], [], [],
                                           max(0.0, next_s - time.monotonic()))
            if self._socket in readable:
                self._take()
            if sys.stdin in readable:
                return
            if time.monotonic() >= next_s:
                self._send()
                next_s += self._interval_s

    def said(self) -> dict[str, object]:
        """How many were sent, and of each that arrived its number and time."""
        return {"sent": self._sent, "arrivals": self._arrivals}

    def _send(self) -> None:
        payload = _NUMBER.pack(self._sent).ljust(PAYLOAD_BYTES, b"\0")
        self._sent += 1
        try:
            self._socket.sendto(payload, self._target)
        except OSError:
            return  # no link, or no way there: lost, as any other

    def _take(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(PAYLOAD_BYTES, 64)
        except OSError:
            return  # what the network says of a datagram that was sent
        seconds, nanoseconds = _STAMP.unpack_from(ancillary[0][2])
        self._arrivals.append((_NUMBER.unpack_from(data)[0], seconds + nanoseconds / 1e9))


def main(address: str, interval_ms: str, file: str, own: str = "") -> None:
    """Be one end, from the word on to the end of input."""
    pulse = Pulse(address, float(interval_ms) / 1e3, own)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    pulse.run()
    Path(file).write_text(json.dumps(pulse.said()))


if __name__ == "__main__":
    main(*sys.argv[1:])

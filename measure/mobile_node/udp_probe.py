"""Send numbered UDP packets at a steady pace, and record those that arrive.

The program runs on a mobile node and its peer during a handoff, to measure the interruption
(`measure.mobile_node.outages`). The command is `python3 -m measure.mobile_node.udp_probe ADDRESS
INTERVAL_MS FILE [OWN]`. It prints `ready`, and starts at the line `begin` on standard input. When
its input ends, it writes the count of sent packets, and number and kernel timestamp of each
arrival, to FILE. A packet that could not be sent counts as sent, and thus as lost. OWN is the
source address of all packets, like that of a session that survives a handoff.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from pathlib import Path

#: UDP port at both ends.
PORT = 5210
#: Payload in bytes: 20 ms of telephone speech.
PAYLOAD_BYTES = 160
_NUMBER = struct.Struct("!I")
_STAMP = struct.Struct("@qq")
#: Linux's SO_TIMESTAMPNS, which Python does not define.
_TIMESTAMP_NS = 35


class UdpProbe:
    """A sender and receiver of numbered packets, which records each arrival.

    Packets leave from `source_address`, by default from the interface's address.
    """

    def __init__(self, address: str, interval_s: float, source_address: str = "") -> None:
        self._target = (address, PORT)
        self._interval_s = interval_s
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMP_NS, 1)
        self._socket.bind((source_address, PORT))
        self._socket.setblocking(False)  # noqa: FBT003 - signature of the standard library
        self._sent = 0
        self._arrivals: list[tuple[int, float]] = []

    def run(self) -> None:
        """Send and receive packets until the standard input ends."""
        next_s = time.monotonic()
        while True:
            readable, _, _ = select.select([self._socket, sys.stdin], [], [],
                                           max(0.0, next_s - time.monotonic()))
            if self._socket in readable:
                self._receive_datagram()
            if sys.stdin in readable:
                return
            if time.monotonic() >= next_s:
                self._send_datagram()
                next_s += self._interval_s

    def to_dict(self) -> dict[str, object]:
        """Return the number of sent packets, and number and time of each arrival."""
        return {"sent": self._sent, "arrivals": self._arrivals}

    def _send_datagram(self) -> None:
        payload = _NUMBER.pack(self._sent).ljust(PAYLOAD_BYTES, b"\0")
        self._sent += 1
        try:
            self._socket.sendto(payload, self._target)
        except OSError:
            return  # no link or no route: counts as lost

    def _receive_datagram(self) -> None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(PAYLOAD_BYTES, 64)
        except OSError:
            return  # an ICMP error for an earlier datagram
        seconds, nanoseconds = _STAMP.unpack_from(ancillary[0][2])
        self._arrivals.append((_NUMBER.unpack_from(data)[0], seconds + nanoseconds / 1e9))


def main(address: str, interval_ms: str, file: str, source_address: str = "") -> None:
    """Run one end of the probe stream, from the first input line to the end of input."""
    pulse = UdpProbe(address, float(interval_ms) / 1e3, source_address)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    pulse.run()
    Path(file).write_text(json.dumps(pulse.to_dict()))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Act as an attacker on the wire: forward IP packets, and alter or forge chosen ones.

The command is `python3 -m studies.authenticast1998.altering_router RULES.json`. The rules say which
fraction of the packets to lose, alter, repeat or follow by a forged one. The study authenticast1998
tests with it whether receivers of signed streams detect that. The program knows no key. Seed and
sequence number decide which packets it alters, so that runs are repeatable.
"""

from __future__ import annotations

import hashlib
import json
import signal
import socket
import struct
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ETH_P_IP = 0x0800
_IP_BYTES, _UDP_BYTES = 20, 8
_PACKET_OUTGOING = 4
_DATA, _REPORT, _HELLO_ACK = 0x11, 0x13, 0x18
_STREAM_AT, _SEQUENCE_AT, _PAYLOAD_AT = 4, 8, 38
_ALGORITHM_AT = 2
_DSA, _RSA = 1, 2
_REPORT_FORM = struct.Struct("!BI13QH")
_FORGED_EVERY = 25
_FAR_AHEAD = 2 ** 40


class AlteringRouter:
    """An attacker that forwards packets, and alters or forges some of them.

    Its rules are `loss` (fraction of packets), `tampered_one_in`, `replayed_one_in`,
    `downgraded_one_in`, `flooded_one_in` (N for one packet in N), and `forges` (send forged
    reports).
    """

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self._rules = rules
        self._seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IP))
        self._seen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_000_000)
        self._out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._clients: dict[bytes, tuple[bytes, int]] = {}
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Forward packets until the program is ended."""
        while True:
            packet, (_, protocol, kind, _, _) = self._seen.recvfrom(65535)
            if kind != _PACKET_OUTGOING and protocol == _ETH_P_IP and packet[9] == 17:
                self._handle_packet(packet)

    def _handle_packet(self, packet: bytes) -> None:
        """Forward a packet, unless it is to be lost, and add the forged packets of the rules."""
        start = (packet[0] & 15) * 4 + _UDP_BYTES
        payload = packet[start:]
        if payload[:1] == bytes((_HELLO_ACK,)):
            # A forger needs the stream's number only. Messages carry it in clear.
            port = int.from_bytes(packet[start - 6:start - 4], "big")
            self._clients[payload[1:5]] = (packet[16:20], port)
        if payload[:1] != bytes((_DATA,)):
            self._send(packet)
            return
        number = payload[_STREAM_AT + 4:_SEQUENCE_AT + 8]
        if self._draw_share(b"loss", number) < self._rules.get("loss", 0):
            self.counts["lost"] += 1
            return
        self._send(self._alter(packet, start, number))
        if self._is_chosen("replayed", number):
            self._send(packet)
        if self._is_chosen("flooded", number):
            # The number is far ahead, so that no receiver accepts it unverified, and no real packet
            # has it.
            ahead = bytearray(packet)
            ahead[start + _SEQUENCE_AT:start + _SEQUENCE_AT + 8] = (
                _FAR_AHEAD + int.from_bytes(number[-8:], "big")).to_bytes(8, "big")
            self._send(bytes(ahead))
        if self._rules.get("forges") and int.from_bytes(number, "big") % _FORGED_EVERY == 0:
            self._send_forged_report(packet, payload[_STREAM_AT:_STREAM_AT + 4])

    def _alter(self, packet: bytes, start: int, number: bytes) -> bytes:
        changed = bytearray(packet)
        if self._is_chosen("tampered", number):
            changed[start + _PAYLOAD_AT] ^= 0x20
        if self._is_chosen("downgraded", number):
            at = start + _ALGORITHM_AT
            changed[at] = _RSA if changed[at] == _DSA else _DSA
        return bytes(changed)

    def _send_forged_report(self, packet: bytes, stream: bytes) -> None:
        """Send the server a forged report of a client that seems to have processed nothing."""
        client, port = self._clients[stream]
        report = _REPORT_FORM.pack(_REPORT, int.from_bytes(stream, "big"), 2 ** 40, *([0] * 12), 0)
        report += b"no key of this".ljust(16, b".")
        header = packet[:12] + client + packet[12:16]
        ports = struct.pack("!HHHH", port, int.from_bytes(packet[20:22], "big"),
                            _UDP_BYTES + len(report), 0)
        self.counts["forged"] += 1
        self._send(header + ports + report)

    def _is_chosen(self, rule: str, number: bytes) -> bool:
        one_in = self._rules.get(f"{rule}_one_in", 0)
        chosen = bool(one_in) and self._draw_share(rule.encode(), number) < 1 / one_in
        self.counts[rule] += chosen
        return chosen

    def _draw_share(self, rule: bytes, number: bytes) -> float:
        """Return a pseudo-random number from 0 to 1 for a packet, equal in every run of a seed."""
        seed = int(self._rules["seed"]).to_bytes(8, "big")
        digest = hashlib.blake2b(number, digest_size=8, key=seed, person=rule).digest()
        return int.from_bytes(digest, "big") / 2 ** 64

    def _send(self, packet: bytes) -> None:
        """Send a packet by the kernel's routing, without a UDP checksum (optional in IPv4)."""
        whole = bytearray(packet)
        whole[26:28] = b"\0\0"
        self._out.sendto(bytes(whole), (socket.inet_ntoa(bytes(whole[16:20])), 0))


def main() -> None:
    """Forward packets until SIGTERM, then print how many packets were altered."""
    middle = AlteringRouter(json.loads(Path(sys.argv[1]).read_text()))

    def end(*_: object) -> None:
        sys.stdout.write(json.dumps({"event": "ended", **middle.counts}) + "\n")
        sys.stdout.flush()
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    sys.stdout.write(json.dumps({"event": "ready"}) + "\n")
    sys.stdout.flush()
    middle.run()


if __name__ == "__main__":
    main()

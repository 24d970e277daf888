"""Packets of voice calls, on which the number of calls on the air depends."""

from __future__ import annotations

from dataclasses import dataclass

_RTP_BYTES = 12  # RFC 3550, 5.1


@dataclass(frozen=True)
class CallPackets:
    """The datagrams of a call in one direction. The other direction has equally many."""

    payload_bytes: int
    interval_s: float


#: G.711 in packets of 20 ms (RFC 3551, 4.2 and 4.5.14): 160 bytes of voice after the RTP header.
G711 = CallPackets(160 + _RTP_BYTES, 0.020)

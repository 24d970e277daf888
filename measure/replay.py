"""Replay a frame from the air unchanged, as an attacker without any key.

Standard library only: this runs inside the machine.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from measure import injection
from measure.errors import MeasureError
from measure.points import AIR

if TYPE_CHECKING:  # its IKE module needs vici, which only the machine has
    from measure.station import MeasuredStation

#: Payload in bytes: longer than other packets, and one frame even with a tunnel's headers.
PAYLOAD_BYTES = 900
_ASKED_S, _SPARE_S = 5, 5.0
_SETTLE_S = 0.25
_ANY_PROTOCOL = 0x0003
_FRAME_BYTES = 4096
_DATA_TYPE, _TYPE_MASK = 0x08, 0x0C
_TRANSMITTER = slice(10, 16)


def replay_echo_request(station: MeasuredStation, peer: str, within_s: float) -> None:
    """Make a mobile node send an echo request, and replay its frame.

    The frame is sent by the node's own radio with the same address and packet number. The echo
    reply is awaited for `within_s` at most.

    Raises:
        MeasureError: No frame was captured.
    """
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ANY_PROTOCOL)) as air:
        air.bind((AIR, 0))
        limit_s = max(_ASKED_S, math.ceil(within_s))
        station.testbed.run_unchecked(station.name, [
            "ping", "-n", "-q", "-c", "1", "-w", str(limit_s), "-s", str(PAYLOAD_BYTES), peer],
            limit_s + _SPARE_S)
        frame = longest_frame(_read_pending(air), station.mac)
    if not frame:
        raise MeasureError("data", f"{station.name}: no frame of its question to {peer} was heard "
                           "on the air, so none can be sent once more")
    injection.inject(station.testbed, station.name, station.node, frame)
    time.sleep(_SETTLE_S)  # time for a frame that must not come


def longest_frame(heard: Iterable[bytes], transmitter: str) -> bytes:
    """Return a station's longest data frame without its radiotap header, or b""."""
    sender = injection.mac_bytes(transmitter)
    frames = (packet[int.from_bytes(packet[2:4], "little"):] for packet in heard)
    return max((frame for frame in frames if frame[_TRANSMITTER] == sender
                and frame[0] & _TYPE_MASK == _DATA_TYPE), key=len, default=b"")


def _read_pending(air: socket.socket) -> Iterator[bytes]:
    """Yield the packets that have arrived on the socket."""
    air.settimeout(0)
    while True:
        try:
            yield air.recv(_FRAME_BYTES)
        except BlockingIOError:
            return

"""A frame that was heard on the air is sent once more as it is, by somebody without any key.

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

if TYPE_CHECKING:  # its IKE needs vici, which only the machine has
    from measure.station import MeasuredStation

#: Longer than what else is said meanwhile, and with any tunnel's headers still one frame.
PAYLOAD_BYTES = 900
_ASKED_S, _SPARE_S = 5, 5.0
_SETTLE_S = 0.25
_ANY_PROTOCOL = 0x0003
_FRAME_BYTES = 4096
_DATA_TYPE, _TYPE_MASK = 0x08, 0x0C
_TRANSMITTER = slice(10, 16)


def once_more(station: MeasuredStation, peer: str, within_s: float) -> None:
    """Have a mobile node ask its peer for an echo, and send the frame with the question again.

    The node's own radio sends it, as a radio of its address: what is sent is what was heard, under
    the number that it had. The answer is waited for `within_s` at most. Raises MeasureError where
    nothing was heard.
    """
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ANY_PROTOCOL)) as air:
        air.bind((AIR, 0))
        limit_s = max(_ASKED_S, math.ceil(within_s))
        station.testbed.attempt(station.name, [
            "ping", "-n", "-q", "-c", "1", "-w", str(limit_s), "-s", str(PAYLOAD_BYTES), peer],
            limit_s + _SPARE_S)
        frame = longest(_waiting(air), station.mac)
    if not frame:
        raise MeasureError("data", f"{station.name}: no frame of its question to {peer} was heard "
                           "on the air, so none can be sent once more")
    injection.inject(station.testbed, station.name, station.node, frame)
    time.sleep(_SETTLE_S)  # nothing is awaited: the check is that nothing comes


def longest(heard: Iterable[bytes], transmitter: str) -> bytes:
    """The longest data frame of a station's, without what the radio says of it; b"" if none."""
    sender = injection.octets(transmitter)
    frames = (packet[int.from_bytes(packet[2:4], "little"):] for packet in heard)
    return max((frame for frame in frames if frame[_TRANSMITTER] == sender
                and frame[0] & _TYPE_MASK == _DATA_TYPE), key=len, default=b"")


def _waiting(air: socket.socket) -> Iterator[bytes]:
    """What has come meanwhile, and waits unread."""
    air.settimeout(0)
    while True:
        try:
            yield air.recv(_FRAME_BYTES)
        except BlockingIOError:
            return

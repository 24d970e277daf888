"""What captures hold of a channel: whole ADP messages, and headers of first fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import fields
from protocols.adp import packets
from protocols.adp.errors import PacketError
from protocols.adp.packets import HEADER, Frame

#: Wireshark would guess at what an experimental protocol's bytes are, and be wrong at times.
_NO_GUESSES = tuple(word for name in ("carp", "stt", "tapa")
                    for word in ("--disable-protocol", name))
_FIELDS = ("frame.time_epoch", "ip.src", "data.data")


@dataclass(frozen=True)
class SniffedMessage:
    """An ADP message as it was on the wire; `frame` is None for what is none."""

    time_s: float
    source: str
    payload: bytes
    frame: Frame | None


def whole(capture: Path) -> list[SniffedMessage]:
    """The ADP messages of a whole capture, in order; IP's fragments are reassembled by Wireshark.

    Raises MeasureError.
    """
    return [SniffedMessage(time_s, source, payload, _parsed(payload))
            for time_s, source, payload in _read(capture, "TRUE", " && ip.flags.mf == 0")]


def counts(capture: Path, source: str) -> list[int]:
    """How many user messages each ADP message of a source has, by its first fragment's header.

    Those without any are left out. Raises MeasureError.
    """
    numbers = [int.from_bytes(payload[2:4]) for _, sender, payload in _read(capture, "FALSE")
               if sender == source and len(payload) >= HEADER]
    return [number for number in numbers if number]


def _read(capture: Path, defragment: str, which: str = "") -> Sequence[tuple[float, str, bytes]]:
    rows = fields.read(capture, _FIELDS, f"ip.proto == 253 && data.data{which}",
                       options=("-o", f"ip.defragment:{defragment}", *_NO_GUESSES))
    return [(float(time), source, bytes.fromhex(data.split(",")[-1].replace(":", "")))
            for time, source, data in rows]


def _parsed(payload: bytes) -> Frame | None:
    try:
        return packets.parse(payload)
    except PacketError:
        return None

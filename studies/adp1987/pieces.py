"""Search captured frames for pieces of payloads, at every offset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from measure.pcap import CapturedFrame
from studies.adp1987.payload import PIECE_BYTES, Payload


@dataclass(frozen=True)
class ShownPieces:
    """The numbers of searched frames, frames with a payload piece, and truncated frames."""

    frames: int = 0
    showing: int = 0
    cut: int = 0
    bytes: int = 0


@dataclass
class PieceSearch:
    """A search for every piece of 16 bytes that a seed's payloads can contain.

    A table by the first three bytes at an offset excludes nearly all offsets without a piece.
    """

    payload: Payload
    _pieces: frozenset[bytes] = field(init=False, repr=False)
    _likely: npt.NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pieces = self.payload.all_pieces()
        starts = np.frombuffer(b"".join(piece[:3] for piece in self._pieces), np.uint8)
        self._likely = np.zeros(1 << 24, np.bool_)
        self._likely[_to_numbers(starts[0::3], starts[1::3], starts[2::3])] = True

    def has_piece(self, data: bytes) -> bool:
        """Return whether a piece is anywhere in the data."""
        if len(data) < PIECE_BYTES:
            return False
        values = np.frombuffer(data, np.uint8)
        end = len(data) - PIECE_BYTES + 1
        places = np.flatnonzero(self._likely[_to_numbers(
            values[:end], values[1:end + 1], values[2:end + 2])])
        return any(data[at:at + PIECE_BYTES] in self._pieces for at in places)

    def search_frames(self, frames: Iterable[CapturedFrame]) -> ShownPieces:
        """Search every frame after its Ethernet header, and count the results."""
        count = showing = cut = size = 0
        for frame in frames:
            count += 1
            size += len(frame.data)
            cut += len(frame.data) < frame.wire_bytes
            showing += self.has_piece(frame.payload)
        return ShownPieces(count, showing, cut, size)


def _to_numbers(first: npt.NDArray[np.uint8], second: npt.NDArray[np.uint8],
                third: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    high, middle, low = (part.astype(np.int32) for part in (first, second, third))
    number: npt.NDArray[np.int32] = (high << 16) | (middle << 8) | low
    return number

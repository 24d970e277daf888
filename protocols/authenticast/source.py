"""Packet sources: a constant rate, or the frames of a trace cut into packets."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from protocols.authenticast.packets import FIRST_OF_FRAME, FRAME_TYPES, LAST_OF_FRAME

_FRAME = re.compile(r"([IPB]),0*([1-9][0-9]*)(?:,([0-9]+))?", re.ASCII)


@dataclass(frozen=True)
class Item:
    """A packet with its frame number, its flags and the time to the next packet."""

    payload: bytes
    frame: int
    flags: int
    gap_ns: int


@dataclass(frozen=True)
class Constant:
    """A source of packets of one size at a constant rate.

    Each packet counts as a frame.
    """

    packets: int
    packets_per_s: float
    payload_bytes: int
    seed: int = 1

    def items(self) -> Iterator[Item]:
        """Yield all packets."""
        rng = random.Random(self.seed)  # noqa: S311 - a picture, no secret
        gap_ns = round(1e9 / self.packets_per_s)
        for number in range(self.packets):
            yield Item(rng.randbytes(self.payload_bytes), number,
                       FIRST_OF_FRAME | LAST_OF_FRAME, gap_ns)


@dataclass(frozen=True)
class Frames:
    """A source that repeats the frames of a trace `rounds` times.

    A frame has a type, a size in bytes and a duration in ns. Its packets are spread evenly over its
    duration. Duration 0 means the interval of `frames_per_s`.
    """

    frames: tuple[tuple[str, int, int], ...]
    frames_per_s: float
    payload_bytes: int
    rounds: int = 1
    seed: int = 1

    def items(self) -> Iterator[Item]:
        """Yield all packets."""
        rng = random.Random(self.seed)  # noqa: S311 - a picture, no secret
        for number, (kind, size, lasts_ns) in enumerate(self.frames * self.rounds):
            count = -(-size // self.payload_bytes)
            gap_ns = round((lasts_ns or 1e9 / self.frames_per_s) / count)
            for part in range(count):
                flags = (FRAME_TYPES.index(kind) | FIRST_OF_FRAME * (part == 0)
                         | LAST_OF_FRAME * (part == count - 1))
                length = min(self.payload_bytes, size - part * self.payload_bytes)
                yield Item(rng.randbytes(length), number, flags, gap_ns)


def read_frames(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Read a trace with one frame a line: type and bytes.

    A line is `I,9000`, or `I,9000,40000` with the frame's duration in microseconds. Raises
    ValueError and OSError.
    """
    frames = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        matched = _FRAME.fullmatch(line)
        if matched is None:
            raise ValueError(f"{path.name}, line {number}: give I, P or B, a comma, and bytes")
        kind, size, lasts_us = matched.groups()
        frames.append((kind, int(size), 1000 * int(lasts_us or 0)))
    if not frames:
        raise ValueError(f"{path.name}: no frames")
    return tuple(frames)

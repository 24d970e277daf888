"""Reassemble one direction of a TCP connection, as its receiver does.

Segments may be repeated, late, split differently, or missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

_HALF, _ALL = 1 << 31, 1 << 32


def stream_offset(number: int, first: int) -> int:
    """Return a byte's offset in the stream from its sequence number and the first byte's.

    Sequence numbers wrap at 2^32.
    """
    return (number - first + _HALF) % _ALL - _HALF


@dataclass(frozen=True)
class TcpPiece:
    """A contiguous part of a stream: offset, bytes, and when each byte was complete."""

    place: int
    data: bytes
    #: In order: a length of `data`, and the time (s) since which all bytes before it were captured.
    filled: Sequence[tuple[int, float]]

    def reached_s(self, size: int) -> float:
        """Return the time at which the first `size` bytes were complete, in s."""
        return self.filled[bisect_right(self.filled, size - 1, key=lambda part: part[0])][1]


@dataclass
class TcpStream:
    """The bytes of one direction of a connection, by offset.

    Of each byte the first captured copy counts.
    """

    #: Parts without overlaps, by offset: offset, time (s) and bytes.
    _parts: list[tuple[int, float, bytes]] = field(default_factory=list)

    def add_segment(self, place: int, data: bytes, at_s: float) -> bool:
        """Insert a segment and return whether any of its bytes is new."""
        end, is_new = place + len(data), False
        at = bisect_right(self._parts, place, key=lambda part: part[0])
        free = place if at == 0 else max(place, _end_offset(self._parts[at - 1]))
        while free < end:
            until = self._parts[at][0] if at < len(self._parts) else end
            if free < until:
                self._parts.insert(at, (free, at_s, data[free - place:min(until, end) - place]))
                is_new = True
                at += 1
            if at >= len(self._parts):
                break
            free = max(free, _end_offset(self._parts[at]))
            at += 1
        return is_new

    def contiguous_parts(self) -> list[TcpPiece]:
        """Return the contiguous parts of the stream."""
        runs: list[list[tuple[int, float, bytes]]] = []
        for part in self._parts:
            if runs and _end_offset(runs[-1][-1]) == part[0]:
                runs[-1].append(part)
            else:
                runs.append([part])
        return [_join_parts(run) for run in runs]


def _end_offset(part: tuple[int, float, bytes]) -> int:
    return part[0] + len(part[2])


def _join_parts(run: Sequence[tuple[int, float, bytes]]) -> TcpPiece:
    first, filled, latest_s = run[0][0], list[tuple[int, float]](), float("-inf")
    for part in run:
        latest_s = max(latest_s, part[1])
        filled.append((_end_offset(part) - first, latest_s))
    return TcpPiece(first, b"".join(data for _, _, data in run), filled)

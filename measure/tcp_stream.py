"""Put the segments of one direction of a TCP connection together, as its receiver does.

Segments may come twice, late, in other pieces, or not at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

_HALF, _ALL = 1 << 31, 1 << 32


def place_of(number: int, first: int) -> int:
    """Return where a byte stands from its number and the first byte's, which go around at 2^32."""
    return (number - first + _HALF) % _ALL - _HALF


@dataclass(frozen=True)
class TcpPiece:
    """Bytes of a stream without a gap: where they begin, and when each place was reached."""

    place: int
    data: bytes
    #: In order: up to which byte of `data` everything was there, and since when (s).
    filled: Sequence[tuple[int, float]]

    def reached_s(self, size: int) -> float:
        """Return when the first `size` bytes were all there."""
        return self.filled[bisect_right(self.filled, size - 1, key=lambda part: part[0])][1]


@dataclass
class TcpStream:
    """One direction of a connection: each byte as it was captured first, by its place."""

    #: Without overlaps, in order of their places: place, time (s) and bytes.
    _parts: list[tuple[int, float, bytes]] = field(default_factory=list)

    def take(self, place: int, data: bytes, at_s: float) -> bool:
        """Put a segment in its place; return whether any byte of it was not there before."""
        end, is_new = place + len(data), False
        at = bisect_right(self._parts, place, key=lambda part: part[0])
        free = place if at == 0 else max(place, _end(self._parts[at - 1]))
        while free < end:
            until = self._parts[at][0] if at < len(self._parts) else end
            if free < until:
                self._parts.insert(at, (free, at_s, data[free - place:min(until, end) - place]))
                is_new = True
                at += 1
            if at >= len(self._parts):
                break
            free = max(free, _end(self._parts[at]))
            at += 1
        return is_new

    def pieces(self) -> list[TcpPiece]:
        """Return what there is, divided where a capture has nothing."""
        runs: list[list[tuple[int, float, bytes]]] = []
        for part in self._parts:
            if runs and _end(runs[-1][-1]) == part[0]:
                runs[-1].append(part)
            else:
                runs.append([part])
        return [_piece(run) for run in runs]


def _end(part: tuple[int, float, bytes]) -> int:
    return part[0] + len(part[2])


def _piece(run: Sequence[tuple[int, float, bytes]]) -> TcpPiece:
    first, filled, latest_s = run[0][0], list[tuple[int, float]](), float("-inf")
    for part in run:
        latest_s = max(latest_s, part[1])
        filled.append((_end(part) - first, latest_s))
    return TcpPiece(first, b"".join(data for _, _, data in run), filled)

"""A node's modelled processor: what operations would take on it, less what somebody else steals.

Without costs nothing is modelled and everything takes what it takes. Pure: times are handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class MissingCost(ValueError):
    """A device that does not say what an operation takes."""


@dataclass(frozen=True)
class Cost:
    """Seconds for an operation, and for each byte of it."""

    s: float
    s_per_byte: float = 0.0


@dataclass(frozen=True)
class Steal:
    """A share of the processor that somebody else takes, from one time to another."""

    from_s: float
    to_s: float
    share: float


class Processor:
    """First come, first served, on `count` processors."""

    def __init__(self, costs: Mapping[str, Cost], count: int = 1,
                 steal: Sequence[Steal] = (), since_ns: int = 0) -> None:
        self._costs = dict(costs)
        self._free_ns = [since_ns] * count
        self._steal = tuple(steal)
        self._since_ns = since_ns
        self._owed_s = 0.0

    def charge(self, kind: str, size: int) -> None:
        """An operation was done. Raises MissingCost where the device does not know it."""
        if not self._costs:
            return
        cost = self._costs.get(kind)
        if cost is None:
            raise MissingCost(f"costs: {kind} is missing; this stream uses it")
        self._owed_s += cost.s + cost.s_per_byte * size

    def free_ns(self) -> int:
        """When the next processor is free."""
        return min(self._free_ns)

    def settle(self, now_ns: int) -> int:
        """When what was charged since the last time is over."""
        start_ns = max(now_ns, self.free_ns())
        end_ns = self._end_ns(start_ns, self._owed_s)
        self._owed_s = 0.0
        self._free_ns[self._free_ns.index(self.free_ns())] = end_ns
        return end_ns

    def _end_ns(self, start_ns: int, work_s: float) -> int:
        """Work through the load profile, piece by piece."""
        at_s = (start_ns - self._since_ns) / 1e9
        edges = sorted({edge for steal in self._steal for edge in (steal.from_s, steal.to_s)})
        for edge in [edge for edge in edges if edge > at_s]:
            done_s = (edge - at_s) * self._left(at_s)
            if done_s >= work_s:
                break
            work_s, at_s = work_s - done_s, edge
        end_s = at_s + work_s / self._left(at_s)
        return self._since_ns + round(end_s * 1e9)

    def _left(self, at_s: float) -> float:
        """The share that is left at a time."""
        stolen = sum(steal.share for steal in self._steal if steal.from_s <= at_s < steal.to_s)
        return max(0.01, 1 - stolen)

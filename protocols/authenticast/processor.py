"""Model of a node's processor: the duration of operations, less the time of other load.

Without costs nothing is modelled, and operations take their real time. The caller passes all times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class MissingCost(ValueError):
    """An operation for which the device has no cost."""


@dataclass(frozen=True)
class Cost:
    """The cost of an operation: seconds, and seconds for each byte."""

    s: float
    s_per_byte: float = 0.0


@dataclass(frozen=True)
class Steal:
    """A share of the processor that other load takes from `from_s` to `to_s`.

    Times are seconds since the start of the modelled processor.
    """

    from_s: float
    to_s: float
    share: float


class Processor:
    """A first-come, first-served queue on `count` processors."""

    def __init__(self, costs: Mapping[str, Cost], count: int = 1,
                 steal: Sequence[Steal] = (), since_ns: int = 0) -> None:
        self._costs = dict(costs)
        self._free_ns = [since_ns] * count
        self._steal = tuple(steal)
        self._since_ns = since_ns
        self._owed_s = 0.0

    def charge(self, kind: str, size: int) -> None:
        """Add the cost of an operation that was performed.

        Raises MissingCost if the device has no cost for its kind.
        """
        if not self._costs:
            return
        cost = self._costs.get(kind)
        if cost is None:
            raise MissingCost(f"costs: {kind} is missing; this stream uses it")
        self._owed_s += cost.s + cost.s_per_byte * size

    def free_ns(self) -> int:
        """Return the time at which the next processor is free."""
        return min(self._free_ns)

    def settle_charges(self, now_ns: int) -> int:
        """Run the charged operations and return the time at which they end.

        They are those charged since the last call, and run as one job on one processor.
        """
        start_ns = max(now_ns, self.free_ns())
        end_ns = self._end_ns(start_ns, self._owed_s)
        self._owed_s = 0.0
        self._free_ns[self._free_ns.index(self.free_ns())] = end_ns
        return end_ns

    def _end_ns(self, start_ns: int, work_s: float) -> int:
        """Return the end of work that starts at a time, under the other load."""
        at_s = (start_ns - self._since_ns) / 1e9
        edges = sorted({edge for steal in self._steal for edge in (steal.from_s, steal.to_s)})
        for edge in [edge for edge in edges if edge > at_s]:
            done_s = (edge - at_s) * self._available_share(at_s)
            if done_s >= work_s:
                break
            work_s, at_s = work_s - done_s, edge
        end_s = at_s + work_s / self._available_share(at_s)
        return self._since_ns + round(end_s * 1e9)

    def _available_share(self, at_s: float) -> float:
        """Return the share of the processor that other load leaves, at least 1 %."""
        stolen = sum(steal.share for steal in self._steal if steal.from_s <= at_s < steal.to_s)
        return max(0.01, 1 - stolen)

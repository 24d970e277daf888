"""Imitate a slow processor, such as that of a workstation of 1998.

The results of Authenticast's paper depend on how long signatures took on the computers of that
time. So a device file states the time of each operation (`OperationCost`). A program gives its
operations to `Processor`, which returns when that computer would have done them, and waits until
then. Other programs may take a part of the processor (`OtherLoad`). Without such times, operations
take the time that they really take. The caller passes all times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class MissingCost(ValueError):
    """An operation for which the processor model has no duration."""


@dataclass(frozen=True)
class OperationCost:
    """The time that an operation takes: seconds, and seconds for each byte."""

    s: float
    s_per_byte: float = 0.0


@dataclass(frozen=True)
class OtherLoad:
    """A fraction of the processor that other programs take from `from_s` to `to_s`.

    Times are seconds since the start of the modelled processor.
    """

    from_s: float
    to_s: float
    share: float


class Processor:
    """A modelled processor with `count` cores, which does jobs in the order of arrival."""

    def __init__(self, costs: Mapping[str, OperationCost], count: int = 1,
                 steal: Sequence[OtherLoad] = (), since_ns: int = 0) -> None:
        self._costs = dict(costs)
        self._free_ns = [since_ns] * count
        self._steal = tuple(steal)
        self._since_ns = since_ns
        self._owed_s = 0.0

    def charge(self, kind: str, size: int) -> None:
        """Add the time of an operation that was performed to the next job.

        Raises:
            MissingCost: the model has no duration for this kind of operation.
        """
        if not self._costs:
            return
        cost = self._costs.get(kind)
        if cost is None:
            raise MissingCost(f"costs: {kind} is missing; this stream uses it")
        self._owed_s += cost.s + cost.s_per_byte * size

    def free_ns(self) -> int:
        """Return the time (ns) at which a core is free."""
        return min(self._free_ns)

    def settle_charges(self, now_ns: int) -> int:
        """Run the operations since the last call as one job on one core.

        Returns:
            The time (ns) at which the job ends.
        """
        start_ns = max(now_ns, self.free_ns())
        end_ns = self._end_ns(start_ns, self._owed_s)
        self._owed_s = 0.0
        self._free_ns[self._free_ns.index(self.free_ns())] = end_ns
        return end_ns

    def _end_ns(self, start_ns: int, work_s: float) -> int:
        """Return the time (ns) at which a job ends, if other programs slow it down."""
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
        """Return the fraction of the processor that other programs leave, at least 1 %."""
        stolen = sum(steal.share for steal in self._steal if steal.from_s <= at_s < steal.to_s)
        return max(0.01, 1 - stolen)

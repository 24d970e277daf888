"""Counter of a node's operations, and of the processor time that they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from protocols.fields import ConfigError


@dataclass(frozen=True)
class Cost:
    """Cost of an operation: seconds per call and per byte."""

    s: float
    s_per_byte: float = 0.0


@dataclass
class Meter:
    """Operations and processor time of one piece of work.

    Without costs, operations are counted and no time is charged.
    """

    costs: Mapping[str, Cost]
    operations: Counter[str] = field(default_factory=Counter)
    owed_s: float = 0.0

    def charge(self, operation: str, size: int = 0) -> None:
        """Charge an operation on `size` bytes.

        Raises ConfigError for an operation without a cost.
        """
        self.operations[operation] += 1
        if not self.costs:
            return
        cost = self.costs.get(operation)
        if cost is None:
            raise ConfigError(f"costs: {operation} is missing; this protocol does it")
        self.owed_s += cost.s + cost.s_per_byte * size

    def take_owed(self) -> float:
        """Return the seconds charged since the last call."""
        owed_s, self.owed_s = self.owed_s, 0.0
        return owed_s

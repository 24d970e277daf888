"""Every operation of a node's programs is counted here, and owed to its processor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from protocols.fields import ConfigError


@dataclass(frozen=True)
class Cost:
    """Seconds of an operation, and of each of its bytes."""

    s: float
    s_per_byte: float = 0.0


@dataclass
class Meter:
    """What one piece of work comes to: operations by name, and the seconds that they take.

    Without costs nothing is owed, and operations are counted all the same.
    """

    costs: Mapping[str, Cost]
    operations: Counter[str] = field(default_factory=Counter)
    owed_s: float = 0.0

    def charge(self, operation: str, size: int = 0) -> None:
        """An operation was done on so many bytes. Raises ConfigError for one without a cost."""
        self.operations[operation] += 1
        if not self.costs:
            return
        cost = self.costs.get(operation)
        if cost is None:
            raise ConfigError(f"costs: {operation} is missing; this protocol does it")
        self.owed_s += cost.s + cost.s_per_byte * size

    def take(self) -> float:
        """What is owed since the last time (s)."""
        owed_s, self.owed_s = self.owed_s, 0.0
        return owed_s

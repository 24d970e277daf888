"""When a testbed is given up for a fresh one: after a failed repetition, a bounded number of times.

Daemons serve all repetitions of their testbed. One that has died would fail every later repetition,
too, and nobody outside can tell that from a policy that does not work; a fresh testbed does.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.engine.plan import TestbedKey
from harness.engine.testbed import TestbedClient

#: How many fresh testbeds there are in a row without a good repetition on any of them.
RESTARTS = 3


@dataclass
class Restarts:
    """Which testbeds are in doubt. A run whose repetitions are to fail has none (`is_allowed`)."""

    is_allowed: bool
    _doubted: set[TestbedClient] = field(default_factory=set)
    _given: Counter[TestbedKey] = field(default_factory=Counter)

    def judged(self, key: TestbedKey, testbed: TestbedClient, *, is_good: bool) -> None:
        """A repetition on a testbed has been judged."""
        if is_good:
            self._given.pop(key, None)
        else:
            self._doubted.add(testbed)

    def is_due(self, key: TestbedKey, testbed: TestbedClient | None) -> bool:
        """Whether the next repetition there is to find a fresh testbed; counted if so."""
        if not self.is_allowed or testbed not in self._doubted or self._given[key] >= RESTARTS:
            return False
        self._given[key] += 1
        return True


def has_failed(out: Path) -> bool:
    """Whether a repetition broke off, by what its machine left behind."""
    try:
        return json.loads((out / "raw.json").read_text())["failure"] is not None
    except (OSError, ValueError, LookupError, TypeError):
        return True

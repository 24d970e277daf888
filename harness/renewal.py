"""When a testbed is given up for a fresh one: after a failed repetition, a bounded number of times.

Daemons serve all repetitions of their testbed. One that has died would fail every later repetition,
too, and nobody outside can tell that from a policy that does not work; a fresh testbed does.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.scheduler import Place
from harness.testbed import Testbed

#: How many fresh testbeds a place gets in a row without a good repetition on any of them.
RENEWALS = 3


@dataclass
class Renewal:
    """Which testbeds are in doubt; `wanted` is whether they are to be replaced at all."""

    wanted: bool
    _doubted: set[Testbed] = field(default_factory=set)
    _given: Counter[Place] = field(default_factory=Counter)

    def judged(self, place: Place, testbed: Testbed, *, is_good: bool) -> None:
        """A repetition on a testbed has been judged."""
        if is_good:
            self._given.pop(place, None)
        else:
            self._doubted.add(testbed)

    def is_due(self, place: Place, testbed: Testbed | None) -> bool:
        """Whether the place's next repetition is to find a fresh testbed; counted if so."""
        if not self.wanted or testbed not in self._doubted or self._given[place] >= RENEWALS:
            return False
        self._given[place] += 1
        return True


def has_failed(out: Path) -> bool:
    """Whether a repetition broke off, by what its machine left behind."""
    try:
        return json.loads((out / "raw.json").read_text())["failure"] is not None
    except (OSError, ValueError, LookupError, TypeError):
        return True

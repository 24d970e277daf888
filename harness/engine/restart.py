"""Replace a testbed by a fresh one after a failed repetition.

The number of replacements is limited. Daemons serve all repetitions of their testbed. A daemon that
has died would fail every later repetition. From outside that looks the same as a policy that does
not work. A fresh testbed shows the difference.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.engine.plan import TestbedKey
from harness.engine.testbed import TestbedClient

#: Limit of fresh testbeds in a row without a good repetition.
RESTARTS = 3


@dataclass
class Restarts:
    """A tracker of testbeds to replace after a failed repetition.

    Without `is_allowed` no testbed is replaced. This is for negative controls, whose repetitions
    always fail.
    """

    is_allowed: bool
    _doubted: set[TestbedClient] = field(default_factory=set)
    _given: Counter[TestbedKey] = field(default_factory=Counter)

    def note_result(self, key: TestbedKey, testbed: TestbedClient, *, is_good: bool) -> None:
        """Note the result of a repetition on a testbed."""
        if is_good:
            self._given.pop(key, None)
        else:
            self._doubted.add(testbed)

    def is_due(self, key: TestbedKey, testbed: TestbedClient | None) -> bool:
        """Return whether the next repetition needs a fresh testbed, and count it if so."""
        if not self.is_allowed or testbed not in self._doubted or self._given[key] >= RESTARTS:
            return False
        self._given[key] += 1
        return True


def has_failed(out: Path) -> bool:
    """Return whether a repetition was aborted, according to its raw values."""
    try:
        return json.loads((out / "raw.json").read_text())["failure"] is not None
    except (OSError, ValueError, LookupError, TypeError):
        return True

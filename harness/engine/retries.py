"""Define when a failed measurement is tried again, how often, and where.

A repetition is one measurement of a policy in a scenario. A testbed is the emulated network on
which it runs. Other modules apply these rules:

| what is retried | rule | applied by |
|---|---|---|
| a repetition whose guest was lost, on a fresh guest | `ATTEMPTS` | `Campaign._run_step` |
| a repetition whose worker was lost, on another worker | `WORKER_ATTEMPTS` | `Backlog.hand_back` |
| a flagged repetition, exclusively | `needs_exclusive_retry` | `Campaign._retry_exclusively` |
| a testbed, after a failed repetition | `RetryTracker` | `TestbedPool.get_or_start` |
| a failed repetition of an open claim, by another number | `SPARE_SHARE` | `DecisionRule` |
| the judging of captures, in a process of its own | once | `DissectorPool._retry_task` |

A guest is the virtual machine of a testbed. A flagged repetition was disturbed, for example by
other load on the host. A run that continues measures every repetition without a good record
(`ResultsFolder.missing_steps`).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.engine.plan import TestbedKey
    from harness.engine.testbed import TestbedClient

#: Attempts to measure a repetition in all, if its guest is lost.
ATTEMPTS = 2
#: Attempts to measure a repetition in all, if its worker is lost or its share breaks.
WORKER_ATTEMPTS = 3
#: Limit of fresh testbeds in a row without a good repetition.
TESTBED_RETRIES = 3
#: Further repetitions for a cell whose repetitions fail, as a share of those at the last look.
SPARE_SHARE = 0.2


def needs_exclusive_retry(environment: Mapping[str, Any]) -> bool:
    """Return whether a repetition has to be measured once more, with nothing else running.

    That is the case if its record is flagged as disturbed and it did not run alone.
    QOP_FLAGGED=keep disables the second measurement.

    Args:
        environment: The circumstances in the repetition's record.
    """
    return (bool(environment.get("flags")) and not environment.get("alone")
            and os.environ.get("QOP_FLAGGED") != "keep")


@dataclass
class RetryTracker:
    """A tracker of testbeds (emulated networks) to replace after a failed repetition.

    Daemons serve all repetitions of their testbed. A daemon that has died would fail every later
    repetition. From outside that looks the same as a policy that does not work. A fresh testbed
    shows the difference. Without `is_allowed` no testbed is replaced. This is for negative controls
    (deliberate faults), whose repetitions always fail.
    """

    is_allowed: bool
    _doubted: set[TestbedClient] = field(default_factory=set)
    _given: Counter[TestbedKey] = field(default_factory=Counter)

    def note_result(self, key: TestbedKey, testbed: TestbedClient, *, is_good: bool) -> None:
        """Note whether a repetition on a testbed succeeded."""
        if is_good:
            self._given.pop(key, None)
        else:
            self._doubted.add(testbed)

    def take_retry(self, key: TestbedKey, testbed: TestbedClient | None) -> bool:
        """Return whether the next repetition needs a new emulated network, and count it if so."""
        if not self.is_allowed or testbed not in self._doubted \
                or self._given[key] >= TESTBED_RETRIES:
            return False
        self._given[key] += 1
        return True


def has_failed(out: Path) -> bool:
    """Return whether the workload aborted a repetition, according to its raw values."""
    try:
        return json.loads((out / "raw.json").read_text())["failure"] is not None
    except (OSError, ValueError, LookupError, TypeError):
        return True

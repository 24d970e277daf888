"""Names the columns that a record's envelope fills: no factor and no value is so called."""

from __future__ import annotations

#: What a factor's name is followed by in the column of its levels' digests.
DIGEST = "_sha256"
#: Circumstances, from a record's environment.
CIRCUMSTANCES = ("medium", "air", "clock", "machine", "builder", "fault")
COLUMNS = frozenset((
    "repetition", "status", "reason", "attempt", "checks_ok", "checks", "verified", "unchecked",
    "elapsed_s", "started_s", "processor_busy_s", "processor_idle_s", "flagged", "flags", "alone",
    *CIRCUMSTANCES))

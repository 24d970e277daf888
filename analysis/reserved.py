"""Names of the columns from a record's envelope, which no factor or value may use."""

from __future__ import annotations

#: Ending of the name of the column with the digests of a factor's levels.
DIGEST = "_sha256"
#: Circumstances from a record's environment.
CIRCUMSTANCES = ("medium", "air", "clock", "machine", "builder", "fault")
COLUMNS = frozenset((
    "repetition", "status", "reason", "attempt", "checks_ok", "checks", "verified", "unchecked",
    "elapsed_s", "started_s", "processor_busy_s", "processor_idle_s", "flagged", "flags", "alone",
    *CIRCUMSTANCES))

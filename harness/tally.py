"""What a run has come to so far, counted in one way here and on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from measure.record import Record


@dataclass(kw_only=True)
class Tally:
    """Repetitions recorded and to be recorded; which failed, and which the processor bounded."""

    done: int = 0
    total: int = 0
    failed: dict[str, Record] = field(default_factory=dict)
    flagged: set[str] = field(default_factory=set)

    def count(self, found: Record, *, is_kept: bool = True) -> None:
        """A repetition was recorded; `is_kept` unless an earlier, flagged record stays instead."""
        self.failed.pop(found.name, None)
        if found.status != "ok":
            self.failed[found.name] = found
        if is_kept:
            self.flagged.discard(found.name)
        if found.environment.get("flags"):
            self.flagged.add(found.name)
        self.done += 1

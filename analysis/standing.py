"""Where a cell stands: how much of it is good, whether that is verified, and what failed why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

#: The status of a repetition that passes under a negative control.
NOT_COUNTED = "not counted"


class Missing(Enum):
    """Why there is no number; the value is the word that a table shows in its place."""

    NOT_RUN = "not run"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_COUNTED = "control"
    TOO_FEW = "too few"
    ABSENT = "-"
    REFERENCE = "baseline"
    NO_BASELINE = "no base"


@dataclass(frozen=True)
class Standing:
    """How much of a cell is good, whether it is verified, and why repetitions do not count.

    `missing` says why the cell has no numbers, None where it has. `enough` good values make a
    number: two, or one where only one was asked for.
    """

    good: int
    total: int
    verified: bool
    verified_reason: str
    missing: Missing | None
    failures: tuple[str, ...]
    enough: int
    #: Settings that no check of a good repetition covers, in words.
    unchecked: str = ""

    @property
    def word(self) -> str:
        """`ok`, or why there are no numbers."""
        return "ok" if self.missing is None else self.missing.value


@dataclass(frozen=True)
class CountedRepetition:
    """What counts of a repetition for where its cell stands."""

    status: str
    reason: str
    number: int
    verified: bool
    checks: int
    unchecked: str = ""


def not_run(planned: int) -> Standing:
    """A cell without any repetition."""
    return Standing(0, planned, verified=False, verified_reason="not run",
                    missing=Missing.NOT_RUN, failures=(), enough=1)


def standing_of(repetitions: Sequence[CountedRepetition], planned: int) -> Standing:
    """Where a cell of these repetitions stands, of which so many were planned."""
    good = [each for each in repetitions if each.status == "ok"]
    bad = [each for each in repetitions if each.status != "ok"]
    total = max(len(repetitions), planned)
    enough = min(2, total)
    missing = None
    if len(good) < enough:
        of_one_kind = {"skipped": Missing.SKIPPED, NOT_COUNTED: Missing.NOT_COUNTED}
        statuses = {each.status for each in repetitions}
        missing = Missing.TOO_FEW if good else Missing.FAILED if len(statuses) > 1 else \
            of_one_kind.get(statuses.pop(), Missing.FAILED)
    verified, why = _verified(good, bad, missing, repetitions[-1].reason)
    return Standing(len(good), total, verified, why, missing,
                    tuple(_failures(bad, len(repetitions))), enough,
                    ", ".join(dict.fromkeys(each.unchecked for each in good if each.unchecked)))


def _verified(good: Sequence[CountedRepetition], bad: Sequence[CountedRepetition],
              missing: Missing | None, last_reason: str) -> tuple[bool, str]:
    """Whether every good repetition proved its cell; and with which evidence, or why not."""
    if not good:
        return False, last_reason or "no good repetition"
    lacking = sum(not each.verified for each in good)
    if lacking:
        return False, f"{lacking} good repetitions without full evidence"
    if missing:
        return False, f"only {len(good)} good: {bad[-1].reason}" if bad \
            else f"only {len(good)} measured so far"
    return True, f"{sum(each.checks for each in good)} checks"


def _failures(bad: Sequence[CountedRepetition], total: int) -> Iterator[str]:
    """A line for each reason for which repetitions do not count, the most frequent first."""
    for (status, reason), count in Counter((each.status, each.reason)
                                           for each in bad).most_common():
        which = sorted(each.number for each in bad
                       if (each.status, each.reason) == (status, reason))
        shown = ", ".join(map(str, which[:5])) + (", ..." if count > 5 else "")
        yield f"{status} {count} of {total} (repetition {shown}): {reason or 'no reason given'}"

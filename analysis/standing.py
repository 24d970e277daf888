"""State of a cell: its good repetitions, and reasons why others failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

#: The status of a repetition that passes under a negative control.
NOT_COUNTED = "not counted"


class Missing(Enum):
    """Reason why a cell has no number.

    The value is the word that tables show.
    """

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
    """State of a cell, with reasons why repetitions do not count.

    `missing` is the reason why the cell has no numbers, None if it has numbers. A mean needs
    `enough` good values: two, or one if only one repetition was planned and measured.
    """

    good: int
    total: int
    verified: bool
    verified_reason: str
    missing: Missing | None
    failures: tuple[str, ...]
    enough: int
    #: Description of the settings that no check of a good repetition covers.
    unchecked: str = ""

    @property
    def word(self) -> str:
        """Return `ok`, or the reason why there are no numbers."""
        return "ok" if self.missing is None else self.missing.value


@dataclass(frozen=True)
class CountedRepetition:
    """The values of a repetition that decide on the state of its cell."""

    status: str
    reason: str
    number: int
    verified: bool
    checks: int
    unchecked: str = ""


def not_run_standing(planned: int) -> Standing:
    """Return the state of a cell without any repetition."""
    return Standing(0, planned, verified=False, verified_reason="not run",
                    missing=Missing.NOT_RUN, failures=(), enough=1)


def standing_of(repetitions: Sequence[CountedRepetition], planned: int) -> Standing:
    """Return the state of a cell from its repetitions and their planned number."""
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
    verified, why = _check_verified(good, bad, missing, repetitions[-1].reason)
    return Standing(len(good), total, verified, why, missing,
                    tuple(_describe_failures(bad, len(repetitions))), enough,
                    ", ".join(dict.fromkeys(each.unchecked for each in good if each.unchecked)))


def _check_verified(good: Sequence[CountedRepetition], bad: Sequence[CountedRepetition],
                    missing: Missing | None, last_reason: str) -> tuple[bool, str]:
    """Return whether all good repetitions are verified, with the evidence or the reason."""
    if not good:
        return False, last_reason or "no good repetition"
    lacking = sum(not each.verified for each in good)
    if lacking:
        return False, f"{lacking} good repetitions without full evidence"
    if missing:
        return False, f"only {len(good)} good: {bad[-1].reason}" if bad \
            else f"only {len(good)} measured so far"
    return True, f"{sum(each.checks for each in good)} checks"


def _describe_failures(bad: Sequence[CountedRepetition], total: int) -> Iterator[str]:
    """Yield a line for each reason of failed repetitions, the most frequent first."""
    for (status, reason), count in Counter((each.status, each.reason)
                                           for each in bad).most_common():
        which = sorted(each.number for each in bad
                       if (each.status, each.reason) == (status, reason))
        shown = ", ".join(map(str, which[:5])) + (", ..." if count > 5 else "")
        yield f"{status} {count} of {total} (repetition {shown}): {reason or 'no reason given'}"

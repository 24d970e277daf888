"""Decide whether tables show the results of a cell, and state the reason if they do not.

A cell is a measured combination, such as one policy in one scenario, which is measured several
times (repetitions). `find_cell_status` takes the status and the checks of a cell's repetitions, and
their planned number. The result, a `CellStatus`, says whether enough repetitions succeeded, whether
all their checks passed, and why others failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

#: The status of a repetition that passes under a negative control, and of a skipped one.
NOT_COUNTED = "not counted"
_SKIPPED = "skipped"
#: A number in a reason, with its decimals.
_NUMBER = re.compile(r"\d[\d.,:]*")


class MissingReason(Enum):
    """The reason why a cell has no number.

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
class CellStatus:
    """The state of a cell: whether its results are shown, and why not.

    - `good`, `total`: number of good repetitions (status `ok`), and of planned repetitions
    - `verified`, `verified_reason`: whether all checks passed, and the evidence or the reason
    - `missing`: reason why no results are shown, None if they are shown
    - `failures`, `skips`: reasons of failed repetitions, and of skipped ones
    - `enough`: number of good values that a mean needs: two, or one if only one repetition was
      planned and measured
    """

    good: int
    total: int
    verified: bool
    verified_reason: str
    missing: MissingReason | None
    failures: tuple[str, ...]
    enough: int
    #: Description of the settings that no check of a good repetition covers.
    unchecked: str = ""
    skips: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """Return `ok`, or the reason why the cell has no numbers."""
        return "ok" if self.missing is None else self.missing.value


@dataclass(frozen=True)
class CountedRepetition:
    """The facts about one repetition that decide whether its cell's results are shown.

    - `status`, `reason`: result of the repetition, and why it failed
    - `number`: its number in the cell
    - `verified`, `checks`: whether all checks passed, and how many checks there were
    - `unchecked`: description of the settings that no check of this repetition covers
    """

    status: str
    reason: str
    number: int
    verified: bool
    checks: int
    unchecked: str = ""


def not_run_status(planned: int) -> CellStatus:
    """Return the state of a cell that was not measured at all."""
    return CellStatus(0, planned, verified=False, verified_reason="not run",
                      missing=MissingReason.NOT_RUN, failures=(), enough=1)


def find_cell_status(repetitions: Sequence[CountedRepetition], planned: int) -> CellStatus:
    """Return the state of a cell from its repetitions and their planned number."""
    good = [each for each in repetitions if each.status == "ok"]
    bad = [each for each in repetitions if each.status != "ok"]
    total = max(len(repetitions), planned)
    enough = min(2, total)
    missing = None
    if len(good) < enough:
        of_one_kind = {_SKIPPED: MissingReason.SKIPPED, NOT_COUNTED: MissingReason.NOT_COUNTED}
        statuses = {each.status for each in repetitions}
        missing = MissingReason.TOO_FEW if good else MissingReason.FAILED if len(
            statuses) > 1 else \
            of_one_kind.get(statuses.pop(), MissingReason.FAILED)
    verified, why = _check_verified(good, bad, missing, repetitions[-1].reason)
    failures, skips = (
        tuple(_describe_failures([each for each in bad if (each.status == _SKIPPED) == is_skipped],
                                 len(repetitions))) for is_skipped in (False, True))
    return CellStatus(
        len(good), total, verified, why, missing, failures, enough, skips=skips,
        unchecked=", ".join(dict.fromkeys(each.unchecked for each in good if each.unchecked)))


def _check_verified(good: Sequence[CountedRepetition], bad: Sequence[CountedRepetition],
                    missing: MissingReason | None, last_reason: str) -> tuple[bool, str]:
    """Check whether all good repetitions of a cell passed their checks.

    Returns:
        Whether they did, and the number of checks or the reason why not.
    """
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
    """Yield a line for each reason why repetitions failed, the most frequent first.

    Reasons that differ only in numbers are one reason. The line has the text of the first.
    """
    alike: dict[tuple[str, str], list[CountedRepetition]] = {}
    for each in sorted(bad, key=lambda each: each.number):
        alike.setdefault((each.status, _NUMBER.sub("0", each.reason)), []).append(each)
    for group in sorted(alike.values(), key=len, reverse=True):
        numbers = ", ".join(str(each.number) for each in group[:5])
        shown = numbers + (", ..." if len(group) > 5 else "")
        yield (f"{group[0].status} {len(group)} of {total}"
               f"{f' (repetition {shown})' if len(group) < total else ''}: "
               f"{group[0].reason or 'no reason given'}")

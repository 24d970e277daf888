"""Clocks of results: their caveats, and the separation of records of different clocks.

No table mixes two clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.table import Table

if TYPE_CHECKING:
    from analysis.records import Frame

REAL, VIRTUAL, PROCESSOR = "real", "virtual", "processor"
#: Sentence that is shown with all numbers of the virtual clock.
CAVEAT = ("Virtual time: computing takes none of it (cryptography, scheduling) but what programs "
          "charge to a device; times and overheads are of air, wires and protocols.")
_CAVEATS = {
    VIRTUAL: CAVEAT,
    PROCESSOR: ("Processor clock: times are airtime and each node's own processor time; idle "
                "waiting is skipped. Cache effects of the host remain.")}
_MAX_NAMES = 10


def clock_caveat(clock: str) -> str:
    """Return the limitations of numbers measured with a clock, or "" without any.

    For two clocks ("real, virtual") the text has the limitations of both.
    """
    return " ".join(_CAVEATS[name] for name in clock.split(", ") if name in _CAVEATS)


def select_clock(frame: Frame, planned: str, naming: Callable[[Frame], Sequence[str]], *,
                 column: str = "clock") -> tuple[Frame, str]:
    """Return the repetitions of one clock, and a line that names the left-out records.

    The clock is that of the plan if any record has it, and else that of most records. If two clocks
    have equally many records, the real clock is chosen.

    Args:
        frame: The repetitions, a row each.
        planned: The plan's clock, or its value of `column`.
        naming: Returns the names of the records of some rows.
        column: The column that separates the records. In other columns than `clock`, an empty value
            fits every choice.

    Returns:
        The chosen rows, and the line; "" where no record is left out.
    """
    counts = frame[column].value_counts().to_dict()
    silent = column != "clock" and counts.pop("", 0)
    if len(counts) < 2:
        return frame, ""
    chosen = planned if planned in counts else max(
        counts, key=lambda value: (counts[value], value == REAL, value))
    mine = frame[column].isin([chosen, ""] if silent else [chosen])
    others = frame[~mine]
    values = ", ".join(sorted({value or "not recorded" for value in others[column]}))
    return frame[mine], (
        f"{len(others)} {'record is' if len(others) == 1 else 'records are'} of another {column} "
        f"({values}) and left out, because no table mixes {column}s; those of the "
        f"{chosen or 'unrecorded'} {column} are shown, and './qop compare' shows both from folders "
        f"of their own. Left out: {list_names(naming(others))}.")


def list_names(names: Sequence[str]) -> str:
    """Return the names of records as one text, with at most ten names."""
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def stamp_table(table: Table, clock: str, notes: Sequence[str] = ()) -> Table:
    """Return a table of measured numbers with its clock, the clock's caveat and more notes.

    The caveat is added to the caption.
    """
    caption = " ".join(part for part in (table.caption, clock_caveat(clock)) if part)
    return replace(table, clock=clock, caption=caption, notes=(*table.notes, *notes))

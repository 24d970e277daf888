"""A clock says where numbers come from: no table mixes two or hides what virtual time lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analysis.table import Table

if TYPE_CHECKING:
    from analysis.records import Frame

REAL, VIRTUAL, PROCESSOR = "real", "virtual", "processor"
#: The one sentence that goes wherever numbers of the virtual clock are shown.
CAVEAT = ("Virtual time: computing takes none of it (cryptography, scheduling) but what programs "
          "charge to a device; times and overheads are of air, wires and protocols.")
_CAVEATS = {
    VIRTUAL: CAVEAT,
    PROCESSOR: ("Processor clock: time passes by work done, and what waits is skipped; each node "
                "computes on a processor of its own. The host's caches still show.")}
_MAX_NAMES = 10


def caveat(clock: str) -> str:
    """What a reader of numbers of this clock must know; "" where there is nothing to know.

    Of clocks side by side, "real, virtual", each one's.
    """
    return " ".join(_CAVEATS[name] for name in clock.split(", ") if name in _CAVEATS)


def separated(frame: Frame, planned: str, naming: Callable[[Frame], Sequence[str]], *,
              column: str = "clock") -> tuple[Frame, str]:
    """The repetitions of one clock, and a line that names the others ("" where there are none).

    Of the clock of the plan, if any record has it, and else of that of most records; where two
    have as many, of the real one. `naming` gives the names of the records of some rows. With
    another `column`, the same of what that says of records; what says nothing stays there.
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
        f"of their own. Left out: {listed(naming(others))}.")


def listed(names: Sequence[str]) -> str:
    """Some names of records, not too many of them."""
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def stamped(table: Table, clock: str, notes: Sequence[str] = ()) -> Table:
    """A table of measured numbers with their clock, its caveat in the caption, and more notes."""
    caption = " ".join(part for part in (table.caption, caveat(clock)) if part)
    return replace(table, clock=clock, caption=caption, notes=(*table.notes, *notes))

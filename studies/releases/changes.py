"""Build the table "findings": messages that differ between two Debian releases.

`make_finding_table` takes the facts of messages in each repetition of a run. A row has the values
before and after, and the frames that show them.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.cells import Cells, Ids
from analysis.reporting.release_changes import ONE_RELEASE, describe_comparison, find_pairs
from analysis.table import Column, Entry, Table
from studies.releases.measurements import TITLES

#: Shown for a fact that no good repetition of a cell has.
_ABSENT = "-"


def make_finding_table(cells: Cells) -> Table:
    """Return a row for each fact that differs between releases, with the cells that show it.

    It differs if no repetition before has a value of one after, or if all of one release have it
    and none of the other. Equal differences of several cells are one row. Its frames are those of
    the first cell.
    """
    found: dict[tuple[str, str, str], list[tuple[Ids, Ids]]] = {}
    for pair in find_pairs(cells):
        for name in TITLES:
            before, after = (cells.find_words(name, ids) for ids in pair)
            if _has_changed(before, after):
                found.setdefault((name, _join_values(before), _join_values(after)),
                                 []).append(pair)
    levels = [set(ids) for ids in zip(*(ids for where in found.values() for _, ids in where),
                                      strict=True)]
    rows = tuple((Entry(TITLES[name]), Entry(before), Entry(after),
                  Entry(", ".join(_name_cell(ids, levels) for _, ids in where)),
                  Entry(_describe_frames(cells, name, where[0])))
                 for (name, before, after), where in found.items())
    return Table("findings", "Findings: messages that differ",
                 (Column("what", "what"), Column("before", "before"), Column("after", "after"),
                  Column("cells", "cells"), Column("frames", "frames of the first cell")),
                 rows, notes=(f"{describe_comparison(cells)} Frames are numbered as in Wireshark."
                              if rows else _describe_lack(cells),))


def _describe_lack(cells: Cells) -> str:
    """Return why there is no finding."""
    return f"No message differs. {describe_comparison(cells)}" if find_pairs(cells) else ONE_RELEASE


def _name_cell(ids: Ids, levels: Sequence[set[str]]) -> str:
    """Return a cell's levels of those factors that have several, such as "P8"."""
    names = [name for name, among in zip(ids, levels, strict=True) if len(among) > 1]
    return " ".join(names or ids)


def _has_changed(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether a fact, such as a message's length, has other values in another cell.

    Repetitions without the fact have the value "". If each cell has repetitions with the fact,
    those without it do not count.

    Args:
        before: Values in the repetitions of one cell.
        after: Values in those of the other cell.

    Returns:
        True if both cells have repetitions, and no value is in both.
    """
    common = set(before) & set(after)
    if any(before) and any(after):
        common.discard("")
    return bool(before and after) and not common


def _join_values(values: Sequence[str]) -> str:
    """Return a fact's distinct values in order."""
    return " or ".join(dict.fromkeys(filter(None, values))) or _ABSENT


def _describe_frames(cells: Cells, name: str, pair: tuple[Ids, Ids]) -> str:
    """Return the frames of a fact before and after, each in the first repetition that has it."""
    described = (next((f"{record}: {frames}" for record, frames in zip(
        cells.record_names(ids), cells.find_words(f"{name}_frames", ids), strict=True)
        if frames), "") for ids in pair)
    return "; ".join(filter(None, described))

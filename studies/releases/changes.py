"""Build the tables "what changed" and "findings": a Debian release, compared with the one before.

`make_change_table` takes the measured values of a run. It answers whether an upgrade of the daemons
makes a policy slower, or stops it from working. `make_finding_table` has the messages that differ,
with the frames that show it.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.cell_status import MissingReason
from analysis.cells import Cells, Ids, Observation
from analysis.reporting.significance import SignificanceDecision
from analysis.table import Column, Entry, Quantity, Table
from studies.releases.measurements import AUTHENTICATION, TITLES

_WORKS = "works"
#: Shown for a fact that no good repetition of a cell has.
_ABSENT = "-"
_ONE_RELEASE = "One release was measured, so there is no change."
_SURE = ("Slower or faster is sure for all rows together: p < 5 % by Holm's method. It is perhaps "
         "so if only the row's own 95 % interval does not contain zero.")


def make_change_table(cells: Cells, decisions: Sequence[SignificanceDecision]) -> Table:
    """Return a row for each policy and scenario on each release but the baseline's.

    Verdicts on times are corrected for the number of rows, as the comparisons `decisions` are.
    """
    sure = {decision.ids for decision in decisions
            if decision.metric is AUTHENTICATION and decision.outcome == "different"}
    rows = tuple(_make_row(cells, reference, ids, is_sure=ids in sure)
                 for reference, ids in _find_pairs(cells))
    factors = [Column(factor.name, factor.title.lower()) for factor in cells.results.factors]
    return Table("changes", "What changed",
                 (*factors, Column("before", "before"), Column("after", "after"),
                  Column("change_s", "authentication", unit="ms", scale=1e3),
                  Column("packets", "EAP packets"), Column("verdict", "verdict")),
                 rows, notes=(f"Compared with {cells.baseline.name}. {_SURE}" if rows else
                              _ONE_RELEASE,))


def _find_pairs(cells: Cells) -> list[tuple[Ids, Ids]]:
    """Return the cells of upgraded releases, each behind that of the release before."""
    return [(reference, ids) for ids in cells.results.cells
            if not cells.baseline.is_baseline(cells.results, ids)
            and (reference := cells.baseline.baseline_cell(cells.results, ids)) is not None]


def _make_row(cells: Cells, reference: Ids, ids: Ids, *, is_sure: bool) -> tuple[Entry, ...]:
    before, after = (_describe_outcome(cells, row) for row in (reference, ids))
    packets = [f"{value.estimate.mean:g}" if value and value.estimate.mean else "-" for value in
               (cells.mean_of_any("eap_packets", row) for row in (reference, ids))]
    change = cells.difference(AUTHENTICATION, ids)
    return (*(Entry(name) for name in ids), Entry(before), Entry(after),
            _to_entry(change), Entry(" to ".join(dict.fromkeys(packets))),
            Entry(_judge_change(before, after, change, is_sure=is_sure)))


def _describe_outcome(cells: Cells, ids: Ids) -> str:
    """Return "works", or why a cell has no results."""
    status = cells.status(ids)
    return _WORKS if status.missing is None else f"{status.word}: {status.verified_reason}"


def _to_entry(change: Observation | MissingReason) -> Entry:
    if isinstance(change, MissingReason):
        return Entry(change.value, marks=frozenset({"missing"}))
    estimate = change.estimate
    return Entry(number=Quantity(estimate.mean, estimate.low, estimate.high, len(change.blocks)))


def _judge_change(before: str, after: str, change: Observation | MissingReason, *,
                  is_sure: bool) -> str:
    """Return what an upgrade does to a policy, in a few words."""
    if _WORKS not in (before, after):
        return "works on neither"
    if before != _WORKS or after != _WORKS:
        return "newly works" if after == _WORKS else "works no longer"
    if isinstance(change, MissingReason):
        return "works on both"
    low, high = change.estimate.low, change.estimate.high
    if low is None or high is None or low <= 0 <= high:
        return "no sure change"
    return ("" if is_sure else "perhaps ") + ("slower" if low > 0 else "faster")


# --- Findings ---


def make_finding_table(cells: Cells) -> Table:
    """Return a row for each fact that differs between releases, with the cells that show it.

    It differs if no repetition before has a value of one after, or if all of one release have it
    and none of the other. Equal differences of several cells are one row. Its frames are those of
    the first cell.
    """
    found: dict[tuple[str, str, str], list[tuple[Ids, Ids]]] = {}
    for pair in _find_pairs(cells):
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
                 rows, notes=(f"Compared with {cells.baseline.name}. Frames are numbered as in "
                              "Wireshark." if rows else _describe_lack(cells),))


def _describe_lack(cells: Cells) -> str:
    """Return why there is no finding."""
    has_baseline = any(cells.baseline.is_baseline(cells.results, ids)
                       for ids in cells.results.cells)
    return "No message differs." if has_baseline else _ONE_RELEASE


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

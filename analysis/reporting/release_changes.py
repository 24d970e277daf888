"""Compare the Debian releases of a run: the table "what changed", and its sentences.

`list_changes` takes the measured means, with a release as the baseline. For each cell (such as one
policy in one scenario) it finds whether an upgrade stops it from working, and which metrics get
better or worse. `make_change_table` and `describe_changes` show the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.cell_status import MissingReason
from analysis.cells import Cells, Ids, Observation
from analysis.metrics import Metric, insert_before_unit
from analysis.present.entries import round_to_uncertainty
from analysis.reporting.significance import SignificanceDecision
from analysis.table import Column, Entry, Quantity, Table, count_noun
from measure.records.manifest import RELEASE

TABLE_ID = "changes"
ONE_RELEASE = "One release was measured, so there is no change."
_WORKS = "works"
_SURE = ("What is said without 'perhaps' is sure for all rows of one release together: p < 5 % by "
         "Holm's method. With 'perhaps', only the row's own 95 % interval does not contain zero.")
_NO_CHANGE = "no sure change"
#: Changes that sentences name, of each kind.
_MAX_NAMES = 4


@dataclass(frozen=True)
class ReleaseChange:
    """A comparison of one cell on two releases, before and after an upgrade.

    - `reference`, `ids`: the cell before and after
    - `before`, `after`: whether it works, else the reason
    - `differences`: change of each metric, positive if worse
    - `sure`: names of the metrics whose change is sure for all cells together
    """

    reference: Ids
    ids: Ids
    before: str
    after: str
    differences: Mapping[Metric, Observation | MissingReason]
    sure: frozenset[str]

    @property
    def short_verdict(self) -> str:
        """Return in a few words what changed."""
        if _WORKS not in (self.before, self.after):
            return "works on neither"
        if self.before != _WORKS or self.after != _WORKS:
            return "newly works" if self.after == _WORKS else "works no longer"
        if all(isinstance(change, MissingReason) for change in self.differences.values()):
            return "works on both"
        return ", ".join(self._list_words()) or _NO_CHANGE

    def _list_words(self) -> Iterator[str]:
        """Yield the metrics that changed, such as "perhaps slower" if there is only one metric."""
        for metric, change in self.differences.items():
            word = _judge_difference(metric, change)
            if word:
                title = f"{metric.title} " if len(self.differences) > 1 else ""
                yield f"{title}{'' if metric.name in self.sure else 'perhaps '}{word}"

    def list_sure_changes(self) -> Iterator[tuple[Metric, Observation, str]]:
        """Yield each metric whose change is sure, with the change and "slower", "better" or so."""
        for metric, change in self.differences.items():
            word = _judge_difference(metric, change)
            if word and metric.name in self.sure and isinstance(change, Observation):
                yield metric, change, word


def list_changes(cells: Cells, decisions: Sequence[SignificanceDecision],
                 metrics: Sequence[Metric]) -> list[ReleaseChange]:
    """Return the changes of each cell on each release but the baseline's.

    Args:
        cells: The measured means, with a release as the baseline.
        decisions: Comparisons of all cells with that release.
        metrics: The metrics to compare.
    """
    sure: dict[Ids, set[str]] = {}
    for decision in decisions:
        if decision.outcome == "different":
            sure.setdefault(decision.ids, set()).add(decision.metric.name)
    return [ReleaseChange(
        reference, ids, _describe_outcome(cells, reference), _describe_outcome(cells, ids),
        {metric: cells.difference(metric, ids) for metric in metrics},
        frozenset(sure.get(ids, ()))) for reference, ids in find_pairs(cells)]


def find_pairs(cells: Cells) -> list[tuple[Ids, Ids]]:
    """Return the cells of upgraded releases, each behind that of the release before."""
    return [(reference, ids) for ids in cells.results.cells
            if not cells.baseline.is_baseline(cells.results, ids)
            and (reference := cells.baseline.baseline_cell(cells.results, ids)) is not None]


def make_change_table(cells: Cells, changes: Sequence[ReleaseChange], metrics: Sequence[Metric],
                      counted: str = "", counted_title: str = "") -> Table:
    """Return a table with a row for each cell on each release but the baseline's.

    Args:
        cells: The measured means, with a release as the baseline.
        changes: What changed in each cell (`list_changes`).
        metrics: The compared metrics.
        counted: Name of a value whose means are shown before and after, "" for none.
        counted_title: Title of that column.
    """
    factors = [Column(factor.name, factor.title.lower()) for factor in cells.results.factors]
    differences = [Column(insert_before_unit(metric.name, "change"), metric.title, metric.unit,
                          metric.scale) for metric in metrics]
    named = [Column("daemons", "daemons", only="file")] if any(
        cells.results.daemons_by_release.values()) else []
    rows = tuple((*map(Entry, change.ids), *(Entry(_name_daemons(cells, change.ids))
                                             for _ in named),
                  Entry(change.before), Entry(change.after),
                  *map(_to_entry, change.differences.values()),
                  *([Entry(_count_before_and_after(cells, change, counted))] if counted else []),
                  Entry(change.short_verdict)) for change in changes)
    return Table(TABLE_ID, "What changed",
                 (*factors, *named, Column("before", "before"), Column("after", "after"),
                  *differences,
                  *([Column("packets", counted_title)] if counted else []),
                  Column("verdict", "verdict")),
                 rows, notes=(f"{describe_comparison(cells)} Positive is worse. {_SURE}"
                              if rows else ONE_RELEASE,))


def describe_comparison(cells: Cells) -> str:
    """Return a sentence on the release before the upgrade, and on daemons of other releases."""
    titles = [f"{name} is {_name_release(cells, name)}" for name in cells.results.levels[RELEASE]]
    return f"Compared with {cells.baseline.name}. {'; '.join(titles)}."


def describe_changes(cells: Cells, changes: Sequence[ReleaseChange]) -> Iterator[str]:
    """Yield a sentence on each release but the baseline's: what works no longer, what changed."""
    title = _name_release(cells, cells.baseline.name)
    groups: dict[str, list[ReleaseChange]] = {}
    for change in changes:
        [release] = cells.results.select_levels(change.ids, [RELEASE])
        groups.setdefault(release, []).append(change)
    for release, among in groups.items():
        parts = [f"{verdict}: {_join_cells(cells, found)}"
                 for verdict in ("works no longer", "newly works")
                 if (found := [change for change in among if change.short_verdict == verdict])]
        parts += [sure] if (sure := _join_sure_changes(cells, among)) else []
        after = _name_release(cells, release)
        nothing = f"{_NO_CHANGE} in {count_noun(len(among), 'cell')}"
        yield f"From {title} to {after}: {'; '.join(parts) or nothing}."


def _name_daemons(cells: Cells, ids: Ids) -> str:
    """Return the daemons of another release in the records of a cell's release, or ""."""
    [release] = cells.results.select_levels(ids, [RELEASE])
    return cells.results.daemons_by_release.get(release, "")


def _name_release(cells: Cells, release: str) -> str:
    """Return the title of a release, with daemons of another release."""
    return cells.results.level_title(RELEASE, release) or release


def _join_cells(cells: Cells, changes: Sequence[ReleaseChange]) -> str:
    names = [_name_cell(cells, change.ids) for change in changes]
    rest = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _join_sure_changes(cells: Cells, changes: Sequence[ReleaseChange]) -> str:
    lines = [f"{_name_cell(cells, change.ids)}: {metric.title} {word} by "
             f"{_format_change(metric, observation)}" for change in changes
             for metric, observation, word in change.list_sure_changes()]
    rest = len(lines) - _MAX_NAMES
    more = f" and {count_noun(rest, 'more sure change')}" if rest > 0 else ""
    return f"{'; '.join(lines[:_MAX_NAMES])}{more}"


def _name_cell(cells: Cells, ids: Ids) -> str:
    """Return the levels of a cell without its release, such as policy and scenario."""
    names = [name for name in cells.results.names if name != RELEASE]
    return " in ".join(cells.results.select_levels(ids, names))


def _format_change(metric: Metric, change: Observation) -> str:
    estimate = change.estimate
    value, half = abs(estimate.mean) * metric.scale, estimate.half_width
    text = round_to_uncertainty(value, half * metric.scale)[0] if half else f"{value:g}"
    return f"{text} {metric.unit}".strip()


def _describe_outcome(cells: Cells, ids: Ids) -> str:
    """Return "works", or why a cell has no results."""
    status = cells.status(ids)
    return _WORKS if status.missing is None else f"{status.word}: {status.verified_reason}"


def _to_entry(change: Observation | MissingReason) -> Entry:
    if isinstance(change, MissingReason):
        return Entry(change.value, marks=frozenset({"missing"}))
    estimate = change.estimate
    return Entry(number=Quantity(estimate.mean, estimate.low, estimate.high, len(change.blocks)))


def _count_before_and_after(cells: Cells, change: ReleaseChange, name: str) -> str:
    counts = [f"{value.estimate.mean:g}" if value and value.estimate.mean else "-" for value in
              (cells.mean_of_any(name, ids) for ids in (change.reference, change.ids))]
    return " to ".join(dict.fromkeys(counts))


def _judge_difference(metric: Metric, change: Observation | MissingReason) -> str:
    """Return how a metric changed, "" if its own interval contains zero or is unknown."""
    if isinstance(change, MissingReason):
        return ""
    low, high = change.estimate.low, change.estimate.high
    if low is None or high is None or low <= 0 <= high:
        return ""
    is_time = metric.better == "lower" and metric.name.endswith("_s")
    return {(True, True): "slower", (True, False): "faster", (False, True): "worse",
            (False, False): "better"}[is_time, low > 0]

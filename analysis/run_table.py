"""The run's table of any study, with a row per cell and a column per metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis import footnotes
from analysis.air import list_biases
from analysis.cells import Cells, Ids, Key
from analysis.clock import VIRTUAL, stamp_table
from analysis.metrics import Metric
from analysis.numbers import value_entry
from analysis.table import Column, Entry, Quantity, Table
from analysis.text import to_printable
from measure.manifest import FactorRecord

ID = "run"
_PART = "Measured"
#: Word for a cell whose checks all hold, but do not cover all of its settings.
PARTLY = "partly"


@dataclass(frozen=True)
class Further:
    """A study's own column with its entries.

    It follows the columns of the metric `behind`. Without `behind`, it follows all metrics and
    their differences.
    """

    column: Column
    entry: Callable[[Ids], Entry]
    behind: str = ""


@dataclass(frozen=True)
class Remarks:
    """A study's own notes on a run's table.

    If `differences` is empty, the table has the standard note on differences.
    """

    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    differences: str = ""


@dataclass(frozen=True)
class ReferenceValues:
    """Published and modelled values by metric and the ids of a cell's levels."""

    published: Mapping[Key, float] = field(default_factory=dict)
    modelled: Mapping[Key, float] = field(default_factory=dict)

    def add_to(self, entry: Entry, key: Key) -> Entry:
        """Return the entry with its published and modelled values."""
        published, modelled = self.published.get(key), self.modelled.get(key)
        if published is None and modelled is None:
            return entry
        return replace(entry, published=published, modelled=modelled)


def make_run_table(cells: Cells, further: Sequence[Further] = (), remarks: Remarks | None = None,
                   reference: ReferenceValues | None = None) -> Table:
    """Return the table of every cell with its metrics, differences and verification.

    On screens, each combination of surroundings is a separate table. Files have all cells in one
    table. A study can add columns, notes, and published and modelled values.
    """
    results, remarks = cells.results, remarks or Remarks()
    columns = [*_leading_columns(cells),
               *_measured_columns(cells, further, reference or ReferenceValues()),
               *_trailing_columns(cells)]
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    said: list[tuple[int, str]] = []
    for section, members in cells.sections.items():
        sections.append((len(rows), section_title(cells, section)))
        for ids in members:
            said += [(len(rows), line) for line in _describe_standing(cells, ids)]
            rows.append(tuple(column.entry(ids) for column in columns))
    differences = [remarks.differences] if remarks.differences else footnotes.describe_differences(
        cells)
    made = Table(
        ID, "The run", tuple(column.column for column in columns), tuple(rows),
        notes=(footnotes.describe_intervals(cells), *remarks.notes, *differences,
               footnotes.describe_circumstances(results),
               *list_biases(results.air, results.manifest)),
        sections=tuple(sections), remarks=tuple(said), apart=True,
        warnings=(*footnotes.describe_baseline(cells), *footnotes.describe_data(cells),
                  *remarks.warnings, *footnotes.list_complaints(cells)))
    return stamp_table(made, results.clock)


def section_title(cells: Cells, section: Ids) -> str:
    """Return the title above the cells of some surroundings, which names virtual time."""
    results = cells.results
    titles = [f"{_find_factor(cells, name).title} {results.level_heading((level,), (name,))}"
              for name, level in zip(results.surroundings, section, strict=True)]
    said = ", ".join(titles) or results.study.title
    return f"{said}{' (virtual time)' if results.clock == VIRTUAL else ''}"


def _find_factor(cells: Cells, name: str) -> FactorRecord:
    return next(factor for factor in cells.results.factors if factor.name == name)


def cell_columns(cells: Cells) -> list[Further]:
    """Return the columns that identify a cell and its state, for other tables of cells.

    The columns on verification are only for files there.
    """
    return [*_leading_columns(cells),
            *(replace(further, column=replace(further.column, only="file"))
                                        for further in _trailing_columns(cells))]


def _leading_columns(cells: Cells) -> list[Further]:
    results = cells.results
    columns = [_level_column(cells, index, name) for index, name in enumerate(results.names)]
    columns.sort(key=lambda further: further.column.only == "file")
    first = results.names.index(results.compared[0])
    name = Further(Column("name", "name", optional=True),
                   lambda ids: Entry(results.level_title(results.compared[0], ids[first])))
    return [columns[0], name, *columns[1:],
            _standing_column("state", lambda ids: Entry(cells.standing(ids).word)),
            _standing_column("good", lambda ids: _count_entry(cells.standing(ids).good)),
            _standing_column("planned", lambda ids: _count_entry(cells.standing(ids).total)),
            Further(Column("n", "n", only="screen"), lambda ids: Entry(
                f"{cells.standing(ids).good}/{cells.standing(ids).total}"))]


def _level_column(cells: Cells, index: int, name: str) -> Further:
    """Return a factor's column, which is only for files if the factor is not compared.

    On screens, the headings name the surroundings.
    """
    is_apart = name in cells.results.surroundings
    factor = _find_factor(cells, name)

    def entry(ids: Ids) -> Entry:
        number = cells.results.level_number(name, ids[index]) if factor.is_number else None
        return Entry(to_printable(ids[index]), None if number is None else Quantity(number))

    return Further(Column(name, factor.title.lower(), factor.unit,
                          only="file" if is_apart else ""), entry)


def _standing_column(key: str, entry: Callable[[Ids], Entry]) -> Further:
    return Further(Column(key, key, only="file"), entry)


def _count_entry(number: int) -> Entry:
    return Entry(number=Quantity(number))


def _measured_columns(cells: Cells, further: Sequence[Further],
                      reference: ReferenceValues) -> Iterator[Further]:
    metrics = cells.results.study.metrics
    for metric in metrics:
        yield _metric_column(cells, metric, reference)
        yield from (column for column in further if column.behind == metric.name)
    yield from (_difference_column(cells, metric, metric.difference, reference) for metric
                in metrics
                if metric.difference is not None)
    yield from (column for column in further if not column.behind)


def _metric_column(cells: Cells, metric: Metric, reference: ReferenceValues) -> Further:
    return Further(_to_column(metric), lambda ids: reference.add_to(
        value_entry(cells.value(metric.name, ids)), (metric.name, *ids)))


def _difference_column(cells: Cells, metric: Metric, difference: Metric,
                       reference: ReferenceValues) -> Further:
    return Further(_to_column(difference), lambda ids: reference.add_to(
        value_entry(cells.difference(metric, ids), is_difference=True), (difference.name, *ids)))


def _to_column(metric: Metric) -> Column:
    return Column(metric.name, metric.title, metric.unit, metric.scale, metric.digits,
                  heading=metric.heading, part=metric.part or _PART)


def _trailing_columns(cells: Cells) -> list[Further]:
    last = cells.results.study.metrics[-1]

    def verified(ids: Ids) -> Entry:
        standing = cells.standing(ids)
        if standing.verified and standing.unchecked:
            return Entry(PARTLY)
        return Entry("-" if standing.word == "not run" else "yes" if standing.verified else "no")

    return [Further(Column("shown_verified", "verified", heading=("veri-", "fied"),
                           part=last.part or _PART, only="screen"), verified),
            _standing_column("verified", lambda ids: Entry(
                "yes" if cells.standing(ids).verified else "no")),
            _standing_column("verified_reason",
                             lambda ids: Entry(cells.standing(ids).verified_reason)),
            _standing_column("unchecked", lambda ids: Entry(cells.standing(ids).unchecked))]


def _describe_standing(cells: Cells, ids: Ids) -> Iterator[str]:
    """Yield the reasons why repetitions do not count or a cell is not fully verified."""
    standing = cells.standing(ids)
    name = ", ".join(cells.results.select_levels(ids, cells.results.compared))
    yield from (f"{name} {line}" for line in standing.failures)
    if standing.missing is None and not standing.verified:
        yield f"{name} not verified: {standing.verified_reason}"
    if standing.good and standing.unchecked:
        yield f"{name}: no check covers {standing.unchecked}"

"""Make the main table of a run: cells (policy in scenario) in rows, metrics in columns.

`make_run_table` takes the measured means of all cells, and what the study adds: columns, notes, and
published and modelled values. A row has the mean of each metric, its difference from the baseline
(such as the policy without protection), and whether all checks passed. Footnotes state intervals
and circumstances. Warnings above the table name disturbed (flagged) repetitions, unusable files,
and means over records that were measured differently, such as on different machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.cells import Cells, Ids, Key
from analysis.circumstances import (
    VIRTUAL,
    list_air_biases,
    list_media_without_ht,
    list_names,
    stamp_table,
)
from analysis.metrics import Metric
from analysis.records import Frame
from analysis.reporting.table_entries import value_entry
from analysis.results import Results, record_names
from analysis.table import Column, Entry, Quantity, Table, count_noun, to_printable
from measure.records.manifest import RELEASE, FactorRecord
from measure.records.record import FLAGS

# --- Notes on repetitions that a busy processor or a retransmission disturbed ---

def list_contention_notes(results: Results) -> Iterator[str]:
    """Yield notes on repetitions that waited for the processor, or were measured again.

    A repeated repetition keeps its number, but was measured later than the others of that number.
    """
    if line := describe_flagged(results):
        yield line
    good = results.good
    again = good[good["alone"]]
    if not again.empty:
        names = list_names(record_names(again, results.names, results.record_prefix))
        yield (f"{len(again)} of {len(good)} good repetitions were measured once more because they "
               "had been flagged: later than the rest of their block, and with nothing beside "
               f"them. Differences take them for parts of it: {names}.")


def describe_flagged(results: Results) -> str:
    """Return a sentence on the `ok` repetitions that are flagged as disturbed, or ""."""
    good = results.good
    flagged = good[good["flagged"]]
    if flagged.empty:
        return ""
    single = len(flagged) == 1
    return (f"{len(flagged)} of {len(good)} good repetitions {'is' if single else 'are'} flagged, "
            f"because {'it' if single else 'they'} {_describe_causes(flagged)}, which makes "
            f"times longer: "
            f"{list_names(record_names(flagged, results.names, results.record_prefix))}. "
            f"{'It counts' if single else 'They count'} all the same{_describe_remedy(flagged)}.")


def _describe_causes(flagged: Frame) -> str:
    """Describe what disturbed the flagged repetitions."""
    words = {word for flags in flagged["flags"] for word in flags.split()}
    return " or ".join(text for word, text in FLAGS.items() if word in words) or FLAGS["processor"]


def _describe_remedy(flagged: Frame) -> str:
    """Return a sentence on how to measure flagged repetitions again, with nothing else running.

    Repetitions that were already measured alone are not measured again.
    """
    alone, them = int(flagged["alone"].sum()), "it" if len(flagged) == 1 else "them"
    if alone == len(flagged):
        return f", and had nothing beside {them}"
    again = f"{len(flagged) - alone} of them" if alone else them
    had = f"; {alone} of them had nothing beside them" if alone else ""
    return f"{had}; the same './qop run' measures {again} again, alone"


# --- Footnotes on intervals and circumstances, and warnings on records ---

_MAX_COMPLAINTS = 5


def describe_intervals(cells: Cells) -> str:
    """Return a sentence on the kind of confidence intervals and the number of repetitions."""
    counts = {(standing.good, standing.total) for standing in
              map(cells.status, cells.results.cells)}
    text = "mean \N{PLUS-MINUS SIGN} half of the 95 % interval (Student's t) of n good repetitions"
    totals = {total for _, total in counts}
    if totals == {1}:
        return "One repetition a cell: values without interval; ask for more with --repetitions."
    if all(good == total for good, total in counts) and len(totals) == 1:
        sentence = f"Each value: {text}, n = {min(totals)} in every cell."
    else:
        sentence = f"Each value: {text}; column n gives good of planned."
    # The 95 % quantile of Student's t is 12.7 for two values, 4.3 for three and 2.8 for five.
    advice = " Two make wide intervals: take five or more." if max(totals) == 2 else ""
    return sentence + advice


def describe_differences(cells: Cells) -> Iterator[str]:
    """Yield a sentence that explains differences from the baseline, if the table has any."""
    reported: list[Metric] = [metric.difference for metric in cells.results.study.metrics
                              if metric.difference is not None]
    if cells.baseline.levels and reported:
        titles = " and ".join(metric.sentence for metric in reported)
        what = "the difference" if len(reported) == 1 else "differences"
        yield (f"{titles}: {what} from {cells.baseline.name} within blocks (repetitions), "
               "averaged; positive is worse.")


def describe_circumstances(results: Results) -> str:
    """Return sentences on how a run was measured, such as medium, clock and machine."""
    frame, wires = results.frame, results.wires
    medium = _join_distinct(frame, "medium") or ("none" if wires else
                                                 "none given (as fast as the emulator)")
    if air := _join_distinct(frame, "air"):
        medium = f"{medium} (air: {air})"
    wired = f" Wires: {wires}." if wires else ""
    return (f"Medium: {medium}.{wired} Clock: {_join_distinct(frame, 'clock') or 'not recorded'}. "
            f"Machine: {_join_distinct(frame, 'machine') or 'not recorded'}. "
            f"Builder: {_join_distinct(frame, 'builder') or 'not recorded'}."
            + (f" Debian: {debian}." if (debian := _join_distinct(frame, "debian")) else ""))


def describe_baseline(cells: Cells) -> Iterator[str]:
    """Yield sentences on an unusual baseline, and on scenarios where the baseline is missing."""
    results = cells.results
    if _join_distinct(results.frame, "fault"):  # a negative control has no good repetitions
        return
    if cells.baseline.note and not cells.baseline.is_chosen:
        yield cells.baseline.note
    if not cells.baseline.levels or not any(metric.difference for metric in results.study.metrics):
        return
    for section, members in cells.sections.items():
        base = [ids for ids in members if cells.baseline.is_baseline(results, ids)]
        if results.surroundings and not any(cells.status(ids).good for ids in base):
            yield (f"No differences in {', '.join(section)}: the baseline {cells.baseline.name} "
                   "has no good repetition there.")


def describe_data(cells: Cells) -> Iterator[str]:
    """Yield the warnings above the table, on records that are left out, disturbed or unlike others.

    Records are unlike others if they were measured with other settings, such as another medium.
    """
    results = cells.results
    yield from results.notices
    if results.left_out:
        yield results.left_out
    if programs := _join_distinct(results.frame, "programs"):
        yield f"Programs of the user's own took the place of Debian's: {programs}."
    yield from list_media_without_ht(results.frame, results.compared[0])
    yield from list_contention_notes(results)
    yield from _describe_mixtures(results.good, results.names)


def list_complaints(cells: Cells) -> Iterator[str]:
    """Yield a line for each record file that the table cannot use (`list_result_complaints`)."""
    return list_result_complaints(cells.results)


def list_result_complaints(results: Results) -> Iterator[str]:
    """Yield a line for each unusable record file, at most five, and the number of others."""
    lines = results.complaints
    if lines:
        yield (f"{count_noun(len(lines), 'file is', 'files are')} no usable record and left out:")
        yield from lines[:_MAX_COMPLAINTS]
    if len(lines) > _MAX_COMPLAINTS:
        yield f"and {len(lines) - _MAX_COMPLAINTS} more"


def _describe_mixtures(good: Frame, factors: tuple[str, ...]) -> Iterator[str]:
    """Yield warnings about means over records that were measured with different settings.

    Such settings are the content of a policy, the medium, or the machine.
    """
    for factor in factors:
        pairs = set(zip(good[factor], good[f"{factor}_sha256"], strict=True))
        names = [name for name, _ in sorted(pairs)]
        if changed := sorted({name for name in names if names.count(name) > 1}):
            yield (f"{', '.join(changed)}: records of different versions of the {factor} are "
                   "averaged; keep each version in a folder of its own.")
    for column in ("medium", "machine", "builder", "debian", "programs"):
        # A study may vary these between cells. Within one cell a difference is a mistake.
        if len(good) and good.groupby(list(factors))[column].nunique().max() > 1:
            yield (
                f"Records of different {column} ({_join_distinct(good, column)}) are averaged; "
                "keep "
                   "each in a folder of its own.")


def _join_distinct(frame: Frame, column: str) -> str:
    return ", ".join(sorted({str(value) for value in frame[column].unique()} - {""}))


# --- The table ---

TABLE_ID = "run"
_PART = "Measured"
#: Word for a cell whose checks all hold, but do not cover all of its settings.
PARTLY = "partly"


@dataclass(frozen=True)
class StudyColumn:
    """A column that a study adds to the run's table, with its entries.

    It follows the columns of the metric `behind`. Without `behind`, it follows all metrics and
    their differences.
    """

    column: Column
    entry: Callable[[Ids], Entry]
    behind: str = ""


@dataclass(frozen=True)
class StudyNotes:
    """Notes that a study adds to the run's table.

    If `differences` is empty, the table has the standard note on differences.
    """

    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    differences: str = ""


@dataclass(frozen=True)
class ReferenceValues:
    """Published and modelled values to show next to measured ones, by metric and cell."""

    published: Mapping[Key, float] = field(default_factory=dict)
    modelled: Mapping[Key, float] = field(default_factory=dict)

    def add_to(self, entry: Entry, key: Key) -> Entry:
        """Return a table entry with the published and modelled value added to it."""
        published, modelled = self.published.get(key), self.modelled.get(key)
        if published is None and modelled is None:
            return entry
        return replace(entry, published=published, modelled=modelled)


def make_run_table(cells: Cells, further: Sequence[StudyColumn] = (),
                   remarks: StudyNotes | None = None,
                   reference: ReferenceValues | None = None) -> Table:
    """Return the main table of a run: each cell's metrics, differences and verification.

    A cell is one policy in one scenario, for instance. On screens, each scenario is a separate
    table. Files have all cells in one table. A study can add columns, notes, and published and
    modelled values.
    """
    results, remarks = cells.results, remarks or StudyNotes()
    columns = [*_leading_columns(cells),
               *_measured_columns(cells, further, reference or ReferenceValues()),
               *_trailing_columns(cells)]
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    remark_lines: list[tuple[int, str]] = []
    for section, members in cells.sections.items():
        sections.append((len(rows), section_title(cells, section)))
        for ids in members:
            remark_lines += [(len(rows), line) for line in _describe_standing(cells, ids)]
            rows.append(tuple(column.entry(ids) for column in columns))
    differences = [remarks.differences] if remarks.differences else describe_differences(
        cells)
    table = Table(
        TABLE_ID, "The run", tuple(column.column for column in columns), tuple(rows),
        notes=(describe_intervals(cells), *remarks.notes, *differences,
               *([cells.baseline.note] if cells.baseline.is_chosen and cells.baseline.note else []),
               describe_circumstances(results),
               *list_air_biases(results.air, results.manifest)),
        sections=tuple(sections), remarks=tuple(remark_lines), apart=True,
        warnings=(*describe_baseline(cells), *describe_data(cells),
                  *remarks.warnings, *list_complaints(cells)))
    return stamp_table(table, results.clock)


def section_title(cells: Cells, section: Ids) -> str:
    """Return the title of a section of rows (scenario), which also names virtual time."""
    results = cells.results
    titles = [f"{_find_factor(cells, name).title} {results.level_heading((level,), (name,))}"
              for name, level in zip(results.surroundings, section, strict=True)]
    title = ", ".join(titles) or results.study.title
    return f"{title}{' (virtual time)' if results.clock == VIRTUAL else ''}"


def _find_factor(cells: Cells, name: str) -> FactorRecord:
    return next(factor for factor in cells.results.factors if factor.name == name)


def cell_columns(cells: Cells) -> list[StudyColumn]:
    """Return the columns that name a cell (policy and scenario) and its state.

    Other tables of cells use them, too. The columns on verification are only for files there.
    """
    return [*_leading_columns(cells),
            *(replace(further, column=replace(further.column, only="file"))
                                        for further in _trailing_columns(cells))]


def _leading_columns(cells: Cells) -> list[StudyColumn]:
    results = cells.results
    columns = [_level_column(cells, index, name) for index, name in enumerate(results.names)]
    columns.sort(key=lambda further: further.column.only == "file")
    first = results.names.index(results.compared[0])
    name = StudyColumn(Column("name", "name", optional=True),
                       lambda ids: Entry(results.level_title(results.compared[0], ids[first])))
    return [columns[0], name, *columns[1:], *_release_column(cells),
            _standing_column("state", lambda ids: Entry(cells.status(ids).word)),
            _standing_column("good", lambda ids: _count_entry(cells.status(ids).good)),
            _standing_column("planned", lambda ids: _count_entry(cells.status(ids).total)),
            StudyColumn(Column("n", "n", only="screen"), lambda ids: Entry(
                f"{cells.status(ids).good}/{cells.status(ids).total}"))]


def _release_column(cells: Cells) -> Iterator[StudyColumn]:
    """Yield a column for files with the Debian release of each cell, and of single daemons.

    If the release is a factor, the column has only the daemons of another release. It is left out
    if there are none.
    """
    frame, is_factor = cells.results.frame, RELEASE in cells.results.names
    source = "daemons" if is_factor else "debian"
    found: dict[Ids, set[str]] = {}
    for *ids, text in zip(*(frame[name].tolist() for name in (*cells.results.names, source)),
                          strict=True):
        found.setdefault(tuple(ids), set()).add(text)
    if not is_factor or any(found[ids] != {""} for ids in found):
        yield _standing_column("daemons" if is_factor else RELEASE,
                               lambda ids: Entry(", ".join(sorted(found.get(ids, ())))))


def _level_column(cells: Cells, index: int, name: str) -> StudyColumn:
    """Return the column of a factor, such as the policy.

    If the factor is not compared, the column is only for files. On screens, headings name its
    levels.
    """
    is_apart = name in cells.results.surroundings
    factor = _find_factor(cells, name)

    def entry(ids: Ids) -> Entry:
        number = cells.results.level_number(name, ids[index]) if factor.is_number else None
        return Entry(to_printable(ids[index]), None if number is None else Quantity(number))

    return StudyColumn(Column(name, factor.title.lower(), factor.unit,
                              only="file" if is_apart else ""), entry)


def _standing_column(key: str, entry: Callable[[Ids], Entry]) -> StudyColumn:
    return StudyColumn(Column(key, key, only="file"), entry)


def _count_entry(number: int) -> Entry:
    return Entry(number=Quantity(number))


def _measured_columns(cells: Cells, further: Sequence[StudyColumn],
                      reference: ReferenceValues) -> Iterator[StudyColumn]:
    metrics = cells.results.study.metrics
    for metric in metrics:
        yield _metric_column(cells, metric, reference)
        yield from (column for column in further if column.behind == metric.name)
    yield from (_difference_column(cells, metric, metric.difference, reference) for metric
                in metrics
                if metric.difference is not None)
    yield from (column for column in further if not column.behind)


def _metric_column(cells: Cells, metric: Metric, reference: ReferenceValues) -> StudyColumn:
    return StudyColumn(_to_column(metric), lambda ids: reference.add_to(
        value_entry(cells.value(metric.name, ids)), (metric.name, *ids)))


def _difference_column(cells: Cells, metric: Metric, difference: Metric,
                       reference: ReferenceValues) -> StudyColumn:
    return StudyColumn(_to_column(difference), lambda ids: reference.add_to(
        value_entry(cells.difference(metric, ids), is_difference=True), (difference.name, *ids)))


def _to_column(metric: Metric) -> Column:
    return Column(metric.name, metric.title, metric.unit, metric.scale, metric.digits,
                  heading=metric.heading, part=metric.part or _PART)


def _trailing_columns(cells: Cells) -> list[StudyColumn]:
    last = cells.results.study.metrics[-1]

    def describe_verified(ids: Ids) -> Entry:
        standing = cells.status(ids)
        if standing.verified and standing.unchecked:
            return Entry(PARTLY)
        return Entry("-" if standing.word == "not run" else "yes" if standing.verified else "no")

    return [StudyColumn(Column("shown_verified", "verified", heading=("veri-", "fied"),
                               part=last.part or _PART, only="screen"), describe_verified),
            _standing_column("verified", lambda ids: Entry(
                "yes" if cells.status(ids).verified else "no")),
            _standing_column("verified_reason",
                             lambda ids: Entry(cells.status(ids).verified_reason)),
            _standing_column("unchecked", lambda ids: Entry(cells.status(ids).unchecked))]


def _describe_standing(cells: Cells, ids: Ids) -> Iterator[str]:
    """Yield lines on why repetitions of a cell (policy in scenario) do not count.

    They also say why it is not fully verified.
    """
    standing = cells.status(ids)
    name = ", ".join(cells.results.select_levels(ids, cells.results.compared))
    yield from (f"{name} {line}" for line in (*standing.failures, *standing.skips))
    if standing.missing is None and not standing.verified:
        yield f"{name} not verified: {standing.verified_reason}"
    if standing.good and standing.unchecked:
        yield f"{name}: no check covers {standing.unchecked}"

"""Join the reports of several Debian releases that one run measured, without mixing their numbers.

`split_releases` takes the results of a run with the factor "release". It returns the results of
each release, as if that release had been measured alone. A study makes its own report of each.
`join_reports` makes one report of them: a table of each kind, with a section for each release,
figures and claims with the release's name, and the table of what changed.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.cells import Cells
from analysis.claims import Verdict
from analysis.measurements import DIGEST_SUFFIX, NoResultsError
from analysis.present.report import DecisiveRepetitions, Drawing, Figure, Report, Section
from analysis.reporting import answer, release_changes, significance, standard_report
from analysis.reporting.run_table import list_complaints
from analysis.results import AnalyzedStudy, Results
from analysis.table import Column, Entry, Table, join_words
from measure.records.manifest import RELEASE, Manifest

_COLUMN = Column(RELEASE, "release", only="file")
#: Entry of a column that the table of another release has.
_ABSENT = Entry("-")


@dataclass(frozen=True)
class ReleaseResults:
    """The results of one Debian release, without the factor "release".

    `name` is its suite, such as "trixie", and `title` its name for readers, such as "Debian 13".
    """

    name: str
    title: str
    results: Results

    @property
    def section_heading(self) -> str:
        """Return the heading of this release's part of a table."""
        return f"Release {self.name}: {self.title}"

    def make_cells(self, cells: Cells) -> Cells:
        """Return the cells of this release, with the baseline of the cells of all releases."""
        return Cells(self.results, ",".join(
            f"{factor}={level}" for factor, level in cells.baseline.levels.items()
            if factor != RELEASE))


# --- Results of one release, and the choice of the release before an upgrade ---

def split_releases(results: Results, study: AnalyzedStudy) -> list[ReleaseResults]:
    """Return the results of each measured release.

    The release before an upgrade comes first.

    Args:
        results: Results with the factor "release".
        study: The study without this factor.
    """
    measured = set(results.frame[RELEASE])
    return [ReleaseResults(name, results.level_title(RELEASE, name) or name,
                           _select_release(results, study, name))
            for name in results.levels[RELEASE] if name in measured]


def _select_release(results: Results, study: AnalyzedStudy, release: str) -> Results:
    rows = [row for row, name in enumerate(results.frame[RELEASE].tolist()) if name == release]
    frame = results.frame.iloc[rows].drop(columns=[RELEASE, f"{RELEASE}{DIGEST_SUFFIX}"])
    return replace(
        results, study=study, frame=frame.reset_index(drop=True), complaints=[], left_out="",
        notices=(), record_prefix=f"{release}-",
        manifest=_reduce_manifest(results.manifest, release) if results.manifest else None,
        samples=[results.samples[row] for row in rows],
        series=[results.series[row] for row in rows])


def _reduce_manifest(manifest: Manifest, release: str) -> Manifest:
    """Return the plan of one release of a run, without the factor "release"."""
    at = [factor.name for factor in manifest.factors].index(RELEASE)
    return manifest.model_copy(update={
        "factors": [factor for factor in manifest.factors if factor.name != RELEASE],
        "levels": {name: levels for name, levels in manifest.levels.items() if name != RELEASE},
        "cells": [[*row[:at], *row[at + 1:]] for row in manifest.cells if row[at] == release]})


def split_baseline(choice: str) -> tuple[str, str]:
    """Split the user's baseline into the study's baseline and the release before an upgrade.

    >>> split_baseline("release=trixie,policy=NAME")
    ('policy=NAME', 'trixie')
    """
    parts = [part.strip() for part in choice.split(",") if part.strip()]
    before = [part.partition("=")[2].strip() for part in parts if part.startswith(f"{RELEASE}=")]
    return (",".join(part for part in parts if not part.startswith(f"{RELEASE}=")),
            before[-1] if before else "")


def compare_with_release(results: Results, study: AnalyzedStudy) -> Cells:
    """Return the cells of all releases, compared with the release of the baseline.

    Args:
        results: Results with the factor "release".
        study: The study. Its baseline names the release.

    Raises:
        NoResultsError: The release of the baseline was not measured.
    """
    release = study.baseline[RELEASE]
    if release not in results.levels[RELEASE]:
        raise NoResultsError(f"--baseline {RELEASE}={release}: {RELEASE} has no level {release!r} "
                             f"here; it is one of {', '.join(results.levels[RELEASE])}")
    manifest = results.manifest and results.manifest.model_copy(update={"baseline": {}})
    return Cells(replace(results, study=study, manifest=manifest))


def align_releases(runs: tuple[Results, Results], names: tuple[str, str]
                   ) -> tuple[tuple[Results, Results], tuple[str, str]]:
    """Return two runs with equal factors, where one of the runs measured several releases.

    From the run with several releases, only the release of the other run is taken. Runs with equal
    factors are unchanged.

    Args:
        runs: Results of both runs.
        names: Names of the runs. The name of the release is added where a release was taken.

    Raises:
        NoResultsError: The other run's release was not measured.
    """
    has_factor = [RELEASE in run.names for run in runs]
    if has_factor[0] == has_factor[1]:
        return runs, names
    at = has_factor.index(True)
    several, single = runs[at], runs[1 - at]
    wanted = sorted(set(single.frame["debian"]) - {""})
    parts = {part.name: part for part in split_releases(several, single.study)}
    if len(wanted) != 1 or wanted[0] not in parts:
        raise NoResultsError(f"{names[at]} is of the releases {', '.join(parts)}, "
                             f"{names[1 - at]} of {', '.join(wanted) or 'none'}; compare runs that "
                             "have a release in common")
    chosen = parts[wanted[0]]
    aligned = [chosen.results if number == at else run for number, run in enumerate(runs)]
    labels = [f"{name} ({chosen.name})" if number == at else name
              for number, name in enumerate(names)]
    return (aligned[0], aligned[1]), (labels[0], labels[1])


# --- Tables of several releases ---

def join_tables(parts: Sequence[tuple[ReleaseResults, Table]]) -> Table:
    """Join the tables of several releases to one table, with a section for each release.

    If the table of a release lacks a column, its rows have dashes there. A note that the tables of
    all releases have is stated once. Any other note begins with the names of its releases.
    """
    columns: list[tuple[tuple[str, ...], Column]] = []
    for _, table in parts:
        place = 0
        for key, column in _identify_columns(table):
            known = [name for name, _ in columns]
            if key in known:
                place = known.index(key) + 1
            else:
                columns.insert(place, (key, column))
                place += 1
    is_named = any(column.key == RELEASE for _, column in columns)
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    remarks: list[tuple[int, str]] = []
    for part, table in parts:
        first, title = len(rows), part.section_heading
        headings = [(first + row, f"{title}, {text}") for row, text in table.sections]
        if table.rows and not (table.sections and table.sections[0][0] == 0):
            headings.insert(0, (first, title))
        sections += headings
        remarks += [(first + row, text) for row, text in table.remarks]
        places = {key: index for index, (key, _) in enumerate(_identify_columns(table))}
        rows += [(*([] if is_named else [Entry(part.name)]),
                  *(row[places[key]] if key in places else _ABSENT for key, _ in columns))
                 for row in table.rows]
    model = parts[0][1]
    captions = _merge_lines([(part, [table.caption]) for part, table in parts if table.caption])
    return replace(
        model, columns=(*([] if is_named else [_COLUMN]), *(column for _, column in columns)),
        rows=tuple(rows), caption=" ".join(captions), sections=tuple(sections),
        remarks=tuple(remarks), notes=_merge_lines([(part, table.notes) for part, table in parts]),
        warnings=_merge_lines([(part, table.warnings) for part, table in parts]))


def _identify_columns(table: Table) -> list[tuple[tuple[str, ...], Column]]:
    """Return each column of a table with a unique key.

    Columns with the same name and group are numbered.
    """
    counts: Counter[tuple[str, str]] = Counter()
    identified: list[tuple[tuple[str, ...], Column]] = []
    for column in table.columns:
        counts[column.key, column.group] += 1
        identified.append(((column.key, column.group, str(counts[column.key, column.group])),
                           column))
    return identified


def _merge_lines(parts: Sequence[tuple[ReleaseResults, Sequence[str]]]) -> tuple[str, ...]:
    """Return each line once, with its releases' names unless all releases have it."""
    lines: dict[str, list[str]] = {}
    for part, among in parts:
        for line in dict.fromkeys(among):
            lines.setdefault(line, []).append(part.title)
    return tuple(line if len(titles) == len(parts) else f"{join_words(titles)}: {line}"
                 for line, titles in lines.items() if line)


def join_run_tables(parts: Sequence[tuple[ReleaseResults, Table]], cells: Cells) -> Table:
    """Return the run's table of all releases, with the warnings about all records of the run."""
    joined = join_tables(parts)
    results = cells.results
    lines = (*results.notices, *([results.left_out] if results.left_out else []))
    return replace(joined, warnings=(*lines, *joined.warnings, *list_complaints(cells)))


# --- The report of several releases ---

def join_reports(parts: Sequence[tuple[ReleaseResults, Report]], cells: Cells,
                 compared: Cells) -> Report:
    """Join the reports of several releases to one report.

    Args:
        parts: Each release with its report.
        cells: The cells of all releases, with the study's baseline.
        compared: The cells of all releases, compared with one release (`compare_with_release`).
    """
    model, results = parts[0][1], cells.results
    runs = [(part, report.run) for part, report in parts if report.run is not None]
    run = join_run_tables(runs, cells) if runs else None
    metrics = [metric for metric in results.study.metrics if metric.better]
    decisions = [decision for decision in significance.decide_differences(compared)
                 if decision.metric.better]
    changes = release_changes.list_changes(compared, decisions, metrics)
    shown = [metric for metric in metrics if any(
        compared.find_value(metric.name, ids) for ids in results.cells)]
    changed = release_changes.make_change_table(compared, [replace(change, differences={
        metric: change.differences[metric] for metric in shown}) for change in changes], shown)
    sections = tuple(_join_sections(parts, run))
    return replace(
        model, subtitle=standard_report.make_subtitle(cells), facts=_join_facts(parts, cells),
        answers=tuple(replace(advice, application=f"{advice.application}, {part.title}")
                      for part, report in parts for advice in report.answers),
        claims=tuple(_name_verdict(part, claim) for part, report in parts
                     for claim in report.claims),
        sections=(_make_change_section(changed), *sections) if model.has_page else sections,
        warnings=(*standard_report.list_page_warnings(cells, run.warnings if run else ()),
                  *_merge_lines([(part, [line for line in report.warnings if line not in (
                      report.run.warnings if report.run else ())]) for part, report in parts])),
        complaints=tuple(results.complaints), failures=tuple(answer.describe_failures(cells)),
        skips=tuple(answer.describe_skips(cells)),
        beside=tuple(_join_tables_by_id([(part, report.beside) for part, report in parts])),
        run=run, asked=model.asked,
        printed=(*model.printed, *([changed.id] if model.has_page else [])),
        drawings=tuple(_draw_apart(drawing, part.name) for part, report in parts
                       for drawing in report.drawings),
        summary=(answer.describe_extent(cells),
                 *release_changes.describe_changes(compared, changes),
                 *_merge_lines([(part, report.summary[1:]) for part, report in parts])),
        claimant=f"{model.claimant} claims on {len(parts)} releases:" if model.claimant else "",
        differences=(*(_name_verdict(part, difference) for part, report in parts
                       for difference in significance.judge_differences(
                           part.make_cells(cells), report)),
                     *significance.make_verdicts(compared, decisions)),
        decisive=_join_decisive([report.decisive for _, report in parts]),
        factors=standard_report.list_page_factors(cells),
        terms={name: text for _, report in parts for name, text in report.terms.items()},
        short=answer.make_short_table(cells) if model.short else None,
        answering=_join_optional(parts, lambda report: report.answering))


def _make_change_section(changed: Table) -> Section:
    return Section("releases", "Releases", "What changes from one Debian release to another.", (),
                   (changed,))


def _name_verdict(part: ReleaseResults, verdict: Verdict) -> Verdict:
    """Return a verdict with its release's name, and with the full names of its cells."""
    prefix = part.results.record_prefix
    return replace(verdict, id=f"{part.name}:{verdict.id}", says=f"{part.title}: {verdict.says}",
                   cells=tuple(f"{prefix}{name}" for name in verdict.cells),
                   needed=tuple(frozenset(f"{prefix}{name}" for name in names)
                                for names in verdict.needed))


def _join_facts(parts: Sequence[tuple[ReleaseResults, Report]],
                cells: Cells) -> tuple[tuple[str, str], ...]:
    """Return the facts of the run, and the facts that only the study's reports have."""
    facts = standard_report.list_facts(cells)
    known = {name for name, _ in facts}
    return (*facts, *((f"{name}, {part.title}", text) for part, report in parts
                      for name, text in report.facts if name not in known))


def _join_sections(parts: Sequence[tuple[ReleaseResults, Report]],
                   run: Table | None) -> Iterator[Section]:
    """Yield the sections of all reports, each once."""
    found: dict[str, list[tuple[ReleaseResults, Section]]] = {}
    for part, report in parts:
        for section in report.sections:
            found.setdefault(section.id, []).append((part, section))
    for among in found.values():
        tables = _join_tables_by_id([(part, section.tables) for part, section in among], run)
        yield replace(among[0][1], tables=tuple(tables), figures=tuple(
            _name_figure(part, figure) for part, section in among for figure in section.figures))


def _join_tables_by_id(parts: Iterable[tuple[ReleaseResults, Sequence[Table]]],
                       run: Table | None = None) -> Iterator[Table]:
    """Yield one joined table for each id, from the tables that releases have with this id.

    Args:
        parts: The tables of each release.
        run: The run's table of all releases, which is joined already.
    """
    found: dict[str, list[tuple[ReleaseResults, Table]]] = {}
    for part, tables in parts:
        for table in tables:
            found.setdefault(table.id, []).append((part, table))
    for table_id, among in found.items():
        yield run if run is not None and table_id == run.id else join_tables(among)


def _name_figure(part: ReleaseResults, figure: Figure) -> Figure:
    return replace(figure, id=f"{figure.id}-{part.name}", title=f"{figure.title}, {part.title}")


def _join_optional(parts: Sequence[tuple[ReleaseResults, Report]],
                   choose: Callable[[Report], Table | None]) -> Table | None:
    """Join the tables of the reports that have such a table, or return None without any."""
    tables = [(part, table) for part, report in parts if (table := choose(report)) is not None]
    return join_tables(tables) if tables else None


def _join_decisive(every: Iterable[DecisiveRepetitions | None]) -> DecisiveRepetitions | None:
    """Return the repetitions that probably decide open differences on every release."""
    found = [decisive for decisive in every if decisive is not None]
    if not found:
        return None
    return DecisiveRepetitions(max(decisive.repetitions for decisive in found),
                               sum(decisive.count for decisive in found))


def _draw_apart(drawing: Drawing, release: str) -> Drawing:
    """Return a drawing function whose files have the name of a release in their names."""
    def draw_release(folder: Path) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            return [Path(file).replace(folder / f"{Path(file).stem}-{release}{Path(file).suffix}")
                    for file in drawing(Path(place))]
    return draw_release

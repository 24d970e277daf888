"""Measure any study on several Debian releases (`./qop run --release bookworm,trixie`).

A release gives the guests' root file system, with all daemons in it. `add_release_factor` takes a
study, and returns a study with the factor "release" before its own factors. The study's own code
evaluates and reports each release for itself, so no number and no verdict mixes releases. A
table says what changes from one release to another (`analysis.reporting.release_changes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import studies
from measure.records.manifest import RELEASE, LevelRecord
from studies.contract import (
    Cell,
    Factor,
    Level,
    Repetition,
    Settings,
    TestbedSpec,
    fixed_levels,
)
from studies.study import Study

if TYPE_CHECKING:
    from analysis.cells import Cells
    from analysis.present.report import Report
    from analysis.queueing import Model
    from analysis.results import Results
    from analysis.table import Table

#: Releases, the one before an upgrade first.
RELEASE_LEVELS = (Level("bookworm", "Debian 12"), Level("trixie", "Debian 13"),
                  Level("forky", "Debian testing"))


def make_release_factor(default: Sequence[str] = ()) -> Factor:
    """Return the factor whose levels are Debian releases.

    Args:
        default: Suites to measure if the user names none, all if empty.
    """
    names = ", ".join(level.id for level in RELEASE_LEVELS)
    return Factor(RELEASE, "Release", fixed_levels(RELEASE_LEVELS, default), option="--release",
                  help=f"Measure on these Debian releases: {names} "
                  f"(default: {', '.join(default) or 'all'}).",
                  other_names=tuple(level.id for level in RELEASE_LEVELS
                                    if default and level.id not in default))


def has_release_factor(study: Study) -> bool:
    """Return whether a study varies the Debian release of the guests."""
    return any(factor.name == RELEASE for factor in study.factors)


@cache
def add_release_factor(study: Study) -> Study:
    """Return a study that varies the Debian release, too.

    A study that varies it already is returned unchanged.
    """
    return study if has_release_factor(study) else StudyOnReleases(study)


def load_study(name: str, factors: Iterable[str]) -> Study:
    """Return the study of a plan or record, which may vary the release in addition.

    Args:
        name: Id of the study.
        factors: Names of the factors in the plan or record.

    Raises:
        StudyError: There is no such study, or it cannot be used.
    """
    study = studies.load_study(name)
    return add_release_factor(study) if RELEASE in factors else study


def _restore_study(name: str) -> Study:
    """Return the study with an id on several releases, in a process that unpickles it."""
    return load_study(name, [RELEASE])


def _call_single(method: str) -> Callable[..., Any]:
    """Return a method that calls the other study's, with cells and repetitions of no release."""
    def call_method(study: StudyOnReleases, *args: Any) -> Any:
        return getattr(study.single, method)(*map(_remove_release, args))

    return call_method


class StudyOnReleases(Study):
    """A study with the factor "release", measured and evaluated by another study's code.

    The other study gets each cell without its release.

    Args:
        single: The study, which measures on one release.
        baseline: The levels to compare with, None for those of the study.
    """

    def __init__(self, single: Study, baseline: Mapping[str, str] | None = None) -> None:
        self.single = single
        attributes = {name: getattr(single, name) for name in Study.__annotations__
                      if hasattr(single, name)}
        attributes["factors"] = (make_release_factor(), *single.factors)
        if baseline is not None:
            attributes |= {"baseline": baseline, "baseline_digests": {}}
        for name, value in attributes.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Callable[[str], Study], tuple[str]]:
        return _restore_study, (self.id,)

    def _restore_level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Restore a level from a results folder. A release has no content."""
        return Study.level(self, factor, name, entry) if factor.name == RELEASE \
            else self.single.level(factor, name, entry)

    def _combine_cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the cells of the study for each release."""
        own = list(self.single.cells({name: among for name, among in levels.items()
                                      if name != RELEASE}))
        for release in levels[RELEASE]:
            for cell in own:
                yield Cell({RELEASE: release, **cell.levels})

    def _describe_testbed(self, cell: Cell, settings: Settings) -> TestbedSpec:
        """Describe the testbed of a cell, on guests of its release."""
        return replace(self.single.testbed(_remove_release(cell), settings),
                       release=cell.ids[RELEASE])

    def warm_up_cell(self, cells: Sequence[Cell]) -> Cell:
        """Return the cell of the first repetition on a testbed, which has one release."""
        chosen = self.single.warm_up_cell([_remove_release(cell) for cell in cells])
        return Cell({RELEASE: cells[0].levels[RELEASE], **chosen.levels})

    def _list_notes(self, cells: Sequence[Cell], settings: Settings) -> Sequence[str]:
        """Return the study's notes on the measurement, each once."""
        own = {cell.name: cell for cell in map(_remove_release, cells)}
        return self.single.notes(list(own.values()), settings)

    def queueing_model(self, results: Results) -> Model | None:
        """Return the study's queueing model of the only measured release.

        Raises:
            QueueingError: Several releases were measured.
        """
        from analysis.queueing import QueueingError
        from analysis.reporting.release_report import split_releases

        parts = split_releases(results, self.single)
        if len(parts) > 1:
            raise QueueingError(
                "results", "several releases were measured, and a model is of one",
                "measure one of them in a folder of its own")
        return self.single.queueing_model(parts[0].results)

    def run_table(self, cells: Cells) -> Table:
        """Build the table of a run: the study's own tables of each release, as one."""
        from analysis.reporting import release_report

        return release_report.join_run_tables([
            (part, self.single.run_table(part.make_cells(cells)))
            for part in release_report.split_releases(cells.results, self.single)], cells)

    def _join_reports(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Build the study's report of each release, and the table of what changed."""
        from analysis.cells import Cells
        from analysis.reporting import release_report

        choice, before = release_report.split_baseline(options.get("baseline", ""))
        parts = release_report.split_releases(results, self.single)
        own = {**options, "baseline": choice}
        compared = StudyOnReleases(self.single, {RELEASE: before or parts[0].name})
        return release_report.join_reports(
            [(part, self.single.report(part.results, own)) for part in parts],
            Cells(results, choice), release_report.compare_with_release(results, compared))

    level, cells, testbed = _restore_level, _combine_cells, _describe_testbed
    notes, report = _list_notes, _join_reports
    # What is measured or evaluated equally on all releases.
    task = _call_single("task")
    unused_settings = _call_single("unused_settings")
    warm_up = _call_single("warm_up")
    expected_cost = _call_single("expected_cost")
    deadline_s = _call_single("deadline_s")
    check_clock = _call_single("check_clock")
    judge = _call_single("judge")
    required_metrics = _call_single("required_metrics")
    values = _call_single("values")
    make_synthetic_outcome = _call_single("make_synthetic_outcome")
    impossible_values = _call_single("impossible_values")
    samples = _call_single("samples")
    series = _call_single("series")
    parts = _call_single("parts")
    report_alone = _call_single("report_alone")


def _remove_release(value: Any) -> Any:
    """Return a cell or repetition without its release, as the study itself defines it.

    Other values are unchanged.
    """
    if isinstance(value, Repetition):
        return replace(value, cell=_remove_release(value.cell))
    if isinstance(value, Cell):
        return Cell({name: level for name, level in value.levels.items() if name != RELEASE})
    return value

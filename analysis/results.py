"""Read the results of a run into a data frame with a row per repetition, and add its plan.

A repetition is one measurement, and its record is a JSON file. `load` takes a results folder and
its study. It returns `Results` for reports: the values of all usable records with one clock, and
the stored plan (manifest), which has all that records lack. Nothing else is needed for a report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from analysis import records as reading
from analysis.circumstances import planned_air, select_clock
from analysis.measurements import NoResultsError, RecordSchema
from analysis.metrics import Metric
from analysis.records import Frame, RecordReader, RowLists
from analysis.statistics import Looks
from analysis.table import natural_key, to_printable
from measure.records.manifest import FILE, RELEASE, FactorRecord, LevelRecord, Manifest
from measure.records.record import Record, record_name


class AnalyzedStudy(RecordSchema, Protocol):
    """The properties of a study that the analysis uses, such as metrics and baseline.

    studies.study.Study implements it.
    """

    @property
    def title(self) -> str:
        """Return the title of the study."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of which every repetition has one value."""

    @property
    def distributions(self) -> tuple[Metric, ...]:
        """Return the metrics of which every repetition has a list of values."""

    @property
    def timelines(self) -> tuple[Metric, ...]:
        """Return the metrics of which every repetition has values over time."""

    @property
    def baseline(self) -> Mapping[str, str]:
        """Return, for each compared factor, the level that others are compared with."""

    @property
    def baseline_digests(self) -> Mapping[str, str]:
        """Return the digests of the baseline's levels, such as of its policy."""


@dataclass(frozen=True)
class Results:
    """The repetitions of a run, all measured with one clock, and the plan of the run.

    `complaints` has a line for each file that is not a usable record. `left_out` is a line about
    the records of another clock or air, "" where there are none. `name` is the folder's name.
    `manifest` (the stored plan) is None if the folder has none. `samples` and `series` have the
    lists of each row of the frame, by name. `digest` is the digest of plan and records. `notices`
    are facts that a reader must know, such as a broken seal. The code that reads the folder sets
    `digest` and `notices`. `record_prefix` is the beginning of all names of records, where these
    are the results of one Debian release of several.
    """

    study: AnalyzedStudy
    frame: Frame
    complaints: list[str] = field(default_factory=list)
    manifest: Manifest | None = None
    left_out: str = ""
    name: str = ""
    samples: RowLists = field(default_factory=list)
    series: RowLists = field(default_factory=list)
    digest: str = ""
    notices: tuple[str, ...] = ()
    record_prefix: str = ""

    @cached_property
    def air(self) -> str:
        """Return the model of the air: "dcf" (contention) or "queue", "" without a medium."""
        return str(max(self.frame["air"]))

    @cached_property
    def clock(self) -> str:
        """Return the clock of all repetitions, such as "real", "" where records do not name it."""
        return str(self.frame["clock"].iloc[0])

    @cached_property
    def good(self) -> Frame:
        """Return the repetitions with status ok. Only these count in a mean."""
        return self.frame[self.frame["status"] == "ok"]

    @cached_property
    def factors(self) -> tuple[FactorRecord, ...]:
        """Return the factors (varied properties) in the study's order."""
        if self.manifest is not None:
            return tuple(self.manifest.factors)
        return tuple(FactorRecord(name=factor.name, title=factor.title,
                                  is_number=factor.is_number, unit=factor.unit)
                     for factor in self.study.factors)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of the factors (varied properties), such as policy and scenario."""
        return tuple(factor.name for factor in self.factors)

    @cached_property
    def baseline_levels(self) -> Mapping[str, str]:
        """Return the baseline's level of each compared factor: the study's, or the profile's."""
        return {**self.study.baseline, **(self.manifest.baseline if self.manifest else {})}

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """Return the factors whose levels are compared with each other, such as the policy.

        These are the factors that the baseline names. If the baseline is empty, it is the first
        factor that is not the release.
        """
        chosen = tuple(name for name in self.names if name in self.baseline_levels)
        return chosen or tuple(name for name in self.names if name != RELEASE)[:1] or (
            self.names[:1])

    @cached_property
    def surroundings(self) -> tuple[str, ...]:
        """Return the factors that are not compared, such as the scenario.

        Policies are compared within one scenario, for instance.
        """
        return tuple(name for name in self.names if name not in self.compared)

    @cached_property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the ids of every factor's levels, such as of all policies.

        Levels of the plan come first, then levels that only records have.
        """
        return {name: tuple(dict.fromkeys((*self._planned_levels(name), *sorted(
            set(self.frame[name].unique()) - set(self._planned_levels(name)), key=natural_key))))
            for name in self.names}

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """Return all planned or measured combinations, such as one policy in one scenario."""
        planned = map(tuple, self.manifest.cells) if self.manifest else ()
        ids = {*planned, *zip(*(self.frame[name].tolist() for name in self.names), strict=True)}
        return tuple(sorted(ids, key=self._sort_key))

    @cached_property
    def repetitions(self) -> int:
        """Return how many repetitions of each combination were planned, or 0 if unknown."""
        value = self.manifest.settings.get("repetitions") if self.manifest else None
        return value if isinstance(value, int) else 0

    @cached_property
    def planned_looks(self) -> Looks | None:
        """Return after which numbers of repetitions a run with `--until-decided` may stop.

        At each of these planned looks, the claims are tested. The result is None for other runs.
        """
        counts = self.manifest.settings.get("looks") if self.manifest else None
        return Looks(tuple(counts)) if counts else None

    @cached_property
    def wires(self) -> str:
        """Return a description of what wires do to packets (rate, delay), or "" if unknown."""
        return "; ".join(map(to_printable, self.manifest.wires)) if self.manifest else ""

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Return the settings of the study's workload as text, by name.

        The mapping is empty if they are unknown.
        """
        settings = self.manifest.asked if self.manifest else {}
        return {to_printable(name): to_printable(value if isinstance(value, str)
                                                 else json.dumps(value))
                for name, value in settings.items()}

    def find_level(self, factor: str, name: str) -> LevelRecord | None:
        """Return a level (such as one policy) from the plan, or None."""
        levels = self.manifest.levels.get(factor, {}) if self.manifest else {}
        return levels.get(name)

    def level_title(self, factor: str, name: str) -> str:
        """Return the title of a level (such as one policy), or "" if it has none.

        The title of a Debian release names the daemons of another release (`--daemon`), too.
        """
        level = self.find_level(factor, name)
        title = to_printable(level.title) if level else ""
        if factor != RELEASE:
            return title
        daemons = self.daemons_by_release.get(name, "")
        return f"{title or name} with {daemons}" if daemons else title

    @cached_property
    def daemons_by_release(self) -> Mapping[str, str]:
        """Return the daemons of another release in the records of each release, as text."""
        if RELEASE not in self.frame:
            return {}
        pairs = dict.fromkeys(zip(self.frame[RELEASE], self.frame["daemons"], strict=True))
        return {release: "; ".join(text for name, text in pairs if name == release and text)
                for release, _ in pairs}

    def level_heading(self, ids: Sequence[str], factors: Sequence[str]) -> str:
        """Return a heading from the ids and titles of levels, such as a scenario's name."""
        return ", ".join(f"{name}: {title}" if (title := self.level_title(factor, name)) else name
                         for factor, name in zip(factors, ids, strict=True))

    def level_number(self, factor: str, name: str) -> float | None:
        """Return the number that a level of a numeric factor stands for, such as 4 servers.

        Without a number in the plan, the level's name is read as a number. None is returned if the
        name is not a number.
        """
        level = self.find_level(factor, name)
        if level is not None and level.number is not None:
            return level.number
        try:
            return float(name)
        except ValueError:
            return None

    def record_name(self, ids: Sequence[str], repetition: int) -> str:
        """Return the name of a repetition's record, from the ids of its levels."""
        return f"{self.record_prefix}{record_name(ids, repetition)}"

    def select_levels(self, ids: Sequence[str], factors: Sequence[str]) -> tuple[str, ...]:
        """Return the levels of some factors in a cell, such as only its scenario."""
        return tuple(ids[self.names.index(name)] for name in factors)

    @cached_property
    def changed(self) -> Mapping[str, frozenset[str]]:
        """Return the levels (such as policies) whose content changed between plan and records."""
        changed = {}
        for factor in self.names:
            pairs = set(zip(self.frame[factor], self.frame[f"{factor}_sha256"], strict=True))
            changed[factor] = frozenset(
                name for name, digest in pairs if digest
                and (level := self.find_level(factor, name))
                and level.digest != digest)
        return changed

    def _planned_levels(self, factor: str) -> tuple[str, ...]:
        return tuple(self.manifest.levels.get(factor, {})) if self.manifest else ()

    def _sort_key(self, ids: tuple[str, ...]) -> tuple[int, ...]:
        order = [self.levels[name].index(ids[self.names.index(name)])
                 for name in (*self.surroundings, *self.compared)]
        return tuple(order)


def load(folder: Path, study: AnalyzedStudy, manifest: Manifest | None,
         reader: RecordReader) -> Results:
    """Read the results in a folder, with every usable record.

    A file that is damaged, foreign, a copy, or has impossible numbers is left out, and the result
    has a complaint about it. If records are of two clocks, those of one clock are left out (see
    analysis.circumstances.select_clock). Likewise, only records of one model of the medium are
    used.

    Args:
        folder: The results folder, or its folder `records/`.
        study: The study of the records.
        manifest: The plan, None if the folder has none.
        reader: Reads one record.

    Raises:
        NoResultsError: The folder does not exist or has no usable record.
    """
    if not folder.is_dir():
        raise NoResultsError(f"{folder}: no such folder; give a results folder, or measure "
                             "with './qop run'")
    records = folder / "records" if (folder / "records").is_dir() else folder
    paths = sorted(path for path in records.glob("*.json") if path.name != FILE)
    table = reading.read_records(paths, study, reader)
    if table.frame is None and table.complaints:
        raise NoResultsError(f"{records}: none of its {len(paths)} files is a record that can be "
                             f"used; the first: {table.complaints[0]}")
    if table.frame is None:
        raise NoResultsError(f"{records}: holds no records yet; measure with "
                             f"'./qop run --out {folder}', or give another results folder")
    return replace(_make_results(table, study, manifest), name=folder.resolve().name)


def from_records(records: Sequence[Record], study: AnalyzedStudy,
                 manifest: Manifest | None = None) -> Results:
    """Return results made from records in memory.

    Raises:
        NoResultsError: There is no record.
        RecordError: No table can use one of the records.
    """
    if not records:
        raise NoResultsError("nothing was measured; there is no table to show")
    return _make_results(reading.from_records(records, study), study, manifest)


def _make_results(table: reading.RecordTable, study: AnalyzedStudy,
                  manifest: Manifest | None) -> Results:
    frame = table.frame
    if frame is None:
        raise NoResultsError("nothing was measured; there is no table to show")
    results = Results(study, frame, table.complaints, manifest, samples=table.samples,
                      series=table.series)
    # Sort rows by surroundings, then by compared levels, then by repetition.
    place = {ids: rank for rank, ids in enumerate(results.cells)}
    cells = list(zip(*(frame[name].tolist() for name in results.names), strict=True))
    ranks = np.array([place[ids] for ids in cells])
    order = np.lexsort((frame["repetition"].to_numpy(), ranks))
    ordered = frame.iloc[order].reset_index(drop=True)
    planned = str(manifest.settings.get("clock") or "") if manifest else ""
    chosen, left_out = select_clock(ordered, planned, _record_namer(results.names))
    chosen, other_air = select_clock(chosen, planned_air(manifest), _record_namer(results.names),
                                     column="air")
    rows = order[chosen.index.to_numpy()]
    return replace(results, frame=chosen.reset_index(drop=True),
                   left_out=" ".join(line for line in (left_out, other_air) if line),
                   samples=[table.samples[row] for row in rows],
                   series=[table.series[row] for row in rows])


def record_names(rows: Frame, names: Sequence[str], prefix: str = "") -> list[str]:
    """Return the names of the records in some rows of the data frame."""
    columns = [rows[name].tolist() for name in (*names, "repetition")]
    return [f"{prefix}{record_name(levels, int(number))}"
            for *levels, number in zip(*columns, strict=True)]


def _record_namer(names: Sequence[str]) -> Callable[[Frame], list[str]]:
    return lambda rows: record_names(rows, names)

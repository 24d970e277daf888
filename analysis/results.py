"""Results of a run: the frame of repetitions, and the manifest's levels and settings.

A results folder is sufficient for a report: the manifest has all that the records lack.
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
from analysis.air import planned_air
from analysis.bodies import Body
from analysis.clock import select_clock
from analysis.errors import NothingToReport
from analysis.metrics import Metric
from analysis.records import Frame, Lists, Reader
from analysis.text import natural_key, to_printable
from measure.manifest import FILE, FactorRecord, LevelRecord, Manifest
from measure.record import Record, record_name


class StudyParts(Body, Protocol):
    """The part of a study that the analysis uses.

    studies.study.Study implements it.
    """

    @property
    def title(self) -> str:
        """Return the title of the study."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics that every repetition provides."""

    @property
    def distributions(self) -> tuple[Metric, ...]:
        """Return the metrics of which a repetition has a list of values."""

    @property
    def timelines(self) -> tuple[Metric, ...]:
        """Return the metrics of which a repetition has values over time."""

    @property
    def baseline(self) -> Mapping[str, str]:
        """Return the baseline level of each compared factor."""

    @property
    def baseline_digests(self) -> Mapping[str, str]:
        """Return the digests of the baseline levels."""


@dataclass(frozen=True)
class Results:
    """The repetitions of a run, all of one clock, with the plan.

    `complaints` has a line for each file that is not a usable record. `left_out` is a line about
    the records of another clock or air, "" where there are none. `name` is the folder's name.
    `manifest` is None if the folder has none. `samples` and `series` have the lists of each row of
    the frame, by name. `digest` is the digest of plan and records. `notices` are facts that a
    reader must know, such as a broken seal. The code that reads the folder sets `digest` and
    `notices`.
    """

    study: StudyParts
    frame: Frame
    complaints: list[str] = field(default_factory=list)
    manifest: Manifest | None = None
    left_out: str = ""
    name: str = ""
    samples: Lists = field(default_factory=list)
    series: Lists = field(default_factory=list)
    digest: str = ""
    notices: tuple[str, ...] = ()

    @cached_property
    def air(self) -> str:
        """Return the air of the repetitions: "dcf" or "queue", or "" without a medium."""
        return str(max(self.frame["air"]))

    @cached_property
    def clock(self) -> str:
        """Return the clock of all repetitions, "" where records do not name it."""
        return str(self.frame["clock"].iloc[0])

    @cached_property
    def good(self) -> Frame:
        """Return the repetitions with status ok, which are the only ones in a mean."""
        return self.frame[self.frame["status"] == "ok"]

    @cached_property
    def factors(self) -> tuple[FactorRecord, ...]:
        """Return the factors in the study's order."""
        if self.manifest is not None:
            return tuple(self.manifest.factors)
        return tuple(FactorRecord(name=factor.name, title=factor.title,
                                  is_number=factor.is_number, unit=factor.unit)
                     for factor in self.study.factors)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of the factors."""
        return tuple(factor.name for factor in self.factors)

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """Return the factors whose levels are compared: those of the baseline.

        Without such a factor, the first factor is compared.
        """
        chosen = tuple(name for name in self.names if name in self.study.baseline)
        return chosen or self.names[:1]

    @cached_property
    def surroundings(self) -> tuple[str, ...]:
        """Return the factors that are not compared.

        Levels are compared within one combination of the levels of these factors.
        """
        return tuple(name for name in self.names if name not in self.compared)

    @cached_property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """Return the ids of every factor's levels: the plan's, then those only in records."""
        return {name: tuple(dict.fromkeys((*self._planned_levels(name), *sorted(
            set(self.frame[name].unique()) - set(self._planned_levels(name)), key=natural_key))))
            for name in self.names}

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """Return all planned or measured cells by surroundings and compared levels."""
        planned = map(tuple, self.manifest.cells) if self.manifest else ()
        ids = {*planned, *zip(*(self.frame[name].tolist() for name in self.names), strict=True)}
        return tuple(sorted(ids, key=self._sort_key))

    @cached_property
    def repetitions(self) -> int:
        """Return the planned number of repetitions per cell, or 0 if unknown."""
        value = self.manifest.settings.get("repetitions") if self.manifest else None
        return value if isinstance(value, int) else 0

    @cached_property
    def wires(self) -> str:
        """Return a description of the wires' effects on packets, or "" if none or unknown."""
        return "; ".join(map(to_printable, self.manifest.wires)) if self.manifest else ""

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Return the settings of the workload as text, by name.

        The mapping is empty if they are unknown.
        """
        asked = self.manifest.asked if self.manifest else {}
        return {to_printable(name): to_printable(value if isinstance(value, str)
                                                 else json.dumps(value))
                for name, value in asked.items()}

    def find_level(self, factor: str, name: str) -> LevelRecord | None:
        """Return the manifest's entry of a level, or None."""
        levels = self.manifest.levels.get(factor, {}) if self.manifest else {}
        return levels.get(name)

    def level_title(self, factor: str, name: str) -> str:
        """Return the title of a level, or "" if it has none."""
        level = self.find_level(factor, name)
        return to_printable(level.title) if level else ""

    def level_heading(self, ids: Sequence[str], factors: Sequence[str]) -> str:
        """Return levels as a heading: their ids, each with its title."""
        return ", ".join(f"{name}: {title}" if (title := self.level_title(factor, name)) else name
                         for factor, name in zip(factors, ids, strict=True))

    def level_number(self, factor: str, name: str) -> float | None:
        """Return the value of a numeric factor's level, or None for other levels."""
        level = self.find_level(factor, name)
        if level is not None and level.number is not None:
            return level.number
        try:
            return float(name)
        except ValueError:
            return None

    def select_levels(self, ids: Sequence[str], factors: Sequence[str]) -> tuple[str, ...]:
        """Return the levels of some factors in a cell."""
        return tuple(ids[self.names.index(name)] for name in factors)

    @cached_property
    def changed(self) -> Mapping[str, frozenset[str]]:
        """Return by factor the levels whose records differ in content from the manifest's level."""
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


def load(folder: Path, study: StudyParts, manifest: Manifest | None, reader: Reader) -> Results:
    """Return the results of a folder, with every usable record.

    A file that is damaged, foreign, a copy, or has impossible numbers becomes a complaint. If
    records are of two clocks, those of one are left out (see analysis.clock.select_clock). The same
    applies to two airs.

    Args:
        folder: The results folder, or its folder `records/`.
        study: The study of the records.
        manifest: The plan, None if the folder has none.
        reader: Reads one record.

    Raises:
        NothingToReport: The folder does not exist or has no usable record.
    """
    if not folder.is_dir():
        raise NothingToReport(f"{folder}: no such folder; give a results folder, or measure "
                              "with './qop run'")
    records = folder / "records" if (folder / "records").is_dir() else folder
    paths = sorted(path for path in records.glob("*.json") if path.name != FILE)
    table = reading.read_records(paths, study, reader)
    if table.frame is None and table.complaints:
        raise NothingToReport(f"{records}: none of its {len(paths)} files is a record that can be "
                              f"used; the first: {table.complaints[0]}")
    if table.frame is None:
        raise NothingToReport(f"{records}: holds no records yet; measure with "
                              f"'./qop run --out {folder}', or give another results folder")
    return replace(_make_results(table, study, manifest), name=folder.resolve().name)


def from_records(records: Sequence[Record], study: StudyParts,
                 manifest: Manifest | None = None) -> Results:
    """Return the results of records in memory.

    Raises:
        NothingToReport: There is no record.
        RecordError: No table can use one of the records.
    """
    if not records:
        raise NothingToReport("nothing was measured; there is no table to show")
    return _make_results(reading.from_records(records, study), study, manifest)


def _make_results(table: reading.RecordTable, study: StudyParts,
                  manifest: Manifest | None) -> Results:
    frame = table.frame
    if frame is None:
        raise NothingToReport("nothing was measured; there is no table to show")
    whole = Results(study, frame, table.complaints, manifest, samples=table.samples,
                    series=table.series)
    # Sort rows by surroundings, then by compared levels, then by repetition.
    place = {ids: rank for rank, ids in enumerate(whole.cells)}
    cells = list(zip(*(frame[name].tolist() for name in whole.names), strict=True))
    ranks = np.array([place[ids] for ids in cells])
    order = np.lexsort((frame["repetition"].to_numpy(), ranks))
    ordered = frame.iloc[order].reset_index(drop=True)
    planned = str(manifest.settings.get("clock") or "") if manifest else ""
    chosen, left_out = select_clock(ordered, planned, _record_namer(whole.names))
    chosen, other_air = select_clock(chosen, planned_air(manifest), _record_namer(whole.names),
                                     column="air")
    rows = order[chosen.index.to_numpy()]
    return replace(whole, frame=chosen.reset_index(drop=True),
                   left_out=" ".join(line for line in (left_out, other_air) if line),
                   samples=[table.samples[row] for row in rows],
                   series=[table.series[row] for row in rows])


def record_names(rows: Frame, names: Sequence[str]) -> list[str]:
    """Return the names of the records of some rows."""
    columns = [rows[name].tolist() for name in (*names, "repetition")]
    return [record_name(levels, int(number)) for *levels, number in zip(*columns, strict=True)]


def _record_namer(names: Sequence[str]) -> Callable[[Frame], list[str]]:
    return lambda rows: record_names(rows, names)

"""The results of a run: its frame of repetitions, and what its folder says of levels and settings.

A results folder suffices: whatever a report needs beside the records, its manifest holds.
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
from analysis.clock import separated
from analysis.errors import NothingToReport
from analysis.metrics import Metric
from analysis.records import Frame, Lists, Reader
from analysis.text import natural, printable
from measure.manifest import FILE, FactorRecord, LevelRecord, Manifest
from measure.record import Record, record_name


class StudyParts(Body, Protocol):
    """What analysis is handed of a study; studies.study.Study has it all, and says what it is."""

    @property
    def title(self) -> str:
        """What it is called."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The numbers that every repetition hands up."""

    @property
    def distributions(self) -> tuple[Metric, ...]:
        """The lists that a record's body holds."""

    @property
    def timelines(self) -> tuple[Metric, ...]:
        """The values over time that it holds."""

    @property
    def baseline(self) -> Mapping[str, str]:
        """The level of each factor that differences are taken to."""

    @property
    def baseline_digests(self) -> Mapping[str, str]:
        """The digests of these levels."""


@dataclass(frozen=True)
class Results:
    """A run's repetitions, all of one clock; what is no record, and what was planned.

    `complaints` has a line for each file that is no record. `left_out` is a line about the records
    of another clock, "" where there are none; `name` is the folder's. `manifest` is None where a
    folder has none. `samples` and `series` have the lists of each row of the frame, by name.
    `digest` is that of plan and records, and `notices` are what a reader must know of them, such as
    a broken seal; both as whoever read the folder found them.
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
        """Who let stations take turns in all repetitions: dcf, queue, or "" without a medium."""
        return str(max(self.frame["air"]))

    @cached_property
    def clock(self) -> str:
        """The clock of all repetitions: real, virtual, or "" where records do not say."""
        return str(self.frame["clock"].iloc[0])

    @cached_property
    def good(self) -> Frame:
        """The repetitions that count: only these enter any mean."""
        return self.frame[self.frame["status"] == "ok"]

    @cached_property
    def factors(self) -> tuple[FactorRecord, ...]:
        """What was varied, in the study's order."""
        if self.manifest is not None:
            return tuple(self.manifest.factors)
        return tuple(FactorRecord(name=factor.name, title=factor.title,
                                  is_number=factor.is_number, unit=factor.unit)
                     for factor in self.study.factors)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the factors."""
        return tuple(factor.name for factor in self.factors)

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The factors whose levels are compared with each other: those of the baseline."""
        chosen = tuple(name for name in self.names if name in self.study.baseline)
        return chosen or self.names[:1]

    @cached_property
    def surroundings(self) -> tuple[str, ...]:
        """All other factors: levels are compared within one level of each of these."""
        return tuple(name for name in self.names if name not in self.compared)

    @cached_property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """The ids of every factor's levels: the plan's order, then what only records have."""
        return {name: tuple(dict.fromkeys((*self._planned(name), *sorted(
            set(self.frame[name].unique()) - set(self._planned(name)), key=natural))))
            for name in self.names}

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """Every cell, planned or measured, by surroundings first and then by what is compared."""
        planned = map(tuple, self.manifest.cells) if self.manifest else ()
        ids = {*planned, *zip(*(self.frame[name].tolist() for name in self.names), strict=True)}
        return tuple(sorted(ids, key=self._place))

    @cached_property
    def repetitions(self) -> int:
        """How many repetitions of a cell were planned; 0 where nobody knows."""
        value = self.manifest.settings.get("repetitions") if self.manifest else None
        return value if isinstance(value, int) else 0

    @cached_property
    def wires(self) -> str:
        """What the wires do to packets, in words; "" where they do nothing, or nobody knows."""
        return "; ".join(map(printable, self.manifest.wires)) if self.manifest else ""

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """What the workload was asked for, in words by name; none where nobody knows."""
        asked = self.manifest.asked if self.manifest else {}
        return {printable(name): printable(value if isinstance(value, str) else json.dumps(value))
                for name, value in asked.items()}

    def level(self, factor: str, name: str) -> LevelRecord | None:
        """What the manifest says of a level; None where it does not."""
        levels = self.manifest.levels.get(factor, {}) if self.manifest else {}
        return levels.get(name)

    def title(self, factor: str, name: str) -> str:
        """The title of a level, "" where nobody gave one."""
        level = self.level(factor, name)
        return printable(level.title) if level else ""

    def heading(self, ids: Sequence[str], factors: Sequence[str]) -> str:
        """Levels as a heading: their ids, each with its title where it has one."""
        return ", ".join(f"{name}: {title}" if (title := self.title(factor, name)) else name
                         for factor, name in zip(factors, ids, strict=True))

    def number(self, factor: str, name: str) -> float | None:
        """Where a level stands on the axis of a numeric factor."""
        level = self.level(factor, name)
        if level is not None and level.number is not None:
            return level.number
        try:
            return float(name)
        except ValueError:
            return None

    def part(self, ids: Sequence[str], factors: Sequence[str]) -> tuple[str, ...]:
        """The levels of some factors in a cell."""
        return tuple(ids[self.names.index(name)] for name in factors)

    @cached_property
    def changed(self) -> Mapping[str, frozenset[str]]:
        """By factor, levels whose records are of another content than the manifest's level."""
        changed = {}
        for factor in self.names:
            pairs = set(zip(self.frame[factor], self.frame[f"{factor}_sha256"], strict=True))
            changed[factor] = frozenset(
                name for name, digest in pairs if digest and (level := self.level(factor, name))
                and level.digest != digest)
        return changed

    def _planned(self, factor: str) -> tuple[str, ...]:
        return tuple(self.manifest.levels.get(factor, {})) if self.manifest else ()

    def _place(self, ids: tuple[str, ...]) -> tuple[int, ...]:
        order = [self.levels[name].index(ids[self.names.index(name)])
                 for name in (*self.surroundings, *self.compared)]
        return tuple(order)


def load(folder: Path, study: StudyParts, manifest: Manifest | None, reader: Reader) -> Results:
    """Every record of a results folder (or of its `records/`); raises NothingToReport.

    A file that is damaged, foreign, a copy, or holds impossible numbers becomes a complaint. Of
    records of two clocks, those of one are left out (analysis.clock says which); of two airs, too.
    """
    if not folder.is_dir():
        raise NothingToReport(f"{folder}: no such folder; give a results folder, or measure "
                              "with './qop run'")
    records = folder / "records" if (folder / "records").is_dir() else folder
    paths = sorted(path for path in records.glob("*.json") if path.name != FILE)
    table = reading.read(paths, study, reader)
    if table.frame is None and table.complaints:
        raise NothingToReport(f"{records}: none of its {len(paths)} files is a record that can be "
                              f"used; the first: {table.complaints[0]}")
    if table.frame is None:
        raise NothingToReport(f"{records}: holds no records yet; measure with "
                              f"'./qop run --out {folder}', or give another results folder")
    return replace(_results(table, study, manifest), name=folder.resolve().name)


def from_records(records: Sequence[Record], study: StudyParts,
                 manifest: Manifest | None = None) -> Results:
    """The same from records in memory; raises RecordError for one that cannot be."""
    if not records:
        raise NothingToReport("nothing was measured; there is no table to show")
    return _results(reading.from_records(records, study), study, manifest)


def _results(table: reading.RecordTable, study: StudyParts, manifest: Manifest | None) -> Results:
    frame = table.frame
    if frame is None:
        raise NothingToReport("nothing was measured; there is no table to show")
    whole = Results(study, frame, table.complaints, manifest, samples=table.samples,
                    series=table.series)
    # Rows stand by surroundings, then by what is compared, then by repetition.
    place = {ids: rank for rank, ids in enumerate(whole.cells)}
    cells = list(zip(*(frame[name].tolist() for name in whole.names), strict=True))
    ranks = np.array([place[ids] for ids in cells])
    order = np.lexsort((frame["repetition"].to_numpy(), ranks))
    ordered = frame.iloc[order].reset_index(drop=True)
    planned = str(manifest.settings.get("clock") or "") if manifest else ""
    chosen, left_out = separated(ordered, planned, _naming(whole.names))
    chosen, other_air = separated(chosen, planned_air(manifest), _naming(whole.names),
                                  column="air")
    rows = order[chosen.index.to_numpy()]
    return replace(whole, frame=chosen.reset_index(drop=True),
                   left_out=" ".join(line for line in (left_out, other_air) if line),
                   samples=[table.samples[row] for row in rows],
                   series=[table.series[row] for row in rows])


def record_names(rows: Frame, names: Sequence[str]) -> list[str]:
    """The names of the records of some rows."""
    columns = [rows[name].tolist() for name in (*names, "repetition")]
    return [record_name(levels, int(number)) for *levels, number in zip(*columns, strict=True)]


def _naming(names: Sequence[str]) -> Callable[[Frame], list[str]]:
    return lambda rows: record_names(rows, names)

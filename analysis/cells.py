"""Cells of a run with estimates of all values.

An estimate has an interval, the values by block and the names of the records. Each number is
estimated once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from analysis import baseline, statistics
from analysis.metrics import Metric
from analysis.results import Results
from analysis.standing import CountedRepetition, Missing, Standing, not_run_standing, standing_of
from analysis.statistics import Estimate, Sample
from measure.record import record_name

#: Ids of a cell's levels in the order of the factors (`Ids`). A `Key` has a value's name first.
Ids: TypeAlias = tuple[str, ...]
Key: TypeAlias = tuple[str, ...]
Origin = Literal["measured", "published", "modelled"]


@dataclass(frozen=True)
class Observation:
    """A value of a cell with its source.

    It has an estimate, the values by block, and the names of the records. Published and modelled
    values have neither blocks nor records.
    """

    estimate: Estimate
    blocks: Mapping[int, float] = field(default_factory=dict)
    records: tuple[str, ...] = ()
    origin: Origin = "measured"


Value: TypeAlias = Observation | Missing


def stated_observation(value: float, origin: Origin) -> Observation:
    """Return a published or modelled value as an observation without an interval."""
    return Observation(Estimate(value, None, None, 0), origin=origin)


@dataclass(frozen=True)
class _Rows:
    """Row numbers of a cell in the frame.

    `all` are the rows of all repetitions, `good` those of the good ones with their blocks and
    records.
    """

    all: np.ndarray[tuple[int], np.dtype[np.intp]]
    good: np.ndarray[tuple[int], np.dtype[np.intp]]
    blocks: tuple[int, ...]
    records: tuple[str, ...]


class Cells:
    """The cells of a run with all estimated values."""

    def __init__(self, results: Results, baseline_choice: str = "") -> None:
        self.results = results
        self.baseline = baseline.choose_baseline(results, baseline_choice)
        self._columns: dict[str, Sample] = {}
        self._words: dict[str, list[Any]] = {}
        self._blocks: dict[Key, Mapping[int, float]] = {}
        self._any: dict[Key, Observation | None] = {}
        self._values: dict[tuple[Key, bool], Value] = {}
        self._standings: dict[Ids, Standing] = {}

    @cached_property
    def sections(self) -> dict[Ids, tuple[Ids, ...]]:
        """Return the cells of each combination of surroundings, in the run's order."""
        sections: dict[Ids, list[Ids]] = {}
        for ids in self.results.cells:
            sections.setdefault(self.results.select_levels(ids, self.results.surroundings),
                                []).append(ids)
        return {section: tuple(cells) for section, cells in sections.items()}

    @cached_property
    def observations(self) -> Mapping[Key, Observation]:
        """Return the metrics and baseline differences of all cells that have a number."""
        values = {(metric.name, *ids): self.value(metric.name, ids)
                  for metric in self.results.study.metrics for ids in self.results.cells}
        values |= {(metric.difference.name, *ids): self.difference(metric, ids)
                   for metric in self.results.study.metrics if metric.difference
                   for ids in self.results.cells}
        return {key: value for key, value in values.items() if isinstance(value, Observation)}

    def section_heading(self, section: Ids) -> str:
        """Return the heading above the rows of some surroundings, or "" without surroundings."""
        return self.results.level_heading(section, self.results.surroundings)

    def value(self, name: str, ids: Ids, *, filled: bool = False) -> Value:
        """Return a value of a cell, by the name of its column.

        Args:
            name: Name of the column.
            ids: Ids of the cell's levels.
            filled: Count 0 for a good repetition that lacks the value. This suits parts of a sum,
                because a part that one repetition lacks took no time in it.

        Returns:
            The observation, or the reason why there is none. A value that no repetition has is
            absent also if `filled`.
        """
        key = ((name, *ids), filled)
        if key not in self._values:
            self._values[key] = self._estimate(name, ids, filled=filled)
        return self._values[key]

    def find_value(self, name: str, ids: Ids) -> Observation | None:
        """Return the observation of a cell, or None without a value or without the cell."""
        value = self.value(name, ids) if ids in self.results.cells else None
        return value if isinstance(value, Observation) else None

    def difference(self, metric: Metric, ids: Ids) -> Value:
        """Return a metric's difference from the baseline within blocks: positive is worse."""
        key = ((f"{metric.name} difference", *ids), False)
        if key not in self._values:
            self._values[key] = self._estimate_difference(metric, ids)
        return self._values[key]

    def _estimate_difference(self, metric: Metric, ids: Ids) -> Value:
        reference = self.baseline.baseline_cell(self.results, ids)
        value = self.value(metric.name, ids)
        if value is Missing.ABSENT:
            return value
        if self.baseline.is_baseline(self.results, ids):
            return Missing.REFERENCE
        if isinstance(value, Missing):
            return value
        known = self.value(metric.name, reference) if reference else Missing.NO_BASELINE
        base = self.values_by_block(metric.name, reference) if reference else {}
        common = sorted(base.keys() & value.blocks.keys())
        if not common:
            return Missing.NO_BASELINE
        if len(common) < self.standing(ids).enough:
            return Missing.TOO_FEW
        sign = -1.0 if metric.better == "lower" else 1.0
        pairs = {block: sign * (base[block] - value.blocks[block]) for block in common}
        records = () if isinstance(known, Missing) else known.records
        return Observation(statistics.mean(pairs.values()), pairs,
                           tuple(dict.fromkeys((*value.records, *records))))

    def sample(self, name: str, ids: Ids) -> Sample:
        """Return the values of the good repetitions of a cell, with NaN for missing values."""
        rows = self._rows.get(ids)
        return self._load_column(name)[rows.good] if rows else np.empty(0)

    def mean_of_any(self, name: str, ids: Ids) -> Observation | None:
        """Return the mean over all good repetitions that have the value, however few they are.

        The result is None if no repetition has the value.
        """
        if (name, *ids) not in self._any:
            blocks = self.values_by_block(name, ids)
            self._any[name, *ids] = Observation(
                statistics.mean(blocks.values()), blocks,
                tuple(record_name(ids, block) for block in blocks)) if blocks else None
        return self._any[name, *ids]

    def find_words(self, name: str, ids: Ids) -> list[str]:
        """Return a column of words for the good repetitions of a cell."""
        rows = self._rows.get(ids)
        frame = self.results.frame
        if rows is None or name not in frame:
            return []
        if name not in self._words:
            self._words[name] = frame[name].tolist()
        return [str(self._words[name][row]) for row in rows.good.tolist()]

    def good_rows(self, ids: Ids) -> list[int]:
        """Return the row numbers of a cell's good repetitions in the frame."""
        rows = self._rows.get(ids)
        return rows.good.tolist() if rows else []

    def record_names(self, ids: Ids) -> tuple[str, ...]:
        """Return the names of the records of a cell's good repetitions."""
        rows = self._rows.get(ids)
        return rows.records if rows else ()

    def standing(self, ids: Ids) -> Standing:
        """Return how many repetitions of a cell are good, and why others are not."""
        if ids not in self._standings:
            self._standings[ids] = self._find_standing(ids)
        return self._standings[ids]

    def describe_failures(self) -> Iterator[str]:
        """Yield a line for each reason why repetitions of a cell do not count."""
        for ids in self.results.cells:
            yield from (f"{self.cell_name(ids)}: {line}" for line in self.standing(ids).failures)

    def cell_name(self, ids: Ids) -> str:
        """Return the name of a cell for a sentence: the compared levels, "in" the surroundings."""
        return " in ".join(", ".join(self.results.select_levels(ids, factors)) for factors in
                           (self.results.compared, self.results.surroundings) if factors)

    @cached_property
    def _rows(self) -> dict[Ids, _Rows]:
        frame, names = self.results.frame, self.results.names
        cells: dict[Ids, list[int]] = {}
        for row, ids in enumerate(zip(*(frame[name].tolist() for name in names), strict=True)):
            cells.setdefault(ids, []).append(row)
        ok = (frame["status"] == "ok").to_numpy()
        repetitions = frame["repetition"].tolist()
        rows = {}
        for ids, every in cells.items():
            good = [row for row in every if ok[row]]
            rows[ids] = _Rows(np.array(every, dtype=np.intp), np.array(good, dtype=np.intp),
                              tuple(repetitions[row] for row in good),
                              tuple(record_name(ids, repetitions[row]) for row in good))
        return rows

    @cached_property
    def _standing_columns(self) -> list[list[Any]]:
        return [self.results.frame[name].tolist()
                for name in ("status", "reason", "repetition", "verified", "checks",
                             "unchecked")]

    def _load_column(self, name: str) -> Sample:
        if name not in self._columns:
            frame = self.results.frame
            self._columns[name] = frame[name].to_numpy(dtype=np.float64) if name in frame \
                else np.full(len(frame), np.nan)
        return self._columns[name]

    def values_by_block(self, name: str, ids: Ids) -> Mapping[int, float]:
        """Return the values of a cell's good repetitions by block, without missing values.

        The number of a block is the number of the repetition.
        """
        if (name, *ids) not in self._blocks:
            self._blocks[name, *ids] = self._find_block_values(name, ids)
        return self._blocks[name, *ids]

    def _find_block_values(self, name: str, ids: Ids) -> dict[int, float]:
        rows = self._rows.get(ids)
        if rows is None:
            return {}
        values = self._load_column(name)[rows.good]
        there = np.isfinite(values)
        blocks = dict(zip(rows.blocks, values.tolist(), strict=True))
        if there.all():
            return blocks
        return {block: blocks[block]
                for block, is_there in zip(rows.blocks, there.tolist(), strict=True) if is_there}

    def _estimate(self, name: str, ids: Ids, *, filled: bool) -> Value:
        standing = self.standing(ids)
        if standing.missing is not None:
            return standing.missing
        blocks, records = self.values_by_block(name, ids), self._rows[ids].records
        if not blocks:
            return Missing.ABSENT
        if filled:
            blocks = {block: blocks.get(block, 0.0) for block in self._rows[ids].blocks}
        if len(blocks) < standing.enough:
            return Missing.TOO_FEW
        if len(blocks) < len(records):
            records = tuple(record for record, block in
                            zip(records, self._rows[ids].blocks, strict=True) if block in blocks)
        return Observation(statistics.mean(blocks.values()), blocks, records)

    def _find_standing(self, ids: Ids) -> Standing:
        rows = self._rows.get(ids)
        if rows is None:
            return not_run_standing(self.results.repetitions)
        columns = zip(*([column[row] for row in rows.all.tolist()]
                        for column in self._standing_columns),
                      strict=True)
        return standing_of([CountedRepetition(*row) for row in columns], self.results.repetitions)

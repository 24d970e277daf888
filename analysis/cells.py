"""Compute the mean of every metric for each measured cell, and its difference from a baseline.

A cell is a measured combination, such as one policy in one scenario. The baseline is the cell that
others are compared with, such as the policy without protection. `Cells` takes the results of a run
(`analysis.results`). It estimates each number of a report once, with its confidence interval, and
with the names of the records that the number comes from. `choose_baseline` returns the baseline
that the user or the study names. If that one has no records, it finds a substitute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from analysis import statistics
from analysis.cell_status import (
    CellStatus,
    CountedRepetition,
    MissingReason,
    find_cell_status,
    not_run_status,
)
from analysis.measurements import NoResultsError
from analysis.metrics import Metric
from analysis.results import Results
from analysis.statistics import Estimate, Sample
from measure.records.manifest import RELEASE

# --- Baseline: the level that other levels of a run are compared with ---

@dataclass(frozen=True)
class Baseline:
    """The levels that others are compared with, such as the policy without protection.

    `levels` has a level for each compared factor, and is empty if there is no baseline. `note` says
    what is unusual about the baseline. `is_chosen` says that the only unusual thing is the choice
    of the user or of the profile, so the note is no warning.
    """

    levels: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    is_chosen: bool = False

    @property
    def name(self) -> str:
        """Return the name of the baseline, such as the policy that others are compared with."""
        return "-".join(self.levels.values())

    def baseline_cell(self, results: Results, ids: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the cell that a cell is compared with: the baseline policy in the same scenario.

        Args:
            results: The results, which give the order of the factors.
            ids: The ids of the cell's levels.

        Returns:
            The ids of the baseline's cell. None for a cell of the baseline itself, and without a
            baseline.
        """
        if not self.levels:
            return None
        cell = tuple(self.levels.get(name, level)
                     for name, level in zip(results.names, ids, strict=True))
        return None if cell == ids else cell

    def is_baseline(self, results: Results, ids: tuple[str, ...]) -> bool:
        """Return whether a combination belongs to the baseline, with which others are compared."""
        return bool(self.levels) and self.baseline_cell(results, ids) is None


def choose_baseline(results: Results, choice: str = "") -> Baseline:
    """Return the baseline that the user asked for, or else the study's own baseline.

    If the baseline (such as a policy) has no records, another level with the same content replaces
    it. This happens only if there is exactly one such level.

    Args:
        results: The results of the run.
        choice: The user's choice: `LEVEL` or `FACTOR=LEVEL,...`; "" for the baseline of the run's
            profile, or else the study's own.

    Returns:
        The baseline, without levels if no record can serve as one.

    Raises:
        NoResultsError: A factor does not exist, or neither the plan nor any record has the level.
    """
    levels = dict(results.baseline_levels)
    if choice:
        levels |= _parse_choice(results, choice)
    if RELEASE not in results.baseline_levels:  # a table of changes compares releases
        levels.pop(RELEASE, None)
    notes = []
    are_chosen = True
    for factor, level in list(levels.items()):
        if factor not in results.names:
            del levels[factor]
            continue
        standing, note, is_chosen = _find_substitute(results, factor, level)
        if note:
            notes.append(note)
            are_chosen &= is_chosen
        if standing is None:
            return Baseline({}, note)
        levels[factor] = standing
    return Baseline(levels, " ".join(notes), are_chosen)


def _parse_choice(results: Results, choice: str) -> dict[str, str]:
    asked_of = _split_choice(results, choice if "=" in choice
                             else f"{results.compared[0]}={choice}")
    for factor, level in asked_of.items():
        if level not in (*results.levels[factor], results.study.baseline.get(factor)):
            raise NoResultsError(f"--baseline {choice}: {factor} has no level {level!r} here; it "
                                 f"is one of {', '.join(results.levels[factor])}")
    return asked_of


def _split_choice(results: Results, choice: str) -> dict[str, str]:
    pairs = {name.strip(): level.strip() for name, _, level in (
        part.partition("=") for part in choice.split(","))}
    unknown = [name for name in pairs if name not in results.names]
    if unknown:
        raise NoResultsError(f"--baseline {choice}: there is no factor {unknown[0]!r}; it is one "
                             f"of {', '.join(results.names)}")
    return pairs


def _find_substitute(results: Results, factor: str, level: str) -> tuple[str | None, str, bool]:
    """Choose a level in place of a baseline that the run lacks, such as another policy.

    Returns:
        The level (None for no baseline), a note for the reader about the choice, and whether it is
        the choice of the user or of the profile.
    """
    frame = results.frame
    digests: dict[str, str] = {}
    for name, digest in zip(frame[factor].tolist(), frame[f"{factor}_sha256"].tolist(),
                            strict=True):
        digests.setdefault(name, digest)
    plain = results.study.baseline_digests.get(factor, "")
    own = results.study.baseline.get(factor, level)
    if level in digests:
        if not plain or digests[level] in ("", plain):
            return level, "", True
        if level == own:
            return level, (f"Differences are from {level}, whose content is not the study's "
                           f"{own}."), False
        return level, f"Differences are from {level}, not from the study's baseline {own}.", True
    equal = [name for name, digest in digests.items() if plain and digest == plain]
    if len(equal) == 1:
        return equal[0], (f"There are no records of {level}; {equal[0]}, which has the same "
                          "content, is the baseline."), False
    return None, (f"No differences: there are no records of the baseline {level}. Measure it in "
                  "the same run, or name another one with --baseline."), False


# --- Cells and the estimates of their values ---

#: Ids of a cell's levels in the order of the factors (`Ids`). A `Key` has a value's name first.
Ids: TypeAlias = tuple[str, ...]
Key: TypeAlias = tuple[str, ...]
Origin = Literal["measured", "published", "modelled"]


@dataclass(frozen=True)
class Observation:
    """A mean value of one cell, with its source.

    It has an estimate, the values by block (repetition number), and the names of the records.
    Published and modelled values have neither blocks nor records.
    """

    estimate: Estimate
    blocks: Mapping[int, float] = field(default_factory=dict)
    records: tuple[str, ...] = ()
    origin: Origin = "measured"


Value: TypeAlias = Observation | MissingReason


def stated_observation(value: float, origin: Origin) -> Observation:
    """Return a published or modelled value in the form of a measured one, without interval."""
    return Observation(Estimate(value, None, None, 0), origin=origin)


@dataclass(frozen=True)
class _CellRows:
    """The rows of the data frame that belong to one cell.

    - `all`: row numbers of all repetitions
    - `good`: row numbers of the repetitions whose status is `ok`
    - `blocks`, `records`: number and record name of each good repetition
    """

    all: np.ndarray[tuple[int], np.dtype[np.intp]]
    good: np.ndarray[tuple[int], np.dtype[np.intp]]
    blocks: tuple[int, ...]
    records: tuple[str, ...]


class Cells:
    """All cells (policy in scenario combinations) of a run, with their estimated values."""

    def __init__(self, results: Results, baseline_choice: str = "") -> None:
        self.results = results
        self.baseline = choose_baseline(results, baseline_choice)
        self._columns: dict[str, Sample] = {}
        self._words: dict[str, list[Any]] = {}
        self._blocks: dict[Key, Mapping[int, float]] = {}
        self._any: dict[Key, Observation | None] = {}
        self._values: dict[tuple[Key, bool], Value] = {}
        self._standings: dict[Ids, CellStatus] = {}

    @cached_property
    def sections(self) -> dict[Ids, tuple[Ids, ...]]:
        """Return the cells in groups that are compared, such as all policies of a scenario."""
        sections: dict[Ids, list[Ids]] = {}
        for ids in self.results.cells:
            sections.setdefault(self.results.select_levels(ids, self.results.surroundings),
                                []).append(ids)
        return {section: tuple(cells) for section, cells in sections.items()}

    @cached_property
    def observations(self) -> Mapping[Key, Observation]:
        """Return all measured values: metrics of each policy in each scenario, and differences."""
        values = {(metric.name, *ids): self.value(metric.name, ids)
                  for metric in self.results.study.metrics for ids in self.results.cells}
        values |= {(metric.difference.name, *ids): self.difference(metric, ids)
                   for metric in self.results.study.metrics if metric.difference
                   for ids in self.results.cells}
        return {key: value for key, value in values.items() if isinstance(value, Observation)}

    def section_heading(self, section: Ids) -> str:
        """Return the heading of a group of cells, such as its scenario's name, or ""."""
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
        """Return a value of one cell (policy in scenario) by its column's name, or None."""
        value = self.value(name, ids) if ids in self.results.cells else None
        return value if isinstance(value, Observation) else None

    def difference(self, metric: Metric, ids: Ids) -> Value:
        """Return how much a metric differs from the baseline, in one scenario.

        A positive difference is worse. Values with equal repetition numbers are compared.
        """
        key = ((f"{metric.name} difference", *ids), False)
        if key not in self._values:
            self._values[key] = self._estimate_difference(metric, ids)
        return self._values[key]

    def _estimate_difference(self, metric: Metric, ids: Ids) -> Value:
        reference = self.baseline.baseline_cell(self.results, ids)
        value = self.value(metric.name, ids)
        if value is MissingReason.ABSENT:
            return value
        if self.baseline.is_baseline(self.results, ids):
            return MissingReason.REFERENCE
        if isinstance(value, MissingReason):
            return value
        known = self.value(metric.name, reference) if reference else MissingReason.NO_BASELINE
        base = self.values_by_block(metric.name, reference) if reference else {}
        common = sorted(base.keys() & value.blocks.keys())
        if not common:
            return MissingReason.NO_BASELINE
        if len(common) < self.status(ids).enough:
            return MissingReason.TOO_FEW
        sign = -1.0 if metric.better == "lower" else 1.0
        pairs = {block: sign * (base[block] - value.blocks[block]) for block in common}
        records = () if isinstance(known, MissingReason) else known.records
        return Observation(statistics.mean(pairs.values()), pairs,
                           tuple(dict.fromkeys((*value.records, *records))))

    def sample(self, name: str, ids: Ids) -> Sample:
        """Return a column's values for a cell's good repetitions (status `ok`), NaN for missing."""
        rows = self._rows.get(ids)
        return self._load_column(name)[rows.good] if rows else np.empty(0)

    def mean_of_any(self, name: str, ids: Ids) -> Observation | None:
        """Return the mean over all good repetitions that have a value, however few they are.

        The result is None if no repetition has the value.
        """
        if (name, *ids) not in self._any:
            blocks = self.values_by_block(name, ids)
            self._any[name, *ids] = Observation(
                statistics.mean(blocks.values()), blocks,
                tuple(self.results.record_name(ids, block) for block in blocks)) if blocks else None
        return self._any[name, *ids]

    def find_words(self, name: str, ids: Ids) -> list[str]:
        """Return the words in a column of text for a cell's good repetitions (status `ok`)."""
        rows = self._rows.get(ids)
        frame = self.results.frame
        if rows is None or name not in frame:
            return []
        if name not in self._words:
            self._words[name] = frame[name].tolist()
        return [str(self._words[name][row]) for row in rows.good.tolist()]

    def good_rows(self, ids: Ids) -> list[int]:
        """Return the row numbers of a cell's good repetitions (status `ok`) in the data frame."""
        rows = self._rows.get(ids)
        return rows.good.tolist() if rows else []

    def record_names(self, ids: Ids) -> tuple[str, ...]:
        """Return the names of the records of a cell's good repetitions (status `ok`)."""
        rows = self._rows.get(ids)
        return rows.records if rows else ()

    def status(self, ids: Ids) -> CellStatus:
        """Return how many repetitions of a cell are good (status `ok`), and why others failed."""
        if ids not in self._standings:
            self._standings[ids] = self._find_status(ids)
        return self._standings[ids]

    def cell_name(self, ids: Ids) -> str:
        """Return the name of a cell for a sentence."""
        return " in ".join(", ".join(self.results.select_levels(ids, factors)) for factors in
                           (self.results.compared, self.results.surroundings) if factors)

    @cached_property
    def _rows(self) -> dict[Ids, _CellRows]:
        frame, names = self.results.frame, self.results.names
        cells: dict[Ids, list[int]] = {}
        for row, ids in enumerate(zip(*(frame[name].tolist() for name in names), strict=True)):
            cells.setdefault(ids, []).append(row)
        ok = (frame["status"] == "ok").to_numpy()
        repetitions = frame["repetition"].tolist()
        rows = {}
        for ids, every in cells.items():
            good = [row for row in every if ok[row]]
            rows[ids] = _CellRows(np.array(every, dtype=np.intp), np.array(good, dtype=np.intp),
                                  tuple(repetitions[row] for row in good),
                                  tuple(self.results.record_name(ids, repetitions[row])
                                        for row in good))
        return rows

    @cached_property
    def _status_columns(self) -> list[list[Any]]:
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
        """Return a column's values for a cell's good repetitions, by the number of the repetition.

        A repetition is good if its status is `ok`. Missing values are left out.
        """
        if (name, *ids) not in self._blocks:
            self._blocks[name, *ids] = self._find_block_values(name, ids)
        return self._blocks[name, *ids]

    def _find_block_values(self, name: str, ids: Ids) -> dict[int, float]:
        rows = self._rows.get(ids)
        if rows is None:
            return {}
        values = self._load_column(name)[rows.good]
        is_present = np.isfinite(values)
        blocks = dict(zip(rows.blocks, values.tolist(), strict=True))
        if is_present.all():
            return blocks
        return {block: blocks[block]
                for block, has_value in zip(rows.blocks, is_present.tolist(), strict=True)
                if has_value}

    def _estimate(self, name: str, ids: Ids, *, filled: bool) -> Value:
        standing = self.status(ids)
        if standing.missing is not None:
            return standing.missing
        blocks, records = self.values_by_block(name, ids), self._rows[ids].records
        if not blocks:
            return MissingReason.ABSENT
        if filled:
            blocks = {block: blocks.get(block, 0.0) for block in self._rows[ids].blocks}
        if len(blocks) < standing.enough:
            return MissingReason.TOO_FEW
        if len(blocks) < len(records):
            records = tuple(record for record, block in
                            zip(records, self._rows[ids].blocks, strict=True) if block in blocks)
        return Observation(statistics.mean(blocks.values()), blocks, records)

    def _find_status(self, ids: Ids) -> CellStatus:
        rows = self._rows.get(ids)
        if rows is None:
            return not_run_status(self.results.repetitions)
        columns = zip(*([column[row] for row in rows.all.tolist()]
                        for column in self._status_columns),
                      strict=True)
        return find_cell_status([CountedRepetition(*row) for row in columns],
                                self.results.repetitions)

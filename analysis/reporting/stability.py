"""Find outliers and drift in the results of a run, and write warnings for its report.

`list_warnings` takes the means and single values of a run, and returns the warnings as sentences.
`find_outliers` finds values far from the median of their cell (a measured combination, such as one
policy in one scenario). `find_drifts` finds metrics that rise or fall during the run. Comparisons
that are still undecided give a warning, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis import statistics
from analysis.cells import Cells, Ids
from analysis.metrics import Metric
from analysis.reporting.significance import FEW_REPETITIONS, SignificanceDecision
from analysis.statistics import Sample

#: Iglewicz and Hoaglin's limit for outliers, in deviations. One in a thousand normal values exceeds
#: it.
OUTLIER = 3.5
#: Smallest distance from the median, or drift, as a share of the value, that causes a warning.
LEAST_SHARE = 0.01
#: Largest corrected p-value of a drift that is reported.
_DRIFTS = 0.01
#: Smallest number of values with which a cell's own deviation can show an outlier.
_KNOWS_ITSELF = 5
#: Smallest number of blocks for the p-value of a trend.
_LEAST_BLOCKS = 3
# Largest number of values per cell for pairwise comparison; longer series are averaged in
# stretches.
_MAX_VALUES = 100
_MAX_LINES = 5
#: More values than this share of a cell are no outliers.
_MODE_SHARE = 1 / 3


@dataclass(frozen=True)
class Outlier:
    """A measured value that is far from the median of its cell (one policy in one scenario).

    The distance is in standard deviations.
    """

    record: str
    cell: Ids
    metric: Metric
    value: float
    median: float
    deviations: float


@dataclass(frozen=True)
class Drift:
    """A drift of a metric over the time of a run, in the cells that are compared with each other.

    `section` has what these cells have in common, such as the scenario. `share` is the change over
    the run as a fraction of the metric's mean.
    """

    section: Ids
    metric: Metric
    share: float
    p_value: float


def list_warnings(cells: Cells, decisions: Sequence[SignificanceDecision] = ()) -> list[str]:
    """Return all warnings about a run as sentences, the most important first."""
    return [*(_describe_drift(drift) for drift in find_drifts(cells)),
            *_describe_outliers(find_outliers(cells)), *_describe_undecided(cells, decisions)]


def find_outliers(cells: Cells) -> list[Outlier]:
    """Return the measured values that are outliers, with the largest deviation first.

    Outliers are searched in each cell.

    Deviations are relative to the cell's median. All cells of the same scenario use one scale,
    because a few repetitions do not suffice for their own scale. A cell with five or more values
    that varies more than the others uses its own scale. Cells with fewer than three values, or with
    a median that is not above 0, are left out.
    """
    outstanding: list[Outlier] = []
    for metric in cells.results.study.metrics:
        for members in cells.sections.values():
            blocks = {ids: values for ids in members
                      if len(values := cells.values_by_block(metric.name, ids)) > 2}
            medians = {ids: float(np.median(list(values.values())))
                       for ids, values in blocks.items()}
            chosen = [ids for ids in blocks if medians[ids] > 0]
            relative = [np.array(list(blocks[ids].values())) / medians[ids] for ids in chosen]
            joint = statistics.modified_z_scores(relative)
            for ids, z, of_cell in zip(chosen, joint, relative, strict=True):
                outstanding += _find_cell_outliers(cells, ids, metric, blocks[ids], medians[ids],
                                                   _in_own_deviations(of_cell, z))
    return sorted(outstanding, key=lambda outlier: -abs(outlier.deviations))


def find_drifts(cells: Cells) -> list[Drift]:
    """Return the metrics that rise or fall during the run, over all policies of a scenario.

    The drift with the smallest p-value comes first. P-values are corrected for all metrics and
    scenarios. Time is the wall-clock start of a repetition where all records have it, and else the
    number of the repetition.
    """
    drifting: list[Drift] = []
    for metric in cells.results.study.metrics:
        for section, members in cells.sections.items():
            values = {ids: blocks for ids in members
                      if (blocks := cells.values_by_block(metric.name, ids))}
            if not values:
                continue
            times = _measurement_times(cells, values)
            # The slope holds only between a cell's first and last repetition, so use the longest
            # such span.
            span = max(float(np.ptp(of_cell)) for of_cell in times.values())
            series = [_relative_series(times[ids], np.array(list(blocks.values())))
                      for ids, blocks in values.items() if np.mean(list(blocks.values())) > 0]
            trend = statistics.find_trend(series)
            p_value = max(trend.p_value, _p_of_blocks(times, values))
            drifting.append(Drift(section, metric, (trend.slope or 0.0) * span, p_value))
    corrected = statistics.holm(drift.p_value for drift in drifting)
    return sorted((Drift(drift.section, drift.metric, drift.share, float(p))
                   for drift, p in zip(drifting, corrected, strict=True)
                   if p < _DRIFTS and abs(drift.share) >= LEAST_SHARE),
                  key=lambda drift: drift.p_value)


def _in_own_deviations(of_cell: Sample, z: Sample) -> Sample:
    """Return deviations in a cell's own scale, if the cell varies more than others.

    A cell is one policy in one scenario, for instance.

    `z` has the deviations in the common scale.
    """
    if of_cell.size < _KNOWS_ITSELF:
        return z
    [own] = statistics.modified_z_scores([of_cell])
    return np.where((own != 0) & (np.abs(own) < np.abs(z)), own, z)


def _find_cell_outliers(cells: Cells, ids: Ids, metric: Metric, blocks: Mapping[int, float],
                        median: float, z: Sample) -> Iterator[Outlier]:
    found = [Outlier(cells.results.record_name(ids, block), ids, metric, value, median, deviations)
             for (block, value), deviations in zip(blocks.items(), z.tolist(), strict=True)
             if abs(deviations) > OUTLIER
             and abs(value - median) >= _smallest_deviation(metric, median)]
    # Values that are common in a cell are a second mode: a handoff with one more timeout, say.
    if len(found) <= max(1, _MODE_SHARE * len(blocks)):
        yield from found


def _smallest_deviation(metric: Metric, median: float) -> float:
    """Return the smallest distance from a median that is worth a warning."""
    matters = metric.negligible * (median if metric.is_relative else 1.0)
    # The standard deviation of a count of independent events is its square root.
    by_chance = OUTLIER * median ** 0.5 if metric.name.endswith("_packets") else 0.0
    return max(LEAST_SHARE * median, matters, by_chance)


def _measurement_times(cells: Cells,
                       values: Mapping[Ids, Mapping[int, float]]) -> dict[Ids, Sample]:
    """Return when each repetition was measured, or repetition numbers if a time is missing."""
    numbers = {ids: np.array(list(blocks), dtype=np.float64) for ids, blocks in values.items()}
    stamps = {ids: cells.values_by_block("started_s", ids) for ids in values}
    if any(block not in stamps[ids] for ids, blocks in values.items() for block in blocks):
        return numbers
    times = {ids: np.array([stamps[ids][block] for block in blocks])
             for ids, blocks in values.items()}
    return times if np.unique(np.concatenate(list(times.values()))).size > 1 else numbers


def _p_of_blocks(times: Mapping[Ids, Sample], values: Mapping[Ids, Mapping[int, float]]) -> float:
    """Return the p-value of a trend of the means by repetition number.

    Repetitions with the same number use the same random numbers for the air in every cell. So their
    random variation is common to all cells, and one cell's trend does not confirm another's.
    """
    together: dict[int, list[tuple[float, float]]] = {}
    for ids, blocks in values.items():
        mean = float(np.mean(list(blocks.values())))
        for time, (block, value) in zip(times[ids], blocks.items(), strict=True):
            if mean > 0:
                together.setdefault(block, []).append((float(time), value / mean))
    means = np.array([np.mean(pairs, axis=0) for pairs in together.values()])
    if len(means) < _LEAST_BLOCKS or np.ptp(means[:, 0]) == 0:
        return 1.0
    if np.ptp(means[:, 1]) == 0:
        return 1.0
    r = float(np.corrcoef(means[:, 0], means[:, 1])[0, 1])
    # Test of a line's slope with Student's t. scipy.stats has it too, but is slow to import.
    freedom = len(means) - 2
    t = abs(r) * np.sqrt(freedom / max(1 - r * r, np.finfo(float).eps))
    return float(2 * special.stdtr(freedom, -t))


def _relative_series(times: Sample, values: Sample) -> tuple[Sample, Sample]:
    """Return a cell's times in order, and its values divided by their mean.

    Long series become means of stretches of equal length.
    """
    order = np.argsort(times, kind="stable")
    relative = values[order] / values.mean()
    if times.size <= _MAX_VALUES:
        return times[order], relative
    stretches = np.array_split(np.arange(times.size), _MAX_VALUES)
    return (np.array([times[order][stretch].mean() for stretch in stretches]),
            np.array([relative[stretch].mean() for stretch in stretches]))


def _describe_drift(drift: Drift) -> str:
    way = "rises" if drift.share > 0 else "falls"
    where = f"{', '.join(drift.section)}: " if drift.section else ""
    return (f"{where}{drift.metric.sentence} {way} by about {abs(drift.share):.1%} "
            "from the start of the run to its end (seasonal Kendall test and trend of blocks, "
            f"corrected p = {_format_p_value(drift.p_value)}). Differences within blocks cancel "
            "this; other "
            "comparisons do not.")


def _describe_outliers(outliers: Sequence[Outlier]) -> Iterator[str]:
    """Yield a warning for each cell and metric with outliers."""
    cells: dict[tuple[Ids, str], list[Outlier]] = {}
    for outlier in outliers:
        cells.setdefault((outlier.cell, outlier.metric.name), []).append(outlier)
    for there in list(cells.values())[:_MAX_LINES]:
        outlier, others = there[0], [other.record for other in there[1:]]
        unit, scale = outlier.metric.unit, outlier.metric.scale
        besides = f" So do{'es' * (len(others) == 1)} {', '.join(others)}." if others else ""
        percent = 100 * abs(outlier.value / outlier.median - 1)
        yield (f"{outlier.record}: {outlier.metric.sentence} of {outlier.value * scale:.4g} {unit} "
               f"stands out: {_round_percent(percent)}\N{NO-BREAK SPACE}% "
               f"{'above' if outlier.deviations > 0 else 'below'} the median of its cell "
               f"({outlier.median * scale:.4g} {unit}), where a standard deviation is about "
               f"{_round_percent(percent / abs(outlier.deviations))}\N{NO-BREAK SPACE}%.{besides} "
               "It counts; look at its record and captures.")
    if len(cells) > _MAX_LINES:
        more = len(cells) - _MAX_LINES
        yield f"Values of {more} more cell{'s' * (more > 1)} stand out."


def _round_percent(percent: float) -> str:
    return f"{percent:.2g}" if percent < 10 else f"{percent:.0f}"


def _describe_undecided(cells: Cells, decisions: Sequence[SignificanceDecision]) -> Iterator[str]:
    """Yield a sentence on how many differences are undecided and what would decide them."""
    still = [decision for decision in decisions if decision.outcome == "undecided"]
    if not still:
        return
    counts = sorted(decision.further for decision in still if decision.further is not None)
    half = (len(still) + 1) // 2
    advice = "no number of repetitions within reason is likely to decide half of them"
    if min(len(decision.blocks) for decision in still) < FEW_REPETITIONS:
        advice = f"from {FEW_REPETITIONS} repetitions on, the number that decides them is estimated"
    elif len(counts) >= half:
        advice = (f"about {counts[half - 1]} more repetitions are likely to decide "
                  f"{'it' if len(still) == 1 else 'half of them'}")
    yield (f"{len(still)} of {len(decisions)} differences from {cells.baseline.name} are "
           f"undecided: their corrected intervals hold 0, and differences that matter; {advice}.")


def _format_p_value(value: float) -> str:
    return f"{value:.1g}" if value >= 1e-6 else "less than 0.000001"

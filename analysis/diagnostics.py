"""What to be wary of in a run: values that stand out, values that drift, and what is undecided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import statistics
from analysis.compare import SHOWN
from analysis.decisions import Decision, decisions
from analysis.frame import METRICS, Frame, Results
from analysis.one_clock import VIRTUAL
from analysis.statistics import Sample
from measure.record import record_name

#: Iglewicz and Hoaglin's limit, in deviations; of normal values it takes one in a thousand.
OUTLIER = 3.5
#: What is nearer to its median, or drifts by less, is not worth a warning, however sure it is.
LEAST_SHARE = 0.01
#: Largest corrected p-value of a drift that is said.
_DRIFTS = 0.01
# Values of a cell whose times are compared pair by pair; longer series are averaged in stretches.
_MOST_VALUES = 100
_MOST_LINES = 10


@dataclass(frozen=True)
class Outlier:
    """A value that stands out from its cell: by how many deviations, and from which median."""

    record: str
    metric: str
    value: float
    median: float
    deviations: float


@dataclass(frozen=True)
class Drift:
    """A metric that drifts in a scenario: by which share of itself over the run, how surely."""

    scenario: str
    metric: str
    share: float
    p_value: float


def warnings_of(results: Results, baseline: str = "P1") -> list[str]:
    """Everything here in sentences, most important first; empty where there is nothing to say."""
    return [*(_drift_text(drift) for drift in drifts(results)),
            *_outlier_lines(outliers(results)), *_undecided(decisions(results, baseline))]


def outliers(results: Results) -> list[Outlier]:
    """Values that stand out from others of their cell, the furthest first.

    Deviations are relative to the cell's median and have one scale in a scenario, because a few
    repetitions do not know their own. Cells of less than three values cannot tell.
    """
    found: list[Outlier] = []
    for metric in METRICS:
        for _, part in _measured(results.good, metric).groupby("scenario", sort=False):
            cells = [cell for _, cell in part.groupby("policy", sort=False)
                     if len(cell) > 2 and cell[metric].median() > 0]
            relative = [_values(cell, metric) / cell[metric].median() for cell in cells]
            for cell, z in zip(cells, statistics.modified_z_scores(relative), strict=True):
                found += _standing_out(cell, metric, z)
    return sorted(found, key=lambda outlier: -abs(outlier.deviations))


def drifts(results: Results) -> list[Drift]:
    """Metrics that rise or fall with time in a scenario, all its cells together; surest first.

    P-values are corrected for all metrics and scenarios. Time is the start of a repetition where
    all records have it, and else its number.
    """
    found: list[Drift] = []
    for metric in METRICS:
        for scenario, part in _measured(results.good, metric).groupby("scenario", sort=False):
            times = _times(part)
            span = float(times.max() - times.min())
            series = [_series(times[cell.index].to_numpy(dtype=np.float64), _values(cell, metric))
                      for _, cell in part.groupby("policy", sort=False) if cell[metric].mean() > 0]
            trend = statistics.trend(series)
            found.append(Drift(str(scenario), metric, (trend.slope or 0.0) * span, trend.p_value))
    corrected = statistics.holm(drift.p_value for drift in found)
    return sorted((Drift(drift.scenario, drift.metric, drift.share, float(p))
                   for drift, p in zip(found, corrected, strict=True)
                   if p < _DRIFTS and abs(drift.share) >= LEAST_SHARE),
                  key=lambda drift: drift.p_value)


def _standing_out(cell: Frame, metric: str, z: Sample) -> Iterator[Outlier]:
    values, middle = _values(cell, metric), float(cell[metric].median())
    for number in np.flatnonzero((np.abs(z) > OUTLIER)
                                 & (np.abs(values - middle) >= LEAST_SHARE * middle)).tolist():
        row = cell.iloc[number]
        yield Outlier(record_name(row["policy"], row["scenario"], int(row["repetition"])), metric,
                      float(values[number]), middle, float(z[number]))


def _times(part: Frame) -> Frame:
    """When repetitions were measured: by the clock, or by their number where it says nothing.

    Every guest's virtual time runs at a pace of its own, so between guests it says nothing.
    """
    clock = part["started_s"]
    says = clock.notna().all() and clock.nunique() > 1 and not (part["clock"] == VIRTUAL).any()
    return clock if says else part["repetition"]


def _series(times: Sample, values: Sample) -> tuple[Sample, Sample]:
    """A cell's times and values by its mean; long ones as means of stretches of equal length."""
    order = np.argsort(times, kind="stable")
    relative = values[order] / values.mean()
    if times.size <= _MOST_VALUES:
        return times[order], relative
    stretches = np.array_split(np.arange(times.size), _MOST_VALUES)
    return (np.array([times[order][stretch].mean() for stretch in stretches]),
            np.array([relative[stretch].mean() for stretch in stretches]))


def _measured(good: Frame, metric: str) -> Frame:
    return good[good[metric].notna()]


def _values(cell: Frame, metric: str) -> Sample:
    found: Sample = cell[metric].to_numpy(dtype=np.float64)
    return found


def _drift_text(drift: Drift) -> str:
    way = "rises" if drift.share > 0 else "falls"
    return (f"{drift.scenario}: {SHOWN[drift.metric][0]} {way} by about {abs(drift.share):.1%} "
            f"from the start of the run to its end (seasonal Kendall test, corrected "
            f"p = {_p(drift.p_value)}). Differences within blocks cancel this; other comparisons "
            "do not.")


def _outlier_lines(found: Sequence[Outlier]) -> Iterator[str]:
    for outlier in found[:_MOST_LINES]:
        title, unit, scale = SHOWN[outlier.metric]
        yield (f"{outlier.record}: {title} of {outlier.value * scale:.4g} {unit} is "
               f"{abs(outlier.deviations):.0f} deviations "
               f"{'above' if outlier.deviations > 0 else 'below'} the median of its cell, "
               f"{outlier.median * scale:.4g} {unit}. It counts; look at its record and captures.")
    if len(found) > _MOST_LINES:
        yield f"{len(found) - _MOST_LINES} more values stand out from their cells."


def _undecided(found: Sequence[Decision]) -> Iterator[str]:
    """How many differences from the baseline are open, and what it takes to decide them."""
    still = [decision for decision in found if decision.outcome == "undecided"]
    if not still:
        return
    counts = sorted(decision.further for decision in still if decision.further is not None)
    half = (len(still) + 1) // 2
    advice = "no number of repetitions within reason is likely to decide half of them"
    if len(counts) >= half:
        advice = (f"about {counts[half - 1]} more repetitions are likely to decide "
                  f"{'it' if len(still) == 1 else 'half of them'}")
    yield (f"{len(still)} of {len(found)} differences from {still[0].baseline} are undecided: "
           f"their corrected intervals hold 0, and differences that matter; {advice}.")


def _p(value: float) -> str:
    return f"{value:.1g}" if value >= 1e-6 else "less than 0.000001"

"""Answers to a claim's questions with intervals that decide or leave the claim open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from scipy import special

from analysis.blocks import Function, Observations, apply_to_means, ratio_of_means
from analysis.cells import Key
from analysis.metrics import Metric
from analysis.present.rounding import round_to_digits, round_to_uncertainty
from analysis.statistics import LEVEL, Estimate, pairs_needed

Word = Literal["confirmed", "refuted", "undecided"]
#: Share of a number within which another number counts as about equal.
ABOUT = 0.2
#: Half width, in the displayed unit, below which an interval is shown as a single number.
_EXACT = 1e-9


@dataclass(frozen=True)
class Unit:
    """The display of a finding's numbers: times `scale`, with the unit's name."""

    name: str = ""
    scale: float = 1.0


TIMES = Unit("times")
PERCENT = Unit("%", 100.0)


def unit_of(metric: Metric) -> Unit:
    """Return the unit in which a metric is shown."""
    return Unit(metric.unit, metric.scale)


@dataclass(frozen=True)
class Band:
    """The range in which a claim puts a number.

    An open end is infinite. A difference that does not matter does not meet a claim of a
    difference. This applies if the whole interval is within plus or minus `negligible`, in the
    number's SI unit (see `analysis.metrics`).
    """

    low: float = -math.inf
    high: float = math.inf
    negligible: float = 0.0

    def contains(self, interval: Estimate) -> bool:
        """Return whether the whole interval lies in the band."""
        low, high = interval.low, interval.high
        return low is not None and high is not None and self.low <= low and high <= self.high

    def excludes(self, interval: Estimate) -> bool:
        """Return whether the whole interval lies outside the band or is negligible."""
        low, high = interval.low, interval.high
        if low is None or high is None:
            return False
        return high < self.low or low > self.high or self.is_negligible(interval)

    def is_negligible(self, interval: Estimate) -> bool:
        """Return whether the whole interval lies within what does not matter."""
        low, high = interval.low, interval.high
        return bool(self.negligible) and low is not None and high is not None and (
            -self.negligible <= low and high <= self.negligible)

    def to_text(self, unit: Unit) -> str:
        """Return the band in words, in a unit."""
        low, high = (f"{side * unit.scale:.4g}" if math.isfinite(side) else "" for side in
                     (self.low, self.high))
        name = f" {unit.name}" if unit.name else ""
        if low and high:
            return f"{low}{name}" if self.low == self.high else f"{low} to {high}{name}"
        return f"more than {low}{name}" if low else f"less than {high}{name}"


MORE = Band(low=0.0)


def positive_band(negligible: float) -> Band:
    """Return the band of all positive numbers, with `negligible` in the number's SI unit."""
    return Band(low=0.0, negligible=negligible)


def band_around(value: float) -> Band:
    """Return the band of numbers that are about equal to a value."""
    return Band(value * (1 - ABOUT), value * (1 + ABOUT))


class Asks(Protocol):
    """A question of a claim about some cells."""

    @property
    def label(self) -> str:
        """Return the question in words."""

    @property
    def keys(self) -> Sequence[Key]:
        """Return the keys of all values that the answer uses."""

    @property
    def band(self) -> Band:
        """Return the band in which the claim puts the answer."""

    @property
    def unit(self) -> Unit:
        """Return the unit of the answer."""

    def answer(self, observations: Observations, level: float) -> Estimate | None:
        """Return the answer to the question.

        Args:
            observations: All observations, by name and cell.
            level: Confidence level of the interval.

        Returns:
            The estimate with its interval; None where a cell has no number.
        """


@dataclass(frozen=True)
class Question:
    """A question about a function of cells' means, or about a ratio of means.

    With `below`, it is the ratio of the mean of `cells` to the mean of `below`.
    """

    label: str
    cells: Sequence[Key]
    band: Band
    unit: Unit
    function: Function | None = None
    below: Sequence[Key] = ()

    @property
    def keys(self) -> Sequence[Key]:
        """Return the keys of numerator and denominator."""
        return (*self.cells, *self.below)

    def answer(self, observations: Observations, level: float) -> Estimate | None:
        """Return the estimate with an interval of that level, or None without data.

        The result is None where a cell has no number.
        """
        if self.function is None:
            return ratio_of_means(observations, self.cells, self.below, level)
        return apply_to_means(observations, self.cells, self.function, level)


@dataclass(frozen=True)
class Finding:
    """The answer to a question, with two intervals.

    `estimate` has the interval to show. `strict` has the interval that can refute, at `level`. It
    is widened by Bonferroni's correction, because a claim with many questions would otherwise be
    refuted by chance alone.
    """

    label: str
    estimate: Estimate
    strict: Estimate
    band: Band
    unit: Unit
    level: float = LEVEL
    cells: tuple[str, ...] = ()
    records: tuple[str, ...] = field(default=(), repr=False)

    @property
    def word(self) -> Word:
        """Return the verdict of the interval, which is undecided without one."""
        if self.band.contains(self.estimate):
            return "confirmed"
        return "refuted" if self.band.excludes(self.strict) else "undecided"

    @property
    def agrees(self) -> bool:
        """Return whether the value itself is in the band, whatever its interval."""
        return self.band.low <= self.estimate.mean <= self.band.high

    @property
    def distance(self) -> float:
        """Return the distance from the value to the nearest edge.

        The unit is the half width of the interval.
        """
        edges = [abs(self.estimate.mean - edge) for edge in (self.band.low, self.band.high)
                 if math.isfinite(edge)]
        half = self.estimate.half_width
        return min(edges, default=math.inf) / half if half else math.inf

    @property
    def further(self) -> int | None:
        """Return the further repetitions that probably decide if the value is the true one.

        The result is None without an interval, or if more than 1000 are needed.
        """
        half, count = self.estimate.half_width, self.estimate.n
        if self.word != "undecided" or half is None or count < 2:
            return None
        quantile = float(special.stdtrit(count - 1, (1 + LEVEL) / 2))
        effect = self.distance * quantile / count**0.5
        pairs = pairs_needed(effect, level=LEVEL if self.agrees else self.level)
        return None if pairs is None else max(1, pairs - count)

    @property
    def text(self) -> str:
        """Return the question with its answer and the claimed band, in words."""
        name = f" {self.unit.name}" if self.unit.name else ""
        half, scale = self.estimate.half_width, self.unit.scale
        if half is None or half * scale < _EXACT:
            shown = f"{round_to_digits(self.estimate.mean * scale)}{name}"
        else:
            value, low, high = (round_to_uncertainty(side * scale, half * scale)[0] for side in
                                (self.estimate.mean, self.estimate.low, self.estimate.high)
                                if side is not None)
            shown = f"{value}{name} ({low} to {high})"
        asked = self.band.to_text(self.unit)
        if self.word == "refuted" and self.band.is_negligible(self.strict):
            asked += f", and {self.band.negligible * scale:.3g}{name} do not matter"
        return f"{self.label}: {shown}; the claim asks for {asked}"


def answer_questions(observations: Observations,
                     questions: Sequence[Asks]) -> tuple[list[Finding], list[str]]:
    """Return the answers to all questions, and the labels of those that lack a cell."""
    strict = 1 - (1 - LEVEL) / max(1, len(questions))
    findings, missing = [], []
    for question in questions:
        shown = question.answer(observations, LEVEL)
        wide = question.answer(observations, strict)
        if shown is None or wide is None:
            missing.append(question.label)
            continue
        findings.append(Finding(question.label, shown, wide, question.band, question.unit, strict,
                                _cell_names(question.keys),
                                _record_names(observations, question.keys)))
    return findings, missing


def _cell_names(cells: Iterable[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys("-".join(ids) for _, *ids in cells))


def _record_names(observations: Observations, cells: Iterable[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for cell in cells for name in observations[cell].records))

"""A finding answers a question to the cells of a run with an interval that decides, or does not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from scipy import special

from analysis.blocks import Function, Observations, ask, ratio
from analysis.cells import Key
from analysis.metrics import Metric
from analysis.present.rounding import plain, uncertain
from analysis.statistics import LEVEL, Estimate, pairs_needed

Word = Literal["confirmed", "refuted", "undecided"]
#: "About" a number: within this share of it.
ABOUT = 0.2
#: An interval narrower than this, in the unit shown, is a point.
_EXACT = 1e-9


@dataclass(frozen=True)
class Unit:
    """How a finding's numbers are shown: times `scale`, with the unit's name."""

    name: str = ""
    scale: float = 1.0


TIMES = Unit("times")
PERCENT = Unit("%", 100.0)


def unit_of(metric: Metric) -> Unit:
    """The unit in which a metric is shown."""
    return Unit(metric.unit, metric.scale)


@dataclass(frozen=True)
class Band:
    """Where a claim says that a number lies; open where a side is infinite.

    A claim of a difference is not met by one that does not matter: by none surely larger, either
    way, than `negligible` (in the number's SI unit, see `analysis.metrics`).
    """

    low: float = -math.inf
    high: float = math.inf
    negligible: float = 0.0

    def holds(self, interval: Estimate) -> bool:
        """Whether all of an interval lies in the band."""
        low, high = interval.low, interval.high
        return low is not None and high is not None and self.low <= low and high <= self.high

    def refutes(self, interval: Estimate) -> bool:
        """Whether all of an interval lies outside, or within what does not matter."""
        low, high = interval.low, interval.high
        if low is None or high is None:
            return False
        return high < self.low or low > self.high or self.is_negligible(interval)

    def is_negligible(self, interval: Estimate) -> bool:
        """Whether all of an interval lies within what does not matter."""
        low, high = interval.low, interval.high
        return bool(self.negligible) and low is not None and high is not None and (
            -self.negligible <= low and high <= self.negligible)

    def words(self, unit: Unit) -> str:
        """The band in words, in a unit."""
        low, high = (f"{side * unit.scale:.4g}" if math.isfinite(side) else "" for side in
                     (self.low, self.high))
        name = f" {unit.name}" if unit.name else ""
        if low and high:
            return f"{low}{name}" if self.low == self.high else f"{low} to {high}{name}"
        return f"more than {low}{name}" if low else f"less than {high}{name}"


MORE = Band(low=0.0)


def more(negligible: float) -> Band:
    """More than nothing, by what matters: `negligible` is in the number's SI unit."""
    return Band(low=0.0, negligible=negligible)


def about(value: float) -> Band:
    """What counts as about a value."""
    return Band(value * (1 - ABOUT), value * (1 + ABOUT))


class Asks(Protocol):
    """What a claim asks of cells: with which label, of which, and where the answer should lie."""

    @property
    def label(self) -> str:
        """What is asked, in words."""

    @property
    def keys(self) -> Sequence[Key]:
        """All that the answer is made of."""

    @property
    def band(self) -> Band:
        """Where the claim says that the answer lies."""

    @property
    def unit(self) -> Unit:
        """How its numbers are shown."""

    def answer(self, observations: Observations, level: float) -> Estimate | None:
        """The estimate with an interval of that level; None where a cell has no number."""


@dataclass(frozen=True)
class Question:
    """What to ask of which cells: a function of their means, or, with `below`, a ratio of means."""

    label: str
    cells: Sequence[Key]
    band: Band
    unit: Unit
    function: Function | None = None
    below: Sequence[Key] = ()

    @property
    def keys(self) -> Sequence[Key]:
        """Above the line and below."""
        return (*self.cells, *self.below)

    def answer(self, observations: Observations, level: float) -> Estimate | None:
        """The estimate with an interval of that level; None where a cell has no number."""
        if self.function is None:
            return ratio(observations, self.cells, self.below, level)
        return ask(observations, self.cells, self.function, level)


@dataclass(frozen=True)
class Finding:
    """An answer: `estimate` with the interval to show, `strict` with the one that can refute.

    A claim that asks many questions would be refuted by chance alone, so `strict` is as wide as
    Bonferroni has it for that many, at `level`.
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
        """What the interval decides; without one, nothing."""
        if self.band.holds(self.estimate):
            return "confirmed"
        return "refuted" if self.band.refutes(self.strict) else "undecided"

    @property
    def agrees(self) -> bool:
        """Whether the value itself is where the claim says, whatever its interval."""
        return self.band.low <= self.estimate.mean <= self.band.high

    @property
    def distance(self) -> float:
        """How far the value is from the band's next edge, in half widths of the interval."""
        edges = [abs(self.estimate.mean - edge) for edge in (self.band.low, self.band.high)
                 if math.isfinite(edge)]
        half = self.estimate.half_width
        return min(edges, default=math.inf) / half if half else math.inf

    @property
    def further(self) -> int | None:
        """Further repetitions that would probably decide, if the value is the true one.

        None where there is no interval to tell from, or where it takes more than 1000.
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
        """The answer in words: what, its value and interval, and what the claim asks for."""
        name = f" {self.unit.name}" if self.unit.name else ""
        half, scale = self.estimate.half_width, self.unit.scale
        if half is None or half * scale < _EXACT:
            shown = f"{plain(self.estimate.mean * scale)}{name}"
        else:
            value, low, high = (uncertain(side * scale, half * scale)[0] for side in
                                (self.estimate.mean, self.estimate.low, self.estimate.high)
                                if side is not None)
            shown = f"{value}{name} ({low} to {high})"
        asked = self.band.words(self.unit)
        if self.word == "refuted" and self.band.is_negligible(self.strict):
            asked += f", and {self.band.negligible * scale:.3g}{name} do not matter"
        return f"{self.label}: {shown}; the claim asks for {asked}"


def find(observations: Observations,
         questions: Sequence[Asks]) -> tuple[list[Finding], list[str]]:
    """Answers to all questions, and the labels of those that lack a cell."""
    strict = 1 - (1 - LEVEL) / max(1, len(questions))
    findings, missing = [], []
    for question in questions:
        shown = question.answer(observations, LEVEL)
        wide = question.answer(observations, strict)
        if shown is None or wide is None:
            missing.append(question.label)
            continue
        findings.append(Finding(question.label, shown, wide, question.band, question.unit, strict,
                                _names(question.keys), _records(observations, question.keys)))
    return findings, missing


def _names(cells: Iterable[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys("-".join(ids) for _, *ids in cells))


def _records(observations: Observations, cells: Iterable[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for cell in cells for name in observations[cell].records))

"""Decide whether measurements confirm the claims of a paper.

A `Claim` is a conclusion of a paper, such as "IPsec costs more throughput than WEP". A study turns
it into one or several questions. A question asks for one number, and states the band (range) in
which the number must be if the claim is true. The answer is a `Finding`: the measured number with
its confidence interval. The interval confirms the claim, refutes it, or leaves it undecided.

`judge_claim` makes one `Verdict` from the answers to all questions of a claim. It also estimates
how many more repetitions an undecided claim needs. There are three kinds of questions, which share
the interface `ClaimQuestion`:

- `Question`: for a difference, a ratio or another function of means
- `ExtremeQuestion`: for the largest or smallest of several answers
- `SpreadQuestion`: for how much the largest of several means exceeds the smallest

A cell is a measured combination, such as one policy in one scenario.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from scipy import special

from analysis.blocks import (
    Function,
    Observations,
    apply_to_means,
    common_blocks,
    find_observations,
    keep_blocks,
    list_common_blocks,
    ratio_of_means,
)
from analysis.cells import Key
from analysis.metrics import Metric
from analysis.present.entries import round_to_digits, round_to_uncertainty
from analysis.statistics import (
    LEVEL,
    MAX_REPETITIONS,
    Estimate,
    Looks,
    joint_level,
    pairs_needed,
    relative_spread,
)
from analysis.table import Column, Entry, Table

# --- Questions of a claim, and the answers with their intervals ---

VerdictWord = Literal["confirmed", "refuted", "undecided"]
#: Share of a number within which another number counts as about equal.
ABOUT_TOLERANCE = 0.2
#: Half width, in the displayed unit, below which an interval is shown as a single number.
_EXACT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class DisplayUnit:
    """The unit in which the numbers of an answer are shown: a factor `scale` and a name."""

    name: str = ""
    scale: float = 1.0


TIMES = DisplayUnit("times")
PERCENT = DisplayUnit("%", 100.0)


def unit_of(metric: Metric) -> DisplayUnit:
    """Return the unit in which tables show a metric."""
    return DisplayUnit(metric.unit, metric.scale)


@dataclass(frozen=True)
class Band:
    """The range of numbers in which a claim of a paper puts the answer to a question.

    An open end is infinite. If a claim says that there is a difference, a negligible difference
    does not confirm it. A difference is negligible if its whole interval is within plus or minus
    `negligible`, in the number's SI unit (see `analysis.metrics`).
    """

    low: float = -math.inf
    high: float = math.inf
    negligible: float = 0.0

    def contains(self, interval: Estimate) -> bool:
        """Return whether a whole confidence interval lies in the claimed range."""
        low, high = interval.low, interval.high
        return low is not None and high is not None and self.low <= low and high <= self.high

    def excludes(self, interval: Estimate) -> bool:
        """Return whether a whole confidence interval is outside the range, or is negligible."""
        low, high = interval.low, interval.high
        if low is None or high is None:
            excluded = interval.excluded
            return excluded is not None and excluded[0] < self.low and self.high < excluded[1]
        return high < self.low or low > self.high or self.is_negligible(interval)

    def is_negligible(self, interval: Estimate) -> bool:
        """Return whether a whole confidence interval is so close to 0 that it does not matter."""
        low, high = interval.low, interval.high
        return bool(self.negligible) and low is not None and high is not None and (
            -self.negligible <= low and high <= self.negligible)

    def to_text(self, unit: DisplayUnit) -> str:
        """Return the claimed range as text, in a unit."""
        low, high = (f"{side * unit.scale:.4g}" if math.isfinite(side) else "" for side in
                     (self.low, self.high))
        name = f" {unit.name}" if unit.name else ""
        if low and high:
            return f"{low}{name}" if self.low == self.high else f"{low} to {high}{name}"
        return f"more than {low}{name}" if low else f"less than {high}{name}"


MORE = Band(low=0.0)


def positive_band(negligible: float) -> Band:
    """Return the range of all positive numbers that are not negligible.

    `negligible` is in the number's SI unit.
    """
    return Band(low=0.0, negligible=negligible)


def band_around(value: float) -> Band:
    """Return the range of numbers that count as about equal to a value."""
    return Band(value * (1 - ABOUT_TOLERANCE), value * (1 + ABOUT_TOLERANCE))


class ClaimQuestion(Protocol):
    """An interface of all kinds of questions, each of which asks for one number about means."""

    @property
    def label(self) -> str:
        """Return the question as text."""

    @property
    def keys(self) -> Sequence[Key]:
        """Return the keys (metric and cell) of all measured values that the answer uses."""

    @property
    def band(self) -> Band:
        """Return the range in which the claim puts the answer."""

    @property
    def unit(self) -> DisplayUnit:
        """Return the unit in which the answer is shown."""

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
    """The usual kind of question: for a function of cells' means, or for a ratio of two means.

    - `label`, `unit`: description of the number, and its unit for display
    - `cells`: metric and cell of each mean
    - `band`: range in which the claim says that the number is
    - `function`: function of the means, None for the mean or ratio
    - `below`: cells of the denominator. The number is then the ratio of the mean of `cells` to
      theirs.
    """

    label: str
    cells: Sequence[Key]
    band: Band
    unit: DisplayUnit
    function: Function | None = None
    below: Sequence[Key] = ()

    @property
    def keys(self) -> Sequence[Key]:
        """Return the keys (metric and cell) of all measured values that the answer uses.

        For a ratio, these are the values of its numerator and of its denominator.
        """
        return (*self.cells, *self.below)

    def answer(self, observations: Observations, level: float) -> Estimate | None:
        """Return the answer to the question with its confidence interval, None without data."""
        if self.function is None:
            return ratio_of_means(observations, self.cells, self.below, level)
        return apply_to_means(observations, self.cells, self.function, level)


@dataclass(frozen=True)
class Finding:
    """The answer to a question of a claim: a number with its confidence intervals.

    One interval can confirm the claim, and a wider one can refute it. A claim is refuted if a
    single answer refutes it. So a claim with many questions would be refuted by chance alone if the
    intervals were not widened.

    - `label`, `band`, `unit`: as in the question
    - `estimate`: the number with the interval that is shown and can confirm, at `shown_level`
    - `strict`: the number with the wider interval that can refute, at `level` (Bonferroni's
      correction for the number of questions)
    - `cells`, `records`: names of the cells and records behind the number
    """

    label: str
    estimate: Estimate
    strict: Estimate
    band: Band
    unit: DisplayUnit
    level: float = LEVEL
    cells: tuple[str, ...] = ()
    records: tuple[str, ...] = field(default=(), repr=False)
    shown_level: float = LEVEL

    @property
    def word(self) -> VerdictWord:
        """Return whether the interval confirms or refutes the claim, or leaves it undecided."""
        if self.band.contains(self.estimate):
            return "confirmed"
        return "refuted" if self.band.excludes(self.strict) else "undecided"

    @property
    def agrees(self) -> bool:
        """Return whether the value itself is in the claimed range, whatever its interval."""
        return self.band.low <= self.estimate.mean <= self.band.high

    @property
    def distance(self) -> float:
        """Return the distance from the value to the nearest end of the claimed range.

        The unit is the half width of the confidence interval.
        """
        edges = [abs(self.estimate.mean - edge) for edge in (self.band.low, self.band.high)
                 if math.isfinite(edge)]
        half = self.estimate.half_width
        return min(edges, default=math.inf) / half if half else math.inf

    @property
    def further(self) -> int | None:
        """Return how many more repetitions will probably decide the claim.

        The mean measured so far is taken as the true one. The result is None without an interval,
        or if more than 1000 are needed.
        """
        half = self.estimate.half_width
        if self.word != "undecided" or not half:
            return None
        return self._repetitions_for(self.distance * half,
                                     self.shown_level if self.agrees else self.level)

    @property
    def further_to_refute(self) -> int | None:
        """Return how many more repetitions will probably refute the claim.

        The mean measured so far is taken as the true one. The result is None without an interval,
        if more than 1000 are needed, and for a mean in the claimed range that is not negligible.
        """
        if not self.agrees:
            return self.further
        inside = self.band.negligible - abs(self.estimate.mean)
        return self._repetitions_for(inside, self.level) if inside > 0 else None

    def _repetitions_for(self, distance: float, level: float) -> int | None:
        """Return how many more repetitions probably narrow the interval to a half width."""
        half, count = self.estimate.half_width, self.estimate.n
        if not half or count < 2:
            return None
        quantile = float(special.stdtrit(count - 1, (1 + self.shown_level) / 2))
        pairs = pairs_needed(distance / half * quantile / count**0.5, level=level)
        return None if pairs is None else max(1, pairs - count)

    @property
    def text(self) -> str:
        """Return the question, its answer and the claimed range as text."""
        name = f" {self.unit.name}" if self.unit.name else ""
        half, scale = self.estimate.half_width, self.unit.scale
        if self.estimate.excluded is not None:
            below, above = (round_to_digits(end * scale) for end in self.estimate.excluded)
            shown = (f"{round_to_digits(self.estimate.mean * scale)}{name} "
                     f"(not {below} to {above})")
        elif half is None or half * scale < _EXACT_TOLERANCE:
            shown = f"{round_to_digits(self.estimate.mean * scale)}{name}"
        else:
            value, low, high = (round_to_uncertainty(side * scale, half * scale)[0] for side in
                                (self.estimate.mean, self.estimate.low, self.estimate.high)
                                if side is not None)
            shown = f"{value}{name} ({low} to {high})"
        claimed = self.band.to_text(self.unit)
        if self.word == "refuted" and self.band.is_negligible(self.strict):
            claimed += f", and {self.band.negligible * scale:.3g}{name} do not matter"
        return f"{self.label}: {shown}; the claim asks for {claimed}"


def answer_questions(observations: Observations, questions: Sequence[ClaimQuestion],
                     looks: Looks | None = None) -> tuple[list[Finding], list[str]]:
    """Return the answers to all questions of a claim, and the labels of unanswerable ones.

    A question cannot be answered if a cell was not measured.

    Args:
        observations: All observations, by name and cell.
        questions: The questions of one claim.
        looks: The planned judgements of a run with `--until-decided`. An answer is then that of the
            first judgement that decided, or else of the latest one, with its wider interval.
    """
    findings, missing = [], []
    for question in questions:
        finding = _answer_question(question, observations, len(questions), LEVEL) \
            if looks is None else _answer_at_looks(question, observations, len(questions), looks)
        if finding is None:
            missing.append(question.label)
        else:
            findings.append(finding)
    return findings, missing


def _answer_question(question: ClaimQuestion, observations: Observations, count: int,
                     level: float) -> Finding | None:
    """Return the answer to one of the `count` questions of a claim, or None without data."""
    strict = joint_level(count, level)
    shown = question.answer(observations, level)
    wide = question.answer(observations, strict)
    if shown is None or wide is None:
        return None
    return Finding(question.label, shown, wide, question.band, question.unit, strict,
                   _cell_names(question.keys), _record_names(observations, question.keys), level)


def _answer_at_looks(question: ClaimQuestion, observations: Observations, count: int,
                     looks: Looks) -> Finding | None:
    """Return the answer at the first planned judgement that decides, or else at the latest.

    A run with `--until-decided` has such planned judgements (looks). Before the first one, no
    interval may decide, so the answer has none.
    """
    chosen = find_observations(observations, question.keys)
    blocks = list_common_blocks(chosen) if chosen else []
    finding = None
    for number in range(1, looks.find_look(len(blocks)) + 1):
        until_look = keep_blocks(chosen, blocks[:looks.counts[number - 1]])
        so_far = dict(zip(question.keys, until_look, strict=True))
        finding = _answer_question(question, so_far, count, looks.raise_level(number))
        if finding is not None and finding.word != "undecided":
            return finding
    if finding is not None:
        return finding
    finding = _answer_question(question, observations, count, LEVEL)
    if finding is None:
        return None
    bare = replace(finding.estimate, low=None, high=None, excluded=None)
    return replace(finding, estimate=bare, strict=bare)


def _cell_names(cells: Iterable[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys("-".join(ids) for _, *ids in cells))


def _record_names(observations: Observations, cells: Iterable[Key]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for cell in cells for name in observations[cell].records))


# --- Questions about extremes ---
# The data pick the extreme cell, so the interval must hold whichever cell that is.

@dataclass(frozen=True)
class ExtremeQuestion:
    """A question for the largest or smallest of several answers with one range and unit.

    The interval reaches from the extreme of all lower ends to the extreme of all upper ends. Each
    end is at the level that Bonferroni's correction gives for that number of questions. So all
    intervals hold together, and the interval of the extreme holds too.
    """

    label: str
    among: Sequence[Question]
    pick: Literal["largest", "smallest"]

    @property
    def keys(self) -> Sequence[Key]:
        """Return the keys of the measured values that the questions use, each once."""
        return tuple(dict.fromkeys(key for question in self.among for key in question.keys))

    @property
    def band(self) -> Band:
        """Return the range in which the claim puts the answer."""
        return self.among[0].band

    @property
    def unit(self) -> DisplayUnit:
        """Return the unit in which the answer is shown."""
        return self.among[0].unit

    def answer(self, observations: Observations, level: float) -> Estimate | None:
        """Return the answer to the question with its confidence interval, None without data."""
        each = 1 - (1 - level) / len(self.among)
        answers = [question.answer(observations, each) for question in self.among]
        known = [answer for answer in answers if answer is not None]
        if len(known) < len(answers):
            return None
        pick = max if self.pick == "largest" else min
        lows = [answer.low for answer in known if answer.low is not None]
        highs = [answer.high for answer in known if answer.high is not None]
        bounded = len(lows) == len(highs) == len(known)
        return Estimate(pick(answer.mean for answer in known), pick(lows) if bounded else None,
                        pick(highs) if bounded else None, min(answer.n for answer in known))


@dataclass(frozen=True)
class SpreadQuestion:
    """A question for how much the largest of several means exceeds the smallest, as a fraction.

    `keys` are metric and cell of each mean. `band` is the range in which the claim says that the
    fraction is.
    """

    label: str
    keys: Sequence[Key]
    band: Band
    unit: DisplayUnit

    def answer(self, observations: Observations, level: float) -> Estimate | None:
        """Return by what fraction the largest mean exceeds the smallest, with its interval.

        The result is None without data, or if a mean is not above 0.
        """
        chosen = find_observations(observations, self.keys)
        if len(chosen) < 2:
            return None
        blocks = common_blocks(chosen)
        means = [observation.estimate.mean for observation in chosen]
        if min(means) <= 0:
            return None
        if len(blocks) < 2 or blocks.min() <= 0:
            return Estimate(max(means) / min(means) - 1, None, None, len(blocks))
        return relative_spread(blocks, level)


# --- Verdicts, and their table ---

_MAX_NAMES = 6
_PRINTED_NOTE = "printed values have no intervals"
_VERDICT_NOTE = (
    "Confirmed: every 95 % interval lies where the claim says. Refuted: an interval lies "
    "elsewhere, or, where more is claimed, within what does not matter; one as wide as Bonferroni "
    "asks for the number of questions. Undecided: the intervals do not tell.")


@dataclass(frozen=True)
class Claim:
    """A conclusion of a paper that measurements can confirm or refute.

    - `id`: its name here, such as K1
    - `says`, `where`: its text, and its place in the paper
    - `rests_on`: what a verdict on it depends on here, if known: arithmetic, configuration,
      measurements
    """

    id: str
    says: str
    where: str
    rests_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim of a paper: confirmed, refuted or undecided.

    `figure` is the answer that decided the verdict (or leaves it open), with its interval.
    `evidence` has all answers in words. `cells` and `records` are the sources of the figure. `why`
    is the reason, if known, why a claim does not hold here, or what is missing for a decision.
    `rests_on` names what the verdict depends on. `otherwise` has the verdicts under other readings,
    a line each. `needed` has, for each answer that may decide an open claim, the cells that need
    further repetitions. `is_difference` is set for a difference of two cells, not a claim.
    """

    id: str
    says: str
    where: str
    verdict: VerdictWord
    figure: str
    evidence: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    why: str = ""
    rests_on: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    needed: tuple[frozenset[str], ...] = ()
    is_difference: bool = False


def judge_claim(claim: Claim, questions: Sequence[ClaimQuestion], observations: Observations,
                reason: str = "", looks: Looks | None = None) -> Verdict:
    """Return the verdict on a claim of a paper, from measured values.

    Missing data raise no error. `reason` says why the claim may not hold here, as far as known.
    `looks` are the planned judgements of a run with `--until-decided` (`Results.planned_looks`).
    """
    findings, missing = answer_questions(observations, questions, looks)
    return settle_claim(claim, findings, missing, reason)


def settle_claim(claim: Claim, findings: Sequence[Finding], missing: Sequence[str],
                 reason: str) -> Verdict:
    """Return the verdict on a claim from the answers to its questions.

    The claim is refuted if any answer refutes it. It is confirmed if all answers confirm it and
    none is missing. Otherwise it is undecided.
    """
    words = {finding.word for finding in findings}
    evidence = (*(f"{finding.text}: {finding.word}" for finding in findings),
                *(f"{label}: not measured" for label in missing))
    if "refuted" in words:
        word: VerdictWord = "refuted"
        decisive = max((finding for finding in findings if finding.word == "refuted"),
                       key=lambda finding: finding.distance)
    elif words == {"confirmed"} and not missing:
        word, decisive = "confirmed", min(findings, key=lambda finding: finding.distance)
    elif "undecided" in words:
        word = "undecided"
        decisive = min((finding for finding in findings if finding.word == "undecided"),
                       key=lambda finding: (finding.agrees, finding.distance))
    else:
        return Verdict(claim.id, claim.says, claim.where, "undecided", "not measured", evidence,
                       why=_describe_missing(findings, missing), rests_on=claim.rests_on)
    why = {"refuted": reason, "undecided": _describe_missing(findings, missing)}.get(word, "")
    needed = _choose_needed(findings, missing) if word == "undecided" else ()
    return Verdict(claim.id, claim.says, claim.where, word, decisive.text, evidence,
                   decisive.cells, decisive.records, why, claim.rests_on,
                   needed=tuple(map(_measured_cells, needed)))


def _choose_needed(findings: Sequence[Finding], missing: Sequence[str]) -> Sequence[Finding]:
    """Return the undecided answers that decide a claim with the fewest further repetitions.

    One answer is enough to refute a claim, so the one that needs the fewest repetitions of cells is
    chosen. All answers are needed to confirm it.
    """
    open_ = [finding for finding in findings if finding.word == "undecided"]
    against = {number: count * len(_measured_cells(finding))
               for number, finding in enumerate(open_)
               if (count := finding.further_to_refute) is not None}
    refuting = [open_[min(against, key=lambda number: against[number])]] if against else []
    if missing or not all(finding.agrees for finding in open_):
        return refuting or [finding for finding in open_ if not finding.agrees]
    counts = [finding.further for finding in open_]
    known = [count for count in counts if count is not None]
    cells = frozenset().union(*map(_measured_cells, open_))
    can_confirm = len(known) == len(counts)
    if against and not (can_confirm and max(known) * len(cells) <= min(against.values())):
        return refuting
    return open_


def _measured_cells(finding: Finding) -> frozenset[str]:
    """Return which measurements (policy in scenario) an answer uses, with the baseline's."""
    return frozenset(name.rpartition("-")[0] for name in finding.records)


def _describe_missing(findings: Sequence[Finding], missing: Sequence[str]) -> str:
    """Describe the measurements that are missing to decide a claim."""
    parts = []
    if missing:
        parts.append(f"not measured: {'; '.join(missing[:3])}"
                     + (f" and {len(missing) - 3} more" if len(missing) > 3 else ""))
    bare = [finding for finding in findings if finding.estimate.low is None]
    if bare and all(finding.estimate.n == 0 for finding in bare):
        agree = sum(finding.agrees for finding in bare)
        parts.append(f"{_PRINTED_NOTE}; {agree} of {len(bare)} of them agree with the claim")
    elif bare:
        few = sum(finding.estimate.n < 2 for finding in bare)
        parts += [f"{count} of {len(findings)} values {'has' if count == 1 else 'have'} no "
                  f"interval, because {why}" for count, why in (
                      (few, "fewer than two blocks are in common"),
                      (len(bare) - few, "the divisor of a ratio may be 0")) if count]
    open_ = [finding for finding in findings
             if finding.word == "undecided" and finding.estimate.low is not None]
    if open_:
        parts.append(f"{len(open_)} of {len(findings)} intervals cross a limit of the claim; "
                     f"{_describe_needed(open_)}")
    return "; ".join(parts)


def _describe_needed(open_: Sequence[Finding]) -> str:
    """Return a sentence on how many more repetitions will decide a claim.

    One answer is enough to refute a claim. All answers are needed to confirm it.
    """
    against = [finding.further for finding in open_ if not finding.agrees]
    counts = against or [finding.further for finding in open_]
    known = [count for count in counts if count is not None]
    if not known or (not against and len(known) < len(counts)):
        return ("the number of further repetitions that would decide cannot be estimated, or is "
                f"above {MAX_REPETITIONS}")
    further = min(known) if against else max(known)
    return f"about {further} more repetition{'s' if further > 1 else ''} may decide"


def _list_cells(names: Sequence[str]) -> str:
    """Return the names of the cells (policy in scenario) behind a figure, six at most."""
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more cells" if more > 0 else "")


def _make_row(verdict: Verdict) -> tuple[Entry, ...]:
    behind = verdict.records if verdict.verdict == "refuted" else ()
    return (Entry(verdict.id), Entry(verdict.says), Entry(verdict.where),
            Entry(verdict.verdict, records=behind),
            Entry(verdict.figure, records=verdict.records, note=_list_cells(verdict.cells)),
            Entry(verdict.why))


def describe_looks(looks: Looks | None) -> str:
    """Return a sentence that says after how many repetitions claims are judged, or ""."""
    if looks is None:
        return ""
    return (f"Sequential design: claims were judged {looks.to_text()} of their cells, and cells of "
            "open claims got more. An answer stands as of the first look that decided it. "
            "Intervals of claims hold 95 % over all looks together, so each is wider than that of "
            "a fixed number. Whether a policy differs from the baseline is decided at the looks, "
            "too, with an error of 5 % over all. Other intervals are those of a fixed number, and "
            "hold a little less often, because verdicts ended the measurement.")


def make_claims_table(verdicts: Sequence[Verdict], title: str = "Claims", says: str = "Claim says",
                      notes: Sequence[str] = (), looks: Looks | None = None) -> Table:
    """Return the table of a study's claims and their verdicts, a row per claim.

    `looks` are the planned judgements of a run with `--until-decided` (`Results.planned_looks`).
    """
    words = ("confirmed", "refuted", "undecided")
    counts = [f"{sum(verdict.verdict == word for verdict in verdicts)} {word}" for word in words]
    # Leave out columns that are empty for all claims.
    further = [(column, texts) for column, texts in (
        (Column("rests_on", "Rests on"), [", ".join(each.rests_on) for each in verdicts]),
        (Column("otherwise", "Read otherwise"), ["; ".join(each.otherwise) for each in verdicts]))
        if any(texts)]
    rows = tuple((*_make_row(verdict), *(Entry(texts[at]) for _, texts in further))
                 for at, verdict in enumerate(verdicts))
    return Table("claims", title,
                 (Column("claim", "Claim"), Column("says", says),
                  Column("where", "Where"), Column("verdict", "Verdict"),
                  Column("figure", "Figure that decides"), Column("why", "Why"),
                  *(column for column, _ in further)),
                 rows, f"{', '.join(counts)}. Intervals hold 95 %.",
                 (_VERDICT_NOTE, *notes, *filter(None, [describe_looks(looks)])))


__all__ = ["MORE", "Band", "Claim", "Question", "Verdict", "band_around", "describe_looks",
           "judge_claim", "make_claims_table"]

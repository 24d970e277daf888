"""Answer in sentences what a run measured, such as which policy costs how much.

`./qop run` and `./qop report` print these sentences first. The page begins with them. Costs are
relative to a baseline, such as the policy without protection. A comparison of a policy with the
baseline is undecided while its confidence interval is too wide to say whether the two differ. The
first use of each code, such as a policy's id, is followed by its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.blocks import fieller_ratio
from analysis.cell_status import CellStatus
from analysis.cells import Cells, Ids
from analysis.claims import Verdict
from analysis.metrics import Metric
from analysis.present.code_names import CodeNames, is_code
from analysis.present.entries import PLUS_MINUS, round_to_digits, round_to_uncertainty
from analysis.present.report import ApplicationAdvice, DecisiveRepetitions, Recommendation
from analysis.reporting.significance import FEW_REPETITIONS, SignificanceDecision
from analysis.statistics import Estimate, joint_level, mean, paired_differences
from analysis.table import Column, Entry, Table, count_noun, join_words, to_printable
from measure.records.manifest import DEFAULT_RELEASE, RELEASE
from measure.records.record import NOT_PROVEN

#: Levels that get a sentence where no level is recommended, and lines of failures and names.
_MAX_LEVELS, _MAX_FAILURES, _MAX_NAMES = 4, 3, 4
#: Claims that are named in a sentence. Of more claims only the number stands there.
_MAX_CLAIMS = 3
#: From this ratio on a cost is a multiple of the baseline's, below it a percentage.
_MIN_MULTIPLE = 2.0
#: Largest difference of the two halves of an interval that is written with one half (as a share).
_SYMMETRY = 0.15
_DASH = "\N{EN DASH}"
_CLAIMS_TABLE = "table 'claims'".replace(" ", "\N{NO-BREAK SPACE}")
#: Separator of the reasons of checks that do not hold.
_NEXT_REASON = f"; {NOT_PROVEN}"
#: Rows of the short table.
_MAX_ROWS = 24
TABLE_ID = "summary"


@dataclass(frozen=True)
class _Cost:
    """The cost of a policy in one metric, as text, with a number to sort by.

    `is_certain` is set if the interval in the text excludes that there is no cost.
    """

    size: float
    text: str
    unit: str
    is_worse: bool
    is_certain: bool

    @property
    def with_unit(self) -> str:
        """Return the text and its unit, between which no line breaks."""
        return f"{self.text}\N{NO-BREAK SPACE}{self.unit}"


def describe_answer(cells: Cells, decisions: Sequence[SignificanceDecision],
                    advice: Sequence[ApplicationAdvice] = (), claims: Sequence[Verdict] = (),
                    basis: str = "", caution: str = "", costs: Sequence[str] = ()) -> list[str]:
    """Return sentences with the main results of a run.

    Args:
        cells: The cells (policy in scenario combinations) of the run.
        decisions: Comparisons of all cells with the baseline.
        advice: The study's recommendations, if it has any.
        claims: Verdicts on the study's claims.
        basis: Words on what the recommendations rest on.
        caution: Sentence that follows the recommendations.
        costs: Sentences that answer the run's question. They come before the recommendations, and
            take the place of those on the costs of recommended policies.
    """
    results = cells.results
    titles = {level: title for factor in results.factors if not factor.is_number
              for level in results.levels[factor.name]
              if (title := results.level_title(factor.name, level))}
    names = CodeNames({level: title for level, title in titles.items() if is_code(level, title)},
                      titles)
    if results.good.empty:  # then no advice rests on anything
        advice, costs = (), ()
    recommended = [*describe_advice(advice, basis), *_describe_reserves(cells, advice),
                   *([caution] if caution and advice else [])]
    answer = [*costs, *recommended] if costs else [
        *recommended, *_describe_costs(cells, decisions, advice)]
    # Names of factors and levels, and reasons, come from files.
    return [to_printable(names.insert_names(line)) for line in (
        describe_extent(cells), *_describe_failures(cells), *answer,
        *_describe_verdicts(claims), *_describe_open(cells, decisions, claims))]


def _describe_reserves(cells: Cells, advice: Sequence[ApplicationAdvice]) -> Iterator[str]:
    """Yield sentences on why recommendations of a small or unfinished run are not for sure."""
    if not any(offer.choices for application in advice for offer in application.offers):
        return
    if list_unmeasured(cells):
        yield "This is among the policies measured so far; others of the plan may be better."
    if max(cells.status(ids).good for ids in cells.results.cells) < 2:
        yield "One repetition shows no spread, so no limit is met for sure."


def list_unmeasured(cells: Cells) -> list[Ids]:
    """Return the planned cells that have no repetition yet."""
    return [ids for ids in cells.results.cells if cells.status(ids).word == "not run"]


def decisive_repetitions(cells: Cells,
                         decisions: Sequence[SignificanceDecision]) -> DecisiveRepetitions | None:
    """Return how many repetitions of each cell will probably decide half of the open comparisons.

    A comparison is whether a policy differs from the baseline in a metric and scenario. The number
    is for half of the undecided ones, because the last of them may need very many repetitions.
    Comparisons for which no reasonable number is sufficient are left out. The result is None if no
    other comparison is undecided.
    """
    open_ = _find_open(decisions)
    planned = max(cells.results.repetitions, 1, *(len(decision.blocks) for decision in open_))
    if open_ and planned < FEW_REPETITIONS:  # too few to estimate from, but for clear differences
        return DecisiveRepetitions(max(FEW_REPETITIONS, _count_proving(
            [decision for decision in open_ if decision.is_masked])))
    counts = sorted(max(len(decision.blocks) + decision.further, planned + 1)
                    for decision in open_ if decision.further)
    if not counts:
        return None
    repetitions = counts[(len(counts) - 1) // 2]
    return DecisiveRepetitions(repetitions, sum(count <= repetitions for count in counts))


def _find_open(decisions: Sequence[SignificanceDecision]) -> list[SignificanceDecision]:
    return [decision for decision in decisions
            if decision.metric.better and decision.outcome == "undecided"]


def open_claims(cells: Cells, claims: Sequence[Verdict]) -> list[Verdict]:
    """Return the undecided claims that further repetitions may decide.

    Claims that have had their last planned judgement are left out.
    """
    looks = cells.results.planned_looks
    return [claim for claim in claims if claim.verdict == "undecided" and any(
        looks is None or looks.next_count(_count_common(cells, needed)) for needed in claim.needed)]


def _count_common(cells: Cells, names: Collection[str]) -> int:
    """Return how many repetitions are good in all of several cells, which are named."""
    blocks: dict[str, set[str]] = {name: set() for name in names}
    for ids in cells.results.cells:
        for record in cells.record_names(ids):
            name, _, block = record.removeprefix(
                cells.results.record_prefix).rpartition("-")
            if name in blocks:
                blocks[name].add(block)
    return len(set.intersection(*blocks.values())) if blocks else 0


def make_short_table(cells: Cells) -> Table:
    """Return a short table with a row for each compared level, such as each policy.

    A metric's column has the smallest and the largest mean over all scenarios. A row has one Debian
    release.
    """
    results = cells.results
    factors = _list_row_factors(cells)
    groups = _group_by_level(cells)
    metrics = [metric for metric in results.study.metrics
               if any(cells.find_value(metric.name, ids) for ids in results.cells)]
    first = results.compared[0]
    has_names = any(results.level_title(first, level[0]) for level in groups)
    columns = (Column("level", " and ".join(factors)),
               *([Column("name", "name")] if has_names else []), Column("n", "n"),
               *(Column(metric.name, metric.title, metric.unit,
                        heading=metric.heading or (metric.title,)) for metric in metrics))
    rows = tuple((Entry("-".join(map(to_printable, level))),
                  *([Entry(results.level_title(first, level[0]))] if has_names else []),
                  Entry(_count_good(cells, members)),
                  *(Entry(format_range(cells, metric, members)) for metric in metrics))
                 for level, members in list(groups.items())[:_MAX_ROWS])
    rest = len(groups) - len(rows)
    count = len({results.select_levels(ids, [name for name in results.surroundings
                                             if name not in factors]) for ids in results.cells})
    places = f"{count} {_name_places(cells)}"
    return Table(TABLE_ID, "The run in short", columns, rows, apart=True, notes=(
        f"Least and largest mean of the {places}; n is good of planned repetitions.",
        *([f"{count_noun(rest, 'more row is', 'more rows are')} left out."] if rest else [])))


def _name_places(cells: Cells) -> str:
    titles = [factor.title.lower() for factor in cells.results.factors
              if factor.name not in _list_row_factors(cells)]
    return _make_plural(titles[0]) if len(titles) == 1 else "settings"


def _list_row_factors(cells: Cells) -> tuple[str, ...]:
    """Return the factors of a short table's rows: those compared, and the Debian release."""
    compared = cells.results.compared
    return (*compared, *(name for name in cells.results.surroundings if name == RELEASE))


def _group_by_level(cells: Cells) -> dict[Ids, list[Ids]]:
    groups: dict[Ids, list[Ids]] = {}
    factors = _list_row_factors(cells)
    for ids in cells.results.cells:
        groups.setdefault(cells.results.select_levels(ids, factors), []).append(ids)
    return groups


def _count_good(cells: Cells, members: Sequence[Ids]) -> str:
    states = [cells.status(ids) for ids in members]
    return f"{sum(state.good for state in states)}/{sum(state.total for state in states)}"


def format_range(cells: Cells, metric: Metric, members: Sequence[Ids]) -> str:
    """Return the smallest and the largest mean of some cells as text, without the unit."""
    means = [value.estimate.mean * metric.scale for ids in members
             if (value := cells.find_value(metric.name, ids))]
    if not means:
        return "-"
    low, high = (_format_end(value) for value in (min(means), max(means)))
    if low == high:
        return low
    return f"{low}{' to ' if low.startswith('-') else _DASH}{high}"


def _format_end(value: float) -> str:
    """Return an end of a range with three digits, such as 5.60. Whole numbers have no decimals.

    >>> [_format_end(value) for value in (5.6, 17.0, 123.4, 0.0, 12345.6)]
    ['5.60', '17', '123', '0', '12346']
    """
    return f"{value:.0f}" if float(value).is_integer() else round_to_digits(value)


def describe_extent(cells: Cells) -> str:
    """Return a sentence on what was measured, and how many repetitions count."""
    results = cells.results
    varied = [factor for factor in results.factors if _is_varied(cells, factor.name)]
    parts = " x ".join(f"{len(results.levels[factor.name])} {_make_plural(factor.title.lower())}"
                       for factor in varied) or count_noun(len(results.cells), "cell")
    states = [cells.status(ids) for ids in results.cells]
    good, total = sum(state.good for state in states), sum(state.total for state in states)
    proven = sum(bool(state.good) and state.verified for state in states)
    proof = f"{'all' if proven == len(states) else f'{proven} of {len(states)}'} cells proven"
    intervals = describe_intervals(cells)
    if unmeasured := list_unmeasured(cells):
        parts = f"{len(states) - len(unmeasured)} of {len(states)} planned cells of {parts}"
    if release := describe_release(cells):
        parts = f"{parts} with {release}"
    return (f"Measured: {parts}; {good} of {count_noun(total, 'repetition')} good, {proof}"
            f"{f'; {intervals}' if intervals else ''}.")


def describe_release(cells: Cells) -> str:
    """Return words on the Debian release of the daemons, "" for the default one.

    Where several releases are compared, only daemons of another release are named.
    """
    frame = cells.results.frame
    if RELEASE not in cells.results.names:
        releases = sorted(set(frame["debian"]) - {"", DEFAULT_RELEASE})
    elif len(set(frame[RELEASE])) == 1:
        releases = sorted(set(frame["debian"]) - {""})
    else:
        return join_words([f"{daemons} on {release}" for release, daemons
                           in cells.results.daemons_by_release.items() if daemons])
    return f"daemons of Debian {join_words(releases)}" if releases else ""


def describe_intervals(cells: Cells) -> str:
    """Return words on how sure the confidence intervals are, "" without a good repetition.

    In a sequential design decisions on claims and differences end the measurement, so that only
    these hold 95 %.
    """
    most = max((cells.status(ids).good for ids in cells.results.cells), default=0)
    if most < 2:
        return "one good repetition a cell gives no intervals" if most else ""
    if cells.results.planned_looks is None:
        return "intervals hold 95\N{NO-BREAK SPACE}%"
    return ("decisions hold 95\N{NO-BREAK SPACE}%, other intervals a little less, as decisions "
            "choose how much is measured")


def _is_varied(cells: Cells, factor: str) -> bool:
    return len(cells.results.levels[factor]) > 1


def _make_plural(noun: str) -> str:
    if noun.endswith("s"):
        return noun
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"


def _describe_failures(cells: Cells) -> Iterator[str]:
    """Yield a sentence for each combination with failed or missing repetitions or no baseline."""
    faults = sorted(set(cells.results.frame["fault"]) - {""})
    if faults:
        yield (f"Negative control: {join_words([repr(name) for name in faults])} was put in, so "
               "failures are meant.")
    lines = [*describe_failures(cells, is_brief=True), *describe_skips(cells, is_brief=True)]
    yield from lines[:_MAX_FAILURES]
    if len(lines) > _MAX_FAILURES:
        yield f"{len(lines) - _MAX_FAILURES} further reasons why repetitions do not count."
    lacking = [_name_cell(cells, ids) for ids in cells.results.cells
               if cells.status(ids).word in ("not run", "too few")]
    if lacking:
        yield f"Not measured yet, or too few repetitions: {_list_names(lacking)}."
    if faults:  # a negative control has no good repetitions
        return
    if not cells.baseline.levels:
        if cells.results.study.baseline or cells.baseline.note:
            yield cells.baseline.note or "No differences: this run has no baseline."
        return
    for section, members in cells.sections.items():
        base = [ids for ids in members if cells.baseline.is_baseline(cells.results, ids)]
        if not any(cells.status(ids).good for ids in base):
            where = _name_place(cells, section, every=True)
            yield (f"No differences{where}: the baseline {_name_baseline(cells)} has no good "
                   "repetition there.")


def describe_failures(cells: Cells, *, is_brief: bool = False) -> Iterator[str]:
    """Yield a sentence for each reason of failures, with all combinations that have it.

    With `is_brief`, a sentence has four names at most. If several checks did not hold, it has the
    first and their number.
    """
    return _join_reasons(cells, lambda status: status.failures, is_brief=is_brief)


def describe_skips(cells: Cells, *, is_brief: bool = False) -> Iterator[str]:
    """Yield a sentence for each reason of skipped repetitions, as `describe_failures` does."""
    return _join_reasons(cells, lambda status: status.skips, is_brief=is_brief)


def _join_reasons(cells: Cells, reasons: Callable[[CellStatus], Sequence[str]], *,
                  is_brief: bool) -> Iterator[str]:
    """Yield a sentence for each reason, with the names of all combinations that have it."""
    members: dict[str, set[Ids]] = {}
    for ids in cells.results.cells:
        for line in reasons(cells.status(ids)):
            members.setdefault(line, set()).add(ids)
    groups = _group_by_level(cells)
    for line, of_reason in members.items():
        names = _name_cells(cells, groups, of_reason)
        yield (f"{_list_names(names)}: {_shorten_reasons(line)}." if is_brief else
               f"{join_words(names)}: {line}.")


def _name_cells(cells: Cells, groups: Mapping[Ids, Sequence[Ids]],
                members: Collection[Ids]) -> list[str]:
    """Return names of combinations. A policy has one name where all its combinations are there.

    `groups` has all combinations by policy (`_group_by_level`).
    """
    names = []
    for level, of_level in groups.items():
        chosen = [ids for ids in of_level if ids in members]
        if len(chosen) == len(of_level) > 1:
            number = "both" if len(of_level) == 2 else f"all {len(of_level)}"
            where = f"{number} {_name_places(cells)}"
            names.append(f"{_name_level(cells, level, _list_row_factors(cells))} in {where}")
        else:
            names += [_name_cell(cells, ids) for ids in chosen]
    return names


def _shorten_reasons(line: str) -> str:
    """Return the first reason of several, and the number of the others."""
    first, *others = line.split(_NEXT_REASON)
    if not others:
        return first
    verb = "does" if len(others) == 1 else "do"
    return f"{first}; {count_noun(len(others), 'further check')} {verb} not hold"


def describe_advice(advice: Sequence[ApplicationAdvice], basis: str) -> Iterator[str]:
    """Yield a sentence for each recommended policy (or equal ones), with the uses that it suits.

    Args:
        advice: The study's recommendations.
        basis: Words on what the recommendations rest on.
    """
    #: Uses of each recommendation in words, by the kinds of scenarios that they are limited to.
    uses_of: dict[str, dict[str, list[str]]] = {}
    for application in advice:
        places: dict[str, list[str]] = {}
        for offer in application.offers:
            places.setdefault(_describe_offer(offer, basis), []).append(offer.place.lower())
        for text, kinds in places.items():
            where = "" if len(kinds) == len(application.offers) else f" ({', '.join(kinds)})"
            uses_of.setdefault(text, {}).setdefault(where, []).extend(
                application.application.lower().split(" \N{MIDDLE DOT} "))
    for text, uses in uses_of.items():
        what = "; ".join(f"{join_words(names)}{where}" for where, names in uses.items())
        yield f"For {what}: {text}."


def _describe_offer(offer: Recommendation, basis: str) -> str:
    """Return the recommended policies in words, or the reason why there are none."""
    if offer.choices:
        levels = join_words([_join_title(*choice) for choice in offer.choices], "or")
        return levels + "".join(f"{sign} {text}" for sign, text in (
            (",", basis), (";", offer.tie_words)) if text)
    return f"{offer.reason[:1].lower()}{offer.reason[1:].removesuffix('.')}"


def _describe_costs(cells: Cells, decisions: Sequence[SignificanceDecision],
                    advice: Sequence[ApplicationAdvice]) -> Iterator[str]:
    """Yield a sentence on the costs of each recommended policy, or else of the first ones."""
    results = cells.results
    if not cells.baseline.levels:
        yield from _describe_extremes(cells)
        return
    recommended = {level for application in advice for offer in application.offers
                   for level, _ in offer.choices}
    levels: dict[Ids, list[SignificanceDecision]] = {}
    for decision in decisions:
        if decision.metric.better:
            levels.setdefault(results.select_levels(decision.ids, results.compared),
                              []).append(decision)
    chosen = [level for level in levels if recommended & set(level)] or list(levels)
    are_proven = False
    for level in chosen[:_MAX_LEVELS]:
        texts = [text for metric in results.study.metrics
                 if (text := _describe_metric(cells, metric, [
                     each for each in levels[level] if each.metric is metric]))]
        name = _name_level(cells, level)
        are_proven |= bool(texts)
        if texts:
            yield f"{name} against {_name_baseline(cells)}: {'; '.join(texts)}."
        else:
            yield f"{name}: no difference from {_name_baseline(cells)} is proven."
    if len(chosen) > _MAX_LEVELS:
        yield f"The table has {len(chosen) - _MAX_LEVELS} more."
    if len(cells.sections) > 1 and are_proven:
        yield ("These intervals hold in all scenarios together, so they are wider than those of "
               "the tables.".replace("scenarios", _name_places(cells)))
    yield from explain_unproven([decision for level in chosen[:_MAX_LEVELS]
                                 for decision in levels[level]])


def explain_unproven(decisions: Sequence[SignificanceDecision]) -> Iterator[str]:
    """Yield a sentence on differences that only the correction for their number leaves unproven.

    Their own intervals exclude 0, so a reader of the tables would expect a proven difference.
    """
    open_ = [decision for decision in decisions if decision.outcome == "undecided"]
    if open_ and all(len(decision.blocks) < 2 for decision in open_):
        yield (f"One repetition cannot prove a difference. Take {FEW_REPETITIONS} repetitions or "
               "more.")
        return
    masked = [decision for decision in open_ if decision.is_masked]
    if not masked:
        return
    counts, families = ({count(decision) for decision in masked} for count in (
        lambda decision: len(decision.blocks), lambda decision: decision.family))
    enough = _count_proving(masked)
    advice = f" About {enough} repetitions can." if enough else ""
    verb, what = ("excludes", "a difference") if len(masked) == 1 else ("exclude", "differences")
    titles = Counter(decision.metric.title for decision in masked)
    where = ", ".join(f"{count} of {title}" for title, count in titles.items())
    yield (f"Of those without proven difference, {count_noun(len(masked), 'interval')} {verb} 0 "
           f"({where}). But {_format_counts(counts)} repetitions cannot prove {what} of this "
           f"size after the correction for {_format_counts(families)} comparisons.{advice}")


def _count_proving(masked: Sequence[SignificanceDecision]) -> int:
    """Return how many repetitions will probably prove all these differences, 0 if unknown."""
    return max((len(decision.blocks) + decision.further for decision in masked
                if decision.further), default=0)


def _format_counts(counts: Collection[int]) -> str:
    return " to ".join(map(str, dict.fromkeys((min(counts), max(counts)))))


def _describe_extremes(cells: Cells) -> Iterator[str]:
    """Yield a sentence with the smallest and largest mean of each metric, for up to four metrics.

    The metrics are the study's first ones. The data choose the two cells, so the intervals of all
    cells hold at the same time. This is for a run without a baseline.
    """
    metrics = [metric for metric in cells.results.study.metrics if metric.better]
    for metric in metrics[:_MAX_LEVELS]:
        values = {ids: value for ids in cells.results.cells
                  if (value := cells.find_value(metric.name, ids))}
        if not values:
            continue
        level = joint_level(len(values))
        means = {ids: (mean(value.blocks.values(), level) if value.blocks
                       else value.estimate).scale(metric.scale) for ids, value in values.items()}
        least, most = (choose(means, key=lambda ids: means[ids].mean) for choose in (min, max))
        text = f"{_format_interval(means[least])} {metric.unit}".strip()
        if least != most:
            top = f"{_format_interval(means[most])} {metric.unit}".strip()
            text = f"{text} ({_name_cell(cells, least)}) to {top} ({_name_cell(cells, most)})"
        yield f"{metric.sentence}: {text}."


def _describe_metric(cells: Cells, metric: Metric,
                     decisions: Sequence[SignificanceDecision]) -> str:
    """Return a sentence on the smallest and largest significant cost in a metric, or "".

    The data choose these scenarios, so the intervals of all scenarios hold at the same time.
    """
    changes = [_find_change(cells, decision, joint_level(len(decisions)))
               for decision in decisions if decision.outcome == "different"]
    to_cost = _choose_cost_unit(changes)
    proven = [(to_cost(change), change.decision) for change in changes]
    costs = [pair for pair in proven if pair[0].is_certain]
    if not costs:
        return ""
    costs.sort(key=lambda pair: abs(pair[0].size))
    (least, first), (most, last) = costs[0], costs[-1]
    # One direction in words: what is better in one place and worse in another stands apart.
    if least.unit != most.unit or least.is_worse != most.is_worse:
        text = " and ".join(f"{cost.with_unit}{_name_place(cells, each.section)}"
                            for cost, each in ((least, first), (most, last)))
    elif first is last:
        text = f"{most.with_unit}{_name_place(cells, last.section)}"
    else:
        text = (f"{least.with_unit}{_name_place(cells, first.section)} to {most.text}"
                f"{_name_place(cells, last.section)}")
    counts = [f"{count} of {len(decisions)} {what}" for count, what in (
        (len(decisions) - len(proven), "without proven difference"),
        (len(proven) - len(costs), "proven alone, not together with the others")) if count]
    return f"{metric.title} {text}{f' ({join_words(counts)})' if counts else ''}"


@dataclass(frozen=True)
class _Change:
    """The change of a metric by a policy in one scenario: a difference, and a ratio if known."""

    decision: SignificanceDecision
    difference: Estimate
    ratio: Estimate | None

    @property
    def is_worse(self) -> bool:
        """Return whether the policy is worse than the baseline."""
        return (self.difference.mean > 0) == (self.decision.metric.better == "lower")

    def to_difference(self) -> _Cost:
        """Return the cost in the metric's unit."""
        metric, rises = self.decision.metric, self.difference.mean > 0
        scaled = self.difference.scale(metric.scale if rises else -metric.scale)
        return _Cost(scaled.mean, _format_interval(scaled),
                     f"{metric.unit} {'more' if rises else 'less'}".strip(), self.is_worse,
                     not scaled.spans_zero)

    def to_multiple(self) -> _Cost:
        """Return the cost as a multiple of the baseline."""
        assert self.ratio is not None
        return _Cost(self.ratio.mean, _format_interval(self.ratio),
                     f"times as {'long' if self._is_time else 'much'}", self.is_worse,
                     not _shift_estimate(self.ratio, -1).spans_zero)

    def to_percentage(self) -> _Cost:
        """Return the cost in percent of the baseline."""
        assert self.ratio is not None
        rises = self.ratio.mean > 1
        percent = _shift_estimate(self.ratio, -1).scale(100 if rises else -100)
        words = ("longer", "shorter") if self._is_time else ("more", "less")
        return _Cost(percent.mean, _format_interval(percent), f"% {words[0 if rises else 1]}",
                     self.is_worse, not percent.spans_zero)

    @property
    def _is_time(self) -> bool:
        return self.decision.metric.name.endswith("_s")


def _choose_cost_unit(changes: Sequence[_Change]) -> Callable[[_Change], _Cost]:
    """Return the conversion that gives all changes of a metric one unit, to compare them.

    Ratios come first: multiples if one policy at least doubles the metric, or else percentages. If
    a change has no ratio, all have the metric's unit.
    """
    if any(change.ratio is None for change in changes):
        return _Change.to_difference
    if any(change.ratio and change.ratio.mean >= _MIN_MULTIPLE for change in changes):
        return _Change.to_multiple
    return _Change.to_percentage


def _find_change(cells: Cells, decision: SignificanceDecision, level: float) -> _Change:
    """Return the change of a metric from the baseline. `level` is that of its intervals."""
    first, second = (cells.values_by_block(decision.metric.name, ids)
                     for ids in (decision.ids, decision.baseline))
    return _Change(decision, mean(paired_differences(first, second), level),
                   _find_ratio(first, second, level))


def _find_ratio(first: Mapping[int, float], second: Mapping[int, float],
                level: float) -> Estimate | None:
    """Return the ratio of two means by repetition number, with Fieller's interval.

    The result is None if there are fewer than two common repetitions, or if the divisor may be 0.
    """
    common = sorted(first.keys() & second.keys())
    if len(common) < 2:
        return None
    above, below = (np.array([values[block] for block in common]) for values in (first, second))
    ratio = fieller_ratio(above, below, level)
    if ratio is None or ratio.low is None or ratio.high is None or ratio.mean <= 0:
        return None
    return ratio


def _shift_estimate(estimate: Estimate, change: float) -> Estimate:
    low, high = (None if end is None else end + change for end in (estimate.low, estimate.high))
    return Estimate(estimate.mean + change, low, high, estimate.n)


def _format_interval(estimate: Estimate) -> str:
    """Return a mean with its confidence interval as text.

    The text is "MEAN ± HALF WIDTH", or "MEAN (LOW to HIGH)" if the interval is not symmetric.
    """
    half = estimate.half_width
    main, spread = round_to_uncertainty(estimate.mean, half)
    if not half or estimate.low is None or estimate.high is None:
        return main
    if abs(estimate.high + estimate.low - 2 * estimate.mean) <= 2 * _SYMMETRY * half:
        return f"{main}\N{NO-BREAK SPACE}{PLUS_MINUS}\N{NO-BREAK SPACE}{spread}"
    low, high = (round_to_uncertainty(end, half)[0] for end in (estimate.low, estimate.high))
    return f"{main} ({low} to {high})"


def _describe_open(cells: Cells, decisions: Sequence[SignificanceDecision],
                   claims: Sequence[Verdict]) -> Iterator[str]:
    """Yield sentences on the claims and comparisons that are not decided."""
    yield from _describe_open_claims(cells, claims)
    tested = [decision for decision in decisions if decision.metric.better]
    if open_ := _find_open(decisions):
        names_of: dict[str, list[str]] = {}
        for decision in open_:
            names_of.setdefault(decision.metric.title, []).append(_name_cell(cells, decision.ids))
        listed = "; ".join(
            f"{title} of {', '.join(names)}" if len(open_) <= _MAX_NAMES
            else f"{len(names)} of {title}" for title, names in names_of.items())
        reason = "" if decisive_repetitions(cells, decisions) else (
            " No affordable number of repetitions is likely to decide "
            f"{'it' if len(open_) == 1 else 'these'}.")
        yield (f"Not decided: {len(open_)} of {count_noun(len(tested), 'difference')} from "
               f"{_name_baseline(cells)} ({listed}).{reason}")


def _describe_verdicts(claims: Sequence[Verdict]) -> Iterator[str]:
    """Yield a sentence on how many claims are confirmed and refuted."""
    counts = Counter(claim.verdict for claim in claims)
    decided = [f"{counts[word]} {word}" for word in ("confirmed", "refuted") if counts[word]]
    if decided:
        yield f"Claims: {len(claims)}, of them {join_words(decided)} ({_CLAIMS_TABLE})."


def _describe_open_claims(cells: Cells, claims: Sequence[Verdict]) -> Iterator[str]:
    """Yield a sentence on undecided claims: how many repetitions can decide, or why none can."""
    undecided = [claim for claim in claims if claim.verdict == "undecided"]
    if not undecided:
        return
    decidable, looks = open_claims(cells, claims), cells.results.planned_looks
    at_limit = [claim for claim in undecided if claim.needed and claim not in decidable]
    counted = f"Not decided: {len(undecided)} of {count_noun(len(claims), 'claim')}"
    if list_unmeasured(cells):
        yield f"{counted}. The plan is not measured completely yet."
        return
    if decidable and len(decidable) < len(undecided):
        yield (f"{counted}. More repetitions of this plan can decide {len(decidable)}"
               f"{_name_claims(decidable)}, but not the other {len(undecided) - len(decidable)}.")
        return
    counted, them = counted + _name_claims(undecided), "it" if len(undecided) == 1 else "them"
    if decidable:
        yield f"{counted}. More repetitions of this plan can decide {them}."
        return
    last = "" if looks is None else (
        f"{len(at_limit)} {'is' if len(at_limit) == 1 else 'are'} at the last look, after "
        f"{looks.last_count} repetitions. ")
    yield (f"{counted}. {last if at_limit else ''}More repetitions of this plan cannot decide "
           f"{them}: the {_CLAIMS_TABLE} says why.")


def _name_claims(claims: Sequence[Verdict]) -> str:
    """Return the ids and words of claims in brackets, or "" for a long list."""
    if len(claims) > _MAX_CLAIMS:
        return ""
    return f" ({'; '.join(f'{claim.id}: {claim.says}' for claim in claims)})"


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join([*names[:_MAX_NAMES], *([f"{more} more"] if more > 0 else [])])


def _name_place(cells: Cells, section: Ids, *, every: bool = False) -> str:
    """Return text such as "in ID (TITLE)" of a scenario.

    Factors that do not vary are left out, unless the text is to have `every` one.
    """
    levels = {factor: level
              for factor, level in zip(cells.results.surroundings, section, strict=True)
              if every or _is_varied(cells, factor)}
    return f" in {_name_level(cells, tuple(levels.values()), tuple(levels))}" if levels else ""


def _name_number(cells: Cells, factor: str, level: str) -> str:
    """Return a level (such as a policy) as text, after its factor's name if it is a number."""
    is_number = level.replace(".", "", 1).isdecimal()
    title = next(each.title for each in cells.results.factors if each.name == factor)
    return f"{title.lower()} {level}" if is_number else to_printable(level)


def _name_baseline(cells: Cells) -> str:
    return _name_level(cells, tuple(cells.baseline.levels.values()),
                       tuple(cells.baseline.levels))


def _name_level(cells: Cells, level: Ids, factors: Sequence[str] = ()) -> str:
    """Return the ids and titles of levels (such as policies) as text."""
    return ", ".join(_join_title(_name_number(cells, factor, name),
                                 cells.results.level_title(factor, name))
                     for factor, name in zip(factors or cells.results.compared, level, strict=True))


def _name_cell(cells: Cells, ids: Ids) -> str:
    level = _name_level(cells, cells.results.select_levels(ids, cells.results.compared))
    place = _name_place(cells, cells.results.select_levels(ids, cells.results.surroundings))
    return f"{level}{place}"


def _join_title(level: str, title: str) -> str:
    return f"{level} ({title})" if title and title != level else level


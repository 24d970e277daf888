"""Advise which security policies meet the limits of an application such as telephony.

`APPLICATIONS` has the limits on delay, packet loss, rate and protection (sigma, the sum of a
policy's weights). `assess_policy` compares a policy's worst measured values with these limits.
`build_advice_table` shows which policies qualify, at home and roaming. `build_overview` shows the
strongest of them for each application (`strongest_fits`). The paper is Agarwal and Wang (2007).
`studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Literal

from analysis import statistics
from analysis.blocks import ratio_of_means
from analysis.cells import Observation
from analysis.reporting.significance import SIGNIFICANT, negligible_difference
from analysis.reporting.table_entries import (
    MISSING_ENTRY,
    NOT_COUNTED_ENTRY,
    exact_entry,
    metric_column,
    observation_entry,
    to_quantity,
)
from analysis.statistics import Estimate
from analysis.table import Column, Entry, Table, join_words
from studies.qop2007.measurements import AUTHENTICATION, HANDOFF, OVERHEADS, STREAMS
from studies.qop2007.report.basis import (
    G711,
    KIND_TITLES,
    KINDS,
    NAME,
    POLICY,
    SIGMA,
    CallPackets,
    Kind,
    ReportBasis,
    ScoredPolicy,
    group_sections,
    policy_entries,
)
from studies.study import StudyError

# --- Limits of applications on delay, loss, rate and protection ---

#: Thresholds of the 2007 paper (6.1, after Zhai, Chen and Fang 2005), in seconds. Up to the first
#: no delay is audible. Up to the second there is quality of service. Beyond the third no
#: communication is possible.
INAUDIBLE_S, SERVICE_S, POSSIBLE_S = 0.15, 0.40, 0.60
#: Loss that real-time services tolerate (6.3, 6.5): streams 1 percent, voice up to 3 percent.
STREAM_LOSS, VOICE_LOSS = 0.01, 0.03
#: Rate of a voice call in bit/s (6.2).
CALL_BPS = 64e3
#: Rate of a video conference in bit/s. The paper names none. This is six channels of 64 kbit/s
#: (H.320).
VIDEO_BPS = 384e3
#: Time between two network changes of a user (s). The paper has no number. A person who walks past
#: access points changes about once a minute.
BETWEEN_MOVES_S = 60.0


@dataclass(frozen=True)
class ApplicationLimits:
    """Limits of an application on delay, loss, rate and protection.

    None means no limit.

    - `delay_s`: longest interruption in seconds
    - `loss`: largest fraction of lost packets
    - `rate_bps`: rate of one stream in bit/s
    - `sigma`: smallest sigma (strength of protection), in percent of the largest
    - `between_moves_s`: seconds from one handoff to the next
    - `stream`: transport protocol of the data
    - `packets`: packets of a voice call, if the application has calls
    """

    name: str
    title: str
    delay_s: float | None = None
    loss: float | None = None
    rate_bps: float | None = None
    sigma: float | None = None
    between_moves_s: float = BETWEEN_MOVES_S
    stream: Literal["tcp", "udp"] = "udp"
    packets: CallPackets | None = None

    @property
    def words(self) -> str:
        """Return the limits as text for a table."""
        parts = [f"an interruption of {self.delay_s:g} s at most" if self.delay_s else "",
                f"packets lost in handoffs {100 * self.loss:g} % at most, with a handoff every "
                f"{self.between_moves_s:g} s" if self.loss else "",
                f"{self.rate_bps / 1e3:g} kbit/s" if self.rate_bps else "",
                f"sigma of {self.sigma:g} % at least" if self.sigma else ""]
        return ", ".join(part for part in parts if part) or "no limits"


APPLICATIONS: Mapping[str, ApplicationLimits] = {
    limits.name: limits for limits in (
        ApplicationLimits("voice", "Voice calls", SERVICE_S, VOICE_LOSS, CALL_BPS, packets=G711),
        ApplicationLimits("video", "Video conferences", SERVICE_S, STREAM_LOSS, VIDEO_BPS),
        ApplicationLimits("file-transfer", "E-mail, web and file transfer", stream="tcp"))}
_KEYS = {"delay": "delay_s", "loss": "loss", "rate": "rate_bps", "sigma": "sigma",
         "moves": "between_moves_s"}


def parse_limits(text: str) -> ApplicationLimits:
    """Return the limits of a named application, or parse limits such as `delay=0.2,loss=0.01`.

    Keys are `delay` and `moves` (seconds), `loss` (fraction), `rate` (bit/s) and `sigma` (percent).

    Raises:
        StudyError: the text has other keys, or a value is no positive number.
    """
    known = APPLICATIONS.get(text.strip().lower().replace(" ", "-"))
    if known is not None:
        return known
    names = ", ".join(APPLICATIONS)
    given: dict[str, float] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in _KEYS:
            raise StudyError(f"no application {text!r}; give one of {names}, or limits such as "
                             f"delay=0.2,loss=0.01 (keys: {', '.join(_KEYS)})")
        given[_KEYS[key]] = _parse_positive(key, value)
    return ApplicationLimits("own", "Limits of one's own", **given)  # type: ignore[arg-type]


def _parse_positive(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise StudyError(f"{key}={value} is not a limit; give a number above 0")
    return number


def grade_interruption(delay_s: float) -> str:
    """Describe how a speaker notices an interruption (s), by the 2007 paper's thresholds."""
    steps = ((INAUDIBLE_S, "not audible"), (SERVICE_S, "with quality of service"),
             (POSSIBLE_S, "poor"))
    return next((word for limit, word in steps if delay_s <= limit), "not possible")


# --- Fit of a policy to an application in one kind of scenario ---

Answer = Literal["yes", "no", "undecided", "not measured"]


@dataclass(frozen=True)
class WorstValue:
    """The worst value of a policy over several scenarios, and the scenario that has it."""

    place: str
    value: Observation


@dataclass(frozen=True)
class PolicyFit:
    """Result of comparing a policy with an application's limits.

    None means not measured.

    Each number is from the scenario where it is worst:

    - `interruptions`: the authentication time and, roaming, the handoff
    - `loss`: fraction of packets that handoffs lose
    - `throughput`: goodput in the slowest scenario
    - `calls`: number of voice calls that the air of the scenario `calls_place` carries
    - `cost`: fraction of the unprotected rate that is lost, in the scenario `cost_place`
    - `fails`: limits that are not met, or for which the data do not decide
    """

    policy: ScoredPolicy
    answer: Answer
    fails: tuple[str, ...]
    interruptions: tuple[WorstValue | None, ...]
    loss: Estimate | None
    throughput: WorstValue | None
    calls: int | None
    calls_place: str
    cost: Estimate | None
    cost_place: str


def assess_policy(basis: ReportBasis, policy: ScoredPolicy, limits: ApplicationLimits,
                  kind: Kind) -> PolicyFit:
    """Compare a policy's worst measured values with the limits of an application.

    Args:
        basis: the measured or published values.
        policy: the policy to assess.
        limits: the limits of the application.
        kind: scenarios to use: `home` or `roaming`.

    Returns:
        The verdict with its numbers. It is undecided if a confidence interval contains a limit.
    """
    names = [AUTHENTICATION.name, *([HANDOFF.name] if kind == "roaming" else [])]
    there = {name: _find_observations(basis, name, policy, kind) for name in names}
    interruptions = tuple(_find_largest(values) for values in there.values())
    gap = interruptions[-1] or interruptions[0]
    loss: Estimate | None = Estimate(0, 0, 0, 0)
    if kind == "roaming":
        loss = gap.value.estimate.scale(1 / limits.between_moves_s) if gap else None
    rates = _find_observations(basis, STREAMS[limits.stream].name, policy, kind)
    throughput = min((WorstValue(place, rate) for place, rate in rates.items() if rate),
                     key=lambda worst: worst.value.estimate.mean, default=None)
    calls, calls_place = _fewest_calls(basis, policy, limits,
                                       [place for place in rates if rates[place]])
    sigma = policy.score.sigma_normalized if policy.score else None
    # A user who moves is interrupted by the handoff, which has an authentication only if it needs
    # one. Without a measured handoff, the authentication time stands for it.
    interrupting = there[names[-1]] or there[names[0]]
    required = list(interrupting.values())
    checks = {
        "interruption": _combine_answers(_is_below(time.estimate if time else None, limits.delay_s)
                                         for time in required) if required
                                         else _is_below(None, limits.delay_s),
        "loss": _is_below(loss, limits.loss),
        "rate": "no" if calls == 0 else _is_above(
            throughput.value.estimate if throughput else None, limits.rate_bps),
        "protection": _is_above(None if sigma is None else Estimate(sigma, sigma, sigma, 0),
                                limits.sigma)}
    fails = tuple(name if answer == "no" else f"{name}?" for name, answer in checks.items()
                  if answer != "yes")
    answer = _combine_answers(checks.values())
    if answer != "no" and not any(interruptions) and throughput is None:
        answer = "not measured"
    cost, place = _largest_cost(basis, policy, limits, kind)
    return PolicyFit(policy, answer, fails, interruptions, loss, throughput, calls, calls_place,
                     cost, place)


def _find_observations(basis: ReportBasis, metric: str, policy: ScoredPolicy,
                       kind: Kind) -> dict[str, Observation | None]:
    """Return a policy's values by scenario, for the scenarios where some policy was measured."""
    return {place.id: basis.find_observation(metric, policy.id, place.id)
            for place in basis.measured_places(metric, basis.of_kind(kind))}


def _find_largest(values: Mapping[str, Observation | None]) -> WorstValue | None:
    """Return the largest of a policy's values, or None if one is missing and could be larger."""
    measured = [WorstValue(place, value) for place, value in values.items() if value]
    if len(measured) < len(values):
        return None
    return max(measured, key=lambda worst: worst.value.estimate.mean, default=None)


def _fewest_calls(basis: ReportBasis, policy: ScoredPolicy, limits: ApplicationLimits,
                  places: Iterable[str]) -> tuple[int | None, str]:
    """Return the smallest number of voice calls that a scenario's air carries, and the scenario.

    The number is None if the call's packets or the capacity of a scenario's air are unknown.
    """
    if limits.packets is None:
        return None, ""
    counts = {place: basis.calls.get((limits.packets, policy.id, place)) for place in places}
    known = {place: count for place, count in counts.items() if count is not None}
    if not known or len(known) < len(counts):
        return None, ""
    fewest = min(known, key=lambda place: known[place])
    return known[fewest], fewest


def _largest_cost(basis: ReportBasis, policy: ScoredPolicy, limits: ApplicationLimits,
                  kind: Kind) -> tuple[Estimate | None, str]:
    """Return the largest fraction of the unprotected rate that a policy loses, and the scenario.

    The baseline loses 0. The fraction is None if it is unknown in every scenario.
    """
    if policy.id == basis.baseline:
        return Estimate(0.0, None, None, 0), ""
    lost, rate = OVERHEADS[limits.stream].name, STREAMS[limits.stream].name
    shares = {place.id: share for place in basis.of_kind(kind) if (share := ratio_of_means(
        basis.observations, [(lost, policy.id, place.id)],
        [(rate, basis.baseline or "", place.id)])) is not None}
    worst = max(shares, key=lambda place: shares[place].mean, default="")
    return shares.get(worst), worst


def _is_below(estimate: Estimate | None, limit: float | None) -> Answer:
    """Return yes, no or undecided for a value below a limit. Printed values have no interval."""
    if limit is None:
        return "yes"
    if estimate is None:
        return "undecided"
    low = estimate.mean if estimate.low is None else estimate.low
    high = estimate.mean if estimate.high is None else estimate.high
    if high <= limit:
        return "yes"
    return "no" if low > limit else "undecided"


def _is_above(estimate: Estimate | None, limit: float | None) -> Answer:
    if estimate is None or limit is None:
        return _is_below(estimate, limit)
    return _is_below(estimate.scale(-1.0), -limit)


def _combine_answers(answers: Iterable[Answer]) -> Answer:
    given = set(answers)
    return "no" if "no" in given else "undecided" if "undecided" in given else "yes"


# --- Tables ---

_WHAT = ("Interruption: the handoff when roaming, and the authentication time at home, or where "
         "no handoff was measured. The paper's thresholds are 0.15 s (not audible), 0.40 s (limit "
         "of quality of service) and 0.60 s (limit of any communication). A limit is met if the "
         "whole 95 % interval meets it in every scenario. Each number is from the scenario where "
         "it is worst, which is named next to it.")
_CALLS = ("Calls: number of G.711 calls that the air carries, with packets of 20 ms in each "
          "direction. Packets have RTP, UDP, IP and the policy's headers. DIFS, backoffs, frames "
          "and acknowledgements take airtime. Collisions are not counted, so these are upper "
          "bounds.")
_EQUAL = ("Of equal sigma, a policy is preferred only if it is proven better than the others: by a "
          "higher rate, a shorter authentication or, roaming, a shorter handoff. Differences are "
          "tested within blocks, "
          f"beyond what does not matter ({STREAMS['tcp'].negligible:.0%} of the rate, "
          f"{HANDOFF.negligible * HANDOFF.scale:g} {HANDOFF.unit}), and corrected by Holm's "
          "method. Otherwise all of them are recommended, in the order of their names.")
_UNPROTECTED = ("Never recommended: a policy without any protection, or whose data is neither "
                "confidential nor protected from change as of 2026, whatever its sum.")
_PRINTED = ("Printed values have no intervals and are taken as they are. The paper suggests P3, P4 "
            "and P8 for real-time services for their overhead (6.6); the authentication times it "
            "prints for them, 1.4 s and more, are beyond its own limits (6.1).")


def build_advice_table(basis: ReportBasis, application: str | ApplicationLimits,
                       other_scheme: ReportBasis | None = None) -> Table:
    """Build the table of the policies that meet an application's limits.

    Args:
        basis: the measured or published values.
        application: name of an application, or limits.
        other_scheme: the same policies with protection scored by other weights. A policy that
            protects no data by either score is never recommended.

    Raises:
        ValueError: there is no application of this name. The message has one line.
    """
    limits = parse_limits(application) if isinstance(application, str) else application
    kinds = [kind for kind in KINDS if basis.of_kind(kind)]
    fits = {kind: [assess_policy(basis, scored, limits, kind) for scored in basis.policies]
            for kind in kinds}
    open_ = unprotected_policies(basis, other_scheme)
    chosen = {kind: [fit.policy.id for fit in strongest_fits(basis, candidates, limits, kind,
                                                             open_)]
              for kind, candidates in fits.items()}
    rows = []
    for index, scored in enumerate(basis.policies):
        entries = [entry for kind in kinds
                   for entry
                   in _advice_entries(basis, fits[kind][index], limits, kind, chosen[kind])]
        # The row is wide enough without names, which other tables have.
        policy, _, sigma = policy_entries(scored)
        rows.append((policy, sigma, *entries))
    best = [f"{KIND_TITLES[kind]}: {join_words(ids, 'or') or 'no policy qualifies'}."
            for kind, ids in chosen.items()]
    notes = [_WHAT, *([_CALLS] if _has_calls(basis, limits) else []), _EQUAL, _UNPROTECTED,
             *([_PRINTED] if basis.origin == "published" else [])]
    return Table(f"advice-{limits.name}", f"Policies and limits: {limits.title}",
                 (POLICY, SIGMA, *(shown for kind in kinds
                                   for shown in _advice_columns(basis, limits, kind))),
                 tuple(rows), f"Limits: {limits.words}. The strongest policy within them: "
                 f"{' '.join(best)}", tuple(notes), group_sections(basis.policies))


def unprotected_policies(basis: ReportBasis,
                         other_scheme: ReportBasis | None = None) -> frozenset[str]:
    """Return the policies that protect no data, by at least one of two scores of protection."""
    return frozenset(policy.id for one in (basis, other_scheme) if one is not None
                     for policy in one.policies
                     if policy.score is None or not policy.score.protects)


def strongest_fits(basis: ReportBasis, fits: Sequence[PolicyFit], limits: ApplicationLimits,
                   kind: Kind, unprotected: frozenset[str]) -> tuple[PolicyFit, ...]:
    """Return the strongest policies that meet the limits, in the order of `fits`.

    Several policies of equal sigma are returned, except those that are proven worse than another.
    A policy that does not protect data is never returned, even if it meets the limits.

    Args:
        basis: the measured or published values.
        fits: the policies, compared with one application's limits.
        limits: the limits of the application.
        kind: scenarios to use: `home` or `roaming`.
        unprotected: ids of the policies that protect no data.
    """
    good = [fit for fit in fits if fit.answer == "yes" and fit.policy.id not in unprotected]
    strongest = max(map(_sigma_of, good), default=0.0)
    equal = tuple(fit for fit in good if _sigma_of(fit) == strongest)
    worse = _find_worse(basis, [fit.policy.id for fit in equal], limits, kind)
    return tuple(fit for fit in equal if fit.policy.id not in worse) or equal


def _find_worse(basis: ReportBasis, policies: Sequence[str], limits: ApplicationLimits,
                kind: Kind) -> set[str]:
    """Return the policies that are proven worse than another of several policies.

    A policy is worse if its rate is lower, its authentication longer or, roaming, its handoff
    longer, in any scenario. Where each of two policies is proven worse in something, neither of
    them counts as worse. All comparisons are corrected together by Holm's method.
    """
    metrics = (STREAMS[limits.stream], AUTHENTICATION, *([HANDOFF] if kind == "roaming" else []))
    tests: list[tuple[float, tuple[str, str]]] = []
    for (first, second), metric, place in product(combinations(policies, 2), metrics,
                                                  basis.of_kind(kind)):
        values = [value.blocks for policy in (first, second)
                  if (value := basis.find_observation(metric.name, policy, place.id))]
        differences = statistics.paired_differences(*values) if len(values) == 2 else ()
        margin = negligible_difference(metric, values[1]) if len(differences) else 0.0
        p_value = statistics.p_value_beyond(differences, margin)
        if p_value is not None:
            is_first_better = (sum(differences) > 0) == (metric.better == "higher")
            tests.append((p_value, (first, second) if is_first_better else (second, first)))
    adjusted = statistics.holm(p_value for p_value, _ in tests).tolist()
    proven = {order for (_, order), p_value in zip(tests, adjusted, strict=True)
              if p_value < SIGNIFICANT}
    return {worse for better, worse in proven if (worse, better) not in proven}


def _has_calls(basis: ReportBasis, limits: ApplicationLimits) -> bool:
    """Return whether the report can tell how many calls of an application the air carries.

    This is computed for telephony only, and only if path and medium of a scenario are known.
    """
    return any(packets == limits.packets for packets, *_ in basis.calls)


def _sigma_of(fit: PolicyFit) -> float:
    """Return a policy's sigma, without the rounding error of a sum."""
    return round(fit.policy.score.sigma, 9) if fit.policy.score else 0.0


def _advice_columns(basis: ReportBasis, limits: ApplicationLimits, kind: Kind) -> list[Column]:
    group = KIND_TITLES[kind]
    stream = limits.stream.upper()
    columns = [Column(f"qualifies_{kind}", "Qualifies", group=group),
               metric_column(AUTHENTICATION, kind, "Auth. time", group)]
    if kind == "roaming":
        columns += [metric_column(HANDOFF, "", HANDOFF.sentence, group),
                    Column("loss", "Loss", "%", 100.0, group=group)]
    columns.append(metric_column(STREAMS[limits.stream], kind, f"{stream}, slowest", group))
    if _has_calls(basis, limits):
        columns.append(Column(f"calls_{kind}", "Calls at most", digits=0, group=group))
    return [*columns, Column(f"cost_{kind}", "Rate below baseline", "%", 100.0, group=group)]


def _advice_entries(basis: ReportBasis, fit: PolicyFit, limits: ApplicationLimits, kind: Kind,
                    chosen: Collection[str]) -> list[Entry]:
    marks = frozenset({"recommended"} if fit.policy.id in chosen else set())
    entries = [Entry(fit.answer, marks=marks, note=", ".join(fit.fails))]
    for worst in fit.interruptions:
        note = grade_interruption(worst.value.estimate.mean) if worst and limits.delay_s else ""
        entries.append(_worst_entry(basis, kind, worst, note))
    if kind == "roaming":
        entries.append(_estimate_entry(fit.loss))
    entries.append(_worst_entry(basis, kind, fit.throughput))
    if _has_calls(basis, limits):
        entries.append(_calls_entry(fit.calls, _scenario_label(basis, kind, fit.calls_place)))
    return [*entries, _estimate_entry(fit.cost, _scenario_label(basis, kind, fit.cost_place))]


def _worst_entry(basis: ReportBasis, kind: Kind, worst: WorstValue | None, note: str = "") -> Entry:
    """Format a policy's worst value for a table, with the scenario that has it."""
    if worst is None:
        return observation_entry(None, note=note)
    return replace(observation_entry(worst.value, note=note),
                   detail=_scenario_label(basis, kind, worst.place))


def _scenario_label(basis: ReportBasis, kind: Kind, place: str) -> str:
    """Return the id of the scenario to print, or "" if all scenarios have equal values."""
    alike = basis.origin == "published"
    return place if len(basis.of_kind(kind)) > 1 and not alike else ""


def _calls_entry(calls: int | None, place: str) -> Entry:
    return NOT_COUNTED_ENTRY if calls is None else replace(exact_entry(calls), detail=place)


def _estimate_entry(estimate: Estimate | None, detail: str = "") -> Entry:
    return MISSING_ENTRY if estimate is None else Entry(number=to_quantity(estimate), detail=detail)


def build_overview(basis: ReportBasis, other_scheme: ReportBasis | None = None) -> Table:
    """Build the table of the strongest policy for each application, at home and roaming.

    Args:
        basis: the measured or published values.
        other_scheme: the same policies with protection scored by other weights. The table then
            shows both scores.
    """
    open_ = unprotected_policies(basis, other_scheme)
    scored = {policy.id: policy for policy in other_scheme.policies} if other_scheme else None
    rows = []
    for limits in APPLICATIONS.values():
        for kind in KINDS:
            if not basis.of_kind(kind):
                continue
            fits = [assess_policy(basis, policy, limits, kind) for policy in basis.policies]
            rows += [(Entry(limits.title, note=limits.words), Entry(KIND_TITLES[kind]), *entries)
                     for entries in _choice_entries(basis, fits, limits, kind, open_, scored)]
    schemes = [one.weights.title for one in (basis, other_scheme) if one is not None]
    sigmas = [replace(SIGMA, key=f"sigma_{title}_percent", title=f"{SIGMA.title} {title}")
              for title in schemes]
    return Table("overview", f"Recommended policy by application, with its cost, by protection "
                 f"as of {schemes[0]}",
                 (Column("application", "For"), Column("kind", "Scenarios"), POLICY, NAME, *sigmas,
                  metric_column(AUTHENTICATION, "", "Auth. time"),
                  metric_column(HANDOFF, "", HANDOFF.sentence), Column("stream", "Stream"),
                  Column("cost", "Rate below baseline", "%", 100.0),
                  Column("calls", "Calls at most", digits=0),
                  Column("others", "Others that qualify")),
                 tuple(rows), "The policy of highest sigma that meets an application's limits for "
                 "sure, or several of equal sigma.",
                 (_WHAT, *([_CALLS] if basis.calls else []), _EQUAL, _UNPROTECTED,
                  *([_PRINTED] if basis.origin == "published" else [])))


def _choice_entries(basis: ReportBasis, fits: Sequence[PolicyFit], limits: ApplicationLimits,
                    kind: Kind,
                    unprotected: frozenset[str],
                    other_scheme: Mapping[str, ScoredPolicy] | None) -> Iterator[list[Entry]]:
    """Yield the entries of each recommended policy, or entries that say that there is none."""
    chosen = strongest_fits(basis, fits, limits, kind, unprotected)
    others = Entry("; ".join(_other_policies(
        fits, {fit.policy.id for fit in chosen}, unprotected)))
    stream = Entry(limits.stream.upper())
    if not chosen:
        blanks = [NOT_COUNTED_ENTRY] * (4 if other_scheme is None else 5)
        yield [Entry("none", marks=frozenset({"missing"})), *blanks, stream, NOT_COUNTED_ENTRY,
               NOT_COUNTED_ENTRY, others]
    for best in chosen:
        policy, name, sigma = policy_entries(best.policy)
        other = [] if other_scheme is None else [policy_entries(other_scheme[best.policy.id])[2]]
        times = [_worst_entry(basis, kind, worst) for worst in best.interruptions]
        yield [policy, name, sigma, *other,
               *times, *([NOT_COUNTED_ENTRY] * (2 - len(times))), stream,
               _estimate_entry(best.cost, _scenario_label(basis, kind, best.cost_place)),
               _calls_entry(best.calls, _scenario_label(basis, kind, best.calls_place)), others]


def _other_policies(fits: Sequence[PolicyFit], chosen: Collection[str],
                    unprotected: frozenset[str]) -> Iterator[str]:
    """Yield the policies that also meet the limits, then those without protection or decision."""
    good = [fit for fit in fits if fit.answer == "yes" and fit.policy.id not in chosen]
    protecting = [fit.policy.id for fit in good if fit.policy.id not in unprotected]
    if protecting:
        yield ", ".join(protecting)
    without = [fit.policy.id for fit in good if fit.policy.id in unprotected]
    if without:
        yield f"meet the limits, but protect no data as of 2026: {', '.join(without)}"
    unsure = [fit.policy.id for fit in fits if fit.answer == "undecided"]
    if unsure:
        yield f"undecided: {', '.join(unsure)}"


# --- Names for other modules ---

__all__ = [
           "APPLICATIONS",
           "ApplicationLimits",
           "build_advice_table",
           "build_overview",
           "parse_limits",
]

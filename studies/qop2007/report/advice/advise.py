"""Tables of the policies that qualify for an application, at home and roaming."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from analysis.numbers import (
    NOT_COUNTED,
    NOTHING,
    exact_entry,
    metric_column,
    observation_entry,
    to_quantity,
)
from analysis.statistics import Estimate
from analysis.table import Column, Entry, Table
from studies.qop2007.metrics import AUTHENTICATION, HANDOFF, STREAMS
from studies.qop2007.report.advice.applications import (
    APPLICATIONS,
    Limits,
    grade_interruption,
    limits_of,
)
from studies.qop2007.report.advice.fit import Fit, Worst, fit_of
from studies.qop2007.report.basis import KIND_TITLES, KINDS, Basis, Kind, ScoredPolicy
from studies.qop2007.report.entries import NAME, POLICY, SIGMA, group_sections, policy_entries

_WHAT = ("Interruption: the authentication time, to which the paper applies its thresholds (0.15 s "
         "not audible, 0.40 s the limit with quality of service, 0.60 s of any communication), and "
         "roaming the whole handoff, too. A limit is met when the whole 95 % interval meets it in "
         "every scenario. Each number is of the scenario where it is worst, which stands beside "
         "it.")
_CALLS = ("Calls: of G.711 in packets of 20 ms each way, with RTP, UDP, IP and what the policy "
          "adds, as many as DIFS, backoffs, frames and acknowledgements of the medium leave time "
          "for. Collisions are not counted, so these are upper bounds.")
_UNPROTECTED = ("Never recommended: a policy without any protection, or whose data is neither "
                "confidential nor protected from change as of 2026, whatever its sum.")
_PRINTED = ("Printed values have no intervals and are taken as they are. The paper suggests P3, P4 "
            "and P8 for real-time services for their overhead (6.6); the authentication times it "
            "prints for them, 1.4 s and more, are beyond its own limits (6.1).")


def advise(basis: Basis, application: str | Limits, other_scheme: Basis | None = None) -> Table:
    """Build the table of policies that qualify for an application or for limits.

    The second basis has the same policies with another scheme of protection. A policy that protects
    no data by either scheme is never recommended.

    Raises ValueError with a one-line message for an unknown application.
    """
    limits = limits_of(application) if isinstance(application, str) else application
    kinds = [kind for kind in KINDS if basis.of_kind(kind)]
    fits = {kind: [fit_of(basis, scored, limits, kind) for scored in basis.policies]
            for kind in kinds}
    open_ = unprotected_policies(basis, other_scheme)
    chosen = {kind: strongest_fit(candidates, open_) for kind, candidates in fits.items()}
    rows = []
    for index, scored in enumerate(basis.policies):
        entries = [entry for kind in kinds
                   for entry
                   in _advice_entries(basis, fits[kind][index], limits, kind, chosen[kind])]
        # The row is wide enough without names, which other tables have.
        policy, _, sigma = policy_entries(scored)
        rows.append((policy, sigma, *entries))
    best = [f"{KIND_TITLES[kind]}: {fit.policy.id if fit else 'no policy qualifies'}."
            for kind, fit in chosen.items()]
    notes = [_WHAT, *([_CALLS] if _has_calls(basis, limits) else []), _UNPROTECTED,
             *([_PRINTED] if basis.origin == "published" else [])]
    return Table(f"advice-{limits.name}", f"Which policy for: {limits.title}",
                 (POLICY, SIGMA, *(shown for kind in kinds
                                   for shown in _advice_columns(basis, limits, kind))),
                 tuple(rows), f"Asked for: {limits.words}. The strongest that qualifies: "
                 f"{' '.join(best)}", tuple(notes), group_sections(basis.policies))


def unprotected_policies(basis: Basis, other_scheme: Basis | None = None) -> frozenset[str]:
    """Return the policies that protect no data by at least one of the schemes."""
    return frozenset(policy.id for one in (basis, other_scheme) if one is not None
                     for policy in one.policies
                     if policy.score is None or not policy.score.protects)


def strongest_fit(fits: Sequence[Fit], unprotected: frozenset[str]) -> Fit | None:
    """Return the qualifying policy of highest sigma (the cheapest of equals), or None.

    A policy that does not protect data is never recommended, even if it qualifies.
    """
    good = [fit for fit in fits if fit.answer == "yes" and fit.policy.id not in unprotected]
    return max(good, key=_rank_of, default=None)


def _has_calls(basis: Basis, limits: Limits) -> bool:
    """Return whether the number of calls of an application on the air is known."""
    return any(packets == limits.packets for packets, *_ in basis.calls)


def _rank_of(fit: Fit) -> tuple[float, float]:
    sigma = fit.policy.score.sigma if fit.policy.score else 0.0
    return sigma, -fit.cost.mean if fit.cost else 0.0


def _advice_columns(basis: Basis, limits: Limits, kind: Kind) -> list[Column]:
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


def _advice_entries(basis: Basis, fit: Fit, limits: Limits, kind: Kind,
                    chosen: Fit | None) -> list[Entry]:
    marks = frozenset({"recommended"} if chosen is fit else set())
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


def _worst_entry(basis: Basis, kind: Kind, worst: Worst | None, note: str = "") -> Entry:
    """Return the entry of a value, with its scenario."""
    if worst is None:
        return observation_entry(None, note=note)
    return replace(observation_entry(worst.value, note=note),
                   detail=_scenario_label(basis, kind, worst.place))


def _scenario_label(basis: Basis, kind: Kind, place: str) -> str:
    """Return a scenario's id, or "" where one is enough or all are equal."""
    alike = basis.origin == "published"
    return place if len(basis.of_kind(kind)) > 1 and not alike else ""


def _calls_entry(calls: int | None, place: str) -> Entry:
    return NOT_COUNTED if calls is None else replace(exact_entry(calls), detail=place)


def _estimate_entry(estimate: Estimate | None, detail: str = "") -> Entry:
    return NOTHING if estimate is None else Entry(number=to_quantity(estimate), detail=detail)


def overview(basis: Basis, other_scheme: Basis | None = None) -> Table:
    """Build the table of the strongest policy and its cost, by application and kind.

    The second basis has the same policies with another scheme of protection, whose sigma is shown,
    too.
    """
    open_ = unprotected_policies(basis, other_scheme)
    scored = {policy.id: policy for policy in other_scheme.policies} if other_scheme else None
    rows = []
    for limits in APPLICATIONS.values():
        for kind in KINDS:
            if not basis.of_kind(kind):
                continue
            fits = [fit_of(basis, policy, limits, kind) for policy in basis.policies]
            rows.append((Entry(limits.title, note=limits.words), Entry(KIND_TITLES[kind]),
                         *_choice_entries(basis, fits, limits, kind, open_, scored)))
    schemes = [one.weights.title for one in (basis, other_scheme) if one is not None]
    sigmas = [replace(SIGMA, key=f"sigma_{title}_percent", title=f"{SIGMA.title} {title}")
              for title in schemes]
    return Table("overview", f"Which policy for whom, at what cost, by protection as of "
                 f"{schemes[0]}",
                 (Column("application", "For"), Column("kind", "Scenarios"), POLICY, NAME, *sigmas,
                  metric_column(AUTHENTICATION, "", "Auth. time"),
                  metric_column(HANDOFF, "", HANDOFF.sentence), Column("stream", "Stream"),
                  Column("cost", "Rate below baseline", "%", 100.0),
                  Column("calls", "Calls at most", digits=0),
                  Column("others", "Others that qualify")),
                 tuple(rows), "The policy of highest sigma that meets an application's limits for "
                 "sure.", (_WHAT, *([_CALLS] if basis.calls else []), _UNPROTECTED,
                           *([_PRINTED] if basis.origin == "published" else [])))


def _choice_entries(basis: Basis, fits: Sequence[Fit], limits: Limits, kind: Kind,
                    unprotected: frozenset[str],
                    other_scheme: Mapping[str, ScoredPolicy] | None) -> list[Entry]:
    best = strongest_fit(fits, unprotected)
    others = Entry("; ".join(_other_policies(fits, best, unprotected)))
    stream = Entry(limits.stream.upper())
    if best is None:
        blanks = [NOT_COUNTED] * (4 if other_scheme is None else 5)
        return [Entry("none", marks=frozenset({"missing"})), *blanks, stream, NOT_COUNTED,
                NOT_COUNTED, others]
    policy, name, sigma = policy_entries(best.policy)
    other = [] if other_scheme is None else [policy_entries(other_scheme[best.policy.id])[2]]
    times = [_worst_entry(basis, kind, worst) for worst in best.interruptions]
    return [policy, name, sigma, *other,
            *times, *([NOT_COUNTED] * (2 - len(times))), stream,
            _estimate_entry(best.cost, _scenario_label(basis, kind, best.cost_place)),
            _calls_entry(best.calls, _scenario_label(basis, kind, best.calls_place)), others]


def _other_policies(fits: Sequence[Fit], best: Fit | None,
                    unprotected: frozenset[str]) -> Iterator[str]:
    """Yield other qualifying policies, unprotected ones and undecided ones."""
    good = [fit for fit in fits if fit.answer == "yes" and fit is not best]
    protecting = [fit.policy.id for fit in good if fit.policy.id not in unprotected]
    if protecting:
        yield ", ".join(protecting)
    without = [fit.policy.id for fit in good if fit.policy.id in unprotected]
    if without:
        yield f"meet the limits, but protect no data as of 2026: {', '.join(without)}"
    unsure = [fit.policy.id for fit in fits if fit.answer == "undecided"]
    if unsure:
        yield f"undecided: {', '.join(unsure)}"

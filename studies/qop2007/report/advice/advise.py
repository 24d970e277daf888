"""Policies that qualify for an application, at home and roaming, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.numbers import NOT_COUNTED, NOTHING, column, observed, quantity
from analysis.statistics import Estimate
from analysis.table import Column, Entry, Table
from studies.qop2007.metrics import AUTHENTICATION, HANDOFF, STREAMS
from studies.qop2007.report.advice.applications import APPLICATIONS, Limits, grade, limits_of
from studies.qop2007.report.advice.fit import Fit, fit_of
from studies.qop2007.report.basis import KIND_TITLES, KINDS, Basis, Kind
from studies.qop2007.report.entries import NAME, POLICY, SIGMA, about, sections

_WHAT = ("Interruption: the authentication time, to which the paper applies its thresholds (0.15 s "
         "not audible, 0.40 s the limit with quality of service, 0.60 s of any communication), and "
         "roaming the whole handoff, too. A limit is met when the whole 95 % interval meets it.")
_CALLS = ("Calls that fit: throughput of the slowest scenario by the rate of a call, as the paper "
          "counts; small packets cost more airtime than that, so fewer fit in fact.")
_PRINTED = ("Printed values have no intervals and are taken as they are. The paper suggests P3, P4 "
            "and P8 for real-time services for their overhead (6.6); the authentication times it "
            "prints for them, 1.4 s and more, are beyond its own limits (6.1).")


def advise(basis: Basis, application: str | Limits) -> Table:
    """The policies that qualify for an application (by name) or for limits of one's own.

    Raises ValueError, with one line for the user, for an application that is not known.
    """
    limits = limits_of(application) if isinstance(application, str) else application
    kinds = [kind for kind in KINDS if basis.of_kind(kind)]
    fits = {kind: [fit_of(basis, scored, limits, kind) for scored in basis.policies]
            for kind in kinds}
    chosen = {kind: strongest(candidates) for kind, candidates in fits.items()}
    rows = []
    for index, scored in enumerate(basis.policies):
        entries = [entry for kind in kinds
                   for entry in _entries(fits[kind][index], limits, kind, chosen[kind])]
        policy, _, sigma = about(scored)  # wide enough without names, which other tables have
        rows.append((policy, sigma, *entries))
    best = [f"{KIND_TITLES[kind]}: {fit.policy.id if fit else 'no policy qualifies'}."
            for kind, fit in chosen.items()]
    notes = [_WHAT, *([_CALLS] if limits.rate_bps else []),
             *([_PRINTED] if basis.origin == "published" else [])]
    return Table(f"advice-{limits.name}", f"Which policy for: {limits.title}",
                 (POLICY, SIGMA, *(shown for kind in kinds
                                   for shown in _columns(limits, kind))),
                 tuple(rows), f"Asked for: {limits.words}. The strongest that qualifies: "
                 f"{' '.join(best)}", tuple(notes), sections(basis.policies))


def strongest(fits: Sequence[Fit]) -> Fit | None:
    """Of those that qualify, the one of highest sigma, and of these the cheapest; or None.

    No security at all is no advice, even where it qualifies.
    """
    good = [fit for fit in fits if fit.answer == "yes"
            and fit.policy.score is not None and fit.policy.score.sigma > 0]
    return max(good, key=_rank, default=None)


def _rank(fit: Fit) -> tuple[float, float]:
    sigma = fit.policy.score.sigma if fit.policy.score else 0.0
    return sigma, -fit.cost.mean if fit.cost else 0.0


def _columns(limits: Limits, kind: Kind) -> list[Column]:
    group = KIND_TITLES[kind]
    stream = limits.stream.upper()
    columns = [Column(f"qualifies_{kind}", "Qualifies", group=group),
               column(AUTHENTICATION, kind, "Auth. time", group)]
    if kind == "roaming":
        columns += [column(HANDOFF, "", HANDOFF.sentence, group),
                    Column("loss", "Loss", "%", 100.0, group=group)]
    columns.append(column(STREAMS[limits.stream], kind, f"{stream}, slowest", group))
    if limits.rate_bps:
        columns.append(Column(f"calls_{kind}", "Fit", digits=0, group=group))
    return [*columns, Column(f"cost_{kind}", "Rate lost", "%", 100.0, group=group)]


def _entries(fit: Fit, limits: Limits, kind: Kind, chosen: Fit | None) -> list[Entry]:
    marks = frozenset({"recommended"} if chosen is fit else set())
    entries = [Entry(fit.answer, marks=marks, note=", ".join(fit.fails))]
    for index in range(2 if kind == "roaming" else 1):
        seen = fit.interruptions[index] if index < len(fit.interruptions) else None
        entries.append(observed(seen, note=grade(seen.estimate.mean)
                                if seen and limits.delay_s else ""))
    if kind == "roaming":
        entries.append(_number(fit.loss))
    entries.append(observed(fit.throughput))
    if limits.rate_bps:
        entries.append(_number(fit.calls))
    return [*entries, _number(fit.cost)]


def _number(estimate: Estimate | None) -> Entry:
    return NOTHING if estimate is None else Entry(number=quantity(estimate))


def overview(basis: Basis) -> Table:
    """One row an application and kind of scenario: the strongest policy, and its cost."""
    rows = []
    for limits in APPLICATIONS.values():
        for kind in KINDS:
            if not basis.of_kind(kind):
                continue
            fits = [fit_of(basis, policy, limits, kind) for policy in basis.policies]
            rows.append((Entry(limits.title, note=limits.words), Entry(KIND_TITLES[kind]),
                         *_choice(fits, limits, kind)))
    return Table("overview", "Which policy for whom, at what cost",
                 (Column("application", "For"), Column("kind", "Scenarios"), POLICY, NAME, SIGMA,
                  column(AUTHENTICATION, "", "Auth. time"),
                  column(HANDOFF, "", HANDOFF.sentence),
                  Column("cost", "Rate lost", "%", 100.0),
                  Column("calls", "Calls that fit", digits=0),
                  Column("others", "Others that qualify")),
                 tuple(rows), "The policy of highest sigma that meets an application's limits for "
                 "sure.", (_WHAT, *([_PRINTED] if basis.origin == "published" else [])))


def _choice(fits: Sequence[Fit], limits: Limits, kind: Kind) -> list[Entry]:
    best = strongest(fits)
    others = Entry("; ".join(_others(fits, best)))
    if best is None:
        return [Entry("none", marks=frozenset({"missing"})), *([NOT_COUNTED] * 6), others]
    policy, name, sigma = about(best.policy)
    times = [observed(best.interruptions[index] if index < len(best.interruptions) else None)
             for index in range(2 if kind == "roaming" else 1)]
    return [Entry(policy.text, marks=frozenset({"recommended"})), name, sigma,
            *times, *([NOT_COUNTED] * (2 - len(times))), _number(best.cost),
            _number(best.calls) if limits.rate_bps else NOT_COUNTED, others]


def _others(fits: Sequence[Fit], best: Fit | None) -> Iterator[str]:
    """The other policies that qualify, and those of which it is not decided."""
    good = [fit.policy.id for fit in fits if fit.answer == "yes" and fit is not best]
    unsure = [fit.policy.id for fit in fits if fit.answer == "undecided"]
    if good:
        yield ", ".join(good)
    if unsure:
        yield f"undecided: {', '.join(unsure)}"

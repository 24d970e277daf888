"""Tables 5 to 8 on overhead and throughput, and a contradiction in N2."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import air
from analysis.metrics import Metric
from analysis.numbers import exact_entry, observation_entry
from analysis.table import Column, Entry, Table
from studies.qop2007 import published as paper
from studies.qop2007.metrics import OVERHEADS, STREAMS
from studies.qop2007.report.basis import KIND_TITLES, KINDS, Basis, ScoredPolicy
from studies.qop2007.report.entries import (
    NAME,
    POLICY,
    SIGMA,
    group_sections,
    place_columns,
    policy_entries,
)
from studies.qop2007.report.recommendation import (
    ALL,
    possible_recommendations,
    recommend_by_overhead,
)

_PAPER_PLACES = ("N1", "N2", "N3", "R1", "R2")
_RULE = ("Recommended by the paper's rule: in each group (recommended) and of all (best) the "
         "strongest policy that costs little more than the cheapest, by the means over the "
         "scenarios of a kind, whatever their intervals.")
_N2 = ("In N2 the paper's overhead is about half of the difference of its throughputs; see the "
       "table on N2.")
_BEST = ("Best: the policy that the overhead of the same stream recommends of all. The paper marks "
         "one per scenario without saying by which rule.")
_N2_NOTES = (
    ("In N2 the overhead is about half of the difference, for every policy; elsewhere the two "
     "agree to rounding, but for UDP in R2 (Table 6 prints 241.26 for P9 to P12 alike)."),
    ("Left out: policies whose throughput differs by less than 0.05 Mbit/s, where rounding to "
     "0.01 decides."),
    "What is measured here follows equation 3 in every scenario.")
#: Difference of printed throughputs (bit/s) below which rounding dominates.
_ROUNDING_BPS = 0.05e6


def table_5(basis: Basis) -> Table:
    """Build Table 5: cryptographic overhead of TCP."""
    return _overhead_table(basis, "tcp", "table-5", "Table 5")


def table_6(basis: Basis) -> Table:
    """Build Table 6: cryptographic overhead of UDP."""
    return _overhead_table(basis, "udp", "table-6", "Table 6")


def table_7(basis: Basis) -> Table:
    """Build Table 7: throughput of TCP."""
    return _throughput_table(basis, "tcp", "table-7", "Table 7")


def table_8(basis: Basis) -> Table:
    """Build Table 8: throughput of UDP."""
    return _throughput_table(basis, "udp", "table-8", "Table 8")


def _overhead_table(basis: Basis, stream: str, key: str, title: str) -> Table:
    policies = tuple(policy for policy in basis.policies
                     if policy.id != basis.baseline and policy.group != "none")
    notes = [_RULE]
    if basis.baseline is None:
        notes = ["There is no policy without security in this run to compare with."]
    elif basis.published:
        notes.append(_N2)
    notes.extend(_unsettled_notes(basis, stream))
    notes.extend(filter(None, (air.describe_throughput_bias(basis.air),
                               air.describe_variation(basis.air))))
    return Table(key, f"{title}: {stream.upper()} cryptographic overhead",
                 _traffic_columns(basis, OVERHEADS[stream]),
                 tuple(_traffic_rows(basis, policies, stream, is_overhead=True)),
                 f"Goodput under {basis.baseline or 'the baseline'} minus goodput under the "
                 "policy, in the same scenario and block.", tuple(notes), group_sections(policies))


def _unsettled_notes(basis: Basis, stream: str) -> Iterator[str]:
    """Yield the recommendations that the intervals leave open."""
    for kind in KINDS:
        chosen = recommend_by_overhead(basis, stream, kind)
        open_ = [f"{group}: {', '.join(names)}" for group, names in
                 possible_recommendations(basis, stream, kind).items()
                 if set(names) != {chosen.get(group)}]
        if open_:
            yield (f"{KIND_TITLES[kind]}, the recommendation may be any of these, if costs are "
                   f"anywhere in 95 % intervals that hold together: {'; '.join(open_)}.")


def _throughput_table(basis: Basis, stream: str, key: str, title: str) -> Table:
    return Table(key, f"{title}: {stream.upper()} throughput",
                 _traffic_columns(basis, STREAMS[stream]),
                 tuple(_traffic_rows(basis, basis.policies, stream, is_overhead=False)),
                 "Goodput at the receiver.",
                 (_BEST, *filter(None, [air.describe_throughput_bias(basis.air)])),
                 group_sections(basis.policies))


def _traffic_columns(basis: Basis, metric: Metric) -> tuple[Column, ...]:
    digits = 2 if _is_printed(basis) else None
    return POLICY, NAME, SIGMA, *place_columns(basis.places, metric, digits)


def _traffic_rows(basis: Basis, policies: tuple[ScoredPolicy, ...], stream: str, *,
                  is_overhead: bool) -> Iterator[tuple[Entry, ...]]:
    """Yield a row for each policy. Overheads also mark the recommendation of each group."""
    metric = (OVERHEADS if is_overhead else STREAMS)[stream].name
    choices = {kind: recommend_by_overhead(basis, stream, kind) for kind in KINDS}
    for policy in policies:
        entries = []
        for place in basis.places:
            chosen, value = choices[place.kind], basis.find_observation(metric, policy.id, place.id)
            marks = []
            if is_overhead and chosen.get(policy.group) == policy.id:
                marks.append("recommended")
            if chosen.get(ALL) == policy.id:
                marks.append("best")
            if is_overhead and value is not None and value.estimate.spans_zero:
                marks.append("spans-zero")
            printed = None if _is_printed(basis) else \
                basis.published.get((metric, policy.id, place.id))
            entries.append(observation_entry(value, printed, marks))
        yield (*policy_entries(policy), *entries)


def _is_printed(basis: Basis) -> bool:
    return basis.origin == "published"


def table_n2() -> Table:
    """Build the table of printed overheads relative to differences of printed throughputs."""
    rows = []
    for stream in STREAMS:
        for scenario in _PAPER_PLACES:
            ratios = sorted(_printed_ratios(stream, scenario))
            middle = (ratios[len(ratios) // 2] + ratios[(len(ratios) - 1) // 2]) / 2
            rows.append((Entry(stream.upper()), Entry(scenario), exact_entry(len(ratios)),
                         exact_entry(ratios[0]),
                         exact_entry(middle, marks=["differs"] if middle < 0.75 else []),
                         exact_entry(ratios[-1])))
    return Table(
        "n2", "What the paper's N2 does not add up to",
        (Column("stream", "Stream"), Column("scenario", "Scenario"),
         Column("policies", "Policies", digits=0),
         Column("ratio_least", "Least", digits=2, group="Overhead / difference of throughput"),
         Column("ratio_median", "Median", digits=2, group="Overhead / difference of throughput"),
         Column("ratio_greatest", "Greatest", digits=2,
                group="Overhead / difference of throughput")),
        tuple(rows),
        "The printed overhead (Tables 5, 6) divided by P1's printed throughput less the policy's "
        "(Tables 7, 8). By equation 3 the two are the same number.",
        _N2_NOTES)


def _printed_ratios(stream: str, scenario: str) -> Iterator[float]:
    printed = paper.load().cells
    base = printed[STREAMS[stream].name, "P1", scenario]
    for (metric, policy, place), overhead in printed.items():
        if metric == OVERHEADS[stream].name and place == scenario:
            difference = base - printed[STREAMS[stream].name, policy, scenario]
            if difference >= _ROUNDING_BPS - 1:
                yield overhead / difference

"""Build Tables 4 to 9 and the data of Fig. 2 of the 2007 paper from measured values.

Each `build_` function takes the values of a run, or those that the paper printed (`ReportBasis`).
`build_paper_tables` returns Tables 1 to 9 and further tables, in the order of the report. Tables 1
to 3 (protection) are built in `protection_tables.py`. One further table lists printed values that
contradict each other. The paper is Agarwal and Wang (2007), on the cost of security policies in
wireless LANs. `studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from analysis import circumstances
from analysis.blocks import apply_to_means
from analysis.metrics import Metric
from analysis.reporting.table_entries import (
    MISSING_ENTRY,
    NOT_COUNTED_ENTRY,
    exact_entry,
    metric_column,
    observation_entry,
    to_quantity,
)
from analysis.statistics import Estimate, Sample
from analysis.table import Column, Entry, Table
from policies import load_weights
from studies.qop2007 import published as paper
from studies.qop2007.measurements import AUTHENTICATION, HANDOFF, OVERHEADS, STREAMS
from studies.qop2007.phases import EXCHANGES
from studies.qop2007.report.basis import (
    KIND_TITLES,
    KINDS,
    NAME,
    POLICY,
    SIGMA,
    Kind,
    ReportBasis,
    ReportScenario,
    ScoredPolicy,
    basis_from_paper,
    group_sections,
    place_columns,
    policy_entries,
    same_as_printed,
)
from studies.qop2007.report.phase_names import component_label
from studies.qop2007.report.protection_tables import (
    build_attacks_table,
    build_sensitivity_table,
    build_table_1,
    build_table_2,
    build_table_3,
    build_views_table,
)
from studies.qop2007.report.recommendation import (
    ALL,
    possible_recommendations,
    recommend_by_overhead,
    steadiest_policies,
    steady_and_strong,
)

# --- Table 4 and Fig. 2: authentication times by component, and against sigma ---

_TIME = AUTHENTICATION.name
_CLASSES = {"ipsec": "IPsec", "8021x": "802.1X without IPsec", "8021x-ipsec": "802.1X with IPsec"}

_MOBILE_IP = ("The paper has no column for policies without 802.1X and IPsec; theirs is Mobile IP "
              "alone.")
_TEXT = ("The paper's figure has no numbers. Printed numbers are from its text (5.1, 6.1, 6.3).")


def build_table_4(basis: ReportBasis) -> Table:
    """Build Table 4: the negotiations that make up each policy's authentication time."""
    return Table("table-4", "Table 4: computation of authentication time",
                 (POLICY, NAME, Column("class", "Policy has"),
                  *(Column(f"sum_{kind}", KIND_TITLES[kind]) for kind in KINDS)),
                 tuple((*policy_entries(policy)[:2],
                        Entry(_CLASSES.get(class_of(policy), "neither")),
                        *(_sum_entry(basis, policy, kind) for kind in KINDS))
                       for policy in basis.policies),
                 "Home and away say in which network the negotiation takes place.",
                 (_MOBILE_IP,), group_sections(basis.policies))


def class_of(policy: ScoredPolicy) -> str:
    """Return the class of a policy in Table 4, such as `ipsec`, or "" if the table has none.

    A handshake of the link (passphrase, SAE or OWE) is treated like one of 802.1X.
    """
    if policy.definition is None:
        return ""
    definition = policy.definition
    parts = ["8021x"] * definition.has_handshake + ["ipsec"] * definition.uses_ipsec
    return "-".join(parts)


def _sum_entry(basis: ReportBasis, policy: ScoredPolicy, kind: Kind) -> Entry:
    printed = paper.load_values().sums.get((class_of(policy), kind))
    if basis.origin == "published":
        return Entry(_in_words(printed)) if printed else MISSING_ENTRY
    sums = {frozenset(basis.sums.get((policy.id, place.id), ())) for place in basis.of_kind(kind)}
    sums.discard(frozenset())
    if not sums:
        return MISSING_ENTRY
    text = "; ".join(_in_words(tuple(sorted(each))) for each in sums)
    of_the_paper = {frozenset(part for part in each if part.rpartition("_")[0] not in EXCHANGES)
                    for each in sums}
    if printed is not None and of_the_paper != {frozenset(printed)}:
        return Entry(text, marks=frozenset({"differs"}), note=f"printed: {_in_words(printed)}")
    return Entry(text)


def _in_words(parts: tuple[str, ...]) -> str:
    order = ("ike_home", *(f"{name}_home" for name in EXCHANGES), "eap_home",
             "mip_registration_home", "ike_foreign", "eap_foreign", "mip_registration_foreign")
    rank = {name: place for place, name in enumerate(order)}
    return " + ".join(component_label(part)
                      for part in sorted(parts, key=lambda part: rank.get(part, len(rank))))


def build_figure_2(basis: ReportBasis) -> Table:
    """Build the data of Fig. 2: authentication time, its negotiations and sigma of each policy.

    Rows are in order of sigma (strength of protection), first at home and then roaming. Times are
    means over the scenarios of a kind if all are the paper's. Other scenarios stand apart.
    """
    parts = _summed_parts(basis)
    handoffs = any(key[0] == HANDOFF.name for key in basis.observations)
    rows: list[tuple[Entry, ...]] = []
    starts: list[tuple[int, str]] = []
    for kind in KINDS:
        for heading, name, places in _group_places(basis.of_kind(kind), kind):
            of_group = list(_figure_rows(basis, places, kind, name, parts,
                                         handoffs=handoffs))
            if of_group:
                starts.append((len(rows), heading))
                rows += of_group
    columns = [POLICY, NAME, SIGMA, Column("kind", "Scenarios"),
               Column(_TIME, "Authentication time", "s" if basis.origin == "published" else "ms",
                      1.0 if basis.origin == "published" else 1e3),
               *(Column(f"component_{part}_s", component_label(part), "ms", 1e3,
                        group="Of which") for part in parts)]
    if handoffs:
        columns.append(metric_column(HANDOFF, title=HANDOFF.sentence))
    return Table("figure-2", "Fig. 2: authentication time against \N{GREEK SMALL LETTER SIGMA}",
                 tuple(columns), tuple(rows),
                 "Sums of Table 4, of each scenario. Those of the paper: means over a kind.",
                 (_TEXT,), tuple(starts))


def _summed_parts(basis: ReportBasis) -> list[str]:
    """Return the negotiations that count for any policy, in the order of Table 4."""
    counted = {part for sums in basis.sums.values() for part in sums}
    order = ("eap_home", "mip_registration_home", "ike_home", "mip_registration_foreign")
    return [*(part for part in order if part in counted), *sorted(counted - set(order))]


def _group_places(places: Sequence[ReportScenario],
                  kind: Kind) -> Iterator[tuple[str, str, Sequence[ReportScenario]]]:
    """Yield heading, name and scenarios of each part of Fig. 2 that has one kind of scenarios."""
    if all(place.id in _PAPER_PLACES for place in places):
        yield f"{KIND_TITLES[kind]} scenarios", KIND_TITLES[kind], places
        return
    for place in places:
        yield f"{place.id}: {place.title}" if place.title else place.id, place.id, [place]


def _figure_rows(basis: ReportBasis, places: Sequence[ReportScenario], kind: Kind, name: str,
                 parts: list[str], *, handoffs: bool) -> Iterator[tuple[Entry, ...]]:
    printed = paper.load_values().authentication_time_s if basis.origin == "measured" else {}
    if not basis.measured_places(_TIME, places):
        return
    for policy in basis.policies:
        counted = {part for place in places for part in basis.sums.get((policy.id, place.id), ())}
        stated = printed.get((policy.id, kind)) if basis.is_papers(policy.id) and all(
            place.id in _PAPER_PLACES for place in places) else None
        entries = [observation_entry(basis.mean_observation(_TIME, policy.id, places), stated)]
        entries += [observation_entry(basis.mean_observation(f"component_{part}_s", policy.id,
                                                             places))
                    if part in counted else NOT_COUNTED_ENTRY for part in parts]
        if handoffs:
            entries.append(observation_entry(basis.mean_observation(HANDOFF.name, policy.id,
                                                                    places))
                           if kind == "roaming" else NOT_COUNTED_ENTRY)
        yield (*policy_entries(policy), Entry(name), *entries)


# --- Tables 5 to 8: overhead and throughput, and a contradiction in N2 ---

_PAPER_PLACES = ("N1", "N2", "N3", "R1", "R2")
_OVERHEAD_RULE = (
    "Recommended by the paper's rule: in each group (recommended) and of all (best) the "
                  "strongest policy that costs little more than the cheapest, by the means over "
                  "the "
                  "scenarios of a kind, whatever their intervals.")
_N2_NOTE = (
    "In N2 the paper's overhead is about half of the difference of its throughputs; see the "
            "table on N2.")
_BEST = ("Best: the policy that the overhead of the same stream recommends of all. The paper marks "
         "one per scenario without saying by which rule.")
_N2_NOTES = (
    ("In N2 the overhead is about half of the difference, for every policy; elsewhere the two "
     "agree to rounding, but for UDP in R2 (Table 6 prints 241.26 for P9 to P12 alike)."),
    ("Left out: policies whose throughput differs by less than 0.05 Mbit/s, where rounding to "
     "0.01 decides."),
    "Measured values follow equation 3 in every scenario.")
#: Difference of printed throughputs (bit/s) below which rounding dominates.
_ROUNDING_BPS = 0.05e6


def build_table_5(basis: ReportBasis) -> Table:
    """Build Table 5: cryptographic overhead (lost goodput) of TCP by policy and scenario."""
    return _overhead_table(basis, "tcp", "table-5", "Table 5")


def build_table_6(basis: ReportBasis) -> Table:
    """Build Table 6: cryptographic overhead (lost goodput) of UDP by policy and scenario."""
    return _overhead_table(basis, "udp", "table-6", "Table 6")


def build_table_7(basis: ReportBasis) -> Table:
    """Build Table 7: throughput of TCP by policy and scenario."""
    return _throughput_table(basis, "tcp", "table-7", "Table 7")


def build_table_8(basis: ReportBasis) -> Table:
    """Build Table 8: throughput of UDP by policy and scenario."""
    return _throughput_table(basis, "udp", "table-8", "Table 8")


def _overhead_table(basis: ReportBasis, stream: str, key: str, title: str) -> Table:
    policies = tuple(policy for policy in basis.policies
                     if policy.id != basis.baseline and policy.group != "none")
    notes = [_OVERHEAD_RULE]
    if basis.baseline is None:
        notes = ["There is no policy without security in this run to compare with."]
    elif basis.published:
        notes.append(_N2_NOTE)
    notes.extend(_unsettled_notes(basis, stream))
    notes.extend(filter(None, (circumstances.describe_throughput_bias(basis.air),
                               circumstances.describe_backoff_variation(basis.air))))
    return Table(key, f"{title}: {stream.upper()} cryptographic overhead",
                 _traffic_columns(basis, OVERHEADS[stream]),
                 tuple(_traffic_rows(basis, policies, stream, is_overhead=True)),
                 f"Goodput under {basis.baseline or 'the baseline'} minus goodput under the "
                 "policy, in the same scenario and block.", tuple(notes), group_sections(policies))


def _unsettled_notes(basis: ReportBasis, stream: str) -> Iterator[str]:
    """Yield a note on each group whose recommended policy is not certain, given the intervals."""
    for kind in KINDS:
        chosen = recommend_by_overhead(basis, stream, kind)
        open_ = [f"{group}: {', '.join(names)}" for group, names in
                 possible_recommendations(basis, stream, kind).items()
                 if set(names) != {chosen.get(group)}]
        if open_:
            yield (f"{KIND_TITLES[kind]}, the recommendation may be any of these, if costs are "
                   f"anywhere in 95 % intervals that hold together: {'; '.join(open_)}.")


def _throughput_table(basis: ReportBasis, stream: str, key: str, title: str) -> Table:
    return Table(key, f"{title}: {stream.upper()} throughput",
                 _traffic_columns(basis, STREAMS[stream]),
                 tuple(_traffic_rows(basis, basis.policies, stream, is_overhead=False)),
                 "Goodput at the receiver.",
                 (_BEST, *filter(None, [circumstances.describe_throughput_bias(basis.air)])),
                 group_sections(basis.policies))


def _traffic_columns(basis: ReportBasis, metric: Metric) -> tuple[Column, ...]:
    digits = 2 if _is_printed(basis) else None
    return POLICY, NAME, SIGMA, *place_columns(basis.places, metric, digits)


def _traffic_rows(basis: ReportBasis, policies: tuple[ScoredPolicy, ...], stream: str, *,
                  is_overhead: bool) -> Iterator[tuple[Entry, ...]]:
    """Yield a table row for each policy, and mark the recommended ones in tables of overhead."""
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


def _is_printed(basis: ReportBasis) -> bool:
    return basis.origin == "published"


def build_table_n2() -> Table:
    """Build a table that compares printed overheads with differences of printed throughputs.

    Both should be equal. In the paper they are not.
    """
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
        "n2", "Contradiction between the paper's tables for N2",
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
    printed = paper.load_values().cells
    base = printed[STREAMS[stream].name, "P1", scenario]
    for (metric, policy, place), overhead in printed.items():
        if metric == OVERHEADS[stream].name and place == scenario:
            difference = base - printed[STREAMS[stream].name, policy, scenario]
            if difference >= _ROUNDING_BPS - 1:
                yield overhead / difference


# --- Table 9: robustness against mobility, as mean and variance over the scenarios ---

_SQUARED = "\N{SUPERSCRIPT TWO}"
#: Columns: key of the paper's data, metric, moment, unit, scale.
_COLUMNS = (
    ("overhead_mean", "overhead", "mean", "kbit/s", 1e-3),
    ("overhead_var", "overhead", "variance", f"1000 (kbit/s){_SQUARED}", 1e-9),
    ("throughput_mean", "goodput", "mean", "Mbit/s", 1e-6),
    ("throughput_var", "goodput", "variance", f"(Mbit/s){_SQUARED}", 1e-12))
_TITLES = {"overhead": "Overhead C_C", "goodput": "Throughput"}
_VARIANCE_RULE = (
    "Recommended: in each group the least variance of overhead; and of all, the strongest "
                  "policy whose throughput varies little more than the steadiest one's.")
_ROUNDED = ("Recomputed from Tables 5 and 7; three variances of throughput differ from the printed "
            "ones by 0.01. The paper's heading says Mbit/s, its overhead is kbit/s.")


def build_table_9(basis: ReportBasis, stream: str = "tcp") -> Table:
    """Build Table 9: mean and variance of overhead and throughput over the scenarios.

    Args:
        basis: the measured or published values.
        stream: `tcp` or `udp`. The paper has the table for TCP only.
    """
    policies = tuple(policy for policy in basis.policies
                     if policy.group != "none" and policy.id != basis.baseline)
    marked = recommended_cells(basis, stream)
    rows = tuple((*policy_entries(policy), *(_column_entry(basis, policy, stream, column, marked)
                                 for column in _COLUMNS)) for policy in policies)
    title = stream.upper()
    notes = [_VARIANCE_RULE]
    if basis.origin == "published" and stream == "tcp":
        notes.append(_ROUNDED)
    digits = 2 if basis.origin == "published" else None
    return Table(
        "table-9" if stream == "tcp" else f"table-9-{stream}",
        f"Table 9: robustness for {title}" if stream == "tcp" else f"Robustness for {title}",
        (POLICY, NAME, SIGMA,
         *(Column(f"{key}_{'bps' if moment == 'mean' else 'bps2'}", moment.capitalize(), unit,
                  scale, digits, _TITLES[metric])
           for key, metric, moment, unit, scale in _COLUMNS)),
        rows, f"Mean and sample variance over {_scenarios_text(basis, stream)}.", tuple(notes),
        group_sections(policies))


def recommended_cells(basis: ReportBasis, stream: str) -> frozenset[tuple[str, str]]:
    """Return the entries of Table 9 that the paper's rule prints in bold, by column and policy."""
    overheads = _variances_of(basis, OVERHEADS[stream].name)
    marks = {("overhead_var", policy) for policy in steadiest_policies(basis, overheads).values()}
    strong = steady_and_strong(basis, _variances_of(basis, STREAMS[stream].name))
    return frozenset(marks | ({("throughput_var", strong)} if strong else set()))


def policy_variance(basis: ReportBasis, metric: str, policy: str) -> Estimate | None:
    """Return the variance of a policy's mean over the scenarios, or None with fewer than two."""
    cells = [(metric, policy, place.id) for place in basis.measured_places(metric, basis.places)]
    return apply_to_means(basis.observations, cells, sample_variance) if len(cells) > 1 else None


def sample_variance(means: Sample) -> Any:
    """Return the sample variance over the last axis (divisor n - 1), as in Table 9."""
    return np.var(means, axis=-1, ddof=1)


def _variances_of(basis: ReportBasis, metric: str) -> dict[str, float]:
    variances = {scored.id: policy_variance(basis, metric, scored.id) for scored in basis.policies}
    return {policy: scored.mean for policy, scored in variances.items() if scored is not None}


def _column_entry(basis: ReportBasis, policy: ScoredPolicy, stream: str,
                  column: tuple[str, str, str, str, float],
                  marked: frozenset[tuple[str, str]]) -> Entry:
    key, which, moment, _, scale = column
    metric = (OVERHEADS if which == "overhead" else STREAMS)[stream].name
    mean = basis.mean_observation(metric, policy.id, basis.places)
    estimate = mean.estimate if mean and moment == "mean" else policy_variance(
        basis, metric, policy.id)
    if estimate is None or mean is None:
        return MISSING_ENTRY
    printed = paper.load_values().robustness.get((key, policy.id)) \
        if stream == "tcp" and basis.is_papers(policy.id) else None
    marks = ["recommended"] * ((key, policy.id) in marked)
    if basis.origin == "published" and printed is not None and \
            not same_as_printed(estimate.mean, printed, scale, 2):
        marks.append("differs")
    return Entry("", to_quantity(estimate), printed, frozenset(marks), mean.records)


def _scenarios_text(basis: ReportBasis, stream: str) -> str:
    there = [place.id for place in basis.measured_places(STREAMS[stream].name, basis.places)]
    return "scenarios " + ", ".join(there) if there else "the scenarios"


# --- Printed values that contradict each other, and the list of all tables ---

_N2_DEVIATION = (
    "About half of the difference of the printed throughputs (Tables 7, 8), which by equation 3 "
                 "is the same number; see the table on N2.")
_BOLD = ("The text names P8 for TCP at home and UDP roaming, P12 for UDP at home; the same rule "
         "gives P12 for TCP roaming.")
_LATE = ("The authentication times that the text prints for them, 1.4 s and more, are beyond the "
         "limits of 6.1.")
#: Contradictions that no cell shows: place, printed value, value here, and reason.
_OTHERS = (
    ("Tables 5, 6 in N2", "overhead", "shown as printed", _N2_DEVIATION),
    ("Table 6 in R2", "241.26 for P9, P10, P11 and P12", "shown as printed",
     "Four policies have one value, which contradicts the throughputs of Table 8."),
    ("Tables 5, 6: bold figure of TCP, roaming", "not named in the text", "P12", _BOLD),
    ("Tables 7, 8: bold figures", "one a scenario, by no rule that is given",
     "as in Tables 5 and 6", "Throughput is the other side of overhead."),
    ("Table 9: heading", "mbits/sec", "kbit/s for overhead",
     "Its means of overhead are those of Table 5, in kbit/s."),
    ("5.3, UDP at home", "6 to 8 percent", "5.8 to 9.3 percent",
     "Table 8's best over its worst throughput in N1, N2 and N3."),
    ("6.6, real-time services", "P3, P4, P8", "none of them qualifies", _LATE))


def build_deviations_table() -> Table:
    """Build the table of printed values that the recomputed tables do not reproduce."""
    basis = basis_from_paper(load_weights())
    rows = [*_deviating_cells(basis), *(tuple(Entry(text) for text in row) for row in _OTHERS)]
    return Table("deviations", "Where the paper does not follow from itself",
                 (Column("where", "Where"), Column("printed", "Printed"), Column("here", "Here"),
                  Column("why", "Why")), tuple(rows),
                 "Every other number of Tables 1 to 9 is reproduced from the published values to "
                 "the printed digit, and every recommendation that the text names.")


def _deviating_cells(basis: ReportBasis) -> Iterator[tuple[Entry, ...]]:
    for table in (build_table_1(basis), build_table_3(basis), build_attacks_table(basis),
                  build_table_9(basis)):
        name = table.title.partition(":")[0]
        for row in table.rows:
            for column, entry in zip(table.columns, row, strict=True):
                if "differs" in entry.marks:
                    yield (Entry(f"{name}, {row[0].text}: {_column_title(column)}"),
                           *_explain_difference(table.id, column, entry))


def _column_title(column: Column) -> str:
    return " ".join(word for word in (column.group, column.title) if word).lower()


def _explain_difference(table: str, column: Column, entry: Entry) -> tuple[Entry, Entry, Entry]:
    """Return table entries: the printed value, the value here and why they differ."""
    if entry.number is not None and entry.published is not None:
        digits = column.digits or 0
        return (Entry(f"{entry.published * column.scale:.{digits}f}"),
                Entry(f"{entry.number.value * column.scale:.{digits}f}"),
                Entry("Recomputed from Table 7; the paper had more digits, or rounded."))
    if table == "table-1":
        return (Entry("no mark"), Entry("Y"),
                Entry("Table 2 gives EAP-MD5 integrity, and Table 3 counts it."))
    return (Entry("weak, as all of its group"), Entry(entry.text),
            Entry("The paper's reason, strong authentication of the user, holds for EAP-TLS."))


#: Seed of the sensitivity analysis, so that reports of equal records are equal.
SEED = 2007


def build_paper_tables(basis: ReportBasis,
                       generator: np.random.Generator | None = None, *,
                       advised: ReportBasis | None = None) -> list[Table]:
    """Build Tables 1 to 9, the data of Fig. 2 and further tables, without empty ones.

    Args:
        basis: the measured or published values.
        generator: draws random weights for the sensitivity analysis. The default has a fixed seed.
        advised: the values and weights of Fig. 2, by default those of `basis`.
    """
    random = generator or np.random.default_rng(SEED)
    candidates = [build_table_1(basis), build_table_2(basis), build_table_3(basis),
                  build_views_table(basis),
                  build_sensitivity_table(basis, random), build_attacks_table(basis),
                  build_table_4(basis),
                  build_figure_2(advised or basis), build_table_5(basis), build_table_6(basis),
                  build_table_7(basis), build_table_8(basis),
                  build_table_9(basis), build_table_9(basis, "udp"), build_table_n2(),
                  build_deviations_table()]
    return [table for table in candidates if table.rows]

"""Tables 5 to 8: cryptographic overhead and throughput by policy and scenario; and N2's oddity."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import published as paper
from analysis.study.cells import (
    NAME,
    POLICY,
    SIGMA,
    about,
    number,
    observed,
    place_columns,
    sections,
)
from analysis.study.model import KINDS, Profile, Study
from analysis.study.recommend import ALL, by_overhead
from analysis.table import Column, Entry, Table

_STREAMS = {"tcp": "TCP", "udp": "UDP"}
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
#: Below this a difference of printed throughputs, in bit/s, is mostly rounding.
_ROUNDING_BPS = 0.05e6


def table_5(study: Study) -> Table:
    """Table 5: cryptographic overhead of TCP."""
    return _overhead(study, "tcp", "table-5", "Table 5")


def table_6(study: Study) -> Table:
    """Table 6: cryptographic overhead of UDP."""
    return _overhead(study, "udp", "table-6", "Table 6")


def table_7(study: Study) -> Table:
    """Table 7: throughput of TCP."""
    return _throughput(study, "tcp", "table-7", "Table 7")


def table_8(study: Study) -> Table:
    """Table 8: throughput of UDP."""
    return _throughput(study, "udp", "table-8", "Table 8")


def _overhead(study: Study, stream: str, key: str, title: str) -> Table:
    profiles = tuple(one for one in study.profiles
                     if one.id != study.baseline and one.group != "none")
    metric = f"{stream}_overhead_bps"
    notes = [_RULE]
    if study.baseline is None:
        notes = ["There is no policy without security in this run to compare with."]
    elif study.published:
        notes.append(_N2)
    return Table(key, f"{title}: {_STREAMS[stream]} cryptographic overhead",
                 _columns(study, metric, "kbit/s", 1e-3, 2 if _is_printed(study) else None),
                 tuple(_rows(study, profiles, metric, within_groups=True)),
                 f"Goodput under {study.baseline or 'the baseline'} minus goodput under the "
                 "policy, in the same scenario and block.", tuple(notes), sections(profiles))


def _throughput(study: Study, stream: str, key: str, title: str) -> Table:
    metric = f"{stream}_goodput_bps"
    return Table(key, f"{title}: {_STREAMS[stream]} throughput",
                 _columns(study, metric, "Mbit/s", 1e-6, 2 if _is_printed(study) else None),
                 tuple(_rows(study, study.profiles, metric, within_groups=False)),
                 "Goodput at the receiver.",
                 (_BEST,),
                 sections(study.profiles))


def _columns(study: Study, metric: str, unit: str, scale: float,
             digits: int | None) -> tuple[Column, ...]:
    return POLICY, NAME, SIGMA, *place_columns(study.places, metric, unit, scale, digits)


def _rows(study: Study, profiles: tuple[Profile, ...], metric: str, *,
          within_groups: bool) -> Iterator[tuple[Entry, ...]]:
    overhead = metric.replace("goodput", "overhead")
    choices = {kind: by_overhead(study, overhead, kind) for kind in KINDS}
    for one in profiles:
        entries = []
        for place in study.places:
            chosen, found = choices[place.kind], study.find(metric, one.id, place.id)
            marks = []
            if within_groups and chosen.get(one.group) == one.id:
                marks.append("recommended")
            if chosen.get(ALL) == one.id:
                marks.append("best")
            if metric == overhead and found is not None and found.estimate.spans_zero:
                marks.append("spans-zero")
            printed = None if _is_printed(study) else \
                study.published.get((metric, one.id, place.id))
            entries.append(observed(found, printed, marks))
        yield (*about(one), *entries)


def _is_printed(study: Study) -> bool:
    return study.origin == "published"


def table_n2() -> Table:
    """The paper's printed overhead beside the difference of its printed throughputs."""
    rows = []
    for stream, title in _STREAMS.items():
        for scenario in _PAPER_PLACES:
            ratios = sorted(_ratios(stream, scenario))
            middle = (ratios[len(ratios) // 2] + ratios[(len(ratios) - 1) // 2]) / 2
            rows.append((Entry(title), Entry(scenario), number(len(ratios)), number(ratios[0]),
                         number(middle, marks=["differs"] if middle < 0.75 else []),
                         number(ratios[-1])))
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


def _ratios(stream: str, scenario: str) -> Iterator[float]:
    printed = paper.load().cells
    base = printed[f"{stream}_goodput_bps", "P1", scenario]
    for (metric, policy, place), overhead in printed.items():
        if metric == f"{stream}_overhead_bps" and place == scenario:
            difference = base - printed[f"{stream}_goodput_bps", policy, scenario]
            if difference >= _ROUNDING_BPS - 1:
                yield overhead / difference

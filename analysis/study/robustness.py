"""Table 9: robustness against mobility, as mean and sample variance over the scenarios."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis import published as paper
from analysis.statistics import Estimate, Sample
from analysis.study.blocks import ask, measured_places, over
from analysis.study.cells import (
    NAME,
    NOTHING,
    POLICY,
    SIGMA,
    about,
    quantity,
    same_as_printed,
    sections,
)
from analysis.study.model import Profile, Study
from analysis.study.recommend import steadiest, steady_and_strong
from analysis.table import Column, Entry, Table

_SQUARED = "\N{SUPERSCRIPT TWO}"
#: Columns: key of the paper's data, which metric, which moment, unit, scale.
_COLUMNS = (
    ("overhead_mean", "overhead", "mean", "kbit/s", 1e-3),
    ("overhead_var", "overhead", "variance", f"1000 (kbit/s){_SQUARED}", 1e-9),
    ("throughput_mean", "goodput", "mean", "Mbit/s", 1e-6),
    ("throughput_var", "goodput", "variance", f"(Mbit/s){_SQUARED}", 1e-12))
_TITLES = {"overhead": "Overhead C_C", "goodput": "Throughput"}
_RULE = ("Recommended: in each group the least variance of overhead; and of all, the strongest "
         "policy whose throughput varies little more than the steadiest one's.")
_ROUNDED = ("Recomputed from Tables 5 and 7; three variances of throughput differ from the printed "
            "ones by 0.01. The paper's heading says Mbit/s, its overhead is kbit/s.")


def table_9(study: Study, stream: str = "tcp") -> Table:
    """Table 9, which the paper has for TCP; `stream` may be udp, too."""
    profiles = tuple(one for one in study.profiles
                     if one.group != "none" and one.id != study.baseline)
    marked = recommended(study, stream)
    rows = tuple((*about(one), *(_entry(study, one, stream, column, marked)
                                 for column in _COLUMNS)) for one in profiles)
    title = stream.upper()
    notes = [_RULE]
    if study.origin == "published" and stream == "tcp":
        notes.append(_ROUNDED)
    digits = 2 if study.origin == "published" else None
    return Table(
        "table-9" if stream == "tcp" else f"table-9-{stream}",
        f"Table 9: robustness for {title}" if stream == "tcp" else f"Robustness for {title}",
        (POLICY, NAME, SIGMA,
         *(Column(f"{key}_{'bps' if moment == 'mean' else 'bps2'}", moment.capitalize(), unit,
                  scale, digits, _TITLES[metric])
           for key, metric, moment, unit, scale in _COLUMNS)),
        rows, f"Mean and sample variance over {_named(study, stream)}.", tuple(notes),
        sections(profiles))


def recommended(study: Study, stream: str) -> frozenset[tuple[str, str]]:
    """The cells of Table 9 that the paper's rule marks, as (column, policy)."""
    overheads = _variances(study, f"{stream}_overhead_bps")
    marks = {("overhead_var", policy) for policy in steadiest(study, overheads).values()}
    strong = steady_and_strong(study, _variances(study, f"{stream}_goodput_bps"))
    return frozenset(marks | ({("throughput_var", strong)} if strong else set()))


def variance(study: Study, metric: str, policy: str) -> Estimate | None:
    """Sample variance of a policy's means over the scenarios; None below two scenarios."""
    cells = [(metric, policy, place.id) for place in measured_places(study, metric, study.places)]
    return ask(study, cells, sample_variance) if len(cells) > 1 else None


def sample_variance(means: Sample) -> Any:
    """Over the last axis, divided by n - 1, as in Table 9."""
    return np.var(means, axis=-1, ddof=1)


def _variances(study: Study, metric: str) -> dict[str, float]:
    found = {one.id: variance(study, metric, one.id) for one in study.profiles}
    return {policy: one.mean for policy, one in found.items() if one is not None}


def _entry(study: Study, one: Profile, stream: str, column: tuple[str, str, str, str, float],
           marked: frozenset[tuple[str, str]]) -> Entry:
    key, which, moment, _, scale = column
    metric = f"{stream}_{which}_bps"
    mean = over(study, metric, one.id, study.places)
    found = mean.estimate if mean and moment == "mean" else variance(study, metric, one.id)
    if found is None or mean is None:
        return NOTHING
    printed = paper.load().robustness.get((key, one.id)) \
        if stream == "tcp" and any(one.id == policy for _, policy, _ in study.published) else None
    marks = ["recommended"] * ((key, one.id) in marked)
    if study.origin == "published" and printed is not None and \
            not same_as_printed(found.mean, printed, scale, 2):
        marks.append("differs")
    return Entry("", quantity(found), printed, frozenset(marks), mean.records)


def _named(study: Study, stream: str) -> str:
    there = [place.id for place in measured_places(study, f"{stream}_goodput_bps", study.places)]
    return "scenarios " + ", ".join(there) if there else "the scenarios"

"""Table 9: robustness against mobility, as mean and sample variance over the scenarios."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.blocks import apply_to_means
from analysis.numbers import NOTHING, to_quantity
from analysis.statistics import Estimate, Sample
from analysis.table import Column, Entry, Table
from studies.qop2007 import published as paper
from studies.qop2007.metrics import OVERHEADS, STREAMS
from studies.qop2007.report.basis import Basis, ScoredPolicy
from studies.qop2007.report.entries import (
    NAME,
    POLICY,
    SIGMA,
    group_sections,
    policy_entries,
    same_as_printed,
)
from studies.qop2007.report.recommendation import steadiest_policies, steady_and_strong

_SQUARED = "\N{SUPERSCRIPT TWO}"
#: Columns: key of the paper's data, metric, moment, unit, scale.
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


def table_9(basis: Basis, stream: str = "tcp") -> Table:
    """Build Table 9 for a stream, of which the paper has TCP only."""
    policies = tuple(policy for policy in basis.policies
                     if policy.group != "none" and policy.id != basis.baseline)
    marked = recommended_cells(basis, stream)
    rows = tuple((*policy_entries(policy), *(_column_entry(basis, policy, stream, column, marked)
                                 for column in _COLUMNS)) for policy in policies)
    title = stream.upper()
    notes = [_RULE]
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


def recommended_cells(basis: Basis, stream: str) -> frozenset[tuple[str, str]]:
    """Return the cells (column and policy) of Table 9 that the paper's rule marks."""
    overheads = _variances_of(basis, OVERHEADS[stream].name)
    marks = {("overhead_var", policy) for policy in steadiest_policies(basis, overheads).values()}
    strong = steady_and_strong(basis, _variances_of(basis, STREAMS[stream].name))
    return frozenset(marks | ({("throughput_var", strong)} if strong else set()))


def policy_variance(basis: Basis, metric: str, policy: str) -> Estimate | None:
    """Return the sample variance of a policy's means over two or more scenarios, or None."""
    cells = [(metric, policy, place.id) for place in basis.measured_places(metric, basis.places)]
    return apply_to_means(basis.observations, cells, sample_variance) if len(cells) > 1 else None


def sample_variance(means: Sample) -> Any:
    """Return the variance over the last axis (divisor n - 1), as in Table 9."""
    return np.var(means, axis=-1, ddof=1)


def _variances_of(basis: Basis, metric: str) -> dict[str, float]:
    variances = {scored.id: policy_variance(basis, metric, scored.id) for scored in basis.policies}
    return {policy: scored.mean for policy, scored in variances.items() if scored is not None}


def _column_entry(basis: Basis, policy: ScoredPolicy, stream: str,
                  column: tuple[str, str, str, str, float],
                  marked: frozenset[tuple[str, str]]) -> Entry:
    key, which, moment, _, scale = column
    metric = (OVERHEADS if which == "overhead" else STREAMS)[stream].name
    mean = basis.mean_observation(metric, policy.id, basis.places)
    estimate = mean.estimate if mean and moment == "mean" else policy_variance(
        basis, metric, policy.id)
    if estimate is None or mean is None:
        return NOTHING
    printed = paper.load().robustness.get((key, policy.id)) \
        if stream == "tcp" and basis.is_papers(policy.id) else None
    marks = ["recommended"] * ((key, policy.id) in marked)
    if basis.origin == "published" and printed is not None and \
            not same_as_printed(estimate.mean, printed, scale, 2):
        marks.append("differs")
    return Entry("", to_quantity(estimate), printed, frozenset(marks), mean.records)


def _scenarios_text(basis: Basis, stream: str) -> str:
    there = [place.id for place in basis.measured_places(STREAMS[stream].name, basis.places)]
    return "scenarios " + ", ".join(there) if there else "the scenarios"

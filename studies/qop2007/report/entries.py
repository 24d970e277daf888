"""Columns, sections and entries that several tables of the study use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from analysis.metrics import Metric, insert_before_unit
from analysis.numbers import NOTHING, exact_entry
from analysis.table import Column, Entry
from studies.qop2007.report.basis import KIND_TITLES, Place, ScoredPolicy

GROUP_TITLES = {"none": "No security (NS)",
                "open": "Data neither confidential nor protected from change",
                "low": "Low security group",
                "middle": "Middle security group", "high": "High security group",
                "unknown": "Layers not known"}
POLICY = Column("policy", "Policy")
NAME = Column("name", "Name", optional=True)
SIGMA = Column("sigma_normalized_percent", "\N{GREEK SMALL LETTER SIGMA}", "%", digits=1)


def policy_entries(policy: ScoredPolicy) -> tuple[Entry, Entry, Entry]:
    """Return the first three entries of a policy's row: id, name and normalised sigma."""
    sigma = exact_entry(policy.score.sigma_normalized) if policy.score else NOTHING
    return Entry(policy.id), Entry(policy.name), sigma


def group_sections(policies: Sequence[ScoredPolicy]) -> tuple[tuple[int, str], ...]:
    """Return a heading above the first policy of each security group."""
    return tuple((row, GROUP_TITLES[policy.group]) for row, policy in enumerate(policies)
                 if row == 0 or policy.group != policies[row - 1].group)


def place_columns(places: Iterable[Place], metric: Metric,
                  digits: int | None) -> Iterator[Column]:
    """Yield a column for each scenario, under the heading of its kind."""
    for place in places:
        yield Column(insert_before_unit(metric.name, place.id), place.id, metric.unit, metric.scale,
                     digits,
                     KIND_TITLES[place.kind])


def same_as_printed(value: float, printed: float, scale: float, digits: int) -> bool:
    """Return whether a number rounds to the paper's printed one."""
    return f"{value * scale:.{digits}f}" == f"{printed * scale:.{digits}f}"

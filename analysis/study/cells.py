"""Entries, columns and sections that the study's tables share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from analysis.statistics import Estimate
from analysis.study.model import KIND_TITLES, Observation, Place, Profile
from analysis.table import Column, Entry, Quantity

GROUP_TITLES = {"none": "No security (NS)", "low": "Low security group",
                "middle": "Middle security group", "high": "High security group",
                "unknown": "Layers not known"}
POLICY = Column("policy", "Policy")
NAME = Column("name", "Name")
SIGMA = Column("sigma_normalized_percent", "\N{GREEK SMALL LETTER SIGMA}", "%", digits=1)
NOTHING = Entry("-", marks=frozenset({"missing"}))
#: Where a number does not apply, rather than lack.
NOT_COUNTED = Entry("-")


def about(profile: Profile) -> tuple[Entry, Entry, Entry]:
    """The first three entries of a policy's row: id, name and normalised sigma."""
    sigma = number(profile.score.sigma_normalized) if profile.score else NOTHING
    return Entry(profile.id), Entry(profile.name), sigma


def number(value: float, published: float | None = None, marks: Iterable[str] = (),
           note: str = "") -> Entry:
    """An entry of a number that is what it is, without uncertainty."""
    return Entry(number=Quantity(value), published=published, marks=frozenset(marks), note=note)


def quantity(found: Estimate) -> Quantity:
    """An estimate as an entry's number."""
    return Quantity(found.mean, found.low, found.high, found.n)


def observed(found: Observation | None, published: float | None = None,
             marks: Iterable[str] = (), note: str = "") -> Entry:
    """An entry of what was observed in a cell, or a dash."""
    if found is None:
        return Entry("-", None, published, frozenset({"missing"}), (), note)
    return Entry("", quantity(found.estimate), published, frozenset(marks), found.records, note)


def sections(profiles: Sequence[Profile]) -> tuple[tuple[int, str], ...]:
    """A heading above the first policy of each security group."""
    return tuple((row, GROUP_TITLES[one.group]) for row, one in enumerate(profiles)
                 if row == 0 or one.group != profiles[row - 1].group)


def place_columns(places: Iterable[Place], metric: str, unit: str, scale: float,
                  digits: int | None) -> Iterator[Column]:
    """A column for each scenario, under the heading of its kind."""
    stem, _, si = metric.rpartition("_")
    for place in places:
        yield Column(f"{stem}_{place.id}_{si}", place.id, unit, scale, digits,
                     KIND_TITLES[place.kind])


def same_as_printed(value: float, printed: float, scale: float, digits: int) -> bool:
    """Whether a number, rounded as the paper prints it, is the one that it printed."""
    return f"{value * scale:.{digits}f}" == f"{printed * scale:.{digits}f}"

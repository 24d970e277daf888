"""Reports as data, before their conversion to a page.

A report has answers, verdicts, figures and sections of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from analysis.claims.verdict import Verdict
from analysis.table import Table


@dataclass(frozen=True)
class Offer:
    """The policy recommended for an application in one kind of scenario.

    Without a choice, `reason` says why. `costs` are values with their meaning, the most important
    first. `runners` names the other policies that qualify.
    """

    place: str
    choice: str = ""
    name: str = ""
    costs: tuple[tuple[str, str], ...] = ()
    runners: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """The recommendations for one application, with the limits that it requires."""

    application: str
    limits: str
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class Panel:
    """A plot in plotly's format.

    Colours named `@0`, `@ink` ... are replaced by the page's colours of the current theme.
    """

    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    rows: int = 0


@dataclass(frozen=True)
class Figure:
    """A group of plots.

    `describes` is the text for readers who cannot see them.
    """

    id: str
    title: str
    caption: str
    describes: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Section:
    """A part of the report with figures, followed by tables."""

    id: str
    title: str
    lead: str = ""
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Links:
    """Paths of records and captures relative to the report, empty where there are none."""

    records: str = ""
    captures: str = ""
    captured: frozenset[str] = frozenset()


#: Function that draws into a folder and returns the files; it raises OSError. The files must be
#: .svg, .png or .pdf, because a results folder recognizes its own figures by these endings.
Drawing: TypeAlias = Callable[[Path], Sequence[Path]]


@dataclass(frozen=True)
class Report:
    """The contents of a report."""

    title: str
    subtitle: str
    #: Limitations of the clock of all measured numbers; "" without any.
    caveat: str = field(default="", kw_only=True)
    facts: tuple[tuple[str, str], ...] = ()
    answers: tuple[Answer, ...] = ()
    answers_note: str = ""
    answers_title: str = field(default="What to take, for whom, at what cost", kw_only=True)
    claims_title: str = field(default="Claims", kw_only=True)
    #: Source of the claims, shown before their number.
    claimant: str = field(default="", kw_only=True)
    claims: tuple[Verdict, ...] = ()
    sections: tuple[Section, ...] = ()
    warnings: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    links: Links = field(default_factory=Links)
    #: Tables for files and the terminal; the page shows their contents in another form.
    beside: tuple[Table, ...] = ()
    #: The run's table, which is printed first and also belongs to a section (`run`); ids of the
    #: tables that are printed after it (`printed`).
    run: Table | None = field(default=None, kw_only=True)
    printed: tuple[str, ...] = field(default=(), kw_only=True)
    #: Ids of the tables that a command-line option selected, which are always printed.
    asked: tuple[str, ...] = field(default=(), kw_only=True)
    #: Functions that write figures to separate files.
    drawings: tuple[Drawing, ...] = field(default=(), kw_only=True)
    #: Presence of an HTML page; without one, the report is only the run's table and the drawings.
    has_page: bool = field(default=True, kw_only=True)

    @property
    def notice(self) -> str:
        """Return the heading of the box of warnings with their numbers."""
        counted = (("warning", self.warnings), ("file left out", self.complaints),
                   ("remark on repetitions that do not count", self.failures))
        said = [_count_lines(len(lines), name) for name, lines in counted if lines]
        return f"Read this first: {', '.join(said)}"

    @property
    def tables(self) -> Iterator[Table]:
        """Yield all tables in order."""
        yield from self.beside
        for section in self.sections:
            yield from section.tables

    @property
    def claims_counted(self) -> str:
        """Return the number of claims with their source, in words."""
        return f"{self.claimant} {_count_lines(len(self.claims), 'claim')}".strip()

    def tally(self) -> dict[str, int]:
        """Return the number of claims by verdict."""
        counts = dict.fromkeys(("confirmed", "refuted", "undecided"), 0)
        for claim in self.claims:
            counts[claim.verdict] = counts.get(claim.verdict, 0) + 1
        return counts


def _count_lines(count: int, name: str) -> str:
    first, _, rest = name.partition(" ")
    return f"{count} {first}{'' if count == 1 else 's'}{f' {rest}' if rest else ''}"

"""What a report holds, before it is a page: answers, verdicts, figures, and sections of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.claims import Verdict
from analysis.table import Table


@dataclass(frozen=True)
class Offer:
    """The policy for an application in one kind of place; without one, `reason` says why.

    `costs` are values with what they are, the most important first; `runners` say which other
    policies qualify.
    """

    place: str
    policy: str = ""
    name: str = ""
    costs: tuple[tuple[str, str], ...] = ()
    runners: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """Which policy for one application, and what it asks of the network."""

    application: str
    limits: str
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class Panel:
    """One plot as plotly takes it; colours named `@0`, `@ink` ... are the page's, by theme."""

    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    rows: int = 0


@dataclass(frozen=True)
class Figure:
    """Plots that belong together; `describes` is what they show, for those who cannot see them."""

    id: str
    title: str
    caption: str
    describes: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Section:
    """A part of the report: figures, and then tables."""

    id: str
    title: str
    lead: str = ""
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Links:
    """Where records and captures are, as seen from the report; empty where there are none."""

    records: str = ""
    captures: str = ""
    captured: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Report:
    """Everything that a report says."""

    title: str
    subtitle: str
    #: What the clock of all measured numbers leaves out; "" where nothing.
    caveat: str = field(default="", kw_only=True)
    facts: tuple[tuple[str, str], ...] = ()
    answers: tuple[Answer, ...] = ()
    answers_note: str = ""
    claims: tuple[Verdict, ...] = ()
    sections: tuple[Section, ...] = ()
    warnings: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    links: Links = field(default_factory=Links)
    #: Tables for files and the terminal; the page shows what they hold in another way.
    beside: tuple[Table, ...] = ()

    @property
    def notice(self) -> str:
        """What the box of warnings holds, in one line."""
        counted = (("warning", self.warnings), ("file left out", self.complaints),
                   ("remark on repetitions that do not count", self.failures))
        said = [_counted(len(lines), name) for name, lines in counted if lines]
        return f"Read this first: {', '.join(said)}"

    @property
    def tables(self) -> Iterator[Table]:
        """All tables, in order."""
        yield from self.beside
        for section in self.sections:
            yield from section.tables

    def tally(self) -> dict[str, int]:
        """How many claims have which verdict."""
        found = dict.fromkeys(("confirmed", "refuted", "undecided"), 0)
        for claim in self.claims:
            found[claim.verdict] = found.get(claim.verdict, 0) + 1
        return found


def _counted(count: int, name: str) -> str:
    first, _, rest = name.partition(" ")
    return f"{count} {first}{'' if count == 1 else 's'}{f' {rest}' if rest else ''}"

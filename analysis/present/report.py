"""A report before it is a page: answers, verdicts, figures, and sections of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from analysis.claims.verdict import Verdict
from analysis.table import Table


@dataclass(frozen=True)
class Offer:
    """What to take for an application in one kind of place; without a choice, `reason` says why.

    `costs` are values with what they are, the most important first; `runners` say which others
    qualify.
    """

    place: str
    choice: str = ""
    name: str = ""
    costs: tuple[tuple[str, str], ...] = ()
    runners: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """What to take for one application, and what it asks for."""

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


#: Draws into a folder and returns the files, which are .svg, .png or .pdf: by that a results folder
#: knows them for its own. Raises OSError.
Drawing: TypeAlias = Callable[[Path], Sequence[Path]]


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
    answers_title: str = field(default="What to take, for whom, at what cost", kw_only=True)
    claims_title: str = field(default="Claims", kw_only=True)
    #: Whose claims they are, before their number.
    claimant: str = field(default="", kw_only=True)
    claims: tuple[Verdict, ...] = ()
    sections: tuple[Section, ...] = ()
    warnings: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    links: Links = field(default_factory=Links)
    #: Tables for files and the terminal; the page shows what they hold in another way.
    beside: tuple[Table, ...] = ()
    #: The run's table, which is printed first, and belongs to a section, too; and the tables that
    #: are printed after it, by id.
    run: Table | None = field(default=None, kw_only=True)
    printed: tuple[str, ...] = field(default=(), kw_only=True)
    #: Ids of the tables that an option asked for, which are printed in any case.
    asked: tuple[str, ...] = field(default=(), kw_only=True)
    #: Figures as files of their own: each writes into a folder, and says which it has written.
    drawings: tuple[Drawing, ...] = field(default=(), kw_only=True)
    #: Whether there is a page; without one, the run's table and the drawings are all.
    has_page: bool = field(default=True, kw_only=True)

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

    @property
    def claims_counted(self) -> str:
        """How many claims there are, in words."""
        return f"{self.claimant} {_counted(len(self.claims), 'claim')}".strip()

    def tally(self) -> dict[str, int]:
        """How many claims have which verdict."""
        counts = dict.fromkeys(("confirmed", "refuted", "undecided"), 0)
        for claim in self.claims:
            counts[claim.verdict] = counts.get(claim.verdict, 0) + 1
        return counts


def _counted(count: int, name: str) -> str:
    first, _, rest = name.partition(" ")
    return f"{count} {first}{'' if count == 1 else 's'}{f' {rest}' if rest else ''}"

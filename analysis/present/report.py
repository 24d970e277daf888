"""Define the content of a report on a run as data: answers, verdicts, figures and tables.

Studies and `analysis.reporting` fill a `Report`. `analysis.present.page` writes it as an HTML page,
and `analysis.present.terminal` prints its tables. A `Section` has figures and tables, a `Figure`
has one or several plots (`Panel`). A `Recommendation` names the policy that suits an application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from analysis.claims import Verdict
from analysis.table import Table


@dataclass(frozen=True)
class Recommendation:
    """The policies that are recommended for an application, such as a call, in some scenarios.

    `choices` are their ids and names. Several are equal, as far as the measurements prove. Without
    a choice, `reason` says why. `costs` are values with their meaning, the most important first.
    `runners` names the other policies that qualify.
    """

    place: str
    choices: tuple[tuple[str, str], ...] = ()
    costs: tuple[tuple[str, str], ...] = ()
    runners: tuple[str, ...] = ()
    reason: str = ""

    @property
    def tie_words(self) -> str:
        """Return words that say that several choices are equal, "" for a single choice."""
        if len(self.choices) < 2:
            return ""
        return f"{'neither' if len(self.choices) == 2 else 'none'} of them is proven better"


@dataclass(frozen=True)
class ApplicationAdvice:
    """The recommended policies for one application, with the limits that it requires."""

    application: str
    limits: str
    offers: tuple[Recommendation, ...]


@dataclass(frozen=True)
class DecisiveRepetitions:
    """The number of repetitions in all that will probably decide `count` open comparisons.

    A count of 0 means that there are too few repetitions to estimate from.
    """

    repetitions: int
    count: int = 0


@dataclass(frozen=True)
class ReportFactor:
    """A factor whose levels a reader of the page can choose, with the titles of its levels.

    Levels of a `compared` factor have one colour in all figures of the page.
    """

    name: str
    title: str
    levels: Mapping[str, str]
    is_compared: bool = False


@dataclass(frozen=True)
class Panel:
    """A single plot, in the format of plotly.

    Colours named `@0`, `@ink` ... are replaced by the page's colours of the current theme. A trace
    may name the curve that it belongs to, in `meta`: curves of one name have one colour.
    """

    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    rows: int = 0


@dataclass(frozen=True)
class Figure:
    """A figure of a report: a group of plots.

    `describes` is the text for readers who cannot see the plots.
    """

    id: str
    title: str
    caption: str
    describes: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Section:
    """A section of a report with figures, followed by tables."""

    id: str
    title: str
    lead: str = ""
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class RecordLinks:
    """Paths of records and captures relative to the report, empty where there are none."""

    records: str = ""
    captures: str = ""
    captured: frozenset[str] = frozenset()


#: Function that draws into a folder and returns the files; it raises OSError. The files must be
#: .svg, .png or .pdf, because a results folder recognizes its own figures by these endings.
Drawing: TypeAlias = Callable[[Path], Sequence[Path]]


@dataclass(frozen=True)
class Report:
    """The whole content of a report on a run."""

    title: str
    subtitle: str
    #: Limitations of the clock of all measured numbers; "" without any.
    caveat: str = field(default="", kw_only=True)
    #: Description of a sequential design, "" for a planned number of repetitions.
    design: str = field(default="", kw_only=True)
    facts: tuple[tuple[str, str], ...] = ()
    answers: tuple[ApplicationAdvice, ...] = ()
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
    skips: tuple[str, ...] = field(default=(), kw_only=True)
    links: RecordLinks = field(default_factory=RecordLinks)
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
    #: The answer in sentences, printed before the run's table.
    summary: tuple[str, ...] = field(default=(), kw_only=True)
    #: Differences from the baseline that `--until-decided` decides, beside the claims.
    differences: tuple[Verdict, ...] = field(default=(), kw_only=True)
    #: Repetitions of a cell that probably decide open differences, None if none would.
    decisive: DecisiveRepetitions | None = field(default=None, kw_only=True)
    #: Factors that the page can filter by, names of the study's signs, such as sigma, and the run's
    #: table in short.
    factors: tuple[ReportFactor, ...] = field(default=(), kw_only=True)
    terms: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    short: Table | None = field(default=None, kw_only=True)
    #: Table that answers the question of the run. It stands below the sentences, never folded, and
    #: is printed at the end of a run in place of the run's table.
    answering: Table | None = field(default=None, kw_only=True)
    #: Presence of an HTML page; without one, the report is only the run's table and the drawings.
    has_page: bool = field(default=True, kw_only=True)

    @property
    def notice(self) -> str:
        """Return the heading of the warnings' box: how many of each kind there are.

        Failures come first.
        """
        counted = (("reason of failures", self.failures), ("file left out", self.complaints),
                   ("reason of skipped repetitions", self.skips), ("warning", self.warnings))
        counts = [_count_lines(len(lines), name) for name, lines in counted if lines]
        return f"Read this first: {', '.join(counts)}"

    @property
    def tables(self) -> Iterator[Table]:
        """Yield all tables of the report in order."""
        if self.answering is not None:
            yield self.answering
        yield from self.beside
        for section in self.sections:
            yield from section.tables

    @property
    def claims_counted(self) -> str:
        """Return the number of claims and their source in words, such as "12 claims"."""
        return f"{self.claimant} {_count_lines(len(self.claims), 'claim')}".strip()

    def tally(self) -> dict[str, int]:
        """Return how many claims are confirmed, refuted and undecided."""
        counts = dict.fromkeys(("confirmed", "refuted", "undecided"), 0)
        for claim in self.claims:
            counts[claim.verdict] = counts.get(claim.verdict, 0) + 1
        return counts


def _count_lines(count: int, name: str) -> str:
    first, _, rest = name.partition(" ")
    return f"{count} {first}{'' if count == 1 else 's'}{f' {rest}' if rest else ''}"

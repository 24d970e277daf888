"""Make the report that every study has, from the results of a run.

`make_standard_report` takes the measured means of a run, its main table, and what the study adds
(`ReportAdditions`). It returns a `Report` for the HTML page. The report has curves, distributions,
comparisons with the baseline (such as the policy without protection), verdicts on the claims of a
paper, and the main table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from analysis.cells import Cells
from analysis.circumstances import clock_caveat, stamp_table
from analysis.claims import Verdict, describe_looks
from analysis.claims import make_claims_table as table_of_claims
from analysis.present.report import Figure, Report, ReportFactor, Section
from analysis.reporting import answer, metric_figures, significance, stability
from analysis.reporting.metric_figures import make_curves
from analysis.reporting.repetition_figures import make_repetition_section
from analysis.reporting.run_table import ReferenceValues, list_complaints
from analysis.table import Table, count_noun, to_printable


@dataclass(frozen=True)
class ReportAdditions:
    """The contents that a study adds to the standard report.

    - `tables`, `figures`: tables and figures of the study, in the section "Results"
    - `claims`: verdicts on the claims
    - `warnings`: further warnings of the page
    - `caveat`: text that replaces the clock's own caveat, "" to keep that
    - `claimant`: the source of the claims
    - `facts`: pairs of title and text, which follow the facts of every run
    - `prints`: whether the study's tables are printed after the run's table
    - `curves`: whether metrics are drawn over numeric factors. A study with figures of its own
      needs no such curves.
    """

    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Verdict] = ()
    #: Published and modelled values to show next to measured ones. They have nothing to do with the
    #: field of this name in `Report`, which has the tables of claims.
    beside: ReferenceValues = field(default_factory=ReferenceValues)
    warnings: Sequence[str] = ()
    caveat: str = ""
    claimant: str = ""
    facts: Sequence[tuple[str, str]] = ()
    prints: bool = False
    curves: bool = True


def make_standard_report(cells: Cells, run: Table, extras: ReportAdditions | None = None,
                         decisions: Sequence[significance.SignificanceDecision] | None = None
                         ) -> Report:
    """Return the standard report of a run.

    Args:
        cells: The measured means of the run.
        run: The run's table from the study.
        extras: The contents that the study adds.
        decisions: Comparisons of all cells with the baseline, if the study has made them.
    """
    results, extras = cells.results, extras or ReportAdditions()
    if decisions is None:
        decisions = significance.decide_differences(cells)
    drawn = [*extras.figures, *(make_curves(cells, extras.beside) if extras.curves else ())]
    lists = results.study.distributions
    times = results.study.timelines
    spread = [figure for metric in lists
              if (figure := metric_figures.make_distribution_figure(cells, metric))]
    spread += [figure for metric in times
               if (figure := metric_figures.make_timeline_figure(cells, metric))]
    sections = (
        Section("results", "Results", "", tuple(drawn),
                tuple(stamp_table(table, results.clock) for table in extras.tables)),
        Section("distributions", "Distributions", "", tuple(spread),
                tuple(metric_figures.make_percentile_table(cells, metric) for metric in lists)),
        *([repetitions] if (repetitions := make_repetition_section(cells)) else []),
        Section("decisions", "Decisions", "Differences from the baseline, corrected for their "
                "number, and how many repetitions are still needed.",
                (), tuple(stamp_table(table, results.clock)
                          for table in significance.make_decision_tables(cells, decisions))),
        Section("run", "The run", "Every cell.", (), (run,)))
    claim_tables = (stamp_table(table_of_claims(extras.claims, looks=results.planned_looks),
                                results.clock),) if extras.claims else ()
    return Report(
        results.study.title, make_subtitle(cells), facts=(*list_facts(cells), *extras.facts),
        claims=tuple(extras.claims),
        sections=tuple(section for section in sections if section.figures or section.tables),
        warnings=list_page_warnings(cells, (
            *run.warnings, *extras.warnings, *stability.list_warnings(cells, decisions))),
        complaints=tuple(results.complaints), failures=tuple(answer.describe_failures(cells)),
        skips=tuple(answer.describe_skips(cells)),
        beside=claim_tables, design=describe_looks(results.planned_looks),
        caveat=extras.caveat or clock_caveat(results.clock), run=run, claimant=extras.claimant,
        summary=tuple(answer.describe_answer(cells, decisions, claims=extras.claims)),
        decisive=answer.decisive_repetitions(cells, decisions),
        factors=list_page_factors(cells), short=answer.make_short_table(cells),
        printed=tuple(table.id for table in extras.tables) if extras.prints else ())


def list_page_warnings(cells: Cells, warnings: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings of a page, each once, without those on files left out.

    The page lists these files apart.
    """
    apart = set(list_complaints(cells))
    return tuple(dict.fromkeys(line for line in warnings if line not in apart))


def list_page_factors(cells: Cells) -> tuple[ReportFactor, ...]:
    """Return the factors whose levels are names. Numeric factors are axes of figures."""
    results = cells.results
    return tuple(ReportFactor(factor.name, to_printable(factor.title), {
        level: to_printable(results.level_title(factor.name, level))
        for level in results.levels[factor.name]},
        factor.name in results.compared) for factor in results.factors if not factor.is_number)


def make_subtitle(cells: Cells) -> str:
    """Return a sentence on the number of `ok` repetitions and the medium."""
    results = cells.results
    planned = len(results.cells) * results.repetitions
    good, total = len(results.good), len(results.frame)
    missing = f", {planned - total} of the plan not measured yet" if planned > total else ""
    medium = ", ".join(sorted(set(results.frame["medium"]) - {""})) or results.wires
    intervals, release = answer.describe_intervals(cells), answer.describe_release(cells)
    return (f"{good} good of {count_noun(total, 'repetition')}{missing}, over "
            f"{medium or 'no emulated medium'}{f', with {release}' if release else ''}."
            f"{f' {intervals[:1].upper()}{intervals[1:]}.' if intervals else ''}")


def list_facts(cells: Cells,
               further: Sequence[tuple[str, str]] = ()) -> tuple[tuple[str, str], ...]:
    """Return pairs of title and text that a reader needs to trust or repeat the run.

    The study's own facts, `further`, stand before the last ones.
    """
    results = cells.results
    frame, good = results.frame, results.good
    started = frame["started_s"].dropna()
    named = [(factor.title, "; ".join(
        f"{level} ({title})" if (title := results.level_title(factor.name, level)) else level
        for level in results.levels[factor.name])) for factor in results.factors]
    return tuple((name, value) for name, value in (
        ("Results", results.name), ("Study", results.study.title),
        ("Measured", f"{format_day(started.min())} to {format_day(started.max())}" if len(started)
         else ""),
        *named,
        ("Medium, air, clock, machine, builder", "; ".join(
            ", ".join(sorted(set(frame[name]) - {""}))
            or ("none" if name in ("medium", "air") else "not recorded")
            for name in ("medium", "air", "clock", "machine", "builder"))),
        ("Wires", results.wires),
        ("Devices", ", ".join(results.manifest.devices) if results.manifest else ""),
        ("Settings", "; ".join(f"{name} {value}" for name, value in results.settings.items())),
        *further,
        ("Verified", (f"{int(good['verified'].sum())} of {len(good)} good repetitions, by "
                      f"{int(good['checks'].sum())} checks")),
        ("Files left out", str(len(results.complaints))),
        ("Digest of plan and records", results.digest), ("Made", format_now())) if value)


def format_day(seconds: float) -> str:
    """Return a wall-clock time as text in UTC, to the minute."""
    return datetime.fromtimestamp(float(np.floor(seconds)), UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_now() -> str:
    """Return the current time as text in UTC, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")



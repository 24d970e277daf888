"""The standard report of any study.

It has curves, distributions, decisions, claims and the run's table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from analysis import distributions, significance, stability
from analysis.cells import Cells
from analysis.claims.verdict import Verdict
from analysis.claims.verdict import make_claims_table as table_of_claims
from analysis.clock import clock_caveat, stamp_table
from analysis.curves import make_curves
from analysis.present.report import Figure, Report, Section
from analysis.run_table import ReferenceValues
from analysis.table import Table
from analysis.text import count_noun


@dataclass(frozen=True)
class Extras:
    """A study's own additions to the standard report.

    `caveat` replaces the clock's own caveat. `claimant` names the source of the claims.
    `list_facts` follow the facts of every run. With `prints`, the tables are printed after the
    run's table. Without `curves`, metrics are not drawn over numeric factors; the study has its own
    figures instead.
    """

    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Verdict] = ()
    beside: ReferenceValues = field(default_factory=ReferenceValues)
    warnings: Sequence[str] = ()
    caveat: str = ""
    claimant: str = ""
    facts: Sequence[tuple[str, str]] = ()
    prints: bool = False
    curves: bool = True


def make_standard_report(cells: Cells, run: Table, extras: Extras | None = None) -> Report:
    """Return the report of a run.

    `run` is the run's table from the study.
    """
    results, extras = cells.results, extras or Extras()
    decisions = significance.decide_differences(cells)
    drawn = [*extras.figures, *(make_curves(cells, extras.beside) if extras.curves else ())]
    lists = results.study.distributions
    times = results.study.timelines
    spread = [figure for metric in lists
              if (figure := distributions.make_distribution_figure(cells, metric))]
    spread += [figure for metric in times
               if (figure := distributions.make_timeline_figure(cells, metric))]
    sections = (
        Section("results", "Results", "", tuple(drawn),
                tuple(stamp_table(table, results.clock) for table in extras.tables)),
        Section("distributions", "Distributions", "", tuple(spread),
                tuple(distributions.make_percentile_table(cells, metric) for metric in lists)),
        Section("decisions", "Decisions", "Differences from the baseline, corrected for their "
                "number, and how many repetitions are still needed.",
                (), tuple(stamp_table(table, results.clock)
                          for table in significance.make_decision_tables(cells, decisions))),
        Section("run", "The run", "Every cell.", (), (run,)))
    beside = (stamp_table(table_of_claims(extras.claims), results.clock),) if extras.claims else ()
    return Report(
        results.study.title, make_subtitle(cells), facts=(*list_facts(cells), *extras.facts),
        claims=tuple(extras.claims),
        sections=tuple(section for section in sections if section.figures or section.tables),
        warnings=(*run.warnings, *extras.warnings, *stability.list_warnings(cells, decisions)),
        complaints=tuple(results.complaints), failures=tuple(cells.describe_failures()),
        beside=beside,
        caveat=extras.caveat or clock_caveat(results.clock), run=run, claimant=extras.claimant,
        printed=tuple(table.id for table in extras.tables) if extras.prints else ())


def make_subtitle(cells: Cells) -> str:
    """Return the number of good repetitions and the medium as a sentence."""
    results = cells.results
    planned = len(results.cells) * results.repetitions
    good, total = len(results.good), len(results.frame)
    missing = f", {planned - total} of the plan not measured yet" if planned > total else ""
    medium = ", ".join(sorted(set(results.frame["medium"]) - {""})) or results.wires
    return (f"{good} good of {count_noun(total, 'repetition')}{missing}, over "
            f"{medium or 'no emulated medium'}. Intervals hold 95\N{NO-BREAK SPACE}%.")


def list_facts(cells: Cells,
               further: Sequence[tuple[str, str]] = ()) -> tuple[tuple[str, str], ...]:
    """Return the facts that a reader needs to trust or repeat the run.

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



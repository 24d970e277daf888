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
from analysis.claims.verdict import table as table_of_claims
from analysis.clock import caveat, stamped
from analysis.curves import curves
from analysis.present.report import Figure, Report, Section
from analysis.run_table import Beside
from analysis.table import Table
from analysis.text import counted


@dataclass(frozen=True)
class Extras:
    """A study's own additions to the standard report.

    `caveat` replaces the clock's own caveat. `claimant` names the source of the claims. `facts`
    follow the facts of every run. With `prints`, the tables are printed after the run's table.
    Without `curves`, metrics are not drawn over numeric factors; the study has its own figures
    instead.
    """

    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Verdict] = ()
    beside: Beside = field(default_factory=Beside)
    warnings: Sequence[str] = ()
    caveat: str = ""
    claimant: str = ""
    facts: Sequence[tuple[str, str]] = ()
    prints: bool = False
    curves: bool = True


def report(cells: Cells, run: Table, extras: Extras | None = None) -> Report:
    """Return the report of a run.

    `run` is the run's table from the study.
    """
    results, extras = cells.results, extras or Extras()
    decisions = significance.decisions(cells)
    drawn = [*extras.figures, *(curves(cells, extras.beside) if extras.curves else ())]
    lists = results.study.distributions
    times = results.study.timelines
    spread = [figure for metric in lists if (figure := distributions.figure(cells, metric))]
    spread += [figure for metric in times if (figure := distributions.timeline(cells, metric))]
    sections = (
        Section("results", "Results", "", tuple(drawn),
                tuple(stamped(table, results.clock) for table in extras.tables)),
        Section("distributions", "Distributions", "", tuple(spread),
                tuple(distributions.table(cells, metric) for metric in lists)),
        Section("decisions", "Decisions", "Differences from the baseline, corrected for their "
                "number, and how many repetitions are still needed.",
                (), tuple(stamped(table, results.clock)
                          for table in significance.tables(cells, decisions))),
        Section("run", "The run", "Every cell.", (), (run,)))
    beside = (stamped(table_of_claims(extras.claims), results.clock),) if extras.claims else ()
    return Report(
        results.study.title, subtitle(cells), facts=(*facts(cells), *extras.facts),
        claims=tuple(extras.claims),
        sections=tuple(section for section in sections if section.figures or section.tables),
        warnings=(*run.warnings, *extras.warnings, *stability.warnings_of(cells, decisions)),
        complaints=tuple(results.complaints), failures=tuple(cells.failures()), beside=beside,
        caveat=extras.caveat or caveat(results.clock), run=run, claimant=extras.claimant,
        printed=tuple(table.id for table in extras.tables) if extras.prints else ())


def subtitle(cells: Cells) -> str:
    """Return the number of good repetitions and the medium as a sentence."""
    results = cells.results
    planned = len(results.cells) * results.repetitions
    good, total = len(results.good), len(results.frame)
    missing = f", {planned - total} of the plan not measured yet" if planned > total else ""
    medium = ", ".join(sorted(set(results.frame["medium"]) - {""})) or results.wires
    return (f"{good} good of {counted(total, 'repetition')}{missing}, over "
            f"{medium or 'no emulated medium'}. Intervals hold 95\N{NO-BREAK SPACE}%.")


def facts(cells: Cells, further: Sequence[tuple[str, str]] = ()) -> tuple[tuple[str, str], ...]:
    """Return the facts that a reader needs to trust or repeat the run.

    The study's own facts, `further`, stand before the last ones.
    """
    results = cells.results
    frame, good = results.frame, results.good
    started = frame["started_s"].dropna()
    named = [(factor.title, "; ".join(
        f"{level} ({title})" if (title := results.title(factor.name, level)) else level
        for level in results.levels[factor.name])) for factor in results.factors]
    return tuple((name, value) for name, value in (
        ("Results", results.name), ("Study", results.study.title),
        ("Measured", f"{day(started.min())} to {day(started.max())}" if len(started) else ""),
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
        ("Digest of plan and records", results.digest), ("Made", now())) if value)


def day(seconds: float) -> str:
    """Return a wall-clock time as text in UTC, to the minute."""
    return datetime.fromtimestamp(float(np.floor(seconds)), UTC).strftime("%Y-%m-%d %H:%M UTC")


def now() -> str:
    """Return the current time as text in UTC, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")



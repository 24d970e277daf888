"""A report from a run's results, or from the published values alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from analysis import advice, bounds, claims, decisions, diagnostics, summary
from analysis import study as studies
from analysis.advice import Limits
from analysis.flags import flagged_line
from analysis.frame import Results
from analysis.names import scenario_title
from analysis.notes import size
from analysis.one_clock import VIRTUAL, caveat, stamped
from analysis.report import figures
from analysis.report.answers import answers
from analysis.report.model import Figure, Links, Report, Section
from analysis.study import Study
from analysis.summary import Summary
from analysis.table import Table
from policies import Policy, Weights

#: Sections in their order: id, title, lead, the tables by their ids (or how these begin).
_SECTIONS = (
    ("authentication", "Authentication", ("What it takes to get on the network, and how that goes "
     "with protection."), ("figure-2", "table-4")),
    ("traffic", "Throughput", "What the policy takes off the bit rate.",
     ("table-5", "table-6", "table-7", "table-8")),
    ("bounds", "Bounds", ("Whether a throughput says something about the policy, the "
     "medium, or the machine that measured."), ("bounds",)),
    ("protection", "Protection", ("What a policy protects from, as a sum of weights and without "
     "one."), ("table-1", "table-2", "table-3", "views", "sensitivity", "attacks")),
    ("robustness", "Robustness", "How much it matters where the user is.", ("table-9",)),
    ("applications", "Applications", "Which policies qualify for what, by the paper's thresholds.",
     ("overview", "advice-")),
    ("decisions", "Decisions", ("Differences from the policy without security, corrected for "
     "their number, and how many repetitions are still needed."), ("decisions-",)),
    ("paper", "The paper", "Where the paper's printed values do not follow from each other.",
     ("deviations", "n2")))
_ANSWERS_NOTE = ("For each application the policy of highest protection "
                 "(\N{GREEK SMALL LETTER SIGMA}) that meets the limits for sure, that is with its "
                 "whole 95\N{NO-BREAK SPACE}% interval.")


def of_run(folder: Path, results: Results, weights: Weights | None = None, baseline: str = "P1",
           own: Sequence[Policy] = (), wanted: Sequence[str | Limits] = ()) -> Report:
    """The report of a results folder, with sections for what was measured.

    `own` are policies of one's own files, `wanted` applications or limits beside the paper's.
    """
    study = studies.measured(results, weights, baseline, own)
    summed = summary.summarize(results, baseline)
    tables = [*studies.tables(study), *_advice(study, wanted), bounds.table(results, own),
              *decisions.tables(results, baseline)]
    said = tuple(line for line in (flagged_line(results),) if line)
    # What no record stands behind does not depend on the clock: weights, attacks, the paper's own.
    tables = [stamped(table, results.clock, said) if _is_measured(table) else table
              for table in tables]
    drawn = [*figures.traffic(study), figures.handoffs(summed)]
    verdicts = tuple(claims.judge(study))
    about = caveat(results.clock)
    return Report(
        _title(results), _subtitle(results), _facts(results, folder),
        answers(advice.overview(study)), _ANSWERS_NOTE, verdicts,
        _sections(study, tables, drawn, about),
        (*summed.warnings, *study.notes, *diagnostics.warnings_of(results, baseline)),
        summed.complaints, _failures(summed), _links(folder),
        (stamped(_claims(verdicts), results.clock, said),), caveat=about)


def of_paper(weights: Weights | None = None, wanted: Sequence[str | Limits] = ()) -> Report:
    """The report of the published values alone: the paper's tables, made again."""
    study = studies.published(weights)
    tables = [*studies.tables(study), *_advice(study, wanted)]
    verdicts = tuple(claims.judge(study))
    return Report(
        "The 2007 paper's values, made again",
        "Everything here comes from the numbers that the paper printed; nothing was measured.",
        (("Source", ("Agarwal and Wang, On the Impact of Quality of Protection in Wireless Local "
                    "Area Networks with IP Mobility, 2007")),
         ("Made", _now())),
        answers(advice.overview(study)), _ANSWERS_NOTE, verdicts,
        _sections(study, tables, figures.traffic(study)), study.notes,
        beside=(_claims(verdicts),))


def _is_measured(table: Table) -> bool:
    return any(entry.records for row in table.rows for entry in row)


def _claims(verdicts: Sequence[claims.Verdict]) -> Table:
    """The verdicts as a table, without marks: what these mean elsewhere, they do not mean here."""
    found = claims.table(verdicts)
    return replace(found, rows=tuple(tuple(replace(entry, marks=frozenset()) for entry in row)
                                     for row in found.rows))


def _advice(study: Study, wanted: Sequence[str | Limits]) -> list[Table]:
    asked = dict.fromkeys((*wanted, *advice.APPLICATIONS))
    found = {table.id: table for table in (advice.advise(study, one) for one in asked)}
    return [advice.overview(study), *found.values()]


def _sections(study: Study, tables: Iterable[Table],
              drawn: Iterable[Figure | None], about: str = "") -> tuple[Section, ...]:
    """Tables and figures by section; an unknown table comes last, an empty section not at all.

    `about` is said of every figure, too.
    """
    left = {table.id: table for table in tables if table.rows}
    times = None
    if "figure-2" in left:
        times = figures.times(left["figure-2"], study)
        left["figure-2"] = replace(left["figure-2"], title="The numbers of Fig. 2")
    there = [replace(figure, caption=f"{figure.caption} {about}".strip())
             for figure in (times, *drawn) if figure is not None]
    plots: Mapping[str, tuple[Figure, ...]] = {
        "authentication": tuple(one for one in there if one.id in ("fig-2", "fig-handoff")),
        "traffic": tuple(one for one in there if one.id in ("fig-throughput", "fig-overhead"))}
    sections = []
    for key, title, lead, wanted in _SECTIONS:
        chosen = [left.pop(name) for start in wanted for name in list(left)
                  if name == start or name.startswith((f"{start}-",) if start[-1] != "-"
                                                      else (start,))]
        if chosen or plots.get(key):
            sections.append(Section(key, title, lead, plots.get(key, ()), tuple(chosen)))
    if left:
        sections.append(Section("more", "More", "", (), tuple(left.values())))
    return tuple(sections)


def _title(results: Results) -> str:
    policies, scenarios = (results.frame[name].nunique() for name in ("policy", "scenario"))
    return (f"{_many(policies, 'security policy', 'security policies')} in "
            f"{_many(scenarios, 'scenario', 'scenarios')}, measured")


def _subtitle(results: Results) -> str:
    good, total = len(results.good), len(results.frame)
    planned = len(results.plan.policies) * len(results.plan.scenarios) * results.plan.repetitions
    said = f"{good} good of {_many(total, 'repetition', 'repetitions')}"
    missing = f", {planned - total} of the plan not measured yet" if planned > total else ""
    medium = ", ".join(sorted(set(results.frame["medium"]) - {""}))
    return (f"{said}{missing}, on real daemons over {medium or 'no emulated medium'}. Intervals "
            "hold 95\N{NO-BREAK SPACE}%.")


def _facts(results: Results, folder: Path) -> tuple[tuple[str, str], ...]:
    """What a reader who wants to trust or repeat the run must know."""
    frame = results.frame
    started = frame["started_s"].dropna()
    scenarios = [f"{name} ({title})" if (title := scenario_title(str(name))) else str(name)
                 for name in dict.fromkeys(frame["scenario"])]
    sizes = [f"{name.upper()} {size(frame[f'{name}_bytes'].median())}" for name in ("tcp", "udp")
             if frame[f"{name}_bytes"].notna().any()]
    return tuple((name, value) for name, value in (
        ("Results", folder.resolve().name),
        ("Measured", f"{_day(started.min())} to {_day(started.max())}"
         f"{', by clocks of virtual time' * (results.clock == VIRTUAL)}" if len(started) else ""),
        ("Policies", ", ".join(dict.fromkeys(frame["policy"]))),
        ("Scenarios", "; ".join(scenarios)),
        ("Medium, clock, machine, builder", "; ".join(
            ", ".join(sorted(set(frame[name]) - {""})) or "not recorded"
            for name in ("medium", "clock", "machine", "builder"))),
        ("Received a stream", ", ".join(sizes)),
        ("Verified", (f"{int(results.good['verified'].sum())} of {len(results.good)} good "
                     f"repetitions, by {int(results.good['checks'].sum())} checks")),
        ("Files left out", str(len(results.complaints))), ("Made", _now())) if value)


def _failures(summed: Summary) -> tuple[str, ...]:
    return tuple(f"{cell.policy} in {cell.scenario}: {line}" for cells in summed.cells.values()
                 for cell in cells for line in cell.failures)


def _links(folder: Path) -> Links:
    """Links from `report.html` in the results folder itself."""
    captures = folder / "captures"
    captured = frozenset(path.name for path in captures.iterdir()) if captures.is_dir() \
        else frozenset()
    return Links("records/" if (folder / "records").is_dir() else "./", "captures/", captured)


def _many(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(float(np.floor(seconds)), UTC).strftime("%Y-%m-%d %H:%M UTC")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")

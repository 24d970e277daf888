"""Assembly of the report from a run's results, or from the published values alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from analysis import significance, stability, standard_report
from analysis.cells import Cells
from analysis.clock import clock_caveat, stamp_table
from analysis.contention import contention_lines
from analysis.present.report import Figure, Report, Section
from analysis.table import Table
from analysis.text import count_noun, format_size
from policies import Weights
from studies.qop2007.metrics import STREAMS
from studies.qop2007.report import (
    advice,
    claims,
    figures,
    moves,
    paper_tables,
    throughput_bounds,
    todays_protection,
)
from studies.qop2007.report.advice import Limits
from studies.qop2007.report.answers import build_answers
from studies.qop2007.report.basis import Basis
from studies.qop2007.report.calls import G711
from studies.qop2007.report.from_paper import basis_from_paper
from studies.qop2007.report.from_run import basis_from_run
from studies.qop2007.report.run_notes import run_table

PAPER = "the 2007 paper"
#: Sections in order: id, title, lead, and the tables by id or prefix of it.
_SECTIONS = (
    ("authentication", "Authentication", ("What it takes to get on the network, and how that goes "
     "with protection."), ("figure-2", "table-4", "moves")),
    ("traffic", "Throughput", "What the policy takes off the bit rate.",
     ("table-5", "table-6", "table-7", "table-8")),
    ("bounds", "Bounds", ("Whether a throughput says something about the policy, the "
     "medium, or the machine that measured."), ("bounds",)),
    ("protection", "Protection", ("What a policy protects from, as a sum of weights and without "
     "one."), ("table-1", "table-2", "table-3", "views", "sensitivity", "attacks",
                "protection-")),
    ("robustness", "Robustness", "How much it matters where the user is.", ("table-9",)),
    ("applications", "Applications", "Which policies qualify for what, by the paper's thresholds.",
     ("overview", "advice-")),
    ("decisions", "Decisions", ("Differences from the policy without security, corrected for "
     "their number, and how many repetitions are still needed."), ("decisions-",)),
    ("paper", "The paper", "Where the paper's printed values do not follow from each other.",
     ("deviations", "n2")),
    ("run", "The run", "Every cell, with components and phases.", ("run",)))
_ANSWERS_NOTE = ("For each application the policy of highest protection "
                 "(\N{GREEK SMALL LETTER SIGMA}) by the scheme of {scheme} that meets the limits "
                 "with its whole 95\N{NO-BREAK SPACE}% interval in every "
                 "scenario, and that protects data as of 2026. {percent} Each number is of the "
                 "scenario where it is worst, whose name stands beside it where there are several.")
_PERCENT = {"strongest": ("By the scheme of {scheme}, 100\N{NO-BREAK SPACE}% is the strongest of "
                          "the paper's twelve."),
            "attainable": ("By the scheme of {scheme}, 100\N{NO-BREAK SPACE}% is the best of every "
                           "feature.")}


_ANSWERS_TITLE = "Which policy, for whom, at what cost"
_CLAIMS_TITLE = "Claims of the paper"
_CLAIMANT = "The paper's"


def of_run(cells: Cells, weights: Weights | None = None,
           applications: Sequence[str | Limits] = ()) -> Report:
    """Build the report of a results folder, with sections for the measured values.

    `applications` are names or limits in addition to the paper's.
    """
    results = cells.results
    basis = replace(basis_from_run(cells, weights), calls=throughput_bounds.calls_of(cells, G711))
    decisions, run = significance.decide_differences(cells), run_table(cells)
    today = todays_protection.rescore_today(basis)
    # The paper's scheme is for the paper's policies, or for users with weights of their own.
    are_papers = all(basis.is_papers(policy.id) for policy in basis.policies)
    advised, beside = (basis, today) if weights or are_papers else (today, None)
    offers = advice.overview(advised, beside)
    tables = [*paper_tables.all_tables(basis), offers, *moves.move_tables(cells, basis),
              *todays_protection.protection_tables(basis, today),
              *_advice_tables(advised, applications, beside), throughput_bounds.bounds_table(cells),
              *significance.make_decision_tables(cells, decisions)]
    flagged = tuple(contention_lines(results))
    # A table without records does not depend on the clock: weights, attacks, the paper's own
    # values.
    tables = [stamp_table(table, results.clock, flagged) if _is_measured(table) else table
              for table in tables]
    verdicts = tuple(claims.judge(basis))
    return Report(
        _report_title(cells), standard_report.make_subtitle(cells),
        facts=standard_report.list_facts(cells, (
            ("Received per stream", _received_sizes(cells)),)),
        answers=build_answers(offers),
        answers_note=_answers_note(advised.weights, *([beside.weights] if beside else [])),
        answers_title=_ANSWERS_TITLE, claims=verdicts, claims_title=_CLAIMS_TITLE,
        claimant=_CLAIMANT,
        sections=_build_sections(basis, [*tables, run],
                                 [*figures.draw_traffic(basis), figures.draw_handoffs(cells)],
                                 clock_caveat(results.clock)),
        warnings=tuple(dict.fromkeys((*run.warnings, *basis.notes, *advised.without_weight(),
                                      *stability.list_warnings(cells, decisions)))),
        complaints=tuple(results.complaints), failures=tuple(cells.describe_failures()),
        beside=(stamp_table(claims.table(verdicts), results.clock, flagged),),
        caveat=clock_caveat(results.clock), run=run, asked=_requested_table_ids(applications),
        printed=tuple(table.id for table in tables if table.id.startswith(("overview", "moves"))))


def of_paper(weights: Weights | None = None,
             applications: Sequence[str | Limits] = ()) -> Report:
    """Build the report of the published values alone: the paper's tables, recomputed."""
    basis = basis_from_paper(weights)
    today = todays_protection.rescore_today(basis)
    offers = advice.overview(basis, today)
    tables = [*paper_tables.all_tables(basis), offers, *_advice_tables(basis, applications, today)]
    verdicts = tuple(claims.judge(basis))
    return Report(
        "The 2007 paper's values, made again",
        "Everything here comes from the numbers that the paper printed; nothing was measured.",
        (("Source", ("Agarwal and Wang, On the Impact of Quality of Protection in Wireless Local "
                    "Area Networks with IP Mobility, 2007")),
         ("Made", standard_report.format_now())),
        build_answers(offers), _answers_note(basis.weights), verdicts,
        _build_sections(basis, tables, figures.draw_traffic(basis)), basis.notes,
        beside=(claims.table(verdicts),), answers_title=_ANSWERS_TITLE,
        claims_title=_CLAIMS_TITLE, claimant=_CLAIMANT, printed=("table-3", "table-9"),
        asked=_requested_table_ids(applications))


def _answers_note(weights: Weights, *others: Weights) -> str:
    percent = " ".join(_PERCENT[each.hundred].format(scheme=each.title)
                       for each in (weights, *others))
    return _ANSWERS_NOTE.format(scheme=weights.title, percent=percent)


def _requested_table_ids(applications: Sequence[str | Limits]) -> tuple[str, ...]:
    limits = (advice.limits_of(application) if isinstance(application, str) else application
              for application in applications)
    return tuple(f"advice-{limit.name}" for limit in limits)


def _is_measured(table: Table) -> bool:
    return any(entry.records for row in table.rows for entry in row)


def _advice_tables(basis: Basis, applications: Sequence[str | Limits],
                   other_scheme: Basis | None = None) -> list[Table]:
    tables = (advice.advise(basis, application, other_scheme)
              for application in dict.fromkeys((*applications, *advice.APPLICATIONS)))
    return list({table.id: table for table in tables}.values())


def _build_sections(basis: Basis, tables: Iterable[Table],
                    drawn: Iterable[Figure | None], about: str = "") -> tuple[Section, ...]:
    """Return the sections with their tables and figures.

    Unknown tables come last, and empty sections are left out. `about` is added to the caption of
    every figure.
    """
    left = {table.id: replace(table, source=PAPER) for table in tables if table.rows}
    times = None
    if "figure-2" in left:
        times = figures.draw_times(left["figure-2"], basis)
        left["figure-2"] = replace(left["figure-2"], title="The numbers of Fig. 2")
    there = [replace(figure, caption=f"{figure.caption} {about}".strip())
             for figure in (times, *drawn) if figure is not None]
    plots: Mapping[str, tuple[Figure, ...]] = {
        "authentication": tuple(figure for figure in there
                                if figure.id in ("fig-2", "fig-handoff")),
        "traffic": tuple(figure for figure in there
                         if figure.id in ("fig-throughput", "fig-overhead"))}
    sections = []
    for key, title, lead, prefixes in _SECTIONS:
        chosen = [left.pop(name) for start in prefixes for name in list(left)
                  if name == start or name.startswith((f"{start}-",) if start[-1] != "-"
                                                      else (start,))]
        if chosen or plots.get(key):
            sections.append(Section(key, title, lead, plots.get(key, ()), tuple(chosen)))
    if left:
        sections.append(Section("more", "More", "", (), tuple(left.values())))
    return tuple(sections)


def _report_title(cells: Cells) -> str:
    policies, scenarios = (cells.results.frame[name].nunique() for name in ("policy", "scenario"))
    return (f"{count_noun(policies, 'security policy', 'security policies')} in "
            f"{count_noun(scenarios, 'scenario')}, measured")


def _received_sizes(cells: Cells) -> str:
    frame = cells.results.frame
    sizes = {name: frame[f"{name}_bytes"].median() for name in STREAMS
             if f"{name}_bytes" in frame and frame[f"{name}_bytes"].notna().any()}
    return ", ".join(f"{name.upper()} {format_size(count)}" for name, count in sizes.items())

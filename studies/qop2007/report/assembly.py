"""Put the tables, figures and answers of qop2007 together to a whole report.

`build_run_report` takes the measured values of a run, and `build_paper_report` those that the 2007
paper printed. Each kind of values gets a section. The report begins with answers (`build_answers`):
which security policy each application should use, and at which cost. The paper is Agarwal and Wang
(2007), on the cost of security policies in wireless LANs. `studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from analysis.cells import Cells
from analysis.circumstances import clock_caveat, stamp_table
from analysis.claims import describe_looks
from analysis.present.entries import format_entry
from analysis.present.report import (
    ApplicationAdvice,
    Figure,
    Recommendation,
    Report,
    ReportFactor,
    Section,
)
from analysis.reporting import significance, stability, standard_report
from analysis.reporting.answer import (
    decisive_repetitions,
    describe_advice,
    describe_answer,
    describe_failures,
    describe_skips,
    make_short_table,
)
from analysis.reporting.repetition_figures import make_repetition_section
from analysis.reporting.run_table import list_contention_notes
from analysis.table import Entry, Table, count_noun, format_size, natural_key
from policies import Weights
from studies.qop2007 import published
from studies.qop2007.measurements import STREAMS
from studies.qop2007.report import (
    application_advice,
    claim_verdicts,
    figures,
    moves,
    paper_tables,
    protection_tables,
    throughput_bounds,
    waits,
)
from studies.qop2007.report.application_advice import ApplicationLimits
from studies.qop2007.report.basis import G711, ReportBasis, basis_from_paper, basis_from_run
from studies.qop2007.report.run_table import build_run_table

# --- First view: a policy and its cost for each application ---

_MOST_RUNNERS = 6
#: Why no policy is recommended.
_NO_POLICY = "No policy that protects data is sure to meet the limits."
_NONE_MEASURED = "No policy that protects data as of 2026 was measured."


def build_answers(overview: Table, names: Mapping[str, str] | None = None,
                  medium: str = "", reason: str = _NO_POLICY) -> tuple[ApplicationAdvice, ...]:
    """Convert the overview table to answers for the first page, one for each application.

    Applications with equal answers share one.

    Args:
        overview: the table of `build_overview`, with rows at home and rows roaming.
        names: names of policies by id, for lists of further policies.
        medium: name of the medium, which limits the number of calls.
        reason: sentence in place of a policy where none is recommended.
    """
    grouped: dict[str, list[Sequence[Entry]]] = {}
    for row in overview.rows:
        grouped.setdefault(_find_entry(overview, row, "application").text, []).append(row)
    every = [ApplicationAdvice(
        application, _capitalize_first(_find_entry(overview, rows[0], "application").note),
        tuple(_build_offer(overview, place, list(equal), names or {}, medium,
                           reason)
              for place, equal in groupby(
                  rows, lambda row: _find_entry(overview, row, "kind").text)))
             for application, rows in grouped.items()]
    alike: dict[object, list[ApplicationAdvice]] = {}
    for answer in every:
        key = tuple((offer.place, offer.choices, offer.runners) for offer in answer.offers)
        alike.setdefault(key, []).append(answer)
    return tuple(_join_answers(together) for together in alike.values())


def _join_answers(together: Sequence[ApplicationAdvice]) -> ApplicationAdvice:
    """Join equal answers of several applications into one answer."""
    if len(together) == 1:
        return together[0]
    first = together[0]
    offers = tuple(
        replace(offer, costs=tuple(dict.fromkeys(
            cost for answer in together for cost in answer.offers[number].costs)))
        for number, offer in enumerate(first.offers))
    return ApplicationAdvice(" \N{MIDDLE DOT} ".join(answer.application for answer in together),
                             ". ".join(
                                 f"{answer.application}: "
                                 f"{answer.limits[:1].lower()}{answer.limits[1:]}"
                                       for answer in together), offers)


def _build_offer(overview: Table, place: str, rows: Sequence[Sequence[Entry]],
                 names: Mapping[str, str], medium: str, reason: str) -> Recommendation:
    """Build the recommendation of a kind of scenarios from its rows, one for each equal policy."""
    policies = [_find_entry(overview, row, "policy") for row in rows]
    others = _find_entry(overview, rows[0], "others").text
    if "missing" in policies[0].marks:
        return Recommendation(place, reason=reason,
                              runners=tuple(_runner_up_lines(others, names)))
    choices = tuple((policy.text, _find_entry(overview, row, "name").text)
                    for policy, row in zip(policies, rows, strict=True))
    costs = tuple((text, what) for key, what in _cost_columns(overview, rows[0], medium)
                  if (text := _range_text(overview, rows, key)))
    return Recommendation(place, choices, costs, tuple(_runner_up_lines(others, names)))


def _cost_columns(overview: Table, row: Sequence[Entry],
                  medium: str) -> Iterator[tuple[str, str]]:
    """Yield the table columns with a policy's protection and costs, and what their numbers mean."""
    for column in overview.columns:
        if column.key.startswith("sigma_"):
            yield column.key, f"protection (scheme of {column.title.rpartition(' ')[2]})"
    yield from (("authentication_time_s", "auth. time"), ("handoff_s", "handoff"),
                ("cost", f"{_find_entry(overview, row, 'stream').text} rate less than baseline"),
                ("calls", f"G.711 calls at most{f' on {medium}' if medium else ''}"))


def _range_text(overview: Table, rows: Sequence[Sequence[Entry]], key: str) -> str:
    """Return the number of a row with its interval, or the least and the largest of several rows.

    The text has the unit, and the scenario if all rows have one. It is "" if a number is missing.
    """
    column = overview.columns[overview.column_index(key)]
    entries = [_find_entry(overview, row, key) for row in rows]
    numbers = [entry.number.value for entry in entries if entry.number is not None]
    if not numbers or len(numbers) < len(rows):
        return ""
    if column.unit == "ms" and max(numbers) >= 1:
        column = replace(column, unit="s", scale=1.0)
    shown = [format_entry(entries[numbers.index(end)], column)
             for end in (min(numbers), max(numbers))]
    ends = [f"{text.main} {text.spread}" if len(rows) == 1 and text.spread
            else text.main.removesuffix(".0") for text in shown]
    details = {entry.detail for entry in entries}
    detail = f" ({entries[0].detail})" if len(details) == 1 and "" not in details else ""
    # A narrow card breaks the line before the scenario only.
    text = f"{' to '.join(dict.fromkeys(ends))} {column.unit}".strip()
    return text.replace(" ", "\N{NO-BREAK SPACE}") + detail


def _find_entry(overview: Table, row: Sequence[Entry], key: str) -> Entry:
    return next(entry for entry, column in zip(row, overview.columns, strict=True)
                if column.key == key)


def _runner_up_lines(listed_policies: str, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the lists of further suitable policies as text, with names, and shorten long lists.

    The input is text such as `P2, P10; undecided: P3`.
    """
    for part in filter(None, (part.strip() for part in listed_policies.split(";"))):
        title, colon, listed = part.rpartition(":")
        ids = [name.strip() for name in listed.split(",")][::-1]
        policies = [f"{each} {names[each]}" if names.get(each) else each for each in ids]
        more = len(policies) - _MOST_RUNNERS
        shown = [*policies[:_MOST_RUNNERS], *([f"{more} more"] if more > 0 else [])]
        yield f"{title if colon else 'also'}: {', '.join(shown)}"


def _capitalize_first(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" if text else ""


# --- Report and its sections ---

PAPER = "the 2007 paper"
#: Sections in order: id, title, lead, and the tables by id or prefix of it.
_SECTIONS = (
    ("authentication", "Authentication", ("How long it takes to get on the network, by strength "
                                          "of protection."),
     ("waits", "figure-2", "table-4", "moves")),
    ("traffic", "Throughput", "By how much the policy lowers the bit rate.",
     ("table-5", "table-6", "table-7", "table-8")),
    ("bounds", "Bounds", "Whether the policy, the medium or this machine limited a throughput.",
     ("bounds",)),
    ("protection", "Protection", "What a policy protects from: as a sum of weights, and by attack.",
     ("table-1", "table-2", "table-3", "views", "sensitivity", "attacks", "protection-")),
    ("robustness", "Robustness", "How much throughput and overhead depend on the scenario.",
     ("table-9",)),
    ("applications", "Applications",
     "Which policies meet an application's limits, by the paper's thresholds.",
     ("overview", "advice-")),
    ("decisions", "Decisions", ("Differences from the baseline, corrected for their "
     "number, and how many repetitions are still needed."), ("decisions-",)),
    ("paper", "The paper", "Where the paper's printed values do not follow from each other.",
     ("deviations", "n2")),
    ("run", "The run", "Every policy and scenario, with components and phases.", ("run",)))
_ANSWERS_NOTE = ("For each application the policy of highest protection "
                 "(\N{GREEK SMALL LETTER SIGMA}) by the scheme of {scheme} that meets the limits "
                 "with its whole 95\N{NO-BREAK SPACE}% interval in every "
                 "scenario, and that protects data as of 2026. Of equal policies, one that is "
                 "proven better, or else all of them. {percent} Each number is of the "
                 "scenario where it is worst, whose name stands beside it where there are several.")
_PERCENT = {"strongest": ("By the scheme of {scheme}, 100\N{NO-BREAK SPACE}% is the strongest of "
                          "the paper's twelve."),
            "attainable": ("By the scheme of {scheme}, 100\N{NO-BREAK SPACE}% is the best of every "
                           "feature.")}


#: Caution beside recommendations by the paper's weights.
_BROKEN_TODAY = ("WEP and 3DES, which the weights of 2007 still count, are broken today: "
                 "'./qop\N{NO-BREAK SPACE}run\N{NO-BREAK SPACE}today' measures policies of today. "
                 "A policy that protects data by WEP alone is never recommended.")
#: Caution beside recommendations from the paper's values.
_NO_INTERVALS = "The paper prints no intervals, so these values prove no difference."
#: Names of signs, for readers who see them first.
_TERMS = dict.fromkeys(("sigma", "\N{GREEK SMALL LETTER SIGMA}"), "the score of protection")
_ANSWERS_TITLE = "Recommended policies by application, and their cost"
_CLAIMS_TITLE = "Claims of the paper"
_CLAIMANT = "The paper's"


def build_run_report(cells: Cells, weights: Weights | None = None,
                     applications: Sequence[str | ApplicationLimits] = ()) -> Report:
    """Build the report of a results folder.

    Args:
        cells: the records of the folder, grouped by policy and scenario.
        weights: weights of protection, by default those of the 2007 paper.
        applications: names or limits of applications to advise on, besides those of the paper.
    """
    results = cells.results
    basis = replace(basis_from_run(cells, weights), calls=throughput_bounds.calls_of(cells, G711))
    decisions, run = significance.decide_differences(cells), build_run_table(cells)
    today = protection_tables.rescore_today(basis)
    # The paper's scheme is for the paper's policies, or for users with weights of their own.
    are_papers = all(basis.is_papers(policy.id) for policy in basis.policies)
    advised, beside = (basis, today) if weights or are_papers else (today, None)
    offers = application_advice.build_overview(advised, beside)
    tables = [*paper_tables.build_paper_tables(basis, advised=advised), offers,
              *waits.waits_table(cells, basis), *moves.move_tables(cells, basis),
              *protection_tables.protection_tables(basis, today),
              *_advice_tables(advised, applications, beside), throughput_bounds.bounds_table(cells),
              *significance.make_decision_tables(cells, decisions)]
    flagged = tuple(list_contention_notes(results))
    # A table without records does not depend on the clock: weights, attacks, the paper's own
    # values.
    tables = [stamp_table(table, results.clock, flagged) if _is_measured(table) else table
              for table in tables]
    answering = next((table for table in tables if table.id == "waits"
                      and waits.are_answer(cells)), None)
    # Claims are about the paper's policies alone.
    has_papers = any(basis.is_papers(policy.id) for policy in basis.policies)
    papers_cells = {(policy, place) for _, policy, place in basis.published}
    verdicts = tuple(claim_verdicts.judge_claims(basis)) if has_papers else ()
    protecting = set(results.good["policy"]) - application_advice.unprotected_policies(
        advised, beside)
    media = {str(name) for name in results.good["medium"]} - {""}
    answers = build_answers(offers, {policy.id: policy.name for policy in basis.policies},
                            media.pop() if len(media) == 1 else "",
                            _NO_POLICY if protecting else _NONE_MEASURED)
    return Report(
        _report_title(cells), standard_report.make_subtitle(cells),
        facts=standard_report.list_facts(cells, (
            ("Received per stream", _received_sizes(cells)),)),
        answers=answers,
        summary=tuple(describe_answer(
            cells, decisions, answers, verdicts, f"by the weights of {advised.weights.title}",
            _warn_of_weights(advised.weights),
            list(waits.describe_waits(cells, basis, decisions)) if answering else ())),
        decisive=decisive_repetitions(cells, decisions),
        # The claims of the paper say nothing of other policies and scenarios.
        differences=tuple(significance.make_verdicts(cells, [
            decision for decision in decisions if decision.ids not in papers_cells])),
        factors=standard_report.list_page_factors(cells),
        terms={**_TERMS, **_name_paper_codes()} if has_papers else _TERMS,
        short=None if answering else make_short_table(cells), answering=answering,
        answers_note=_answers_note(advised.weights, *([beside.weights] if beside else [])),
        answers_title=_ANSWERS_TITLE, claims=verdicts, claims_title=_CLAIMS_TITLE,
        claimant=_CLAIMANT,
        sections=_build_sections(advised, [
            *(table for table in tables if table is not answering), run],
                                 [*figures.draw_traffic(advised), figures.draw_handoffs(cells)],
                                 clock_caveat(results.clock), make_repetition_section(cells)),
        warnings=standard_report.list_page_warnings(cells, (
            *run.warnings, *basis.notes, *advised.without_weight(),
            *stability.list_warnings(cells, decisions))),
        complaints=tuple(results.complaints), failures=tuple(describe_failures(cells)),
        skips=tuple(describe_skips(cells)),
        beside=(stamp_table(claim_verdicts.build_claims_table(verdicts, results.planned_looks),
                            results.clock, flagged),) if verdicts else (),
        caveat=clock_caveat(results.clock), design=describe_looks(results.planned_looks), run=run,
        asked=_requested_table_ids(applications),
        printed=tuple(table.id for table in tables if table is not answering
                      and table.id.startswith(("overview", "waits", "moves"))))


def build_paper_report(weights: Weights | None = None,
                       applications: Sequence[str | ApplicationLimits] = ()) -> Report:
    """Build the report of the values that the 2007 paper printed, without a run.

    Args:
        weights: weights of protection, by default those of the 2007 paper.
        applications: names or limits of applications to advise on, besides those of the paper.
    """
    basis = basis_from_paper(weights)
    today = protection_tables.rescore_today(basis)
    offers = application_advice.build_overview(basis, today)
    tables = [*paper_tables.build_paper_tables(basis), offers,
              *_advice_tables(basis, applications, today)]
    verdicts = tuple(claim_verdicts.judge_claims(basis))
    answers = build_answers(offers, {policy.id: policy.name for policy in basis.policies})
    return Report(
        "The 2007 paper's values, made again",
        "Everything here comes from the numbers that the paper printed; nothing was measured.",
        (("Source", ("Agarwal and Wang, On the Impact of Quality of Protection in Wireless Local "
                    "Area Networks with IP Mobility, 2007")),
         ("Made", standard_report.format_now())),
        answers, _answers_note(basis.weights), verdicts,
        _build_sections(basis, tables, figures.draw_traffic(basis)), basis.notes,
        beside=(claim_verdicts.build_claims_table(verdicts),), answers_title=_ANSWERS_TITLE,
        summary=tuple(line for line in (
            *describe_advice(answers, f"by the weights of {basis.weights.title}"),
            _warn_of_weights(basis.weights), _NO_INTERVALS) if line),
        terms=_TERMS, factors=(
            ReportFactor("policy", "Policy", {
                each.id: each.name for each in sorted(
                    basis.policies, key=lambda policy: natural_key(policy.id))}, is_compared=True),
            ReportFactor("scenario", "Scenario",
                         {place.id: place.title for place in basis.places})),
        claims_title=_CLAIMS_TITLE, claimant=_CLAIMANT, printed=("table-3", "table-9"),
        asked=_requested_table_ids(applications))


def _name_paper_codes() -> dict[str, str]:
    """Return the names of the paper's policies and scenarios, which claims name without a run."""
    return {policy.id: policy.name for policy in published.load_policies()} | dict(
        published.load_values().scenarios)


def _warn_of_weights(weights: Weights) -> str:
    """Return the caution for recommendations by the paper's weights, "" for other weights."""
    return _BROKEN_TODAY if weights.title == "2007" else ""


def _answers_note(weights: Weights, *others: Weights) -> str:
    percent = " ".join(_PERCENT[each.hundred].format(scheme=each.title)
                       for each in (weights, *others))
    return _ANSWERS_NOTE.format(scheme=weights.title, percent=percent)


def _requested_table_ids(applications: Sequence[str | ApplicationLimits]) -> tuple[str, ...]:
    limits = (application_advice.parse_limits(application) if isinstance(application, str)
              else application
              for application in applications)
    return tuple(f"advice-{limit.name}" for limit in limits)


def _is_measured(table: Table) -> bool:
    return any(entry.records for row in table.rows for entry in row)


def _advice_tables(basis: ReportBasis, applications: Sequence[str | ApplicationLimits],
                   other_scheme: ReportBasis | None = None) -> list[Table]:
    tables = (application_advice.build_advice_table(basis, application, other_scheme)
              for application in dict.fromkeys((*applications, *application_advice.APPLICATIONS)))
    return list({table.id: table for table in tables}.values())


def _build_sections(basis: ReportBasis, tables: Iterable[Table],
                    drawn: Iterable[Figure | None], about: str = "",
                    repetitions: Section | None = None) -> tuple[Section, ...]:
    """Sort tables and figures into the sections of the report, and drop empty sections.

    Tables that belong to no section come last.

    Args:
        basis: the measured or published values.
        tables: the tables of the report.
        drawn: the figures, with None for a figure without data.
        about: text to add to the caption of every figure.
        repetitions: the section of repetitions, which comes before the decisions.
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
        if key == "decisions" and repetitions:
            sections.append(repetitions)
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

"""Write a report as a single HTML page, with its tables as files in a folder.

`save_report` takes the report on a run and a folder. It writes report.html, and each table as
LaTeX, CSV and Parquet. The page includes styles, scripts, plots and data, and loads nothing else.
It first shows the main answers. Readers unfold tables and most figures.
"""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from analysis.circumstances import strip_caveats
from analysis.claims import Verdict
from analysis.present import export, latex, plotly_bundle
from analysis.present.code_names import CodeNames, code_names
from analysis.present.entries import (
    MARKS,
    EntryText,
    format_entry,
    format_interval,
    heading_rows,
    is_numeric,
    list_notations,
    section_at,
    typeset_minus,
)
from analysis.present.figure_styles import style_figures
from analysis.present.page_levels import PageLevels
from analysis.present.report import Figure, Panel, RecordLinks, Report
from analysis.records import Frame
from analysis.table import Column, Entry, Table
from measure.records.document import screen_document

# --- HTML page ---

_TEMPLATES = Path(__file__).with_name("templates")
#: Panels of figures that a page shows before any is unfolded.
_MAX_OPEN_PANELS = 6
#: Undecided claims that a page shows before they are unfolded.
_MAX_OPEN_CLAIMS = 4
#: Digits of values in figures.
_FIGURE_DIGITS = 6
#: Largest number of records linked from one number; for more, the folder is linked.
_MOST_RECORDS = 24
#: Badge styles of verdicts and of yes and no.
_BADGES = {"confirmed": "good", "refuted": "bad", "undecided": "open", "yes": "good", "no": "bad",
           "partly": "open", "medium": "tint", "processor": "open", "emulator": "open"}


class PageDetails:
    """The details that the page shows when a reader selects a number, collected on rendering."""

    def __init__(self, links: RecordLinks) -> None:
        self.cells: list[dict[str, Any]] = []
        self.sets: list[list[str]] = []
        self._links = links
        self._known: dict[tuple[str, ...], int] = {}

    def add_cell(self, table: Table, row: int, index: int, entry_text: EntryText) -> int | None:
        """Add the details of a table entry, and return their number, or None without details."""
        entry, column = table.rows[row][index], table.columns[index]
        if not (entry.records or entry.note):
            return None
        self.cells.append(_without_empty({
            "title": _cell_title(table, row, column), "value": _value_text(entry_text, column),
            "interval": format_interval(entry.number, column) if entry.number else "",
            "n": entry.number.n if entry.number else 0,
            "published": f"{entry_text.published} {column.unit}".strip() if entry_text.published
            else "",
            "modelled": f"{entry_text.modelled} {column.unit}".strip() if entry_text.modelled
            else "",
            "note": entry.note, "records": self.index_records(entry.records)}))
        return len(self.cells) - 1

    def index_records(self, names: Sequence[str]) -> dict[str, int] | None:
        """Add a set of record names, and return the set's index and size, or None without names."""
        if not names:
            return None
        shown = tuple(dict.fromkeys(names))
        first = shown[:_MOST_RECORDS]
        if first not in self._known:
            self._known[first] = len(self.sets)
            self.sets.append(list(first))
        return {"set": self._known[first], "count": len(shown)}

    def to_json_data(self) -> dict[str, Any]:
        """Return all details as JSON data for the page's script."""
        linked = {name for names in self.sets for name in names}
        return {"cells": self.cells, "sets": self.sets, "recordsAt": self._links.records,
                "capturesAt": self._links.captures,
                "captured": sorted(linked & self._links.captured)}


def render_page(report: Report, cache_folder: Path | None = None) -> str:
    """Return the report as an HTML page.

    Args:
        report: The report.
        cache_folder: A folder that keeps the plotting library's partial script.
    """
    details, levels = PageDetails(report.links), PageLevels(report.factors)
    names = CodeNames({**code_names(report.factors), **report.terms})
    figures = style_figures(
        (figure for section in report.sections for figure in section.figures), levels)
    opened = _choose_open(figures)
    notes = _shared_notes(report)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=jinja2.StrictUndefined, finalize=screen_document)
    environment.globals |= {
        "columns_of": partial(_page_columns, levels=levels),
        "rows_of": lambda table: list(_page_rows(table, details, levels)),
        "heading_rows": heading_rows, "legend_of": list_notations, "badge": _BADGES.get,
        "claim_cell": lambda claim: _claim_cell(claim, details), "asset": _load_asset,
        "on_page": lambda table: table.shown_on("screen"), "names": names,
        "caption_of": strip_caveats if report.caveat else str,
        "plotly": partial(_load_plotly, cache_folder), "is_open": opened.__contains__,
        "note_number": notes.get,
        "codes_of_table": names.collect_table,
        "codes_of_figure": partial(_collect_figure_codes, names),
        "figures_data": lambda: _figures_json(figures, levels)}
    page = environment.get_template("report.html").render(
        report=report, tally=report.tally(), has_figures=bool(figures),
        claim_groups=_group_claims(report), filters=levels.to_filter_data(), notes=list(notes))
    # The details are complete only after all cells are rendered.
    return page.replace('"@DETAILS@"', _to_script_json(details.to_json_data()), 1)


def _choose_open(figures: Iterable[Figure]) -> frozenset[str]:
    """Return the ids of the figures that are not folded: the first ones, up to some panels."""
    opened, panels = set(), 0
    for figure in figures:
        panels += len(figure.panels)
        if panels > _MAX_OPEN_PANELS:
            break
        opened.add(figure.id)
    return frozenset(opened)


def _shared_notes(report: Report) -> dict[str, int]:
    """Return the notes that several tables of the page have, with their numbers."""
    counts = Counter(note for section in report.sections for table in section.tables
                     for note in dict.fromkeys(table.notes))
    shared = [note for note, count in counts.items() if count > 1]
    return {note: number for number, note in enumerate(shared, 1)}


def _group_claims(report: Report) -> list[dict[str, Any]]:
    """Return the claims by verdict, those that fail first. Groups that hold are folded."""
    groups = []
    for word in ("refuted", "undecided", "confirmed"):
        claims = [claim for claim in report.claims if claim.verdict == word]
        if claims:
            groups.append({"word": word, "claims": claims, "is_open": word == "refuted" or (
                word == "undecided" and len(claims) <= _MAX_OPEN_CLAIMS)})
    return groups


def _page_rows(table: Table, details: PageDetails,
               levels: PageLevels) -> Iterator[dict[str, Any]]:
    numeric = [is_numeric(table, index) for index in range(len(table.columns))]
    signed = [numeric[index] and any(format_entry(row[index], column).signs for row in table.rows)
              for index, column in enumerate(table.columns)]
    heading: list[str] = []
    for number, row in enumerate(table.rows):
        sections = list(section_at(table, number))
        if sections:
            heading = levels.find_in_heading(sections[-1])
        own = levels.find_in_row(table, row)
        yield {"sections": sections, "heading_levels": " ".join(heading),
               "levels": " ".join(dict.fromkeys((*heading, *own))),
               "cells": [{**_page_cell(table, number, index, entry, details),
                          "numeric": numeric[index], "signed": signed[index]}
                         for index, entry in enumerate(row)]}


def _page_cell(table: Table, row: int, index: int, entry: Entry,
               details: PageDetails) -> dict[str, Any]:
    shown = typeset_minus(format_entry(entry, table.columns[index]))
    if not shown.main and (entry.records or entry.note):
        shown = replace(shown, main="\N{EN DASH}")  # a clickable text
    return {"shown": shown, "key": table.columns[index].key, "marks": sorted(entry.marks),
            "detail": details.add_cell(table, row, index, shown),
            "signs": [(mark, *MARKS[mark]) for mark in shown.signs],
            "badge": _BADGES.get(shown.main.rstrip("?")) if entry.number is None else None}


def _page_columns(table: Table, levels: PageLevels) -> list[dict[str, Any]]:
    return [{"title": column.title, "unit": column.unit, "numeric": is_numeric(table, index),
             "levels": " ".join((*levels.find_in_name(column.title),
                                 *levels.find_in_name(column.group)))}
            for index, column in enumerate(table.columns)]


def _collect_figure_codes(names: CodeNames, figure: Figure) -> None:
    """Note the codes in the titles, legends and axes of a figure, for a line below the figure."""
    names.begin_block()
    for panel in figure.panels:
        names.collect_codes(panel.title)
        for trace in panel.data:
            for text in (trace.get("name"), *trace.get("text", ()), *trace.get("x", ()),
                         *trace.get("y", ())):
                if isinstance(text, str):
                    names.collect_codes(text)


def _claim_cell(claim: Verdict, details: PageDetails) -> int | None:
    """Add the details of a claim's records, and return their number, or None without records."""
    if not claim.records:
        return None
    details.cells.append({"title": f"{claim.id}: {claim.says}", "value": claim.figure,
                          "records": details.index_records(claim.records)})
    return len(details.cells) - 1


def _cell_title(table: Table, row: int, column: Column) -> str:
    group = f"{column.group}, " if column.group else ""
    return f"{table.rows[row][0].text}, {group}{column.title}"


def _value_text(entry_text: EntryText, column: Column) -> str:
    return " ".join(part for part in (entry_text.main, entry_text.spread, column.unit) if part)


def _without_empty(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value}


def _figures_json(figures: Iterable[Figure], levels: PageLevels) -> Markup:
    """Return all plots of a report as JSON for the page's script."""
    return Markup(_to_script_json({  # noqa: S704 # JSON with every bracket escaped
        figure.id: [_panel_data(panel, levels) for panel in figure.panels] for figure in figures}))


def _panel_data(panel: Panel, levels: PageLevels) -> dict[str, Any]:
    """Return a panel for the page's script, with the levels that it and its traces show."""
    traces = [{**{key: value for key, value in trace.items() if key != "meta"},
               "levels": levels.find_in_name(trace.get("name", ""))} for trace in panel.data]
    data: dict[str, Any] = _round_values({
        "title": panel.title, "data": traces, "layout": panel.layout, "rows": panel.rows,
        "levels": levels.find_in_heading(panel.title)})
    return data


def _round_values(value: Any) -> Any:
    """Return data with all floats rounded to the digits that a plot can show."""
    if isinstance(value, float):
        return float(f"{value:.{_FIGURE_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _round_values(part) for key, part in value.items()}
    return [_round_values(part) for part in value] if isinstance(value, list | tuple) else value


def _to_script_json(document: Any) -> str:
    """Return JSON text that is safe inside an HTML script element."""
    text = json.dumps(screen_document(document), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _load_asset(name: str) -> Markup:
    """Return a style sheet or script of the page to include unchanged."""
    return Markup((_TEMPLATES / name).read_text("utf-8"))  # noqa: S704 # a file of this package


@cache
def _load_plotly(cache_folder: Path | None = None) -> Markup:
    """Return the plotting library, compressed, as text. The page's script unpacks it."""
    packed = plotly_bundle.pack_bundle(cache_folder)
    return Markup(base64.b64encode(packed).decode())  # noqa: S704 # letters and digits


# --- Files of a report in a folder: the page, and tables as LaTeX, CSV and Parquet ---

PAGE = "report.html"


def save_report(report: Report, folder: Path, frame: Frame | None = None,
                cache_folder: Path | None = None) -> list[Path]:
    """Write a report to a folder, as `report.html` and `tables/`.

    The page links the records and captures in the folder. Each file is written to a temporary file
    and then renamed, so that no file is incomplete.

    Args:
        report: The report.
        folder: The folder to write to.
        frame: The repetitions, written to `tables/records.parquet`.
        cache_folder: A folder that keeps the plotting library's partial script.

    Returns:
        The page, and the document that includes all tables.

    Raises:
        OSError: A file cannot be written.
    """
    report = replace(report, links=_find_links(folder))
    tables = folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    for table in report.tables:
        _write_text(tables / f"{table.id}.tex", latex.to_latex(table))
        _write_text(tables / f"{table.id}.csv", export.to_csv(table))
        _write_parquet(tables / f"{table.id}.parquet", partial(export.write_parquet, table))
    if frame is not None:
        _write_parquet(tables / "records.parquet", frame.to_parquet)
    document = tables / "tables.tex"
    _write_text(document, latex.to_latex_document(list(report.tables), report.title))
    _write_text(folder / PAGE, render_page(report, cache_folder))
    return [folder / PAGE, document]


def _find_links(folder: Path) -> RecordLinks:
    """Return the paths of records and captures for the page's links."""
    captures = folder / "captures"
    captured = frozenset(path.name for path in captures.iterdir()) if captures.is_dir() \
        else frozenset()
    return RecordLinks("records/" if (folder / "records").is_dir() else "./", "captures/", captured)


def _write_text(path: Path, text: str) -> None:
    with _temporary_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _write_parquet(path: Path, put: Callable[[Path], None]) -> None:
    with _temporary_path(path) as temporary:
        put(temporary)


@contextmanager
def _temporary_path(path: Path) -> Iterator[Path]:
    """Provide a temporary name for a file until the file is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

"""HTML output of a report as a single file.

The file includes styles, scripts, plots and data, and loads nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from analysis.claims.verdict import Verdict
from analysis.present.entries import (
    MARKS,
    Shown,
    format_entry,
    format_interval,
    heading_rows,
    is_numeric,
    list_notations,
    section_at,
    typeset_minus,
)
from analysis.present.report import Figure, Links, Report
from analysis.table import Column, Entry, Table
from measure.document import screen_document

_TEMPLATES = Path(__file__).with_name("templates")
#: Largest number of records linked from one number; for more, the folder is linked.
_MOST_RECORDS = 24
#: Badge styles of verdicts and of yes and no.
_BADGES = {"confirmed": "good", "refuted": "bad", "undecided": "open", "yes": "good", "no": "bad",
           "partly": "open", "medium": "tint", "processor": "open", "emulator": "open"}


class Details:
    """The details behind the numbers of the page, collected during rendering."""

    def __init__(self, links: Links) -> None:
        self.cells: list[dict[str, Any]] = []
        self.sets: list[list[str]] = []
        self._links = links
        self._known: dict[tuple[str, ...], int] = {}

    def add_cell(self, table: Table, row: int, index: int, entry_text: Shown) -> int | None:
        """Add the details of a cell: return their number, or None if there are none."""
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
        """Return the index in `sets` and the number of some records, or None without any."""
        if not names:
            return None
        shown = tuple(dict.fromkeys(names))
        first = shown[:_MOST_RECORDS]
        if first not in self._known:
            self._known[first] = len(self.sets)
            self.sets.append(list(first))
        return {"set": self._known[first], "count": len(shown)}

    def to_json_data(self) -> dict[str, Any]:
        """Return all details for the page's script."""
        linked = {name for names in self.sets for name in names}
        return {"cells": self.cells, "sets": self.sets, "recordsAt": self._links.records,
                "capturesAt": self._links.captures,
                "captured": sorted(linked & self._links.captured)}


def render_page(report: Report) -> str:
    """Return the report as an HTML page."""
    details = Details(report.links)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=jinja2.StrictUndefined, finalize=screen_document)
    environment.globals |= {
        "columns_of": _page_columns, "rows_of": lambda table: list(_page_rows(table, details)),
        "heading_rows": heading_rows, "legend_of": list_notations, "badge": _BADGES.get,
        "claim_cell": lambda claim: _claim_cell(claim, details), "asset": _load_asset,
        "on_page": lambda table: table.shown_on("screen"),
        "figures_data": _figures_json}
    figures = [figure for section in report.sections for figure in section.figures]
    page = environment.get_template("report.html").render(
        report=report, tally=report.tally(), has_figures=bool(figures))
    # The details are complete only after all cells are rendered.
    return page.replace('"@DETAILS@"', _to_script_json(details.to_json_data()), 1)


def _page_rows(table: Table, details: Details) -> Iterator[dict[str, Any]]:
    numeric = [is_numeric(table, index) for index in range(len(table.columns))]
    signed = [numeric[index] and any(format_entry(row[index], column).signs for row in table.rows)
              for index, column in enumerate(table.columns)]
    for number, row in enumerate(table.rows):
        yield {"sections": list(section_at(table, number)),
               "cells": [{**_page_cell(table, number, index, entry, details),
                          "numeric": numeric[index], "signed": signed[index]}
                         for index, entry in enumerate(row)]}


def _page_cell(table: Table, row: int, index: int, entry: Entry,
               details: Details) -> dict[str, Any]:
    shown = typeset_minus(format_entry(entry, table.columns[index]))
    if not shown.main and (entry.records or entry.note):
        shown = replace(shown, main="\N{EN DASH}")  # a clickable text
    return {"shown": shown, "key": table.columns[index].key, "marks": sorted(entry.marks),
            "detail": details.add_cell(table, row, index, shown),
            "signs": [(mark, *MARKS[mark]) for mark in shown.signs],
            "badge": _BADGES.get(shown.main.rstrip("?")) if entry.number is None else None}


def _page_columns(table: Table) -> list[dict[str, Any]]:
    return [{"title": column.title, "unit": column.unit, "numeric": is_numeric(table, index)}
            for index, column in enumerate(table.columns)]


def _claim_cell(claim: Verdict, details: Details) -> int | None:
    """Return the number of the details of a claim's records, or None without records."""
    if not claim.records:
        return None
    details.cells.append({"title": f"{claim.id}: {claim.says}", "value": claim.figure,
                          "records": details.index_records(claim.records)})
    return len(details.cells) - 1


def _cell_title(table: Table, row: int, column: Column) -> str:
    group = f"{column.group}, " if column.group else ""
    return f"{table.rows[row][0].text}, {group}{column.title}"


def _value_text(entry_text: Shown, column: Column) -> str:
    return " ".join(part for part in (entry_text.main, entry_text.spread, column.unit) if part)


def _without_empty(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value}


def _figures_json(report: Report) -> Markup:
    """Return all plots as JSON for the page's script."""
    figures: list[Figure] = [figure for section in report.sections for figure in section.figures]
    return Markup(_to_script_json({  # noqa: S704 # JSON with every bracket escaped
        figure.id: [{"title": panel.title, "data": panel.data, "layout": panel.layout,
                     "rows": panel.rows} for panel in figure.panels] for figure in figures}))


def _to_script_json(document: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(screen_document(document), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _load_asset(name: str) -> Markup:
    """Return a style sheet or script (the page's or plotly's) to include unchanged."""
    if name == "plotly":
        text = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
        return Markup(text.replace("</script", "<\\/script"))  # noqa: S704 # a library
    return Markup((_TEMPLATES / name).read_text("utf-8"))  # noqa: S704 # a file of this package

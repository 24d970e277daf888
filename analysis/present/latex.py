"""LaTeX output of tables, for a plain article with booktabs.

Each table is one file, and one document includes them all. A table that is too wide for the page is
set in a smaller size, and then in parts that repeat its first column. A table that is too long
continues on the next page. Columns of words get the width that the page leaves for them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from analysis.present.entries import (
    MARKS,
    format_entry,
    heading_rows,
    is_numeric,
    list_notations,
    section_at,
    typeset_minus,
)
from analysis.present.typesetting import Block, Typesetting, choose_typesetting, split_pages
from analysis.table import Entry, Table
from analysis.text import to_printable

_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\ensuremath{<}", ">": r"\ensuremath{>}", "|": r"\textbar{}",
    "\N{PLUS-MINUS SIGN}": r"\ensuremath{\pm}", "\N{MINUS SIGN}": r"\ensuremath{-}",
    "\N{GREEK SMALL LETTER SIGMA}": r"\ensuremath{\sigma}",
    "\N{GREEK SMALL LETTER ETA}": r"\ensuremath{\eta}",
    "\N{GREEK SMALL LETTER DELTA}": r"\ensuremath{\delta}",
    "\N{MICRO SIGN}": r"\ensuremath{\mu}", "\N{GREEK SMALL LETTER MU}": r"\ensuremath{\mu}",
    "\N{MULTIPLICATION SIGN}": r"\ensuremath{\times}", "\N{DEGREE SIGN}": r"\ensuremath{^\circ}",
    "\N{LESS-THAN OR EQUAL TO}": r"\ensuremath{\leq}",
    "\N{GREATER-THAN OR EQUAL TO}": r"\ensuremath{\geq}",
    "\N{NOT EQUAL TO}": r"\ensuremath{\neq}", "\N{SUPERSCRIPT TWO}": r"\ensuremath{^2}",
    "\N{EN DASH}": "--", "\N{EM DASH}": "---", "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{BLACK STAR}": r"\ensuremath{\star}", "\N{BLACK CIRCLE}": r"\ensuremath{\bullet}",
    "\N{RIGHTWARDS ARROW}": r"\ensuremath{\rightarrow}", "\N{MIDDLE DOT}": r"\ensuremath{\cdot}",
    "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}": r"\ensuremath{\langle}",
    "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}": r"\ensuremath{\rangle}",
    "\N{NO-BREAK SPACE}": "~"}
#: End of a row; in a ragged-right cell `\\` would only end a line.
_END = r"\tabularnewline"
_HEAD = r"""\documentclass[10pt,a4paper]{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=20mm]{geometry}
\usepackage{booktabs}
\setlength{\tabcolsep}{3pt}
\sloppy
\begin{document}
"""


def to_latex_document(tables: Sequence[Table], title: str) -> str:
    """Return an article that includes the files of all tables, which `to_latex` makes."""
    inputs = "".join(f"\\input{{{content.id}}}\n\\clearpage\n" for content in tables)
    return f"{_HEAD}\\section*{{{escape_latex(title)}}}\n{inputs}\\end{{document}}\n"


def to_latex(content: Table) -> str:
    """Return the table as one or more table environments for an article that uses booktabs."""
    content = content.shown_on("screen")
    chosen = choose_typesetting(content)
    floats = list(split_pages(content, chosen, _list_notes(content)))
    lines = ["% needs \\usepackage{booktabs}"]
    for number, blocks in enumerate(floats):
        lines += _float_lines(content, chosen, blocks, number)
        if number == len(floats) - 1:
            lines += _note_lines(content)
        lines.append("\\end{table}")
    return "\n".join(lines) + "\n"


def _float_lines(content: Table, chosen: Typesetting, blocks: Sequence[Block],
                 number: int) -> Iterator[str]:
    yield from ("\\begin{table}[!htbp]", "\\centering")
    if number:
        yield f"\\addtocounter{{table}}{{-1}}\\caption{{{_make_caption(content)} (continued)}}"
    else:
        yield f"\\caption{{{_make_caption(content)}}}\\label{{tab:{content.id}}}"
    yield f"\\{chosen.size}\\setlength{{\\tabcolsep}}{{3pt}}"
    for part, rows in blocks:
        yield from _tabular_lines(content, part, rows, chosen.widths)
        yield "\\par\\medskip"


def _make_caption(content: Table) -> str:
    """Return the title without the table's number, because LaTeX numbers tables itself."""
    numbered = re.fullmatch(r"(Table \d+): (.*)", content.title)
    if numbered is None:
        return escape_latex(content.title)
    whose = f" of {content.source}" if content.source else ""
    return escape_latex(f"{numbered[2][:1].upper()}{numbered[2][1:]} ({numbered[1]}{whose})")


def _note_lines(content: Table) -> Iterator[str]:
    yield "\\begin{minipage}{\\linewidth}\\footnotesize\\raggedright"
    yield from (f"{escape_latex(note)}\\par" for note in _list_notes(content))
    yield "\\end{minipage}"


def escape_latex(text: str) -> str:
    """Return text with LaTeX's special characters escaped.

    Letters that the plain fonts lack lose their accents.
    """
    return "".join(_ESCAPES.get(c) or _to_ascii(c) for c in to_printable(text))


def _to_ascii(character: str) -> str:
    if character.isascii():
        return character
    base = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return "".join(_ESCAPES.get(c, c) for c in base) or "?"


def _tabular_lines(content: Table, part: Sequence[int], rows: range,
                   widths: Sequence[float]) -> Iterator[str]:
    kinds = "".join(f"p{{{widths[index]:.2f}em}}" if widths[index]
                    else "r" if is_numeric(content, index) else "l" for index in part)
    yield f"\\begin{{tabular}}{{@{{}}{kinds}@{{}}}}"
    yield "\\toprule"
    yield from _heading_lines(content, part, widths)
    yield "\\midrule"
    for number in rows:
        for title in section_at(content, number):
            yield "\\addlinespace"
            yield (f"\\multicolumn{{{len(part)}}}{{@{{}}l}}{{\\textit{{{escape_latex(title)}}}}} "
                   f"{_END}")
        row = content.rows[number]
        yield " & ".join(_entry_cell(row[index], content, index, folded=widths[index] > 0)
                         for index in part) + f" {_END}"
    yield "\\bottomrule"
    yield "\\end{tabular}"


def _heading_lines(content: Table, part: Sequence[int], widths: Sequence[float]) -> Iterator[str]:
    chosen = [content.columns[index] for index in part]
    spans = heading_rows(chosen)
    if any(title for title, _ in spans):
        yield " & ".join(f"\\multicolumn{{{count}}}{{c}}{{{escape_latex(title)}}}" if title else ""
                         for title, count in spans) + f" {_END}"
        at = 1
        for title, count in spans:
            if title:
                yield f"\\cmidrule(lr){{{at}-{at + count - 1}}}"
            at += count
    for lines in ([column.title for column in chosen], [column.unit for column in chosen]):
        if any(lines):
            yield " & ".join(_title_cell(text, content, index, folded=widths[index] > 0)
                             for index, text in zip(part, lines, strict=True)) + f" {_END}"


def _title_cell(text: str, content: Table, index: int, *, folded: bool) -> str:
    if folded or not text:
        return f"\\raggedright {escape_latex(text)}" if text else ""
    alignment = "r" if is_numeric(content, index) else "l"
    return f"\\multicolumn{{1}}{{{alignment}}}{{{escape_latex(text)}}}"


def _entry_cell(entry: Entry, content: Table, index: int, *, folded: bool) -> str:
    shown = typeset_minus(format_entry(entry, content.columns[index]))
    main = escape_latex(shown.main)
    if {"best", "recommended"} & entry.marks and main:
        main = f"\\textbf{{{main}}}"
    spread = escape_latex(f" {shown.spread}") if shown.spread else ""
    cell = main + spread + "".join(escape_latex(MARKS[mark][0]) for mark in shown.signs)
    if shown.detail:
        cell += escape_latex(f" ({shown.detail})")
    if shown.reference_lines:
        # A cell of several lines is a nested tabular in plain LaTeX.
        below = "".join(f"\\\\{escape_latex(text)}" for text in shown.reference_lines)
        return f"\\begin{{tabular}}[t]{{@{{}}r@{{}}}}{cell}{below}\\end{{tabular}}"
    # Folded words are left-aligned. LaTeX would read a leading "[" as an option of the previous
    # line's end, so an empty group comes before it.
    return f"\\raggedright {cell}" if folded else f"{{}}{cell}" if cell.startswith("[") else cell


def _list_notes(content: Table) -> list[str]:
    remarks = [said for _, said in content.remarks]
    every = (*content.warnings, _legend_text(content), content.caption, *remarks, *content.notes)
    return [note for note in every if note]


def _legend_text(content: Table) -> str:
    said = [f"in brackets: {meaning}" if kind == "published" else f"{sign} {meaning}"
            for sign, kind, meaning in list_notations(content)]
    return f"{'; '.join(said)}." if said else ""

"""Convert the tables of a report to LaTeX, for a plain article with booktabs.

`to_latex` returns the LaTeX text of one table, which becomes a file. `to_latex_document` returns a
document that includes all these files. A table that is too wide for the page is set in a smaller
size, and then in parts that repeat its first column. A table that is too long continues on the next
page. Widths of texts are estimated here, because LaTeX is not run.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from analysis.present.entries import (
    MARKS,
    fold_text,
    format_entry,
    heading_rows,
    is_numeric,
    list_notations,
    section_at,
    typeset_minus,
)
from analysis.table import Entry, Table, to_printable

# --- Layout: font size, widths of columns and page breaks ---

#: Font sizes with the page's text width (170 mm) in ems and the number of lines per page.
_SIZES = (("small", 51.5, 57), ("footnotesize", 56.0, 66), ("scriptsize", 59.5, 78))
#: Width in ems of a Computer Modern character: the average in text, and by kind of character.
#: `_SIGN` is the width of all other characters.
_EM_PER_CHARACTER = 0.5
_KINDS = ((" ", 0.34), (".,:;'!|", 0.29), ("()[]-/", 0.37), ("0123456789", 0.51),
          ("iljtfr", 0.36), ("mw", 0.8), ("abcdeghknopqsuvxyz", 0.52),
          ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 0.74))
_EMS = {character: width for characters, width in _KINDS for character in characters}
_SIGN = 0.8
#: Ratio of bold to normal width; recommended entries are bold.
_BOLD = 1.15
#: Largest width of a column of words in a table set in parts, and smallest width anywhere (ems).
_WORDS_AT_MOST, _WORDS_AT_LEAST = 18.0, 5.0
#: Share of the largest width, or of the unfolded width, below which a column is hard to read.
_READABLE = 0.6
#: Gap between columns in ems, and number of lines of caption and headings.
_GAP, _HEADING_LINES = 0.76, 7
#: Characters per line of notes, and ratio of the height of their lines to the table's lines.
_NOTE_CHARACTERS, _NOTE_HEIGHT = 105, 1.25
#: Columns and rows of a table that stand together.
Block: TypeAlias = tuple[tuple[int, ...], range]


@dataclass(frozen=True)
class LatexLayout:
    """The layout of a table on LaTeX pages: font size, columns and widths.

    `size` is the font size and `lines` the number of lines per page. `parts` has the columns of
    each part. `widths` are in ems, with 0 for the natural width.
    """

    size: str
    lines: int
    parts: tuple[tuple[int, ...], ...]
    widths: tuple[float, ...]


def choose_typesetting(table: Table) -> LatexLayout:
    """Return the layout with the largest font size at which a table fits the page.

    If it does not fit in any size, the table is set in parts.
    """
    natural = [_natural_width(table, index) for index in range(len(table.columns))]
    words = [index for index in range(len(natural))
             if not is_numeric(table, index) and natural[index] > _WORDS_AT_LEAST]
    for size, room, lines in _SIZES:
        widths = _fit_widths(natural, {index: _smallest_width(table, index) for index in words},
                             room)
        if widths is not None and (size == _SIZES[-1][0] or _is_readable(widths, natural)):
            return LatexLayout(size, lines, (tuple(range(len(natural))),), widths)
    size, room, lines = _SIZES[-1]
    widths = tuple(min(natural[index], max(_WORDS_AT_MOST, _smallest_width(table, index)))
                   if index in words else 0.0 for index in range(len(natural)))
    taken = [width or natural[index] for index, width in enumerate(widths)]
    return LatexLayout(size, lines, tuple(_split_columns(taken, room)), widths)


def split_pages(table: Table, chosen: LatexLayout, notes: Sequence[str]) -> Iterator[list[Block]]:
    """Yield the columns and rows of a table that go onto each page."""
    page: list[Block] = []
    left = chosen.lines - _HEADING_LINES
    for part in chosen.parts:
        first = 0
        for row in range(len(table.rows)):
            height = _row_height(table, part, row, chosen.widths)
            if left < height:
                page += [(part, range(first, row))] if row > first else []
                yield page
                page, first, left = [], row, chosen.lines - _HEADING_LINES
            left -= height
        page.append((part, range(first, len(table.rows))))
        left -= _HEADING_LINES
    yield page
    height = 2 + sum(-(-len(note) // _NOTE_CHARACTERS) for note in notes)
    if left + _HEADING_LINES < height * _NOTE_HEIGHT:
        yield []  # the notes go to a separate page


def _fit_widths(natural: Sequence[float], least: Mapping[int, float],
                room: float) -> tuple[float, ...] | None:
    """Return column widths with which all columns fit into the page width, or None.

    `least` has the smallest widths of columns of words. Numeric and narrow columns keep their
    widths. The wide ones divide the rest in proportion to the width that they need.
    """
    fixed = sum(width for index, width in enumerate(natural) if index not in least)
    left = room - fixed - _GAP * len(natural)
    if sum(natural[index] for index in least) <= left:
        return tuple(0.0 for _ in natural)
    if not least or left < sum(least.values()):
        return None
    span = sum(natural[index] - least[index] for index in least)
    spare = left - sum(least.values())
    return tuple(least[index] + spare * (width - least[index]) / span if index in least else 0.0
                 for index, width in enumerate(natural))


def _is_readable(widths: Sequence[float], natural: Sequence[float]) -> bool:
    """Return whether all columns of words are wide enough to be readable.

    Otherwise a smaller font size is the better choice.
    """
    return all(width >= _READABLE * min(needed, _WORDS_AT_MOST)
               for width, needed in zip(widths, natural, strict=True) if width)


def _smallest_width(table: Table, index: int) -> float:
    """Return the width of the longest word in a column, in ems.

    Words are broken only at hyphens.
    """
    texts = (table.columns[index].title, *(row[index].text for row in table.rows))
    words = (word for text in texts for word in text.replace("-", "- ").split())
    return max(_WORDS_AT_LEAST, _BOLD * max(map(_text_width, words), default=0.0) + 0.3)


def _split_columns(widths: Sequence[float], room: float) -> Iterator[tuple[int, ...]]:
    part, used = [0], widths[0]
    for index in range(1, len(widths)):
        if used + widths[index] + _GAP > room and len(part) > 1:
            yield tuple(part)
            part, used = [0], widths[0]
        part.append(index)
        used += widths[index] + _GAP
    yield tuple(part)


def _row_height(table: Table, part: Sequence[int], row: int, widths: Sequence[float]) -> int:
    """Return how many lines a table row takes, with the headings above it."""
    folded = (len(fold_text(table.rows[row][index].text, int(widths[index] / _EM_PER_CHARACTER)))
              for index in part if widths[index])
    extra = max((entry.published is not None) + (entry.modelled is not None)
                for entry in (table.rows[row][index] for index in part))
    return max(1 + extra, 1, *folded) + 2 * len(list(section_at(table, row)))


def _natural_width(table: Table, index: int) -> float:
    """Return the width of a column without line breaks, in ems."""
    column = table.columns[index]
    longest = max((_entry_width(row[index], table, index) for row in table.rows), default=0.0)
    # The columns of a group share the width of the heading above them.
    shared = [other for other in table.columns if column.group and other.group == column.group]
    above = _text_width(column.group) / len(shared) if shared else 0.0
    return max(longest, _text_width(column.title), _text_width(column.unit), above)


def _entry_width(entry: Entry, table: Table, index: int) -> float:
    shown = format_entry(entry, table.columns[index])
    signs = "".join(MARKS[mark][0] for mark in shown.signs)
    wide = _BOLD if {"best", "recommended"} & entry.marks else 1.0
    detail = f" ({shown.detail})" if shown.detail else ""
    return max(wide * _text_width(shown.main) + _text_width(f" {shown.spread}{signs}{detail}"),
               *map(_text_width, shown.reference_lines), 0.0)


def _text_width(text: str) -> float:
    """Return the approximate width of a text in LaTeX, in ems."""
    return sum(_EMS.get(character, _SIGN) for character in text)


# --- Output as LaTeX source ---

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
    """Return a LaTeX article that includes the files of all tables, as made by `to_latex`."""
    inputs = "".join(f"\\input{{{content.id}}}\n\\clearpage\n" for content in tables)
    return f"{_HEAD}\\section*{{{escape_latex(title)}}}\n{inputs}\\end{{document}}\n"


def to_latex(content: Table) -> str:
    """Return a table as LaTeX table environments, for an article that uses booktabs."""
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


def _float_lines(content: Table, chosen: LatexLayout, blocks: Sequence[Block],
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
    """Return a table's title without its number, because LaTeX numbers tables itself."""
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
    remarks = [text for _, text in content.remarks]
    every = (*content.warnings, _legend_text(content), content.caption, *remarks, *content.notes)
    return [note for note in every if note]


def _legend_text(content: Table) -> str:
    parts = [f"in brackets: {meaning}" if kind == "published" else f"{sign} {meaning}"
             for sign, kind, meaning in list_notations(content)]
    return f"{'; '.join(parts)}." if parts else ""

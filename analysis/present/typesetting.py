"""Layout of a LaTeX table: size, widths of columns and page breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from analysis.present.entries import (
    MARKS,
    fold_text,
    format_entry,
    is_numeric,
    section_at,
)
from analysis.table import Entry, Table

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
class Typesetting:
    """The layout of a table on LaTeX pages.

    `size` is the font size and `lines` the number of lines per page. `parts` has the columns of
    each part. `widths` are in ems, with 0 for the natural width.
    """

    size: str
    lines: int
    parts: tuple[tuple[int, ...], ...]
    widths: tuple[float, ...]


def choose_typesetting(table: Table) -> Typesetting:
    """Return the layout in the largest size at which the table fits the page.

    If it does not fit in any size, the table is set in parts.
    """
    natural = [_natural_width(table, index) for index in range(len(table.columns))]
    words = [index for index in range(len(natural))
             if not is_numeric(table, index) and natural[index] > _WORDS_AT_LEAST]
    for size, room, lines in _SIZES:
        widths = _fit_widths(natural, {index: _smallest_width(table, index) for index in words},
                             room)
        if widths is not None and (size == _SIZES[-1][0] or _is_readable(widths, natural)):
            return Typesetting(size, lines, (tuple(range(len(natural))),), widths)
    size, room, lines = _SIZES[-1]
    widths = tuple(min(natural[index], max(_WORDS_AT_MOST, _smallest_width(table, index)))
                   if index in words else 0.0 for index in range(len(natural)))
    taken = [width or natural[index] for index, width in enumerate(widths)]
    return Typesetting(size, lines, tuple(_split_columns(taken, room)), widths)


def split_pages(table: Table, chosen: Typesetting, notes: Sequence[str]) -> Iterator[list[Block]]:
    """Yield the blocks (columns and rows) of each page."""
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
    """Return the widths with which all columns fit into the room, or None.

    `least` has the smallest widths of columns of words. Numeric and narrow columns keep their
    widths. The wide ones share the rest in proportion to the width that they need.
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

    Otherwise a smaller size is the better choice.
    """
    return all(width >= _READABLE * min(needed, _WORDS_AT_MOST)
               for width, needed in zip(widths, natural, strict=True) if width)


def _smallest_width(table: Table, index: int) -> float:
    """Return the width in ems of a column's longest word.

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
    """Return the number of lines of a row with the headings above it."""
    folded = (len(fold_text(table.rows[row][index].text, int(widths[index] / _EM_PER_CHARACTER)))
              for index in part if widths[index])
    beside = max((entry.published is not None) + (entry.modelled is not None)
                 for entry in (table.rows[row][index] for index in part))
    return max(1 + beside, 1, *folded) + 2 * len(list(section_at(table, row)))


def _natural_width(table: Table, index: int) -> float:
    """Return the width in ems of a column that is not folded."""
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
    """Return the approximate width of a text in ems."""
    return sum(_EMS.get(character, _SIGN) for character in text)

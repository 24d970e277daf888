"""How a LaTeX table is laid out: its size, columns' widths, and what goes on which page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from analysis.present.entries import (
    MARKS,
    fold,
    is_numeric,
    section_at,
    show,
)
from analysis.table import Entry, Table

#: Text width of the page below (170 mm) in ems of each size, and lines that fit on it.
_SIZES = (("small", 51.5, 57), ("footnotesize", 56.0, 66), ("scriptsize", 59.5, 78))
#: Ems that a character of Computer Modern takes: on average in text, and by kind; signs are others.
_EM_PER_CHARACTER = 0.5
_KINDS = ((" ", 0.34), (".,:;'!|", 0.29), ("()[]-/", 0.37), ("0123456789", 0.51),
          ("iljtfr", 0.36), ("mw", 0.8), ("abcdeghknopqsuvxyz", 0.52),
          ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 0.74))
_EMS = {character: width for characters, width in _KINDS for character in characters}
_SIGN = 0.8
#: How much wider bold type is; what is recommended stands in it.
_BOLD = 1.15
#: Ems that a column of words has at most where the table is set in parts, and at least anywhere.
_WORDS_AT_MOST, _WORDS_AT_LEAST = 18.0, 5.0
#: Share of that most, or of what a column takes without folds, below which it is hard to read.
_READABLE = 0.6
#: Ems between columns, and lines that caption and headings take.
_GAP, _HEADING_LINES = 0.76, 7
#: Characters of a line of notes; and how much higher than the table's their lines may be.
_NOTE_CHARACTERS, _NOTE_HEIGHT = 105, 1.25
#: Columns of a table, and rows, that stand together.
Block: TypeAlias = tuple[tuple[int, ...], range]


@dataclass(frozen=True)
class Typesetting:
    """How a table is set: size, lines a page, columns of each part, widths in ems (0: natural)."""

    size: str
    lines: int
    parts: tuple[tuple[int, ...], ...]
    widths: tuple[float, ...]


def setting(table: Table) -> Typesetting:
    """The largest size at which the table fits the page; in parts where it fits at none."""
    natural = [_natural(table, index) for index in range(len(table.columns))]
    words = [index for index in range(len(natural))
             if not is_numeric(table, index) and natural[index] > _WORDS_AT_LEAST]
    for size, room, lines in _SIZES:
        widths = _fit(natural, {index: _least(table, index) for index in words}, room)
        if widths is not None and (size == _SIZES[-1][0] or _is_readable(widths, natural)):
            return Typesetting(size, lines, (tuple(range(len(natural))),), widths)
    size, room, lines = _SIZES[-1]
    widths = tuple(min(natural[index], max(_WORDS_AT_MOST, _least(table, index)))
                   if index in words else 0.0 for index in range(len(natural)))
    taken = [width or natural[index] for index, width in enumerate(widths)]
    return Typesetting(size, lines, tuple(_parts(taken, room)), widths)


def pages(table: Table, chosen: Typesetting, notes: Sequence[str]) -> Iterator[list[Block]]:
    """Blocks (columns and rows) that stand on one page together."""
    page: list[Block] = []
    left = chosen.lines - _HEADING_LINES
    for part in chosen.parts:
        first = 0
        for row in range(len(table.rows)):
            height = _height(table, part, row, chosen.widths)
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
        yield []  # the notes go to a page of their own


def _fit(natural: Sequence[float], least: Mapping[int, float],
         room: float) -> tuple[float, ...] | None:
    """Widths of the columns of words when all columns share the room; None if they cannot.

    `least` are the narrowest that columns of words can be. Narrow columns keep their width; the
    wide ones share what is left, by what they want.
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
    """Whether no column of words is so narrow that a smaller size would be the better choice."""
    return all(width >= _READABLE * min(needed, _WORDS_AT_MOST)
               for width, needed in zip(widths, natural, strict=True) if width)


def _least(table: Table, index: int) -> float:
    """Ems of the longest word of a column, which cannot be folded but at hyphens."""
    texts = (table.columns[index].title, *(row[index].text for row in table.rows))
    words = (word for text in texts for word in text.replace("-", "- ").split())
    return max(_WORDS_AT_LEAST, _BOLD * max(map(_ems, words), default=0.0) + 0.3)


def _parts(taken: Sequence[float], room: float) -> Iterator[tuple[int, ...]]:
    part, used = [0], taken[0]
    for index in range(1, len(taken)):
        if used + taken[index] + _GAP > room and len(part) > 1:
            yield tuple(part)
            part, used = [0], taken[0]
        part.append(index)
        used += taken[index] + _GAP
    yield tuple(part)


def _height(table: Table, part: Sequence[int], row: int, widths: Sequence[float]) -> int:
    """Lines that a row takes, with the headings above it."""
    folded = (len(fold(table.rows[row][index].text, int(widths[index] / _EM_PER_CHARACTER)))
              for index in part if widths[index])
    beside = max((entry.published is not None) + (entry.modelled is not None)
                 for entry in (table.rows[row][index] for index in part))
    return max(1 + beside, 1, *folded) + 2 * len(list(section_at(table, row)))


def _natural(table: Table, index: int) -> float:
    """Ems that a column takes when it is not folded."""
    column = table.columns[index]
    longest = max((_length(row[index], table, index) for row in table.rows), default=0.0)
    # Neighbours share the width of the heading above them.
    shared = [other for other in table.columns if column.group and other.group == column.group]
    above = _ems(column.group) / len(shared) if shared else 0.0
    return max(longest, _ems(column.title), _ems(column.unit), above)


def _length(entry: Entry, table: Table, index: int) -> float:
    shown = show(entry, table.columns[index])
    signs = "".join(MARKS[mark][0] for mark in shown.signs)
    wide = _BOLD if {"best", "recommended"} & entry.marks else 1.0
    detail = f" ({shown.detail})" if shown.detail else ""
    return max(wide * _ems(shown.main) + _ems(f" {shown.spread}{signs}{detail}"),
               *map(_ems, shown.beside), 0.0)


def _ems(text: str) -> float:
    """About how wide a text is."""
    return sum(_EMS.get(character, _SIGN) for character in text)

"""Format the numbers and words in tables as text, for all output formats.

An entry is the content of one place of a table: a number with its confidence interval, or a word.
`format_entry` returns an entry as an `EntryText`, rounded to two significant digits of its
uncertainty. Each output format arranges this text in its own way. Other functions return headings,
the legend of signs, and long texts folded to a width.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from analysis.table import Column, Entry, Quantity, Table

# --- Rounding to the digits that the uncertainty supports ---

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
_MOST_DECIMALS = 3


def round_to_uncertainty(value: float, half_width: float | None) -> tuple[str, str]:
    """Round a value and the half width of its interval to two digits of the half width.

    >>> round_to_uncertainty(4.6123, 0.0312)
    ('4.612', '0.031')
    >>> round_to_uncertainty(1734.0, 126.0)
    ('1730', '130')
    """
    if half_width is None:
        return round_to_digits(value), ""
    if half_width <= 1e-9 * max(abs(value), 1):  # equal values, except for rounding
        return round_to_digits(value), "0"
    decimals = min(_MOST_DECIMALS, 1 - _decimal_exponent(half_width))
    # A half width below the last digit shown is shown as 1 in that digit, not as 0.
    return _format_decimals(value,
                            decimals), _format_decimals(max(half_width, 10.0**-_MOST_DECIMALS),
                                                               decimals)


def round_to_digits(value: float) -> str:
    """Return a value without interval as text, with three significant digits.

    All digits before the point are kept.
    """
    if value == 0:
        return "0"
    return _format_decimals(value,
                            max(0, min(_MOST_DECIMALS, 2 - _decimal_exponent(value, digits=3))))


def _decimal_exponent(value: float, digits: int = 2) -> int:
    """Return the power of ten of a number's first digit, after rounding to `digits`.

    For example, 0.0996 becomes 0.10.
    """
    return math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))


def _format_decimals(value: float, decimals: int) -> str:
    rounded = round(value, decimals)
    return f"{rounded + 0.0:.{max(0, decimals)}f}"  # + 0.0 turns -0.0 into 0.0


# --- Entries, headings and signs as text ---

#: Ratio of an interval's longer arm to its shorter arm above which both ends are shown.
_LOPSIDED = 1.25
#: Marks with their sign after the number and their meaning; marks without a sign are styles.
MARKS: Mapping[str, tuple[str, str]] = {
    "best": ("\N{BLACK STAR}", "best of all"),
    "recommended": ("\N{BLACK CIRCLE}", "recommended in its group"),
    "significant": ("*", "significant after correction"),
    "spans-zero": ("\N{DEGREE SIGN}", "the interval holds 0"),
    "differs": ("\N{NOT EQUAL TO}", "differs from what was published"),
    "missing": ("", "")}
#: Brackets around modelled values.
_OPEN = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
_CLOSE = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


@dataclass(frozen=True)
class EntryText:
    """A table entry as text: its value or word, and additional values."""

    main: str
    spread: str = ""
    published: str = ""
    signs: tuple[str, ...] = ()
    modelled: str = ""
    detail: str = ""

    @property
    def reference_lines(self) -> tuple[str, ...]:
        """Return the lines below a value: the published value in ( ), the modelled one in < >."""
        return (*((f"({self.published})",) if self.published else ()),
                *((f"{_OPEN}{self.modelled}{_CLOSE}",) if self.modelled else ()))


#: Cache of entries as text by identity, because every presenter needs each of them several times.
_KNOWN: dict[tuple[int, int], tuple[Entry, Column, EntryText]] = {}
_MAX_KNOWN = 20_000


def format_entry(entry: Entry, column: Column) -> EntryText:
    """Return a table entry as text, rounded and scaled as its column requires."""
    key = id(entry), id(column)
    known = _KNOWN.get(key)
    if known is not None and known[0] is entry and known[1] is column:
        return known[2]
    if len(_KNOWN) >= _MAX_KNOWN:
        _KNOWN.clear()
    shown = _format_entry(entry, column)
    _KNOWN[key] = entry, column, shown
    return shown


def _format_entry(entry: Entry, column: Column) -> EntryText:
    published, modelled = ("" if value is None else _format_fixed_or_plain(value, column)
                           for value in (entry.published, entry.modelled))
    signs = tuple(mark for mark in MARKS if mark in entry.marks and MARKS[mark][0]
                  and not (mark == "recommended" and "best" in entry.marks))
    if entry.number is None:
        return EntryText(entry.text, "", published, signs, modelled, entry.detail)
    main, spread = _format_number(entry.number, column)
    return EntryText(entry.text or main, "" if entry.text else spread, published, signs, modelled,
                     entry.detail)


def typeset_minus(entry_text: EntryText) -> EntryText:
    """Return an entry text with minus signs in place of hyphens before digits.

    This is for output formats with typographic characters.
    """
    if not any("-" in text for text in (entry_text.main, entry_text.spread, entry_text.published,
                                        entry_text.modelled)):
        return entry_text
    return replace(entry_text, main=_replace_hyphens(entry_text.main),
                   spread=_replace_hyphens(entry_text.spread),
                   published=_replace_hyphens(entry_text.published),
                   modelled=_replace_hyphens(entry_text.modelled))


def _replace_hyphens(text: str) -> str:
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)


def format_interval(number: Quantity, column: Column) -> str:
    """Return the two ends of a confidence interval with unit as text, or "" without one."""
    if number.low is None or number.high is None:
        return ""
    digits = _digits_for(number, column)
    ends = (_format_fixed(end * column.scale, digits) for end in (number.low, number.high))
    return " to ".join(ends) + (f" {column.unit}" if column.unit else "")


def is_numeric(table: Table, index: int) -> bool:
    """Return whether a table column has numbers, which are right-aligned."""
    return any(row[index].number is not None or row[index].published is not None
               or row[index].modelled is not None for row in table.rows)


def marks_of(table: Table) -> list[str]:
    """Return the marks (such as "significant") that a table uses, in the order of MARKS."""
    there = {mark for row in table.rows for entry, column in zip(row, table.columns, strict=True)
             for mark in format_entry(entry, column).signs}
    return [mark for mark in MARKS if mark in there]


def has_published(table: Table) -> bool:
    """Return whether a table contains a value from a publication."""
    return any(entry.published is not None for row in table.rows for entry in row)


def has_modelled(table: Table) -> bool:
    """Return whether a table contains a value computed by a model."""
    return any(entry.modelled is not None for row in table.rows for entry in row)


def list_notations(table: Table) -> list[tuple[str, str, str]]:
    """Return each sign that a table uses, with its kind and meaning, for the legend."""
    notations = [(MARKS[mark][0], mark, MARKS[mark][1]) for mark in marks_of(table)]
    if has_published(table):
        notations.append(("(1.23)", "published", "as published" + f" in {table.source}"
                          * bool(table.source)))
    if has_modelled(table):
        notations.append((f"{_OPEN}1.23{_CLOSE}", "modelled", "as modelled"))
    return notations


def heading_rows(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Return the group headings above a table's columns, and how many columns each spans.

    An empty name stands for a column without a group.
    """
    spans: list[tuple[str, int]] = []
    for column in columns:
        if column.group and spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return spans


def unit_of(column: Column) -> str:
    """Return a column's unit in brackets for its heading, or "" without a unit."""
    return f"[{column.unit}]" if column.unit else ""


def section_at(table: Table, row: int) -> Iterable[str]:
    """Return the section headings directly above a table row."""
    return (title for first, title in table.sections if first == row)


def fold_text(text: str, width: int) -> list[str]:
    """Return a text as lines, broken at blanks and after hyphens.

    Words that are too long are broken too.
    """
    lines = [""]
    for word in text.split(" "):
        pieces = [f"{piece}-" for piece in word.split("-")[:-1]] + word.split("-")[-1:]
        for number, piece in enumerate(pieces):
            joined = f"{lines[-1]}{' ' if lines[-1] and not number else ''}{piece}"
            if cell_len(joined) <= width or not lines[-1]:
                lines[-1] = joined
            else:
                lines.append(piece)
    return [part for line in lines for part in _cut_line(line, width)]


def _cut_line(line: str, width: int) -> Iterator[str]:
    while cell_len(line) > width:
        count = next(n for n in range(len(line), 0, -1) if cell_len(line[:n]) <= width or n == 1)
        yield line[:count]
        line = line[count:]
    yield line


def _format_number(number: Quantity, column: Column) -> tuple[str, str]:
    value, scale = number.value * column.scale, column.scale
    if not math.isfinite(value):
        return "-", ""
    if number.low is None or number.high is None:
        return _format_fixed_or_plain(number.value, column), ""
    arms = sorted((number.high - number.value, number.value - number.low))
    if arms[1] > _LOPSIDED * max(arms[0], 0) and arms[1] > 1e-12 * abs(number.value):
        digits = _digits_for(number, column)
        low, high = (_format_fixed(end * scale, digits) for end in (number.low, number.high))
        return _format_fixed(value, digits), f"[{low}, {high}]"
    half = (number.high - number.low) / 2 * scale
    if column.digits is None:
        main, width = round_to_uncertainty(value, half)
    else:
        main, width = _format_fixed(value, column.digits), _format_fixed(half, column.digits)
    return main, f"{PLUS_MINUS} {width}"


def _digits_for(number: Quantity, column: Column) -> int:
    """Return how many digits after the point a number gets in its column.

    The column states them, or they follow from the interval's width.
    """
    if column.digits is not None:
        return column.digits
    if number.low is None or number.high is None:
        return 3
    shown, _ = round_to_uncertainty(number.value * column.scale,
                                    (number.high - number.low) / 2 * column.scale)
    return len(shown.partition(".")[2])


def _format_fixed_or_plain(value: float, column: Column) -> str:
    scaled = float(value * column.scale)
    if column.digits is not None:
        return _format_fixed(scaled, column.digits)
    return f"{scaled:.0f}" if scaled.is_integer() else round_to_digits(scaled)


def _format_fixed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"

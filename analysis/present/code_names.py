"""Add the names of codes, such as the short ids of policies and scenarios, to texts of a report.

A code never stands without its name. `CodeNames` writes the name after the first use of a code in a
block of text. `name_codes` adds a note to a table. `is_code` tells codes from ids that are ordinary
words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from analysis.present.report import ReportFactor
from analysis.table import Table, natural_key

#: Ids that may be ordinary words or numbers of a text.
_WORD = re.compile(r"[a-z]+|[^A-Za-z]+")


def is_code(level: str, title: str) -> bool:
    """Return whether a level's id is a code that needs its title, rather than a word or a number.

    >>> [is_code(level, "a title") for level in ("X1", "X1-fast", "net-80ms", "near", "1.2")]
    [True, True, True, False, False]
    """
    return not _WORD.fullmatch(level) and title not in ("", level, level.replace("-", " "))


def code_names(factors: Iterable[ReportFactor]) -> dict[str, str]:
    """Return the names of levels whose ids are codes."""
    return {level: title for factor in factors for level, title in factor.levels.items()
            if is_code(level, title)}


def name_codes(table: Table, factors: Iterable[ReportFactor]) -> Table:
    """Return a table with a note on the names of its codes, unless its rows have them."""
    names = CodeNames(code_names(factors))
    names.collect_table(table)
    listed = "; ".join(f"{code} {name}" for code, name in names.list_collected())
    return replace(table, notes=(*table.notes, f"Names: {listed}.")) if listed else table


@dataclass
class CodeNames:
    """Names of the codes in a block of text, such as the first screen or a card.

    In a sentence, `insert_names` writes the name after the first use of a code, and removes it
    after further uses. Where texts have many codes, `collect_codes` notes them. `list_collected`
    returns them with their names for a line below.

    `names` are those of codes. `words` are names of ids that may be ordinary words. These are only
    removed, where they stand in brackets after a further use of their id.
    """

    names: Mapping[str, str]
    words: Mapping[str, str] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _collected: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _code_pattern(self) -> re.Pattern[str]:
        """Return a pattern of an id, and of its name in brackets if that follows."""
        ids = [rf"{re.escape(name)}(?: \({re.escape(title)}\)|(?![\w+-]))"
               for name, title in self.names.items()]
        ids += [rf"{re.escape(name)} \({re.escape(title)}\)" for name, title in self.words.items()]
        return re.compile(rf"(?<![\w.+-])(?:{'|'.join(ids)})" if ids else r"(?!)")

    def begin_block(self) -> str:
        """Forget which names the reader has seen. Return an empty text, for templates."""
        self._known, self._collected = set(), {}
        return ""

    def introduce_code(self, code: str) -> str:
        """Note that the name of a code is shown. Return an empty text, for templates."""
        self._known.add(code)
        return ""

    def collect_table(self, table: Table) -> None:
        """Begin a block, and note the codes of a table whose names no row has."""
        self.begin_block()
        for row in table.rows:
            texts = {entry.text for entry in row}
            self._known |= {code for code in texts if self.names.get(code) in texts}
        headings = [text for column in table.columns for text in (column.group, column.title)]
        for text in (*headings, *(title for _, title in table.sections),
                     *(entry.text for row in table.rows for entry in row)):
            self.collect_codes(text)

    def insert_names(self, text: str) -> str:
        """Return a text with the name of each code after its first use in the block only."""
        return self._code_pattern.sub(lambda match: self._name_code(match, text), text)

    def collect_codes(self, text: str) -> str:
        """Note the codes of a text that the block has not named yet, and return the text."""
        for found in self._code_pattern.finditer(text):
            code = _id_of(found)
            if code not in self._known:
                self._known.add(code)
                if not self._is_named(found, text):
                    self._collected[code] = self.names[code]
        return text

    def list_collected(self) -> list[tuple[str, str]]:
        """Return the codes of levels that `collect_codes` has noted, with names, and forget them.

        Each code, such as the short one of a policy, is in the result once.
        """
        collected, self._collected = self._collected, {}
        return sorted(collected.items(), key=lambda pair: natural_key(pair[0]))

    def _name_code(self, match: re.Match[str], text: str) -> str:
        code = _id_of(match)
        if code in self._known:
            return code
        self._known.add(code)
        return match[0] if self._is_named(match, text) else f"{code} ({self.names[code]})"

    def _is_named(self, match: re.Match[str], text: str) -> bool:
        """Return whether the name stands behind a code, in brackets or in another form."""
        code = _id_of(match)
        return match[0] != code or text[match.end():].lstrip(" (:,").startswith(self.names[code])


def _id_of(match: re.Match[str]) -> str:
    return match[0].partition(" (")[0]

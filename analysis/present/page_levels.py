"""Find which policies or scenarios the rows, headings and curves of an HTML report are about.

A reader of the report can filter it, for example by policy. A level is one value of a varied
property (factor), such as one policy. `PageLevels` finds the levels in the text of a table's row or
column, a heading or a curve.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from analysis.present.figures import STYLES, style_at
from analysis.present.policy_colours import assign_styles
from analysis.present.report import ReportFactor
from analysis.table import Entry, Table

#: Name of a level among the factors of the page: index of the factor, and of the level in it.
LevelKey = str
#: Factor whose levels have one colour in all reports.
_POLICY = "policy"
#: Origins in the names of curves, which are no part of the level's name.
_ORIGINS = re.compile(r",? ?(?:published|modelled)(?: \d{4})?$")


def curve_key(name: str) -> str:
    """Return the name of a curve without its origin.

    >>> curve_key("PKTAPP, modelled")
    'PKTAPP'
    """
    return _ORIGINS.sub("", name)


@dataclass(frozen=True)
class PageLevels:
    """The levels of a page's factors, found by their ids and titles."""

    factors: Sequence[ReportFactor]

    @cached_property
    def _by_factor(self) -> dict[tuple[str, str], LevelKey]:
        return {(factor.name, level): f"{at}.{number}" for at, factor in enumerate(self.factors)
                for number, level in enumerate(factor.levels)}

    @cached_property
    def _colour_indexes(self) -> dict[LevelKey, int]:
        """Return the style of each policy, and of each level of the other compared factors."""
        styles = assign_styles(level for factor in self.factors if factor.name == _POLICY
                               for level in factor.levels)
        used = {style % len(STYLES) for style in styles.values()}
        free = [position for position in range(len(STYLES)) if position not in used]
        others = [self._by_factor[factor.name, level] for factor in self.factors
                  if factor.is_compared and factor.name != _POLICY for level in factor.levels]
        numbers = free if len(free) >= len(others) else range(len(others))
        return {**{self._by_factor[_POLICY, level]: style for level, style in styles.items()},
                **dict(zip(others, numbers, strict=False))}

    @cached_property
    def _compared_keys(self) -> frozenset[LevelKey]:
        return frozenset(self._by_factor[factor.name, level] for factor in self.factors
                         if factor.is_compared for level in factor.levels)

    @cached_property
    def _by_text(self) -> dict[str, LevelKey]:
        return dict(self._unique_texts())

    def _unique_texts(self) -> Iterator[tuple[str, LevelKey]]:
        """Yield each id or title that names exactly one level, with the key of this level."""
        texts: dict[str, set[LevelKey]] = {}
        for factor in self.factors:
            for level, title in factor.levels.items():
                for text in filter(None, (level, title)):
                    texts.setdefault(text, set()).add(self._by_factor[factor.name, level])
        yield from ((text, keys.pop()) for text, keys in texts.items() if len(keys) == 1)

    def find_in_name(self, name: str) -> list[LevelKey]:
        """Return the levels in the name of a curve or column.

        Its parts are between commas.
        """
        name = curve_key(name)
        whole = self._by_text.get(name)
        found = [whole] if whole else [self._by_text.get(part) for part in name.split(", ")]
        return [key for key in found if key]

    def find_in_heading(self, heading: str) -> list[LevelKey]:
        """Return the levels in a heading, such as "Factor LEVEL: its title"."""
        found = []
        for part in heading.split(", "):
            head = part.partition(":")[0].strip()
            key = self._by_text.get(head)
            for factor in self.factors:
                if head.lower().startswith(f"{factor.title.lower()} "):
                    key = self._by_factor.get((factor.name, head[len(factor.title) + 1:]), key)
            if key:
                found.append(key)
        return found

    def find_in_row(self, table: Table, row: Sequence[Entry]) -> list[LevelKey]:
        """Return the levels of a row: by the columns named like factors, or by its first text."""
        found = [key for entry, column in zip(row, table.columns, strict=True)
                 if (key := self._by_factor.get((column.key, entry.text)))]
        first = self._by_text.get(row[0].text)
        if first and not found:
            found.append(first)
        return found

    def colour_index(self, name: str) -> int | None:
        """Return the style of the compared level that a text names, or else of the policy.

        The result is None if the text names no level with a style, or several such levels.
        """
        known = [key for key in self.find_in_name(name) if key in self._colour_indexes]
        found = [key for key in known if key in self._compared_keys] or known
        return self._colour_indexes[found[0]] if len(found) == 1 else None

    def _find_colour(self, level: str) -> str | None:
        index = self.colour_index(level)
        return None if index is None else style_at(index)[0].removeprefix("@")

    def to_filter_data(self) -> list[dict[str, Any]]:
        """Return the factors that have something to choose from, for the page's script."""
        return [{"name": factor.name, "title": factor.title, "at": at,
                 "levels": [{"key": self._by_factor[factor.name, level], "id": level,
                             "title": title if title != level else "",
                             "colour": self._find_colour(level) if factor.is_compared else None}
                            for level, title in factor.levels.items()]}
                for at, factor in enumerate(self.factors) if len(factor.levels) > 1]

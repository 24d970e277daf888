"""Places of a document's values: the file and the line of each value.

Lines are looked up only when a message needs one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

#: Keys that lead to a value, from the top of a document.
Keys = tuple[str | int, ...]


@dataclass(frozen=True)
class YamlPlace:
    """A place in a document. Its text, `FILE:LINE: NAME`, is computed when a message needs it."""

    source: YamlSource
    keys: Keys
    name: str | None = None

    def __str__(self) -> str:
        return self.source.format_place(self.keys, self.name)


class YamlSource:
    """A document's file, or a text that says where the document comes from.

    `place_part` marks parts that were read from another document. For example, a scenario has
    its network from another file, and changes the channels of some of its nodes.
    """

    def __init__(self, file: Path | str) -> None:
        self.file = file
        self._parts: dict[Keys, tuple[YamlSource, Keys]] = {}

    @staticmethod
    def to_source(source: YamlSource | Path | str) -> YamlSource:
        """Return a source for a file or a text, or the given source."""
        return source if isinstance(source, YamlSource) else YamlSource(source)

    def within(self, *keys: str | int) -> YamlSource:
        """Return a source for the part of this document at some keys."""
        part = YamlSource(self.file)
        part.place_part((), self, keys)
        return part

    def copy(self) -> YamlSource:
        """Return a copy that later notes to this source do not change."""
        other = YamlSource(self.file)
        other._parts.update(self._parts)
        return other

    def place_part(self, keys: Keys, other: YamlSource, other_keys: Keys) -> None:
        """Note that the value at some keys is in another document, or elsewhere in this one."""
        self._parts[keys] = (other, other_keys)

    def at(self, *keys: str | int, name: str | None = None) -> YamlPlace:
        """Return the place of the value at some keys. Its name is the keys by default."""
        return YamlPlace(self, keys, name)

    def format_place(self, keys: Keys, name: str | None = None) -> str:
        """Return `FILE:LINE: NAME` for the value at some keys."""
        for length in range(len(keys), -1, -1):
            if part := self._parts.get(keys[:length]):
                other, there = part
                return other.format_place((*there, *keys[length:]), name)
        shown = ".".join(map(str, keys)) if name is None else name
        shown = "".join(sign if sign.isprintable() else "?" for sign in shown)
        line = next((self._lines[keys[:length]] for length in range(len(keys), -1, -1)
                     if keys[:length] in self._lines), None)
        place = str(self.file) if line is None else f"{self.file}:{line}"
        return f"{place}: {shown}" if shown else place

    @cached_property
    def _lines(self) -> dict[Keys, int]:
        if not isinstance(self.file, Path):
            return {}
        import yaml

        try:
            root = yaml.compose(self.file.read_text(encoding="utf-8"), yaml.SafeLoader)
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
            return {}
        lines: dict[Keys, int] = {(): 1}
        _add_lines(root, (), lines, set())
        return lines


def _add_lines(node: Any, keys: Keys, lines: dict[Keys, int], visited: set[int]) -> None:
    """Add the lines of all values below a YAML node. An aliased node is added only once."""
    if id(node) in visited:
        return
    visited.add(id(node))
    if getattr(node, "id", "") == "mapping":
        for key, value in node.value:
            # Of a duplicate key, YAML uses the last value.
            lines[(*keys, str(key.value))] = key.start_mark.line + 1
            _add_lines(value, (*keys, str(key.value)), lines, visited)
    elif getattr(node, "id", "") == "sequence":
        for number, value in enumerate(node.value):
            lines[(*keys, number)] = value.start_mark.line + 1
            _add_lines(value, (*keys, number), lines, visited)

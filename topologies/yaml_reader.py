"""Read YAML files into dataclasses, strictly, with the line number of each mistake.

The files describe networks, scenarios, radio media and devices. `load_file` takes a class and a
path, and returns an object of the class. A file may have known fields only, with values of their
types. A mistake raises `TopologyError` with one line for the user. `YamlSource` finds the line of a
value for such messages.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from documents import refusals, unquoted
from documents.yaml_reader import (
    KeyPath,
    SourceLines,
    YamlProblem,
    YamlRules,
    parse_yaml,
    read_text,
)
from topologies.errors import TopologyError
from topologies.model import from_json

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


# --- Places of values: file, line and name ---
# Lines are looked up only when a message needs one.

@dataclass(frozen=True)
class YamlPlace:
    """The place of a value in a YAML file, for messages.

    Its text, `FILE:LINE: NAME`, is computed when a message needs it.
    """

    source: YamlSource
    keys: KeyPath
    name: str | None = None

    def __str__(self) -> str:
        return self.source.format_place(self.keys, self.name)


class YamlSource:
    """The file of a YAML document, or a text that says where the document comes from.

    `place_part` marks parts that were read from another document. For example, a scenario has its
    network from another file, and changes the channels of some of its nodes.
    """

    def __init__(self, file: Path | str) -> None:
        self.file = file
        self._parts: dict[KeyPath, tuple[YamlSource, KeyPath]] = {}

    @staticmethod
    def to_source(source: YamlSource | Path | str) -> YamlSource:
        """Return a source for a file or a text, or the given source."""
        return source if isinstance(source, YamlSource) else YamlSource(source)

    def part_at(self, *keys: str | int) -> YamlSource:
        """Return a source for a part of this YAML document, given by its keys."""
        part = YamlSource(self.file)
        part.place_part((), self, keys)
        return part

    def make_copy(self) -> YamlSource:
        """Return a copy, which does not change when places are added to this source."""
        other = YamlSource(self.file)
        other._parts.update(self._parts)
        return other

    def place_part(self, keys: KeyPath, other: YamlSource, other_keys: KeyPath) -> None:
        """Note that a value comes from another YAML document, or from elsewhere in this one."""
        self._parts[keys] = (other, other_keys)

    def at(self, *keys: str | int, name: str | None = None) -> YamlPlace:
        """Return the place of a value, given by its keys. Its name is the keys by default."""
        return YamlPlace(self, keys, name)

    def format_place(self, keys: KeyPath, name: str | None = None) -> str:
        """Return `FILE:LINE: NAME` for a value, given by its keys."""
        if part := self._find_part(keys):
            other, there = part
            return other.format_place(there, name)
        shown = ".".join(map(str, keys)) if name is None else name
        shown = "".join(sign if sign.isprintable() else "?" for sign in shown)
        spots = self._value_spots
        line = next((spots[keys[:length]].key_line for length in range(len(keys), -1, -1)
                     if keys[:length] in spots), None)
        place = str(self.file) if line is None else f"{self.file}:{line}"
        return f"{place}: {shown}" if shown else place

    def find_spot(self, keys: KeyPath) -> SourceLines | None:
        """Return lines and spelling of a value by its keys, None if no file has the value."""
        if part := self._find_part(keys):
            other, there = part
            return other.find_spot(there)
        return self._value_spots.get(keys)

    def _find_part(self, keys: KeyPath) -> tuple[YamlSource, KeyPath] | None:
        """Return the source of a value from another YAML document, and its keys there."""
        for length in range(len(keys), -1, -1):
            if part := self._parts.get(keys[:length]):
                other, there = part
                return other, (*there, *keys[length:])
        return None

    @cached_property
    def _value_spots(self) -> dict[KeyPath, SourceLines]:
        if not isinstance(self.file, Path):
            return {}
        try:
            document = parse_yaml(str(self.file), self.file.read_text(encoding="utf-8"), _RULES)
        except (OSError, ValueError, YamlProblem):
            return {}
        return document.spots


# --- Reading and checking of files ---

ROOT = Path(__file__).parent
_RULES = YamlRules("topology", manual="docs/topologies.md", has_aliases=True,
                   empty="see topologies/ for examples")
#: Unicode categories of invisible characters that change the text around them.
_CONTROLS = frozenset(("Cc", "Cf", "Cs"))


def builtin_names(folder: str) -> list[str]:
    """Return the names of the YAML files in a folder that comes with qop, sorted."""
    return sorted(path.stem for path in (ROOT / folder).glob("*.yml"))


def resolve_path(name: str, folder: str, base_folder: Path | None = None,
                 place: YamlSource | None = None) -> Path:
    """Return the file for a name or for a path that ends in `.yml`.

    Args:
        name: Name or path.
        folder: Folder of the project's own files of this kind.
        base_folder: Folder to which a path is relative.
        place: The place of the name, for messages.

    Raises:
        TopologyError: There is no such file.
    """
    if name.endswith((".yml", ".yaml")):
        path = base_folder / name if base_folder else Path(name)
        if place and not path.exists():
            raise TopologyError(f"{place.at()}: {path}: no such file; check the name")
        return path
    if name not in builtin_names(folder):
        where = f"{place.at()}: " if place else ""
        raise TopologyError(f"{where}{name}: no such file in topologies/{folder}; "
                            f"choose one of {', '.join(builtin_names(folder))} or give a .yml file")
    return ROOT / folder / f"{name}.yml"


def read_mapping(path: Path, empty: str = _RULES.empty) -> dict[str, Any]:
    """Return the mapping in a YAML file. `empty` is advice for a file without one.

    Raises:
        TopologyError: The file cannot be used.
    """
    return _parse_mapping(path, _read_text(path), empty)


def load_file(cls: type[Any], path: Path, check: Callable[[Any, Path], None]) -> Any:
    """Load and check a YAML file that contains exactly one dataclass.

    A plan loads the same few files hundreds of times, so they are parsed again only after a change.

    Raises:
        TopologyError: The file cannot be used.
    """
    return _load_text(cls, path, _read_text(path), check)  # type: ignore[arg-type]  # has a hash


@lru_cache(maxsize=256)
def _load_text(cls: type[Any], path: Path, text: str, check: Callable[[Any, Path], None]) -> Any:
    value = validate_document(cls, _parse_mapping(path, text), path)
    check(value, path)
    return value


def _read_text(path: Path) -> str:
    try:
        return read_text(str(path), _RULES)
    except YamlProblem as problem:
        raise _to_error(path, problem) from None


def _parse_mapping(path: Path, text: str, empty: str = _RULES.empty) -> dict[str, Any]:
    try:
        return parse_yaml(str(path), text, replace(_RULES, empty=empty),
                          is_own=path.is_relative_to(ROOT)).data
    except YamlProblem as problem:
        raise _to_error(path, problem) from None


def _to_error(path: Path, problem: YamlProblem) -> TopologyError:
    return TopologyError(f"{problem.format_place(path)}: {problem.what}; {problem.advice}")


def validate_document(cls: type[Any], document: Any, source: YamlSource | Path | str) -> Any:
    """Build a dataclass from YAML data that must match its fields exactly.

    Raises:
        TopologyError: The document does not match.
    """
    place = YamlSource.to_source(source)
    try:
        from pydantic import ValidationError
    except ImportError:
        # The scripts in examples/ run on machines without pydantic; the project's own files are
        # valid.
        if isinstance(place.file, Path) and place.file.is_relative_to(ROOT):
            return from_json(cls, document)
        raise TopologyError(f"{place.file}: no file of your own can be checked without pydantic 2; "
                            "install it") from None
    _refuse_other_values(document, (), place)

    def validate_json(values: Any) -> Any:
        text = json.dumps(values, allow_nan=False)
        return _make_adapter(cls).validate_json(text)  # type: ignore[arg-type]  # as in load

    try:
        return unquoted.validate_values(validate_json, document, place.find_spot)
    except ValidationError as error:
        # A misspelt field explains why another one is missing.
        first = min(error.errors(), key=lambda one: one["type"] != "unexpected_keyword_argument")
        raise TopologyError(_describe_refusal(cls, first, place)) from None


def _describe_refusal(cls: type[Any], error: ErrorDetails, place: YamlSource) -> str:
    """Return the error line for a value in a YAML file that pydantic refuses."""
    keys = refusals.value_path(error)
    if error["type"] == "value_error":  # raised by __post_init__, which names the field first
        description = refusals.describe_refused_value(error)
        field = description.split(" ")[0].strip(",:")
        at = place.at(*keys, *([field] if field in refusals.fields_at(cls, keys) else []), name="")
        return f"{at}: {description}; see docs/topologies.md for the fields"
    what, advice = refusals.describe_value(error, place.find_spot(keys),
                                           refusals.fields_at(cls, keys[:-1]))
    return (f"{place.at(*keys)}: {what}; {advice or 'correct it'} "
            "(see docs/topologies.md for the fields)")


def _refuse_other_values(value: Any, keys: tuple[str | int, ...], place: YamlSource) -> None:
    """Refuse YAML values that no field can have: control characters and infinite numbers."""
    if isinstance(value, dict):
        for key, entry in value.items():
            _refuse_controls(key, place.at(*keys))
            _refuse_other_values(entry, (*keys, key), place)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            _refuse_other_values(entry, (*keys, number), place)
    elif isinstance(value, str):
        _refuse_controls(value, place.at(*keys))
    elif isinstance(value, float) and not math.isfinite(value):
        raise TopologyError(f"{place.at(*keys)}: {value} is not a finite number; write a number")


def _refuse_controls(text: str, at: object) -> None:
    """Raise TopologyError for text with invisible or control characters."""
    if any(unicodedata.category(letter) in _CONTROLS and letter != "\n" for letter in text):
        raise TopologyError(f"{at}: {ascii(text)[:80]} holds a control character; write plain text")


@cache
def _make_adapter(cls: type[Any]) -> Any:
    """Return the pydantic validator of a dataclass. Creating one takes longer than using it."""
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


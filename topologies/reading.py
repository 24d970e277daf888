"""Read a YAML file into a dataclass, strictly: its fields are known and its types fit."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from topologies import wording
from topologies.errors import TopologyError
from topologies.model import from_json
from topologies.numbers import MisreadNumber, PlainNumberLoader
from topologies.source import YamlSource

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

ROOT = Path(__file__).parent
#: libyaml's loader where it is installed, ten times as fast. It does not limit the depth of a
#: document and its messages lack the user's terms, so it reads the project's own files only.
_QUICK: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class StrictLoader(PlainNumberLoader):  # type: ignore[misc,unused-ignore]
    """A YAML loader that refuses what YAML would misread or silently drop.

    These are duplicate keys, and numbers such as 010 (8), 0x10 (16) and 1:30 (90).
    """

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        """Refuse duplicate keys."""
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, key in enumerate(keys):
            if key.value in [before.value for before in keys[:number]]:
                raise yaml.MarkedYAMLError(problem=f"{key.value} is there twice",
                                            problem_mark=key.start_mark)
        return super().construct_mapping(node, deep)  # type: ignore[no-untyped-call,unused-ignore]


#: Unicode categories of invisible characters that change the text around them.
_CONTROLS = frozenset(("Cc", "Cf", "Cs"))


def builtin_names(folder: str) -> list[str]:
    """Return the names of the files in a folder that comes with the project, sorted."""
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


def read_mapping(path: Path, advice: str = "see topologies/ for examples") -> dict[str, Any]:
    """Return the mapping in a YAML file. `advice` is for a file without one.

    Raises:
        TopologyError: The file cannot be used.
    """
    return _parse_mapping(path, _read_text(path), advice)


def load_file(cls: type[Any], path: Path, check: Callable[[Any, Path], None]) -> Any:
    """Load and check a dataclass from a file that contains nothing else.

    A plan loads the same few files hundreds of times, so they are parsed again only after a
    change.

    Raises:
        TopologyError: The file cannot be used.
    """
    return _load_text(cls, path, _read_text(path), check)  # type: ignore[arg-type]  # classes have a hash


@lru_cache(maxsize=256)
def _load_text(cls: type[Any], path: Path, text: str, check: Callable[[Any, Path], None]) -> Any:
    value = validate_document(cls, _parse_mapping(path, text), path)
    check(value, path)
    return value


def _read_text(path: Path) -> str:
    try:
        octets = path.read_bytes()
    except FileNotFoundError:
        raise TopologyError(f"{path}: no such file; check the name") from None
    except IsADirectoryError:
        raise TopologyError(f"{path}: cannot be read (it is a folder); give a YAML file") from None
    except OSError as error:
        raise TopologyError(f"{path}: cannot be read ({error.strerror}); give a YAML file") \
            from None
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError as error:
        line = octets.count(b"\n", 0, error.start) + 1
        raise TopologyError(f"{path}:{line}: cannot be read (it is not UTF-8 text); save the file "
                            "as UTF-8") from None


def _parse_mapping(path: Path, text: str,
                   advice: str = "see topologies/ for examples") -> dict[str, Any]:
    loader = _QUICK if path.is_relative_to(ROOT) else StrictLoader
    try:
        document = yaml.load(text, loader)  # noqa: S506 - both are safe
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        if isinstance(error, MisreadNumber):
            raise TopologyError(f"{path}:{line}: {error.problem}; {error.note}") from None
        raise TopologyError(f"{path}:{line}: not YAML ({error.problem}); correct that line") \
            from None
    except RecursionError:
        raise TopologyError(f"{path}: not YAML (it is nested too deeply); correct the file") \
            from None
    except (yaml.YAMLError, ValueError) as error:
        raise TopologyError(f"{path}: not YAML ({_one_line(error)}); correct the file") from None
    if not isinstance(document, dict):
        raise TopologyError(f"{path}:1: holds no mapping; {advice}")
    return document


def validate_document(cls: type[Any], document: Any, source: YamlSource | Path | str) -> Any:
    """Build a dataclass from a document that must match exactly.

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
    try:
        _refuse_other_values(document, (), place)
        text = json.dumps(document, allow_nan=False)
    except RecursionError:
        raise TopologyError(f"{place.at()}: an alias contains itself; write the values out") \
            from None
    try:
        return _make_adapter(cls).validate_json(text)  # type: ignore[arg-type]  # as in load
    except ValidationError as error:
        # A misspelt field explains why another one is missing.
        first = min(error.errors(), key=lambda one: one["type"] != "unexpected_keyword_argument")
        raise TopologyError(_describe_refusal(cls, first, place)) from None


def _describe_refusal(cls: type[Any], error: ErrorDetails, place: YamlSource) -> str:
    """Return the line for a value that pydantic refuses."""
    keys = tuple(part for part in error["loc"] if part != "[key]")
    said = wording.describe_error(error)
    if error["type"] == "value_error":  # raised by __post_init__, which names the field first
        field = said.split(" ")[0].strip(",:")
        at = place.at(*keys, *([field] if field in _fields_at(cls, keys) else []), name="")
        return f"{at}: {said}; see docs/topologies.md for the fields"
    has_value = error["type"] not in ("unexpected_keyword_argument", "missing")
    what = f"{wording.show_value(error.get('input')) if has_value else ''} {said}".strip()
    known = _fields_at(cls, keys[:-1])
    return (f"{place.at(*keys)}: {what}; {wording.advise_fix(error, known) or 'correct it'} "
            "(see docs/topologies.md for the fields)")


def _fields_at(cls: Any, keys: Sequence[str | int]) -> list[str]:
    """Return the fields of the dataclass at some keys. There are none if another type is there."""
    for key in keys:
        options = [option for option in (typing.get_args(cls) or (cls,))
                   if option is not type(None)] if typing.get_origin(cls) is types.UnionType \
            else [cls]
        cls = options[0]
        if dataclasses.is_dataclass(cls):
            cls = typing.get_type_hints(cls).get(str(key))
        else:
            cls = (typing.get_args(cls) or (None,))[-1]
    if typing.get_origin(cls) is types.UnionType:
        cls = typing.get_args(cls)[0]
    if not dataclasses.is_dataclass(cls):
        return []
    return [field.name for field in dataclasses.fields(cls)]


def _refuse_other_values(value: Any, keys: tuple[str | int, ...], place: YamlSource) -> None:
    """Refuse YAML values that no field can have: dates, infinite numbers, other keys."""
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise TopologyError(f"{place.at(*keys, str(key))}: {key} is no text; "
                                    "write the name in quotes")
            _refuse_controls(key, place.at(*keys))
            _refuse_other_values(entry, (*keys, key), place)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            _refuse_other_values(entry, (*keys, number), place)
    elif isinstance(value, str):
        _refuse_controls(value, place.at(*keys))
    elif isinstance(value, float) and not math.isfinite(value):
        raise TopologyError(f"{place.at(*keys)}: {value} is not a finite number; write a number")
    elif not isinstance(value, int | float | None):
        raise TopologyError(f"{place.at(*keys)}: {_one_line(value)} is not plain text; write plain "
                            "text and numbers, and dates in quotes")


def _refuse_controls(text: str, at: object) -> None:
    """Raise TopologyError for text with invisible or control characters."""
    if any(unicodedata.category(letter) in _CONTROLS and letter != "\n" for letter in text):
        raise TopologyError(f"{at}: {ascii(text)[:80]} holds a control character; write plain text")


@cache
def _make_adapter(cls: type[Any]) -> Any:
    """Return the validator of a dataclass. Creating one takes longer than using it."""
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def _one_line(message: object) -> str:
    return " ".join(str(message).split())[:200]

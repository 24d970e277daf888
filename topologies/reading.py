"""A YAML file becomes a dataclass, strictly: its fields are known and its types fit."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from topologies.checks import TopologyError
from topologies.model import from_json

ROOT = Path(__file__).parent
#: In C where it is installed, ten times as quick. It has no limit to how deep a document may be,
#: nor the words that users know, so that it reads the project's own files alone.
_QUICK: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: Kinds of letters that show nothing and change what is around them.
_CONTROLS = frozenset(("Cc", "Cf", "Cs"))


def names(folder: str) -> list[str]:
    """Names of the files of a folder that comes with the project, sorted."""
    return sorted(path.stem for path in (ROOT / folder).glob("*.yml"))


def resolve(name: str, folder: str, beside: Path | None = None) -> Path:
    """The file that a name or a path ending in `.yml` stands for; paths start at `beside`."""
    if name.endswith((".yml", ".yaml")):
        return beside / name if beside else Path(name)
    if name not in names(folder):
        raise TopologyError(f"{name}: no such file in topologies/{folder}; "
                            f"choose one of {', '.join(names(folder))} or give a .yml file")
    return ROOT / folder / f"{name}.yml"


def read(path: Path, advice: str = "see topologies/ for examples") -> dict[str, Any]:
    """The mapping that a YAML file holds; `advice` is for one that holds none.

    Raises TopologyError.
    """
    return _mapping(path, _text(path), advice)


def load(cls: type[Any], path: Path, check: Callable[[Any, Path], None]) -> Any:
    """A dataclass of a file that holds nothing else, checked; raises TopologyError.

    A plan asks for the same few files hundreds of times: they are parsed again once they change.
    """
    return _loaded(cls, path, _text(path), check)  # type: ignore[arg-type]  # classes have a hash


@lru_cache(maxsize=256)
def _loaded(cls: type[Any], path: Path, text: str, check: Callable[[Any, Path], None]) -> Any:
    value = validate(cls, _mapping(path, text), path)
    check(value, path)
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TopologyError(f"{path}: no such file; check the name") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TopologyError(f"{path}: cannot be read ({error}); give a YAML file") from None


def _mapping(path: Path, text: str, advice: str = "see topologies/ for examples") -> dict[str, Any]:
    loader = _QUICK if path.is_relative_to(ROOT) else yaml.SafeLoader
    try:
        document = yaml.load(text, loader)  # noqa: S506 - both are safe
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise TopologyError(f"{path}:{line}: not YAML ({error.problem}); correct that line") \
            from None
    except (yaml.YAMLError, RecursionError) as error:
        raise TopologyError(f"{path}: not YAML ({_one_line(error)}); correct the file") from None
    if not isinstance(document, dict):
        raise TopologyError(f"{path}: holds no mapping; {advice}")
    return document


def validate(cls: type[Any], document: Any, path: Path) -> Any:
    """A dataclass of a document, which must fit it to the letter. Raises TopologyError."""
    try:
        from pydantic import ValidationError
    except ImportError:
        # The scripts in examples/ run on machines without it; the project's own files are valid.
        if path.is_relative_to(ROOT):
            return from_json(cls, document)
        raise TopologyError(f"{path}: no file of your own can be checked without pydantic 2; "
                            "install it") from None
    try:
        text = json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TopologyError(f"{path}: {_one_line(error)}; write plain text and numbers, and dates "
                            "in quotes") from None
    _refuse_controls(document, path)
    try:
        return _adapter(cls).validate_json(text)  # type: ignore[arg-type]  # as in load
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "top level"
        raise TopologyError(f"{path}: {_one_line(f'{where}: ' + first['msg'])}; "
                            "see docs/topologies.md for the fields") from None


def _refuse_controls(document: Any, path: Path) -> None:
    """Raise TopologyError for text that would steer a terminal or a reader's eye."""
    left: list[tuple[str, Any]] = [("", document)]
    while left:
        where, value = left.pop()
        if isinstance(value, str) and any(
                unicodedata.category(letter) in _CONTROLS and letter != "\n" for letter in value):
            raise TopologyError(f"{path}: {where or 'top level'}: {ascii(value)[:80]} holds a "
                                "control character; write plain text")
        pairs = value.items() if isinstance(value, dict) else \
            enumerate(value) if isinstance(value, list) else ()
        left += [(f"{where}.{ascii(key)[1:-1] if isinstance(key, str) else key}".lstrip("."), entry)
                 for key, entry in pairs]
        left += [(where, key) for key in (value if isinstance(value, dict) else ())]


@cache
def _adapter(cls: type[Any]) -> Any:
    """What validates a dataclass; making it takes longer than to use it."""
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def _one_line(message: object) -> str:
    return " ".join(str(message).split())[:200]

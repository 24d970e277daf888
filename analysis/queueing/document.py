"""Strict reader of a small YAML file that records the line of each value.

Before any value is built, the reader rejects anchors, aliases, tags, further documents, duplicate
keys and deep nesting. It also rejects numbers that YAML reads differently from their appearance
(`010`, `1:30`, `1e-3`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from analysis.queueing.errors import QueueingError
from topologies.numbers import explain_number

SIZE_LIMIT = 256 * 1024  # bytes
DEPTH_LIMIT = 10  # nested blocks; a model has 7

_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?")

KeyPath = tuple[str | int, ...]


def read_document(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Return the file's values, and the line of each by its path of keys.

    Raises:
        QueueingError: The file cannot be read, or is not a valid document.
    """
    file = os.fspath(path)
    text = _read_text(file)
    try:
        _check_events(file, text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except QueueingError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise QueueingError(f"{file}:{line}", f"is not valid YAML ({error.problem})",
                            "check indentation, quotes and colons") from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise QueueingError(f"{file}:1", "is not valid YAML", "save it as plain text") from None
    if not isinstance(root, yaml.MappingNode):
        raise QueueingError(f"{file}:1", "is not a block of keys", "write stations: and chains:")
    lines: dict[KeyPath, int] = {(): 1}
    _record_lines(file, root, (), lines)
    try:
        values: dict[str, Any] = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, OverflowError):
        raise QueueingError(f"{file}:1", "holds a value that YAML cannot make sense of",
                            "write plain words and numbers") from None
    return values, lines


def _read_text(file: str) -> str:
    path = Path(file)
    try:
        if not path.is_file():
            what = "is not an ordinary file" if path.exists() else "there is no such file"
            raise QueueingError(file, what, "check the path")
        if path.stat().st_size > SIZE_LIMIT:
            raise QueueingError(file, f"has more than {SIZE_LIMIT} bytes", "name a model file")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise QueueingError(file, "is not UTF-8 text", "save it as UTF-8") from None
    except OSError as error:
        raise QueueingError(file, f"cannot be read ({(error.strerror or '').lower()})",
                            "check path and permissions") from None


def _check_events(file: str, text: str) -> None:
    """Reject dangerous or misleading YAML before it is built."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        where = f"{file}:{event.start_mark.line + 1 if event.start_mark else 1}"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise QueueingError(where, "anchors and aliases are not used", "write it out")
        if getattr(event, "tag", None):
            raise QueueingError(where, "tags are not used", "leave it out")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise QueueingError(where, "a second document begins", "write one model a file")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_LIMIT:
            raise QueueingError(where, f"nested deeper than {DEPTH_LIMIT} levels",
                                "see docs/queueing.md")


def _record_lines(file: str, node: Any, path: KeyPath, lines: dict[KeyPath, int]) -> None:
    """Record the line of each value in `lines`.

    The depth of the document is limited already.
    """
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise QueueingError(f"{file}:{line}", "a block stands where a key belongs",
                                    "write a word")
            inner = (*path, key.value)
            if inner in lines:
                raise QueueingError(f"{file}:{line}", f"{key.value!r} was given on line "
                                    f"{lines[inner]}", "keep one of them")
            lines[inner] = line
            _record_lines(file, value, inner, lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            lines[(*path, number)] = value.start_mark.line + 1
            _record_lines(file, value, (*path, number), lines)
    elif isinstance(node, yaml.ScalarNode):
        problem = explain_number(node) or _explain_text(node)
        if problem is not None:
            name = ".".join(map(str, path))
            raise QueueingError(f"{file}:{node.start_mark.line + 1}", f"{name}: {problem[0]}",
                                problem[1])


def _explain_text(node: Any) -> tuple[str, str] | None:
    """Return the fault of a number that YAML takes for text, and the correct spelling."""
    text = node.value
    if node.style is not None or not node.tag.endswith(":str") or not _NUMBER.fullmatch(text):
        return None
    number = float(text.replace("_", ""))
    if "e" in text.lower():
        return (f"YAML reads {text[:40]} as text, for want of a point or of the exponent's sign",
                f"write {_format_number(number)}")
    return (f"YAML reads {text[:40]} as text, for its leading zero",
            f"write {_format_number(number)}")


def _format_number(number: float) -> str:
    """Return a number in a form that YAML reads as a number."""
    if number == int(number) and abs(number) < 1e15:
        return str(int(number))
    if "e" not in repr(number):
        return repr(number)
    digits, _, exponent = repr(number).partition("e")
    return f"{digits if '.' in digits else digits + '.0'}e{int(exponent):+d}"

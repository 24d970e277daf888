"""Read one strict YAML file into plain values, with the line number of each value.

Stricter than YAML: no anchors, aliases, tags or second documents, no duplicate keys and no deep
nesting. Numbers that YAML 1.1 would misread are refused, too (``0x10``, ``010``, ``10:30``,
``1.5``, dates). Values are str, int, bool, None, dict and list, nothing else.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from policies.errors import PolicyError, show_value

SIZE_LIMIT = 64 * 1024  # bytes; qop's largest policy has under 1 KiB
DEPTH_LIMIT = 8  # nested blocks; a policy has 5

_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_HALF = re.compile("[\ud800-\udfff]")  # half a UTF-16 surrogate pair, from an escape
_TAG = "tag:yaml.org,2002:"
_AS_TEXT = {_TAG + "str", _TAG + "merge", _TAG + "value"}

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Spot:
    """The lines of a key and its value, and the text of a scalar value.

    Lines count from 1.
    """

    key_line: int
    line: int
    text: str = ""


@dataclass
class Document:
    """The values of a file with the spot of each, by its path of keys."""

    file: str
    data: dict[str, Any] = field(default_factory=dict)
    spots: dict[KeyPath, Spot] = field(default_factory=dict)

    def make_error(self, line: int, what: str, advice: str) -> PolicyError:
        """Return an error in this file."""
        return PolicyError(self.file, line, what, advice)


class _Refusal(yaml.MarkedYAMLError):  # type: ignore[misc,unused-ignore]
    """An error for valid YAML that is not accepted. ``note`` contains the advice."""


class _StrictComposer(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
    """PyYAML's composer, which refuses each unwanted node before it is built."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call,unused-ignore]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _make_refusal(event, "anchors and aliases (& and *) are not used", "write it out")
        if event.tag is not None:
            raise _make_refusal(event, f"the tag {show_value(event.tag)} is not used",
                                "leave it out")
        if self._depth == DEPTH_LIMIT:
            raise _make_refusal(
                event, f"nested deeper than {DEPTH_LIMIT} levels", "see docs/policies.md"
            )
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _make_refusal(where: Any, what: str, advice: str) -> _Refusal:
    return _Refusal(problem=what, problem_mark=where.start_mark, note=advice)


def file_problem(file: str) -> tuple[str, str] | None:
    """Return why ``file`` cannot be a policy, without opening it: what is wrong, what to do.

    None if it can be one.
    """
    try:
        status = os.stat(file)  # noqa: PTH116 - as the loader, on plain names
    except (FileNotFoundError, NotADirectoryError):
        return "there is no such file", "check the path"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        return f"cannot be opened ({_error_text(error)})", "check the path"
    if stat.S_ISDIR(status.st_mode):
        return "is a folder", "name a policy file in it"
    if not stat.S_ISREG(status.st_mode):
        return "is not an ordinary file", "save the policy in a file"
    if status.st_size > SIZE_LIMIT:
        return f"{status.st_size} bytes are too many", f"a policy has at most {SIZE_LIMIT} bytes"
    return None


def read_document(file: str) -> Document:
    """Read a policy file.

    The returned object is shared by all callers that read the same file: it must not be changed.

    Raises:
        PolicyError: The file is invalid in any way; the text is one line.
    """
    return _parse_document(file, _read_text(Document(file)))


@lru_cache(maxsize=256)
def _parse_document(file: str, text: str) -> Document:
    """Parse a text once. A report asks for each policy a dozen times."""
    document = Document(file)
    root = _compose_root(document, text)
    if root is None:
        raise document.make_error(1, "the file is empty", "write at least id, name and layers")
    line = root.start_mark.line + 1
    if not isinstance(root, yaml.MappingNode):
        is_list = isinstance(root, yaml.SequenceNode)
        raise document.make_error(
            line, f"the file holds {'a list' if is_list else 'plain text'}",
            "write id:, name: and layers: lines, " + (
                "one policy a file" if is_list else "as examples/wpa2-psk.yml has them"))
    document.spots[()] = Spot(line, line)
    try:
        document.data = _build_value(root, (), document.spots)
    except _Refusal as error:
        raise _syntax_error(document, error) from None
    return document


def _read_text(document: Document) -> str:
    problem = file_problem(document.file)
    if problem:
        raise document.make_error(1, *problem)
    try:
        with open(document.file, "rb") as stream:
            raw = stream.read(SIZE_LIMIT)
    except OSError as error:
        raise document.make_error(1, f"cannot be read ({_error_text(error)})",
                                  "check permissions") from None
    nul = raw.find(b"\0")
    if nul >= 0:
        line = raw.count(b"\n", 0, nul) + 1
        raise document.make_error(line, "this is a binary file (NUL byte)", "name a policy in YAML")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise document.make_error(line, "this is not UTF-8 text",
                                  "save the file as UTF-8") from None


def _error_text(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _compose_root(document: Document, text: str) -> Any:
    try:
        return _StrictComposer(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(document, error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise document.make_error(
            line, f"character {error.character:#x} cannot stand in YAML", "remove it"
        ) from None
    except (ValueError, OverflowError):  # PyYAML leaks them for "\UFFFFFFFF" and the like
        raise document.make_error(1, "this is not valid YAML",
                                  "check the escapes in quotes") from None


def _syntax_error(document: Document, error: yaml.MarkedYAMLError) -> PolicyError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    if isinstance(error, _Refusal):
        return document.make_error(line, error.problem or "", error.note or "")
    if error.context == "expected a single document in the stream":
        return document.make_error(line, "a second document begins here", "write one policy a file")
    what = f"this is not valid YAML ({str(error.problem or error.context)[:120]})"
    return document.make_error(line, what, "check indentation, quotes and colons")


def _build_value(node: Any, path: KeyPath, spots: dict[KeyPath, Spot]) -> Any:
    """Return the value of ``node``. DEPTH_LIMIT bounds the recursion."""
    if isinstance(node, yaml.MappingNode):
        return _build_mapping(node, path, spots)
    if isinstance(node, yaml.SequenceNode):
        items: list[Any] = []
        for index, item in enumerate(node.value):
            line = item.start_mark.line + 1
            spots[(*path, index)] = Spot(line, line)
            items.append(_build_value(item, (*path, index), spots))
        return items
    return _build_scalar(node)


def _build_mapping(node: Any, path: KeyPath, spots: dict[KeyPath, Spot]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise _make_refusal(key_node, "a block or list stands where a key belongs",
                                "write a word")
        key = _scalar_text(key_node)
        if key in values:
            before = spots[(*path, key)].key_line
            raise _make_refusal(key_node, f"{show_value(key)} was given on line {before}",
                                "keep one of them")
        text = value_node.value if isinstance(value_node, yaml.ScalarNode) else ""
        lines = (key_node.start_mark.line + 1, value_node.start_mark.line + 1)
        spots[(*path, key)] = Spot(*lines, text)
        values[key] = _build_value(value_node, (*path, key), spots)
    return values


def _scalar_text(node: Any) -> str:
    text: str = node.value
    if _HALF.search(text):
        raise _make_refusal(node, f"{show_value(text)} holds half a character",
                            "write the whole character")
    return text


def _build_scalar(node: Any) -> str | int | bool | None:
    text = _scalar_text(node)
    if node.tag in _AS_TEXT:
        return text
    if node.tag == _TAG + "null":
        return None
    if node.tag == _TAG + "bool":
        return text.lower() in ("yes", "true", "on")
    if node.tag == _TAG + "int" and _DECIMAL.fullmatch(text):
        return int(text)
    kind = node.tag.removeprefix(_TAG)
    raise _make_refusal(
        node,
        f"{text[:40]} is not plain text, YAML reads it as {kind}",
        "write it in quotes, or as a plain whole number",
    )

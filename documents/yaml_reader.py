"""Read a YAML file strictly into plain values, with the line number of each value.

`YamlRules` says what a kind of file may contain. All kinds refuse tags, a second document and
duplicate keys. Numbers that YAML 1.1 would misread (``010``, ``0x10``, ``10:30``) and dates stay
text; `documents.unquoted` reads them as the types that their fields have. Every error is a
`YamlProblem`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

#: Keys that lead to a value, from the top of a document.
KeyPath = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_PLAIN_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_LONGEST_PLAIN = 18  # digits of a whole number in a file with `is_plain`
_LONGEST_WHOLE = 300  # digits in others; a float has as many
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a UTF-16 surrogate pair, from an escape
_SHOWN = 40  # characters of a value in a message
#: libyaml's loader where it is installed, ten times as fast. It does not limit the depth of a
#: document and its messages lack the user's terms, so it reads the project's own files only.
_QUICK: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTRUCT = yaml.constructor.SafeConstructor()


@dataclass(frozen=True)
class YamlRules:
    """The rules for a kind of YAML file, such as policies.

    `kind` is the noun for such a file in messages. `size_limit` is in bytes, and `depth_limit` in
    nested blocks. `manual` is the documentation page about these files. If `is_plain` is set,
    values are only text, whole numbers and booleans, and decimal numbers stay text. If
    `has_aliases` is set, anchors, aliases and merged keys are accepted. `empty` is the advice for
    a file that is empty or has no keys.
    """

    kind: str
    size_limit: int = 256 * 1024
    depth_limit: int = 20
    manual: str = ""
    is_plain: bool = False
    has_aliases: bool = False
    empty: str = "write keys and values"


class YamlProblem(Exception):
    """An error in a YAML file: its line (0 without one), what is wrong, and what to do."""

    def __init__(self, line: int, what: str, advice: str) -> None:
        super().__init__(line, what, advice)
        self.line, self.what, self.advice = line, what, advice

    def format_place(self, file: object) -> str:
        """Return the place of the error as `FILE:LINE`, or as FILE without a line."""
        return f"{file}:{self.line}" if self.line else str(file)


@dataclass(frozen=True)
class SourceLines:
    """The line numbers of a key and its value in a file, and the text of a scalar value.

    Lines count from 1. `misreading` says how YAML 1.1 reads a number that stayed text.
    """

    key_line: int
    line: int
    text: str = ""
    is_unquoted: bool = False
    misreading: str = ""


@dataclass
class YamlDocument:
    """The values of a YAML file with the lines of each, by its path of keys."""

    file: str
    data: dict[str, Any] = field(default_factory=dict)
    spots: dict[KeyPath, SourceLines] = field(default_factory=lambda: {(): SourceLines(1, 1)})

    def find_spot(self, path: KeyPath) -> SourceLines:
        """Return the lines of a value, or the lines of its nearest parent in this file."""
        while path not in self.spots:
            path = path[:-1]
        return self.spots[path]


# --- Files ---

def file_problem(file: str, rules: YamlRules) -> tuple[str, str] | None:
    """Return why a file cannot be of a kind (such as a policy), and what to do.

    None if it can be one. The file is not opened.
    """
    try:
        status = os.stat(file)  # noqa: PTH116 - also for names that are no path
    except (FileNotFoundError, NotADirectoryError):
        return "there is no such file", "check the path"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        return f"cannot be opened ({_error_text(error)})", "check the path"
    if stat.S_ISDIR(status.st_mode):
        return "is a folder", f"name a {rules.kind} file in it"
    if not stat.S_ISREG(status.st_mode):
        return "is not an ordinary file", f"save the {rules.kind} in a file"
    if status.st_size > rules.size_limit:
        return (f"{status.st_size} bytes are too many",
                f"a {rules.kind} has at most {rules.size_limit} bytes")
    return None


def read_text(file: str, rules: YamlRules) -> str:
    """Return the text of a YAML file, which must be UTF-8.

    Raises:
        YamlProblem: The file cannot be read, or is no UTF-8 text.
    """
    problem = file_problem(file, rules)
    if problem:
        raise YamlProblem(0, *problem)
    try:
        with open(file, "rb") as stream:
            raw = stream.read(rules.size_limit)
    except OSError as error:
        raise YamlProblem(0, f"cannot be read ({_error_text(error)})", "check permissions") \
            from None
    nul = raw.find(b"\0")
    if nul >= 0:
        raise YamlProblem(raw.count(b"\n", 0, nul) + 1, "this is a binary file (NUL byte)",
                          f"name a {rules.kind} in YAML")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise YamlProblem(raw.count(b"\n", 0, error.start) + 1, "this is not UTF-8 text",
                          "save the file as UTF-8") from None


def _error_text(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def load_own(file: str | os.PathLike[str]) -> Any:
    """Return the values of a YAML file that comes with qop."""
    with open(file, encoding="utf-8") as stream:
        return yaml.load(stream, _QUICK)  # noqa: S506 - both are safe


# --- Values ---

def parse_yaml(file: str, text: str, rules: YamlRules, *, is_own: bool = False) -> YamlDocument:
    """Return the values in a YAML text, which has to be a block of keys.

    Args:
        file: Name of the file, for the document.
        text: Its content.
        rules: What it may contain.
        is_own: Whether the file belongs to the project, and is read quickly.

    Raises:
        YamlProblem: The text is refused.
    """
    root = _compose_root(text, rules, is_own=is_own)
    if root is None:
        raise YamlProblem(1, "the file is empty", rules.empty)
    line = root.start_mark.line + 1
    if not isinstance(root, yaml.MappingNode):
        is_list = isinstance(root, yaml.SequenceNode)
        raise YamlProblem(line, f"the file holds {'a list' if is_list else 'plain text'}",
                          rules.empty + f", one {rules.kind} a file" * is_list)
    document = YamlDocument(file, spots={(): SourceLines(line, line)})
    try:
        document.data = _Builder(rules, document.spots).build_value(root, ())
    except RecursionError:
        raise YamlProblem(1, "an alias contains itself", "write the values out") from None
    return document


def _compose_root(text: str, rules: YamlRules, *, is_own: bool) -> Any:
    try:
        return (_QUICK(text) if is_own else _StrictComposer(text, rules)).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_problem(error, rules) from None
    except yaml.reader.ReaderError as error:
        raise YamlProblem(text.count("\n", 0, error.position) + 1,
                          f"character {error.character:#x} cannot stand in YAML", "remove it") \
            from None
    except (ValueError, OverflowError):  # PyYAML leaks them for "\UFFFFFFFF" and the like
        raise YamlProblem(1, "this is not valid YAML", "check the escapes in quotes") from None


def _syntax_problem(error: yaml.MarkedYAMLError, rules: YamlRules) -> YamlProblem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    if error.context == "expected a single document in the stream":
        return YamlProblem(line, "a second document begins here", f"write one {rules.kind} a file")
    what = f"this is not valid YAML ({str(error.problem or error.context)[:120]})"
    return YamlProblem(line, what, "check indentation, quotes and colons")


def _make_refusal(node: Any, what: str, advice: str) -> YamlProblem:
    return YamlProblem(node.start_mark.line + 1, what, advice)


class _StrictComposer(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
    """A YAML parser that refuses unwanted nodes, such as tags, before they are built."""

    def __init__(self, text: str, rules: YamlRules) -> None:
        super().__init__(text)  # type: ignore[no-untyped-call,unused-ignore]
        self._rules, self._depth = rules, 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call,unused-ignore]
        is_alias = isinstance(event, yaml.AliasEvent)
        if not self._rules.has_aliases and (is_alias or event.anchor is not None):
            raise _make_refusal(event, "anchors and aliases (& and *) are not used", "write it out")
        if not is_alias and event.tag is not None:
            raise _make_refusal(event, f"the tag {_shorten_text(event.tag)!r} is not used",
                                "leave it out")
        if self._depth == self._rules.depth_limit:
            raise _make_refusal(event, f"nested deeper than {self._depth} levels",
                                f"see {self._rules.manual}")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


@dataclass
class _Builder:
    """A builder of plain values from YAML nodes, which notes the lines of each value."""

    rules: YamlRules
    spots: dict[KeyPath, SourceLines]

    def build_value(self, node: Any, path: KeyPath) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._build_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, item in enumerate(node.value):
                self.spots[*path, index] = _find_lines(item, item)
                items.append(self.build_value(item, (*path, index)))
            return items
        return self._build_scalar(node)

    def _build_mapping(self, node: Any, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in self._iterate_entries(node):
            key = self._build_key(key_node)
            if key in values:
                before = self.spots[*path, key].key_line
                raise _make_refusal(key_node, f"{_shorten_text(key)!r} was given on line {before}",
                                    "keep one of them")
            self.spots[*path, key] = _find_lines(key_node, value_node)
            values[key] = self.build_value(value_node, (*path, key))
        return values

    def _iterate_entries(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Yield key and value of each entry of a YAML block, its own and the entries it merges.

        An own entry replaces a merged entry with the same key.
        """
        merges = [value for key, value in node.value if key.tag == _TAG + "merge"] \
            if self.rules.has_aliases else []
        if not merges:
            yield from node.value
            return
        own = [entry for entry in node.value if entry[0].tag != _TAG + "merge"]
        names = {key.value for key, _ in own}
        for merged in merges:
            for block in merged.value if isinstance(merged, yaml.SequenceNode) else [merged]:
                if not isinstance(block, yaml.MappingNode):
                    raise _make_refusal(block, "<< merges no block of keys", "write the keys out")
                for key, value in self._iterate_entries(block):
                    if key.value not in names:
                        names.add(key.value)
                        yield key, value
        yield from own

    def _build_key(self, node: Any) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise _make_refusal(node, "a block or list stands where a key belongs", "write a word")
        return _scalar_text(node)

    def _build_scalar(self, node: Any) -> Any:
        text = _scalar_text(node)
        kind = node.tag.removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in ("yes", "true", "on")
        longest = _LONGEST_PLAIN if self.rules.is_plain else _LONGEST_WHOLE
        if kind == "int" and _PLAIN_NUMBER.fullmatch(text) and len(text.lstrip("-+")) <= longest:
            return int(text)
        if kind == "float" and not self.rules.is_plain and ":" not in text:
            return _CONSTRUCT.construct_yaml_float(node)
        return text


def _find_lines(key_node: Any, node: Any) -> SourceLines:
    """Return the lines of a value and its key, and the text of a scalar value."""
    lines = (key_node.start_mark.line + 1, node.start_mark.line + 1)
    if not isinstance(node, yaml.ScalarNode):
        return SourceLines(*lines)
    kind = node.tag.removeprefix(_TAG)
    return SourceLines(*lines, node.value, node.style is None, _explain_number(node.value, kind))


def _scalar_text(node: Any) -> str:
    text: str = node.value
    if _SURROGATE.search(text):
        raise _make_refusal(node, f"{_shorten_text(text)!r} holds half a character",
                            "write the whole character")
    return text


def _explain_number(text: str, kind: str) -> str:
    """Return how YAML 1.1 misreads a number, "" for a value that it reads correctly."""
    if kind not in ("int", "float"):
        return ""
    if ":" in text:
        what = "a sexagesimal number (base 60)"
    elif kind == "float" or _PLAIN_NUMBER.fullmatch(text):
        return ""
    else:
        digits = text.lstrip("+-").lower()
        what = ("a number with underscores" if digits[0] != "0" else
                "a hexadecimal number" if digits.startswith("0x") else
                "a binary number" if digits.startswith("0b") else "an octal number")
    value = yaml.safe_load(text)
    return f"YAML reads {_shorten_text(text)} as {what}, which is {_shorten_text(str(value))}"


def _shorten_text(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN - 3] + "..."


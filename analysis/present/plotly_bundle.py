"""Make a small copy of plotly's script, with only the kinds of figures that reports have.

Each report is one HTML page that includes the script, so a smaller script makes a smaller page. The
package `plotly` has one script with all kinds of figures, which plotly calls traces (4.8 MB). Its
modules are statements of the form `var NAME = WRAP((exports, module) => {...})`, and the last one
registers the kinds of traces. `make_bundle` registers bars only (lines and points are part of the
core), and keeps the modules that the remaining code refers to. A word that may be a reference
counts as one, so a module that is needed is never left out.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

#: Kinds of traces beside those of the core, scatter plots.
_KINDS = ("bar",)

# --- Tokens of JavaScript, as far as they tell brackets and names from text ---

_STRING = r'"(?:[^"\\\n]|\\.)*"|' r"'(?:[^'\\\n]|\\.)*'"


# A JavaScript template is a text in backquotes, such as `a ${b + 1} c`. Expressions stand in it
# after $ in braces. An expression may contain templates again: two levels occur.

def _make_braces_pattern(template: str) -> str:
    """Return a regular expression that matches the braces of a template, with their expression.

    The expression may contain strings, templates and one further pair of braces.

    Args:
        template: Regular expression that matches a template inside the expression.
    """
    flat = rf"\{{(?:[^`{{}}\"']|{_STRING}|{template})*\}}"
    return rf"\{{(?:[^`{{}}\"']|{_STRING}|{template}|{flat})*\}}"


def _make_template_pattern(braces: str) -> str:
    """Return a regular expression that matches a JavaScript template (text in backquotes).

    Args:
        braces: Regular expression that matches an expression in braces inside the template.
    """
    return rf"`(?:[^`\\$]|\\.|\$(?!\{{)|\${braces})*`"


_BRACES = _make_braces_pattern(_make_template_pattern(_make_braces_pattern(r"`(?:[^`\\]|\\.)*`")))
_TEMPLATE = _make_template_pattern(_BRACES)
#: A slash begins a regular expression where no value stands before it.
_EXPRESSION = (r"(?:(?<=[(,=:\[!&|?{};+\n>~])|(?<=return))"
               r"/(?![*/])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_COMMENT = r"/\*.*?\*/|//[^\n]*"
_TEXT = re.compile(rf"{_STRING}|(?P<template>{_TEMPLATE})|{_EXPRESSION}|{_COMMENT}", re.DOTALL)
_EMBEDDED = re.compile(rf"\${_BRACES}")
_BRACKET = re.compile(
    rf"(?P<text>{_STRING}|{_TEMPLATE}|{_EXPRESSION}|{_COMMENT})|[][{{}}()]", re.DOTALL)
#: A name that is no property (`x.name`, `{name: ...}`).
_NAME = re.compile(r"(?:(?<![\w$.])|(?<=\.\.\.))(?!(?<=[{,])[\w$]+:)[A-Za-z_$][\w$]*")


@dataclass(frozen=True)
class _Piece:
    """A module of the script with its name, or what stands between two modules."""

    name: str
    text: str


def pack_bundle(cache: Path | None = None) -> bytes:
    """Return the partial script, compressed by gzip.

    Making it takes a second. With a folder for it, later processes read it from there. Its file has
    the version of plotly and a hash of this module in its name.

    Args:
        cache: The folder, which need not exist. A folder that cannot be written is not used.

    Raises:
        LookupError: The installed version of plotly has another structure.
    """
    if cache is None:
        return gzip.compress(make_bundle().encode(), mtime=0)
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    file = cache / f"plotly-{metadata.version('plotly')}-{code}.js.gz"
    # A file that is cut short or damaged does not unpack.
    with contextlib.suppress(OSError, EOFError, zlib.error):
        packed = file.read_bytes()
        if gzip.decompress(packed):
            return packed
    packed = pack_bundle()
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(packed)
        unfinished.replace(file)
    return packed


def make_bundle() -> str:
    """Return plotly's script without the kinds of traces that no figure uses.

    Raises:
        LookupError: The installed version of plotly has another structure.
    """
    script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    head, *modules, last, tail = _split_modules(script)
    registered = re.search(r"register\(\[((?:[\w$]+\(\),?)+)\]\)", last.text)
    if registered is None:
        raise LookupError("plotly.min.js registers no kinds of traces where it is expected")
    chosen = _choose_kinds(registered[1].replace("()", "").split(","), modules)
    last = _Piece(last.name, last.text.replace(
        registered[1], ",".join(f"{name}()" for name in chosen)))
    kept = _find_needed(modules, [head, last, tail])
    return "".join((head.text, *(piece.text for piece in kept), last.text, tail.text))


def _split_modules(script: str) -> Iterator[_Piece]:
    """Yield the modules of a script and the pieces between them, in their order."""
    wrapper = re.search(r"var ([\w$]+)=\(e,t\)=>\(\)=>\{try\{return t\|\|", script)
    if wrapper is None:
        raise LookupError("plotly.min.js has no wrapper of modules where it is expected")
    begin = re.compile(
        rf"var ([\w$]+)={re.escape(wrapper[1])}\((?:\([\w$,]*\)|[\w$]+)=>\{{")
    at = 0
    while module := begin.search(script, at):
        # The closing brace is followed by ");".
        end = _find_closing(script, module.end()) + 2
        if at < module.start():
            yield _Piece("", script[at:module.start()])
        yield _Piece(module[1], script[module.start():end])
        at = end
    yield _Piece("", script[at:])


def _find_closing(script: str, at: int) -> int:
    """Return the position after the bracket that closes the block which begins here."""
    depth = 1
    for token in _BRACKET.finditer(script, at):
        if not token["text"]:
            depth += 1 if token[0] in "{[(" else -1
            if not depth:
                return token.end()
    raise LookupError("plotly.min.js has an unclosed module")


def _choose_kinds(names: list[str], modules: list[_Piece]) -> list[str]:
    """Return the registered modules that define a wanted kind of trace."""
    texts = {piece.name: piece.text for piece in modules}
    chosen = []
    for name in names:
        # Each of them only passes another module on.
        definition = re.search(r"exports=([\w$]+)\(\)", texts[name])
        if definition and any(f'name:"{kind}"' in texts[definition[1]] for kind in _KINDS):
            chosen.append(name)
    if len(chosen) != len(_KINDS):
        raise LookupError(f"plotly.min.js has not the kinds of traces {', '.join(_KINDS)}")
    return chosen


def _find_needed(modules: list[_Piece], roots: list[_Piece]) -> list[_Piece]:
    """Return the modules to which the roots refer, directly or through other modules."""
    shared = _list_names(roots[0].text)
    owners: defaultdict[str, list[int]] = defaultdict(list)
    for number, piece in enumerate(modules):
        names = {piece.name} if piece.name else _list_outer_names(piece.text) - shared
        for name in names:
            owners[name].append(number)
    waiting, kept = [piece.text for piece in roots], set[int]()
    while waiting:
        referred = {number for name in _list_names(waiting.pop())
                    for number in owners.get(name, ())}
        waiting += [modules[number].text for number in referred - kept]
        kept |= referred
    return [modules[number] for number in sorted(kept)]


def _list_names(text: str) -> set[str]:
    """Return the names in a text that may refer to something, not those in strings."""
    return set(_NAME.findall(_TEXT.sub(
        lambda found: " ".join(_EMBEDDED.findall(found["template"] or "")) or " ", text)))


def _list_outer_names(text: str) -> set[str]:
    """Return the names outside all brackets: those that statements define, and a few more."""
    parts, depth, at = [], 0, 0
    for token in _BRACKET.finditer(text):
        if token["text"] is None and token[0] in "{[(":
            if not depth:
                parts.append(text[at:token.start()])
            depth += 1
        elif token["text"] is None:
            depth -= 1
            at = token.end()
        elif not depth:
            parts.append(text[at:token.start()])
            at = token.end()
    return set(_NAME.findall(" ".join((*parts, text[at:]))))

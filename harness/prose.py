"""Check the docstrings and names of qop's code for plain English.

`./qop lint` runs this check. The number of faults may only fall: pyproject.toml has the limits, in
`[tool.qop.prose]`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.engine.machine import ROOT

PACKAGES = ("analysis", "ansible", "bench", "documents", "guest", "harness", "measure", "policies",
            "protocols", "studies", "topologies")
#: Words that make a first sentence begin with a clause or a pronoun.
_OPENERS = frozenset(re.findall(
    r"\w+", "what whatever whether who whoever whom whose where when which why how those that one "
    "of as so it its they nothing nobody likewise such none by until from"))
#: Participles and pronouns that name neither a function nor a parameter.
_NO_NAMES = frozenset(re.findall(
    r"\w+", "said told seen asked found held made kept taken given shown there here beside own "
    "others mine theirs ours whole rest again anew company piece pieces look stay wish door"))
#: Words without a meaning in the field.
_NO_WORDS = re.compile(
    r"\b(beside|company|anew|whoever|nobody|somebody|amid|lone|seldom|as ever|so many|"
    r"at the least|in its turn|for want of|the same of|in force|stays? ready|reckon\w*|"
    r"a word for|the air's luck|by itself alone)\b", re.IGNORECASE)
_MOST_WORDS, _MOST_COMMAS = 20, 2
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring on one line."""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph)[0]


def find_docstring_faults(docstring: str) -> list[str]:
    """Return descriptions of the style rules that a docstring breaks."""
    first = first_sentence(docstring)
    opener = re.match(r"[`\"'(]*([A-Za-z'-]+)", first)
    word = _NO_WORDS.search(docstring)
    faults = {
        "begins with a clause word or pronoun": opener and opener[1].lower() in _OPENERS,
        f"first sentence has more than {_MOST_WORDS} words": len(first.split()) > _MOST_WORDS,
        "semicolon in the first sentence": ";" in first,
        f"more than {_MOST_COMMAS} commas in the first sentence": first.count(",") > _MOST_COMMAS,
        f"'{word and word[0]}' is no word of the field": word}
    return [fault for fault, is_broken in faults.items() if is_broken]


def find_faults(source: str) -> Iterator[tuple[str, int, str]]:
    """Yield each style fault of a module's source, as kind, line number and description.

    Kinds are `docstrings`, `names` and `one_word_functions`.
    """
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 1)
        if isinstance(node, _Function):
            bare = node.name.strip("_")
            if bare in _NO_NAMES:
                yield "names", line, f"function {node.name}: a participle or pronoun is no name"
            for argument in (*node.args.args, *node.args.kwonlyargs):
                if argument.arg in _NO_NAMES:
                    yield "names", line, (f"parameter {argument.arg} of {node.name}: "
                                          "a participle or pronoun is no name")
            if "_" not in bare and bare.islower():
                yield "one_word_functions", line, f"function {node.name}: its name is one word"
        if isinstance(node, ast.Module | ast.ClassDef | _Function) and (
                docstring := ast.get_docstring(node)):
            for fault in find_docstring_faults(docstring):
                yield "docstrings", line, f"{fault}: {first_sentence(docstring)[:80]}"


def find_all(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each style fault of all modules, as its kind and a line with place and description."""
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            for kind, line, fault in find_faults(file.read_text()):
                yield kind, f"{file.relative_to(root)}:{line}: {fault}"


def compare_with_limits(faults: list[tuple[str, str]], limits: dict[str, int]) -> list[str]:
    """Return lines to print about each kind of fault whose count differs from its limit.

    If there are too many faults of a kind, these faults come first.
    """
    counts = Counter(kind for kind, _ in faults)
    lines: list[str] = []
    for kind, limit in limits.items():
        if counts[kind] > limit:
            lines += [text for each, text in faults if each == kind]
            lines.append(f"prose: {counts[kind]} faults of {kind}, and {limit} are allowed; "
                         "rewrite those that are new")
        elif counts[kind] < limit:
            lines.append(f"prose: {counts[kind]} faults of {kind}, and {limit} are allowed; "
                         f"write {kind} = {counts[kind]} in pyproject.toml")
    return lines


def main() -> int:
    """Check all modules, print faults beyond the limits, and return the exit status."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        limits = tomllib.load(file)["tool"]["qop"]["prose"]
    lines = compare_with_limits(list(find_all(ROOT)), limits)
    print("\n".join(lines) or "Prose: no new faults.")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())

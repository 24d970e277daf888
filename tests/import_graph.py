"""What the project's modules import, read from their text: nothing is imported to find out."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).parent.parent


def sources(package: str, root: Path = ROOT) -> list[Path]:
    """The Python files of a package; none while it is not written yet."""
    return sorted((root / package).rglob("*.py"))


def module_name(file: Path, root: Path = ROOT) -> str:
    """The dotted name of a file below the root; a package's own file counts as a module in it."""
    return ".".join(file.relative_to(root).with_suffix("").parts)


class Import(NamedTuple):
    """One thing that a module imports, by its full name, and where."""

    line: int
    name: str
    is_for_types: bool
    is_in_function: bool


@functools.cache
def imports(file: Path, root: Path = ROOT) -> tuple[Import, ...]:
    """Everything a module imports, relative imports resolved.

    `from a import b` counts as `a.b`, which may be a module or a name in one. What stands under
    `if TYPE_CHECKING:` counts too: it is a dependency of the reader.
    """
    module, stated = module_name(file, root), []
    to_do: list[tuple[ast.AST, bool, bool]] = [(ast.parse(file.read_text()), False, False)]
    while to_do:
        node, for_types, in_function = to_do.pop()
        stated += [Import(node.lineno, name, for_types, in_function)
                   for name in _names(node, module)]
        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        guarded = node.body if _is_for_types(node) else []
        to_do += [(child, for_types or child in guarded, in_function)
                  for child in ast.iter_child_nodes(node)]
    return tuple(sorted(stated))


def _is_for_types(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def _names(node: ast.AST, module: str) -> Iterator[str]:
    """What a statement or call imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = module.split(".")[:-node.level]
            base = ".".join([*above, base] if base else above)
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and _is_dynamic(node.func):
        name = node.args[0] if node.args else None
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value


def _is_dynamic(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


@functools.cache
def loaded_by(file: Path, root: Path = ROOT, *, at_once: bool = False) -> frozenset[str]:
    """Everything that a module imports when it runs; not what it names for types only.

    With `at_once`, what it imports when it is itself imported: not what its functions import.
    """
    return frozenset(each.name for each in imports(file, root)
                     if not each.is_for_types and not (at_once and each.is_in_function))


def files_of(name: str, root: Path = ROOT) -> list[Path]:
    """The files of ours that importing a dotted name executes: its packages', and its own."""
    parts = name.split(".")
    files = []
    for length in range(1, len(parts) + 1):
        base = root.joinpath(*parts[:length])
        files += [file for file in (base.with_suffix(".py"), base / "__init__.py")
                  if file.is_file()]
    return files


def path_to(outside: set[str], file: Path, root: Path = ROOT, *, at_once: bool = False,
            seen: set[Path] | None = None) -> list[str]:
    """Modules from this one to one of the outside packages; empty if no import leads there.

    Files in `seen` are known to lead nowhere; those that are passed now are added.
    """
    seen = set() if seen is None else seen
    seen.add(file)
    for name in sorted(loaded_by(file, root, at_once=at_once)):
        if name.partition(".")[0] in outside:
            return [module_name(file, root), name]
        for below in files_of(name, root):
            if below not in seen and (
                    path := path_to(outside, below, root, at_once=at_once, seen=seen)):
                return [module_name(file, root), *path]
    return []

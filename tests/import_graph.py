"""What the project's modules import, read from their text: nothing is imported to find out."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).parent.parent


def sources(package: str, root: Path = ROOT) -> list[Path]:
    """The Python files of a package; none while it is not written yet."""
    return sorted((root / package).rglob("*.py"))


def module_name(file: Path, root: Path = ROOT) -> str:
    """The dotted name of a file below the root; a package's own file counts as a module in it."""
    return ".".join(file.relative_to(root).with_suffix("").parts)


def imports(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a module imports, relative imports resolved.

    `from a import b` counts as `a.b`, which may be a module or a name in one. What stands under
    `if TYPE_CHECKING:` counts too: it is a dependency of the reader.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[:-node.level]
                base = ".".join([*above, base] if base else above)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _is_dynamic(node.func):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value


def _is_dynamic(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


@functools.cache
def loaded_by(file: Path, root: Path = ROOT, *, at_once: bool = False) -> frozenset[str]:
    """Everything that a module imports when it runs; not what it names for types only.

    With `at_once`, what it imports when it is itself imported: not what its functions import.
    """
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if _is_for_types(node) or (at_once and _is_function(node)):
            node.body = [ast.Pass()]
    return frozenset(name for _, name in imports(tree, module_name(file, root)))


def _is_for_types(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def _is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


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

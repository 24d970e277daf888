"""Test of docs/architecture.md's one rule: imports between the packages go one way."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: What each package may import of the others: packages, or single modules of them.
ALLOWED: dict[str, set[str]] = {
    "policies": set(),
    "topologies": set(),
    "guest": set(),
    "measure": {"policies", "topologies"},
    "analysis": {"policies", "topologies", "measure.record"},
    "harness": {"policies", "topologies", "guest", "measure", "analysis"},
}
#: What only a machine has: Debian's Mininet, Mininet-WiFi, and netlink as hwsim speaks it.
MACHINE_ONLY = {"mininet", "mn_wifi", "pyroute2"}
#: Whole packages that run outside a machine, and the modules that both sides share.
OUTSIDE = ("policies", "guest", "analysis", "harness")
SHARED = ("measure.assemble", "measure.record", "measure.evidence", "measure.phases",
          "measure.dissect", "measure.errors", "topologies.builders", "topologies.loader",
          "topologies.model")


def sources(package: str, root: Path = ROOT) -> list[Path]:
    """The Python files of a package; none while it is not written yet."""
    return sorted((root / package).rglob("*.py"))


def imports(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a module imports at run time, relative imports resolved.

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


def module_name(file: Path, root: Path = ROOT) -> str:
    """The dotted name of a file below the root; a package's own file counts as a module in it."""
    return ".".join(file.relative_to(root).with_suffix("").parts)


def violations(package: str, root: Path = ROOT) -> list[str]:
    """Imports of ours that a package may not have, as `file:line: name`."""
    found = []
    for file in sources(package, root):
        for line, name in imports(ast.parse(file.read_text()), module_name(file, root)):
            top = name.partition(".")[0]
            if top not in ALLOWED or top == package:
                continue
            allowed = any(name == entry or name.startswith(f"{entry}.")
                          for entry in ALLOWED[package])
            if not allowed:
                found.append(f"{file.relative_to(root)}:{line}: {name}")
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_go_one_way(package: str) -> None:
    """No package imports what architecture.md does not allow it; nobody imports harness."""
    assert violations(package) == []


def test_every_package_of_ours_has_a_rule() -> None:
    """A new top-level package needs a place in the order; tests and Ansible's code have none."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert {"policies", "topologies", "measure", "guest", "harness"} <= packages
    assert packages <= set(ALLOWED)


def test_rules_have_no_circle() -> None:
    """The allowed imports are an order: no package can reach itself."""
    def reach(package: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
        for entry in ALLOWED[package]:
            top = entry.partition(".")[0]
            yield top
            if top not in seen:
                yield from reach(top, seen | {top})
    assert all(package not in set(reach(package)) for package in ALLOWED)
    assert all("harness" not in set(reach(package)) for package in ALLOWED)


def loaded_by(file: Path) -> set[str]:
    """Everything that a module imports when it is run; not what it names for types only."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return {name for _, name in imports(tree, module_name(file))}


def file_of(name: str) -> Path | None:
    """The file of ours that a dotted name lies in: a module's, a package's, or none."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:length])
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if parts[0] in ALLOWED and file.exists():
                return file
    return None


def path_to_machine(file: Path, seen: set[Path]) -> list[str]:
    """Modules from this one to one that needs a machine; empty if there is no such path."""
    seen.add(file)
    for name in sorted(loaded_by(file)):
        if name.partition(".")[0] in MACHINE_ONLY:
            return [module_name(file), name]
        below = file_of(name)
        if below is not None and below not in seen:
            found = path_to_machine(below, seen)
            if found:
                return [module_name(file), *found]
    return []


def test_nothing_outside_a_machine_needs_one() -> None:
    """However far one follows the imports of what runs outside, there is no Mininet."""
    files = [file for package in OUTSIDE for file in sources(package)]
    files += [ROOT / f"{module.replace('.', '/')}.py" for module in SHARED]
    assert [path for file in files if (path := path_to_machine(file, set()))] == []


def test_the_builder_needs_a_machine() -> None:
    """The search itself: it does find Mininet where it is used, also through other modules."""
    assert path_to_machine(ROOT / "topologies" / "builder.py", set())
    path = path_to_machine(ROOT / "measure" / "worker.py", set())
    assert len(path) > 2
    assert path[-1].partition(".")[0] in MACHINE_ONLY


@pytest.mark.parametrize(("package", "code", "expected"), [
    ("policies", "import topologies.model\n", "topologies.model"),
    ("guest", "def f():\n    from policies import load\n", "policies.load"),
    ("analysis", "from measure import dissect\n", "measure.dissect"),
    ("analysis", "from measure.dissect import Packet\n", "measure.dissect.Packet"),
    ("measure", "import harness\n", "harness"),
    ("measure", "from ..harness import plan\n", "harness.engine.plan"),
    ("topologies", "import importlib\nimportlib.import_module('measure.record')\n",
     "measure.record"),
])
def test_a_violation_is_seen(package: str, code: str, expected: str, tmp_path: Path) -> None:
    """The check itself: forbidden imports are found wherever and however they are written."""
    folder = tmp_path / package / "inner" if code.startswith("from ..") else tmp_path / package
    folder.mkdir(parents=True)
    code = code.replace("..harness", "...harness")
    (folder / "x.py").write_text(code)
    found = violations(package, tmp_path)
    assert len(found) == 1
    assert found[0].endswith(f": {expected}")


@pytest.mark.parametrize(("package", "code"), [
    ("analysis", "from measure.record import Record\n"),
    ("analysis", "from measure import record\n"),
    ("measure", "from policies.layers import LinkLayer\nimport topologies\n"),
    ("policies", "from policies.errors import PolicyError\nimport os\n"),
    ("harness", "from measure import assemble\nfrom guest import boot\n"),
])
def test_what_is_allowed_passes(package: str, code: str, tmp_path: Path) -> None:
    """The check itself: what the rule allows is not complained of."""
    (tmp_path / package).mkdir()
    (tmp_path / package / "x.py").write_text(code)
    assert violations(package, tmp_path) == []


def test_nothing_imports_the_scripts() -> None:
    """Scenarios as scripts are for people to run: the testbeds and the harness do without them."""
    scripts = {file.stem for file in (ROOT / "topologies").glob("*.py") if os.access(file, os.X_OK)}
    assert len(scripts) == 5
    own = {ROOT / f"topologies/{name}.py" for name in scripts}
    own |= set((ROOT / "topologies/standalone").rglob("*.py"))
    for package in ALLOWED:
        for file in set(sources(package)) - own:
            for line, name in imports(ast.parse(file.read_text()), module_name(file)):
                parts = name.split(".")
                assert parts[0] != "topologies" or len(parts) < 2 or parts[1] not in {
                    "standalone", *scripts}, f"{file}:{line}: {name}"

"""Test of docs/architecture.md's one rule: imports between the packages go one way."""

from __future__ import annotations

import graphlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import import_graph
import studies
from import_graph import ROOT, imports, module_name, sources

#: What each package may import of the others: packages, or single modules of them.
ALLOWED: dict[str, set[str]] = {
    "documents": set(),
    "policies": {"documents"},
    "protocols": set(),
    "guest": set(),
    "topologies": {"documents", "protocols"},
    "measure": {"documents", "policies", "topologies", "protocols"},
    "analysis": {"documents", "policies", "topologies", "measure.records.record",
                 "measure.records.manifest", "measure.records.document"},
    "studies": {"documents", "policies", "topologies", "protocols", "measure", "analysis"},
    "harness": {"documents", "policies", "topologies", "protocols", "guest", "measure", "analysis",
                "studies"},
    "bench": {"documents", "policies", "topologies", "protocols", "guest", "measure", "analysis",
              "studies", "harness"},
}
#: Modules of `studies` that every study uses, and what knows all studies.
CONTRACT = {"studies.study", "studies.records", "studies.policy_factors", "studies.kerberos_logins",
            "studies.release_factor"}
KNOWS_ALL = {"studies.__init__"}
#: What only a machine has: Debian's Mininet, Mininet-WiFi, and vici.
MACHINE_ONLY = {"mininet", "mn_wifi", "vici"}
#: What a machine has not: of our dependencies, those that modules seen there import elsewhere.
OUTSIDE_ONLY = {"pydantic", "pandas", "numpy", "scipy", "matplotlib", "plotly", "jinja2", "click",
                "rich", "yaml"}
#: Whole packages that run outside a machine, and the modules that both sides share.
OUTSIDE = ("policies", "guest", "analysis", "harness")
SHARED = ("measure.records.record", "measure.capture.tshark", "measure.agent.errors",
          "topologies.builders",
          "topologies.loader", "topologies.model", "studies.study")


def study_folders(root: Path = ROOT) -> list[str]:
    """The studies there are: the folders below `studies` that hold a package."""
    return sorted(file.parent.name for file in (root / "studies").glob("*/__init__.py"))


def violations(package: str, root: Path = ROOT) -> list[str]:
    """Imports of ours that a package may not have, as `file:line: name`."""
    there_are = study_folders(root)
    return [f"{file.relative_to(root)}:{each.line}: {each.name}"
            for file in sources(package, root) for each in imports(file, root)
            if _is_forbidden(module_name(file, root), each.name, there_are)]


def _is_forbidden(module: str, name: str, there_are: list[str]) -> bool:
    top, package = name.partition(".")[0], module.partition(".")[0]
    if top not in ALLOWED:
        return False
    if top == package == "studies":
        return _is_another_study(module, name, there_are)
    return top != package and not any(_is_below(name, entry) for entry in ALLOWED[package])


def _is_another_study(module: str, name: str, there_are: list[str]) -> bool:
    """A study imports itself and the contract; the contract imports no study."""
    own = ".".join(module.split(".")[:2])
    if module in KNOWS_ALL or any(_is_below(name, entry) for entry in CONTRACT):
        return False
    if own.removeprefix("studies.") in there_are:
        return not _is_below(name, own)
    return any(_is_below(name, f"studies.{study}") for study in there_are)


def _is_below(name: str, entry: str) -> bool:
    return name == entry or name.startswith(f"{entry}.")


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_go_one_way(package: str) -> None:
    """No package imports what architecture.md does not allow it; nobody imports harness."""
    assert violations(package) == []


def test_every_package_of_ours_has_a_rule() -> None:
    """A new top-level package needs a place in the order; tests and Ansible's code have none."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert {"policies", "topologies", "measure", "guest", "analysis", "studies"} <= packages
    assert packages <= set(ALLOWED)


def test_every_package_of_ours_is_type_checked() -> None:
    """mypy is told of each of them."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
    assert packages == set(checked)


def test_rules_have_no_circle() -> None:
    """The allowed imports are an order: only bench reaches harness."""
    def reach(package: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
        for entry in ALLOWED[package]:
            top = entry.partition(".")[0]
            yield top
            if top not in seen:
                yield from reach(top, seen | {top})
    assert all(package not in set(reach(package)) for package in ALLOWED)
    assert all("harness" not in set(reach(package)) for package in ALLOWED if package != "bench")


def import_order(root: Path = ROOT) -> list[str]:
    """Return the modules of the product, each after those that it imports.

    Imports inside functions count. Imports for types alone do not.

    Raises:
        graphlib.CycleError: Modules import each other.
    """
    files = {module_name(file, root).removesuffix(".__init__"): file
             for package in ALLOWED for file in sources(package, root)}
    order: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for module, file in files.items():
        named = [each.name for each in imports(file, root) if not each.is_for_types]
        order.add(module, *(name if name in files else name.rpartition(".")[0] for name in named
                            if (name in files or name.rpartition(".")[0] in files)
                            and name.rpartition(".")[0] != module))
    return list(order.static_order())


def test_modules_import_in_no_cycle(tmp_path: Path) -> None:
    """There is an order of all modules; two that import each other have none."""
    assert "measure.agent.worker" in import_order()
    _write(tmp_path, "measure/a", "def f():\n    from measure import b\n")
    _write(tmp_path, "measure/b", "from measure.a import f\n")
    with pytest.raises(graphlib.CycleError):
        import_order(tmp_path)


def test_nothing_outside_a_machine_needs_one() -> None:
    """However far one follows the imports of what runs outside, there is no Mininet."""
    files = [file for package in OUTSIDE for file in sources(package)]
    files += [ROOT / f"{module.replace('.', '/')}.py" for module in SHARED]
    files += [ROOT / "studies" / study / "__init__.py" for study in study_folders()]
    seen: set[Path] = set()
    assert [path for file in files
            if (path := import_graph.path_to(MACHINE_ONLY, file, seen=seen))] == []


def test_what_runs_in_a_machine_needs_only_what_is_there() -> None:
    """The worker and every study's workload start without what the harness alone has."""
    modules = ["measure.agent.worker",
               *(studies.load_study(name).workload_module for name in studies.study_names())]
    for module in modules:
        for file in import_graph.files_of(module):
            assert import_graph.path_to(OUTSIDE_ONLY, file, at_once=True) == []


def test_the_search_finds_a_machine_where_it_is_used() -> None:
    """The search itself: it does find Mininet, also through other modules, and pydantic."""
    assert import_graph.path_to(MACHINE_ONLY, ROOT / "topologies" / "builder.py")
    path = import_graph.path_to(MACHINE_ONLY, ROOT / "measure" / "agent" / "worker.py")
    assert len(path) > 2
    assert path[-1].partition(".")[0] in MACHINE_ONLY
    assert import_graph.path_to(OUTSIDE_ONLY, ROOT / "measure/records/record.py", at_once=True)


@pytest.mark.parametrize(("module", "code", "expected"), [
    ("policies/x", "import topologies.model\n", "topologies.model"),
    ("guest/x", "def f():\n    from policies import load\n", "policies.load"),
    ("protocols/kerberos/x", "import topologies\n", "topologies"),
    ("topologies/x", "import importlib\nimportlib.import_module('measure.records.record')\n",
     "measure.records.record"),
    ("measure/x", "import harness\n", "harness"),
    ("measure/inner/x", "from ...harness import plan\n", "harness.plan"),
    ("measure/x", "from studies import study\n", "studies.study"),
    ("analysis/x", "from measure.capture import tshark\n", "measure.capture.tshark"),
    ("analysis/x", "from measure.capture.tshark import Packet\n", "measure.capture.tshark.Packet"),
    ("analysis/x", "import studies.one\n", "studies.one"),
    ("studies/study", "from studies.one import STUDY\n", "studies.one.STUDY"),
    ("studies/one/x", "from harness import plan\n", "harness.plan"),
    ("studies/one/x", "import studies.other.judge\n", "studies.other.judge"),
    ("studies/one/x", "from studies import other\n", "studies.other"),
    ("studies/one/x", "from ..other import judge\n", "studies.other.judge"),
    ("studies/one/x", "from studies import load\n", "studies.load"),
    ("studies/records", "from studies.one.body import x\n", "studies.one.body.x"),
])
def test_a_violation_is_seen(module: str, code: str, expected: str, tmp_path: Path) -> None:
    """The check itself: forbidden imports are found wherever and however they are written."""
    _write(tmp_path, module, code)
    seen = violations(module.partition("/")[0], tmp_path)
    assert len(seen) == 1
    assert seen[0].endswith(f": {expected}")


@pytest.mark.parametrize(("module", "code"), [
    ("analysis/x", "from measure.records.record import Record\n"),
    ("analysis/x", "from measure.records import record\n"),
    ("measure/x", "from policies.layers import LinkLayer\nimport topologies\n"),
    ("policies/x", "from policies.errors import PolicyError\nimport os\n"),
    ("studies/one/x", "from studies.study import Study\nfrom studies import study\n"),
    ("studies/one/x", "from studies.one import judge\nfrom .judge import y\nimport measure\n"),
    ("harness/x", "import studies\nfrom measure.agent import worker\nfrom guest import boot\n"),
])
def test_what_is_allowed_passes(module: str, code: str, tmp_path: Path) -> None:
    """The check itself: what the rule allows is not complained of."""
    _write(tmp_path, module, code)
    assert violations(module.partition("/")[0], tmp_path) == []


def _write(root: Path, module: str, code: str) -> None:
    """A module in a project of its own that has two studies, one and other."""
    for study in ("one", "other"):
        (root / "studies" / study).mkdir(parents=True, exist_ok=True)
        (root / "studies" / study / "__init__.py").touch()
    file = root / f"{module}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)


@pytest.mark.parametrize(("code", "at_once", "reaches"), [
    ("import pydantic\n", True, True),
    ("def f():\n    import pydantic\n", False, True),
    ("def f():\n    import pydantic\n", True, False),
    ("if TYPE_CHECKING:\n    import pydantic\n", False, False),
    ("from measure.inner import y\n", True, True),  # by way of its package
])
def test_imports_are_followed(code: str, at_once: bool, reaches: bool, tmp_path: Path) -> None:
    """The search itself: through packages, not for types, and functions only where asked."""
    (tmp_path / "measure" / "inner").mkdir(parents=True)
    (tmp_path / "measure" / "inner" / "__init__.py").write_text("import pydantic\n")
    (tmp_path / "measure" / "inner" / "y.py").touch()
    file = tmp_path / "measure" / "x.py"
    file.write_text(code)
    path = import_graph.path_to({"pydantic"}, file, tmp_path, at_once=at_once)
    assert bool(path) == reaches


def test_nothing_imports_the_scripts() -> None:
    """Scenarios as scripts are for people to run: the testbeds and the harness do without them."""
    scripts = ROOT / "topologies" / "examples"
    assert (scripts / "roaming.py").exists()
    own = {*sources("topologies/examples"), *sources("topologies/standalone")}
    for package in ALLOWED:
        for file in set(sources(package)) - own:
            for each in imports(file, ROOT):  # as above, where it is kept
                assert not each.name.startswith(
                    ("topologies.examples", "topologies.standalone")), (file, each)

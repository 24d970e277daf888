"""Test of one rule of CONTRIBUTING.md: a public class's name is defined once in the project."""

from __future__ import annotations

import re
from pathlib import Path

from import_graph import ROOT

PACKAGES = ("analysis", "guest", "harness", "measure", "policies", "protocols", "studies",
            "topologies")
#: Names that each study defines anew, because its contract asks for them by name.
CONTRACT = {"Asked", "Measured", "Workload"}
#: Where a contract's names may be defined: in the contract itself, and in studies.
CONTRACT_PLACES = ("studies/", "measure/workload.py")
#: Protocols implemented independently of each other, with vocabularies of their own.
VOCABULARIES = ("protocols/adp/", "protocols/authenticast/", "protocols/kerberos/")
_PUBLIC_CLASS = re.compile(r"^[ \t]*class ([A-Za-z]\w*)[(:]", re.M)


def repeated(root: Path = ROOT) -> dict[str, list[str]]:
    """Public classes' names that are defined more than once, and the files that do."""
    places: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            for name in _PUBLIC_CLASS.findall(path.read_text(encoding="utf-8")):
                places.setdefault(name, []).append(path.relative_to(root).as_posix())
    return {name: files for name, files in places.items()
            if len(files) > 1 and not _may_repeat(name, files)}


def _may_repeat(name: str, files: list[str]) -> bool:
    if name in CONTRACT:
        return all(file.startswith(CONTRACT_PLACES) for file in files)
    speaking = [vocabulary for file in files for vocabulary in VOCABULARIES
                if file.startswith(vocabulary)]
    return len(speaking) == len(files) == len(set(speaking))


def test_a_public_class_name_is_defined_once() -> None:
    """A reader who meets a class's name need not ask which of several is meant."""
    assert repeated() == {}


def _define(root: Path, file: str, *names: str) -> None:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"class {name}:\n    pass\n" for name in names))


def test_a_second_definition_is_seen(tmp_path: Path) -> None:
    """Of two modules with a class of one name, both are named; private classes may repeat."""
    _define(tmp_path, "harness/engine/one.py", "Verdict", "_Helper")
    _define(tmp_path, "analysis/two.py", "Verdict", "_Helper")
    assert repeated(tmp_path) == {"Verdict": ["analysis/two.py", "harness/engine/one.py"]}


def test_exceptions_hold_in_their_places_only(tmp_path: Path) -> None:
    """Protocols may share a name between them, not within one; a contract's stay in studies."""
    _define(tmp_path, "protocols/adp/effects.py", "Send", "Key")
    _define(tmp_path, "protocols/adp/keys.py", "Key")
    _define(tmp_path, "protocols/authenticast/effects.py", "Send")
    _define(tmp_path, "studies/one/asked.py", "Asked", "Workload")
    _define(tmp_path, "studies/two/asked.py", "Asked")
    _define(tmp_path, "harness/engine/workload.py", "Workload")
    assert sorted(repeated(tmp_path)) == ["Key", "Workload"]

"""docs/add-eap-method.md lists the places where the name of an EAP method occurs."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from doc_commands import PROJECT
from policies.eap_methods import METHODS, EapMethod

TEXT = (PROJECT / "docs" / "add-eap-method.md").read_text(encoding="utf-8")
FOLDERS = ("analysis", "ansible", "guest", "harness", "measure", "policies", "protocols", "studies",
           "topologies")
SUFFIXES = {".py", ".yml", ".j2", ".sh", ".c"}
#: Policies and recordings use methods; `python -m policies.schema` writes the other files.
USES = re.compile(r"^policies/[A-Z]\w*[\w-]*\.yml$|/recorded/|/published/|argument_specs\.yml$")


def required_places() -> list[str]:
    """Return the places of the page's first table."""
    return re.findall(r"^\| \d \| `([^`]+)` \|", TEXT, re.MULTILINE)


def further_places(method: str) -> list[str]:
    """Return the places of the page's second table that a method has."""
    rows = re.findall(r"^\| `([^`]+)` \|[^|]*\|([^|]*)\|([^|]*)\|$", TEXT, re.MULTILINE)
    column = {"PWD": 1, "TTLS": 2}[method]
    return [row[0] for row in rows if row[column].strip() == "yes"]


def places_of(method: str) -> set[str]:
    """Return the files of the product that name a method."""
    files = (path for folder in FOLDERS for path in (PROJECT / folder).rglob("*")
             if path.suffix in SUFFIXES)
    # "PWD", is the shell's variable in a list of variables.
    named = re.compile(rf"(?<![\w$]){method}\b")
    names = {path.relative_to(PROJECT).as_posix() for path in files
             if named.search(path.read_text(encoding="utf-8"))}
    return {name for name in names if not USES.search(name)} - {
        "harness/host_process.py", "harness/container/start", "guest/module/build.sh",
        "guest/programs/radio-init.c", "guest/vm/kernel.sh"}


def test_every_method_has_at_most_five_places() -> None:
    assert 1 <= len(required_places()) <= 5
    assert "policies/eap_methods.py" in required_places()


@pytest.mark.parametrize("method", ["PWD", "TTLS"])
def test_page_lists_where_a_methods_name_occurs(method: str) -> None:
    assert sorted([*required_places(), *further_places(method)]) == sorted(places_of(method))


def test_table_has_every_method_with_a_number_of_its_own() -> None:
    assert tuple(METHODS) == get_args(EapMethod)
    assert len({method.eap_type for method in METHODS.values()}) == len(METHODS)

"""Tests of the check of docstrings and names."""

from __future__ import annotations

import pytest

from harness import prose


@pytest.mark.parametrize(("source", "kinds"), [
    ('"""Ports of hosts."""', []),
    ('"""What a port is."""', ["docstrings"]),
    ('"""Ports; and hosts."""', ["docstrings"]),
    ('"""Ports, hosts, nodes, links."""', ["docstrings"]),
    (f'"""Return {"the " * 21}port."""', ["docstrings"]),
    ('"""Return the keys in force."""', ["docstrings"]),
    ("def open_port(port): ...", []),
    ("def is_open(self): ...", []),
    ("def close(): ...", ["one_word_functions"]),
    ("def told(): ...", ["names", "one_word_functions"]),
    ("async def open_port(*, told): ...", ["names"])])
def test_fault_is_found_by_its_kind(source: str, kinds: list[str]) -> None:
    """Docstrings by their first sentence and words, names by a list."""
    assert [kind for kind, _, _ in prose.find_faults(source)] == kinds


@pytest.mark.parametrize(("limit", "said"), [
    (1, ""), (0, "1 faults of names, and 0 are allowed; rewrite those that are new"),
    (2, "1 faults of names, and 2 are allowed; write names = 1 in pyproject.toml")])
def test_limits_can_only_fall(limit: int, said: str) -> None:
    """More faults than the limit fail, and so do fewer, until the limit is lowered."""
    lines = prose.compare_with_limits([("names", "a.py:1: bad")], {"names": limit})
    assert ("a.py:1: bad" in lines) == (limit == 0)
    assert lines[-1:] == ([f"prose: {said}"] if said else [])

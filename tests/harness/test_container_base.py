"""The container image's base: what makes another one, and what does not."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from conftest import PROJECT
from harness.container import base, image
from keyed import changing


def test_the_key_follows_what_goes_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package, a step, a rule, the lock and how it is packed make another base; words do not."""
    for path in [*base.HERE.glob("*.py"), base.LOCK]:
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(base, "HERE", tmp_path)
    monkeypatch.setattr(base, "LOCK", tmp_path / base.LOCK.name)
    words = [
        ("base.py", "# The environment is read-only", "# The environment cannot be written"),
        ("base.py", '"""Build the base layer in a folder', '"""Leave it in the folder'),
        ("base.py", '"wheels": 15', '"wheels": 16'), ("layout.py", "oci-layout", "layout"),
        ("slimming.py", "#: Packages", "#: Those")]
    deeds = [
        ("base.py", '"openssl", ', ""), ("base.py", '"purge"', '"remove"'),
        ("base.py", "LEVEL = 15", "LEVEL = 14"), ("layout.py", '"-T0"', '"-T1"'),
        ("slimming.py", '"usr/share/perl", ', ""), ("slimming.py", "rmtree(path)", "rmtree()"),
        (base.LOCK.name, "sha256", "sha255")]
    assert changing(tmp_path, base.key, words) == [False] * len(words)
    assert changing(tmp_path, base.key, deeds) == [True] * len(deeds)


def test_versions_in_the_labels_are_those_of_the_page() -> None:
    """What an image says was tried, docs/container.md says, too."""
    page = (PROJECT / "docs/container.md").read_text()
    for platform, text in image.NEEDS.items():
        _, _, tried = text.partition("Tried: ")
        assert all(version in page for version in re.findall(r"\d[\d.]+\d", tried)), platform
        assert tried or text.endswith("Not tried")

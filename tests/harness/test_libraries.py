"""Libraries that a host preloads are compiled once, whatever comes in between."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from harness.engine import machine
from measure.agent.errors import MeasureError
from measure.charging import library


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that compiles, in front of an empty cache."""
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "answer.c"
    path.write_text("int answer(void) { return 42; }\n")
    return path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compiled from now on, by content."""
    seen: list[str] = []
    real = library.compile_library

    def encoded(path: Path) -> str:
        seen.append(path.read_text())
        return real(path)
    monkeypatch.setattr(library, "compile_library", encoded)
    return seen


def test_what_is_kept_is_not_compiled_again(source: Path, compiled: list[str]) -> None:
    """The same comes of it, until its source is another."""
    first = machine.compile_for_host(source)
    assert base64.b64decode(first)[:4] == b"\x7fELF"
    assert machine.compile_for_host(source) == first and len(compiled) == 1
    source.write_text("int answer(void) { return 43; }\n")
    machine.compile_for_host(source)
    assert len(compiled) == 2


def test_a_cache_that_nobody_may_write_to_is_done_without(
        source: Path, tmp_path: Path, compiled: list[str]) -> None:
    """Then it is compiled each time."""
    (tmp_path / "cache").write_text("no folder")
    assert base64.b64decode(machine.compile_for_host(source))[:4] == b"\x7fELF"
    assert compiled


def test_one_that_cannot_be_compiled_is_nothing_and_is_not_kept(
        source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without a compiler; once there is one, it is compiled."""
    with monkeypatch.context() as without:
        def refuse(_: Path) -> str:
            raise MeasureError("testbed", "there is no C compiler")
        without.setattr(library, "compile_library", refuse)
        assert machine.compile_for_host(source) == ""
    assert machine.compile_for_host(source)

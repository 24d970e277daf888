"""The worker's code in a job folder is compiled already, and what is changed there counts."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from harness.engine import code
from harness.engine.code import copy_code


def output_of(job: Path, script: str, *options: str) -> str:
    """What a fresh Python that writes nothing says of a script beside a job's code."""
    done = subprocess.run([sys.executable, "-B", *options, "-c", script], cwd=job,
                          env={**os.environ, "PYTHONPATH": str(job)}, capture_output=True,
                          text=True, check=True)
    return done.stdout + done.stderr


def test_the_code_comes_compiled(tmp_path: Path) -> None:
    """A worker's Python takes every module of ours as it is, but for a study's emptied package."""
    copy_code(tmp_path / "code", "qop2007")
    sources = sorted((tmp_path / "code").rglob("*.py"))
    emptied = [path for path in sources if path.parent.name in ("studies", "qop2007")
               and path.name == "__init__.py"]
    assert len(sources) > 100 and len(emptied) == 2
    for path in set(sources) - set(emptied):
        compiled = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        stated = path.stat()
        assert compiled[:4] == importlib.util.MAGIC_NUMBER, path
        assert [int.from_bytes(compiled[at:at + 4], "little") for at in (4, 8, 12)] == [
            0, int(stated.st_mtime), stated.st_size], path
    said = output_of(tmp_path / "code", "import topologies.mobile_ip.packets", "-v")
    assert f"matches {tmp_path / 'code/topologies/mobile_ip/packets.py'}" in said


def test_what_is_changed_in_a_job_counts(tmp_path: Path) -> None:
    """Python compiles a changed copy anew, though it is as long as it was."""
    copy_code(tmp_path / "code")
    changed = tmp_path / "code/topologies/mobile_ip/packets.py"
    text = changed.read_text()
    assert "PORT = 434" in text
    changed.write_text(text.replace("PORT = 434", "PORT = 435"))
    assert output_of(tmp_path / "code", "from topologies.mobile_ip import packets\n"
                     "print(packets.PORT)").strip() == "435"


def test_each_job_has_its_own(tmp_path: Path) -> None:
    """What is changed in one is not changed in the next, which is the same as the first was."""
    copy_code(tmp_path / "1")
    changed = tmp_path / "1/topologies/mobile_ip/packets.py"
    original = changed.read_bytes()
    changed.write_text("PORT = 435\n")
    copy_code(tmp_path / "2")
    assert (tmp_path / "2/topologies/mobile_ip/packets.py").read_bytes() == original
    assert output_of(tmp_path / "2", "from topologies.mobile_ip import packets\n"
                     "print(packets.PORT)").strip() == "434"


def test_code_that_was_compiled_without_times_is_taken(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container image has it, whose sources are nobody's to change; in a job they are."""
    source = tmp_path / "project/measure/answer.py"
    source.parent.mkdir(parents=True)
    source.write_text("ANSWER = 42\n")
    py_compile.compile(str(source), invalidation_mode=(
        py_compile.PycInvalidationMode.UNCHECKED_HASH))
    monkeypatch.setattr(code, "_PROJECT", tmp_path / "project")
    monkeypatch.setattr(code.py_compile, "compile", None)
    copy_code(tmp_path / "job")
    said = output_of(tmp_path / "job", "from measure import answer\nprint(answer.ANSWER)", "-v")
    assert "42" in said.split() and f"matches {tmp_path / 'job/measure/answer.py'}" in said


def test_a_project_that_nobody_may_write_to_is_compiled_inside(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs have sources alone."""
    source = tmp_path / "project/measure/answer.py"
    source.parent.mkdir(parents=True)
    source.write_text("ANSWER = 42\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(code, "_PROJECT", tmp_path / "project")
    monkeypatch.setattr(code.py_compile, "compile", refuse)
    copy_code(tmp_path / "job")
    assert [path.name for path in (tmp_path / "job").rglob("*") if path.is_file()] == ["answer.py"]

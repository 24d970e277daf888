"""The worker's code is copied once for all jobs, and compiled already."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from guest.boot import CODE
from guest.cache import MANIFEST
from harness.engine import machine
from harness.engine.machine import link_worker_code


def output_of(job: Path, script: str, *options: str) -> str:
    """What a fresh Python that writes nothing says of a script beside a job's code."""
    folder = (job / CODE).resolve()
    done = subprocess.run([sys.executable, "-B", *options, "-c", script], cwd=folder,
                          env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True,
                          text=True, check=True)
    return done.stdout + done.stderr


#: By which a cache keeps two from building the same.
LOCK = ".lock"
Jobs = Callable[[str], Path]


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Makes job folders, whose code is kept in a cache of the test's own."""
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "cache"))

    def make(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name
    return make


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one source of a project."""
    source = tmp_path / "project/measure/answer.py"
    source.parent.mkdir(parents=True)
    source.write_text("ANSWER = 42\n")
    monkeypatch.setattr(machine, "ROOT", tmp_path / "project")
    return source


def start_anew() -> None:
    """As another process, which has not copied anything yet."""
    machine._cached_copy.cache_clear()


def entries(folder: Path) -> set[str]:
    """What is in it."""
    return {path.name for path in folder.iterdir()}


def said_answer(job: Path) -> str:
    return output_of(job, "from measure import answer\nprint(answer.ANSWER)", "-v")


def test_the_code_comes_compiled(jobs: Jobs) -> None:
    """A worker's Python takes every module of ours as it is, but for a study's emptied package."""
    job = jobs("1")
    folder = link_worker_code(job, "qop2007")
    assert (job / CODE).resolve() == folder
    sources = sorted(folder.rglob("*.py"))
    emptied = [path for path in sources if path.parent.name in ("studies", "qop2007")
               and path.name == "__init__.py"]
    assert len(sources) > 100 and len(emptied) == 2
    assert not any(path.read_bytes() for path in emptied)
    for path in set(sources) - set(emptied):
        compiled = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        stated = path.stat()
        assert compiled[:4] == importlib.util.MAGIC_NUMBER, path
        assert [int.from_bytes(compiled[at:at + 4], "little") for at in (4, 8, 12)] == [
            0, int(stated.st_mtime), stated.st_size], path
    said = output_of(job, "import topologies.mobile_ip.packets", "-v")
    assert f"matches {folder / 'topologies/mobile_ip/packets.py'}" in said


def test_a_run_keeps_to_the_code_it_began_with(jobs: Jobs, answer: Path) -> None:
    """What is changed in the project meanwhile counts for the next run, and for no job of this."""
    first = jobs("1")
    link_worker_code(first)
    answer.write_text("ANSWER = 43\n")
    second, third = jobs("2"), jobs("3")
    link_worker_code(second)
    start_anew()
    link_worker_code(third)
    assert [said_answer(job).splitlines().count("42") for job in (first, second, third)] == [
        1, 1, 0]
    assert "43" in said_answer(third).splitlines()


def test_the_same_code_is_copied_once(jobs: Jobs, answer: Path) -> None:
    """By all that run it, until it is changed, and what it was before is there still."""
    first = link_worker_code(jobs("1"))
    start_anew()
    assert link_worker_code(jobs("2")) == first
    before = answer.stat()
    answer.write_text("ANSWER = 43\n")  # as long, and of the same time
    os.utime(answer, ns=(before.st_atime_ns, before.st_mtime_ns))
    start_anew()
    assert link_worker_code(jobs("3")) != first
    assert (first / "measure/answer.py").read_text() == "ANSWER = 42\n"


@pytest.mark.parametrize("damaged", ["measure/answer.py", "measure/__pycache__"])
@pytest.mark.usefixtures("answer")
def test_a_copy_that_a_power_cut_emptied_is_made_again(jobs: Jobs, damaged: str) -> None:
    """Whatever file of it."""
    folder = link_worker_code(jobs("1"))
    place = folder / damaged
    for path in place.iterdir() if place.is_dir() else [place]:
        path.write_bytes(b"")
    start_anew()
    job = jobs("2")
    assert link_worker_code(job) == folder
    assert "42" in said_answer(job).splitlines()
    assert entries(folder.parent) == {LOCK, folder.name}


@pytest.mark.usefixtures("answer")
def test_of_two_that_copy_at_once_the_first_ones_stays(
        jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Testbeds run what is in it already."""
    given: list[Path] = []
    waiting = threading.Thread(target=lambda: given.append(link_worker_code(jobs("slower"))))

    def fill(folder: Path, files: dict[str, machine._CodeFile]) -> None:
        if waiting.ident is None:  # meanwhile another one begins to copy the same
            waiting.start()
            time.sleep(0.3)
        real(folder, files)
        filled.append(folder.stat().st_ino)
    filled: list[int] = []
    real = machine._write_files
    monkeypatch.setattr(machine, "_write_files", fill)
    folder = link_worker_code(jobs("1"))
    waiting.join()
    assert given == [folder] and filled == [folder.stat().st_ino]
    assert entries(folder.parent) == {LOCK, folder.name}


@pytest.mark.parametrize(("days", "stays"), [(29, True), (31, False)])
def test_a_copy_that_no_job_took_for_a_month_goes(jobs: Jobs, answer: Path, days: int,
                                                  stays: bool) -> None:
    """When another one is made."""
    old = link_worker_code(jobs("1"))
    then = old.stat().st_mtime - days * 24 * 3600
    os.utime(old, (then, then))
    answer.write_text("ANSWER = 43\n")
    start_anew()
    link_worker_code(jobs("2"))
    assert old.exists() == stays


def test_a_job_that_takes_a_copy_keeps_it(jobs: Jobs, answer: Path) -> None:
    """However long ago it was made."""
    old = link_worker_code(jobs("1"))
    os.utime(old, (1, 1))
    start_anew()
    link_worker_code(jobs("2"))
    answer.write_text("ANSWER = 43\n")
    start_anew()
    link_worker_code(jobs("3"))
    assert old.exists()


@pytest.mark.usefixtures("answer")
def test_a_cache_that_nobody_may_write_to_is_done_without(
        jobs: Jobs, tmp_path: Path) -> None:
    """Each job has the code in its own folder then."""
    (tmp_path / "cache").write_text("no folder")
    for name in ("1", "2"):
        job = jobs(name)
        start_anew()
        assert link_worker_code(job) == job / CODE
        assert not (job / CODE).is_symlink()
        assert "42" in said_answer(job).splitlines()


def test_code_that_was_compiled_without_times_is_taken(
        jobs: Jobs, answer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container image has it, whose sources are nobody's to change; in a job they are."""
    py_compile.compile(str(answer), invalidation_mode=(
        py_compile.PycInvalidationMode.UNCHECKED_HASH))
    monkeypatch.setattr(machine.py_compile, "compile", None)
    job = jobs("1")
    folder = link_worker_code(job)
    said = said_answer(job)
    assert "42" in said.split() and f"matches {folder / 'measure/answer.py'}" in said


@pytest.mark.usefixtures("answer")
def test_a_project_that_nobody_may_write_to_is_compiled_inside(
        jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs have sources alone."""
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(machine.py_compile, "compile", refuse)
    folder = link_worker_code(jobs("1"))
    assert {path.name for path in folder.rglob("*") if path.is_file()} == {"answer.py", MANIFEST}

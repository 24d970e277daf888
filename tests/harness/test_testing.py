"""`qop test` and `qop lint`: what is run side by side, what by itself, and what is chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import conftest
from harness.commands import test as testing

PROJECT = conftest.PROJECT
CPUS = str(len(os.sched_getaffinity(0)))
WITHOUT = ("--guests=without", "--numprocesses", CPUS, "--dist=worksteal")
ONLY = ("--guests=only",)
ITSELF = Path(__file__).relative_to(PROJECT)


@pytest.mark.parametrize(("arguments", "expected"), [
    ((), [WITHOUT, ONLY]),
    (("-k", "medium", "-x"), [WITHOUT, ONLY]),
    (("tests/harness",), [WITHOUT, ONLY]),
    (("-m", "qop2007"), [WITHOUT, ONLY]),
    (("-m", "not guest"), [WITHOUT]),
    ((str(ITSELF), "-x"), [()]),
    ((f"{ITSELF}::test_nothing", "--pdb"), [()]),
    (("-k", "medium", "--pdb"), [()]),
    (("--co", "-q"), [()]),
])
def test_guests_have_the_processor_to_themselves(
        arguments: Sequence[str], expected: list[tuple[str, ...]]) -> None:
    """What boots guests comes last and one by one; files that are named are run as they stand."""
    assert list(testing.passes(arguments)) == expected


@pytest.mark.parametrize(("statuses", "expected"), [
    ([0, 0], 0), ([0, 5], 0), ([5, 0], 0), ([5, 5], 5), ([5], 5), ([1, 0], 1), ([0, 1], 1),
    ([5, 1], 1), ([-9, 0], -9), ([2], 2),
])
def test_the_exit_status_is_that_of_all(statuses: list[int], expected: int) -> None:
    """One pass without any test is no error, unless the other has none, too."""
    assert testing.outcome(statuses) == expected


@pytest.mark.parametrize(("path", "expected"), [
    ("test_layering.py", []),
    ("harness/test_testing.py", ["room_harness"]),
    ("harness/cluster/test_x.py", ["room_harness"]),
    ("studies/qop2007/test_x.py", ["room_studies", "qop2007"]),
    ("studies/test_contract.py", ["room_studies"]),
])
def test_a_test_has_the_markers_of_its_folders(path: str, expected: list[str]) -> None:
    """Its room's, and its study's if it has one."""
    assert conftest.markers(conftest.TESTS / path) == expected


@pytest.mark.parametrize(("options", "expected"), [
    (["--guests=without"], {"test_here"}), (["--guests=only"], {"test_there"}),
    ([], {"test_here", "test_there"}), (["-m", "room_harness"], {"test_here", "test_there"}),
    (["-m", "room_harness", "--guests=only"], {"test_there"}),
    (["-m", "room_measure"], set()),
])
def test_tests_are_chosen(options: list[str], expected: set[str], tmp_path: Path) -> None:
    """By whether they boot guests and by their folder's marker, for real pytest."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-markers\nasyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = function\nmarkers =\n    guest: boots a guest\n")
    tests = tmp_path / "tests"
    (tests / "harness").mkdir(parents=True)
    (tests / "conftest.py").write_text((conftest.TESTS / "conftest.py").read_text())
    for room in ("harness", "measure"):
        (tests / room).mkdir(exist_ok=True)
        (tests / room / f"test_{room}.py").touch()
    (tests / "harness" / "test_harness.py").write_text(
        "import pytest\ndef test_here(): pass\n@pytest.mark.guest\ndef test_there(): pass\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "--co", "-q", *options], cwd=tmp_path,
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": f"{PROJECT}:{conftest.TESTS}"})
    seen = {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}
    assert seen == expected, done.stdout + done.stderr
    assert done.returncode == (0 if expected else 5)

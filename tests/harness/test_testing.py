"""`qop test` and `qop lint`: what is run side by side, what by itself, and what is chosen."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import compiled
import conftest
from harness.commands import test as testing

PROJECT = conftest.PROJECT
CPUS = len(os.sched_getaffinity(0))
ALL = [("--guests=without", "--numprocesses", str(CPUS + 1), "--dist=worksteal"),
       ("--guests=shareable", "--numprocesses", str(min(2 * CPUS, 3)), "--no-loadscope-reorder"),
       ("--guests=exclusive",)]
ITSELF = Path(__file__).relative_to(PROJECT)


@pytest.mark.parametrize(("arguments", "expected"), [
    ((), ALL),
    (("-k", "medium", "-x"), ALL),
    (("tests/harness",), ALL),
    (("-m", "qop2007"), ALL),
    (("-m", "not guest"), ALL[:1]),
    ((str(ITSELF), "-x"), [()]),
    ((f"{ITSELF}::test_nothing", "--pdb"), [()]),
    (("-k", "medium", "--pdb"), [()]),
    (("--co", "-q"), [()]),
])
def test_what_is_run_beside_what(
        arguments: Sequence[str], expected: list[tuple[str, ...]]) -> None:
    """What measures in time comes last, by itself; files that are named are run as they stand."""
    assert list(testing.pytest_passes(arguments)) == expected


@pytest.mark.parametrize(("statuses", "expected"), [
    ([0, 0], 0), ([0, 5], 0), ([5, 0], 0), ([5, 5], 5), ([5], 5), ([1, 0], 1), ([0, 1], 1),
    ([5, 1], 1), ([-9, 0], -9), ([2], 2),
])
def test_the_exit_status_is_that_of_all(statuses: list[int], expected: int) -> None:
    """One pass without any test is no error, unless the other has none, too."""
    assert testing.overall_status(statuses) == expected


@pytest.mark.parametrize(("tries", "arguments", "expected", "calls"), [
    (2, (), 0, 2), (3, (), 1, 2), (2, ("-x",), 2, 1)])
def test_failed_tests_run_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tries: int,
                                    arguments: tuple[str, ...], expected: int, calls: int) -> None:
    """A test that fails twice has failed. With -x nothing runs once more."""
    (tmp_path / "conftest.py").write_text(
        'def pytest_addoption(parser):\n    parser.addoption("--guests")\n')
    (tmp_path / "test_of_a_folder.py").write_text(f"""
def test_succeeds_later():
    with open("calls", "a+") as file:
        file.write("x")
        file.seek(0)
        assert len(file.read()) >= {tries}
def test_succeeds():
    pass
""")
    monkeypatch.setattr(testing, "ROOT", tmp_path)
    monkeypatch.setattr(testing, "pytest_passes", lambda _: [("--numprocesses", "2")])
    assert testing.command.callback is not None
    assert testing.command.callback(arguments) == expected
    assert len((tmp_path / "calls").read_text()) == calls


_TESTING_ELSEWHERE = """
import sys
from pathlib import Path
from harness.commands import test
test.ROOT = Path(sys.argv[1])
test.pytest_passes = lambda _: [("--numprocesses", "1")]
sys.exit(test.command.callback(()))
"""


def test_sigterm_ends_pytest_and_its_processes(tmp_path: Path) -> None:
    """`qop test` ends only after them, and no second pass begins."""
    (tmp_path / "test_of_a_folder.py").write_text("""
import os, time
from pathlib import Path
def test_begins():
    Path("pids").write_text(f"{os.getpid()} {os.getppid()}")
    time.sleep(600)
""")
    with subprocess.Popen([sys.executable, "-c", _TESTING_ELSEWHERE, tmp_path],
                          cwd=PROJECT) as running:
        conftest.wait_until(lambda: (tmp_path / "pids").exists()
                            and len((tmp_path / "pids").read_text().split()) == 2)
        running.terminate()
        assert running.wait() == 128 + signal.SIGTERM
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path("/proc", pid).exists()


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


#: What `--guests` and `-m` choose of three tests.
CHOSEN = [
    (["--guests=without"], {"test_here"}), (["--guests=only"], {"test_there", "test_beside"}),
    (["--guests=shareable"], {"test_beside"}), (["--guests=exclusive"], {"test_there"}),
    ([], {"test_here", "test_there", "test_beside"}),
    (["-m", "room_harness", "--guests=only"], {"test_there", "test_beside"}),
    (["-m", "room_measure"], set()),
]
#: Has pytest choose once for each line of options; starting it takes longer than that.
CHOOSE = """
import sys, pytest
for options in sys.argv[1:]:
    print("exit status", int(pytest.main(["--co", "-q", *options.split()])), flush=True)
"""


def test_tests_are_chosen(tmp_path: Path) -> None:
    """By whether they boot guests, may be disturbed, and by their folder's marker."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-markers\nasyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = function\nmarkers =\n    guest: boots a guest\n"
        "    shareable: may be disturbed\n")
    tests = tmp_path / "tests"
    (tests / "harness").mkdir(parents=True)
    (tests / "conftest.py").write_text((conftest.TESTS / "conftest.py").read_text())
    for room in ("harness", "measure"):
        (tests / room).mkdir(exist_ok=True)
        (tests / room / f"test_{room}.py").touch()
    (tests / "harness" / "test_harness.py").write_text(
        "import pytest\ndef test_here(): pass\n@pytest.mark.guest\ndef test_there(): pass\n"
        "@pytest.mark.guest\n@pytest.mark.shareable\ndef test_beside(): pass\n")
    done = subprocess.run(
        [sys.executable, "-c", CHOOSE, *(" ".join(options) for options, _ in CHOSEN)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{PROJECT}:{conftest.TESTS}"})
    said = re.split(r"exit status (\d)\n", done.stdout)
    assert len(said) == 2 * len(CHOSEN) + 1, done.stdout + done.stderr
    for (options, expected), lines, status in zip(CHOSEN, said[::2], said[1::2], strict=False):
        seen = {line.partition("::")[2] for line in lines.splitlines() if "::" in line}
        assert (options, seen) == (options, expected)
        assert int(status) == (0 if expected else 5)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_shareable_guests_have_a_processor_each(tmp_path: Path) -> None:
    """Those that go on beside each other are on one each, on all; a shared fixture is one."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
        "markers =\n    guest: boots a guest\n    shareable: may be disturbed\n")
    (tmp_path / "conftest.py").write_text((conftest.TESTS / "conftest.py").read_text())
    (tmp_path / "test_made.py").write_text(
        "import os, pathlib, pytest\npytestmark = [pytest.mark.guest, pytest.mark.shareable]\n"
        "def say(what):\n"
        "    with (pathlib.Path(__file__).parent / 'said').open('a') as said:\n"
        "        said.write(f'{what} {sorted(os.sched_getaffinity(0))}\\n')\n"
        "@pytest.fixture(scope='module')\ndef made(): say('made')\n"
        "@pytest.mark.parametrize('number', range(9))\ndef test_it(made, number): pass\n")
    (tmp_path / "test_others.py").write_text(
        "from test_made import say\nimport pytest\n"
        "pytestmark = [pytest.mark.guest, pytest.mark.shareable]\n"
        "@pytest.mark.parametrize('number', range(9))\ndef test_core(number): say('core')\n")
    # One that has none of them is not even imported.
    (tmp_path / "test_unasked.py").write_text("raise RuntimeError('imported')\n")
    [_, shareable, _] = testing.pytest_passes(())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *shareable, "--numprocesses=2"], cwd=tmp_path,
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{PROJECT}:{conftest.TESTS}"})
    assert done.returncode == 0, done.stdout + done.stderr
    said = (tmp_path / "said").read_text().splitlines()
    assert sum(line.startswith("made") for line in said) == 1
    where = {line.partition(" ")[2] for line in said}
    assert len(where) == 2 and not any("," in processors for processors in where)


def test_what_comes_first_is_there() -> None:
    """What is renamed does not lose its place unnoticed."""
    there = {f"/{path.relative_to(conftest.TESTS)}": path.read_text()
             for path in conftest.TESTS.rglob("test_*.py")}
    for name in conftest.GuestScheduling.FIRST:
        assert any(path.endswith(f"/{name}") or f"def {name}(" in text
                   for path, text in there.items()), name


def test_the_longest_come_first() -> None:
    """By their file, or by their own name before the rest of it; others keep their order."""
    tests = ["tests/a/test_a.py::test_a", "tests/harness/test_faults.py::test_b",
             "tests/harness/test_faults.py::test_bench_faults_finds_nothing",
             "tests/guest/test_box.py::test_box_is_what_vagrant_takes"]
    assert sorted(tests, key=conftest.GuestScheduling.place) == [
        tests[3], tests[2], tests[1], tests[0]]


@pytest.mark.parametrize(("name", "tail"), [
    ("test_x.py", compiled.rewrite.PYC_TAIL), ("x.py", f".{sys.implementation.cache_tag}.pyc")])
def test_a_module_is_compiled_once(name: str, tail: str, tmp_path: Path,
                                   request: pytest.FixtureRequest) -> None:
    """By the first process of a run, and again only after it was changed."""
    file = tmp_path / name
    file.write_text("def test_it():\n    assert 1 == 1\n")
    compiled.compile_one(request.config, file)
    made = tmp_path / "__pycache__" / f"{file.stem}{tail}"
    first = made.read_bytes()
    made.touch()
    stamp = made.stat().st_mtime_ns
    compiled.compile_one(request.config, file)
    assert made.stat().st_mtime_ns == stamp
    file.write_text("def test_it():\n    assert 22 == 22\n")
    os.utime(file, (1, 1))
    compiled.compile_one(request.config, file)
    assert made.read_bytes() != first

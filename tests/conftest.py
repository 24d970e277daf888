"""Shared by the end-to-end tests: the command line as a user starts it, and who is left over."""

from __future__ import annotations

import functools
import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling, Scheduling

import compiled
import shared
from guest import image as guest_image
from measure.records import record
from measure.records.record import Record

PROJECT = Path(__file__).parent.parent
# What modules hold stays: looking through it again and again while they are imported is in vain.
gc.disable()
# Tests are of one builder, whatever this machine has beside it; test_builders.py is of both.
os.environ["QOP_BUILDER"] = "mininet"
# Tables are as wide as without a terminal, whatever terminal or CI starts the tests.
os.environ.pop("COLUMNS", None)
# A shell starts what it runs in the background with Ctrl-C ignored; programs under test heed it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# What waited for the processor is right all the same; measured once more, it would only be slower.
KEEP_FLAGGED = {"QOP_FLAGGED": "keep"}
# No test bounds a time: not that of an example, nor that of making one, whatever was thrown away
# for it. Every run draws other examples: what thirty pass over is found by a later run.
settings.register_profile("qop", deadline=None, max_examples=30, suppress_health_check=[
    HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large,
    HealthCheck.function_scoped_fixture])
settings.load_profile("qop")


#: How long tests wait for what has to come about, on whatever machine.
PATIENCE_S = 900.0


class Qop:
    """The command line in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def argv(self, *arguments: str) -> list[str]:
        """The command as a list; the environment of these tests is already the project's own."""
        return [sys.executable, "-m", "harness", *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it and go on."""
        return subprocess.Popen(self.argv(*arguments), cwd=self.folder, text=True,
                                env=self.environment(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __call__(self, *arguments: str,
                 timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(self.argv(*arguments), cwd=self.folder, text=True, timeout=timeout_s,
                              capture_output=True, check=False, env=self.environment())

    @staticmethod
    def environment() -> dict[str, str]:
        """What it finds in its environment."""
        return {**KEEP_FLAGGED, **os.environ, "PYTHONPATH": str(PROJECT)}

    def run(self, out: str, *arguments: str) -> tuple[subprocess.CompletedProcess[str],
                                                      dict[str, Record]]:
        """`qop run` with small streams, in N2 unless said: how it ended, its records by name."""
        unless_said = [] if "--scenarios" in arguments else ["--scenarios", "N2"]
        done = self("run", "--out", out, "--stream-bytes", "200k", *unless_said, *arguments)
        return done, self.records(out)

    def records(self, out: str) -> dict[str, Record]:
        """The good records of a results folder by name; anything else there fails the test."""
        found, complaints = record.read_records(self.folder / out / "records")
        assert not complaints, complaints
        return {entry.name: entry for entry in found}

    def left_over(self, patience_s: float = 5.0) -> list[str]:
        """Command lines of processes that still work in this folder, after some patience."""
        until = time.monotonic() + patience_s
        while (found := _processes_naming(str(self.folder))) and time.monotonic() < until:
            time.sleep(0.05)
        return found


def _processes_naming(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = os.readlink(entry / "cwd")
        except OSError:
            continue
        if text in line or place.startswith(text):
            found.append(f"{entry.name}: {line or place}")
    return found


TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """`./qop test` runs what boots guests by itself, after everything else."""
    parser.addoption("--guests", choices=("with", *CHOICES), default="with",
                     help="also, not or only run tests that boot guests; of these, only those that "
                          "may run beside others, or those that may not")


def pytest_configure(config: pytest.Config) -> None:
    """Each room of the tests has a marker, and each study has one."""
    for marker in sorted({marker for file in TESTS.glob("*/**/test_*.py")
                          for marker in markers(file)}):
        config.addinivalue_line("markers", f"{marker}: by the folder that a test is in")


#: Which tests `--guests` chooses, by whether they boot guests and whether these may be disturbed.
CHOICES: dict[str, Callable[[bool, bool], bool]] = {
    "without": lambda boots, _: not boots, "only": lambda boots, _: boots,
    "shareable": lambda boots, shareable: boots and shareable,
    "exclusive": lambda boots, shareable: boots and not shareable}


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Guests that go on beside each other have an order of their own."""
    return GuestScheduling(config, log) if config.getoption("--guests") == "shareable" else None


class GuestScheduling(LoadScopeScheduling):
    """Hands out tests one by one, but a file with a fixture for all its tests as a whole.

    Two processes would make it twice, and each would find the other at work in its folder.
    """

    #: What takes longest, in this order: what began last would be waited for by itself.
    FIRST = ("test_box.py", "test_hosts.py", "qop2007/test_scenarios.py",
             "test_bench_faults_finds_nothing", "test_container.py", "test_interruption.py",
             "qop2007/test_end_to_end.py", "test_faults.py",
             "authenticast1998/test_end_to_end.py", "krb5today/test_guest.py",
             "test_builders.py", "test_campaign.py", "test_docs_run.py", "test_cluster_guest.py",
             "adp1987/test_guest.py", "test_virtual.py", "kerberos2002/test_guest.py",
             "test_sampling.py")

    def _split_scope(self, nodeid: str) -> str:
        path, _, _ = nodeid.partition("::")
        return path if makes_once(self.config.rootpath / path) else nodeid

    @classmethod
    def place(cls, nodeid: str) -> int:
        """When a test has its turn; as many as are alike keep their order."""
        return next((number for number, name in enumerate(cls.FIRST)
                     if f"/{name}:" in nodeid or nodeid.endswith(f"::{name}")), len(cls.FIRST))


@functools.cache
def makes_once(file: Path) -> bool:
    """Whether the tests of a file share something that is made once in a process."""
    return re.search(r"scope=['\"](module|session)", file.read_text()) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files without a test that `--guests` may choose are not imported: that takes seconds."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    choice, text = config.getoption("--guests"), collection_path.read_text()
    if choice == "without":
        return ALL_BOOT.search(text) is not None or None
    return (choice != "with" and "mark.guest" not in text) or None


#: All tests of such a file boot guests.
ALL_BOOT = re.compile(r"^pytestmark = .*\bmark\.guest\b", re.MULTILINE)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """What one of the processes compiles, the others do not."""
    rooms = [*sorted(file.parent for file in PROJECT.glob("*/__init__.py")), TESTS]
    compiled.share(session.config, [file for room in rooms for file in sorted(room.rglob("*.py"))])


def take_a_processor(session: pytest.Session) -> None:
    """Guests that go on beside each other: a processor for each process of the tests.

    A run in it then measures one testbed at a time, as it would alone. The image is built before,
    by all processors, where this machine has none.
    """
    config = session.config
    if config.getoption("--guests") != "shareable" or not hasattr(config, "workerinput"):
        return
    if session.items and config.rootpath == PROJECT:
        guest_image.ensure_image()
    number, processors = int(config.workerinput["workerid"][2:]), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(processors)[number % len(processors)]})


def pytest_collection_finish(session: pytest.Session) -> None:
    """What all modules hold is garbage never: looking at it over and over took a twentieth."""
    take_a_processor(session)
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by the folder they are in, then choose by whether they boot guests."""
    for item in items:
        for marker in markers(item.path):
            item.add_marker(marker)
    if (guests := config.getoption("--guests")) == "with":
        return
    chosen = [item for item in items if CHOICES[guests](
        bool(item.get_closest_marker("guest")), bool(item.get_closest_marker("shareable")))]
    left = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = chosen
    if guests == "shareable":
        items.sort(key=lambda item: GuestScheduling.place(item.nodeid))


def markers(path: Path) -> list[str]:
    """The markers of a test's file, by its folders below tests/."""
    room, *below = path.relative_to(TESTS).parent.parts or [""]
    return [f"room_{room}", *(below[:1] if room == "studies" else [])] if room else []


@pytest.fixture(scope="session", autouse=True)
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `shared.once` keeps what it makes."""
    return shared.in_folder(tmp_path_factory)


@pytest.fixture
def qop(tmp_path: Path) -> Qop:
    """The command line in a temporary folder."""
    return Qop(tmp_path)


@pytest.fixture
def qop_here(tmp_path: Path) -> Qop:
    """The same in this process, for tests that say nothing of processes."""
    from in_process import QopHere

    return QopHere(tmp_path)


#: What tests share that look at results: six policies at home and away, see `measured`.
MEASURED = ("P1", "P2", "P3", "P7", "P8", "P12")
#: The clock of tests whose claim is about what happens, and not about how long it takes.
VIRTUAL = ("--clock", "virtual")


@pytest.fixture(scope="session")
def measured(shared_qop: Qop) -> dict[str, Record]:
    """A run in real time, whose folder `measured` many tests look at: its records by name."""
    def measure() -> dict[str, Record]:
        done, records = shared_qop.run("measured", "--policies", ",".join(MEASURED), "--scenarios",
                                       "N2,R1", "--repetitions", "1")
        assert done.returncode == 0, done.stderr
        return records

    return shared.once("measured", measure)


@pytest.fixture(scope="session")
def shared_qop(shared_folder: Path) -> Qop:
    """The command line in a folder that all tests of a run share, whatever process they are in."""
    return Qop(shared.folder("qop"))


def checks(found: Record) -> dict[str, str]:
    """A record's evidence: what holds, with its detail."""
    return {check.check: check.detail for check in found.evidence if check.ok}


def wait_until(condition: Sequence[object] | object, seconds: float = PATIENCE_S) -> None:
    """Wait for a callable to become true; fails the test at the deadline."""
    assert callable(condition)
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "did not come about in time"
        time.sleep(0.05)

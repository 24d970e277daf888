"""`qop test`: run qop's own tests with pytest, in up to three groups.

This is for developers of qop. Arguments go to pytest. `pytest_passes` divides the tests: those
without guests (virtual machines), those with guests, and last those that measure time, one at a
time. Tests that fail run once more, one at a time, because a busy machine can make a test miss a
deadline. The exit status shows whether all passed, at the second time at the latest.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

import click

from harness.engine.machine import ROOT
from harness.errors import UserError

#: pytest's exit statuses when tests failed, and when nothing was selected.
FAILED, NOTHING = 1, 5
#: Tests with guests in parallel: for each processor, and at most. They wait half of their time for
#: packets, deadlines and clocks.
GUESTS_A_PROCESSOR, GUESTS_AT_ONCE = 2, 3
#: pytest's options that stop at the first failure.
STOPS = {"-x", "--exitfirst", "--maxfail=1"}
#: pytest's options that need a single process, or run no test.
TOGETHER = {"--pdb", "--trace", "-s", "--capture=no", "--collect-only", "--co", "--version",
            "--fixtures", "--markers"}


@click.command("test", context_settings={"help_option_names": ["-h", "--help"],
                                         "ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGUMENT]...")
def command(arguments: tuple[str, ...]) -> int:
    """Run the tests. Arguments go to pytest ('-m "not guest"' leaves out guest tests)."""
    if importlib.util.find_spec("pytest") is None:
        raise UserError("test: pytest is missing; start it as './qop test', which installs it")
    statuses = []
    for options in pytest_passes(arguments):
        statuses.append(_run_pytest("--durations=25", *options, *arguments))
        stops = statuses[-1] not in (0, NOTHING) and STOPS & set(arguments)
        if statuses[-1] == FAILED and options and not stops:
            click.echo("qop test: the failed tests run once more, one at a time", err=True)
            again = _run_pytest("--last-failed", "--last-failed-no-failures=none", "-x",
                                *options, "--numprocesses=0", *arguments)
            statuses[-1] = again if again != NOTHING else FAILED
        if stops:
            break
    return overall_status(statuses)


def _run_pytest(*arguments: str) -> int:
    """Run pytest and return its exit status. SIGTERM interrupts it, so it ends its processes."""
    def interrupt_pytest(number: int, _: FrameType | None) -> None:
        running.send_signal(signal.SIGINT)
        sys.exit(128 + number)

    with subprocess.Popen([sys.executable, "-m", "pytest", *arguments], cwd=ROOT) as running:
        before = signal.signal(signal.SIGTERM, interrupt_pytest)
        try:
            return running.wait()
        finally:
            signal.signal(signal.SIGTERM, before)


def pytest_passes(arguments: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the arguments for each call of pytest: the tests run in up to three groups.

    Tests that measure time need the whole machine. Other tests with guests share the processors.
    Tests without guests run in one process more than there are processors, because some wait.

    If the arguments name files, one process runs all tests. A second process would take longer to
    start than most files take to run, and the output appears as it is written.
    """
    if TOGETHER & set(arguments) or any(map(_is_file, arguments)):
        yield ()
        return
    processors = len(os.sched_getaffinity(0))
    # Each process starts with different files, so that shared fixtures of a file are created once.
    yield "--guests=without", "--numprocesses", str(processors + 1), "--dist=worksteal"
    # The documented way to leave out tests with guests. Other selections without such tests only
    # take longer.
    if "not guest" not in arguments:
        yield ("--guests=shareable", "--numprocesses",
               str(min(processors * GUESTS_A_PROCESSOR, GUESTS_AT_ONCE)),
               "--no-loadscope-reorder")  # tests/conftest.py puts the longest tests first
        yield "--guests=exclusive",


def _is_file(argument: str) -> bool:
    path, _, _ = argument.partition("::")
    return not path.startswith("-") and (ROOT / path).is_file()


def overall_status(statuses: Sequence[int]) -> int:
    """Return the first exit status of all pytest calls that shows a failure.

    "No test selected" is a failure only if no call selected a test.
    """
    bad = [status for status in statuses if status not in (0, NOTHING)]
    return bad[0] if bad else min(statuses)

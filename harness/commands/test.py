"""`qop test`: the project's own tests, those that may not be disturbed last and by themselves."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import click

from harness.engine.machine import ROOT
from harness.errors import UserError

#: pytest's exit status when nothing was selected.
NOTHING = 5
#: Tests with guests that go on beside each other: on each processor, and at most. They wait half of
#: their time, for packets, deadlines and clocks.
GUESTS_A_PROCESSOR, GUESTS_AT_ONCE = 2, 3
#: With these, whatever fails ends the tests.
STOPS = {"-x", "--exitfirst", "--maxfail=1"}
#: These want to see a single process, or run no test.
TOGETHER = {"--pdb", "--trace", "-s", "--capture=no", "--collect-only", "--co", "--version",
            "--fixtures", "--markers"}


@click.command("test", context_settings={"help_option_names": ["-h", "--help"],
                                         "ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGUMENT]...")
def command(arguments: tuple[str, ...]) -> int:
    """Run the tests; arguments go to pytest ('-m "not guest"' leaves out what boots guests)."""
    if importlib.util.find_spec("pytest") is None:
        raise UserError("test: pytest is missing; start it as './qop test', which installs it")
    statuses = []
    for options in passes(arguments):
        statuses.append(subprocess.run(
            [sys.executable, "-m", "pytest", "--durations=25", *options, *arguments], cwd=ROOT,
            check=False).returncode)
        if statuses[-1] not in (0, NOTHING) and STOPS & set(arguments):
            break
    return outcome(statuses)


def passes(arguments: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """What pytest is told, one start after the other.

    What measures in time wants the whole machine to itself; other guests have a processor each,
    which they share. One process more than there are processors computes while others wait.

    Files that are named are tested in one process: by the time that another one has started, most
    of them are through, and their output is seen as it comes.
    """
    if TOGETHER & set(arguments) or any(map(_is_file, arguments)):
        yield ()
        return
    processors = len(os.sched_getaffinity(0))
    # Each process begins with files of its own, so that what a file's tests share is made once.
    yield "--guests=without", "--numprocesses", str(processors + 1), "--dist=worksteal"
    # The documented way to leave them out; whatever else selects none of them just takes longer.
    if "not guest" not in arguments:
        yield ("--guests=shareable", "--numprocesses",
               str(min(processors * GUESTS_A_PROCESSOR, GUESTS_AT_ONCE)),
               "--no-loadscope-reorder")  # tests/conftest.py has those first that take longest
        yield "--guests=exclusive",


def _is_file(argument: str) -> bool:
    path, _, _ = argument.partition("::")
    return not path.startswith("-") and (ROOT / path).is_file()


def outcome(statuses: Sequence[int]) -> int:
    """The first bad exit status; that nothing was selected is bad if no pass selected anything."""
    bad = [status for status in statuses if status not in (0, NOTHING)]
    return bad[0] if bad else min(statuses)

"""What a mobile node's program said of one link says nothing of the next, and nobody polls it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from measure.agent.errors import MeasureError
from measure.services.mobile_ip import RegistrationDaemon

#: Answers each command with the next of these texts, the first at once; each in one piece.
_PROGRAM = """
import sys
for said in {said!r}:
    sys.stdout.write(said + "\\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        break
"""


def program(tmp_path: Path, *said: str) -> RegistrationDaemon:
    """A program that says this, a line for each command and one before."""
    argv = [sys.executable, "-c", _PROGRAM.format(said=said)]
    return RegistrationDaemon("mn", lambda line, errors: subprocess.Popen(
        argv, stdin=line, stdout=line, stderr=errors), tmp_path / "log")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RegistrationDaemon]:
    """One that is ready, has much to say when it is told something, and then registers."""
    lines = ("ready", "registered", "failed")
    before = [json.dumps({"event": name, "reason": "of before"}) for name in lines]
    with program(tmp_path, "\n".join(["no JSON", *before]), '{"event": "denied", "code": 69}',
                 '{"event": "registered", "link": 2}') as made:
        made.wait_ready()
        yield made


def test_a_renewal_of_before_does_not_end_the_wait(running: RegistrationDaemon,
                                                   tmp_path: Path) -> None:
    """Nor does a failure of then: only what comes after the new link counts. All is logged."""
    # It said all of that at once, so that with the first word the others are waiting, too.
    assert (tmp_path / "log").read_text().count("\n") == 4
    running.report_link_down()
    running.register(60.0)
    assert running.history[-1] == {"event": "registered", "link": 2}
    assert all(event.get("reason") != "of before" for event in running.history)
    running.stop()
    logged = (tmp_path / "log").read_text()
    assert logged.startswith("no JSON\n") and logged.count("\n") == 6


def test_who_is_not_answered_says_so(running: RegistrationDaemon) -> None:
    """With the agent's last word, after as long as was to be waited."""
    running._events.drop_events()
    running.report_link_down()
    running._wait_event({"denied"}, 60.0, "is not denied")
    with pytest.raises(MeasureError, match=r"^mn is not registered within 0\.05 s; denied with "
                       "code 69$"):
        running._wait_event({"registered"}, 0.05, "is not registered")


def test_a_program_that_ends_is_told_at_once(tmp_path: Path) -> None:
    """In one line, each time it is asked; nobody waits the time out."""
    with program(tmp_path) as ended:
        for _ in range(2):
            with pytest.raises(MeasureError, match=r"mn did not start: Mobile IP has ended"):
                ended.wait_ready()


def test_nobody_reads_beside(tmp_path: Path) -> None:
    """There is no thread: in virtual time, who looks on is in the way of what is measured."""
    before = set(threading.enumerate())
    with program(tmp_path, '{"event": "ready"}') as running:
        running.wait_ready()
        assert not set(threading.enumerate()) - before


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_wait_is_no_poll(tmp_path: Path) -> None:
    """It lasts by the kernel's own count, and not by the library's, which looks at a clock."""
    child = _PROGRAM.format(said=(json.dumps({"event": "ready"}),))
    waits = ("import os, subprocess, sys\nfrom pathlib import Path\n"
             "from measure.services.mobile_ip import RegistrationDaemon\n"
             f"argv, log = [sys.executable, '-c', {child!r}], Path({str(tmp_path / 'log')!r})\n"
             "start = lambda line, errors: subprocess.Popen(argv, stdin=line, stdout=line)\n"
             "made = RegistrationDaemon('mn', start, log)\nmade.wait_ready()\nos._exit(0)")
    calls = tmp_path / "calls"
    subprocess.run(["strace", "-o", str(calls), "-e", "trace=poll,select,pselect6,recvfrom",
                    sys.executable, "-c", waits], check=True)
    names = [line.partition("(")[0] for line in calls.read_text().splitlines() if "(" in line]
    assert set(names) == {"recvfrom"}

"""Programs that are forks of one Python: each has its own files, and its end is known."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon, has_ended
from measure.services.programs import ForkService
from topologies.fork_server import ForkedProgram

#: What a fork finds of the one before it, what it is told, and how it ends.
_PROGRAM = """
import os, sys, time
before = []
def main(arguments):
    what, *words = arguments
    before.append(what)
    print("ready", *before, *words, sorted(map(int, os.listdir("/proc/self/fd"))), flush=True)
    if what == "fail":
        raise ValueError("of its own")
    if what == "answer":
        print(input()[::-1], flush=True)
    if what == "stay":
        time.sleep(60)
    return len(words)
"""


@pytest.fixture(name="forks")
def forks_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkService]:
    """A Python that has imported it; forks stay in this process's own network."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/of_a_test.py").write_text(_PROGRAM)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(
        [str(tmp_path / "code"), *filter(None, sys.path)]))
    testbed = SimpleNamespace(preloaded={}, node=lambda _: SimpleNamespace(pid=""))
    site: Any = SimpleNamespace(testbed=testbed, log_path=lambda program, node: (
        tmp_path / f"{node}-{program}.log"))
    made = ForkService(site, ["of_a_test"])
    made.start()
    yield made
    made.stop()


def run(forks: ForkService, folder: Path, *arguments: str) -> tuple[ForkedProgram, Path, Path]:
    """A fork, and the files that its output and errors go to."""
    output, said = folder / "output", folder / "said"
    with output.open("wb") as one, said.open("wb") as other:
        return forks.program_starter("mn", "of_a_test", *arguments)(one, other), output, said


def test_a_fork_has_files_and_arguments_of_its_own(forks: ForkService, tmp_path: Path) -> None:
    """And knows of none before it; its status is that of its main."""
    for words in (("one",), ("two", "three")):
        fork, output, said = run(forks, tmp_path, "end", *words)
        assert fork.wait() == fork.poll() == len(words)
        # The fourth is the folder that it looks into.
        assert output.read_text() == f"ready end {' '.join(words)} [0, 1, 2, 3]\n"
        assert said.read_text() == ""


def test_a_fork_that_fails_says_why(forks: ForkService, tmp_path: Path) -> None:
    """As Python does at the end of a program; others go on."""
    fork, _, said = run(forks, tmp_path, "fail")
    assert fork.wait() == 1
    assert said.read_text().endswith("ValueError: of its own\n")
    assert run(forks, tmp_path, "end")[0].wait() == 0


def test_a_fork_is_a_daemon(forks: ForkService, tmp_path: Path) -> None:
    """It is ready, can be held still, and ends by its signal or is ended."""
    log = tmp_path / "log"
    with Daemon("one", forks.program_starter("mn", "of_a_test", "stay"), log,
                "ready stay") as running:
        running.wait_ready()
        assert running.process.poll() is None
        assert not has_ended(running.process, 0)
    assert running.process.wait() == -signal.SIGTERM
    assert has_ended(running.process, 0)
    fork = run(forks, tmp_path, "stay")[0]
    fork.kill()
    assert fork.wait() == -signal.SIGKILL
    fork.kill()  # nobody any more


def test_a_fork_that_is_told_something_answers(forks: ForkService, tmp_path: Path) -> None:
    """Its input is the socket that its output goes to."""
    ours, its = socket.socketpair()
    with ours, (tmp_path / "said").open("wb") as said:
        with its:
            fork = forks.socket_program_starter("mn", "of_a_test", "answer")(its, said)
        ours.sendall(b"abc\n")
        assert fork.wait() == 0
        assert ours.recv(1000).splitlines()[-1] == b"cba"


def test_forks_end_with_what_they_are_of(forks: ForkService, tmp_path: Path) -> None:
    """And nobody waits for one that can no longer be started: one line says where to look."""
    fork = run(forks, tmp_path, "stay")[0]
    forks.stop()
    assert fork.wait() == -signal.SIGKILL
    until = time.monotonic() + 30
    while Path(f"/proc/{fork.pid}").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not Path(f"/proc/{fork.pid}").exists()
    with pytest.raises(MeasureError, match=r"no program could be started on a node: the Python "
                       r"that it is a fork of has ended \(log: machine-forks\.log\)"):
        run(forks, tmp_path, "end")


def test_what_cannot_be_imported_is_in_its_log(tmp_path: Path, forks: ForkService) -> None:
    """And whoever wants a program of it hears of it."""
    without = ForkService(forks._site, ["nothing_of_that_name"])
    without.start()
    with pytest.raises(MeasureError, match="it is a fork of has ended"):
        run(without, tmp_path, "end")
    without.stop()
    assert "No module named 'nothing_of_that_name'" in (tmp_path / "machine-forks.log").read_text()


def test_who_is_not_on_any_node_is_told(forks: ForkService, tmp_path: Path) -> None:
    """Its network is entered before anything else is done; or its words say why not."""
    forks._site.testbed.node = lambda _: SimpleNamespace(pid=2 ** 22)
    fork, output, said = run(forks, tmp_path, "end")
    assert fork.wait() == 1
    assert output.read_text() == ""
    assert "/ns/net" in said.read_text()

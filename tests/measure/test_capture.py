"""Tests of measure.capture.tcpdump without a machine.

How tcpdump is started, and what is waited for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from conftest import wait_until
from measure.agent.errors import MeasureError
from measure.capture import tcpdump
from measure.capture.tcpdump import HEADERS, WHOLE, Capture, CaptureDetail, CapturePoint

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

NOBODYS = {"QOP_WORK": "nobody"}


@dataclass
class Copied:
    """A tcpdump that has started: what copies of it were asked for."""

    asked: list[tuple[list[str], dict[str, Any]]]

    def start_fork(self, argv: list[str], *_: object, **how: Any) -> list[str]:
        """A copy."""
        self.asked.append((argv, how))
        return argv


@dataclass
class FewNodes:
    """As much of a testbed as a capture needs."""

    tool_environment: dict[str, str] | None = None
    for_captures: str = ""
    copies: Copied | None = None
    uses_cards: bool = False

    def node(self, name: str) -> Any:
        """A process in the node's network."""
        return type("Node", (), {"pid": int(name.removeprefix("a"))})

    def tool_command(self, name: str, argv: Sequence[str]) -> list[str]:
        """A command on a node, which dies with the worker."""
        return ["with", *self.plain_command(name, argv)]

    def plain_command(self, name: str, argv: Sequence[str]) -> list[str]:
        """A command on a node."""
        return ["on", name, *argv]


def started(monkeypatch: pytest.MonkeyPatch, testbed: FewNodes, node: str | None,
            detail: CaptureDetail) -> tuple[list[str], dict[str, str] | None]:
    """The command that a capture gives, and its environment, if it is given one."""
    given: list[tuple[list[str], dict[str, str] | None]] = []

    def daemon(_name: str, command: Any, *_: object, env: Any, **__: object) -> None:
        given.append((command(None, None) if callable(command) else command, env))

    monkeypatch.setattr(tcpdump, "Daemon", daemon)
    Capture(cast("Testbed", testbed), CapturePoint("wire", node, "eth0"), Path("x.pcap"),
            Path("log"),
            detail=detail)
    return given[0]


def test_a_tool_on_a_node_is_nobodys_and_on_the_machine_needs_no_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the processor clock a capture on a node is started with what says so."""
    argv, env = started(monkeypatch, FewNodes(NOBODYS), "a1", WHOLE)
    assert argv[:6] == ["with", "on", "a1", "chrt", "--other", "0"]
    assert argv[6:9] == ["tcpdump", "-Z", "root"]  # else no longer ended with its parent
    assert env == NOBODYS
    argv, env = started(monkeypatch, FewNodes(NOBODYS), None, WHOLE)
    assert "on" not in argv
    assert argv[:5] == ["setpriv", "--pdeathsig", "KILL", "sh", "-c"]
    assert env is None


def test_capture_on_the_machine_starts_only_while_its_parent_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No death signal comes from a parent that ended before the signal was set."""
    argv, _ = started(monkeypatch, FewNodes(), None, WHOLE)
    program = argv.index("chrt")
    of_this, of_another = (subprocess.run(
        [*argv[:program - 1], str(pid), "echo", "starts"], stdout=subprocess.PIPE, text=True,
        check=False).stdout for pid in (os.getpid(), os.getppid()))
    assert (of_this, of_another) == ("starts\n", "")


def test_only_captures_in_blocks_are_made_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others hand over each packet as it comes."""
    testbed = FewNodes(for_captures="/prompt.so")
    for node in ("a1", None):
        _, in_blocks = started(monkeypatch, testbed, node, HEADERS)
        assert in_blocks is not None
        assert in_blocks["LD_PRELOAD"] == "/prompt.so"
        assert in_blocks["QOP_PROMPTLY_MS"] == "100"
        assert started(monkeypatch, testbed, node, WHOLE)[1] is None


def test_prompt_captures_are_started_by_as_few_programs_as_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A guest takes as long to start each of them as for what most commands do."""
    testbed = FewNodes(for_captures="/prompt.so")
    assert started(monkeypatch, testbed, "a1", HEADERS)[0][:3] == ["on", "a1", "tcpdump"]
    assert started(monkeypatch, testbed, None, HEADERS)[0][0] == "tcpdump"
    assert started(monkeypatch, testbed, "a1", WHOLE)[0][0] == "with"
    assert started(monkeypatch, FewNodes(), None, HEADERS)[0][0] == "setpriv"


@pytest.mark.parametrize(("for_captures", "detail", "how"), [
    ("", HEADERS, {"of_process": 1, "promptly_ms": None}),
    ("", WHOLE, {"of_process": 1, "promptly_ms": None}),
    ("/prompt.so", HEADERS, {"of_process": 1, "promptly_ms": 100}), ("/prompt.so", WHOLE, None)])
def test_copies_capture_where_one_is_ready(
    monkeypatch: pytest.MonkeyPatch, for_captures: str, detail: CaptureDetail,
    how: dict[str, Any] | None,
) -> None:
    """With no other program on the way; but one that is prompt makes no captures that are not."""
    copied = Copied([])
    argv, _ = started(monkeypatch, FewNodes(for_captures=for_captures, copies=copied), "a1",
                      detail)
    assert copied.asked == ([(argv, how)] if how else [])
    assert (argv[0] == "tcpdump") == bool(how)


def test_a_second_is_waited_for_where_captures_are_not_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What tcpdump holds back for a second is waited for, unless it has been told otherwise."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    tcpdump.settle_captures()
    tcpdump.settle_captures(cast("Testbed", FewNodes()))
    tcpdump.settle_captures(cast("Testbed", FewNodes(for_captures="/prompt.so")))
    assert waited[0] == waited[1] > 1
    assert 0.1 < waited[2] < 1


def test_frames_that_cards_deliver_late_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where packets are captured one by one, which needs a short wait with emulated radios."""
    waits: list[float] = []
    monkeypatch.setattr(tcpdump.time, "sleep", waits.append)
    for uses_cards in (False, True):
        tcpdump.settle_captures(cast("Testbed", FewNodes(uses_cards=uses_cards)), tcpdump.WHOLE)
    assert waits == [tcpdump._READ_S, tcpdump._DRIVER_S]


def test_getting_on_is_captured_in_blocks_where_captures_are_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In real time few turns of the processor go to captures; elsewhere the wait is shorter."""
    prompt, other = (cast("Testbed", FewNodes(for_captures=library)) for library in ("/p.so", ""))
    detail = tcpdump.whole_frames(prompt)
    _, env = started(monkeypatch, FewNodes(for_captures="/p.so"), "a1", detail)
    assert env is not None
    assert env["QOP_PROMPTLY_MS"] == "20"
    assert tcpdump.whole_frames(other) == WHOLE
    assert detail.snap_bytes == WHOLE.snap_bytes
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    tcpdump.settle_captures(prompt, detail)
    tcpdump.settle_captures(prompt, WHOLE)
    tcpdump.settle_captures(other, WHOLE)
    assert waited[1:] == [tcpdump._READ_S] * 2
    assert tcpdump._READ_S < waited[0] < 0.1


def test_signal_to_a_capture_that_has_ended_is_refused(monkeypatch: pytest.MonkeyPatch,
                                                       tmp_path: Path) -> None:
    program = tmp_path / "tcpdump"
    program.write_text("#!/bin/sh\necho listening on test >&2\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(tcpdump, "OBSERVER_COMMAND", ())
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    running = Capture(cast("Testbed", FewNodes()), CapturePoint("air", None, "hwsim0"),
                      tmp_path / "air.pcap", tmp_path / "log", detail=WHOLE)
    running.wait_ready()
    running.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{running._daemon.pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    running.send_signal(signal.SIGCONT)
    running.stop()
    with pytest.raises(MeasureError, match="has ended and takes no signal SIGSTOP"):
        running.send_signal(signal.SIGSTOP)

"""What is said to a run's repetitions while they are measured, from the command to the worker."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import plans
from conftest import PROJECT, Qop
from harness.engine import control_socket, results, testbed_pool
from harness.engine.campaign import Campaign
from harness.engine.events import EventLog, read_events
from harness.errors import UserError
from speaking_machine import EmptyRenderer, SpeakingMachine

NAME = "P1-N2-001"


async def tell(*words: str) -> tuple[int, str]:
    """What './qop tell' answers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "harness", "tell", *words, cwd=PROJECT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_what_is_told_reaches_the_repetition_and_stands_beside_its_record(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run listens in its folder; the repetition's events keep what it took."""
    folder = tmp_path / "a folder of a long name" / ("x" * 120)
    plan = plans.plan_of("P1", repetitions=1, warm_up=0)
    monkeypatch.setattr(testbed_pool.render, "Renderer",
                        lambda *_: EmptyRenderer(tmp_path / "none"))
    monkeypatch.setattr(type(plan.study), "task", lambda *_: {"what": "listen"})
    answers: list[tuple[int, str]] = []
    with results.ResultsFolder(folder) as kept:
        kept.adopt_plan(plan)
        campaign = Campaign(plan, SpeakingMachine(), kept, EventLog(folder))

        is_measuring = asyncio.Event()
        report = kept.append_report

        def hear(name: str, said: Mapping[str, Any]) -> None:
            report(name, said)
            if said.get("name") == "shareable":
                is_measuring.set()

        monkeypatch.setattr(kept, "append_report", hear)

        async def speak() -> None:
            await is_measuring.wait()
            answers.append(await tell(str(folder), "--repetition", "P2-N2-001", "level=1"))
            answers.append(await tell(str(folder), "level=3", "range=[0, 20]", "scheme=tree"))

        async with asyncio.TaskGroup() as group:
            group.create_task(campaign.run(plan.all_steps()))
            group.create_task(speak())
    assert answers == [
        (1, f"qop: {folder}: P2-N2-001 is not being measured at this moment\n"),
        (0, f"told: {NAME}\n")]
    [told] = [report for report in read_reports(folder) if report.get("name") == "told"]
    assert told["command"] == {"do": "tell", "level": 3, "range": [0, 20], "scheme": "tree"}
    assert not (folder / control_socket.SOCKET_NAME).exists()


def read_reports(folder: Path) -> list[Mapping[str, Any]]:
    """What the repetition reported so far."""
    return [event for event in read_events(folder / "events" / f"{NAME}.jsonl")
            if event["event"] == "report"]


async def test_path_of_the_socket_lasts_as_long_as_the_server(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Since Python 3.13 the server removes the socket by that path when it ends."""
    paths: list[Path] = []
    start = asyncio.start_unix_server

    async def note_path(answer: Any, path: Path, **options: Any) -> Any:
        paths.append(path)
        return await start(answer, path, **options)

    monkeypatch.setattr(control_socket.asyncio, "start_unix_server", note_path)
    async with control_socket.listen_for_messages(tmp_path, lambda *_: []):
        assert paths[0].samefile(tmp_path / control_socket.SOCKET_NAME)
    assert not (tmp_path / control_socket.SOCKET_NAME).exists() and not caplog.records


async def test_nonsense_on_the_socket_ends_nothing(tmp_path: Path) -> None:
    """A line that is none, a message that is none, one too long: the run listens on."""
    heard: list[Mapping[str, Any]] = []

    def take(_: str | None, message: Mapping[str, Any]) -> list[str]:
        heard.append(message)
        return [NAME]

    async with control_socket.listen_for_messages(tmp_path, take):
        for line in (b"nonsense\n", b"[]\n", b'{"repetition": null, "message": 3}\n', b"",
                     b"x" * 200_000 + b"\n"):
            assert await asyncio.to_thread(send, tmp_path, line) == b""
        assert await asyncio.to_thread(control_socket.send_message, tmp_path, None,
                                       {"level": 1}) == [NAME]
    assert heard == [{"level": 1}]


def send(folder: Path, line: bytes) -> bytes:
    """What comes back for a line."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder / control_socket.SOCKET_NAME))
        try:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(1000)
        except (BrokenPipeError, ConnectionResetError):
            return b""


async def test_only_the_user_who_runs_can_speak_to_it(tmp_path: Path) -> None:
    """The socket's mode keeps others out, and one that a killed run left is replaced."""
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(tmp_path / control_socket.SOCKET_NAME))
    with pytest.raises(UserError, match="no run listens there"):
        control_socket.send_message(tmp_path, None, {})
    async with control_socket.listen_for_messages(tmp_path, lambda *_: []):
        assert (tmp_path / control_socket.SOCKET_NAME).stat().st_mode & 0o777 == 0o600
        assert await asyncio.to_thread(control_socket.send_message, tmp_path, None, {}) == []


@pytest.mark.parametrize(("words", "line"), [
    (["level"], "qop: 'level' is not KEY=VALUE; write for example level=20"),
    (["do=stop"], "qop: 'do=stop' is not KEY=VALUE; write for example level=20"),
    (["level=1"], "qop: out: no run listens there")])
def test_bad_messages_are_refused_in_one_line(qop_here: Qop, words: list[str], line: str) -> None:
    """What is no message, and a folder that no run writes to."""
    with results.ResultsFolder(qop_here.folder / "out") as kept:
        kept.adopt_plan(plans.plan_of("P1"))
    done = qop_here("tell", "out", *words)
    [said] = done.stderr.splitlines()
    assert done.returncode == 2 and said.startswith(line)

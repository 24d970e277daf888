"""A testbed's line to its worker: reports, what is told to a repetition, turns and the watchdog.

The worker is a small program that speaks the protocol; measure.worker itself is tested in guests.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import plans
from guest.boot import Clock
from harness import secrets
from harness.engine import testbed as testbeds
from harness.engine.machine import LINE_LIMIT, Running

WORKER = """
import json, sys, time
def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)
say("hello")
say("ready", environment={"kernel": "Linux"})
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "configure":
        say("configured")
    elif command["do"] == "call":
        say("called", result={"said": command["task"]})
    elif command["do"] == "measure":
        what = command["task"].get("what")
        if what == "hang":
            time.sleep(60)
        if what == "fail":
            say("failed", stage="testbed", reason="no such thing")
            continue
        if what == "nonsense":
            print("nonsense", flush=True)
            continue
        say("report", name="began", time_s=1.0)
        say("report", name="shareable", time_s=2.0)
        if what == "listen":
            told = json.loads(sys.stdin.readline())
            say("report", name="told", time_s=3.0, command=told)
        say("measured", name=command["name"], ok=True)
"""


class _Process:
    """A worker as the testbed sees a machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process = process
        self.stdin, self.stdout, self.pid = process.stdin, process.stdout, process.pid

    def hold(self) -> None:
        raise NotImplementedError

    release = hold

    def move(self, processor: int) -> None:
        """It stays."""

    async def close(self, grace_s: float = 0.0) -> None:
        """End it."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def post_mortem(self) -> str:
        return "the worker is gone"


class _Machine:
    """Runs the program in the place of a guest."""

    def mount(self, job_dir: Path) -> str:
        return str(job_dir / "mount")

    async def start(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                    packages: str = "", clock: Clock = "real") -> Running:
        assert (job_dir / "job.json").exists() and study == "qop2007" and clock == "real"
        assert packages == ""
        return _Process(await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=LINE_LIMIT))


class _Renderer:
    """Has nothing to render."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def files(self, *_: object) -> Path:
        self._folder.mkdir(exist_ok=True)
        return self._folder


@asynccontextmanager
async def opened(work: Path) -> AsyncIterator[testbeds.TestbedClient]:
    """A testbed with the program in it."""
    plan = plans.plan_of("P1")
    [planned] = plan.testbeds.values()
    testbed = testbeds.TestbedClient(_Machine(), 0, planned, plan, work)  # type: ignore[arg-type]
    try:
        await testbed.open(secrets.make(), _Renderer(work / "none"))  # type: ignore[arg-type]
        yield testbed
    finally:
        await testbed.close()


async def test_reports_come_in_order_and_what_is_told_arrives(tmp_path: Path) -> None:
    """A repetition speaks and listens while it runs."""
    heard: list[Mapping[str, Any]] = []
    async with opened(tmp_path) as testbed:
        def hear(report: Mapping[str, Any]) -> None:
            heard.append(report)
            if report["name"] == "shareable":
                testbed.tell({"level": 3})

        out = await testbed.measure("P1-N2-001", {"what": "listen"}, 20, heard=hear)
        assert out.name == "P1-N2-001" and testbed.environment == {"kernel": "Linux"}
        assert [report["name"] for report in heard] == ["began", "shareable", "told"]
        assert heard[-1]["command"] == {"do": "tell", "level": 3}
        assert await testbed.call("connect", {"a": 1}) == {"said": {"a": 1}}


async def test_the_turn_is_over_once_the_processor_may_be_shared(tmp_path: Path) -> None:
    """From then on another one may get on the network; and in any case when it has ended."""
    turn, seen = asyncio.Lock(), []
    async with opened(tmp_path) as testbed:
        await testbed.measure("x", {}, 20, turn,
                              lambda report: seen.append((report["name"], turn.locked())))
        assert seen == [("began", True), ("shareable", True)] and not turn.locked()
        with pytest.raises(testbeds.TestbedFailed, match="no such thing"):
            await testbed.measure("y", {"what": "fail"}, 20, turn)
        assert not turn.locked()


@pytest.mark.parametrize(("what", "words"), [
    ("hang", "no 'measured' within 1.2 s; killed by the watchdog"),
    ("nonsense", "the worker said b'nonsense\\n', which is no event")])
async def test_what_hangs_or_speaks_nonsense_is_lost(tmp_path: Path, what: str, words: str,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog allows what the study does, and what a machine may take to answer."""
    monkeypatch.setenv("QOP_WATCHDOG_S", "1")
    async with opened(tmp_path) as testbed:
        with pytest.raises(testbeds.TestbedLost) as caught:
            await testbed.measure("x", {"what": what}, 0.2)
        assert words in str(caught.value)

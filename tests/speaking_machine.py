"""A machine whose worker is a small program that speaks its protocol and measures nothing."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from guest.boot import Clock
from harness.engine.machine import LINE_LIMIT, WorkerProcess

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


class _WorkerProcess:
    """A worker as the testbed sees a machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process = process
        self.stdin, self.stdout, self.pid = process.stdin, process.stdout, process.pid

    def hold(self) -> None:
        """Only virtual time holds."""
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
        """No more is known."""
        return "the worker is gone"


class SpeakingMachine:
    """Runs the program in the place of a guest."""

    at_once = 1
    max_testbeds = 1
    patience = 1.0

    def __init__(self) -> None:
        self.processors = [0]
        self.lacking: dict[str, str] = {}

    def describe_machine(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def memory_mb(self, nodes: int, more_mb: int = 0) -> int:
        """Next to nothing."""
        return 0

    def image_key(self, packages: str = "") -> str:
        """It boots none."""
        return ""

    def read_library(self, source: Path, packages: str = "") -> str:
        """It preloads none."""
        return ""

    def mount_path(self, job_dir: Path) -> str:
        """Beside the job."""
        return str(job_dir / "mount")

    async def start_worker(self, job_dir: Path, processor: int, nodes: int, *, study: str,
                    packages: str = "", clock: Clock = "real", more_mb: int = 0) -> WorkerProcess:
        """A process with the program."""
        assert (job_dir / "job.json").exists() and study == "qop2007" and clock == "real"
        assert packages == ""
        return _WorkerProcess(await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=LINE_LIMIT))


class EmptyRenderer:
    """Has nothing to render."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin_rendering(self, *_: object) -> asyncio.Task[Path]:
        """An empty folder."""
        return asyncio.create_task(self._made())

    async def _made(self) -> Path:
        self._folder.mkdir(exist_ok=True)
        return self._folder

    async def close(self) -> None:
        """There is nothing to end."""

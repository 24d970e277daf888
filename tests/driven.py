"""A guest whose worker a test drives by hand, with a job of its own: no harness, no records."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from conftest import PATIENCE_S
from guest.boot import Guest, boot_guest
from guest.image import ensure_image
from topologies.loader import to_json
from topologies.model import Network

PROJECT = Path(__file__).parent.parent


def job(network: Network, inside: str, **more: Any) -> dict[str, Any]:
    """What a worker is told of a testbed, without policy, medium or secrets unless said."""
    return {"study": "test", "inside": inside, "network": to_json(network), "medium": None,
            "clock": "real", "builder": "mininet", "mount": "/tmp/qop/conf", "options": {},
            "tasks": {}, "secrets": {}, "withhold": [], "devices": {}, "cipher_bytes": 0, **more}


class Driven:
    """A guest with a worker in it. A context manager; the guest is gone afterwards.

    `inside` is a file of a workload, which becomes the module of its name in the machine.
    """

    def __init__(self, folder: Path, told: dict[str, Any], inside: Path) -> None:
        self.folder = folder / "job"
        self.events: list[dict[str, Any]] = []
        self._told = told
        self._skips_waiting = told["clock"] != "real"
        self._sent = 0
        (self.folder / "out" / "logs").mkdir(parents=True)
        (self.folder / "commands").mkdir()
        for room in ("documents", "measure", "topologies"):
            shutil.copytree(PROJECT / room, self.folder / "code" / room,
                            ignore=shutil.ignore_patterns("__pycache__", "*.yml"))
        shutil.copy(inside, self.folder / "code")
        (self.folder / "job.json").write_text(json.dumps(told))

    async def __aenter__(self) -> Driven:
        memory_mb = 100 + 23 * len(self._told["network"]["nodes"])
        self.guest: Guest = await boot_guest(
            ensure_image(), self.folder, memory_mb=memory_mb, clock=self._told["clock"],
            console_log=self.folder / "out" / "logs" / "console.log",
            scratch=self.folder.parent / "scratch")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.guest.__aexit__(kind, error, trace)

    def send(self, **command: Any) -> None:
        """A command: a line, or in virtual time the next file."""
        line = json.dumps(command).encode() + b"\n"
        if not self._skips_waiting:
            self.guest.stdin.write(line)
            return
        self._sent += 1
        place = self.folder / "commands" / f"{self._sent}.json"
        place.with_suffix(".new").write_bytes(line)
        place.with_suffix(".new").rename(place)
        self.guest.resume()

    async def event(self, name: str) -> dict[str, Any]:
        """The next event of a name; those before it are in `events`, too."""
        while True:
            async with asyncio.timeout(PATIENCE_S):
                line = await self.guest.stdout.readline()
            assert line, self.guest.read_console(40)
            said: dict[str, Any] = json.loads(line)
            self.events.append(said)
            if said["event"] == name:
                if self._skips_waiting and name not in ("hello", "report"):
                    self.guest.suspend()
                return said
            assert said["event"] != "failed" or name == "failed", said

    async def ask(self, answer: str, **command: Any) -> dict[str, Any]:
        """Send a command and wait for the event that answers it."""
        self.send(**command)
        return await self.event(answer)

    async def ready(self) -> dict[str, Any]:
        """Wait until the network is built, and start the services."""
        await self.event("hello")
        ready = await self.event("ready")
        await self.ask("configured", do="configure")
        return ready

    async def measure(self, name: str, **task: Any) -> dict[str, Any]:
        """One repetition; its raw values."""
        await self.ask("measured", do="measure", name=name, task=task)
        raw: dict[str, Any] = json.loads((self.folder / "out" / name / "raw.json").read_text())
        return raw

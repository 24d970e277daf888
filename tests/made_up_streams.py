"""Streams made up for tests: a run's folder that grows as though one were measured, and listens."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import studies
from harness.engine import control_socket, events
from harness.engine.request import RunRequest, build_plan
from studies.authenticast1998.thermostat.readings import EVERY_S, settings_from_configuration

STUDY = studies.load_study("authenticast1998")
assert STUDY.live is not None
PAGE = STUDY.live
RATE_PPS = 117


class MadeUpRun:
    """A run of some clients' streams. A context manager: it grows and listens meanwhile.

    `told` is what was said to it; a client that is told something wants it from the next reading
    on, and its level follows.
    """

    def __init__(self, folder: Path, clients: int, *, past_s: float = 0.0) -> None:
        self.folder, self.told = folder, []
        made = build_plan(RunRequest(STUDY, levels={
            "heuristic": ["adaptive-1998"], "clients": [str(clients)], "load": ["idle"]}),
            {"clock": "real"})
        self.cell = made.cells[0].ids
        self.name = f"{made.cells[0].name}-001"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plan.json").write_text(made.manifest.to_text())
        wish = settings_from_configuration({"algorithm": "DSA",
                                            **made.cells[0].value("heuristic").wish})
        self.wishes = {f"c{number}": dict(wish) for number in range(1, clients + 1)}
        self._notes: list[dict[str, Any]] = []
        self._begin_s = time.time() - past_s
        self._over = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._grow, self._hear)]
        self.say_of_run("run-started", already=0, total=1)
        self.say_of_run("repetition-started", name=self.name, testbed="t", attempt=1,
                        exclusive=False)
        for number in range(int(past_s / EVERY_S)):
            if number % 40 == 20:
                self.note(f"c{number // 40 % clients + 1}", self._begin_s + number * EVERY_S)
            self.read(self._begin_s + number * EVERY_S)

    def __enter__(self) -> MadeUpRun:
        for thread in self._threads:
            thread.start()
        while not (self.folder / control_socket.SOCKET_NAME).exists():
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def say_of_run(self, event: str, **fields: Any) -> None:
        """A line of events.jsonl."""
        events.append_line(self.folder / events.FILE, {"at": time.time(), "event": event, **fields})

    def report(self, name: str, **fields: Any) -> None:
        """A line of the repetition's own events."""
        (self.folder / events.REPORTS).mkdir(exist_ok=True)
        events.append_line(self.folder / events.REPORTS / f"{self.name}.jsonl",
                           {"event": "report", **fields, "name": name})

    def note(self, client: str, at_s: float, what: str = "switched", **fields: Any) -> None:
        """What the next reading tells beside numbers; by default a switch, as a controller's."""
        self._notes.append({"at_s": at_s, "client": client, "by": "server", "what": what, **(
            fields or {"scheme": "percentage", "algorithm": "dsa", "bundle": 1, "level": 0.1,
                       "cause": "DELTA 66 > 60: to 10 %"})})

    def read(self, at_s: float) -> None:
        """A reading of all clients."""
        passed_s = at_s - self._begin_s
        notes, self._notes = self._notes, []
        self.report("reading", time_s=at_s, notes=notes, clients={
            name: self._client(wish, passed_s + 9 * place)
            for place, (name, wish) in enumerate(self.wishes.items())})

    @staticmethod
    def _client(wish: Mapping[str, Any], passed_s: float) -> dict[str, Any]:
        wave = math.sin(passed_s / 5) + math.sin(passed_s / 1.7) / 4
        level = min(max(0.5 + wave / 2, wish["low"]), wish["high"]) if wish["automatic"] \
            else wish["level"]
        delta = int(35 - 30 * wave)
        sent = int(RATE_PPS * (passed_s + 5))
        lost = int(2 * passed_s)
        setting = {"scheme": "percentage", "algorithm": "dsa", "bundle": 1, "level": level}
        return {"state": "streaming", "wish": wish, "setting": setting, "sent": sent,
                "delta": delta, "processed": sent - delta - lost, "verified": 0, "failed": 0,
                "buffer": lost, "air": 0, "waiting": 0, "holes": 0, "lag_s": 0.1, "level": level}

    def _grow(self) -> None:
        while not self._over.wait(EVERY_S):
            self.read(time.time())

    def _hear(self) -> None:
        async def listen() -> None:
            async with control_socket.listen_for_messages(self.folder, self._take):
                await asyncio.to_thread(self._over.wait)
        asyncio.run(listen())

    def _take(self, _: str | None, message: Mapping[str, Any]) -> list[str]:
        self.told.append(dict(message))
        wish = self.wishes.get(message.get("client", ""))
        if wish is not None:
            wish |= settings_from_configuration({**message, "algorithm": message["algorithm"]})
            self.note(message["client"], time.time(), "turned", number=len(self.told), **wish)
        return [self.name]

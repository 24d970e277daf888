"""What a run shows while it lasts: a line per repetition, and on a terminal how far it is.

The same is kept in the results folder's `state.json`, for `qop status` in another shell.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from analysis.one_clock import caveat
from harness.plan import Plan
from measure.record import Record

STATE = "state.json"
_EVERY_S = 1.0
_SHOWN = 12


class Measuring(Protocol):
    """What is shown of a run, on this machine or on many."""

    done: int
    total: int
    failed: dict[str, Record]
    flagged: set[str]

    @property
    def started(self) -> Mapping[str, float]:
        """When what is under way began, by its name, on the event loop's clock."""

    @property
    def testbeds(self) -> int:
        """How many there are at the moment."""


class Progress:
    """Progress of a run on standard error. A context manager."""

    def __init__(self, plan: Plan, folder: Path, already: int) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._folder = folder
        self._already = already
        self._started = time.monotonic()
        self._last: Record | None = None
        steps = len(plan.steps())
        going_on = f", {already} of them measured already" if already else ""
        self._console.print(f"{len(plan.policies)} policies x {len(plan.scenarios)} scenarios x "
                            f"{plan.settings.repetitions} repetitions{going_on}, on "
                            f"{plan.settings.builder}; results in {folder}/")
        if about := caveat(plan.settings.clock):
            self._console.print(about)
        self._bar = Bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                        TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
                        console=self._console)
        self._task = self._bar.add_task("measuring", total=steps, completed=already, left="")
        self._running = Text("", style="dim")
        self._live = Live(Group(self._bar, self._running), console=self._console, transient=True,
                          refresh_per_second=4)

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._live.stop()
        (self._folder / STATE).unlink(missing_ok=True)

    def record(self, found: Record, campaign: Measuring) -> None:
        """Show one finished repetition."""
        self._last = found
        self._console.print(f"[{campaign.done}/{campaign.total}] {line(found)}", markup=False)

    def say(self, line: str) -> None:
        """Show a line of its own."""
        self._console.print(line, markup=False)

    async def live(self, campaign: Measuring) -> None:
        """Keep the terminal's and the folder's view of the run up to date, until cancelled."""
        while True:
            state = self._state(campaign)
            self._bar.update(self._task, completed=self._already + campaign.done,
                             total=self._already + campaign.total,
                             left=f"about {lasting(state['left_s'])} left"
                             if state["left_s"] is not None else "")
            self._running.plain = "  ".join(f"{name} {seconds:.0f} s" for name, seconds
                                            in list(state["running"].items())[:_SHOWN])
            temporary = self._folder / f".{STATE}.tmp"
            temporary.write_text(json.dumps(state))
            temporary.replace(self._folder / STATE)
            await asyncio.sleep(_EVERY_S)

    def _state(self, campaign: Measuring) -> dict[str, Any]:
        now = asyncio.get_running_loop().time()
        elapsed_s = time.monotonic() - self._started
        left_s = elapsed_s / campaign.done * (campaign.total - campaign.done) \
            if campaign.done else None
        return {"done": self._already + campaign.done, "total": self._already + campaign.total,
                "failed": len(campaign.failed), "flagged": len(campaign.flagged),
                "testbeds": campaign.testbeds, "elapsed_s": elapsed_s, "left_s": left_s,
                "running": {name: now - begun for name, begun in campaign.started.items()},
                "last": line(self._last) if self._last else ""}


def line(found: Record) -> str:
    """A finished repetition in one line."""
    where = f"{found.policy:<4} {found.scenario} repetition {found.repetition}"
    if found.status != "ok":
        return f"{where}: {found.status.upper()}: {found.reason}"
    rates = ", ".join(f"{name} {stream.goodput_bps / 1e6:.2f} Mbit/s" for name, stream in
                      (("TCP", found.tcp), ("UDP", found.udp)) if stream)
    again = ", second attempt" if found.attempt > 1 else ""
    again += ", alone" if found.environment.get("alone") else ""
    flagged = "; flagged: waited for the processor" if found.environment.get("flags") else ""
    seconds = found.authentication_time_s or 0.0
    return (f"{where}: authenticated in {seconds * 1e3:.1f} ms, {rates}, "
            f"{len(found.evidence)} checks hold{again}{flagged}")


def lasting(seconds: float) -> str:
    """A time in words, such as `45 s`, `12 min` or `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"

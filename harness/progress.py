"""What a run shows while it lasts: a line per repetition, and on a terminal how far it is."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from harness.campaign import Campaign
from harness.plan import Plan
from measure.record import Record


class Progress:
    """Progress of a run on standard error. A context manager."""

    def __init__(self, plan: Plan, folder: Path, already: int) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._started = time.monotonic()
        steps = len(plan.steps())
        going_on = f", {already} of them measured already" if already else ""
        self._console.print(f"{len(plan.policies)} policies x {len(plan.scenarios)} scenarios x "
                            f"{plan.settings.repetitions} repetitions{going_on}; results in "
                            f"{folder}/")
        self._bar = Bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                        TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
                        console=self._console, transient=True,
                        disable=not self._console.is_terminal)
        self._task = self._bar.add_task("measuring", total=steps, completed=already, left="")

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._bar.stop()

    def record(self, found: Record, campaign: Campaign) -> None:
        """Show one finished repetition and what is left."""
        elapsed = time.monotonic() - self._started
        left_s = elapsed / campaign.done * (campaign.total - campaign.done)
        self._bar.update(self._task, advance=1, left=f"about {left_s:.0f} s left")
        self._console.print(f"[{campaign.done}/{campaign.total}] {_line(found)}", markup=False)


def _line(found: Record) -> str:
    where = f"{found.policy:<4} {found.scenario} repetition {found.repetition}"
    if found.status != "ok":
        return f"{where}: {found.status.upper()}: {found.reason}"
    rates = ", ".join(f"{name} {stream.goodput_bps / 1e6:.2f} Mbit/s" for name, stream in
                      (("TCP", found.tcp), ("UDP", found.udp)) if stream)
    again = ", second attempt" if found.attempt > 1 else ""
    seconds = found.authentication_time_s or 0.0
    return (f"{where}: authenticated in {seconds * 1e3:.1f} ms, {rates}, "
            f"{len(found.evidence)} checks hold{again}")

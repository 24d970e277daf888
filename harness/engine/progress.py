"""Show a running run: a line per repetition, and a progress bar on a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from harness.engine.events import Event, RunState
from harness.engine.plan import Plan
from measure.document import to_printable_lines
from measure.record import FLAGS, join_settings
from studies.study import Metric

_EVERY_S = 1.0
_SHOWN = 12


class Progress:
    """A display of a run's events on standard error. A context manager.

    `caveat` is a line to show at the start.
    """

    def __init__(self, plan: Plan, folder: Path, caveat: str = "") -> None:
        self.state = RunState()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._plan = plan
        self._folder = folder
        self._caveat = caveat
        self._bar = Bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                        TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
                        console=self._console)
        self._task = self._bar.add_task("measuring", total=None, left="")
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

    def show_event(self, event: Event) -> None:
        """Count an event, and show a line for it if it is of interest."""
        self.state.apply_event(event)
        if event["event"] == "run-started":
            self._show_beginning()
        elif event["event"] == "repetition-recorded":
            done = self.state.done - self.state.already
            total = self.state.total - self.state.already
            self.print_line(f"[{done}/{total}] {repetition_line(event, self._plan.study.metrics)}")
        elif event["event"] == "clock-still":
            self.print_line(
                f"{self.state.name_on(event)}: {describe_standstill(event, event['at'])}")
        elif event["event"] == "repetition-waits":
            self.print_line(f"{event['name']}: {event['waits']}")
        elif event["event"].startswith("worker-"):
            self.print_line(event["line"])

    def _show_beginning(self) -> None:
        already = self.state.already
        going_on = f", {already} of them measured already" if already else ""
        self.print_line(
            f"{self._plan.shape}{going_on}, on {self._plan.settings.builder}; results in "
                        f"{self._folder}/")
        for note in self._plan.study.notes(self._plan.cells, self._plan.asked):
            self.print_line(note)
        if self._caveat:
            self.print_line(self._caveat)

    def print_line(self, text: str) -> None:
        """Print a line above the progress bar."""
        self._console.print(to_printable_lines(text), markup=False)

    async def update_until_cancelled(self) -> None:
        """Update the progress bar every second, until cancelled."""
        while True:
            now = time.time()
            left_s = self.state.left_s(now)
            self._bar.update(self._task, completed=self.state.done, total=self.state.total,
                             left=f"about {duration_text(left_s)} left" if left_s is not None
                             else "")
            self._running.plain = "  ".join(
                f"{name} {now - began:.0f} s" + (f" ({waited})" if (
                    waited := reason_for_waiting(self.state, name, now)) else "")
                for name, began in list(self.state.running.items())[:_SHOWN])
            await asyncio.sleep(_EVERY_S)


def describe_standstill(event: Event, now: float) -> str:
    """Return a text: since when a guest's clock has not advanced, and its running program.

    Args:
        event: The event that reports the standstill.
        now: Wall clock in seconds.
    """
    where = "" if event["at_s"] is None else f" at {event['at_s']:.3f} s"
    return (f"the guest's clock stands still{where} for {duration_text(now - event['since'])}, "
            f"{event['program']} runs")


def reason_for_waiting(state: RunState, name: str, now: float) -> str:
    """Return the reason why a running repetition waits.

    The result is "" if no reason was reported.
    """
    event = state.still.get(name)
    return describe_standstill(event, now) if event else state.waits.get(name, "")


def repetition_line(event: Mapping[str, Any], metrics: Sequence[Metric]) -> str:
    """Return one line about a recorded repetition.

    Args:
        event: The event "repetition-recorded".
        metrics: The study's metrics, whose values are shown.
    """
    if event["status"] != "ok":
        return f"{event['name']}: {event['status'].upper()}: {event['reason']}"
    shown = [f"{metric.title} {format_value(metric, event['values'][metric.name])}"
             for metric in metrics if metric.name in event["values"]]
    again = ", second attempt" if event["attempt"] > 1 else ""
    again += ", measured exclusively" if event["exclusive"] else ""
    flags = [FLAGS.get(flag, flag) for flag in event.get("flags") or ()]
    flagged = f"; flagged: {' and '.join(flags)}" if flags else ""
    checks = "1 check holds" if event["checks"] == 1 else f"{event['checks']} checks hold"
    if unchecked := event.get("unchecked"):
        checks += f", none covers {join_settings(unchecked)}"
    return f"{event['name']}: {'; '.join(filter(None, [', '.join(shown), checks]))}{again}{flagged}"


def format_value(metric: Metric, value: float) -> str:
    """Return a number in the metric's unit, rounded."""
    scaled = value * metric.scale
    digits = metric.digits
    if digits is None:
        digits = 0 if abs(scaled) >= 1000 else 1 if abs(scaled) >= 10 else 2
    return f"{scaled:.{digits}f} {metric.unit}".strip()


def duration_text(seconds: float) -> str:
    """Return a duration in words.

    Examples are `45 s`, `12 min` and `3 h 20 min`.
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"

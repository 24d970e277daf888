"""Show a run on the terminal: progress while it runs, or a preview before it starts.

A `ProgressDisplay` gets the events of the run. It prints a line per repetition (one measurement of
a policy in a scenario), and a progress bar on a terminal. `print_preview` takes a plan. It shows
the combinations to measure, their order, and the expected time and disk space (`./qop run
--dry-run`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from guest import releases
from harness.engine.events import Event, RunState
from harness.engine.plan import Plan, Step
from harness.engine.results import ResultsFolder
from measure.records.document import to_printable_lines
from measure.records.manifest import RELEASE
from measure.records.record import FLAGS, join_settings
from studies.release_factor import has_release_factor
from studies.study import Metric

# --- Progress of a running run ---

_EVERY_S = 1.0
_SHOWN = 12


class ProgressDisplay:
    """A display of a run's progress on standard error, used as a context manager.

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

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show_event(self, event: Event) -> None:
        """Update the progress by an event of the run, and print important events."""
        self.state.apply_event(event)
        if event["event"] == "run-started":
            self._show_beginning()
        elif event["event"] == "repetition-recorded":
            done, total = self._this_start
            self.print_line(
                f"[{done}/{total}] {format_repetition(event, self._plan.study.metrics)}")
        elif event["event"] == "clock-still":
            self.print_line(
                f"{self.state.name_on(event)}: {describe_standstill(event, event['at'])}")
        elif event["event"] == "repetition-waits":
            self.print_line(f"{event['name']}: {event['waits']}")
        elif event["event"].startswith("worker-") or event["event"] == "claims-judged":
            self.print_line(event["line"])

    @property
    def _this_start(self) -> tuple[int, int]:
        """Return how many repetitions are done and planned, without those of an earlier start."""
        return self.state.done - self.state.already, self.state.total - self.state.already

    def _show_beginning(self) -> None:
        already = self.state.already
        going_on = f", {already} of them measured already" if already else ""
        self.print_line(
            f"{self._plan.shape}{going_on}, on {self._plan.settings.builder}"
            f"{_describe_releases(self._plan)}; results in {self._folder}/")
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
            claims = len(self.state.open_claims)
            open_ = f", {claims} open" if claims else ""
            done, total = self._this_start
            self._bar.update(self._task, completed=done, total=total,
                             left=f"about {format_duration(left_s)} left{open_}"
                             if left_s is not None else "")
            self._running.plain = "  ".join(
                f"{name} {now - began:.0f} s" + (f" ({waited})" if (
                    waited := describe_wait(self.state, name, now)) else "")
                for name, began in list(self.state.running.items())[:_SHOWN])
            await asyncio.sleep(_EVERY_S)


def describe_standstill(event: Event, now: float) -> str:
    """Return a warning that a guest (virtual machine) computes while its clock does not advance.

    A program in an endless loop can cause this with the virtual clock, which does not count
    computing. The text says at which time the clock stopped, for how long, and which program runs.

    Args:
        event: The event "clock-still" (`harness.engine.clock_watchdog`).
        now: Wall-clock time of the host in seconds.
    """
    where = "" if event["at_s"] is None else f" at {event['at_s']:.3f} s"
    return (f"the guest's clock stands still{where} for {format_duration(now - event['since'])}, "
            f"{event['program']} runs")


def describe_wait(state: RunState, name: str, now: float) -> str:
    """Return why a running repetition waits, "" if it has not reported a reason."""
    event = state.still.get(name)
    return describe_standstill(event, now) if event else state.waits.get(name, "")


def format_repetition(event: Mapping[str, Any], metrics: Sequence[Metric]) -> str:
    """Return the line that the terminal shows about a recorded repetition.

    Args:
        event: The event "repetition-recorded".
        metrics: The study's metrics, whose values are shown.
    """
    if event["status"] != "ok":
        return f"{event['name']}: {event['status'].upper()}: {event['reason']}"
    shown = [f"{metric.title} {format_value(metric, event['values'][metric.name])}"
             for metric in metrics if metric.name in event["values"]]
    attempt = ", second attempt" if event["attempt"] > 1 else ""
    attempt += ", measured exclusively" if event["exclusive"] else ""
    flags = [FLAGS.get(flag, flag) for flag in event.get("flags") or ()]
    flagged = f"; flagged: {' and '.join(flags)}" if flags else ""
    checks = "1 check holds" if event["checks"] == 1 else f"{event['checks']} checks hold"
    if unchecked := event.get("unchecked"):
        checks += f", none covers {join_settings(unchecked)}"
    text = "; ".join(filter(None, [", ".join(shown), checks]))
    return f"{event['name']}: {text}{attempt}{flagged}"


def format_value(metric: Metric, value: float) -> str:
    """Return a metric's value as text, rounded and with the metric's unit."""
    scaled = value * metric.scale
    digits = metric.digits
    if digits is None:
        digits = 0 if abs(scaled) >= 1000 else 1 if abs(scaled) >= 10 else 2
    return f"{scaled:.{digits}f} {metric.unit}".strip()


def format_duration(seconds: float) -> str:
    """Return a duration as text, such as `45 s`, `12 min` or `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


# --- Preview: cells, their order, and the expected time and disk space ---

#: Usual number of repetitions that a processor measures in parallel, and start-up time in seconds.
_SIDE_BY_SIDE, _START_S = 2.5, 20.0
#: Seconds of a processor for the start of a testbed with an emulated processor, and the factor of
#: a repetition's duration there (measured on two cores with QEMU 7.2: 30 to 45 s, 2 to 4).
_EMULATED_START_S, _EMULATED_FACTOR = 40.0, 3.0


def print_preview(plan: Plan, folder: Path, captures: str) -> None:
    """Print what a run would measure, in which order, and how long it would take.

    Nothing is started.

    Args:
        plan: The plan of the run.
        folder: The results folder.
        captures: Which captures the run would keep.

    Raises:
        UserError: The run would fail with this error.
    """
    results = ResultsFolder(folder)
    results.refuse_another(plan)
    by_lack: dict[str, list[Step]] = {}
    for step in results.missing_steps(plan):
        by_lack.setdefault(plan.find_lack(step.cell), []).append(step)
    steps = by_lack.pop("", [])
    processors = len(os.sched_getaffinity(0))
    settings = plan.settings
    asked = ", ".join(f"{name} {value}" for name, value in plan.asked.to_stored_settings().items())
    click.echo(f"{plan.shape} of {plan.study.id}; {asked + '; ' if asked else ''}"
               f"clock {settings.clock}, builder {settings.builder}, seed {settings.seed}"
               f"{_describe_releases(plan)}")
    click.echo(
        f"Results: {folder}/, {len(steps)} of {len(plan.all_steps())} repetitions to measure")
    for lack, skipped in by_lack.items():
        names = dict.fromkeys(step.cell.name for step in skipped)
        click.echo(f"Skipped: {', '.join(names)}: {lack}")
    for note in plan.study.notes(plan.cells, plan.asked):
        click.echo(note)
    _show_order(steps)
    if settings.looks:
        click.echo(f"Claims (without claims: differences) are judged after "
                   f"{', '.join(map(str, settings.looks))} repetitions; cells of open ones are "
                   "measured up to the next of these numbers")
    if not steps:
        return
    click.echo(f"Expected time: {describe_expected_time(plan, steps, processors)}")
    kept_bytes = 0.0 if captures != "all" else sum(
        plan.expected_cost(step.cell).capture_bytes for step in steps)
    free = shutil.disk_usage(next(p for p in (folder, *folder.parents, Path()) if p.exists())).free
    click.echo(f"Expected disk: {kept_bytes / 1e6:,.0f} MB of captures ({free / 1e6:,.0f} MB free)")


def _describe_releases(plan: Plan) -> str:
    """Return the Debian releases of guests and of `--daemon`, "" for the default one.

    A release that is a factor of the study is left out.
    """
    settings = plan.settings
    is_named = settings.on == "guest" and not has_release_factor(plan.study) and (
        settings.daemons or settings.release != releases.DEFAULT.suite)
    names = [f"release {settings.release}"] if is_named else []
    names += [f"{daemon} of {suite}" for daemon, suite in settings.daemons.items()]
    return "".join(f", {name}" for name in names)


def describe_expected_time(plan: Plan, steps: Sequence[Step], processors: int) -> str:
    """Return the expected duration of all `steps`, for the preview of a run."""
    alone_s = _START_S + _estimate_serial_s(plan, steps)
    expected = (f"{format_duration(estimate_duration_s(plan, steps, processors))} on {processors} "
                f"processors ({format_duration(alone_s)} one after the other)")
    if plan.settings.on != "vm":
        return expected
    emulated = format_duration(estimate_emulated_s(plan, steps, processors))
    return f"{expected}; {emulated} if the processor is emulated"


def estimate_emulated_s(plan: Plan, steps: Sequence[Step], processors: int) -> float:
    """Return the expected duration of all `steps` (s) if QEMU emulates the guests' processor.

    QEMU does so with `--on vm` where KVM cannot be used, which is slow. Each processor of the host
    starts and measures one testbed at a time.
    """
    keys = {plan.testbed_of(step.cell) for step in steps}
    at_once = max(1, min(len(keys), processors))
    return (len(keys) * _EMULATED_START_S
            + _EMULATED_FACTOR * _estimate_serial_s(plan, steps)) / at_once


def estimate_duration_s(plan: Plan, steps: Sequence[Step], processors: int) -> float:
    """Return the expected duration of all repetitions in seconds, on several processors."""
    at_once = min(len(plan.testbeds),
                  _SIDE_BY_SIDE * processors) if plan.settings.is_real_time else \
        processors
    return _START_S + _estimate_serial_s(plan, steps) / at_once


def _estimate_serial_s(plan: Plan, steps: Sequence[Step]) -> float:
    """Return the expected duration of all repetitions in seconds, one after the other.

    With clocks that skip idle time, only the computing time counts.
    """
    expected = [plan.expected_cost(step.cell) for step in steps]
    return sum(each.duration_s if plan.settings.is_real_time else each.processor_s for each
               in expected)


def _show_order(steps: Sequence[Step]) -> None:
    """Print the order in which repetitions start, block by block.

    Each block has a line for each scenario, or combination of further factors, with its policies.
    Policies follow their release, if the releases are a factor.
    """
    heading = None
    names: list[str] = []
    count = 1 + bool(steps and next(iter(steps[0].cell.ids)) == RELEASE)
    for step in [*steps, None]:
        ids = list(step.cell.ids.values()) if step else []
        here = (step.repetition, "-".join(ids[count:])) if step else None
        if here != heading and heading:
            click.echo(f"  block {heading[0]}{', ' + heading[1] if heading[1] else ''}: "
                       f"{' '.join(names)}")
            names = []
        heading = here
        if ids:
            names.append("-".join(ids[:count]))

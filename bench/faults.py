"""`qop bench faults`: inject faults into small runs, and count what is lost or doubled.

On each processor one run is made at a time, in a folder of its own. A run that a fault ended is
started again with the same command until the plan is complete; then the next plan follows. The seed
determines which faults are injected where and when, except for what processes do meanwhile. The
faults themselves are in `bench.fault_kinds`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import click

from bench import small_plans
from bench.fault_kinds import (
    ENDING_S,
    KINDS,
    FaultKind,
    FaultTarget,
    RecordTracker,
    find_leftovers,
    remove_damaged_plan,
)
from bench.small_plans import SmallPlans
from guest.processes import PROC, build_tied_command
from harness.engine import setup
from harness.engine.machine import ROOT
from harness.errors import UserError
from studies.study import Clock

# --- Private disk that a fault may fill: tmpfs in a mount namespace ---
# Root can create mount namespaces, and so can any user if the kernel allows user namespaces.
# Otherwise the folder stays as it is, and there is no disk to fill.

_SIZE_MB = 96
_SCRIPT = 'mount -t tmpfs -o mode=700,size=$2m tmpfs "$1" && cd / && echo there && exec sleep inf'


class PrivateDisk:
    """A small private disk for the results folder of a run, as a context manager.

    `enter` is the command prefix with which a program has the disk at `folder`. Other programs have
    it at `seen`. `filler` is the file to fill the disk with, None if there is no disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holder: subprocess.Popen[str] | None = None
        self.enter: list[str] = []
        self.seen = folder
        self.filler: Path | None = None

    def __enter__(self) -> PrivateDisk:
        is_root = os.geteuid() == 0
        user = [] if is_root else ["--user", "--map-root-user"]
        self._holder = subprocess.Popen(
            [*build_tied_command("KILL"), "unshare", "--mount", *user, "sh", "-c", _SCRIPT, "sh",
             str(self._folder), str(_SIZE_MB)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._holder.stdout is not None
        if self._holder.stdout.readline():
            pid = self._holder.pid
            also = [] if is_root else ["--user", "--preserve-credentials"]
            self.enter = ["nsenter", f"--target={pid}", "--mount", *also]
            self.seen = Path(f"{PROC}/{pid}/root{self._folder}")
            self.filler = self.seen / "filler"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()


# --- Runs with faults, and the table of counts ---

#: Kinds of findings; any finding misses the bound.
FINDINGS = ("lost", "doubled", "left over", "crashed")
_CLOCKS: tuple[Clock, ...] = ("processor", "real", "processor", "virtual")
_REPETITIONS = 10
_WATCHDOG_S = "10"
#: Largest delay in seconds of a fault after the previous one or the start of the run.
_SPAN_S = {"ending": 9.0, "during": 4.0, "starting": 1.5}
#: Time in seconds for which a fault looks for a target.
_LOOKING_S = 30.0
#: Longest time in seconds of a run, including its faults.
_RUN_S = 300.0
#: Number of times that a fault may find no target before it is given up, and number of starts of a
#: run without further faults.
_MISSES, _STARTS = 12, 5


@dataclass
class FaultCounts:
    """Counts of injected faults and their effects, by kind of fault. Threads may use it."""

    counts: dict[str, Counter[str]] = field(
        default_factory=lambda: {kind.name: Counter() for kind in KINDS})
    records: int = 0
    _begun: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_fault(self, kind: FaultKind, where: str) -> None:
        """Count and print one injected fault."""
        with self._lock:
            self.counts[kind.name]["injected"] += 1
            click.echo(f"{time.monotonic() - self._begun:5.0f} s: fault "
                       f"{self.total['injected']}: {kind.name} ({where})", err=True)

    def count_findings(self, kind: str, what: str, lines: Iterable[str]) -> None:
        """Count and print what went wrong after a fault of this kind."""
        with self._lock:
            for line in lines:
                self.counts.setdefault(kind, Counter())[what] += 1
                click.echo(f"after '{kind}': {what}: {line}", err=True)

    @property
    def total(self) -> Counter[str]:
        """Return the sum of the counts over all kinds of faults."""
        return sum(self.counts.values(), Counter())


class FaultRunner:
    """The runs on one processor, one after the other, until all its faults are injected."""

    def __init__(self, place: Path, core: int, faults: list[FaultKind], tally: FaultCounts,
                 seed: str,
                 stop: threading.Event, plans: SmallPlans, *,
                 repetitions: int = _REPETITIONS) -> None:
        self._place, self._plans = place, plans
        self._core = core
        self._between = deque(kind for kind in faults if kind.when == "between")
        self._starting = deque(kind for kind in faults if kind.when == "starting")
        self._during = deque(kind for kind in faults if kind.when in ("during", "ending"))
        self._tally = tally
        self._rng = random.Random(seed)  # noqa: S311 - repeatable on purpose, nothing secret
        self._stop = stop
        self._repetitions = repetitions
        self._misses: Counter[str] = Counter()
        self._last, self._said = "no fault", ""

    def run_plans(self) -> None:
        """Measure one plan after the other until all faults are injected."""
        number, clocks, levels = 0, _choose_clocks(self._plans), _choose_levels(self._plans)
        self._place.mkdir()
        with PrivateDisk(self._place) as disk:
            while (self._between or self._starting or self._during) and not self._stop.is_set():
                number += 1
                clock = clocks[(number + self._core) % len(clocks)]
                self._complete_plan(disk, f"run-{number}", self._rng.choice(levels), clock)

    def _complete_plan(self, disk: PrivateDisk, name: str, levels: tuple[str, ...],
                       clock: str) -> None:
        """Measure one plan with injected faults until it is complete, and count what is missing."""
        folder = disk.seen / name
        plan = self._plans.make_plan(levels, self._repetitions)
        target = FaultTarget(folder, RecordTracker(folder), plan, self._rng, disk.filler)
        argv = ["env", "--block-signal=INT", sys.executable, "-P", "-m",
                "bench.fault_injection", "run",
                *self._plans.run_arguments(levels, self._repetitions),
                "--out", str(self._place / name), "--clock", clock]
        quiet = 0
        while not self._stop.is_set():
            is_disturbed = bool(self._during or self._starting)
            if self._between and self._inject_fault(self._between[0], target):
                self._between.popleft()
                is_disturbed = True
            quiet = 0 if is_disturbed else quiet + 1
            status = self._run_once(target, disk, argv)
            remove_damaged_plan(folder)
            # A complete plan is left, unless the only faults that remain are those between runs.
            if status == 0 and (self._during or self._starting or not self._between):
                break
            if status and quiet > _STARTS:
                line = (f"{name}: {_STARTS} runs without a fault did not complete it ({status}: "
                        f"{self._said})")
                self._tally.count_findings(self._last, "lost", [line])
                break
        missing = {step.name for step in target.plan.all_steps()} - set(target.ledger.names)
        if not self._stop.is_set():
            self._tally.count_findings(self._last, "lost", sorted(missing))
            self._tally.records += len(target.ledger.names)

    def _run_once(self, target: FaultTarget, disk: PrivateDisk, argv: list[str]) -> int:
        """Run the `qop run` command once to its end, and return its exit status."""
        process = subprocess.Popen(
            [*build_tied_command("KILL"), "taskset", "-c", str(self._core), *disk.enter,
             *target.prefix,
             *argv],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, **target.variables, "PYTHONPATH": str(ROOT),
                 "QOP_WATCHDOG_S": _WATCHDOG_S})
        target.prefix, target.variables = (), {}
        lines: list[str] = []
        # Read by a thread, and not from a file: the disk may be full.
        reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
        reader.start()
        target.run = process.pid
        try:
            self._inject_faults(target, process)
            self._wait_for_end(process, _RUN_S)
        finally:
            process.kill()
            process.wait()
            target.run = 0
            if disk.filler is not None:
                disk.filler.unlink(missing_ok=True)
        over = find_leftovers(self._place)
        reader.join()
        if process.stderr is not None:
            process.stderr.close()
        self._tally.count_findings(self._last, "left over", over)
        self._check_ledger(target)
        self._said = lines[-1].strip() if lines else ""
        if crash := _find_crash(lines):
            self._tally.count_findings(self._last, "crashed", [crash])
        return process.returncode

    def _inject_faults(self, target: FaultTarget, process: subprocess.Popen[str]) -> None:
        """Inject the next faults at random moments, until the run has ended or must end."""
        if self._starting:
            self._disturb_start(target, process)
            return
        while self._during:
            kind = self._during.popleft()
            if self._wait_for_end(process, self._rng.uniform(0, _SPAN_S[kind.when])):
                self._during.appendleft(kind)
                return
            until = time.monotonic() + _LOOKING_S
            while not (is_done := self._inject_fault(kind, target)) and time.monotonic() < until:
                if self._wait_for_end(process, 0.1):
                    break
            self._check_ledger(target)
            if not is_done:
                self._put_off(kind)
            elif kind.when == "ending":
                if not self._wait_for_end(process, ENDING_S):
                    process.kill()
                return

    def _disturb_start(self, target: FaultTarget, process: subprocess.Popen[str]) -> None:
        """Inject a fault while a run starts. It ends the run."""
        kind = self._starting.popleft()
        self._wait_for_end(process, self._rng.uniform(0, _SPAN_S[kind.when]))
        if not self._inject_fault(kind, target):
            self._starting.append(kind)
        elif not self._wait_for_end(process, ENDING_S):
            process.kill()

    def _inject_fault(self, kind: FaultKind, target: FaultTarget) -> bool:
        """Inject a fault, and return whether there was a target for it."""
        if kind.inject(target):
            self._tally.count_fault(kind, f"{self._place.name}, {target.folder.name}")
            self._last = kind.name
            return True
        return False

    def _put_off(self, kind: FaultKind) -> None:
        """Move a fault behind the next one. Give it up if it was postponed too often."""
        self._misses[kind.name] += 1
        if self._misses[kind.name] <= _MISSES:
            self._during.insert(1, kind)

    def _check_ledger(self, target: FaultTarget) -> None:
        repeated = target.ledger.read_events()
        wrong = target.ledger.inspect_folder()
        self._tally.count_findings(self._last, "lost", wrong["lost"])
        self._tally.count_findings(self._last, "doubled", [*repeated, *wrong["doubled"]])

    def _wait_for_end(self, process: subprocess.Popen[str], seconds: float) -> bool:
        """Wait for the end of a process, at most `seconds`. Return whether it has ended."""
        until = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < until and not self._stop.is_set():
            time.sleep(0.02)
        return process.poll() is not None


def run_bench(faults: int, seed: int, study: str) -> None:
    """Inject a number of faults and print a table of their effects.

    Raises:
        UserError: Anything was lost, doubled, left over or crashed, or a fault found no target.
    """
    setup.make_embedded_machine()
    tally, stop, begun = FaultCounts(), threading.Event(), time.monotonic()
    cores = sorted(os.sched_getaffinity(0))
    deck = _shuffle_faults(faults, seed)
    with tempfile.TemporaryDirectory(prefix="qop-faults-") as folder, \
            ThreadPoolExecutor(len(cores)) as pool:
        lanes = [FaultRunner(Path(folder, f"lane-{core}"), core, deck[number::len(cores)], tally,
                             f"{seed}/{number}", stop, small_plans.make_small_plans(study))
                 for number, core in enumerate(cores)]
        working = [pool.submit(lane.run_plans) for lane in lanes]
        try:
            for lane in working:
                lane.result()
        finally:
            stop.set()
    for line in format_table(tally):
        click.echo(line)
    total = tally.total
    click.echo(f"{total['injected']} faults in {(time.monotonic() - begun) / 60:.1f} min on "
               f"{len(cores)} processors; {tally.records} repetitions ok in the end")
    if any(total[what] for what in FINDINGS):
        raise UserError("bench faults: " + ", ".join(f"{total[what]} {what}" for what in FINDINGS)
                        + "; the lines above say what and after which fault", status=1)
    if total["injected"] < faults:
        raise UserError(f"bench faults: {faults - total['injected']} faults found nothing to be "
                        "done to; try another --seed", status=1)


def format_table(tally: FaultCounts) -> list[str]:
    """Return the lines of a table of faults and their effects, by kind, with sums."""
    columns = ("injected", *FINDINGS)
    rows = [*tally.counts.items(), ("all", tally.total)]
    return [f"{'kind of fault':<26}" + "".join(f"{name:>11}" for name in columns)] + [
        f"{name:<26}" + "".join(f"{counts[column]:>11}" for column in columns)
        for name, counts in rows]


def _find_crash(lines: list[str]) -> str:
    """Return message and place of a Python traceback in a run's output, "" without one."""
    if not any("Traceback" in line for line in lines):
        return ""
    places = [line.strip() for line in lines if line.strip().startswith("File ")]
    return " ".join([lines[-1].strip(), *(f"({place})" for place in places[-1:])])


def _shuffle_faults(faults: int, seed: int) -> list[FaultKind]:
    """Return this many faults, each kind equally often (or once less), shuffled by the seed."""
    deck = [KINDS[number % len(KINDS)] for number in range(faults)]
    random.Random(seed).shuffle(deck)  # noqa: S311 - repeatable on purpose, nothing secret
    return deck


def _choose_clocks(plans: SmallPlans) -> tuple[Clock, ...]:
    """Return the clocks that the runs use in turn: real, virtual or processor clock.

    Only clocks are used with which all emulated networks of the study work. A study whose default
    is the virtual clock uses only that one, because it would take long with another.
    """
    if plans.study.clock == "virtual":
        return ("virtual",)
    allowed = [testbed.spec.clocks or _CLOCKS for testbed
               in plans.make_plan(plans.list_levels(), 1).testbeds.values()]
    return tuple(clock for clock in _CLOCKS if all(clock in clocks for clocks in allowed))


def _choose_levels(plans: SmallPlans) -> list[tuple[str, ...]]:
    """Return the policies of the small plans: one or two policies (levels) each."""
    levels, typical = plans.list_levels(), plans.typical_level()
    return [(levels[0],), (typical,), (levels[-1],), tuple(levels[:2]), (levels[1], typical)]

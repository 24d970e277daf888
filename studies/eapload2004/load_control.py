"""Control the load generator, and the guest's processor, during a measurement.

`LoadProgram` sends commands to the running load generator, such as to saturate the RADIUS server or
to start the load. `MeasuredProcessor` gives the measured processes priority, and logs the speed of
the machine. It is needed only in a guest (virtual machine) in real time, where all nodes share one
processor. The workload of the study eapload2004 uses both.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure.agent.workload import Site
from measure.capture import tcpdump
from measure.cpu import realtime_priority
from measure.services.programs import HostProgram, program_environment
from studies.eapload2004 import network
from studies.eapload2004.load import AFTER, BEFORE, PAUSES_S, YARDSTICK

#: Authentications of one client alone. In virtual time all take equally long.
_ALONE, _REAL_ALONE, _DEVICE_ALONE = 20, 200, 40
#: Authentications of one client after pauses. On a device they take longer and vary less.
_RESTED, _DEVICE_RESTED = 30 * len(PAUSES_S), 10 * len(PAUSES_S)


class LoadProgram:
    """The running load generator, and its commands."""

    def __init__(self, program: HostProgram, out: Path, busy_s: Callable[[], float]) -> None:
        self._program, self._out, self._busy_s = program, out, busy_s
        #: Busy time of the server's device in the last saturation (s).
        self.saturated_busy_s = 0.0

    def run_command(self, what: str, name: str = "", **arguments: Any) -> None:
        """Run a command of the load generator to its end. Its log is `NAME.json`."""
        self._send_command(do=what, out=str(self._out / f"{name or what}.json"), **arguments)
        self._program.expect_line("done")

    def calibrate_server(self, settings: Mapping[str, Any], *, computes: bool, is_real: bool,
                         is_device: bool) -> None:
        """Measure the server without load: first a single client, then as many as saturate it.

        Where computing takes time, a machine is slower at first (by up to half), and times vary. So
        the server is kept busy first, without measurement.

        Args:
            settings: settings of the run.
            computes: whether computing takes this machine's time.
            is_real: whether the clock is real.
            is_device: whether a modelled processor takes the server's time.
        """
        busy = {"customers": settings["customers"], "count": settings["saturating"]}
        if computes:
            self.keep_busy(**busy)
        alone = (_DEVICE_ALONE if is_device else _REAL_ALONE) if is_real else _ALONE
        self._run_closed_loop(BEFORE.alone, customers=1, count=alone)
        self._run_saturation(BEFORE.saturated, **busy)
        if is_real:
            self._run_pauses(BEFORE.rested, is_device=is_device)

    def keep_busy(self, *, customers: int, count: int) -> None:
        """Run authentications that are not measured, to warm up the server.

        `customers` are in progress at a time, `count` in all.
        """
        self.run_command("closed", "unmeasured", customers=customers, count=count)

    def calibrate_again(self, settings: Mapping[str, Any], *, is_device: bool) -> None:
        """Measure the server without load again, after the load and in reverse order.

        In real time the speed of the machine may have changed. `is_device` says whether a modelled
        processor takes the server's time.
        """
        self._run_pauses(AFTER.rested, is_device=is_device)
        self._run_saturation(AFTER.saturated, customers=settings["customers"],
                             count=settings["saturating"])
        self._run_closed_loop(AFTER.alone, customers=1, count=_DEVICE_ALONE if is_device
                              else _REAL_ALONE)

    def _run_pauses(self, journal: str, *, is_device: bool) -> None:
        self._run_closed_loop(journal, customers=1, pauses_s=PAUSES_S,
                              count=_DEVICE_RESTED if is_device else _RESTED)

    def _run_saturation(self, journal: str, **busy: int) -> None:
        begun_s = self._busy_s()
        self._run_closed_loop(journal, **busy)
        self.saturated_busy_s = self._busy_s() - begun_s

    def _run_closed_loop(self, journal: str, **arguments: Any) -> None:
        self.run_command("closed", journal.removesuffix(".json"), **arguments)

    def start_load(self, task: Mapping[str, Any], seed: int, *, rate_per_s: float,
                   **changes: float) -> None:
        """Start the background authentications.

        Args:
            task: instructions for the repetition.
            seed: seed of the arrival times.
            rate_per_s: mean rate of arrivals (1/s).
            changes: further fields of the generator's command, by an injected fault.
        """
        settings = task["asked"]
        share = settings["resumed_share"] if task["sessions"] == "resumed" else 0.0
        self._send_command(do="open", out=str(self._out / "open.json"), rate_per_s=rate_per_s,
                           seed=seed,
                           stations=settings["stations"], offering_share=share, **changes)
        self._program.expect_line("open")

    def stop_load(self) -> None:
        """Stop new authentications, and wait for the answers to requests under way."""
        self._send_command(do="stop")
        self._program.expect_line("done")

    def kill(self) -> None:
        """Kill the load generator (injected fault)."""
        self._program.kill()

    def _send_command(self, **command: Any) -> None:
        self._program.send_command(json.dumps(command))


# --- Priority and speed of a guest's one processor in real time ---

#: Text in /proc/cpuinfo that shows a User-Mode-Linux guest.
_USER_MODE = "User Mode Linux"


class MeasuredProcessor:
    """The processor of a guest during a measurement.

    Only a guest in real time needs priorities, and a log of its speed.
    """

    def __init__(self, site: Site, *, is_device: bool) -> None:
        self._site = site
        #: Whether a modelled processor (device) takes the server's time.
        self.is_device = is_device

    @contextmanager
    def measurement_conditions(self, task: Mapping[str, Any], out: Path) -> Iterator[None]:
        """Give measured processes priority, and log the machine's speed, during a measurement."""
        with self._in_order(), self._log_speed(task, out):
            yield

    @property
    def is_real(self) -> bool:
        """Return whether computing takes this machine's own time."""
        return self._site.clock == "real"

    @property
    def is_ordered(self) -> bool:
        """Return whether this is a guest in real time, whose nodes share one processor."""
        return self.is_real and _USER_MODE in Path("/proc/cpuinfo").read_text()

    @contextmanager
    def _in_order(self) -> Iterator[None]:
        """Run measured processes in the order in which they wake up, in a guest in real time.

        Otherwise a request that the load generator interrupts at the server waits for 20 to 45 ms
        while others pass. No queueing model has such a server.
        """
        if not self.is_ordered:
            yield
            return
        with realtime_priority.real_time_priority(os.getpid(), tcpdump.PROGRAMS):
            yield

    @contextmanager
    def _log_speed(self, task: Mapping[str, Any], out: Path) -> Iterator[None]:
        """Log the machine's speed if the repetition also measures the server without load."""
        if not (self.is_ordered and task["share"]):
            yield
            return
        argv = [sys.executable, "-m", "measure.load.calibration_workload"]
        with HostProgram("yardstick", argv, self._site.log_path("yardstick", network.LOAD),
                         program_environment()) as program:
            yield
            program.send_command(str(out / YARDSTICK))
            program.expect_line("done")

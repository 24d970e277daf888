"""Control of the running load generator in the guest, by commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from measure.services.program import HostProgram
from studies.eapload2004.capacity import AFTER, BEFORE, PAUSES_S

#: Authentications of one client alone. In virtual time all take equally long.
_ALONE, _REAL_ALONE, _DEVICE_ALONE = 20, 200, 40
#: Authentications of one client after pauses. On a device they take longer and vary less.
_RESTED, _DEVICE_RESTED = 30 * len(PAUSES_S), 10 * len(PAUSES_S)


class LoadProgram:
    """The running load generator, which is controlled by commands."""

    def __init__(self, program: HostProgram, out: Path, busy_s: Callable[[], float]) -> None:
        self._program, self._out, self._busy_s = program, out, busy_s
        #: Busy time of the server's device in the last saturation (s).
        self.saturated_busy_s = 0.0

    def run_command(self, what: str, name: str = "", **arguments: Any) -> None:
        """Run a command to its end.

        Its journal is `NAME.json`.
        """
        self._send_command(do=what, out=str(self._out / f"{name or what}.json"), **arguments)
        self._program.expect_line("done")

    def calibrate_server(self, settings: Mapping[str, Any], *, is_real: bool,
                         is_device: bool) -> None:
        """Measure the server with one client alone, and then in saturation.

        In real time a machine is slower at first (by up to half), and times vary. There the server
        is kept busy before, without measurement.
        """
        busy = {"customers": settings["customers"], "count": settings["saturating"]}
        if is_real:
            self.keep_busy(**busy)
        alone = (_DEVICE_ALONE if is_device else _REAL_ALONE) if is_real else _ALONE
        self._run_closed_loop(BEFORE.alone, customers=1, count=alone)
        self._run_saturation(BEFORE.saturated, **busy)
        if is_real:
            self._run_pauses(BEFORE.rested, is_device=is_device)

    def keep_busy(self, *, customers: int, count: int) -> None:
        """Run authentications that are not measured."""
        self.run_command("closed", "unmeasured", customers=customers, count=count)

    def calibrate_again(self, settings: Mapping[str, Any], *, is_device: bool) -> None:
        """Repeat the calibration in reverse order after the load.

        In real time a machine may be slower then.
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
        """Start the background load.

        Args:
            task: The task of the cell.
            seed: Seed of the arrivals.
            rate_per_s: Mean rate of arrivals (1/s).
            changes: Changes to the schedule by a negative control.
        """
        asked = task["asked"]
        share = asked["resumed_share"] if task["sessions"] == "resumed" else 0.0
        self._send_command(do="open", out=str(self._out / "open.json"), rate_per_s=rate_per_s,
                           seed=seed,
                           stations=asked["stations"], offering_share=share, **changes)
        self._program.expect_line("open")

    def stop_load(self) -> None:
        """Stop the arrivals and wait for the answers to requests on the way."""
        self._send_command(do="stop")
        self._program.expect_line("done")

    def kill(self) -> None:
        """Kill the generator (negative control)."""
        self._program.kill()

    def _send_command(self, **command: Any) -> None:
        self._program.send_command(json.dumps(command))

"""Priority and speed of a guest's one processor in real time.

This module runs in the guest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure import capture, precedence
from measure.services.launcher import program_environment
from measure.services.program import HostProgram
from measure.workload import Site
from studies.eapload2004 import network
from studies.eapload2004.capacity import YARDSTICK

#: Text in /proc/cpuinfo that shows a User-Mode-Linux guest.
_USER_MODE = "User Mode Linux"


class MeasuredProcessor:
    """The processor of a site.

    Only the processor of a guest in real time needs treatment.
    """

    def __init__(self, site: Site, *, is_device: bool) -> None:
        self._site = site
        #: True if a device takes the server's time.
        self.is_device = is_device

    @contextmanager
    def measurement_conditions(self, task: Mapping[str, Any], out: Path) -> Iterator[None]:
        """Keep measured processes in order and log the machine's speed during a measurement."""
        with self._in_order(), self._log_speed(task, out):
            yield

    @property
    def is_real(self) -> bool:
        """Return whether computing takes this machine's own time."""
        return self._site.clock == "real"

    @property
    def is_ordered(self) -> bool:
        """Return whether the processor is that of a guest in real time.

        All nodes share it.
        """
        return self.is_real and _USER_MODE in Path("/proc/cpuinfo").read_text()

    @contextmanager
    def _in_order(self) -> Iterator[None]:
        """Serve measured processes in the order of waking up, in a guest in real time.

        Otherwise a request that the generator interrupts at the server waits for 20 to 45 ms while
        others pass. No queueing model has such a server.
        """
        if not self.is_ordered:
            yield
            return
        with precedence.real_time_priority(os.getpid(), capture.PROGRAMS):
            yield

    @contextmanager
    def _log_speed(self, task: Mapping[str, Any], out: Path) -> Iterator[None]:
        """Log the machine's speed where a cell is predicted by its own calibration."""
        if not (self.is_ordered and task["share"]):
            yield
            return
        argv = [sys.executable, "-m", "measure.load.yardstick"]
        with HostProgram("yardstick", argv, self._site.log_path("yardstick", network.LOAD),
                         program_environment()) as program:
            yield
            program.send_command(str(out / YARDSTICK))
            program.expect_line("done")

"""A guest's one processor while it is measured in real time: who goes first, and how quick it is.

Inside the machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure import capture, precedence
from measure.services.launcher import environment
from measure.services.program import HostProgram
from measure.workload import Site
from studies.eapload2004 import network
from studies.eapload2004.capacity import YARDSTICK

#: What a guest's processor calls itself.
_USER_MODE = "User Mode Linux"


class MeasuredProcessor:
    """The processor of a site; nothing is done about others than a guest's in real time."""

    def __init__(self, site: Site, *, is_device: bool) -> None:
        self._site = site
        #: Whether a device takes the server's time.
        self.is_device = is_device

    @contextmanager
    def measured(self, task: Mapping[str, Any], out: Path) -> Iterator[None]:
        """All that there is to be done while it is measured."""
        with self._in_order(), self._yardstick(task, out):
            yield

    @property
    def is_real(self) -> bool:
        """Whether computing takes the time that it takes this machine."""
        return self._site.clock == "real"

    @property
    def is_ordered(self) -> bool:
        """Whether it is a guest's, which is one for all and real."""
        return self.is_real and _USER_MODE in Path("/proc/cpuinfo").read_text()

    @contextmanager
    def _in_order(self) -> Iterator[None]:
        """In a guest and in real time, whoever is measured is served in the order of waking up.

        Its one processor would else leave a request of the server's that the generator interrupted
        waiting for 20 to 45 ms while others pass: no queueing model knows such a server.
        """
        if not self.is_ordered:
            yield
            return
        with precedence.given(os.getpid(), capture.PROGRAMS):
            yield

    @contextmanager
    def _yardstick(self, task: Mapping[str, Any], out: Path) -> Iterator[None]:
        """How quick the machine is all the while, where a cell is predicted by what it says."""
        if not (self.is_ordered and task["share"]):
            yield
            return
        argv = [sys.executable, "-m", "measure.load.yardstick"]
        with HostProgram("yardstick", argv, self._site.log("yardstick", network.LOAD),
                         environment()) as program:
            yield
            program.tell(str(out / YARDSTICK))
            program.expect("done")

"""Run a Python function in a process of its own, from an exact start time on.

`measure.services.programs.Launcher` starts this module on a node of the emulated network. Arguments
are the function to run (`MODULE:FUNCTION`), the path of the configuration file that the function
takes, and the start time in ns of the monotonic clock. `main` sleeps until then and calls the
function.
"""

from __future__ import annotations

import ctypes
import importlib
import time
from collections.abc import Sequence
from pathlib import Path

#: Name of the process.
PROCESS_NAME = "qop-program"
#: Lead of the wake-up before a program's start time, in ns: other starts then do not disturb it.
_AWAKE_NS = 10_240_000
# Linux: <linux/prctl.h>. Without timer slack, sleeps end on time and do not wait for other timers.
_PR_SET_TIMERSLACK = 29


def main(arguments: Sequence[str]) -> int:
    """Wait until the given time, then run the function and return 0."""
    place, config, at_ns = arguments
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    Path("/proc/self/comm").write_text(PROCESS_NAME)
    module, _, function = place.partition(":")
    run = getattr(importlib.import_module(module), function)
    for moment_ns in (int(at_ns) - _AWAKE_NS, int(at_ns)):
        time.sleep(max(0, moment_ns - time.monotonic_ns()) / 1e9)
    run(Path(config))
    return 0

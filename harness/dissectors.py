"""Processes that dissect and judge captures beside what is being measured, and give way to it."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor

_PR_SET_PDEATHSIG = 1


def dissectors(count: int) -> ProcessPoolExecutor:
    """So many processes; they end with the process that asks for them, however it ends.

    Made with the first task. Give tasks from the main thread: they end with the thread, too.
    """
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin, (os.getpid(),))


def _begin(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before this could be asked for
        os._exit(1)
    # Only what nobody else wants of a processor; what they start has it from them.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Ctrl-C is for the run to deal with.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

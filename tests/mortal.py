"""Tasks that end the process they are given to, in a module that is quickly imported there."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def end_once(mark: str) -> str:
    """Killed at its first call, as for want of memory; done at its second."""
    if Path(mark).exists():
        return "done"
    Path(mark).touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def end_always() -> None:
    """Killed whenever it is tried."""
    os.kill(os.getpid(), signal.SIGKILL)


def end_when_told(begun: str, told: str) -> None:
    """Killed once a file is there; another one says that this has begun."""
    Path(begun).touch()
    while not Path(told).exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

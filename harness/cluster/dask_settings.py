"""Prepare the library dask.distributed for use: check that it is installed, and silence its logs.

dask.distributed connects the machines of a cluster (`./qop run --cluster`). It is an optional
dependency, so `require_dask` tells the user how to install it. `DASK_SETTINGS` keep dask from using
processor time of measurements.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import warnings
from typing import Any

from harness.engine.machine import ROOT
from harness.errors import UserError

#: Dask settings: results stay on their worker, and nothing takes processor time from measurements.
DASK_SETTINGS: dict[str, Any] = {
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    # A worker that is silent for so long counts as lost.
    "distributed.scheduler.worker-ttl": "90s",
    # A task is for one worker. If that has ended, no other takes its address, so the task fails.
    "distributed.scheduler.no-workers-timeout": "1s",
    # Findings are sent as events; the scheduler must not store them.
    "distributed.admin.low-level-log-length": 0,
}

_LOUD_LOGGERS = ("distributed", "asyncssh", "tornado")


def require_dask(option: str) -> None:
    """Raise UserError with installation advice if dask.distributed is missing.

    Args:
        option: The option that needs dask, for the message.
    """
    if importlib.util.find_spec("distributed") is None:
        raise UserError(
            f"{option}: dask.distributed is not installed; get it with '{sys.executable} "
                        "-m pip install --require-hashes --only-binary :all: -r "
                        f"{ROOT / 'requirements' / 'cluster.lock'}'")


def silence_logs() -> None:
    """Silence the logs of dask and its libraries, because qop reports each error itself.

    Dask sets the levels of many of its loggers on import, so each of them is set here.
    """
    for name in (*_LOUD_LOGGERS, *logging.root.manager.loggerDict):
        if name.partition(".")[0] in _LOUD_LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", module="distributed")

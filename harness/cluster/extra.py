"""dask.distributed is an extra: is it there, and how it is set so that it keeps to itself."""

from __future__ import annotations

import importlib.util
import logging
import sys
import warnings
from typing import Any

from harness.engine.machine import ROOT
from harness.errors import UserError

#: No spreading of results, and nothing that takes the processor from what is measured.
SETTINGS: dict[str, Any] = {
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    # A worker that is silent for so long counts as lost, and what waits for one that is gone, too.
    "distributed.scheduler.worker-ttl": "90s",
    "distributed.scheduler.no-workers-timeout": "30s",
    # Findings pass as events: the scheduler is not to remember them.
    "distributed.admin.low-level-log-length": 0,
}

_LOUD = ("distributed", "asyncssh", "tornado")


def require(what: str) -> None:
    """Raise UserError, which says how to get it, if dask.distributed is missing."""
    if importlib.util.find_spec("distributed") is None:
        raise UserError(f"{what}: dask.distributed is not installed; get it with '{sys.executable} "
                        "-m pip install --require-hashes --only-binary :all: -r "
                        f"{ROOT / 'requirements' / 'cluster.lock'}'")


def be_quiet() -> None:
    """Silence the logs of dask and what it uses: qop reports each error itself, once.

    Dask gives many of its loggers a level of their own as it is imported.
    """
    for name in (*_LOUD, *logging.root.manager.loggerDict):
        if name.partition(".")[0] in _LOUD:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", module="distributed")

"""What a worker does when the client asks: say who it is, begin a share, tell of it, leave it.

These run as tasks of the worker, one at a time, in its thread. A worker measures one share at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from distributed import get_worker

from harness.cluster.session import ShareProcess
from harness.cluster.wire import Said, Share, WorkerIdentity
from harness.engine import provenance, setup, variants
from harness.engine.plan import Plan

_NO_SESSION = "the worker does not know of the share"


class AnySession(Protocol):
    """A share under way, see harness.cluster.session."""

    serial: str

    def ask(self, received: Collection[int], patience_s: float) -> Said:
        """What is new."""

    def close(self) -> None:
        """End it."""


Start = Callable[[Share, Path], AnySession]
_sessions: dict[str, AnySession] = {}
_lock = threading.Lock()


def identify(plan: Plan) -> WorkerIdentity:
    """What this worker measures with."""
    code = provenance.code_digest(plan.study.id)
    images = variants.built(plan)
    key = variants.key_of(images)
    if not key:
        return WorkerIdentity(code, "", 0)
    machine = setup.machine(plan)
    return WorkerIdentity(code, key, len(machine.processors), provenance.describe(plan, machine))


def begin(share: Share, start: Start = ShareProcess) -> None:
    """Begin a share; one that is still there has lost its client, and is ended first."""
    worker = get_worker()
    _end(worker.id)
    with _lock:
        _sessions[worker.id] = start(share, Path(worker.local_directory))


def attend(serial: str, received: Collection[int], patience_s: float) -> Said:
    """What is new of a share, after forgetting what the client has received."""
    session = _sessions.get(get_worker().id)
    if session is None or session.serial != serial:
        return Said(ended=True, broken=_NO_SESSION)
    return session.ask(received, patience_s)


def leave(serial: str) -> None:
    """End a share and all that belongs to it."""
    worker = get_worker()
    session = _sessions.get(worker.id)
    if session is not None and session.serial == serial:
        _end(worker.id)


def end_all() -> None:
    """End whatever is under way in this process, for the worker that is about to go."""
    for worker in list(_sessions):
        _end(worker)


def _end(worker: str) -> None:
    with _lock:
        session = _sessions.pop(worker, None)
    if session is not None:
        session.close()

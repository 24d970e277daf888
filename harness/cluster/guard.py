"""Keep dask from unpickling or obeying data that a worker wrote.

Dask's own messages carry pickles from a client to workers: a share is a function and its
arguments. No pickles are needed in the other direction, but dask has no setting for that (in
2026.8: "pickling can no longer be disabled"). Therefore a task that called `refuse_pickles`
refuses to unpickle. This covers a whole run and a whole scheduler, except while the scheduler
reads or processes messages of a run. From a worker, only the needed operations are accepted, in
messages of limited size about the worker itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import distributed.comm.tcp
import distributed.protocol.core
from distributed.comm import Comm
from distributed.comm.core import CommClosedError

#: Largest message in bytes that a worker may send: one repetition with its captures.
MESSAGE_BYTES = 256 << 20
#: Operations that a worker may send, on connection and later.
_WORKERS = frozenset({
    "register-worker", "heartbeat_worker", "close",
    "task-finished", "task-erred", "release-worker-data", "add-keys", "long-running", "reschedule",
    "keep-alive", "log-event", "worker-status-change", "request-refresh-who-has", "close-stream"})
#: Prefix of the topics of runs; events on dask's own topics would be unpickled by other clients.
TOPIC = "qop-"
Result = TypeVar("Result")
_trusts: ContextVar[bool] = ContextVar("trusts", default=True)


class RefusedError(EOFError, TypeError):
    """A pickle came from a peer that is not trusted.

    Dask closes the connection where a message ends too early (EOFError). It goes on without an
    exception whose type is wrong (TypeError).
    """


def refuse_pickles() -> None:
    """Make this task and all tasks that it starts from now on refuse pickles."""
    _patch_dask()
    _trusts.set(False)


async def run_without_pickles(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a task that refuses to unpickle. The caller is not affected."""
    async def run_refusing() -> Result:
        refuse_pickles()
        return await work
    return await asyncio.create_task(run_refusing())


@contextlib.contextmanager
def accept_pickles() -> Iterator[None]:
    """Allow unpickling inside the context, for data that a run has sent."""
    before = _trusts.set(True)
    try:
        yield
    finally:
        _trusts.reset(before)


@functools.cache
def _patch_dask() -> None:
    """Patch dask so that it does not unpickle, decompress or allocate untrusted data.

    Pickles inside a message are replaced by None, so that one worker's pickle does not end another
    worker's connection. Python's audit hook ends the connection for any other pickle.
    """
    core, tcp = distributed.protocol.core, distributed.comm.tcp
    for name in ("merge_and_deserialize", "decompress"):
        setattr(core, name, _skip_if_refusing(getattr(core, name)))
    tcp.read_bytes_rw = _limit_size(tcp.read_bytes_rw)
    sys.addaudithook(_audit_pickles)


def _skip_if_refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to return None for pickled or compressed data of an untrusted peer."""
    @functools.wraps(function)
    def call_if_accepting(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options) if _trusts.get() else None
    return call_if_accepting


def _limit_size(read: Callable[..., Any]) -> Callable[..., Any]:
    async def read_limited(stream: Any, size: int) -> Any:
        if size > MESSAGE_BYTES and not _trusts.get():
            raise CommClosedError(f"a message of {size} bytes")
        return await read(stream, size)
    return read_limited


def _audit_pickles(event: str, _: object) -> None:
    """Refuse to look up names for a pickle.

    Without names a pickle cannot create or call anything.
    """
    if event == "pickle.find_class" and not _trusts.get():
        raise RefusedError("what comes from a worker is not unpickled")


def accept_run_messages(comm: Comm) -> None:
    """Allow unpickling of all that a run sends on a connection."""
    read = comm.read

    async def read_accepting(*arguments: Any, **options: Any) -> Any:
        with accept_pickles():
            return await read(*arguments, **options)

    comm.read = read_accepting


def restrict_worker_messages(comm: Comm) -> None:
    """Close a worker's connection when it sends an operation that workers may not send."""
    read = comm.read
    address = ""

    async def read_allowed(*arguments: Any, **options: Any) -> Any:
        nonlocal address
        messages = await read(*arguments, **options)
        for message in messages if isinstance(messages, (tuple, list)) else (messages,):
            if isinstance(message, dict):
                address = address or message.get("address", "")
                if not _may_say(message, address):
                    comm.abort()
                    raise CommClosedError(f"a worker may not say {message.get('op')!r}")
        return messages

    comm.read = read_allowed


def _may_say(message: dict[str, Any], address: str) -> bool:
    """Return whether a worker may send this message. It may not speak for another worker."""
    topic = message.get("topic", TOPIC)
    return (message.get("op") in _WORKERS
            and message.get("worker", address) == address
            and message.get("address", address) == address
            and isinstance(topic, str) and topic.startswith(TOPIC))

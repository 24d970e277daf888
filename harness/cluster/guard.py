"""Dask kept from unpickling, and from obeying, what a worker wrote.

Dask's own messages carry pickles from a client to workers: a share is a function and its
arguments. Nothing needs them the other way, but dask has no setting for that (of 2026.8: "pickling
can no longer be disabled"). So what happens within `trusting_nobody` refuses to unpickle: the whole
of a run, and of a scheduler, but while it reads what a run sends or looks at that. Of a worker it
takes but the messages that it needs, of a bounded size, about itself.
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

#: The largest message that a worker may send: a repetition with its captures is one.
MESSAGE_BYTES = 256 << 20
#: Operations of a worker, when it connects and while it lasts.
_WORKERS = frozenset({
    "register-worker", "heartbeat_worker", "close",
    "task-finished", "task-erred", "release-worker-data", "add-keys", "long-running", "reschedule",
    "keep-alive", "log-event", "worker-status-change", "request-refresh-who-has", "close-stream"})
#: Topics of events belong to runs; dask's own topics would be unpickled by other clients.
TOPIC = "qop-"
Result = TypeVar("Result")
_trusts: ContextVar[bool] = ContextVar("trusts", default=True)


class RefusedError(EOFError, TypeError):
    """Something pickled came from where nothing is believed.

    Dask hangs up where a message ends too early, and does without an exception of a wrong type.
    """


def trusting_nobody() -> None:
    """Have this task, and all that it starts from now on, unpickle nothing."""
    _install()
    _trusts.set(False)


async def apart(work: Coroutine[Any, Any, Result]) -> Result:
    """Have work done, and all that it starts, trusting nobody; whoever asks goes on as before."""
    async def distrusting() -> Result:
        trusting_nobody()
        return await work
    return await asyncio.create_task(distrusting())


@contextlib.contextmanager
def trusting() -> Iterator[None]:
    """Unpickle for so long: what a run has sent."""
    before = _trusts.set(True)
    try:
        yield
    finally:
        _trusts.reset(before)


@functools.cache
def _install() -> None:
    """Refuse wherever dask unpickles, decompresses or allocates what it is sent.

    What only passes through a message is replaced, so that one worker's pickle ends nobody else's
    connection; Python's own hook ends the connection of whatever else there is.
    """
    core, tcp = distributed.protocol.core, distributed.comm.tcp
    for name in ("merge_and_deserialize", "decompress"):
        setattr(core, name, _replaced(getattr(core, name)))
    tcp.read_bytes_rw = _bounded(tcp.read_bytes_rw)
    sys.addaudithook(_hook)


def _replaced(function: Callable[..., Any]) -> Callable[..., Any]:
    """None in the place of what came pickled or compressed."""
    @functools.wraps(function)
    def replaces(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options) if _trusts.get() else None
    return replaces


def _bounded(read: Callable[..., Any]) -> Callable[..., Any]:
    async def reads(stream: Any, size: int) -> Any:
        if size > MESSAGE_BYTES and not _trusts.get():
            raise CommClosedError(f"a message of {size} bytes")
        return await read(stream, size)
    return reads


def _hook(event: str, _: object) -> None:
    """Nothing can be made, or called, of a pickle without a name that is looked up."""
    if event == "pickle.find_class" and not _trusts.get():
        raise RefusedError("what comes from a worker is not unpickled")


def of_run(comm: Comm) -> None:
    """Have what a run sends by a connection unpickled."""
    read = comm.read

    async def believed(*arguments: Any, **options: Any) -> Any:
        with trusting():
            return await read(*arguments, **options)

    comm.read = believed


def of_worker(comm: Comm) -> None:
    """Have of a worker's connection read what a worker may say, and nothing else."""
    read = comm.read
    address = ""

    async def judged(*arguments: Any, **options: Any) -> Any:
        nonlocal address
        messages = await read(*arguments, **options)
        for message in messages if isinstance(messages, (tuple, list)) else (messages,):
            if isinstance(message, dict):
                address = address or message.get("address", "")
                if not _may_say(message, address):
                    comm.abort()
                    raise CommClosedError(f"a worker may not say {message.get('op')!r}")
        return messages

    comm.read = judged


def _may_say(message: dict[str, Any], address: str) -> bool:
    """Whether a worker may say this; in the name of another one it may say nothing."""
    topic = message.get("topic", TOPIC)
    return (message.get("op") in _WORKERS
            and message.get("worker", address) == address
            and message.get("address", address) == address
            and isinstance(topic, str) and topic.startswith(TOPIC))

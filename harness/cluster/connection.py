"""A dask cluster as a run uses it: who is in it, and one task on one worker, with what it says.

The scheduler is one that runs already (tls://HOST:PORT), or is started with its workers by SSH
(ssh:HOST1,HOST2). Nothing listens but what dask needs for this; there are no dashboards.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any

import dask
from distributed import Client, wait

from harness.cluster import guard, keys, remote
from harness.cluster.extra import SETTINGS, be_quiet
from harness.cluster.keys import ClusterKey, Role
from harness.errors import UserError

_CONNECT_S = 15.0
_CLOSE_S = 3.0
_LOOK_S = 1.0
#: What a worker may take to end what nobody wants any more.
_END_S = 30.0
_ADDRESS = re.compile(r"tls://(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):\d{1,5}")
_HOST = re.compile(r"([\w.-]+@)?[\w.-]+")


class WorkerLost(Exception):
    """A worker went away or is silent; the text is the reason."""


class _QuietClient(Client):  # type: ignore[misc]
    """A client that prints and warns of nothing on a worker's behalf."""

    _default_event_handlers: Mapping[str, Any] = {}


class Cluster:
    """The workers of a scheduler, and what they are asked to do for a `run`."""

    def __init__(self, client: Client, where: str, run: str) -> None:
        self._client = client
        self._where = where
        self._run = run

    async def workers(self) -> set[str]:
        """Addresses of the workers that are there now. Raises UserError without a scheduler."""
        while self._client.status == "running":  # one that came back would not know our tasks
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                return set((await self._client.scheduler.identity(n_workers=-1))["workers"])
            await asyncio.sleep(_LOOK_S)
        raise UserError(f"--cluster {self._where}: the scheduler is gone; start it and its "
                        "workers and give the same command again, which goes on from here",
                        status=1)

    async def call(self, worker: str, function: Callable[..., Any], *arguments: Any,
                   **options: Any) -> AsyncGenerator[Mapping[str, Any]]:
        """Run a function on one worker and on no other; what it says until it ends.

        It is given the run, a serial number and the arguments, and says all as events on a topic
        of this number. Raises WorkerLost, and UserError if the scheduler is gone.
        """
        serial = uuid.uuid4().hex
        topic = f"{guard.TOPIC}{serial}"
        said: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()

        def hear(event: tuple[float, Any]) -> None:
            if isinstance(event[1], dict) and event[1].pop("worker", "") == worker:
                said.put_nowait(event[1])

        self._client.subscribe_topic(topic, hear)
        future = self._client.submit(function, self._run, serial, *arguments,
                                     key=f"{function.__name__}-{serial}", workers=[worker],
                                     pure=False, allow_other_workers=False, **options)
        with self._client.as_current():
            ended = asyncio.ensure_future(wait([future]))
        # What a task says comes before its end: all of it is one stream, in order.
        ended.add_done_callback(lambda _: said.put_nowait(None))
        has_begun = False
        try:
            while (message := await said.get()) is not None:
                has_begun = True
                yield message
        except asyncio.CancelledError:
            future.release()
            with contextlib.suppress(TimeoutError):  # its worker sees that nobody wants it
                async with asyncio.timeout(_END_S if has_begun else 0.0):
                    while (await said.get() or {}).get("kind") != "end":
                        pass
            raise
        finally:
            status = future.status
            future.release()
            self._client.unsubscribe_topic(topic)
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
        if status != "finished":
            is_there = worker in await self.workers()
            raise WorkerLost("its task failed" if is_there else "the worker is gone")


@contextlib.asynccontextmanager
async def connected(where: str, run: str) -> AsyncIterator[Cluster]:
    """The cluster that `--cluster` names. Raises UserError."""
    be_quiet()
    guard.trusting_nobody()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(dask.config.set(SETTINGS))
        if where.startswith("ssh:"):
            scheduler = ClusterKey.new()
            address = await stack.enter_async_context(remote.started(where, scheduler))
            key = scheduler.of(Role.RUN)
        else:
            address, key = where, keys.find(where, Role.RUN)
            await keys.refuse_foreign_key(address, key)
        try:
            client = await _QuietClient(address, asynchronous=True, timeout=_CONNECT_S,
                                        security=key.security(), set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UserError(f"--cluster {where}: no scheduler answers there to this key "
                            f"({' '.join(str(error).split())[:150]}); start one with './qop "
                            "worker --scheduler tls://HOST:PORT', or see docs/cluster.md",
                            status=1) from None
        try:
            yield Cluster(client, where, run)
        finally:
            # What was asked for last may be on its way; a scheduler that is gone is no error.
            with contextlib.suppress(OSError, TimeoutError):
                await client.close(timeout=_CLOSE_S)


def check(where: str) -> None:
    """Raise UserError if `where` names no cluster."""
    if where.startswith("ssh:"):
        is_good = all(_HOST.fullmatch(host) for host in where.removeprefix("ssh:").split(","))
    else:
        is_good = is_address(where)
    if not is_good:
        raise UserError(f"--cluster {where}: no cluster; give the address of a scheduler such as "
                        "tls://HOST:8786, or hosts as in ssh:HOST1,HOST2")


def is_address(text: str) -> bool:
    """Whether this could be the address of a scheduler."""
    return bool(_ADDRESS.fullmatch(text))

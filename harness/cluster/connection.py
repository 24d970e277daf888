"""A dask cluster as a run uses it: who is in it, and one task on one worker, with what it says.

The scheduler is one that runs already (tls://HOST:PORT), or is started with its workers by SSH
(ssh:HOST1,HOST2). Nothing listens but what dask needs for this; there are no dashboards.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import dask
from distributed import Client, Future, wait

from harness.cluster import guard, keys, remote
from harness.cluster.extra import SETTINGS, be_quiet
from harness.cluster.keys import ClusterKey, Role
from harness.errors import UserError

_CONNECT_S = 15.0
_CLOSE_S = 3.0
_LOOK_S = 1.0
_ADDRESS = re.compile(r"tls://(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):\d{1,5}")
_HOST = re.compile(r"([\w.-]+@)?[\w.-]+")
Take = Callable[[Mapping[str, Any]], None]


class WorkerLost(Exception):
    """A worker went away or is silent; the text is the reason."""


class _QuietClient(Client):  # type: ignore[misc]
    """A client that prints and warns of nothing on a worker's behalf."""

    _default_event_handlers: Mapping[str, Any] = {}


class Cluster:
    """The workers of a scheduler. What they say is about `run`, in events on its topic."""

    def __init__(self, client: Client, where: str, run: str) -> None:
        self._client = client
        self._where = where
        self._hearing: dict[str, tuple[str, Take, asyncio.Future[None]]] = {}
        client.subscribe_topic(f"{guard.TOPIC}{run}", self._hear)

    async def workers(self) -> list[str]:
        """Addresses of the workers that are there now. Raises UserError if the scheduler is not."""
        asked = asyncio.ensure_future(self._client.scheduler.identity(n_workers=-1))
        try:
            while not (await asyncio.wait({asked}, timeout=_LOOK_S))[0]:
                self._require_scheduler()
            return sorted(asked.result()["workers"])
        except (OSError, TimeoutError, RuntimeError) as error:
            raise self._gone() from error
        finally:
            asked.cancel()

    def _require_scheduler(self) -> None:
        """Raise UserError if it is gone: one that came back would not know our shares."""
        if self._client.status != "running":
            raise self._gone()

    async def call(self, worker: str, function: Callable[..., Any], *arguments: Any, serial: str,
                   take: Take | None = None, resources: Mapping[str, int] | None = None) -> None:
        """Run a function on one worker and on no other, and take what it says under `serial`.

        Raises WorkerLost, what `take` raises, and UserError if the scheduler is gone.
        """
        self._require_scheduler()
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if take is not None:
            self._hearing[serial] = (worker, take, refused)
        future = self._client.submit(
            function, *arguments, key=f"{function.__name__}-{serial}", workers=[worker],
            pure=False, allow_other_workers=False, resources=dict(resources or {}))
        try:
            await self._until_ended(worker, future, refused)
        finally:
            self._hearing.pop(serial, None)
            refused.cancel()
            future.release()

    async def _until_ended(self, worker: str, future: Future,
                           refused: asyncio.Future[None]) -> None:
        """What a task says comes before its end: all of it is one stream, in order."""
        with self._client.as_current():
            ended = asyncio.ensure_future(wait([future]))
        try:
            while True:
                done, _ = await asyncio.wait({ended, refused}, timeout=_LOOK_S,
                                             return_when=asyncio.FIRST_COMPLETED)
                if refused in done:
                    refused.result()
                if ended in done:
                    break
                self._require_scheduler()
        finally:
            ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)
        if future.status != "finished":
            is_there = worker in await self.workers()
            raise WorkerLost("its task failed" if is_there else "the worker is gone")

    def _hear(self, event: tuple[float, Any]) -> None:
        """Give what a worker says to whoever asked this worker."""
        said = event[1]
        if not isinstance(said, Mapping):
            return
        worker, take, refused = self._hearing.get(str(said.get("serial")), (None, None, None))
        if take is None or refused is None or refused.done() or said.get("worker") != worker:
            return
        try:
            take(said)
        except Exception as error:  # noqa: BLE001 - for whoever asked
            refused.set_exception(error)

    def _gone(self) -> UserError:
        return UserError(f"--cluster {self._where}: the scheduler is gone; start it and its "
                         "workers and give the same command again, which goes on from here",
                         status=1)


@contextlib.asynccontextmanager
async def connected(where: str, run: str) -> AsyncIterator[Cluster]:
    """The cluster that `--cluster` names. Raises UserError."""
    be_quiet()
    guard.trusting_nobody()
    with dask.config.set(SETTINGS):
        async with contextlib.AsyncExitStack() as stack:
            if where.startswith("ssh:"):
                key = ClusterKey.new()
                address = await stack.enter_async_context(remote.started(where, key))
                key = key.lowered(Role.RUN)
            else:
                address, key = where, keys.find(where, Role.RUN)
            client = await stack.enter_async_context(_client(address, where, key))
            yield Cluster(client, where, run)


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


@contextlib.asynccontextmanager
async def _client(address: str, where: str, key: ClusterKey) -> AsyncIterator[Client]:
    try:
        client = await _QuietClient(address, asynchronous=True, timeout=_CONNECT_S,
                                    security=key.security(), set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"--cluster {where}: no scheduler answers there to this key "
                        f"({' '.join(str(error).split())[:150]}); start one with './qop worker "
                        "--scheduler tls://HOST:PORT', or see docs/cluster.md", status=1) from None
    try:
        yield client
    finally:
        # What was asked for last may still be on its way; a scheduler that is gone is no error.
        with contextlib.suppress(OSError, TimeoutError):
            await client.close(timeout=_CLOSE_S)

"""A dask cluster as the client uses it: who is in it, and one call of a function on one worker.

The scheduler is one that runs already (tcp://HOST:PORT), or dask's SSHCluster starts it and its
workers (ssh:HOST1,HOST2). Nothing listens but what dask needs for this; there are no dashboards.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import dask
from distributed import Client, SSHCluster

from harness.cluster.extra import SETTINGS, be_quiet
from harness.engine.machine import ROOT
from harness.errors import UserError

_CONNECT_S = 15.0
_CLOSE_S = 3.0
#: A worker that does not answer for this long counts as lost.
_SILENT_S = 90.0
_LOOK_S = 1.0
_ADDRESS = re.compile(r"tcp://(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):\d{1,5}")
_HOST = re.compile(r"([\w.-]+@)?[\w.-]+")
Result = TypeVar("Result")


class WorkerLost(Exception):
    """A worker went away or is silent; the text is the reason."""


class WorkerFailed(Exception):
    """A worker answered with an error; the text is what it said."""


class Cluster:
    """The workers of a scheduler."""

    def __init__(self, client: Client, where: str) -> None:
        self._client = client
        self._where = where

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

    async def call(self, worker: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function on one worker and on no other.

        Raises WorkerLost, WorkerFailed, and UserError if the scheduler is gone.
        """
        self._require_scheduler()
        future = self._client.submit(function, *arguments, workers=[worker], pure=False,
                                     allow_other_workers=False, retries=0)
        answer: asyncio.Task[Result] = asyncio.create_task(_result(future))
        try:
            async with asyncio.timeout(_SILENT_S):
                while not (await asyncio.wait({answer}, timeout=_LOOK_S))[0]:
                    if worker not in await self.workers():
                        raise WorkerLost("the worker is gone")
        except TimeoutError:
            raise WorkerLost(f"the worker did not answer for {_SILENT_S:g} s") from None
        finally:
            answer.cancel()
            future.release()
        return await self._judged(worker, answer)

    async def _judged(self, worker: str, answer: asyncio.Task[Result]) -> Result:
        """The answer, or what its error means."""
        try:
            return answer.result()
        except Exception as error:
            # Whatever it is: an error on a worker that is there is an answer, any other is a loss.
            if worker not in await self.workers():
                raise WorkerLost("the worker is gone") from None
            said = " ".join(str(error).split())[:300]
            raise WorkerFailed(f"{type(error).__name__}: {said}") from error

    def _gone(self) -> UserError:
        return UserError(f"--cluster {self._where}: the scheduler is gone; start it and its "
                         "workers and give the same command again, which goes on from here",
                         status=1)


async def _result(future: Any) -> Any:
    return await future


@contextlib.asynccontextmanager
async def connected(where: str) -> AsyncIterator[Cluster]:
    """The cluster that `--cluster` names. Raises UserError."""
    be_quiet()
    with dask.config.set(SETTINGS):
        if where.startswith("ssh:"):
            async with _over_ssh(where) as address, _client(address, where) as client:
                yield Cluster(client, where)
        else:
            async with _client(where, where) as client:
                yield Cluster(client, where)


def check(where: str) -> None:
    """Raise UserError if `where` names no cluster."""
    if where.startswith("ssh:"):
        is_good = all(_HOST.fullmatch(host) for host in where.removeprefix("ssh:").split(","))
    else:
        is_good = is_address(where)
    if not is_good:
        raise UserError(f"--cluster {where}: no cluster; give the address of a scheduler such as "
                        "tcp://HOST:8786, or hosts as in ssh:HOST1,HOST2")


def is_address(text: str) -> bool:
    """Whether this could be the address of a scheduler."""
    return bool(_ADDRESS.fullmatch(text))


@contextlib.asynccontextmanager
async def _client(address: str, where: str) -> AsyncIterator[Client]:
    try:
        client = await Client(address, asynchronous=True, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"--cluster {where}: no scheduler answers there "
                        f"({' '.join(str(error).split())[:150]}); start one with './qop worker "
                        "--scheduler tcp://HOST:PORT', or see docs/cluster.md", status=1) from None
    try:
        yield client
    finally:
        # What was asked for last may still be on its way; a scheduler that is gone is no error.
        with contextlib.suppress(OSError, TimeoutError):
            await client.close(timeout=_CLOSE_S)


@contextlib.asynccontextmanager
async def _over_ssh(where: str) -> AsyncIterator[str]:
    """Scheduler on the first host, a worker on each: from the same checkout at the same place."""
    hosts = where.removeprefix("ssh:").split(",")
    # Dask puts this in front of "-m distributed...", behind "env NAME=value".
    python = f"PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} -P"
    try:
        cluster = await SSHCluster(
            [hosts[0], *hosts], asynchronous=True, remote_python=[python] * (len(hosts) + 1),
            scheduler_options={"host": hosts[0].rpartition("@")[2], "port": 0, "dashboard": False},
            worker_class="harness.cluster.serving.PlainWorker", worker_options={})
    except Exception as error:  # noqa: BLE001 - dask raises a plain one when a start fails
        raise UserError(f"--cluster {where}: cannot be started "
                        f"({' '.join(str(error).split())[:300]}); can you log in there "
                        f"without a password, and is this checkout at {ROOT} there, set up?",
                        status=1) from None
    try:
        yield cluster.scheduler_address
    finally:
        await cluster.close()

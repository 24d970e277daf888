"""Connect a run to a dask cluster: list workers, and run tasks on them.

The scheduler is a running one (tls://HOST:PORT), or is started by SSH together with its workers
(ssh:HOST1,HOST2). Only the ports that dask needs for this are open; there are no dashboards.
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
from harness.cluster.extra import SETTINGS, silence_logs
from harness.cluster.keys import ClusterKey, Role
from harness.errors import UserError

_CONNECT_S = 15.0
_CLOSE_S = 3.0
_LOOK_S = 1.0
#: Time in seconds that a worker may take to end a task that was cancelled.
_END_S = 30.0
_ADDRESS = re.compile(r"tls://(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):\d{1,5}")
_HOST = re.compile(r"([\w.-]+@)?[\w.-]+")


class WorkerLost(Exception):
    """A worker went away or is silent. The text is the reason."""


class _QuietClient(Client):  # type: ignore[misc]
    """A client that prints no messages and warnings of workers."""

    _default_event_handlers: Mapping[str, Any] = {}


class Cluster:
    """The workers of a scheduler, used by one `run`."""

    def __init__(self, client: Client, where: str, run: str) -> None:
        self._client = client
        self._where = where
        self._run = run

    async def worker_addresses(self) -> set[str]:
        """Return the addresses of the connected workers.

        Raises:
            UserError: The scheduler is gone.
        """
        while self._client.status == "running":  # a restarted one does not know our tasks
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):
                return set((await self._client.scheduler.identity(n_workers=-1))["workers"])
            await asyncio.sleep(_LOOK_S)
        raise UserError(f"--cluster {self._where}: the scheduler is gone; start it and its "
                        "workers and give the same command again, which goes on from here",
                        status=1)

    async def run_on_worker(self, worker: str, function: Callable[..., Any], *arguments: Any,
                            **options: Any) -> AsyncGenerator[Mapping[str, Any]]:
        """Run a function on exactly one worker and yield its messages until it ends.

        The function gets the run, a serial number and the arguments. It sends its messages as dask
        events on a topic of this number.

        Raises:
            WorkerLost: The task failed or the worker is gone.
            UserError: The scheduler is gone.
        """
        serial = uuid.uuid4().hex
        topic = f"{guard.TOPIC}{serial}"
        said: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()

        def queue_event(event: tuple[float, Any]) -> None:
            if isinstance(event[1], dict) and event[1].pop("worker", "") == worker:
                said.put_nowait(event[1])

        self._client.subscribe_topic(topic, queue_event)
        future = self._client.submit(function, self._run, serial, *arguments,
                                     key=f"{function.__name__}-{serial}", workers=[worker],
                                     pure=False, allow_other_workers=False, **options)
        with self._client.as_current():
            ended = asyncio.ensure_future(wait([future]))
        # Messages of a task arrive before its end: they share one ordered stream.
        ended.add_done_callback(lambda _: said.put_nowait(None))
        has_begun = False
        try:
            while (message := await said.get()) is not None:
                has_begun = True
                yield message
        except asyncio.CancelledError:
            future.release()
            with contextlib.suppress(TimeoutError):  # the worker notices that the task was released
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
            is_there = worker in await self.worker_addresses()
            raise WorkerLost("its task failed" if is_there else "the worker is gone")


@contextlib.asynccontextmanager
async def connect_to_cluster(where: str, run: str) -> AsyncIterator[Cluster]:
    """Connect to the cluster that `--cluster` names.

    Raises:
        UserError: No scheduler answers, or it refuses the key.
    """
    silence_logs()
    guard.refuse_pickles()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(dask.config.set(SETTINGS))
        if where.startswith("ssh:"):
            scheduler = ClusterKey.from_secret()
            address = await stack.enter_async_context(remote.start_cluster(where, scheduler))
            key = scheduler.derive_key(Role.RUN)
        else:
            address, key = where, keys.find_key(where, Role.RUN)
            await keys.refuse_foreign_key(address, key)
        try:
            client = await _QuietClient(address, asynchronous=True, timeout=_CONNECT_S,
                                        security=key.tls_security(), set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UserError(f"--cluster {where}: no scheduler answers there to this key "
                            f"({' '.join(str(error).split())[:150]}); start one with './qop "
                            "worker --scheduler tls://HOST:PORT', or see docs/cluster.md",
                            status=1) from None
        try:
            yield Cluster(client, where, run)
        finally:
            # The last request may still be in transit; a scheduler that is gone is no error here.
            with contextlib.suppress(OSError, TimeoutError):
                await client.close(timeout=_CLOSE_S)


def check_cluster_name(where: str) -> None:
    """Raise UserError if `where` is no scheduler's address and no list of hosts."""
    if where.startswith("ssh:"):
        is_good = all(_HOST.fullmatch(host) for host in where.removeprefix("ssh:").split(","))
    else:
        is_good = is_address(where)
    if not is_good:
        raise UserError(f"--cluster {where}: no cluster; give the address of a scheduler such as "
                        "tls://HOST:8786, or hosts as in ssh:HOST1,HOST2")


def is_address(text: str) -> bool:
    """Return whether the text has the form of a scheduler's address."""
    return bool(_ADDRESS.fullmatch(text))

"""Connect a run to a dask cluster, to list its workers and to run tasks on them.

Workers are machines that measure parts of the run. The user names a running scheduler
(tls://HOST:PORT), or machines on which qop starts a scheduler and workers by SSH (ssh:HOST1,HOST2).
`connect_to_cluster` accepts both forms and returns a `Cluster`. Only the ports that dask needs for
this are open; there are no dashboards.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import asyncssh
import dask
from distributed import Client, wait

import studies
from harness.cluster import security
from harness.cluster.dask_settings import DASK_SETTINGS, silence_logs
from harness.cluster.security import ClusterKey
from harness.engine.machine import ROOT
from harness.errors import UserError

# --- Scheduler and workers that are started by SSH, for the duration of a run ---
# Each is `./qop worker` from the same checkout at the same path. Its key is the first line of its
# standard input, so that no command line shows a key. It ends when that input ends, however the run
# ends.

_REMOTE_START_S = 60.0
_REMOTE_END_S = 20.0


@contextlib.asynccontextmanager
async def start_cluster(where: str, key: ClusterKey) -> AsyncIterator[str]:
    """Start a scheduler on the first host and a worker on each, by SSH.

    Yields:
        The scheduler's address.

    Raises:
        UserError: A host cannot be reached, or its worker does not start.
    """
    first, *others = where.removeprefix("ssh:").split(",")
    async with contextlib.AsyncExitStack() as stack:
        try:
            host = first.rpartition("@")[2]
            first_line = await stack.enter_async_context(
                _start_worker(first, ["--scheduler", f"tls://{host}:0"], key))
            address = first_line.split()[-1]
            for other in others:
                await stack.enter_async_context(_start_worker(other, [address], key))
        except (OSError, asyncssh.Error, TimeoutError, UserError) as error:
            raise UserError(f"--cluster {where}: cannot be started "
                            f"({' '.join(str(error).split())[:300]}); can you log in there "
                            f"without a password, and is this checkout at {ROOT} there, set up?",
                            status=1) from None
        yield address


@contextlib.asynccontextmanager
async def _start_worker(host: str, arguments: Sequence[str], key: ClusterKey) -> AsyncIterator[str]:
    """Start a worker on a host by SSH, and yield the first line that it prints.

    Raises:
        UserError: The worker ended before it printed a line.
        OSError: The host cannot be reached.
        asyncssh.Error: SSH failed.
    """
    command = " ".join((
        f"PYTHONPATH={shlex.quote(str(ROOT))}",
        f"{studies.PATH_VARIABLE}={shlex.quote(os.environ.get(studies.PATH_VARIABLE, ''))}",
        f"{security.KEY_VARIABLE}={security.KEY_FROM_INPUT}",
        shlex.join([sys.executable, "-P", "-m", "harness", "worker", *arguments])))
    async with asyncssh.connect(host) as connection, \
            connection.create_process(command) as process:
        process.stdin.write(f"{key}\n")
        async with asyncio.timeout(_REMOTE_START_S):
            first_line: str = await process.stdout.readline()
            if not first_line:
                raise UserError(f"{host}: {(await process.stderr.read()).strip()[-200:]}")
        try:
            yield first_line
        finally:
            process.stdin.write_eof()
            with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
                await asyncio.wait_for(process.wait_closed(), _REMOTE_END_S)
            process.kill()


# --- Connection to a cluster ---

_CONNECT_S = 15.0
_CLOSE_S = 3.0
_LOOK_S = 1.0
#: Time in seconds that a worker may take to end a task that was cancelled.
_END_S = 30.0
_ADDRESS = re.compile(r"tls://(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):\d{1,5}")
_HOST = re.compile(r"([\w.-]+@)?[\w.-]+")


class WorkerLost(Exception):
    """An error: a worker disconnected or is silent. The text is the reason."""


class _QuietClient(Client):  # type: ignore[misc]
    """A dask client that does not print messages and warnings of workers."""

    _default_event_handlers: Mapping[str, Any] = {}


class Cluster:
    """A connection to the workers of a dask scheduler, for one `qop run`."""

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
                            **options: Any) -> AsyncGenerator[dict[str, Any]]:
        """Run a function on exactly one worker and yield its messages until it ends.

        The function gets the run, a serial number and the arguments. It sends its messages as dask
        events on a topic of this number.

        Raises:
            WorkerLost: The task failed, the worker is gone, or its data is no message.
            UserError: The scheduler is gone.
        """
        serial = uuid.uuid4().hex
        topic = f"{security.TOPIC}{serial}"
        data_queue: asyncio.Queue[Any] = asyncio.Queue()

        def queue_event(event: tuple[float, Any]) -> None:
            if isinstance(event[1], dict) and event[1].get("worker") == worker:
                data_queue.put_nowait(event[1].get("data", ""))

        self._client.subscribe_topic(topic, queue_event)
        future = self._client.submit(function, self._run, serial, *arguments,
                                     key=f"{function.__name__}-{serial}", workers=[worker],
                                     pure=False, allow_other_workers=False, **options)
        with self._client.as_current():
            ended = asyncio.ensure_future(wait([future]))
        # Messages of a task arrive before its end: they share one ordered stream.
        ended.add_done_callback(lambda _: data_queue.put_nowait(None))
        has_begun = False
        try:
            while (data := await data_queue.get()) is not None:
                has_begun = True
                yield security.unpack_message(data)
        except ValueError as error:
            raise WorkerLost(str(error)) from None
        except asyncio.CancelledError:
            future.release()
            # The worker notices that the task was released.
            with contextlib.suppress(TimeoutError, ValueError):
                async with asyncio.timeout(_END_S if has_begun else 0.0):
                    while not (data := await data_queue.get()) \
                            or security.unpack_message(data)["kind"] != "end":
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
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(dask.config.set(DASK_SETTINGS))
        if where.startswith("ssh:"):
            key = ClusterKey.make_new()
            address = await stack.enter_async_context(start_cluster(where, key))
        else:
            address, key = where, security.find_key(where)
            await security.refuse_foreign_key(address, key)
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
    """Raise UserError if `--cluster` names neither a scheduler's address nor a list of hosts."""
    if where.startswith("ssh:"):
        is_good = all(_HOST.fullmatch(host) for host in where.removeprefix("ssh:").split(","))
    else:
        is_good = is_address(where)
    if not is_good:
        raise UserError(f"--cluster {where}: no cluster; give the address of a scheduler such as "
                        "tls://HOST:8786, or hosts as in ssh:HOST1,HOST2")


def is_address(text: str) -> bool:
    """Return whether a text has the form of a scheduler's address (tls://HOST:PORT)."""
    return bool(_ADDRESS.fullmatch(text))

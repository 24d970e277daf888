"""A worker and optionally a scheduler: dask's own, with TLS and without web pages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed.comm import get_address_host_port
from distributed.utils import get_ip

from harness.cluster import guard, keys, measuring
from harness.cluster.extra import SETTINGS, silence_logs
from harness.cluster.keys import ClusterKey, Role
from harness.errors import UserError

#: Time in seconds that a worker waits for its scheduler.
_LOOK_S = 60.0


class PlainScheduler(distributed.Scheduler):  # type: ignore[misc]
    """A scheduler that accepts only its cluster's runs and workers."""

    def __init__(self, *arguments: Any, key: ClusterKey, **options: Any) -> None:
        self._believed = key.trusted_keys()
        # The run itself gives the steps of a lost share to others, because it knows which are
        # stored.
        super().__init__(*arguments, **{"dashboard": False, "allowed_failures": 0,
                                        "security": key.tls_security()} | options)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start no web pages, because they would show a run to anyone."""

    async def _handle_comm(self, comm: Any) -> None:
        """Handle a connection as dask does, restricted by the role in the peer's certificate."""
        socket = comm.stream and comm.stream.socket
        role = socket and keys.role_of(socket.getpeercert(binary_form=True), self._believed)
        if not role:
            comm.abort()
            return
        (guard.accept_run_messages if role is Role.RUN else guard.restrict_worker_messages)(comm)
        await super()._handle_comm(comm)

    async def start_unsafe(self) -> Any:
        """Start to listen in a task that refuses pickles. All connections inherit that."""
        return await guard.run_without_pickles(super().start_unsafe())

    async def close(self, *arguments: Any, **options: Any) -> Any:
        """Close the scheduler in a task that refuses pickles."""
        return await guard.run_without_pickles(super().close(*arguments, **options))

    def log_worker_event(self, worker: str, topic: Any, msg: Any) -> None:
        """Pass on events that a run has subscribed to. Dask would store all others in memory."""
        there = self._broker._topics  # noqa: SLF001 - dask has no other way to ask
        if topic in there and there[topic].subscribers:
            super().log_worker_event(worker, topic, msg)

    async def update_graph(self, *arguments: Any, **options: Any) -> None:
        """Accept a run's tasks, with pickles. Workers may not send this operation."""
        with guard.accept_pickles():
            await super().update_graph(*arguments, **options)


class PlainWorker(distributed.Worker):  # type: ignore[misc]
    """A worker that measures one share at a time. When it closes, dask cancels the measurement."""

    def __init__(self, scheduler: str, *, key: ClusterKey, **options: Any) -> None:
        # Dask sees almost none of the memory in use: guests are processes of their own. With more
        # than one thread the worker can describe itself while it measures a share.
        super().__init__(scheduler, **{
            "host": get_ip(*get_address_host_port(scheduler)), "nthreads": 2, "memory_limit": 0,
            "resources": {measuring.RESOURCE: 1}, "dashboard": False,
            "security": key.tls_security(),
            "death_timeout": _LOOK_S} | options)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start no web pages."""


async def serve_worker(scheduler: str, folder: Path, say: Callable[[str], None], *,
                       listen: str | None,
                       is_scheduler: bool) -> None:
    """Serve a scheduler until it is gone or this task is cancelled.

    Args:
        scheduler: Address of the scheduler, or the address to listen on.
        folder: Dask's local directory for the worker.
        say: Called with each line of status text.
        listen: Host address for the worker to listen on; None for dask's choice.
        is_scheduler: Whether to start the scheduler here, too.

    Raises:
        UserError: The scheduler does not answer or refuses the key, or cannot listen here.
    """
    silence_logs()
    with dask.config.set(SETTINGS):
        async with contextlib.AsyncExitStack() as stack:
            if is_scheduler:
                scheduler, key = await _start_scheduler(scheduler, stack, say)
            else:
                key = keys.find_key(scheduler, Role.WORKER)
                await keys.refuse_foreign_key(scheduler, key)
            options = {"host": listen} if listen else {}
            try:
                worker = await PlainWorker(scheduler, key=key, local_directory=str(folder),
                                           **options)
            except (OSError, TimeoutError, RuntimeError, ValueError) as error:
                raise UserError(f"{scheduler}: no scheduler answers there to this key "
                                f"({' '.join(str(error).split())[:150]}); start one with "
                                "'./qop worker --scheduler' on its machine, and use the key that "
                                "it prints", status=1) from None
            stack.push_async_callback(worker.close)
            say(f"worker at {worker.address}, ready for './qop run --cluster {scheduler}'")
            await worker.finished()
            say("the scheduler is gone")


async def _start_scheduler(address: str, stack: contextlib.AsyncExitStack,
                           say: Callable[[str], None]) -> tuple[str, ClusterKey]:
    """Start the scheduler and return its address and its workers' key.

    Raises:
        UserError: The address or port cannot be used.
    """
    host, port = get_address_host_port(address)
    key = keys.find_scheduler_key()
    try:
        here = await stack.enter_async_context(PlainScheduler(host=host, port=port, key=key))
        addresses = {here.address, f"tls://{host}:{here.port}"}
        for name in addresses:
            for path in keys.store_keys(name, key):
                stack.callback(path.unlink, missing_ok=True)
    except (OSError, ValueError, RuntimeError) as error:
        # Dask raises RuntimeError for any failure to start.
        raise UserError(f"{address}: cannot listen there ({error.__cause__ or error}); choose "
                        "an address and a port of this machine", status=1) from None
    say(f"scheduler at {here.address}")
    say(f"on other machines: {keys.VARIABLE}={key.derive_key(Role.WORKER)} ./qop worker "
        f"{here.address}")
    say(f"to measure from another: {keys.VARIABLE}={key.derive_key(Role.RUN)} ./qop run --cluster "
        f"{here.address}")
    return here.address, key.derive_key(Role.WORKER)

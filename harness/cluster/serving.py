"""A worker, and a scheduler where one is asked for: dask's own, but without any page to look at."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed.comm import get_address_host_port

from harness.cluster import member
from harness.cluster.extra import SETTINGS, be_quiet
from harness.errors import UserError

#: For this long a worker looks for its scheduler.
_LOOK_S = 60.0
_ANY_PORT = 9


class PlainScheduler(distributed.Scheduler):  # type: ignore[misc]
    """A scheduler that listens for clients and workers, and for nobody else."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """No pages: they would show a run to whoever asks."""


class PlainWorker(distributed.Worker):  # type: ignore[misc]
    """A worker for one share at a time; nothing of a share is left when it closes."""

    def __init__(self, scheduler: str, **options: Any) -> None:
        # Of its memory dask sees next to nothing: guests are processes of their own.
        options = {"host": address_towards(scheduler), "nthreads": 1, "memory_limit": 0,
                   "dashboard": False, "death_timeout": _LOOK_S} | options
        super().__init__(scheduler, **options)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """No pages here either."""

    async def close(self, *arguments: Any, **options: Any) -> Any:
        """End what is being measured, then as dask does."""
        await asyncio.get_running_loop().run_in_executor(None, member.end_all)
        return await super().close(*arguments, **options)


def address_towards(scheduler: str) -> str:
    """The address of this machine by which it reaches a scheduler. Raises UserError."""
    host, port = get_address_host_port(scheduler)
    try:
        ways = socket.getaddrinfo(host, port or _ANY_PORT, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = ways[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # sends nothing: it only looks up the way
            return str(probe.getsockname()[0])
    except OSError as error:
        raise UserError(f"{scheduler}: there is no way to it ({error.strerror}); check host and "
                        "network", status=1) from None


async def serve(scheduler: str, folder: Path, say: Callable[[str], None], *, listen: str | None,
                is_scheduler: bool) -> None:
    """Serve a scheduler until it is gone, or until cancelled. Raises UserError."""
    be_quiet()
    with dask.config.set(SETTINGS):
        async with contextlib.AsyncExitStack() as stack:
            if is_scheduler:
                host, port = get_address_host_port(scheduler)
                try:
                    here = await stack.enter_async_context(
                        PlainScheduler(host=host, port=port, dashboard=False))
                except (OSError, ValueError) as error:
                    raise UserError(f"{scheduler}: cannot listen there ({error}); choose an "
                                    "address and a port of this machine", status=1) from None
                scheduler = here.address
                say(f"scheduler at {scheduler}")
            options = {"host": listen} if listen else {}
            try:
                worker = await PlainWorker(scheduler, local_directory=str(folder), **options)
            except (OSError, TimeoutError, RuntimeError, ValueError) as error:
                raise UserError(f"{scheduler}: no scheduler answers there "
                                f"({' '.join(str(error).split())[:150]}); start one with "
                                "'./qop worker --scheduler' on its machine", status=1) from None
            stack.push_async_callback(worker.close)
            say(f"worker at {worker.address}, ready for './qop run --cluster {scheduler}'")
            await worker.finished()
            say("the scheduler is gone")

"""Start this machine as a worker of a cluster, and optionally as the cluster's scheduler.

`./qop worker` calls `run_worker`. A worker measures for runs that are started on other machines,
the scheduler connects runs and workers. Both are servers of the library dask, and use TLS with the
key of the cluster. The worker ends when its scheduler is gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed.comm import get_address_host_port
from distributed.utils import get_ip

from harness.cluster import security, worker_tasks
from harness.cluster.dask_settings import DASK_SETTINGS, silence_logs
from harness.cluster.security import ClusterKey
from harness.errors import UserError

#: Time in seconds that a worker waits for its scheduler.
_LOOK_S = 60.0


class TlsScheduler(distributed.Scheduler):  # type: ignore[misc]
    """A dask scheduler that accepts only members with the key of its cluster."""

    def __init__(self, *arguments: Any, key: ClusterKey, **options: Any) -> None:
        # The run itself gives the steps of a lost share to others, because it knows which are
        # stored.
        super().__init__(*arguments, **{"dashboard": False, "allowed_failures": 0,
                                        "security": key.tls_security()} | options)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Do not start dask's web pages, which would show a run to anyone."""


class TlsWorker(distributed.Worker):  # type: ignore[misc]
    """A dask worker that measures for one run at a time.

    When the worker closes, dask cancels the measurement.
    """

    def __init__(self, scheduler: str, *, key: ClusterKey, **options: Any) -> None:
        # Dask sees almost none of the memory in use: guests are processes of their own. With more
        # than one thread the worker can describe itself while it measures a share.
        super().__init__(scheduler, **{
            "host": get_ip(*get_address_host_port(scheduler)), "nthreads": 2, "memory_limit": 0,
            "resources": {worker_tasks.MEASURING_RESOURCE: 1}, "dashboard": False,
            "security": key.tls_security(),
            "death_timeout": _LOOK_S} | options)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Do not start dask's web pages."""


async def run_worker(scheduler: str, folder: Path, say: Callable[[str], None], *,
                     listen: str | None,
                     is_scheduler: bool) -> None:
    """Run a worker, which serves a scheduler until the scheduler is gone.

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
    with dask.config.set(DASK_SETTINGS):
        async with contextlib.AsyncExitStack() as stack:
            if is_scheduler:
                scheduler, key = await _start_scheduler(scheduler, stack, say)
            else:
                key = security.find_key(scheduler)
                await security.refuse_foreign_key(scheduler, key)
            options = {"host": listen} if listen else {}
            try:
                worker = await TlsWorker(scheduler, key=key, local_directory=str(folder),
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
    """Start the scheduler and return its address and its key.

    Raises:
        UserError: The address or port cannot be used.
    """
    host, port = get_address_host_port(address)
    key = security.find_scheduler_key()
    try:
        here = await stack.enter_async_context(TlsScheduler(host=host, port=port, key=key))
        addresses = {here.address, f"tls://{host}:{here.port}"}
        for name in addresses:
            stack.callback(security.store_key(name, key).unlink, missing_ok=True)
    except (OSError, ValueError, RuntimeError) as error:
        # Dask raises RuntimeError for any failure to start.
        raise UserError(f"{address}: cannot listen there ({error.__cause__ or error}); choose "
                        "an address and a port of this machine", status=1) from None
    say(f"scheduler at {here.address}")
    say(f"on other machines: {security.KEY_VARIABLE}={key} ./qop worker {here.address}")
    say(f"to measure from another: {security.KEY_VARIABLE}={key} ./qop run --cluster "
        f"{here.address}")
    return here.address, key

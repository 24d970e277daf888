"""`qop worker`: let this machine measure for runs that are started on other machines.

The argument is the address of the cluster's scheduler, which connects runs (`qop run --cluster`)
and workers. With `--scheduler` this machine is the scheduler, too, and prints the key of the
cluster. The command lasts until the scheduler is gone or a signal ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from harness.cluster import dask_settings
from harness.engine import setup
from harness.errors import UserError


@click.command("worker", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("scheduler", metavar="tls://HOST:PORT")
@click.option("--scheduler", "is_scheduler", is_flag=True,
              help="Start the scheduler, too, and listen at this address of this machine.")
@click.option("--listen", metavar="ADDRESS", help="Be reached at this address of this machine "
              "(default: the one by which it reaches the scheduler).")
def command(scheduler: str, is_scheduler: bool, listen: str | None) -> None:
    """Measure for runs that are started elsewhere with `--cluster tls://HOST:PORT`.

    A worker measures one share of a plan at a time, on all processors that this process may use. It
    ends with Ctrl-C or with its scheduler.

    The scheduler prints the cluster's key. A program without this key cannot connect. On other
    machines pass it in QOP_CLUSTER_KEY.
    """
    dask_settings.require_dask("worker")
    from harness.cluster import connection, security, servers  # dask loads slowly

    if not connection.is_address(scheduler):
        raise UserError(f"worker {scheduler}: no address of a scheduler; give one such as "
                        "tls://HOST:8786")
    ends_with_input = security.read_from_input()
    setup.make_embedded_machine()
    if not sys.stdin.isatty():
        # Signals to the caller's process group must not reach the worker. In a terminal, Ctrl-C
        # must reach it.
        with contextlib.suppress(PermissionError):
            os.setpgid(0, 0)
    with tempfile.TemporaryDirectory(prefix="qop-worker-") as folder:
        try:
            asyncio.run(_until_signal(servers.run_worker(
                scheduler, Path(folder), click.echo, listen=listen, is_scheduler=is_scheduler),
                ends_with_input=ends_with_input))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _until_signal(work: Coroutine[Any, Any, None], *, ends_with_input: bool) -> None:
    """Run a coroutine until it ends, or cancel it at a signal.

    The signals are SIGINT, SIGTERM and SIGHUP. With `ends_with_input`, the end of standard input
    cancels the coroutine, too.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    if ends_with_input:
        source = sys.stdin.fileno()

        def read() -> None:
            """Read standard input to its end, then cancel the worker's task once.

            A second cancellation would disturb the shutdown.
            """
            if not os.read(source, 1):
                loop.remove_reader(source)
                task.cancel()

        loop.add_reader(source, read)
    await task

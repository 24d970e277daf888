"""`qop worker`: lend this machine to runs that are started with `--cluster`."""

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

from harness.cluster import extra
from harness.engine import setup
from harness.errors import UserError


@click.command("worker", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("scheduler", metavar="tls://HOST:PORT")
@click.option("--scheduler", "is_scheduler", is_flag=True,
              help="Be the scheduler, too, and listen at this address of this machine.")
@click.option("--listen", metavar="ADDRESS", help="Address of this machine to be reached at; "
              "default: the one by which it reaches the scheduler.")
def command(scheduler: str, is_scheduler: bool, listen: str | None) -> None:
    """Measure for runs that are started elsewhere with `--cluster tls://HOST:PORT`.

    A worker measures one share of a plan at a time, on all processors that this process may use. It
    ends with Ctrl-C or with its scheduler.

    The scheduler prints one key for workers and one key for runs. A program without a key cannot
    connect. On other machines pass the key in QOP_CLUSTER_KEY.
    """
    extra.require_dask("worker")
    from harness.cluster import connection, keys, serving  # dask loads slowly

    if not connection.is_address(scheduler):
        raise UserError(f"worker {scheduler}: no address of a scheduler; give one such as "
                        "tls://HOST:8786")
    ends_with_input = keys.read_from_input()
    setup.embedded_machine()
    if not sys.stdin.isatty():
        # Signals to the caller's process group must not reach the worker. In a terminal, Ctrl-C
        # must reach it.
        with contextlib.suppress(PermissionError):
            os.setpgid(0, 0)
    with tempfile.TemporaryDirectory(prefix="qop-worker-") as folder:
        try:
            asyncio.run(_until_signal(serving.serve_worker(
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
            """Cancel the task once at the end of the input.

            A second cancellation would disturb the shutdown.
            """
            if not os.read(source, 1):
                loop.remove_reader(source)
                task.cancel()

        loop.add_reader(source, read)
    await task

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

    One share of a plan at a time, on all processors that this process may use. Ends with Ctrl-C or
    with its scheduler. Who has the key that the scheduler prints may lend, or may measure; nobody
    else is let in. On other machines it is given as QOP_CLUSTER_KEY.
    """
    extra.require("worker")
    from harness.cluster import connection, keys, serving  # dask takes its time

    if not connection.is_address(scheduler):
        raise UserError(f"worker {scheduler}: no address of a scheduler; give one such as "
                        "tls://HOST:8786")
    ends_with_input = keys.given_by_input()
    setup.embedded()
    if not sys.stdin.isatty():
        # What signals its own group must not hit the worker; in a terminal Ctrl-C has to.
        with contextlib.suppress(PermissionError):
            os.setpgid(0, 0)
    with tempfile.TemporaryDirectory(prefix="qop-worker-") as folder:
        try:
            asyncio.run(_until_signal(serving.serve(
                scheduler, Path(folder), click.echo, listen=listen, is_scheduler=is_scheduler),
                ends_with_input=ends_with_input))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _until_signal(work: Coroutine[Any, Any, None], *, ends_with_input: bool) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    if ends_with_input:
        source = sys.stdin.fileno()

        def read() -> None:
            """At its end cancel once: a second one would break the leaving."""
            if not os.read(source, 1):
                loop.remove_reader(source)
                task.cancel()

        loop.add_reader(source, read)
    await task

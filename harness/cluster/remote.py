"""Start a scheduler and workers on hosts by SSH, for the duration of a run.

Each is `./qop worker` from the same checkout at the same path. Its key is the first line of its
standard input, so that no command line shows a key. It ends when that input ends, however the run
ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import AsyncIterator, Sequence

import asyncssh

from harness.cluster import keys
from harness.cluster.keys import ClusterKey, Role
from harness.engine.machine import ROOT
from harness.errors import UserError

_START_S = 60.0
_END_S = 20.0


@contextlib.asynccontextmanager
async def start_cluster(where: str, key: ClusterKey) -> AsyncIterator[str]:
    """Start a scheduler on the first host and a worker on each. Yield the scheduler's address.

    Raises:
        UserError: A host cannot be reached, or its worker does not start.
    """
    first, *others = where.removeprefix("ssh:").split(",")
    async with contextlib.AsyncExitStack() as stack:
        try:
            host = first.rpartition("@")[2]
            said = await stack.enter_async_context(
                _start_worker(first, ["--scheduler", f"tls://{host}:0"], key))
            address = said.split()[-1]
            worker = key.derive_key(Role.WORKER)
            for other in others:
                await stack.enter_async_context(_start_worker(other, [address], worker))
        except (OSError, asyncssh.Error, TimeoutError, UserError) as error:
            raise UserError(f"--cluster {where}: cannot be started "
                            f"({' '.join(str(error).split())[:300]}); can you log in there "
                            f"without a password, and is this checkout at {ROOT} there, set up?",
                            status=1) from None
        yield address


@contextlib.asynccontextmanager
async def _start_worker(host: str, arguments: Sequence[str], key: ClusterKey) -> AsyncIterator[str]:
    """Start a worker on a host and yield its first line of output.

    Raises:
        UserError: The worker ended before it printed a line.
        OSError: The host cannot be reached.
        asyncssh.Error: SSH failed.
    """
    command = " ".join((
        f"PYTHONPATH={shlex.quote(str(ROOT))}", f"{keys.VARIABLE}={keys.FROM_INPUT}",
        shlex.join([sys.executable, "-P", "-m", "harness", "worker", *arguments])))
    async with asyncssh.connect(host) as connection, \
            connection.create_process(command) as process:
        process.stdin.write(f"{key}\n")
        async with asyncio.timeout(_START_S):
            said: str = await process.stdout.readline()
            if not said:
                raise UserError(f"{host}: {(await process.stderr.read()).strip()[-200:]}")
        try:
            yield said
        finally:
            process.stdin.write_eof()
            with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
                await asyncio.wait_for(process.wait_closed(), _END_S)
            process.kill()

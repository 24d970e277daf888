"""An SSH server on the loopback interface for tests: runs what it is asked to, as their user.

`ssh_server.py FOLDER`: keys are in the folder; prints its port and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import asyncssh


async def run(process: asyncssh.SSHServerProcess[Any]) -> None:
    """Run one command until it or its connection ends."""
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", process.command or "", stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True)
    await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
    gone = asyncio.create_task(process.wait_closed())
    ended = asyncio.create_task(child.wait())
    await asyncio.wait({gone, ended}, return_when=asyncio.FIRST_COMPLETED)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    process.exit(await child.wait())


async def main(folder: Path) -> None:
    """Listen until the end of standard input."""
    listening = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[folder / "host"], process_factory=run,
        authorized_client_keys=str(folder / "user.pub"))
    print(listening.get_port(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    listening.close()


asyncio.run(main(Path(sys.argv[1])))

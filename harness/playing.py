"""Run playbooks in forks of an Ansible process that is already loaded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guest.cache import cache_root
from guest.processes import tied_command

ANSIBLE = Path(__file__).parent.parent / "ansible"
_PROGRAM = ANSIBLE / "ready.py"
#: Longest time that Ansible may take to load, in seconds. It takes 1 s, several on a busy machine.
_LOADING_S = 600.0
_ahead: Player | None = None


class PlayerLostError(Exception):
    """A failure of the loaded Ansible process: it has ended, or could not be started."""


class Player:
    """A process with Ansible loaded, used by one event loop.

    Ansible starts to load as soon as the object is created.
    """

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*tied_command("KILL"), "nice", "-n", "10", sys.executable, "-P", str(_PROGRAM),
                 str(theirs.fileno()), str(ANSIBLE)],
                env={**os.environ, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
                     "ANSIBLE_LOCAL_TEMP": str(_folder_for_loading())},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),), start_new_session=True)
        self._played: dict[str, asyncio.Future[int]] = {}
        self._connecting: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._is_lost = False

    async def run_playbook(self, name: str, arguments: Sequence[str], *, log: Path,
                           temporary: Path) -> int:
        """Run `ansible-playbook` with these arguments and return its exit status.

        Args:
            name: A unique name of this playbook run.
            arguments: Arguments of `ansible-playbook`.
            log: File for the output.
            temporary: Folder for Ansible's temporary files.

        Raises:
            PlayerLostError: The Ansible process has ended.
        """
        if self._connecting is None:  # only the first of several concurrent calls connects
            self._connecting = asyncio.create_task(self._open_connection())
        await asyncio.shield(self._connecting)
        if self._is_lost:
            raise PlayerLostError
        assert self._writer is not None
        played: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._played[name] = played
        request = {"name": name, "arguments": list(arguments), "log": str(log),
                   "temporary": str(temporary)}
        self._writer.write(json.dumps(request).encode() + b"\n")
        return await played

    async def _open_connection(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._line)
        self._listening = asyncio.create_task(self._read_answers(reader))

    async def _read_answers(self, reader: asyncio.StreamReader) -> None:
        """Pass each answer to its caller.

        At the end of the connection, raise PlayerLostError in all waiting calls.
        """
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                answer: dict[str, Any] = json.loads(line)
                played = self._played.pop(answer["name"])
                if not played.done():
                    played.set_result(answer["status"])
        self._is_lost = True
        for played in self._played.values():
            if not played.done():
                played.set_exception(PlayerLostError())

    async def close(self) -> None:
        """End the process and all running playbooks. A second call has no effect."""
        if self._connecting is not None:
            await self._connecting
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        self.kill_process()

    def kill_process(self) -> None:
        """End the process if no event loop has used it."""
        self._line.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _folder_for_loading() -> Path:
    """Return the folder in which Ansible creates a temporary folder while it loads.

    A killed Ansible does not remove its folder. Therefore it is in the cache, and old ones are
    removed here.
    """
    folder = cache_root() / "ansible"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # the cache of the container image is read-only
        return Path(tempfile.gettempdir())
    for left in folder.iterdir():
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < time.time() - _LOADING_S:
                shutil.rmtree(left, ignore_errors=True)
    return folder


def begin_loading() -> None:
    """Start to load an Ansible process, which the first caller of `take_player` gets."""
    global _ahead  # noqa: PLW0603 - a process has one command line
    if _ahead is None:
        with contextlib.suppress(OSError):  # setpriv is missing; later code reports it
            _ahead = Player()


def take_player() -> Player:
    """Return the process that `begin_loading` started, or a new one.

    The caller closes it.
    """
    global _ahead
    taken, _ahead = _ahead or Player(), None
    return taken


def end_unused_player() -> None:
    """End the process that `begin_loading` started, if no caller has taken it."""
    if _ahead is not None:
        take_player().kill_process()

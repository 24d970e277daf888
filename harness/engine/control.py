"""A run listens on a socket in its results folder for what is said to its repetitions.

One JSON line comes, `{"repetition": NAME or null, "message": {...}}`, and one goes back, the list
of the repetitions that were told. Only the user who runs can connect.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.errors import UserError

SOCKET = ".control"
#: Takes the name of a repetition, None for all, and a message; which ones were told.
Tell = Callable[[str | None, Mapping[str, Any]], list[str]]
_ANSWER_S = 60.0
_LONGEST_LINE_BYTES = 1 << 16


@asynccontextmanager
async def listening(folder: Path, tell: Tell) -> AsyncIterator[None]:
    """Pass on what comes, while this lasts. A folder that takes no sockets goes without."""
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ValueError, KeyError, TypeError, OSError):
            said = json.loads(await reader.readline())
            told = tell(said["repetition"], dict(said["message"]))
            writer.write(json.dumps(told).encode() + b"\n")
            await writer.drain()
        writer.close()

    try:
        with _short_path(folder) as path:
            path.unlink(missing_ok=True)  # of a run that was killed
            server = await asyncio.start_unix_server(answer, path, limit=_LONGEST_LINE_BYTES)
            path.chmod(0o600)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        server.close()
        (folder / SOCKET).unlink(missing_ok=True)


def say(folder: Path, repetition: str | None, message: Mapping[str, Any]) -> list[str]:
    """Say something to a run's repetitions; which were told. Raises UserError if none listens."""
    line = json.dumps({"repetition": repetition, "message": message}).encode() + b"\n"
    try:
        with _short_path(folder) as path, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(str(path))
            connection.sendall(line)
            told: list[str] = json.loads(connection.makefile().readline())
            return told
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: no run listens there ({_why(error)}); "
                        "'./qop status' tells whether one is at work") from None


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it has just ended"


@contextmanager
def _short_path(folder: Path) -> Iterator[Path]:
    """The socket's path through a descriptor: a socket's may have 107 bytes, a folder's more."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}") / SOCKET
    finally:
        os.close(descriptor)

"""A socket in the results folder, through which a run receives messages for its repetitions.

A request is one JSON line, `{"repetition": NAME or null, "message": {...}}`. The answer is one JSON
line, the list of the repetitions that received the message. Only the user who started the run can
connect.
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
#: A function of a repetition's name (None for all) and a message; returns the recipients' names.
Tell = Callable[[str | None, Mapping[str, Any]], list[str]]
_ANSWER_S = 60.0
_LONGEST_LINE_BYTES = 1 << 16


@asynccontextmanager
async def listen_for_messages(folder: Path, tell: Tell) -> AsyncIterator[None]:
    """Pass received messages on, as long as this context lasts.

    If the file system does not allow sockets, no messages are received.
    """
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ValueError, KeyError, TypeError, OSError):
            said = json.loads(await reader.readline())
            told = tell(said["repetition"], dict(said["message"]))
            writer.write(json.dumps(told).encode() + b"\n")
            await writer.drain()
        writer.close()

    try:
        with _short_path(folder) as path:
            path.unlink(missing_ok=True)  # left by a run that was killed
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


def send_message(folder: Path, repetition: str | None, message: Mapping[str, Any]) -> list[str]:
    """Send a message to a run's repetitions and return the names of the recipients.

    Args:
        folder: The run's results folder.
        repetition: Name of the repetition, None for all.
        message: The message, a JSON object.

    Raises:
        UserError: No run listens in this folder.
    """
    line = json.dumps({"repetition": repetition, "message": message}).encode() + b"\n"
    try:
        with _short_path(folder) as path, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(str(path))
            connection.sendall(line)
            told: list[str] = json.loads(connection.makefile().readline())
            return told
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: no run listens there ({_describe_error(error)}); "
                        "'./qop status' tells whether one is at work") from None


def _describe_error(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it has just ended"


@contextmanager
def _short_path(folder: Path) -> Iterator[Path]:
    """Yield a short path of the socket, through a file descriptor of the folder.

    The path of a socket may have at most 107 bytes; a folder's path may be longer.
    """
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}") / SOCKET
    finally:
        os.close(descriptor)

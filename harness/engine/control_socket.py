"""Receive messages of the user for running measurements, through a socket in the results folder.

`./qop tell` and live pages send them by `send_message`. The run receives them by
`listen_for_messages`, and passes them to the study's code in the test network. A request is one
JSON line, `{"repetition": NAME or null, "message": {...}}`. A repetition is one measurement; null
means all that are running. The answer is one JSON line, the list of the repetitions that received
the message. Only the user who started the run can connect.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.errors import UserError

SOCKET_NAME = ".control"
#: A function of a repetition's name (None for all) and a message; returns the recipients' names.
MessageHandler = Callable[[str | None, Mapping[str, Any]], list[str]]
_ANSWER_S = 60.0
_LONGEST_LINE_BYTES = 1 << 16


@asynccontextmanager
async def listen_for_messages(folder: Path, tell: MessageHandler) -> AsyncIterator[None]:
    """Listen on the run's socket while this context lasts, and pass received messages to `tell`.

    If the file system does not allow sockets, no messages are received.
    """
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ValueError, KeyError, TypeError, OSError):
            request = json.loads(await reader.readline())
            recipients = tell(request["repetition"], dict(request["message"]))
            writer.write(json.dumps(recipients).encode() + b"\n")
            await writer.drain()
        writer.close()

    # The path lasts as long as the server: since Python 3.13, asyncio removes the socket by it.
    with ExitStack() as stack:
        try:
            path = stack.enter_context(_short_path(folder))
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
            path.unlink(missing_ok=True)


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
            recipients: list[str] = json.loads(connection.makefile().readline())
            return recipients
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: no run listens there ({_describe_error(error)}); "
                        "'./qop status' tells whether one is at work") from None


def _describe_error(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it has just ended"


@contextmanager
def _short_path(folder: Path) -> Iterator[Path]:
    """Yield a short path of the run's socket, through a file descriptor of the results folder.

    The path of a socket may have at most 107 bytes, and the folder's own path may be longer.
    """
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}") / SOCKET_NAME
    finally:
        os.close(descriptor)

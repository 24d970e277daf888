"""Port and access token of a live page, kept in the results folder across restarts."""

from __future__ import annotations

import json
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ADDRESS = "127.0.0.1"
#: Name of the file in a results folder. Archives leave out hidden files.
FILE = ".page"


@dataclass(frozen=True)
class Door:
    """A port (0: any free port), and the secret token in the page's address."""

    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))


def find_access(folder: Path, port: int) -> Door:
    """Return port and token of a folder's page, the earlier ones if possible.

    They are kept if the earlier port is free, and if `port` is that port or 0 (any).
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        before = json.loads((folder / FILE).read_text())
        kept = Door(int(before["port"]), str(before["token"]))
        if len(kept.token) >= len(Door().token) and port in (0, kept.port) and _is_free(kept.port):
            return kept
    return Door(port)


def store_access(folder: Path, access: Door) -> None:
    """Write port and token to the results folder, readable by this user alone.

    A folder that cannot be written is left without them.
    """
    with suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)
        descriptor = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"port": access.port, "token": access.token}, file)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError:
            return False
    return True

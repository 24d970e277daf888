"""A small private disk that a test may fill: tmpfs in a mount namespace.

Root can create mount namespaces, and so can any user if the kernel allows user namespaces.
Otherwise the folder stays as it is, and there is no disk to fill.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType

from guest.processes import PROC, tied_command

_SIZE_MB = 96
_SCRIPT = 'mount -t tmpfs -o mode=700,size=$2m tmpfs "$1" && cd / && echo there && exec sleep inf'


class PrivateDisk:
    """A context manager for the disk.

    `enter` is the command prefix that makes the disk visible at `folder`. From outside the disk is
    visible at `seen`. `filler` is the file to fill it with, None if there is no disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holder: subprocess.Popen[str] | None = None
        self.enter: list[str] = []
        self.seen = folder
        self.filler: Path | None = None

    def __enter__(self) -> PrivateDisk:
        is_root = os.geteuid() == 0
        user = [] if is_root else ["--user", "--map-root-user"]
        self._holder = subprocess.Popen(
            [*tied_command("KILL"), "unshare", "--mount", *user, "sh", "-c", _SCRIPT, "sh",
             str(self._folder), str(_SIZE_MB)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._holder.stdout is not None
        if self._holder.stdout.readline():
            pid = self._holder.pid
            also = [] if is_root else ["--user", "--preserve-credentials"]
            self.enter = ["nsenter", f"--target={pid}", "--mount", *also]
            self.seen = Path(f"{PROC}/{pid}/root{self._folder}")
            self.filler = self.seen / "filler"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()

"""Compress what a repetition captured, in a process that gives way to what is being measured."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable
from pathlib import Path

SUFFIX = ".gz"
_QUICKLY = 1


def compress(folder: Path, files: Iterable[str]) -> None:
    """Put a compressed copy beside each of the folder's files. Raises OSError."""
    for name in files:
        with (folder / name).open("rb") as source, \
                gzip.open(folder / f"{name}{SUFFIX}", "wb", compresslevel=_QUICKLY) as packed:
            shutil.copyfileobj(source, packed)

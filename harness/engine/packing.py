"""Compress what a repetition left behind, in a process that gives way to what is being measured."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable
from pathlib import Path

from harness.portable.checksums import digest_of

SUFFIX = ".gz"
#: The values that a judge is given beside captures; kept with each record, compressed.
RAW = "raw.json"
PACKED_RAW = f"{RAW}{SUFFIX}"
_QUICKLY = 1


def pack(folder: Path, captures: Iterable[str], files: Iterable[str], *,
         keeps_captures: bool) -> dict[str, str]:
    """Put a compressed copy beside the raw values, and beside each capture if they are kept.

    The SHA-256 of every file that was judged, as it was then, by name. Raises OSError.
    """
    for name in [RAW, *(captures if keeps_captures else ())]:
        with (folder / name).open("rb") as source, \
                (folder / f"{name}{SUFFIX}").open("wb") as packed, \
                gzip.GzipFile("", "wb", compresslevel=_QUICKLY, fileobj=packed, mtime=0) as sink:
            shutil.copyfileobj(source, sink)
    return {name: digest_of(folder / name) for name in (RAW, *captures, *files)}


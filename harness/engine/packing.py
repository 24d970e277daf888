"""Compress the files of a measured repetition, in a low-priority process."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable
from pathlib import Path

from harness.portable.checksums import digest_of

SUFFIX = ".gz"
#: File with the raw values that a judge gets together with the captures. It is kept with each
#: record, compressed.
RAW = "raw.json"
PACKED_RAW = f"{RAW}{SUFFIX}"
_QUICKLY = 1


def pack_files(folder: Path, captures: Iterable[str], files: Iterable[str], *,
               keeps_captures: bool) -> dict[str, str]:
    """Compress the files to keep, and return checksums.

    The raw values are compressed, and captures if they are kept.

    Args:
        folder: Folder of the repetition.
        captures: Names of the capture files.
        files: Names of further files to keep, which are not compressed.
        keeps_captures: Whether captures are kept.

    Returns:
        The SHA-256 of every uncompressed file by name, as the judge read them.

    Raises:
        OSError: A file cannot be read or written.
    """
    for name in [RAW, *(captures if keeps_captures else ())]:
        with (folder / name).open("rb") as source, \
                (folder / f"{name}{SUFFIX}").open("wb") as packed, \
                gzip.GzipFile("", "wb", compresslevel=_QUICKLY, fileobj=packed, mtime=0) as sink:
            shutil.copyfileobj(source, sink)
    return {name: digest_of(folder / name) for name in (RAW, *captures, *files)}


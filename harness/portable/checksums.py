"""SHA256SUMS: checksums of a folder's files in the format of sha256sum, read and written.

A run that adds to a folder removes the file (`remove`), because it would no longer be true.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from harness.portable.contents import PACKING_LIST, SUMS, FileKind, is_safe, kind_of, scan

CHUNK_BYTES = 1 << 18
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
#: Made anew from records at any time, so that a folder's checksums do not hold them fast.
_FREE = frozenset({FileKind.REPORT, FileKind.SUMS, FileKind.PACKING_LIST})


class ChecksumError(ValueError):
    """Text that is not what sha256sum writes; one line for the user."""


def parse(text: str, where: str) -> dict[str, str]:
    """Checksums by path; raises ChecksumError for any line that is none, or that is there twice."""
    sums: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if not match or not is_safe(match[2]):
            raise ChecksumError(f"{where}: line {number} is not a checksum of a file below it")
        if match[2] in sums:
            raise ChecksumError(f"{where}: line {number} names a file for the second time")
        sums[match[2]] = match[1]
    return sums


def render(sums: Mapping[str, str]) -> str:
    """The text that `sha256sum -c` takes, in order of path."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(sums.items()))


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_kept(path: str) -> bool:
    """Whether a folder's SHA256SUMS lists the file; reports and the list itself are left out."""
    return kind_of(path) not in {*_FREE, None}


def read(folder: Path) -> dict[str, str] | None:
    """A folder's checksums, or None where it has none; raises ChecksumError for what is none."""
    path = folder / SUMS
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ChecksumError(f"{path}: is not text") from None


def write(folder: Path, known: Mapping[str, str]) -> int:
    """Write a folder's SHA256SUMS; the number of files in it.

    `known` checksums are taken for true and not computed again, and stay in the list whether their
    file is there or not, so that one that has changed or gone is still found out. Raises OSError.
    """
    sums = {path: digest for path, digest in known.items() if is_kept(path)}
    sums |= {path: digest_of(file) for path, file in scan(folder).files.items()
             if is_kept(path) and path not in sums}
    replace(folder / SUMS, render(sums))
    # An archive's list of sizes is about the archive; a folder has left that behind.
    (folder / PACKING_LIST).unlink(missing_ok=True)
    return len(sums)


def remove(folder: Path) -> None:
    """Take away what would be wrong once the folder changes."""
    for name in (SUMS, PACKING_LIST):
        (folder / name).unlink(missing_ok=True)


def replace(path: Path, text: str) -> None:
    """Write a small file whole or not at all; raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

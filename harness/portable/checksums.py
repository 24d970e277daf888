"""Read and write SHA256SUMS: checksums of a folder's files in the format of sha256sum.

A run that adds to a folder removes the file (`remove_sums`), because it would become wrong.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from harness.portable.contents import PACKING_LIST, SUMS, FileKind, is_safe, kind_of, scan_folder

CHUNK_BYTES = 1 << 18
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
#: Kinds that are not listed: they can be created from records at any time, so they may change.
_FREE = frozenset({FileKind.REPORT, FileKind.SUMS, FileKind.PACKING_LIST})


class ChecksumError(ValueError):
    """Text that is not in the format of sha256sum. The message is one line for the user."""


def parse_sums(text: str, where: str) -> dict[str, str]:
    """Parse checksums by path.

    Raises:
        ChecksumError: A line is no checksum, or a path occurs twice.
    """
    sums: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if not match or not is_safe(match[2]):
            raise ChecksumError(f"{where}: line {number} is not a checksum of a file below it")
        if match[2] in sums:
            raise ChecksumError(f"{where}: line {number} names a file for the second time")
        sums[match[2]] = match[1]
    return sums


def render_sums(sums: Mapping[str, str]) -> str:
    """Return the text for `sha256sum -c`, in order of path."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(sums.items()))


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_listed(path: str) -> bool:
    """Return whether a folder's SHA256SUMS lists the file. Reports and the list itself are not."""
    return kind_of(path) not in {*_FREE, None}


def read_sums(folder: Path) -> dict[str, str] | None:
    """Read a folder's checksums. Return None if it has none.

    Raises:
        ChecksumError: The file is invalid.
    """
    path = folder / SUMS
    try:
        return parse_sums(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ChecksumError(f"{path}: is not text") from None


def write_sums(folder: Path, known: Mapping[str, str]) -> int:
    """Write a folder's SHA256SUMS and return the number of files in it.

    Args:
        folder: The results folder.
        known: Checksums by path that are not computed again. They stay in the list even if the
            file is absent, so that a changed or lost file is still detected.

    Raises:
        OSError: A file cannot be read or written.
    """
    sums = {path: digest for path, digest in known.items() if is_listed(path)}
    sums |= {path: digest_of(file) for path, file in scan_folder(folder).files.items()
             if is_listed(path) and path not in sums}
    replace_file(folder / SUMS, render_sums(sums))
    # manifest.json lists the sizes of an archive, and the folder differs from the archive now.
    (folder / PACKING_LIST).unlink(missing_ok=True)
    return len(sums)


def remove_sums(folder: Path) -> None:
    """Remove SHA256SUMS and manifest.json, which become wrong when the folder changes."""
    for name in (SUMS, PACKING_LIST):
        (folder / name).unlink(missing_ok=True)


def replace_file(path: Path, text: str) -> None:
    """Write a small file completely or not at all.

    Raises:
        OSError: The file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

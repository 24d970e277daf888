"""Write and read archives: a reproducible .tar.gz that is read safely.

The same files give the same bytes. One folder is at the top; SHA256SUMS and manifest.json come
first in it, then all other files in order of path. An archive is not trusted: if a member is not a
plain file below that folder, or occurs twice, the whole archive is refused. (Python's own filters
exist since 3.11.4, and repair members that they should refuse.)
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from harness.portable.contents import PACKING_LIST, SUMS, is_safe, kind_of
from harness.portable.survey import ReadableStream

#: 1980-01-01 in seconds since 1970: any constant would do, but tar warns of times near 1970.
_MTIME_S = 315_532_800
_LARGEST_READ_BYTES = 4 << 20
_LARGEST_HEADER_BYTES = 1 << 20
_MOST_MEMBERS = 1_000_000
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_FIRST = (SUMS, PACKING_LIST)


class ArchiveError(ValueError):
    """A file is no complete archive of qop. The text is one line without the file's name."""


def folder_name(folder: Path) -> str:
    """Return the name of a results folder in its archive, in portable characters.

    The name is the same on every machine and does not depend on the path that the command was
    given.
    """
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", folder.resolve().name).lstrip(".-")
    return name[:100] or "results"


def write_archive(file: Path, top: str, members: Mapping[str, Path | bytes],
                  digests: Mapping[str, str]) -> None:
    """Write an archive completely or not at all.

    Args:
        file: The archive.
        top: Name of its folder.
        members: Files or contents by path below that folder.
        digests: Expected SHA-256 by path; a path without one is not compared.

    Raises:
        OSError: A file cannot be read or written.
        ArchiveError: A file does not match its digest any more.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as raw:
            # gzip's header gets no file name and no time, as they are not part of the folder.
            with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed, \
                    tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for path in sorted(members, key=_sort_key):
                    _add_member(tar, f"{top}/{path}", members[path], digests.get(path))
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _sort_key(path: str) -> tuple[int, str]:
    return (_FIRST.index(path) if path in _FIRST else len(_FIRST), path)


def _add_member(tar: tarfile.TarFile, name: str, content: Path | bytes, digest: str | None) -> None:
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as stream:
        member = tarfile.TarInfo(name)
        member.size = (len(content) if isinstance(content, bytes)
                       else os.fstat(stream.fileno()).st_size)
        member.mtime, member.mode = _MTIME_S, 0o644
        hashing = _Hashing(stream)
        tar.addfile(member, hashing)
    if digest is not None and hashing.digest.hexdigest() != digest:
        raise ArchiveError(f"{name.partition('/')[2]} changed while it was packed")


class _Hashing:
    """A stream that computes the digest of the data read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data


class Archive:
    """An archive that is open for reading. Iteration yields its members.

    `top` is the name of its folder.
    """

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self._bounded = _Bounded(packed)
        # tarfile's stream modes are not used: they read ahead, beyond the limit on headers. The
        # caller closes `packed`, and nothing else is open.
        self._tar = tarfile.TarFile(fileobj=self._bounded)  # type: ignore[arg-type]
        first = self._tar.next()
        if first is None:
            raise ArchiveError("is empty")
        self._first: tarfile.TarInfo | None = first
        self.top = first.name.partition("/")[0]
        if not is_safe(self.top):
            raise ArchiveError(f"its first member is {first.name[:200]!r}; that is no folder's "
                               "name to unpack to")

    def __iter__(self) -> Iterator[tuple[str, int, ReadableStream]]:
        """Yield path below the folder, size in bytes and stream of each file.

        Read each stream before the next member is requested. The archive can be iterated once.

        Raises:
            ArchiveError: A member is not a plain file of a results folder.
        """
        seen: set[str] = set()
        member, self._first = self._first, None
        while member is not None:
            path = self._path_of(member)
            if path is not None:
                if path in seen:
                    raise ArchiveError(f"member {path} is there twice")
                seen.add(path)
                if len(seen) > _MOST_MEMBERS:
                    raise ArchiveError(f"has more than {_MOST_MEMBERS} members")
                stream = self._tar.extractfile(member)
                assert stream is not None, "a plain file has content"
                self._bounded.header_bytes = None
                yield path, member.size, stream
                self._bounded.header_bytes = _LARGEST_HEADER_BYTES
            # tarfile would keep all members that were read in memory.
            self._tar.members = []  # type: ignore[attr-defined]
            member = self._tar.next()
        self._expect_end()

    def _path_of(self, member: tarfile.TarInfo) -> str | None:
        """Return a member's path below the folder.

        The result is None for a folder, which its files imply.
        """
        shown = repr(member.name[:200])
        if member.size < 0 or member.issparse() or not (member.isdir() or member.type in _PLAIN):
            raise ArchiveError(f"member {shown} is not a plain file (a link, a device or worse)")
        top, _, path = member.name.partition("/")
        if top != self.top or (path and not is_safe(path)) or not (path or member.isdir()):
            raise ArchiveError(f"member {shown} would lie outside the folder {self.top}, or hidden")
        if member.isdir():
            return None
        if kind_of(path) is None:
            raise ArchiveError(f"member {shown} is nothing that belongs to results; was it packed "
                               "by a newer version?")
        return path

    def _expect_end(self) -> None:
        """Read gzip's checksum after all content, and refuse further content."""
        for _ in range(8):
            data = self._packed.read(_LARGEST_READ_BYTES)
            if not data:
                return
            if data.strip(b"\0"):
                break
        raise ArchiveError("has something behind its end")


class _Bounded:
    """A stream that limits how much is read for a header.

    tarfile accepts any size in extension headers, even gigabytes or negative ones. `header_bytes`
    is the number of bytes that may be read until the next member; None while a member's content is
    read.
    """

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self.header_bytes: int | None = _LARGEST_HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_READ_BYTES:
            raise ArchiveError("has a header of an impossible size")
        if self.header_bytes is not None:
            self.header_bytes -= size
            if self.header_bytes < 0:
                raise ArchiveError("has a header of an impossible size")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence or offset < self._stream.tell():
            raise ArchiveError("has headers that lead backwards")
        return self._stream.seek(offset)

    def tell(self) -> int:
        return self._stream.tell()

    def seekable(self) -> bool:
        return True


@contextmanager
def open_archive(file: Path) -> Iterator[Archive]:
    """Open an archive for reading.

    Raises:
        OSError: The file cannot be read.
        ArchiveError: The content is no valid archive.
    """
    # gzip's errors are OSErrors, which mean the file system everywhere else.
    with file.open("rb") as raw:
        try:
            with gzip.GzipFile(fileobj=raw) as packed:
                yield Archive(packed)
        except ArchiveError:
            raise
        except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, RecursionError,
                ValueError, OverflowError) as error:
            said = str(error) or type(error).__name__
            raise ArchiveError(f"is not a whole .tar.gz ({said})") from None

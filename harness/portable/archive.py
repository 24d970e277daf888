"""The archive's format: a .tar.gz that is the same bytes for the same files, and read in safety.

One folder at the top, SHA256SUMS and manifest.json first in it, then all else in order of path.
Nothing of an archive is trusted: a member is a plain file below that folder, once, or the whole
archive is refused. (Python's own filters come with 3.11.4, and mend what they should refuse.)
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

#: 1980-01-01, in seconds: any constant would do, but tar warns of times near 1970.
_MTIME_S = 315_532_800
_LARGEST_READ_BYTES = 4 << 20
_LARGEST_HEADER_BYTES = 1 << 20
_MOST_MEMBERS = 1_000_000
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_FIRST = (SUMS, PACKING_LIST)


class ArchiveError(ValueError):
    """A file that is not an archive of ours, or no whole one; one line, without the file's name."""


def folder_name(folder: Path) -> str:
    """What a results folder is called in its archive: its own name, in letters that all can type.

    The same on every machine, so it does not depend on how the folder was named on this command.
    """
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", folder.resolve().name).lstrip(".-")
    return name[:100] or "results"


def write(file: Path, top: str, members: Mapping[str, Path | bytes],
          digests: Mapping[str, str]) -> None:
    """Write an archive whole or not at all.

    Raises OSError, and ArchiveError where a file is no longer what its digest says.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as raw:
            # No name and no time in gzip's header: they are not of the folder.
            with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed, \
                    tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for path in sorted(members, key=_order):
                    _add(tar, f"{top}/{path}", members[path], digests.get(path))
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _order(path: str) -> tuple[int, str]:
    return (_FIRST.index(path) if path in _FIRST else len(_FIRST), path)


def _add(tar: tarfile.TarFile, name: str, content: Path | bytes, digest: str | None) -> None:
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
    """A stream that notes the digest of what is read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data


class Archive:
    """An archive that is open for reading: `top` is its folder's name, iterating gives members."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self._bounded = _Bounded(packed)
        # Not one of its stream modes: those read ahead, past the bound on headers. There is nothing
        # to close but what `packed` closes.
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
        """Path below the folder, size in bytes and stream of each file; read it before the next.

        Raises ArchiveError for anything that is not a plain file of a results folder. May be
        gone through once.
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
            # What is done with would pile up otherwise.
            self._tar.members = []  # type: ignore[attr-defined]
            member = self._tar.next()
        self._expect_end()

    def _path_of(self, member: tarfile.TarInfo) -> str | None:
        """A member's path below the folder; None for a folder, which comes with its files."""
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
        """Read gzip's own checksum, which stands after all content; more content is refused."""
        for _ in range(8):
            data = self._packed.read(_LARGEST_READ_BYTES)
            if not data:
                return
            if data.strip(b"\0"):
                break
        raise ArchiveError("has something behind its end")


class _Bounded:
    """A stream that reads no more than any honest header needs.

    tarfile takes sizes of extension headers at their word, gigabytes or negative ones too.
    `header_bytes` is what may be read until the next member; None while a member's content is read.
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
def opened(file: Path) -> Iterator[Archive]:
    """Open an archive; raises OSError, and ArchiveError for whatever is wrong with its content."""
    # gzip's errors are OSErrors, which are about the file system everywhere else.
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

"""The worker's code in a job folder: a copy of its own, the same to its end, and compiled.

Each worker would take a second to compile it, and each program of ours on a node much of that. What
is changed in a job's folder counts: Python compares times and lengths, and compiles anew.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import py_compile
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROJECT = Path(__file__).parent.parent.parent
#: What a worker needs of the project, inside the machine.
_NEEDED = ("measure", "protocols", "topologies")
#: Folders of a study that are for those outside: recordings for tests, tables, settings.
_OF_NO_USE_INSIDE = ("recorded", "published", "profiles", "__pycache__")
_CACHE = "__pycache__"
# What is before the code in a compiled file (PEP 552): the magic number, a word that says how it is
# told to be of its source, and that source's time and length, or its hash.
_HEAD_BYTES = 16
_BY_TIME, _UNCHECKED = 0, 1


#: Where the first job has a source's compiled file.
_first: dict[Path, Path] = {}


class _File(NamedTuple):
    """A file of the project, as it was when the first job needed it."""

    path: Path
    content: bytes
    changed_ns: int
    #: Its compiled file; b"" for what is not Python, and where there is none.
    compiled: bytes


def copy_code(target: Path, study: str = "") -> None:
    """Put what the worker runs into a job folder.

    Of the studies only the one that is measured, if any; and that without what its package imports
    by itself, which is for those outside: a machine has no pydantic.
    """
    for name in (*_NEEDED, *([f"studies/{study}"] if study else [])):
        if (_PROJECT / name).is_dir():  # protocols/ need not be there
            for folder, files in _folders(_PROJECT / name):
                _put(target / folder.relative_to(_PROJECT), files)
    if study:
        for package in ("studies", f"studies/{study}"):
            (target / package / "__init__.py").write_text("")


@functools.cache
def _folders(folder: Path) -> list[tuple[Path, list[_File]]]:
    """A folder with what is in it, and so those below: read once, so all jobs get the same."""
    folders = []
    for place, below, names in os.walk(folder):
        # Those that are left out are not walked through.
        below[:] = [name for name in below if name not in _OF_NO_USE_INSIDE]
        folders.append((Path(place), [*_files(Path(place), names)]))
    return folders


def _files(folder: Path, names: list[str]) -> Iterator[_File]:
    for name in names:
        if not name.endswith(".yml"):
            path = folder / name
            content, changed_ns = path.read_bytes(), path.stat().st_mtime_ns
            yield _File(path, content, changed_ns,
                        _compiled(path, changed_ns, len(content)) if path.suffix == ".py" else b"")


def _put(folder: Path, files: list[_File]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    compiled = folder / _CACHE
    if any(file.compiled for file in files):
        compiled.mkdir(exist_ok=True)
    for file in files:
        place = folder / file.path.name
        place.write_bytes(file.content)
        os.utime(place, ns=(file.changed_ns, file.changed_ns))
        if file.compiled:
            _put_compiled(file, compiled / _cached(file.path).name)


def _put_compiled(file: _File, place: Path) -> None:
    """Have a job share the first one's compiled file, which nobody changes in its place."""
    try:
        os.link(_first[file.path], place)
    except (KeyError, OSError):
        place.write_bytes(file.compiled)
        _first[file.path] = place


def _compiled(source: Path, changed_ns: int, length: int) -> bytes:
    """A source's compiled file, by its time; b"" where this Python can neither read nor make one.

    It lies where Python itself looks for it, which makes it for what this process imports.
    """
    head = importlib.util.MAGIC_NUMBER + struct.pack(
        "<III", _BY_TIME, changed_ns // 10 ** 9 & 0xFFFFFFFF, length & 0xFFFFFFFF)
    with contextlib.suppress(OSError, py_compile.PyCompileError):
        if code := _code(_cached(source), head):
            return head + code
        py_compile.compile(str(source), doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
        return head + _code(_cached(source), head)
    return b""


def _code(compiled: Path, head: bytes) -> bytes:
    """What follows the head of a compiled file, if that is this one, or one that nobody checks."""
    with contextlib.suppress(FileNotFoundError):
        there = compiled.read_bytes()
        unchecked = importlib.util.MAGIC_NUMBER + struct.pack("<I", _UNCHECKED)
        if there.startswith((head, unchecked)):
            return there[_HEAD_BYTES:]
    return b""


def _cached(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(source)))

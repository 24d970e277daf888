"""The worker's code as it is now: a copy for all testbeds of a run, the same to its end, compiled.

A worker would take a second to compile it, each program of ours on a node much of that, and a disk
half a second to take it for every testbed. So it is kept in the cache by what it consists of, and
jobs have a link to it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import py_compile
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from guest.boot import CODE
from guest.cache import Store, cache_root, key_of

_PROJECT = Path(__file__).parent.parent.parent
#: What a worker needs of the project, inside the machine.
_NEEDED = ("measure", "protocols", "topologies")
#: Folders of a study that are for those outside: recordings for tests, tables, settings.
_OF_NO_USE_INSIDE = ("recorded", "published", "profiles", "__pycache__")
# What is before the code in a compiled file (PEP 552): the magic number, a word that says how it is
# told to be of its source, and that source's time and length, or its hash.
_HEAD_BYTES = 16
_BY_TIME, _UNCHECKED = 0, 1
_SECOND_NS = 10 ** 9
#: A copy that no job has been given for so long goes when another is made.
_KEPT_S = 30 * 24 * 3600.0


class _File(NamedTuple):
    """A file of the project, as it is when it is copied."""

    path: Path
    content: bytes
    changed_ns: int
    #: Its compiled file; b"" for what is not Python, and where there is none.
    compiled: bytes


def give_code(job_dir: Path, study: str = "") -> Path:
    """Have a job find what its worker runs; the folder it is in, which all jobs share.

    Where nothing can be kept, as in a container that is not root's, each has its own.
    """
    own = job_dir / CODE
    try:
        kept = _kept(study, cache_root())
        os.utime(kept)  # somebody needs it still
    except OSError:
        _fill(own, dict(_files(study)))
        return own
    own.symlink_to(kept)
    return kept


@functools.cache
def _kept(study: str, cache: Path) -> Path:
    """The copy of the code as it is when this process first needs it, made unless it is there."""
    files = dict(_files(study))
    store = Store(cache / "code", "copy of the worker's code")

    def build(folder: Path) -> dict[str, str]:
        _forget_old(store.folder)
        _fill(folder, files)
        return {"study": study}

    return store.obtain(_key(files), build)


def _files(study: str) -> Iterator[tuple[str, _File]]:
    """All that a worker runs, by its place in the copy.

    Of the studies only the one that is measured, if any; and that without what its package imports
    by itself, which is for those outside: a machine has no pydantic.
    """
    own = f"studies/{study}"
    emptied = [f"{package}/__init__.py" for package in ("studies", own)] if study else []
    for folder in (*_NEEDED, *([own] if study else [])):
        for path in _below(_PROJECT / folder):  # protocols/ need not be there
            name = str(path.relative_to(_PROJECT))
            if name not in emptied:
                yield name, _file(path)
    for name in emptied:
        yield name, _File(Path(name), b"", 0, b"")


def _below(folder: Path) -> Iterator[Path]:
    for place, below, names in os.walk(folder):
        # Those that are left out are not walked through.
        below[:] = [name for name in below if name not in _OF_NO_USE_INSIDE]
        yield from (Path(place, name) for name in names if not name.endswith(".yml"))


def _file(path: Path) -> _File:
    content, changed_ns = path.read_bytes(), path.stat().st_mtime_ns
    return _File(path, content, changed_ns,
                 _compiled(path, changed_ns, len(content)) if path.suffix == ".py" else b"")


def _key(files: dict[str, _File]) -> str:
    """What tells one copy from another: every file's place and content, and what is compiled."""
    compiled = sorted(name for name, file in files.items() if file.compiled)
    return key_of({name: file.content for name, file in files.items()}
                  | {"compiled": importlib.util.MAGIC_NUMBER + "\n".join(compiled).encode()})


def _fill(folder: Path, files: dict[str, _File]) -> None:
    for name, file in files.items():
        _put(folder / name, file)


def _put(place: Path, file: _File) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(file.content)
    os.utime(place, ns=(file.changed_ns, file.changed_ns))
    if file.compiled:
        compiled = _cached(place)
        compiled.parent.mkdir(exist_ok=True)
        compiled.write_bytes(file.compiled)


def _forget_old(folder: Path) -> None:
    for place in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - place.stat().st_mtime > _KEPT_S:
                shutil.rmtree(place, ignore_errors=True)


def _compiled(source: Path, changed_ns: int, length: int) -> bytes:
    """A source's compiled file, by its time; b"" where this Python can neither read nor make one.

    It lies where Python itself looks for it, which makes it for what this process imports.
    """
    changed_s = changed_ns // _SECOND_NS
    head = importlib.util.MAGIC_NUMBER + struct.pack(
        "<III", _BY_TIME, changed_s & 0xFFFFFFFF, length & 0xFFFFFFFF)
    with contextlib.suppress(OSError, py_compile.PyCompileError):
        # One that was made in the second of the change may be of what was there before it.
        if code := _code(_cached(source), head, since_ns=(changed_s + 1) * _SECOND_NS):
            return head + code
        py_compile.compile(str(source), doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
        return head + _code(_cached(source), head)
    return b""


def _code(compiled: Path, head: bytes, since_ns: int = 0) -> bytes:
    """What follows the head of a compiled file, if that is this one, or one that nobody checks."""
    with contextlib.suppress(FileNotFoundError):
        there = compiled.read_bytes()
        unchecked = importlib.util.MAGIC_NUMBER + struct.pack("<I", _UNCHECKED)
        is_this = there.startswith(head) and compiled.stat().st_mtime_ns >= since_ns
        if is_this or there.startswith(unchecked):
            return there[_HEAD_BYTES:]
    return b""


def _cached(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(source)))

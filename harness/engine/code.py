"""The worker's code as one compiled copy for all testbeds of a run.

The copy does not change until the end of the run. A worker would need 1 s to compile the code, and
each program of ours on a node much of that. Copying it for every testbed takes 0.5 s of disk time.
So one copy is kept in the cache, keyed by its content, and job folders contain a link to the copy.
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
#: Packages of the project that a worker imports.
_NEEDED = ("measure", "protocols", "topologies")
#: Folders of a study that the worker does not use: recordings for tests, tables, settings.
_OF_NO_USE_INSIDE = ("recorded", "published", "profiles", "__pycache__")
# The header of a compiled file (PEP 552). It has the magic number and a flag for how the file is
# checked against its source. The source's time and length follow, or its hash.
_HEAD_BYTES = 16
_BY_TIME, _UNCHECKED = 0, 1
_SECOND_NS = 10 ** 9
#: Age in seconds at which an unused copy is removed when another one is made.
_KEPT_S = 30 * 24 * 3600.0


class _File(NamedTuple):
    """A file of the project, as it was when it was copied."""

    path: Path
    content: bytes
    changed_ns: int
    #: Its compiled file; b"" for a file that is not Python, or cannot be compiled.
    compiled: bytes


def give_code(job_dir: Path, study: str = "") -> Path:
    """Link the worker's code into a job folder, and return the folder with the code.

    All jobs share one copy. If the cache cannot be written, as in a container of an ordinary user,
    each job gets a copy of its own.
    """
    own = job_dir / CODE
    try:
        kept = _cached_copy(study, cache_root())
        os.utime(kept)  # mark the copy as used
    except OSError:
        _write_files(own, dict(_list_files(study)))
        return own
    own.symlink_to(kept)
    return kept


@functools.cache
def _cached_copy(study: str, cache: Path) -> Path:
    """Return the cached copy of the code, made first if it is missing.

    Later calls in this process return the same copy, even if the code has changed since.
    """
    files = dict(_list_files(study))
    store = Store(cache / "code", "copy of the worker's code")

    def build(folder: Path) -> dict[str, str]:
        _forget_old(store.folder)
        _write_files(folder, files)
        return {"study": study}

    return store.find_or_build(_copy_key(files), build)


def _list_files(study: str) -> Iterator[tuple[str, _File]]:
    """Yield all files that a worker needs, by their path in the copy.

    Of the studies, only the measured one is included. The `__init__.py` files of the studies are
    empty in the copy: their imports need pydantic, which a testbed does not have.
    """
    own = f"studies/{study}"
    emptied = [f"{package}/__init__.py" for package in ("studies", own)] if study else []
    for folder in (*_NEEDED, *([own] if study else [])):
        for path in _walk_folder(_PROJECT / folder):  # protocols/ may be missing
            name = str(path.relative_to(_PROJECT))
            if name not in emptied:
                yield name, _read_file(path)
    for name in emptied:
        yield name, _File(Path(name), b"", 0, b"")


def _walk_folder(folder: Path) -> Iterator[Path]:
    for place, below, names in os.walk(folder):
        # Skip excluded folders in the walk.
        below[:] = [name for name in below if name not in _OF_NO_USE_INSIDE]
        yield from (Path(place, name) for name in names if not name.endswith(".yml"))


def _read_file(path: Path) -> _File:
    content, changed_ns = path.read_bytes(), path.stat().st_mtime_ns
    return _File(path, content, changed_ns,
                 _compile_file(path, changed_ns, len(content)) if path.suffix == ".py" else b"")


def _copy_key(files: dict[str, _File]) -> str:
    """Return a hash of all files and of the list of compiled files."""
    compiled = sorted(name for name, file in files.items() if file.compiled)
    return key_of({name: file.content for name, file in files.items()}
                  | {"compiled": importlib.util.MAGIC_NUMBER + "\n".join(compiled).encode()})


def _write_files(folder: Path, files: dict[str, _File]) -> None:
    for name, file in files.items():
        _write_file(folder / name, file)


def _write_file(place: Path, file: _File) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(file.content)
    os.utime(place, ns=(file.changed_ns, file.changed_ns))
    if file.compiled:
        compiled = _compiled_path(place)
        compiled.parent.mkdir(exist_ok=True)
        compiled.write_bytes(file.compiled)


def _forget_old(folder: Path) -> None:
    for place in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - place.stat().st_mtime > _KEPT_S:
                shutil.rmtree(place, ignore_errors=True)


def _compile_file(source: Path, changed_ns: int, length: int) -> bytes:
    """Return a source's compiled file, valid by the source's time.

    The result is b"" if this Python can neither read nor make one. Python's own cache is used: it
    has the compiled files of the modules that this process imports.
    """
    changed_s = changed_ns // _SECOND_NS
    head = importlib.util.MAGIC_NUMBER + struct.pack(
        "<III", _BY_TIME, changed_s & 0xFFFFFFFF, length & 0xFFFFFFFF)
    with contextlib.suppress(OSError, py_compile.PyCompileError):
        # A file compiled in the same second as the change may belong to the source before the
        # change.
        if code := _read_code(_compiled_path(source), head, since_ns=(changed_s + 1) * _SECOND_NS):
            return head + code
        py_compile.compile(str(source), doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
        return head + _read_code(_compiled_path(source), head)
    return b""


def _read_code(compiled: Path, head: bytes, since_ns: int = 0) -> bytes:
    """Return the code of a compiled file whose header is `head`, or says "unchecked".

    The result is b"" for another header, or for a file older than `since_ns`.
    """
    with contextlib.suppress(FileNotFoundError):
        there = compiled.read_bytes()
        unchecked = importlib.util.MAGIC_NUMBER + struct.pack("<I", _UNCHECKED)
        is_this = there.startswith(head) and compiled.stat().st_mtime_ns >= since_ns
        if is_this or there.startswith(unchecked):
            return there[_HEAD_BYTES:]
    return b""


def _compiled_path(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(source)))

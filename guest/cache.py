"""Cache finished builds, such as kernels and disk images, by a hash of their inputs.

`hash_inputs` computes the hash (key) of a build from its input files. A `BuildStore` has a folder
for each key. If the folder exists, the build is complete and is used again. A lock ensures that
only one process builds.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

LOCK_POLL_S = 0.2
MANIFEST = "manifest.json"
UNFINISHED = ".unfinished-"


def cache_root(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the cache folder: $QOP_CACHE, or qop below $XDG_CACHE_HOME or below ~/.cache."""
    own = environment.get("QOP_CACHE")
    if own:
        return Path(own).absolute()
    base = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "qop"


def hash_inputs(inputs: Mapping[str, bytes]) -> str:
    """Return a hash of named inputs of a build, 20 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, content in sorted(inputs.items()):
        # Lengths keep ("ab", "c") apart from ("a", "bc").
        digest.update(f"{len(name)}:{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:20]


def read_definitions(path: Path, *names: str) -> bytes:
    """Return the code of some functions or constants in a Python file, for a build's hash.

    Without names, return the code of the whole file. Comments, docstrings and layout are left out,
    so that rewording them does not cause a new build.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) \
                and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    if not names:
        return ast.unparse(tree).encode()
    defined = {name: node for node in tree.body for name in _names_of(node)}
    return b"\n".join(ast.unparse(defined[name]).encode() for name in names)


def _names_of(statement: ast.stmt) -> list[str]:
    """Return the names that a top-level statement of a Python module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


class BuildStore:
    """A cache folder for builds of one kind.

    `folder/KEY` exists only if that build is complete.

    `dispose` removes an unfinished build. By default it removes the folder with all its content.
    """

    def __init__(
        self, folder: Path, what: str, dispose: Callable[[Path], None] | None = None
    ) -> None:
        self.folder = folder
        self.what = what
        self._dispose = dispose or (lambda path: shutil.rmtree(path, ignore_errors=True))

    def find_build(self, key: str) -> Path | None:
        """Return the folder of a complete build, or None. Nothing is locked or changed."""
        place = self.folder / key
        try:
            sizes: dict[str, int] = self.read_manifest(place)["sizes"]
            whole = all((place / name).stat().st_size == size for name, size in sizes.items())
        except (OSError, ValueError, KeyError):
            return None
        return place if whole else None

    @staticmethod
    def read_manifest(place: Path) -> dict[str, Any]:
        """Return the manifest of a build: its builder's description, and the sizes of its files."""
        content: dict[str, Any] = json.loads((place / MANIFEST).read_text())
        return content

    def find_or_build(
        self,
        key: str,
        build: Callable[[Path], Mapping[str, Any]],
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> Path:
        """Return the folder of the build with a key, built if it is missing.

        If another process builds it, this call waits. An exception in `build` leaves no files
        behind. A killed process leaves an unfinished folder, which the next build in this store
        removes.

        Args:
            key: Hash of the build's inputs.
            build: Fills an empty folder and returns the manifest.
            on_wait: Called repeatedly during a wait, with a text that names the other process.
        """
        found = self.find_build(key)
        if found:
            return found
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._hold_lock(on_wait):
            return self.find_build(key) or self._build_and_keep(key, build)

    def _build_and_keep(self, key: str, build: Callable[[Path], Mapping[str, Any]]) -> Path:
        # Only the holder of the lock builds, so every unfinished folder was left by a killed
        # process.
        for orphan in self.folder.glob(UNFINISHED + "*"):
            self._dispose(orphan)
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.folder))
        try:
            manifest = build(unfinished)
            files = [path for path in unfinished.rglob("*") if path.is_file()]
            sizes = {str(path.relative_to(unfinished)): path.stat().st_size for path in files}
            content = {**manifest, "key": key, "sizes": sizes}
            (unfinished / MANIFEST).write_text(json.dumps(content, indent=1) + "\n")
            for path in (*files, unfinished / MANIFEST):
                _to_disk(path)
            place = self.folder / key
            if place.exists():  # damaged, otherwise find() would have returned it
                shutil.rmtree(place)
            unfinished.chmod(0o755)
            unfinished.rename(place)
        except BaseException:
            self._dispose(unfinished)
            raise
        return place

    @contextlib.contextmanager
    def _hold_lock(self, on_wait: Callable[[str], None]) -> Iterator[None]:
        # The kernel releases the lock when the process ends in any way, so no stale lock can
        # remain.
        with open(self.folder / ".lock", "a+") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    lock.seek(0)
                    holder = lock.read().strip() or "another process"
                    on_wait(f"waiting for {holder}, which builds the {self.what}")
                    time.sleep(LOCK_POLL_S)
            lock.truncate(0)
            lock.write(f"process {os.getpid()}")
            lock.flush()
            yield


def _to_disk(path: Path) -> None:
    """Flush a file to disk, before it is renamed.

    Otherwise a power failure after the rename could leave an empty file under the final name.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

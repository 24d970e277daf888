"""A store of key material that all playbooks of a run share, and what a node gets of it.

A unit is a folder that appears whole (made beside, then renamed) and never changes afterwards, so
any number of playbooks may make and read it. For scripts of roles, which find this file beside
`policy.yml`.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
import datetime as dt
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

# A guest's clock is the host's, but a lab machine's may be off by hours.
STARTS_BEFORE_NOW = dt.timedelta(hours=12)
LASTS = dt.timedelta(days=7)


def validity(*, is_expired: bool = False) -> tuple[dt.datetime, dt.datetime]:
    """When a certificate begins and ends to be valid."""
    now = dt.datetime.now(dt.UTC)
    first, last = now - STARTS_BEFORE_NOW, now + LASTS
    return (first - LASTS, first) if is_expired else (first, last)


class Store:
    """The folder of units that all nodes and policies of a run share."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, unit: str, file: str) -> Path:
        """Where a file of a unit is, or will be."""
        return self.root / unit / file

    def make(self, unit: str, maker: Callable[[Path], None]) -> None:
        """Make `unit` unless it is there; a second maker waits for the first and uses its work.

        `maker` puts the unit's files into the folder that it is given.
        """
        if (self.root / unit).is_dir():
            return
        locks = self.root / ".locks"
        locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (locks / unit).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (self.root / unit).is_dir():
                return
            # What a killed maker left behind; nobody else works on this unit under the lock.
            for stale in self.root.glob(f".{unit}.*"):
                shutil.rmtree(stale)
            folder = Path(tempfile.mkdtemp(prefix=f".{unit}.", dir=self.root))
            try:
                maker(folder)
                folder.rename(self.root / unit)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        print(f"made {unit}", flush=True)


def install(output: Path, files: dict[str, Path]) -> None:
    """Bring each folder of `files` to hold exactly its files, mode 0600 in folders of mode 0700."""
    os.umask(0o077)
    for folder in {(output / name).parent for name in files}:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if str(path.relative_to(output)) not in files:
                path.unlink()
                print(f"removed {path}")
    for name, source in files.items():
        target, content = output / name, source.read_bytes()
        if not target.is_file() or target.read_bytes() != content:
            part = target.with_name(f".{target.name}.part")
            part.write_bytes(content)
            part.rename(target)
            print(f"wrote {target}")

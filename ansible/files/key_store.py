"""Store the keys and certificates of a run, each created only once, and copy them to nodes.

The scripts `pki.py` and `kerberos_pki.py` of Ansible roles use this file (they get its path from
policy.yml). `Store.make` creates a unit, which is a folder of keys. It appears complete (created
under another name, then renamed) and never changes afterwards. So any number of playbooks may
create and read it at the same time. `install` copies files of units to the folder of a node.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
import datetime as dt
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

# A guest's clock is the host's, but a lab machine's may be wrong by hours.
STARTS_BEFORE_NOW = dt.timedelta(hours=12)
LASTS = dt.timedelta(days=7)


def validity(*, is_expired: bool = False) -> tuple[dt.datetime, dt.datetime]:
    """Return the start and the end of a new certificate's validity."""
    now = dt.datetime.now(dt.UTC)
    first, last = now - STARTS_BEFORE_NOW, now + LASTS
    return (first - LASTS, first) if is_expired else (first, last)


class Store:
    """The folder of key material that all nodes and policies of a run use."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, unit: str, file: str) -> Path:
        """Return the path of a file of a unit (folder of keys), which may not exist yet."""
        return self.root / unit / file

    def make(self, unit: str, maker: Callable[[Path], None]) -> None:
        """Create a unit (folder of keys) unless it exists.

        A second creator waits for the first and uses its result. `maker` writes the unit's files
        into the given folder.
        """
        if (self.root / unit).is_dir():
            return
        locks = self.root / ".locks"
        locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (locks / unit).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (self.root / unit).is_dir():
                return
            # Remains of a killed process; under the lock no other process works on this unit.
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
    """Copy key files to a node: make each folder of `files` contain exactly its files.

    Files have mode 0600, folders 0700.
    """
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

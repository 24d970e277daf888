"""Delete qop's cache, and list what else was installed on this machine (`./qop uninstall`).

`remove_cache` shows the size of each part of the cache, asks, and deletes it. `describe_testbed`
lists what `./qop provision --on host` left, with the commands that remove it. This module needs the
standard library only. Where there is no Python environment, `./qop uninstall` starts it with the
system's Python, so that none is installed in order to be removed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

from guest import debian
from guest.cache import cache_root
from harness.errors import UserError

#: Everything that qop keeps in its cache. Other files there are somebody else's.
CACHE_PARTS = ("accelerators", "ansible", "boxes", "cluster", "code", "container-bases",
               "containers", "host-libraries", "kernels", "libraries", "logs", "plotly", "python",
               "radio-bases", "radio-containers", "roots", "speeds", "strongswans", "vm-kernels",
               "installed-packages", "requested-packages")
#: Files in which the entry point lists Debian packages: those that it installed, and those that it
#: asked for where there is neither root nor sudo.
_INSTALLED, _REQUESTED = "installed-packages", "requested-packages"
_ENTRY_POINT = Path(__file__).parent.parent / "qop"
_PROCESSES = Path("/proc")
#: What './qop provision --on host' leaves outside of packages: files, and services of Debian's that
#: it masks (ansible/roles/testbed, ansible/roles/air_module).
_TESTBED_FILES = ("opt/qop", "etc/modules-load.d/qop.conf", "etc/modules-load.d/qop-air.conf",
                  "etc/modprobe.d/qop.conf", "etc/NetworkManager/conf.d/qop.conf",
                  "lib/modules/*/updates/sch_dcf.ko")
_TESTBED_SERVICES = ("hostapd.service", "freeradius.service", "strongswan-starter.service",
                     "strongswan.service")
#: Variable with the kind of image that this program is in (harness/container/start, the box).
IN_IMAGE = "QOP_IMAGE"


def run_uninstall(arguments: list[str] | None = None) -> int:
    """Remove the cache from the command line, and return the exit status."""
    parser = argparse.ArgumentParser("qop uninstall", description="Remove the cache.")
    parser.add_argument("--yes", action="store_true", help="Remove without a question.")
    try:
        return remove_cache(yes=parser.parse_args(arguments).yes)
    except UserError as error:
        print(f"qop: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130


def remove_cache(*, yes: bool) -> int:
    """Remove the cache, print what stays, and return the exit status.

    Args:
        yes: Whether to remove without a question.

    Raises:
        UserError: The cache is in use, cannot be removed, or there is no terminal to ask at.
    """
    if kind := os.environ.get(IN_IMAGE):
        raise UserError(f"uninstall: this is qop's {kind} image, which keeps no cache; remove the "
                        "image, for one with 'podman rmi qop'")
    cache = cache_root()
    parts, packages = measure_parts(cache), _describe_packages(cache)
    testbed = describe_testbed()
    if not parts:
        print("\n".join([f"{cache}: there is no cache", *testbed]))
        return 0
    for part, size in parts.items():
        print(f"{format_bytes(size):>9}  {part}")
    total = format_bytes(sum(parts.values()))
    if users := _find_users(cache):
        raise UserError(f"uninstall: {cache} is in use by process {', '.join(map(str, users))}; "
                        "end these runs first")
    if not yes and not _confirm_removal(total):
        print("nothing was removed")
        return 1
    # This program's own environment is among the parts: nothing is imported from here on.
    for part in parts:
        _remove_part(part)
    if left := [part for part in parts if part.exists() or part.is_symlink()]:
        raise UserError(f"uninstall: {left[0]} cannot be removed; remove it as the user that "
                        "owns it", status=1)
    rest = sorted(path.name for path in cache.iterdir()) if cache.is_dir() else []
    if not rest and not cache.is_symlink():
        cache.rmdir()
    print(f"{cache}: removed {total}"
          + (f"; not of qop, and kept: {', '.join(rest)}" if rest else ""))
    print("\n".join([packages, *testbed]))
    return 0


def _confirm_removal(total: str) -> bool:
    """Ask at the terminal whether to remove the cache, and return whether the answer is yes."""
    if not sys.stdin.isatty():
        raise UserError(f"uninstall: would remove {total}, and standard input is not a terminal; "
                        "add --yes")
    try:
        return input(f"Remove {total}? [y/N]: ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def measure_parts(cache: Path) -> dict[Path, int]:
    """Return the parts of qop's cache with the bytes that each takes on the disk."""
    return {part: measure_disk_use(part) if part.is_dir() and not part.is_symlink()
            else part.lstat().st_blocks * 512
            for name in CACHE_PARTS if (part := cache / name).exists() or part.is_symlink()}


def _remove_part(part: Path) -> None:
    """Delete a part of the cache, including files that belong to mapped user ids."""
    if part.is_symlink() or part.is_file():
        part.unlink()
    else:
        debian.remove_build(part)


def _describe_packages(cache: Path) -> str:
    """Return lines that name the Debian packages installed for qop, with what removes them.

    Packages that an administrator was asked for count if they are installed now.
    """
    packages = {*_read_list(cache / _INSTALLED),
                *filter(_is_installed, _read_list(cache / _REQUESTED))}
    if packages:
        return ("Debian packages that were installed for qop stay. Remove those that nothing else "
                f"needs:\n  sudo apt-get remove --autoremove {' '.join(sorted(packages))}")
    lists = re.findall(r"^(?:test_|image_)?packages='(.*)'$", _ENTRY_POINT.read_text(),
                       re.MULTILINE)
    present = filter(_is_installed, " ".join(lists).split())
    return (f"Debian packages: none is recorded as installed for qop. It uses: {' '.join(present)}"
            "\n/var/log/apt/history.log says which of them were installed later than the system")


def _read_list(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _is_installed(package: str) -> bool:
    """Return whether a Debian package is installed on this machine."""
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return False
    return done.stdout == "installed"


def describe_testbed(root: Path = Path("/")) -> list[str]:
    """Return lines that name what './qop provision --on host' left, and what removes it.

    Args:
        root: The root file system.
    """
    files = [path for pattern in _TESTBED_FILES for path in sorted(root.glob(pattern))]
    if not files:
        return []
    masks = [name for name in _TESTBED_SERVICES
             if os.path.realpath(root / "etc/systemd/system" / name) == os.devnull]
    return [("The testbed of './qop provision --on host' stays, with its packages, which "
             "/var/log/apt/history.log lists. Remove the rest:"),
            f"  sudo rm -rf {' '.join(map(str, files))}",
            *([f"  sudo systemctl unmask {' '.join(masks)}"] if masks else [])]


def _find_users(cache: Path) -> list[int]:
    """Return the ids of other processes that use the cache, such as running guests."""
    found = []
    for folder in _PROCESSES.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            program = (folder / "cmdline").read_bytes().partition(b"\0")[0]
        except OSError:
            continue  # it has ended
        if program.startswith(os.fsencode(cache) + b"/"):
            found.append(int(folder.name))
    return sorted(found)


def measure_disk_use(folder: Path) -> int:
    """Return how many bytes a folder takes on the disk. Hard-linked files count once."""
    sizes: dict[tuple[int, int], int] = {}

    def note_size(status: os.stat_result) -> None:
        sizes[status.st_dev, status.st_ino] = status.st_blocks * 512

    folders = [os.fspath(folder)]
    with contextlib.suppress(OSError):
        note_size(folder.lstat())
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # removed meanwhile
                    note_size(entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return sum(sizes.values())


def format_bytes(size: int) -> str:
    """Return a size as text in decimal units, such as "12 kB"."""
    if size >= 10 ** 9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.0f} MB" if size >= 10 ** 6 else f"{size / 1e3:.0f} kB"


if __name__ == "__main__":
    sys.exit(run_uninstall())

"""Run single daemons of another Debian release in a test network's guest.

The option `--daemon freeradius=trixie` of `qop run` takes one daemon from another release than the
guest's. `provide_daemons` takes the entry of the job. It mounts the root file system of that
release, which the host shares, and writes a script that starts the daemon inside this root. So the
daemon has the libraries and plug-ins of its own release, and the guest's kernel, network, sockets
and configuration files. Standard library only: this runs inside the guest.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Folder with the roots of other releases, and with the scripts that start daemons in them.
FOLDER = Path("/opt/releases")
#: Daemons that can be of another release, with their paths in a root.
DAEMONS: Mapping[str, str] = {
    "hostapd": "/usr/sbin/hostapd", "wpa_supplicant": "/usr/sbin/wpa_supplicant",
    "freeradius": "/usr/sbin/freeradius", "charon": "/usr/lib/ipsec/charon"}
#: Folders of the guest that a daemon in another root sees, too.
_SHARED = ("proc", "sys", "dev", "run", "tmp", "host")


def name_link(release: str) -> str:
    """Return the name of a job folder's link to a release's image, which only the host follows."""
    return f"release-{release}"


def find_root(release: str) -> Path:
    """Return the folder in which a release's root file system is mounted."""
    return FOLDER / release / "root"


def provide_daemons(entry: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Mount the roots of other releases, and return the path of each daemon's script by its name.

    This must come before the network's nodes are made, which inherit the mounts.

    Args:
        entry: The job's `daemons`: each daemon with its `release`; empty without any.
    """
    for release in sorted({daemon["release"] for daemon in entry.values()}):
        for argv in _list_mounts(release):
            subprocess.run(argv, check=True)
    scripts = {}
    for name, daemon in entry.items():
        script = FOLDER / "scripts" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        root = shlex.quote(str(find_root(daemon["release"])))
        script.write_text(f'#!/bin/sh\nexec chroot {root} {DAEMONS[name]} "$@"\n')
        script.chmod(0o755)
        scripts[name] = str(script)
    return scripts


def _list_mounts(release: str) -> list[list[str]]:
    """Return the commands that mount a release's root, writable in memory.

    As in guest/init, the image is read as a file of the host, which takes no idle time.
    """
    home, root = FOLDER / release, find_root(release)
    image, lower, memory = home / "image", home / "lower", home / "memory"
    mount = ["mount", "-n"]
    layers = f"lowerdir={lower},upperdir={memory}/upper,workdir={memory}/work"
    return [
        ["mkdir", "-p", *map(str, (image, lower, memory, root))],
        ["env", "LIBMOUNT_FORCE_MOUNT2=always", *mount, "-r", "-t", "hostfs", "-o",
         f"/{name_link(release)}", "none", str(image)],
        [*mount, "-o", "ro,loop", "-t", "squashfs", str(image / "root.squashfs"), str(lower)],
        [*mount, "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(memory)],
        ["mkdir", str(memory / "upper"), str(memory / "work")],
        [*mount, "-t", "overlay", "-o", layers, "overlay", str(root)],
        *(argv for name in _SHARED for argv in (
            ["mkdir", "-p", str(root / name)],
            [*mount, "--rbind", f"/{name}", str(root / name)]))]

"""Run the user's own daemons and Debian packages in place of a test network's own.

The option `--programs` of `qop run` names a folder with a program such as hostapd or charon, or
with Debian packages. `provide_programs` takes the entry of the job. It mounts the folder in the
guest, compares each file with its SHA-256, and installs packages. It returns the path of each
program by name. `use_own_modules` lets FreeRADIUS load the modules next to the user's program.
`replaced_versions` returns the versions for the records. Standard library only: this runs inside
the guest.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError

#: Name of a job folder's link to the user's folder. Only the host can follow it.
LINK = "programs"
#: Debian's package of each program that can be replaced.
PACKAGES = {"wpa_supplicant": "wpasupplicant", "hostapd": "hostapd", "freeradius": "freeradius",
            "charon": "strongswan-charon"}
#: What a Debian package's file name ends in.
PACKAGE_SUFFIX = ".deb"
_INSTALL = r"""
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
DEBIAN_FRONTEND=noninteractive DPKG_COLORS=never exec dpkg --install --force-confold "$@"
"""
#: Start of the command that installs packages. No daemon is started (Debian's policy-rc.d), and
#: configuration files stay as they are.
INSTALL = ("sh", "-c", _INSTALL, "sh")

_MODULES = re.compile(r"^libdir = .*$", re.MULTILINE)


def hash_file(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def mount_commands(place: Path) -> list[list[str]]:
    """Return the commands with which a guest shows the user's folder at the path it has outside.

    Daemons that give up root must be able to enter the folders above it.
    """
    parents = [str(parent) for parent in reversed(place.parents)][1:]
    return [["mkdir", "-p", str(place)], *([["chmod", "a+x", *parents]] if parents else []),
            # As in guest/init: newer versions of mount would pass the folder as an option.
            ["env", "LIBMOUNT_FORCE_MOUNT2=always", "mount", "-n", "-r", "-t", "hostfs",
             "-o", f"/{LINK}", "none", str(place)]]


def provide_programs(entry: Mapping[str, Any]) -> dict[str, str]:
    """Mount the user's folder if the job says so, and return the path of each program by its name.

    Debian packages of the folder are installed.

    Args:
        entry: The job's `programs`; empty without any.

    Raises:
        MeasureError: A file differs from the one that the run began with, or packages cannot be
            installed.
    """
    if entry.get("is_mounted"):
        for argv in mount_commands(Path(entry["folder"])):
            subprocess.run(argv, check=True)
    programs, packages = entry.get("files", {}), entry.get("packages", {})
    for program in (*programs.values(), *packages.values()):
        file = Path(program["path"])
        if not file.is_file() or hash_file(file) != program["sha256"]:
            raise MeasureError("testbed", f"{program['file']}: has changed since the run began; "
                               "begin a new run")
    if packages:
        _install_packages([package["path"] for package in packages.values()])
    return {name: program["path"] for name, program in programs.items()}


def _install_packages(files: Sequence[str]) -> None:
    done = subprocess.run([*INSTALL, *files], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise MeasureError("testbed", f"dpkg cannot install the user's packages ({last.strip()}); "
                           "begin a new run")


def use_own_modules(program: str, file: Path) -> None:
    """Let a configuration of FreeRADIUS load the modules next to the user's program.

    Args:
        program: Path of the user's program. Its modules are below `lib` of the same prefix.
        file: The configuration, which names Debian's folder of modules.
    """
    prefix = Path(program).parents[1]
    for place in (prefix / "lib/freeradius", prefix / "lib"):
        if (place / "rlm_eap.so").exists():
            file.write_text(_MODULES.sub(f"libdir = {place}", file.read_text()))
            return


def replaced_versions(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of replaced programs by the names of the packages that they replace."""
    return {PACKAGES[name]: f"{program['version']} ({program['file']})"
            for name, program in entry.get("files", {}).items()}

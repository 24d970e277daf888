"""Run single daemons of another Debian release in a test network's guest.

The option `--daemon freeradius=trixie` of `qop run` takes one daemon from another release than the
guest's. `provide_daemons` takes the entry of the job. It mounts the root file system of that
release, which the host shares, and writes a script that starts the daemon inside this root. So the
daemon has the libraries and plug-ins of its own release, and the guest's kernel, network, sockets
and configuration files. With `freeradius/openssl=trixie`, the daemon is that of the guest, with
OpenSSL and the C library of the other release. Standard library only: this runs inside the guest.
"""

from __future__ import annotations

import shlex
import shutil
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
#: Ending of a daemon's name that takes only OpenSSL from the other release.
OPENSSL = "/openssl"
#: Lists of files in dpkg's folder of packages: OpenSSL, and what it needs of its release.
_OPENSSL_PACKAGES = ("libssl3*", "openssl-provider-legacy*", "libc6:*", "zlib1g:*", "libzstd1:*")
_LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
#: Conversions of character sets, which no daemon here needs.
_UNUSED = "/gconv/"
#: Folders of the guest that a daemon in another root sees, too.
_SHARED = ("proc", "sys", "dev", "run", "tmp", "host")


def name_link(release: str) -> str:
    """Return the name of a job folder's link to a release's image, which only the host follows."""
    return f"release-{release}"


def find_root(folder: str) -> Path:
    """Return the root that a daemon has: of a release, or of the guest with another OpenSSL."""
    return FOLDER / folder / "root"


def find_release(releases: Mapping[str, str], daemon: str, default: str) -> str:
    """Return the Debian release of a daemon. With the ending "/openssl", it is its OpenSSL's.

    Args:
        releases: Debian releases of daemons, or of their OpenSSL alone, by name.
        daemon: Name of the daemon.
        default: The guest's release.
    """
    return releases.get(daemon) or releases.get(daemon.removesuffix(OPENSSL)) or default


def find_daemon_root(releases: Mapping[str, str], daemon: str) -> Path | None:
    """Return the root in which a daemon is started, None for the guest's own.

    Args:
        releases: Debian releases of daemons, or of their OpenSSL alone, by name.
        daemon: Name of the daemon.
    """
    if daemon in releases:
        return find_root(releases[daemon])
    release = releases.get(f"{daemon}{OPENSSL}")
    return find_root(_name_openssl(release)) if release else None


def find_image_root(release: str) -> Path:
    """Return the folder in which the unchanged root of a release is mounted."""
    return FOLDER / release / "lower"


def _name_openssl(release: str) -> str:
    return f"openssl-{release}"


def provide_daemons(entry: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Mount the roots of other releases, and return the path of each daemon's script by its name.

    Call this before the network's nodes are made, because they inherit the mounts.

    Args:
        entry: The job's `daemons`: the `release` of each daemon that is not of the guest's release.
            It is empty without the option.
    """
    for release in sorted({daemon["release"] for daemon in entry.values()}):
        for argv in _list_mounts(release):
            subprocess.run(argv, check=True)
    for release in sorted({daemon["release"] for name, daemon in entry.items()
                           if name.endswith(OPENSSL)}):
        _make_openssl_root(release)
    scripts = {}
    for key, daemon in entry.items():
        name = key.removesuffix(OPENSSL)
        script = FOLDER / "scripts" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        root = shlex.quote(str(find_daemon_root({key: daemon["release"]}, name)))
        script.write_text(f'#!/bin/sh\nexec chroot {root} {DAEMONS[name]} "$@"\n')
        script.chmod(0o755)
        scripts[name] = str(script)
    return scripts


_MOUNT = ("mount", "-n")


def _list_mounts(release: str) -> list[list[str]]:
    """Return the commands that mount a release's root, writable in memory.

    As in guest/init, the image is read as a file of the host, which takes no idle time.
    """
    home = FOLDER / release
    image, lower = home / "image", find_image_root(release)
    return [
        ["mkdir", "-p", str(image), str(lower)],
        ["env", "LIBMOUNT_FORCE_MOUNT2=always", *_MOUNT, "-r", "-t", "hostfs", "-o",
         f"/{name_link(release)}", "none", str(image)],
        [*_MOUNT, "-o", "ro,loop", "-t", "squashfs", str(image / "root.squashfs"), str(lower)],
        *_list_overlay_mounts(lower, release)]


def _make_openssl_root(release: str) -> None:
    """Mount a copy of the guest's root, with OpenSSL and the C library of another release."""
    for argv in _list_overlay_mounts(Path("/"), _name_openssl(release)):
        subprocess.run(argv, check=True)
    source, target = find_image_root(release), find_root(_name_openssl(release))
    lists = [file for pattern in _OPENSSL_PACKAGES for file in
             sorted((source / "var/lib/dpkg/info").glob(f"{pattern}.list"))]
    for path in (path for file in lists for path in file.read_text().splitlines()):
        place = source / path.lstrip("/")
        if path.startswith(_LIBRARIES) and _UNUSED not in path and (
                place.is_symlink() or place.is_file()):
            copy = target / path.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            shutil.copy2(place, copy, follow_symlinks=False)


def _list_overlay_mounts(lower: Path, folder: str) -> list[list[str]]:
    """Return the commands that mount a root, writable in memory, in a folder of `FOLDER`."""
    root, memory = find_root(folder), FOLDER / folder / "memory"
    mount = list(_MOUNT)
    layers = f"lowerdir={lower},upperdir={memory}/upper,workdir={memory}/work"
    return [
        ["mkdir", "-p", str(memory), str(root)],
        [*mount, "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(memory)],
        ["mkdir", str(memory / "upper"), str(memory / "work")],
        [*mount, "-t", "overlay", "-o", layers, "overlay", str(root)],
        *(argv for name in _SHARED for argv in (
            ["mkdir", "-p", str(root / name)],
            [*mount, "--rbind", f"/{name}", str(root / name)]))]

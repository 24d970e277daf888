"""Identify the daemons that ran in a guest, by the files that their processes executed.

A daemon's start calls `note_program` with its process id. `describe_programs` compares the MD5 of
each executed file with that of its Debian package, as dpkg in the guest's root lists it. So a
record shows which daemons ran, and not only which ones were installed. Standard library only: this
runs inside the guest.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from measure.services.other_releases import OPENSSL

#: Debian's package of each daemon that is identified, by its file name.
PACKAGES: Mapping[str, str] = {
    "hostapd": "hostapd", "wpa_supplicant": "wpasupplicant", "freeradius": "freeradius",
    "charon": "strongswan-charon", "dnsmasq": "dnsmasq-base", "krb5kdc": "krb5-kdc"}
#: Folder with programs that were compiled for the image, because the release's packages lack them.
COMPILED = Path("/opt/strongswan6")
_ROOT = Path("/")
#: dpkg's list of packages. Starting `dpkg-query` takes ten times as long in a guest.
_STATUS = "var/lib/dpkg/status"
#: Last parts of the folders in which Debian's packages have programs.
_PROGRAM_FOLDERS = ("sbin", "bin", "ipsec")
_INFO = "var/lib/dpkg/info"
#: OpenSSL's library, and the beginning of its package's name.
_LIBCRYPTO, _OPENSSL_PACKAGE = "libcrypto.so.3", "libssl3"
#: Executed files that were noted, by path and inode: open descriptors of file and of libcrypto.
_noted: dict[tuple[str, int, int], tuple[int, int | None]] = {}
_described: dict[tuple[str, int, int], dict[str, Any]] = {}


def note_program(pid: int) -> None:
    """Note the file that a process executes, if it is a daemon of a known package.

    The file is kept open, so that it can be read after the process has ended.
    """
    try:
        link = Path(f"/proc/{pid}/exe")
        file, status = os.readlink(link), link.stat()
        key = (file, status.st_dev, status.st_ino)
        if Path(file).name in PACKAGES and key not in _noted:
            _noted[key] = os.open(link, os.O_RDONLY | os.O_CLOEXEC), _open_libcrypto(pid)
    except OSError:
        return  # it has ended


def _open_libcrypto(pid: int) -> int | None:
    """Return a descriptor of the OpenSSL library that a process has mapped, None without one."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if path.endswith(f"/{_LIBCRYPTO}"):
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return None


def describe_programs(roots: Mapping[str, Path],
                      own_paths: Collection[str]) -> list[dict[str, Any]]:
    """Return each noted program with its MD5, and that of the package in the expected root.

    OpenSSL's library is described likewise, where the program has mapped one.

    Args:
        roots: Root of another release that a program is expected to be of, by the program's name.
            With the ending "/openssl" it is only that of OpenSSL.
        own_paths: Paths of the user's own programs (`--programs`).
    """
    for key, (descriptor, libcrypto) in _noted.items():
        if key not in _described:
            _described[key] = _describe_program(key[0], descriptor, roots, own_paths) | (
                {} if libcrypto is None else _describe_openssl(key[0], libcrypto, roots))
    return sorted(_described.values(), key=lambda entry: (entry["program"], entry["file"]))


def _describe_program(file: str, descriptor: int, roots: Mapping[str, Path],
                      own_paths: Collection[str]) -> dict[str, Any]:
    name = Path(file).name
    root = roots.get(name, _ROOT)
    package = PACKAGES[name]
    return {"program": name, "file": file, "md5": _hash_descriptor(descriptor), "package": package,
            "package_md5": _read_package_md5(root, package, name),
            "version": installed_packages([package], root / _STATUS).get(package, ""),
            "release": read_release(root), "is_own": file in own_paths,
            "is_compiled": Path(file).is_relative_to(COMPILED)}


def _describe_openssl(file: str, descriptor: int, roots: Mapping[str, Path]) -> dict[str, Any]:
    name = Path(file).name
    root = roots.get(f"{name}{OPENSSL}", roots.get(name, _ROOT))
    lists = sorted((root / _INFO).glob(f"{_OPENSSL_PACKAGE}*.md5sums"))
    sums = [line.split("  ", 1) for file in lists for line in file.read_text().splitlines()]
    expected = [md5 for md5, path in sums if Path(path).name == _LIBCRYPTO]
    packages = [file.name.partition(".")[0].partition(":")[0] for file in lists]
    versions = installed_packages(packages, root / _STATUS)
    return {"openssl_md5": _hash_descriptor(descriptor),
            "openssl_package_md5": expected[0] if expected else "",
            "openssl_version": next(iter(versions.values()), "")}


def _hash_descriptor(descriptor: int) -> str:
    """Return the MD5 of an open file."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(os.dup(descriptor), "rb") as content:
        return hashlib.file_digest(
            content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _read_package_md5(root: Path, package: str, name: str) -> str:
    """Return the MD5 of a program in its installed package, "" without one."""
    try:
        lines = (root / _INFO / f"{package}.md5sums").read_text().splitlines()
    except OSError:
        return ""
    return next((md5 for md5, _, path in (line.partition("  ") for line in lines)
                 if Path(path).name == name and Path(path).parent.name in _PROGRAM_FOLDERS), "")


def read_release(root: Path = _ROOT) -> str:
    """Return the suite of the Debian release that a root file system is of, "" if unknown."""
    try:
        if root == _ROOT:
            return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
        text = (root / "usr/lib/os-release").read_text()
    except OSError:
        return ""
    return next((line.partition("=")[2].strip('"') for line in text.splitlines()
                 if line.startswith("VERSION_CODENAME=")), "")


def installed_packages(names: Collection[str], listed: Path = _ROOT / _STATUS) -> dict[str, str]:
    """Return the version of each of these Debian packages that is installed, by name.

    Args:
        names: Names of packages.
        listed: File with dpkg's list of packages and their states.

    Raises:
        OSError: The file does not exist.
    """
    versions = {}
    for text in listed.read_text().split("\n\n"):
        name = text.partition("\n")[0].removeprefix("Package: ")
        if name in names:
            fields = dict(line.split(": ", 1) for line in text.splitlines()
                          if ": " in line and not line.startswith(" "))
            if fields["Status"].endswith(" installed"):
                versions[name] = fields["Version"]
    return versions

"""Versions of the machine's kernel and packages, for every record.

Standard library only: this runs inside the machine, where start-up time counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

#: Debian packages of every testbed that may take part.
_DEBIAN = ("hostapd", "wpasupplicant", "freeradius", "strongswan-charon", "iperf3", "tcpdump",
           "mininet", "openssl")
#: The list that `dpkg-query` reads; starting `dpkg-query` takes ten times as long in a guest.
_INSTALLED = Path("/var/lib/dpkg/status")


def collect_versions(further: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the versions of the kernel, of every daemon, and of the study's own packages.

    `further` lists the study's packages: `debian` and `python` are names, `compiled` are names with
    versions.
    """
    return {"kernel": f"{os.uname().sysname} {os.uname().release}",
            **installed_packages({*_DEBIAN, *further.get("debian", ())}),
            **dict(line.split(" ", 1) for line in further.get("compiled", ())),
            **_python_versions(further.get("python", ()))}


def installed_packages(names: Collection[str], listed: Path = _INSTALLED) -> dict[str, str]:
    """Return the versions of those of these Debian packages that are installed.

    Args:
        names: Names of packages.
        listed: dpkg's list of packages.

    Raises:
        OSError: The list does not exist.
    """
    found = {}
    for text in listed.read_text().split("\n\n"):
        name = text.partition("\n")[0].removeprefix("Package: ")
        if name in names:
            fields = dict(line.split(": ", 1) for line in text.splitlines()
                          if ": " in line and not line.startswith(" "))
            if fields["Status"].endswith(" installed"):
                found[name] = fields["Version"]
    return found


def _python_versions(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of Python packages, with a prefix that no Debian package has."""
    if not names:
        return {}
    from importlib import metadata  # loads slowly, and most studies need none

    there = {}
    for name in names:
        try:
            there[f"python:{name}"] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform, by its marker in the lock file
    return there

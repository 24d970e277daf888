"""The machine's kernel and packages have versions, which every record keeps.

Standard library only: this runs inside the machine, where start-up time counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

#: Debian packages that every testbed has and that may take part.
_DEBIAN = ("hostapd", "wpasupplicant", "freeradius", "strongswan-charon", "iperf3", "tcpdump",
           "mininet", "openssl")
#: What `dpkg-query` reads, which takes ten times as long to start in a guest.
_INSTALLED = Path("/var/lib/dpkg/status")


def versions(further: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Of the kernel, of every daemon that may take part, and of what the study brings.

    `further` lists the latter's packages: `debian`, `python` by the names that pip knows, and
    `compiled`, whose versions stand beside the names.
    """
    return {"kernel": f"{os.uname().sysname} {os.uname().release}",
            **installed({*_DEBIAN, *further.get("debian", ())}),
            **dict(line.split(" ", 1) for line in further.get("compiled", ())),
            **_python(further.get("python", ()))}


def installed(names: Collection[str], listed: Path = _INSTALLED) -> dict[str, str]:
    """Those of these Debian packages that are installed, by name, with their versions.

    `listed` is dpkg's own list. Raises OSError where there is none.
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


def _python(names: Sequence[str]) -> dict[str, str]:
    """By names that no Debian package has."""
    if not names:
        return {}
    from importlib import metadata  # takes its time, and most studies bring none

    there = {}
    for name in names:
        try:
            there[f"python:{name}"] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # of another platform: its marker in the lock says so
    return there

"""The machine's kernel and packages have versions, which every record keeps.

Standard library only: this runs inside the machine, where start-up time counts.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

#: Debian packages that every testbed has and that may take part.
_DEBIAN = ("hostapd", "wpasupplicant", "freeradius", "strongswan-charon", "iperf3", "tcpdump",
           "mininet", "openssl")


def versions(further: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Of the kernel, of every daemon that may take part, and of what the study brings.

    `further` lists the latter's packages: `debian`, `python` by the names that pip knows, and
    `compiled`, whose versions stand beside the names.
    """
    names = dict.fromkeys((*_DEBIAN, *further.get("debian", ())))
    listed = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *names],
                            capture_output=True, text=True, check=False).stdout
    debian = dict(line.split(" ", 1) for line in listed.splitlines())
    return {"kernel": f"{os.uname().sysname} {os.uname().release}", **debian,
            **dict(line.split(" ", 1) for line in further.get("compiled", ())),
            **_python(further.get("python", ()))}


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

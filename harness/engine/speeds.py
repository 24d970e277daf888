"""This machine's speeds, which devices' factors are ratios to, are measured once and kept.

A testbed measures them as it starts, in whatever company it starts: between two dozen testbeds,
what a system call takes beside its work read 6.6 to 9.6 us, and authentication times went with it.
So what the first one found holds for all on this machine, in this kernel, until it boots again.
A least value (`company.LEAST`) goes on becoming less: who measures it later had less company.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from guest.cache import cache_root, key_of
from measure import company

_BOOT_ID, _PROCESSORS = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/cpuinfo")


def known(image: str) -> dict[str, float]:
    """What was kept of this machine with that image; nothing where nobody has measured yet."""
    try:
        kept = json.loads(_file(image).read_text())
        return {str(name): float(value) for name, value in kept.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def keep(image: str, measured: Mapping[str, float]) -> None:
    """Keep what a testbed is the first to measure; where that cannot be, each measures."""
    before, file = known(image), _file(image)
    least = {name: min(value, before.get(name, value))
             for name, value in company.of(measured).items()}
    kept = {**measured, **before, **least}
    if kept == before:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as unfinished:
            json.dump(kept, unfinished)
        Path(unfinished.name).rename(file)


def _file(image: str) -> Path:
    model = re.search(r"^model name\s*: (.*)$", _read(_PROCESSORS), re.MULTILINE)
    key = key_of({"image": image.encode(), "boot": _read(_BOOT_ID).encode(),
                  "processor": (model[1] if model else "").encode()})
    return cache_root() / "speeds" / f"{key}.json"


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""

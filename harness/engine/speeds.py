"""A store of this host's measured speeds, to which the factors of devices are relative.

Each testbed measures the speeds as it starts, together with other load. Among two dozen testbeds,
the overhead of a system call was 6.6 to 9.6 us, and authentication times changed with it. Therefore
the values of the first testbed are used for all on this host, with this kernel, until the next
boot. For minimum values (names that begin with `least_`) the smallest measurement is kept: it had
the least other load.
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


def stored_speeds(image: str) -> dict[str, float]:
    """Return the stored speeds of this host with an image.

    The result is empty if nothing was measured yet.
    """
    try:
        kept = json.loads(_speeds_file(image).read_text())
        return {str(name): float(value) for name, value in kept.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def store_speeds(image: str, measured: Mapping[str, float]) -> None:
    """Store the speeds that a testbed measured.

    Values that are stored already are kept, except for new minimum values. If nothing can be
    stored, each testbed measures its own speeds.
    """
    before, file = stored_speeds(image), _speeds_file(image)
    least = {name: min(value, before.get(name, value))
             for name, value in company.least_times(measured).items()}
    kept = {**measured, **before, **least}
    if kept == before:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as unfinished:
            json.dump(kept, unfinished)
        Path(unfinished.name).rename(file)


def _speeds_file(image: str) -> Path:
    model = re.search(r"^model name\s*: (.*)$", _read_text(_PROCESSORS), re.MULTILINE)
    key = key_of({"image": image.encode(), "boot": _read_text(_BOOT_ID).encode(),
                  "processor": (model[1] if model else "").encode()})
    return cache_root() / "speeds" / f"{key}.json"


def _read_text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""

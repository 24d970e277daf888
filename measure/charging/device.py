"""Delay signatures and verifications of one daemon, as on a slower processor.

A device is the model of a processor: a file with the time of each operation. `costs_s` returns the
seconds of a signature and a verification on a device. `DaemonProcessor` takes these seconds and the
compiled library `charge.c`. A daemon that is started with its `environment` loads the library, and
is delayed by it. `read_account` then returns how long the emulated processor was busy
(`ProcessorAccount`). Studies of RADIUS servers under load use this. Standard
library only: this runs inside the guest.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Layout of `struct account` in charge.c.
_ACCOUNT = struct.Struct("=dddQQ")


@dataclass(frozen=True)
class ProcessorAccount:
    """The work of an emulated processor since its start: seconds, and operations by kind.

    The processor was busy for `busy_s`. Its operations requested `charged_s`, and took `elapsed_s`
    in all because they share the processor.
    """

    busy_s: float
    charged_s: float
    elapsed_s: float
    signatures: int
    verifications: int


def costs_s(work: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, float]:
    """Return how many seconds a signature and a verification take on a device.

    Args:
        work: The device's `work`: operations with their seconds.
        key: Kind of key, such as rsa-1024 or p-256.

    Raises:
        KeyError: The device states no seconds for the operation, which the error names.
    """
    names = ("private", "public") if key.startswith("rsa") else ("sign", "verify")
    costs = {}
    for kind, name in zip(("sign", "verify"), names, strict=True):
        seconds = work.get(f"{key}-{name}", {}).get("seconds")
        if seconds is None:
            raise KeyError(f"{key}-{name}")
        costs[kind] = float(seconds)
    return costs


class DaemonProcessor:
    """An emulated processor of one daemon. Start the daemon with `environment` to use it."""

    def __init__(self, folder: Path, library: str, costs: Mapping[str, float],
                 processors: int = 1) -> None:
        #: Whether any operation takes time.
        self.is_slow = any(cost > 0 for cost in costs.values())
        folder.mkdir(parents=True, exist_ok=True)
        self._account = folder / "charged"
        self._account.write_bytes(bytes(_ACCOUNT.size))
        place = folder / "charge.so"
        place.write_bytes(base64.b64decode(library))
        self.environment = {
            "LD_PRELOAD": str(place), "QOP_CHARGE_ACCOUNT": str(self._account),
            "QOP_CHARGE_PROCESSORS": str(processors),
            **{f"QOP_CHARGE_{kind.upper()}_S": repr(cost) for kind, cost in costs.items()}}

    def read_account(self) -> ProcessorAccount:
        """Return the work that the daemon's emulated processor has done so far."""
        return ProcessorAccount(*_ACCOUNT.unpack(self._account.read_bytes()))

"""A daemon's emulated processor: what it is started with, and what it was charged so far.

Runs inside the machine: standard library only.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: As `struct account` in charge.c.
_ACCOUNT = struct.Struct("=dddQQ")


@dataclass(frozen=True)
class Charged:
    """What an emulated processor did since it began: seconds, and jobs by kind.

    It was `busy_s`; its jobs asked for `charged_s`, and took `elapsed_s` in all because they share.
    """

    busy_s: float
    charged_s: float
    elapsed_s: float
    signatures: int
    verifications: int


def costs_s(work: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, float]:
    """Seconds of a signature and of a verification, by a device's `work`.

    `key` is such as rsa-1024 or p-256. Raises KeyError with the operation that the device does not
    say.
    """
    names = ("private", "public") if key.startswith("rsa") else ("sign", "verify")
    costs = {}
    for kind, name in zip(("sign", "verify"), names, strict=True):
        seconds = work.get(f"{key}-{name}", {}).get("seconds")
        if seconds is None:
            raise KeyError(f"{key}-{name}")
        costs[kind] = float(seconds)
    return costs


class ChargedDevice:
    """The processor of one daemon; `environment` starts it there."""

    def __init__(self, folder: Path, library: str, costs: Mapping[str, float],
                 processors: int = 1) -> None:
        #: Whether anything that it does takes time.
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

    def charged(self) -> Charged:
        """What it did so far."""
        return Charged(*_ACCOUNT.unpack(self._account.read_bytes()))

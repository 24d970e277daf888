"""Wait for a beacon on the air.

The next step then has an equal phase to the beacons in every run. Runs inside a machine: standard
library only.
"""

from __future__ import annotations

import socket
import time

from measure.errors import MeasureError
from measure.points import AIR

_ALL_PROTOCOLS = 0x0003
_BEACON = 0x80
_WAIT_S = 2.0


def wait_beacon_ns() -> int:
    """Wait for the next beacon and return the machine's monotonic time in ns.

    Raises:
        MeasureError: No beacon came in time.
    """
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as air:
        air.bind((AIR, 0))
        air.settimeout(_WAIT_S)
        try:
            while not _is_beacon(air.recv(256)):
                pass
        except TimeoutError:
            raise MeasureError("testbed", f"no beacon on the air within {_WAIT_S:g} s") from None
        return time.monotonic_ns()


def _is_beacon(captured: bytes) -> bool:
    """Return whether the frame after the radiotap header is a beacon."""
    at = int.from_bytes(captured[2:4], "little")
    return captured[at:at + 1] == bytes((_BEACON,))

"""Modelled processor of a host: operations run, and the host waits for their modelled time.

This module runs in the guest and imports only the standard library. Times are ns of the guest's
monotonic clock and exact. The kernel's timers wake a process a fraction of a microsecond late, by
varying amounts. This delay is waited for and not counted. `DatagramWire` treats datagrams on the
wire in the same way.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FRAGMENT_BYTES = 1480
#: Ethernet and IP headers of a fragment, without the overhead of the wire itself.
HEADERS_BYTES = 14 + 20
_PR_SET_TIMERSLACK = 29
#: Allowed lateness of a datagram by the guest's clock. System calls usually take tens of
#: microseconds; the paper's clock had a resolution of milliseconds.
TOLERANCE_NS = 1_000_000
_ROUNDING_NS = 10_000
_STAMP_BYTES = 8


class UnknownCost(ValueError):
    """An operation that has no cost in the device document."""


def sharpen_timers() -> None:
    """Set the timer slack of this process to 1 ns.

    The kernel's default is 50 microseconds.
    """
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)


@dataclass
class PacedProcessor:
    """A processor that serves operations first come, first served.

    `seconds` holds, by operation, the seconds per operation and per byte. `now_ns` is the
    processor's exact time.
    """

    seconds: Mapping[str, tuple[float, float]]
    busy_ns: int = 0
    now_ns: int = field(default_factory=time.monotonic_ns)
    _owed_s: float = 0.0

    def charge_operation(self, operation: str, size: int = 0) -> None:
        """Add the time of an operation to the time owed.

        Args:
            operation: Name of the operation.
            size: Bytes that the operation processes.

        Raises:
            UnknownCost: The device has no cost for the operation.
        """
        if operation not in self.seconds:
            raise UnknownCost(f"the device has no {operation}")
        each, byte = self.seconds[operation]
        self._owed_s += each + byte * size

    def charge_time(self, nanoseconds: int) -> None:
        """Add time (ns) that belongs to no operation to the time owed."""
        self._owed_s += nanoseconds / 1e9

    def advance_to(self, at_ns: int) -> None:
        """Advance to a time (ns), unless the processor is busy until later."""
        self.now_ns = max(self.now_ns, at_ns)

    def settle_charges(self) -> int:
        """Add the owed time to the exact time, and return the exact time (ns)."""
        owed_ns, self._owed_s = round(self._owed_s * 1e9), 0.0
        self.busy_ns += owed_ns
        self.now_ns += owed_ns
        return self.now_ns

    def wait_for_clock(self) -> None:
        """Wait until the guest's clock reaches the exact time, before others see a result.

        There is no wait per operation: it would cost more processor time than the operation.
        """
        while (left_ns := self.now_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)


class AnyWay:
    """A connection whose times are known only from the guest's clock."""

    arrived = early = late = 0

    def duration_ns(self, size: int) -> int:
        """Return 0: sending takes no time of the sender."""
        return 0

    def record_sent(self, at_ns: int) -> None:
        """Ignore a sent datagram: this connection keeps no stamps."""

    def arrival_ns(self, size: int, free_ns: int) -> int:
        """Return the current time (ns)."""
        return time.monotonic_ns()


class DatagramWire:
    """A link whose datagrams take the time that the wire's rate says.

    The sender writes the time of the n-th datagram to a file of stamps. From that the receiver
    computes the exact time of arrival, as if nothing delays the datagram. The guest's clock has to
    confirm it.
    """

    def __init__(self, figures: Mapping[str, float], stamps_path: Path,
                 peer_stamps_path: Path) -> None:
        self._figures, self._theirs = figures, peer_stamps_path
        self._stamps = os.open(stamps_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._taken = (peer_stamps_path.stat().st_size // _STAMP_BYTES
                       if peer_stamps_path.exists() else 0)
        #: Received datagrams: all, those without a stamp or before their time, and those too late.
        self.arrived = self.early = self.late = 0

    def duration_ns(self, size: int) -> int:
        """Return the time of a datagram's fragments on the wire (ns)."""
        frame = HEADERS_BYTES + self._figures["overhead_bytes"]
        fragments = -(-size // FRAGMENT_BYTES)
        return round((size + fragments * frame) * 8 / self._figures["rate_bps"] * 1e9)

    def record_sent(self, at_ns: int) -> None:
        """Record that a datagram is sent at a time (ns)."""
        os.write(self._stamps, at_ns.to_bytes(_STAMP_BYTES))

    def arrival_ns(self, size: int, free_ns: int) -> int:
        """Return the exact time of arrival of the received datagram (ns).

        Without a stamp, or before the exact time, the guest's clock is returned and the datagram
        counts as early. It counts as late if it is read more than `TOLERANCE_NS` after the exact
        time and after `free_ns`, from when on its host could read it.
        """
        clock_ns = time.monotonic_ns()
        with self._theirs.open("rb") as stamps:
            stamps.seek(self._taken * _STAMP_BYTES)
            stamp = stamps.read(_STAMP_BYTES)
        self._taken += 1
        self.arrived += 1
        exact_ns = int.from_bytes(stamp) + self.duration_ns(size)
        if not stamp or clock_ns < exact_ns - _ROUNDING_NS:
            self.early += 1
            return clock_ns
        self.late += clock_ns > max(exact_ns, free_ns) + TOLERANCE_NS
        return exact_ns

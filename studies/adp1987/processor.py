"""A host's processor as its device has it: operations are done, and their time is waited for.

Standard library only: this runs inside the machine. Times are ns of the machine's monotonic clock,
and exact: what the machine's own timers add (they wake a fraction of a microsecond late, not the
same each time) is waited for, and not counted. `DatagramWire` does the same for what is under way.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FRAGMENT_BYTES = 1480
#: Ethernet and IP headers of a fragment, beside what the wire itself takes.
HEADERS_BYTES = 14 + 20
_PR_SET_TIMERSLACK = 29
#: How late a datagram may be by the machine's clock, whose own calls take tens of microseconds as
#: a rule. The paper's clock told milliseconds apart.
TOLERANCE_NS = 1_000_000
_ROUNDING_NS = 10_000
_STAMP_BYTES = 8


class UnknownCost(ValueError):
    """A device that does not say what an operation takes."""


def sharp_timers() -> None:
    """Have this process woken when it asked to be, and not up to 50 microseconds later."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)


@dataclass
class PacedProcessor:
    """One processor, first come, first served.

    `seconds` are by operation, of an operation and of each of its bytes; `now_ns` is the exact time
    that it has come to.
    """

    seconds: Mapping[str, tuple[float, float]]
    busy_ns: int = 0
    now_ns: int = field(default_factory=time.monotonic_ns)
    _owed_s: float = 0.0

    def charge(self, operation: str, size: int = 0) -> None:
        """Owe the time of an operation. Raises UnknownCost."""
        if operation not in self.seconds:
            raise UnknownCost(f"the device has no {operation}")
        each, byte = self.seconds[operation]
        self._owed_s += each + byte * size

    def owe(self, nanoseconds: int) -> None:
        """Owe time that is no operation's."""
        self._owed_s += nanoseconds / 1e9

    def reach(self, at_ns: int) -> None:
        """Something that begins at this time; later if the processor is not free before."""
        self.now_ns = max(self.now_ns, at_ns)

    def settle(self) -> int:
        """Pay what is owed; the exact time (ns) at which all of it is over."""
        owed_ns, self._owed_s = round(self._owed_s * 1e9), 0.0
        self.busy_ns += owed_ns
        self.now_ns += owed_ns
        return self.now_ns

    def wait(self) -> None:
        """Have the machine's clock come to the exact time, before anybody else sees what is done.

        Only then: a wait for each operation would take more of the machine than the operation.
        """
        while (left_ns := self.now_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)


class AnyWay:
    """Whatever is between two hosts: what it takes is only known by the machine's clock."""

    arrived = early = late = 0

    def takes_ns(self, size: int) -> int:
        """None of the sender's time, who goes on."""
        return 0

    def sent(self, at_ns: int) -> None:
        """Nothing to note."""

    def arrived_ns(self, size: int, free_ns: int) -> int:
        """Now."""
        return time.monotonic_ns()


class DatagramWire:
    """What a link takes for a datagram, and when those of one host to another were sent.

    Stamps go by a file beside the network: the n-th datagram's tells when it arrives, exactly, if
    nothing holds it up, which the machine's clock has to confirm.
    """

    def __init__(self, figures: Mapping[str, float], ours: Path, theirs: Path) -> None:
        self._figures, self._theirs = figures, theirs
        self._stamps = os.open(ours, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._taken = theirs.stat().st_size // _STAMP_BYTES if theirs.exists() else 0
        #: Datagrams that came: all, before they could or unannounced, and too late.
        self.arrived = self.early = self.late = 0

    def takes_ns(self, size: int) -> int:
        """How long a datagram's fragments are on the wire."""
        frame = HEADERS_BYTES + self._figures["overhead_bytes"]
        fragments = -(-size // FRAGMENT_BYTES)
        return round((size + fragments * frame) * 8 / self._figures["rate_bps"] * 1e9)

    def sent(self, at_ns: int) -> None:
        """Note that a datagram goes now."""
        os.write(self._stamps, at_ns.to_bytes(_STAMP_BYTES))

    def arrived_ns(self, size: int, free_ns: int) -> int:
        """When the datagram just received was there; its host could look from `free_ns` on."""
        clock_ns = time.monotonic_ns()
        with self._theirs.open("rb") as stamps:
            stamps.seek(self._taken * _STAMP_BYTES)
            stamp = stamps.read(_STAMP_BYTES)
        self._taken += 1
        self.arrived += 1
        exact_ns = int.from_bytes(stamp) + self.takes_ns(size)
        if not stamp or clock_ns < exact_ns - _ROUNDING_NS:
            self.early += 1
            return clock_ns
        self.late += clock_ns > max(exact_ns, free_ns) + TOLERANCE_NS
        return exact_ns

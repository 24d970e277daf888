"""What a controller sees and what it decides: pure values, in seconds and packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from protocols.authenticast.settings import Range, Setting

# Less than a packet in 100 s is no stream; less than a nanosecond is no verification.
_MIN_RATE_PPS = 0.01
_MIN_S = 1e-9


@dataclass(frozen=True)
class StreamObservation:
    """A stream when a report of its receiver has come.

    `delta` is the gap of type 1, packets sent but not yet taken up (what waits for a bundle's
    signature was taken up); `holes` counts those of type 2. `verify_s` and `handle_s` are the
    receiver's own running means of a verification and of a packet without one, 0 while it has
    none. `delay_bound_s` is the user's.
    """

    now_s: float
    setting: Setting
    permitted: Range
    sent: int
    processed: int
    delta: int
    rate_pps: float
    holes: int = 0
    buffer_drops: int = 0
    verify_s: float = 0.0
    handle_s: float = 0.0
    delay_bound_s: float = 1.0
    #: How busy the ends are with other things, as shares, and whether the algorithm may change.
    server_load: float = 0.0
    client_load: float = 0.0
    algorithm_change: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether there is a stream, and a receiver that has verified something of it."""
        return self.rate_pps >= _MIN_RATE_PPS and self.verify_s >= _MIN_S


@dataclass(frozen=True)
class Decision:
    """A setting, and why."""

    setting: Setting
    cause: str


class Controller(Protocol):
    """Decides after every report; None leaves things as they are."""

    def decide(self, seen: StreamObservation) -> Decision | None:
        """What should be in force from now on."""

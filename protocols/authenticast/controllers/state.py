"""Input and output of a controller: observation and decision, as pure values.

Units are seconds and packets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from protocols.authenticast.settings import Range, Setting

# Below one packet in 100 s there is no stream; below 1 ns no verification was measured.
_MIN_RATE_PPS = 0.01
_MIN_S = 1e-9


@dataclass(frozen=True)
class StreamObservation:
    """The state of a stream when a report of its receiver has arrived.

    `delta` is the gap of type 1: packets sent but not yet accepted by the receiver. Packets that
    wait for a bundle's signature were accepted. `holes` counts gaps of type 2. `verify_s` and
    `handle_s` are the receiver's running means of a verification and of a packet without one. They
    are 0 before the first measurement. `delay_bound_s` comes from the server's configuration.
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
    #: Other load of server and client, as shares, and whether the algorithm may change.
    server_load: float = 0.0
    client_load: float = 0.0
    algorithm_change: bool = False

    @property
    def is_measured(self) -> bool:
        """Return whether packets flow and the receiver has measured a verification."""
        return self.rate_pps >= _MIN_RATE_PPS and self.verify_s >= _MIN_S


@dataclass(frozen=True)
class Decision:
    """A new setting and the reason for it."""

    setting: Setting
    cause: str


class Controller(Protocol):
    """A controller of a stream, called after every report of its receiver."""

    def decide(self, observation: StreamObservation) -> Decision | None:
        """Return the setting to use from now on, or None to keep the current one.

        Args:
            observation: State of the stream at the report, in seconds and packets.

        Returns:
            The new setting and its reason for the log, or None. The server ignores a setting whose
            scheme or algorithm was not agreed with the client.
        """

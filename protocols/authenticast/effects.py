"""Actions that the protocol requests, as values.

The protocol's logic returns them instead of using sockets and clocks.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Fate(enum.Enum):
    """The result for a packet at the receiver."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    #: The packet's own signature, tag or path is wrong.
    FAILED = "failed"
    #: The bundle's signature does not match its packets, so all of them are rejected.
    BUNDLE_FAILED = "bundle_failed"
    #: Packets of the bundle, or the bundle's signature, did not arrive.
    BUNDLE_INCOMPLETE = "bundle_incomplete"
    #: TESLA: the packet arrived when its key could already have been disclosed.
    LATE = "late"
    #: Dropped without verification, to sustain the user's floor (TESLA: too many are held).
    SHED = "shed"
    #: The packet's algorithm, scheme or epoch is not accepted.
    REFUSED = "refused"

    @property
    def is_processed(self) -> bool:
        """Return whether the application received the packet."""
        return self in {Fate.VERIFIED, Fate.UNVERIFIED}


@dataclass(frozen=True)
class Send:
    """A request to send a datagram.

    `to` is an address as the caller gave it, or None for the client's server.
    """

    payload: bytes
    to: object = None


@dataclass(frozen=True)
class Deliver:
    """A packet for the application to process.

    Sequence numbers count per stream.
    """

    stream: int
    sequence: int
    payload: bytes
    frame: int
    flags: int
    sent_ns: int
    verified: bool


@dataclass(frozen=True)
class Lose:
    """A packet that arrived and is not processed."""

    stream: int
    sequence: int
    fate: Fate


@dataclass(frozen=True)
class Note:
    """An event to report to the program's caller."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)


Effect = Send | Deliver | Lose | Note

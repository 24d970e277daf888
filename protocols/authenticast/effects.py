"""What the protocol wants done, as values, so that its logic needs no socket and no clock."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Fate(enum.Enum):
    """What became of a packet at the receiver."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    #: Its own signature, tag or path is wrong.
    FAILED = "failed"
    #: The bundle's signature does not fit what arrived: all of it is discounted.
    BUNDLE_FAILED = "bundle_failed"
    #: Packets of its bundle, or the bundle's signature, never came.
    BUNDLE_INCOMPLETE = "bundle_incomplete"
    #: TESLA: it came when its key might have been known.
    LATE = "late"
    #: Dropped unseen, so that the rest can be verified at the user's floor.
    SHED = "shed"
    #: An algorithm, scheme or epoch that is not in force.
    REFUSED = "refused"

    @property
    def is_processed(self) -> bool:
        """Whether the application got it."""
        return self in {Fate.VERIFIED, Fate.UNVERIFIED}


@dataclass(frozen=True)
class Send:
    """Send a datagram; `to` is an address as it was handed in, None for the client's server."""

    payload: bytes
    to: object = None


@dataclass(frozen=True)
class Deliver:
    """The application is to process a packet; each stream has numbers of its own."""

    stream: int
    sequence: int
    payload: bytes
    frame: int
    flags: int
    sent_ns: int
    verified: bool


@dataclass(frozen=True)
class Lose:
    """A packet that arrived is not processed."""

    stream: int
    sequence: int
    fate: Fate


@dataclass(frozen=True)
class Note:
    """An event for who started the program."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)


Effect = Send | Deliver | Lose | Note

"""Define the actions that Authenticast's protocol logic returns, such as sending a datagram.

Authenticast streams signed packets over UDP. The logic of server and client uses no sockets and no
clock. It returns these values, and the programs perform them. `SendDatagram` sends a datagram,
`DeliverPacket` delivers a packet to the application, and `DropPacket` drops one. `ProgramEvent` is
an event for the user. `PacketFate` is the result for a packet at the receiver, such as verified.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class PacketFate(enum.Enum):
    """The result for a packet at the receiver, such as verified, unverified or dropped."""

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
        return self in {PacketFate.VERIFIED, PacketFate.UNVERIFIED}


@dataclass(frozen=True)
class SendDatagram:
    """A request to send a datagram.

    `to` is an address as the caller gave it, or None for the client's server.
    """

    payload: bytes
    to: object = None


@dataclass(frozen=True)
class DeliverPacket:
    """A packet to deliver to the application. Sequence numbers count per stream."""

    stream: int
    sequence: int
    payload: bytes
    frame: int
    flags: int
    sent_ns: int
    verified: bool


@dataclass(frozen=True)
class DropPacket:
    """A packet that arrived, but is not delivered to the application."""

    stream: int
    sequence: int
    fate: PacketFate


@dataclass(frozen=True)
class ProgramEvent:
    """An event to report to the user of the program."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)


Effect = SendDatagram | DeliverPacket | DropPacket | ProgramEvent

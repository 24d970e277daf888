"""Define the actions that the logic of an ADP host returns, such as sending a datagram.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. The logic
(`protocols.adp.host`) uses no sockets. Its input is a user's `Message`. It returns a list of
actions, which the program performs. `SendFrame` sends a datagram, `DeliverMessage` delivers a
message to a process, and `ProgramEvent` reports an event. `EncryptionScope` (how much of a datagram
is encrypted) and `SendCause` are values in them and in the settings.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class EncryptionScope(enum.IntEnum):
    """The encrypted part of a datagram: nothing, the trailer, or all (E in the 1987 report)."""

    NONE = 0
    TRAILER = 1
    ALL = 2


class SendCause(enum.StrEnum):
    """The reason why a datagram is sent now, such as an urgent message or a timeout."""

    URGENT = "urgent"
    TIMEOUT = "timeout"
    BOUND = "bound"
    UNQUEUED = "unqueued"  # queueing is off
    STOP = "stop"  # the host stops
    AGAIN = "again"  # was carried by a request that lost to the peer's
    CONTROL = "control"  # no user message: establishment, signatures, confirmations


@dataclass(frozen=True, slots=True)
class Message:
    """A message from an owner (user or service) of this host to one on another host.

    - `source`, `destination`: names of the two owners
    - `port`: port of the receiving process
    - `urgent`: whether it must not wait for others
    - `max_delay_s`: how long it may wait, None for the default
    - `private`: whether it is always encrypted
    """

    source: str
    host: str
    destination: str
    port: int
    data: bytes
    urgent: bool = False
    max_delay_s: float | None = None
    private: bool = False


@dataclass(frozen=True, slots=True)
class SendFrame:
    """A request to send an ADP datagram to another host.

    `cause` is the reason why it is sent now. `messages` is the number of messages in it.
    """

    payload: bytes
    host: str
    cause: SendCause
    messages: int = 0


@dataclass(frozen=True, slots=True)
class DeliverMessage:
    """A request to deliver a message to a local process. Its `source` is authenticated."""

    source: str
    source_host: str
    destination: str
    port: int
    data: bytes
    private: bool


@dataclass(frozen=True)
class ProgramEvent:
    """An event to report to the user of the program."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)


Effect = SendFrame | DeliverMessage | ProgramEvent

"""Inputs and outputs of a host's logic, as values that need no sockets."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Scope(enum.IntEnum):
    """Encrypted part of an ADP message under the channel's key (the paper's factor E)."""

    NONE = 0
    TRAILER = 1
    ALL = 2


class Cause(enum.StrEnum):
    """Reason why an ADP message is sent."""

    URGENT = "urgent"
    TIMEOUT = "timeout"
    BOUND = "bound"
    UNQUEUED = "unqueued"  # queueing is off
    STOP = "stop"  # the host stops
    AGAIN = "again"  # was carried by a request that lost to the peer's
    CONTROL = "control"  # no user message: establishment, signatures, confirmations


@dataclass(frozen=True, slots=True)
class Message:
    """A user message from a local owner to an owner on another host.

    If `max_delay_s` is None, the default timeout applies. With `private`, the message is fully
    encrypted whatever the scope of the host.
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
class Send:
    """Hand an ADP message to the insecure datagram service."""

    payload: bytes
    host: str
    cause: Cause
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Deliver:
    """Deliver a user message to a local process.

    `source` is authenticated.
    """

    source: str
    source_host: str
    destination: str
    port: int
    data: bytes
    private: bool


@dataclass(frozen=True)
class Note:
    """An event for the program that runs the host."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)


Effect = Send | Deliver | Note

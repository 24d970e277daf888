"""What a host is given and what it wants done: values, so that its logic needs no sockets."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Scope(enum.IntEnum):
    """How much of an ADP message is encrypted under the channel's key (factor E of the paper)."""

    NONE = 0
    TRAILER = 1
    ALL = 2


class Cause(enum.StrEnum):
    """Why an ADP message is shipped."""

    URGENT = "urgent"
    TIMEOUT = "timeout"
    BOUND = "bound"
    UNQUEUED = "unqueued"  # queueing is off
    STOP = "stop"  # its host stops
    AGAIN = "again"  # rode on a request that lost to the other end's
    CONTROL = "control"  # no user message in it: establishment, signatures, confirmations


@dataclass(frozen=True, slots=True)
class Message:
    """A user message from a local owner to an owner on another host.

    `max_delay_s` None: the default timeout. `private`: encrypt whole, whatever the host's scope.
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
    """Give an ADP message to the insecure datagram service below."""

    payload: bytes
    host: str
    cause: Cause
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand a user message to a local process; `source` is authenticated."""

    source: str
    source_host: str
    destination: str
    port: int
    data: bytes
    private: bool


@dataclass(frozen=True)
class Note:
    """An event for whoever runs the host."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)


Effect = Send | Deliver | Note

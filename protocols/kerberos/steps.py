"""Steps of a party's work: requests to other parties, and time marks."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

Transport = Literal["udp", "tcp"]


@dataclass(frozen=True)
class Ask:
    """A step that sends a message to a named party and waits for the reply."""

    to: str
    transport: Transport
    message: bytes


@dataclass(frozen=True)
class Mark:
    """A step that ends a phase of a transaction, once all charged work is done."""

    name: str


#: A generator that yields requests and marks, receives replies (b"" for a mark) and returns its own
#: answer.
Work = Generator[Ask | Mark, bytes, bytes]

"""What a party's work consists of, for whoever runs it: questions to others, and marks in time."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal

Transport = Literal["udp", "tcp"]


@dataclass(frozen=True)
class Ask:
    """Send a message to a party by its name, and go on with the reply."""

    to: str
    transport: Transport
    message: bytes


@dataclass(frozen=True)
class Mark:
    """A phase of a transaction is over here, once everything owed for it is done."""

    name: str


#: Yields questions and marks, is sent replies (b"" for a mark), and returns its own answer.
Work = Generator[Ask | Mark, bytes, bytes]

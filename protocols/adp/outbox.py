"""Queue of user messages for one remote host, shipped together in ADP messages.

The discipline follows section 3.1.3 of the paper. An urgent message is sent at once with all
waiting messages. Another message waits for its own maximum delay or the default timeout, unless it
is shipped earlier. A message that fills or would overflow the queue counts as urgent. The order is
kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocols.adp.effects import Cause, Message
from protocols.adp.packets import MAX_RECORDS, RECORD


@dataclass(frozen=True, slots=True)
class Batch:
    """User messages of one ADP message, in the order of submission."""

    messages: list[Message]
    cause: Cause


class Outbox:
    """Waiting messages, always less than `bound_bytes` of user data."""

    def __init__(self, bound_bytes: int, timeout_s: float, *, enabled: bool) -> None:
        self._bound_bytes = bound_bytes
        self._timeout_s = timeout_s
        self._enabled = enabled
        self._reset()

    def _reset(self) -> None:
        self._waiting: list[Message] = []
        self._bytes = 0
        self._encoded_bytes = 0
        self._due_s: float | None = None

    @property
    def waiting_bytes(self) -> int:
        """Return the size of the waiting user data, in bytes."""
        return self._bytes

    def deadline_s(self) -> float | None:
        """Return the time at which the waiting messages must be sent."""
        return self._due_s

    def add_message(self, message: Message, now_s: float) -> list[Batch]:
        """Queue a message and return the batches to send at once."""
        if not self._enabled:
            return [Batch([message], Cause.UNQUEUED)]
        size = len(message.data)
        # An upper bound of four bytes a character avoids encoding the name each time.
        encoded = size + RECORD + 4 * len(message.destination)
        batches = []
        overflows = (self._bytes + size > self._bound_bytes
                     or self._encoded_bytes + encoded > MAX_RECORDS)
        if overflows and self._waiting:
            batches = self._take_batch(Cause.URGENT if message.urgent else Cause.BOUND)
        self._waiting.append(message)
        self._bytes += size
        self._encoded_bytes += encoded
        if message.urgent:
            return batches + self._take_batch(Cause.URGENT)
        if overflows or self._bytes >= self._bound_bytes:
            return batches + self._take_batch(Cause.BOUND)
        delay_s = self._timeout_s if message.max_delay_s is None else message.max_delay_s
        due_s = now_s + delay_s
        if self._due_s is None or due_s < self._due_s:
            self._due_s = due_s
        return batches + self.take_due(now_s)

    def take_due(self, now_s: float) -> list[Batch]:
        """Return the waiting messages if one of them has reached its deadline."""
        if self._due_s is None or self._due_s > now_s:
            return []
        return self._take_batch(Cause.TIMEOUT)

    def take_all(self) -> list[Batch]:
        """Return all waiting messages, whatever their deadlines."""
        return self._take_batch(Cause.STOP) if self._waiting else []

    def _take_batch(self, cause: Cause) -> list[Batch]:
        batch = Batch(self._waiting, cause)
        self._reset()
        return [batch]

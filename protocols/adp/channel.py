"""A secure channel to one host: message encoding, and the times to send unprompted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from protocols.adp import packets
from protocols.adp.context import Context, earliest_time
from protocols.adp.crypto import Operation
from protocols.adp.effects import Message
from protocols.adp.errors import PacketError
from protocols.adp.outbox import Batch
from protocols.adp.owners import Owners
from protocols.adp.packets import Flag, Frame, Kind, ProtectedBody
from protocols.adp.suite import Security, SessionRequest

_LONGEST_BACKOFF = 16


@dataclass
class Channel:
    """An endpoint of a channel.

    `security` is None until an acknowledgement brings the keys. The initiator sets `request`, the
    acceptor sets `received_request`. A channel is tentative for its initiator until it is
    acknowledged, and for its acceptor until it is confirmed.
    """

    context: Context
    id: bytes
    owners: Owners
    security: Security | None
    started_s: float
    request: SessionRequest | None = None
    received_request: bytes = b""
    acknowledgement: bytes = b""
    is_open: bool = False
    is_settled: bool = False  # this end is the initiator and knows that the peer uses the channel
    session: bytes | None = None  # the peer's session
    rekeying: SessionRequest | None = None
    rekey_answer: bytes = b""
    copies: list[Batch] = field(default_factory=list)
    copied_bytes: int = 0
    speak_by_s: float | None = None
    asking_since_s: float | None = None
    _backoff: int = 1

    @property
    def is_initiator(self) -> bool:
        """Return whether this end requested the channel."""
        return self.request is not None

    @property
    def is_tentative(self) -> bool:
        """Return whether this end's request is not yet acknowledged."""
        return self.is_initiator and not self.is_open

    def encode_message(self, messages: Sequence[Message], now_s: float, *,
                       is_retry: bool = False) -> bytes:
        """Encode an ADP message and protect it.

        Args:
            messages: User messages to carry, possibly none.
            now_s: Current time in seconds.
            is_retry: The message is a retransmission due by the clock; it doubles the retry
            interval.
        """
        context, security = self.context, self.security
        private = any(message.private for message in messages)
        flags, request, acknowledgement = self._handshake_fields()
        sealed = b""
        number = {source: self.owners.register_owner(source).number
                  for source in dict.fromkeys(message.source for message in messages)}
        if security is not None:
            flags |= context.suite.header_flags(private=private)
        frame = Frame(context.suite.version, Kind.DATA, flags, len(messages), self.id,
                      context.identity.session, request, acknowledgement)
        clear = frame.clear_bytes()
        if security is not None:
            body = packets.encode_body(
                self.owners.unconfirmed_proofs(security), self.owners.take_confirmations(),
                [packets.encode_record(number[message.source], message.destination.encode(),
                                       message.port, message.data) for message in messages])
            sealed = security.seal(clear, body, private=private)
        for message in messages:
            context.crypto.charge(Operation.USER_MESSAGE, len(message.data))
        context.crypto.charge(Operation.ADP_MESSAGE, len(clear) + len(sealed))
        self._record_sent(now_s, is_retry=is_retry)
        return clear + sealed

    def open_message(self, frame: Frame, security: Security) -> ProtectedBody:
        """Verify a message and return its parsed body. Raises PacketError."""
        if not self.context.suite.is_acceptable(frame.flags):
            raise PacketError("protected less than we demand")
        body = security.open(frame.clear_bytes(), frame)
        parsed = packets.parse_body(body, frame.count, self.context.suite.padding)
        for record in parsed.records:
            self.context.crypto.charge(Operation.USER_MESSAGE, len(record.data))
        return parsed

    def schedule_message(self, by_s: float) -> None:
        """Schedule a message on the channel for this time at the latest."""
        if self.speak_by_s is None or by_s < self.speak_by_s:
            self.speak_by_s = by_s

    def deadline_s(self) -> float | None:
        """Return the time of the channel's next scheduled action."""
        return earliest_time([self.speak_by_s, self.owners.held_until_s()])

    def has_given_up(self, now_s: float) -> bool:
        """Return whether the peer has not answered for `give_up_s`."""
        return (self.asking_since_s is not None
                and now_s - self.asking_since_s >= self.context.settings.give_up_s)

    def record_answer(self) -> None:
        """Reset the retry interval after an answer of the peer."""
        self._backoff = 1
        self.asking_since_s = None
        if not self._awaits_answer():
            self.speak_by_s = None

    def keep_copy(self, batch: Batch) -> None:
        """Keep a batch that was sent with a request, which may lose to the peer's."""
        size = sum(len(message.data) for message in batch.messages)
        if self.copied_bytes + size <= self.context.settings.hold_bytes:
            self.copied_bytes += size
            self.copies.append(batch)

    def _handshake_fields(self) -> tuple[int, bytes, bytes]:
        if self.rekeying is not None:
            return Flag.REQUEST | Flag.REKEY, self.rekeying.encoded, b""
        if self.rekey_answer:
            answer, self.rekey_answer = self.rekey_answer, b""
            return Flag.ACKNOWLEDGE | Flag.REKEY, b"", answer
        if self.request is not None and not self.is_open:
            return Flag.REQUEST, self.request.encoded, b""
        if not self.is_initiator and not self.is_open and self.acknowledgement:
            return Flag.ACKNOWLEDGE, b"", self.acknowledgement
        return 0, b"", b""

    def _awaits_answer(self) -> bool:
        proving = (self.security is not None and self.security.can_prove
                   and self.owners.has_unconfirmed())
        # With early messages, the signatures show the peer that the channel is wanted.
        unsettled = self.is_initiator and not self.is_settled and not self.context.suite.early
        return self.is_tentative or self.rekeying is not None or proving or unsettled

    def _record_sent(self, now_s: float, *, is_retry: bool) -> None:
        if self.owners.confirmations:
            self.speak_by_s = now_s
        elif not self._awaits_answer():
            self.speak_by_s = self.asking_since_s = None
        else:
            if self.asking_since_s is None:
                self.asking_since_s = now_s
            if is_retry:
                self._backoff = min(2 * self._backoff, _LONGEST_BACKOFF)
            self.speak_by_s = now_s + self.context.settings.retry_s * self._backoff

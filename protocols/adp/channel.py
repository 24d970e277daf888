"""Encode, protect and verify the datagrams of secure ADP channels between two hosts.

ADP is the Authenticated Datagram Protocol. A channel carries messages of processes. Each process
belongs to an owner, a user or service with a key pair. `Outbox` collects messages that are not
urgent, so that one datagram carries many. `OwnerCache` remembers which owners a channel has
authenticated. `Channel` encodes and protects datagrams. `PeerChannels` has all channels with one
host: the one in use, and those before and after it. `protocols.adp.peer` uses these classes.

A channel is set up by a request and an acknowledgement:

- The host that sends the request is the initiator. Its channel is tentative, until the
  acknowledgement arrives. Then it is open, and carries messages of processes.
- The other host, the acceptor, keeps the channel as a candidate. It is open once a further datagram
  proves that the request was no replay.
- A channel is settled when the initiator has received a datagram after the acknowledgement. It then
  knows that the acceptor uses the channel.
- An open channel gets a new key by another request and answer (rekeying).

The two versions of the protocol differ in this. In that of 1987, the initiator sends messages
before the acknowledgement (early messages, `Suite.early`), and the owners' signatures prove the
request. In the modern version, the handshake also authenticates the kernel owners. A kernel owner
is the owner that represents a host itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from protocols.adp import packets
from protocols.adp.context import KERNEL_OWNER, HostContext, earliest_time
from protocols.adp.crypto import Operation
from protocols.adp.effects import DeliverMessage, Effect, Message, ProgramEvent, SendCause
from protocols.adp.packets import (
    MAX_CONFIRMATIONS,
    MAX_MESSAGES_BYTES,
    MAX_SIGNATURES_BYTES,
    MESSAGE_HEADER,
    Frame,
    HeaderFlag,
    MessageKind,
    OwnerSignature,
    PacketError,
    ProtectedBody,
    UserMessage,
)
from protocols.adp.suite import ChannelSecurity, SessionRequest

# --- Queue of user messages for the remote host ---
# Section 3.1.3 of the paper: an urgent message is sent at once with all waiting messages. Another
# message waits for its own maximum delay or the default timeout, unless it is shipped earlier. A
# message that fills or would overflow the queue counts as urgent. The order is kept.

@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of processes that are sent in one ADP datagram, in their order."""

    messages: list[Message]
    cause: SendCause


class Outbox:
    """A queue of messages to one host, which collects them until they are due or fill a datagram.

    The waiting messages always have less than `bound_bytes` of user data. Without `enabled`, each
    message is sent at once.
    """

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
        """Return the size of the waiting messages in bytes of user data."""
        return self._bytes

    def deadline_s(self) -> float | None:
        """Return the time (s) at which the waiting messages must be sent, or None."""
        return self._due_s

    def add_message(self, message: Message, now_s: float) -> list[Batch]:
        """Queue a message, and return the batches that must be sent at once."""
        if not self._enabled:
            return [Batch([message], SendCause.UNQUEUED)]
        size = len(message.data)
        # An upper bound of four bytes a character avoids encoding the name each time.
        encoded = size + MESSAGE_HEADER + 4 * len(message.destination)
        batches = []
        overflows = (self._bytes + size > self._bound_bytes
                     or self._encoded_bytes + encoded > MAX_MESSAGES_BYTES)
        if overflows and self._waiting:
            batches = self._take_batch(SendCause.URGENT if message.urgent else SendCause.BOUND)
        self._waiting.append(message)
        self._bytes += size
        self._encoded_bytes += encoded
        if message.urgent:
            return batches + self._take_batch(SendCause.URGENT)
        if overflows or self._bytes >= self._bound_bytes:
            return batches + self._take_batch(SendCause.BOUND)
        delay_s = self._timeout_s if message.max_delay_s is None else message.max_delay_s
        due_s = now_s + delay_s
        if self._due_s is None or due_s < self._due_s:
            self._due_s = due_s
        return batches + self.take_due(now_s)

    def take_due(self, now_s: float) -> list[Batch]:
        """Return the waiting messages if one of them has reached its deadline."""
        if self._due_s is None or self._due_s > now_s:
            return []
        return self._take_batch(SendCause.TIMEOUT)

    def take_all(self) -> list[Batch]:
        """Return all waiting messages before their deadlines."""
        return self._take_batch(SendCause.STOP) if self._waiting else []

    def _take_batch(self, cause: SendCause) -> list[Batch]:
        batch = Batch(self._waiting, cause)
        self._reset()
        return [batch]


# --- Owners on one channel ---
# They are authenticated in either direction. Messages of an unknown owner are held until it signs.

@dataclass
class LocalOwner:
    """An owner of this host who sends on a channel.

    The owner's signature is computed once, and sent until the other host confirms it.
    """

    number: int
    signature: bytes = b""
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A received message that waits for the signature of its sender."""

    message: UserMessage
    private: bool
    at_s: float


@dataclass
class OwnerCache:
    """A cache of the owners that a channel has authenticated.

    It has owners of both hosts (section 3.1.2 of the 1987 report). When the channel's key changes,
    the cache stays.

    - `to_peer`: owners of this host that send on the channel, by name
    - `from_peer`: names of the other host's authenticated owners, by number
    - `confirmations`: numbers of the other host's owners whose signatures are to be confirmed
    """

    context: HostContext
    peer: str
    to_peer: dict[str, LocalOwner] = field(default_factory=dict)
    from_peer: dict[int, str] = field(default_factory=dict)
    confirmations: list[int] = field(default_factory=list)
    _held: list[HeldMessage] = field(default_factory=list)
    _held_bytes: int = 0

    def trust_kernel_owners(self) -> None:
        """Add the owners that represent the two hosts, which the modern handshake authenticates."""
        context = self.context
        self.from_peer[KERNEL_OWNER] = context.directory.kernel_owners[self.peer]
        self.to_peer[context.identity.kernel_owner] = LocalOwner(KERNEL_OWNER, confirmed=True)

    def register_owner(self, owner: str) -> LocalOwner:
        """Add a local owner, who must be authenticated to the other host."""
        outgoing = self.to_peer.get(owner)
        if outgoing is None:
            outgoing = self.to_peer[owner] = LocalOwner(self.context.owner_number(owner))
        return outgoing

    def has_unconfirmed(self) -> bool:
        """Return whether the other host has yet to confirm the signature of a local owner."""
        return any(not outgoing.confirmed for outgoing in self.to_peer.values())

    def is_confirmed(self, owner: str) -> bool:
        """Return whether the other host has confirmed the signature of a local owner."""
        outgoing = self.to_peer.get(owner)
        return outgoing is not None and outgoing.confirmed

    def unconfirmed_signatures(self, security: ChannelSecurity) -> list[OwnerSignature]:
        """Return signatures that the other host has yet to confirm, as many as fit a datagram."""
        signatures: list[OwnerSignature] = []
        size = 0
        if not security.can_sign:
            return signatures
        for name, outgoing in self.to_peer.items():
            if outgoing.confirmed:
                continue
            if not outgoing.signature:
                outgoing.signature = security.sign_owner(name, self.context.identity.keys[name])
            size += len(outgoing.signature) + len(name.encode()) + 5
            if size > MAX_SIGNATURES_BYTES:
                break
            signatures.append(OwnerSignature(outgoing.number, name, outgoing.signature))
        return signatures

    def take_confirmations(self) -> list[int]:
        """Remove and return the confirmations of signatures that must be sent."""
        taken = self.confirmations[:MAX_CONFIRMATIONS]
        del self.confirmations[:MAX_CONFIRMATIONS]
        return taken

    def mark_confirmed(self, numbers: Iterable[int]) -> None:
        """Mark signatures of local owners as confirmed by the other host."""
        if not numbers:
            return
        by_number = {outgoing.number: outgoing for outgoing in self.to_peer.values()}
        for number in numbers:
            if number in by_number:
                by_number[number].confirmed = True

    def check_signature(self, signature: OwnerSignature, security: ChannelSecurity) -> list[Effect]:
        """Verify the signature of another host's owner, and deliver the messages held for it.

        A signature that is already known is confirmed again, without a public-key operation.
        """
        known = self.from_peer.get(signature.number)
        if known is None:
            key = self.context.directory.keys.get(signature.name)
            if key is None or not security.is_owner_signature(signature.name, key, signature.value):
                return self._refuse_signature(signature, "no public key" if key is None
                                              else "wrong signature")
            self.from_peer[signature.number] = signature.name
        elif known != signature.name:
            return self._refuse_signature(signature, f"its number is {known}'s")
        if signature.number not in self.confirmations:
            self.confirmations.append(signature.number)
        if known is not None:
            return []
        note = ProgramEvent("authenticated", {"owner": signature.name, "host": self.peer})
        return [note, *self._release_messages(signature.number, signature.name)]

    def deliver_message(self, message: UserMessage, now_s: float, *, private: bool) -> list[Effect]:
        """Deliver a message, or hold it until its sender's signature has arrived.

        `private` says whether all content of the datagram was encrypted.
        """
        name = self.from_peer.get(message.source)
        if name is not None:
            return [self._make_delivery(message, name, private=private)]
        if self._held_bytes + len(message.data) > self.context.settings.hold_bytes:
            return [ProgramEvent("dropped",
                                 {"host": self.peer, "reason": "too much waits for signatures"})]
        self._held_bytes += len(message.data)
        self._held.append(HeldMessage(message, private, now_s))
        return []

    def held_until_s(self) -> float | None:
        """Return the time (s) at which the oldest held message is dropped, or None."""
        if not self._held:
            return None
        return self._held[0].at_s + self.context.settings.give_up_s

    def drop_stale(self, now_s: float) -> list[Effect]:
        """Drop messages whose sender's signature has not arrived within `give_up_s`."""
        # Use the sum that `held_until_s` returns: a difference may be rounded differently.
        patience_s = self.context.settings.give_up_s
        stale = [entry for entry in self._held if entry.at_s + patience_s <= now_s]
        if not stale:
            return []
        self._replace_waiting([entry for entry in self._held if entry.at_s + patience_s > now_s])
        return [ProgramEvent("dropped", {"host": self.peer, "messages": len(stale),
                                         "reason": "their sender has not signed"})]

    def _release_messages(self, number: int, name: str) -> list[Effect]:
        ready = [entry for entry in self._held if entry.message.source == number]
        self._replace_waiting([entry for entry in self._held if entry.message.source != number])
        return [self._make_delivery(entry.message, name, private=entry.private) for entry in ready]

    def _refuse_signature(self, signature: OwnerSignature, reason: str) -> list[Effect]:
        if signature.number not in self.from_peer:
            self._replace_waiting([entry for entry in self._held
                                   if entry.message.source != signature.number])
        return [ProgramEvent("refused", {"owner": signature.name, "host": self.peer,
                                         "reason": reason})]

    def _replace_waiting(self, messages: list[HeldMessage]) -> None:
        self._held = messages
        self._held_bytes = sum(len(entry.message.data) for entry in messages)

    def _make_delivery(self, message: UserMessage, name: str, *, private: bool) -> Effect:
        if message.destination not in self.context.identity.keys:
            return ProgramEvent("dropped", {"host": self.peer, "owner": name,
                                            "reason": f"no owner {message.destination} here"})
        return DeliverMessage(name, self.peer, message.destination, message.port, message.data,
                              private)


_LONGEST_BACKOFF = 16


# --- One channel: message encoding, and the times to send without a message ---

@dataclass
class Channel:
    """An end of a secure channel to another host.

    - `id`: identifier of the channel in datagrams
    - `owners`: owners that have been authenticated on the channel
    - `security`: the keys, None until they are agreed
    - `started_s`: time (s) at which the channel was created
    - `request`: request that this host sent, None at the acceptor
    - `received_request`, `acknowledgement`: request that this host received, and its answer, both
      empty at the initiator
    - `is_open`: whether messages of processes may be sent without a request
    - `is_settled`: whether this host is the initiator, and knows that the acceptor uses the channel
    - `session`: session of the other host's program, which changes when that host restarts
    - `rekeying`: request for a new key that has no answer yet
    - `rekey_answer`: answer to the other host's request for a new key, to be sent once
    - `copies`, `copied_bytes`: messages that were sent with the request, in case that the other
      host does not accept it, and their size in bytes
    - `speak_by_s`: time (s) by which a datagram must be sent, None if nothing needs one
    - `asking_since_s`: time (s) since which this host waits for an answer, None if it does not wait
    """

    context: HostContext
    id: bytes
    owners: OwnerCache
    security: ChannelSecurity | None
    started_s: float
    request: SessionRequest | None = None
    received_request: bytes = b""
    acknowledgement: bytes = b""
    is_open: bool = False
    is_settled: bool = False
    session: bytes | None = None
    rekeying: SessionRequest | None = None
    rekey_answer: bytes = b""
    copies: list[Batch] = field(default_factory=list)
    copied_bytes: int = 0
    speak_by_s: float | None = None
    asking_since_s: float | None = None
    _backoff: int = 1

    @property
    def is_initiator(self) -> bool:
        """Return whether this host requested the channel."""
        return self.request is not None

    @property
    def is_tentative(self) -> bool:
        """Return whether this host's request has not been acknowledged yet."""
        return self.is_initiator and not self.is_open

    def encode_message(self, messages: Sequence[Message], now_s: float, *,
                       is_retry: bool = False) -> bytes:
        """Encode a datagram with messages of processes, and protect it with the channel's keys.

        Args:
            messages: messages to carry, possibly none.
            now_s: current time (s).
            is_retry: the datagram repeats an unanswered one. The time to the next repetition is
                doubled.
        """
        context, security = self.context, self.security
        private = any(message.private for message in messages)
        flags, request, acknowledgement = self._handshake_fields()
        sealed = b""
        number = {source: self.owners.register_owner(source).number
                  for source in dict.fromkeys(message.source for message in messages)}
        if security is not None:
            flags |= context.suite.header_flags(private=private)
        frame = Frame(context.suite.version, MessageKind.DATA, flags, len(messages), self.id,
                      context.identity.session, request, acknowledgement)
        clear = frame.clear_bytes()
        if security is not None:
            body = packets.encode_body(
                self.owners.unconfirmed_signatures(security), self.owners.take_confirmations(),
                [packets.encode_message(number[message.source], message.destination.encode(),
                                        message.port, message.data) for message in messages])
            sealed = security.seal(clear, body, private=private)
        for message in messages:
            context.crypto.charge(Operation.USER_MESSAGE, len(message.data))
        context.crypto.charge(Operation.ADP_MESSAGE, len(clear) + len(sealed))
        self._record_sent(now_s, is_retry=is_retry)
        return clear + sealed

    def open_message(self, frame: Frame, security: ChannelSecurity) -> ProtectedBody:
        """Verify and decrypt a datagram, and return its parsed content.

        Raises:
            PacketError: the datagram was altered, or is malformed.
        """
        if not self.context.suite.is_acceptable(frame.flags):
            raise PacketError("protected less than we demand")
        body = security.open(frame.clear_bytes(), frame)
        parsed = packets.parse_body(body, frame.count, self.context.suite.padding)
        for message in parsed.messages:
            self.context.crypto.charge(Operation.USER_MESSAGE, len(message.data))
        return parsed

    def schedule_message(self, by_s: float) -> None:
        """Request that a datagram is sent on the channel at this time at the latest."""
        if self.speak_by_s is None or by_s < self.speak_by_s:
            self.speak_by_s = by_s

    def deadline_s(self) -> float | None:
        """Return the time (s) at which the channel must send or repeat something, or None."""
        return earliest_time([self.speak_by_s, self.owners.held_until_s()])

    def has_given_up(self, now_s: float) -> bool:
        """Return whether the other host has not answered for `give_up_s`."""
        return (self.asking_since_s is not None
                and now_s - self.asking_since_s >= self.context.settings.give_up_s)

    def record_answer(self) -> None:
        """Reset the time between repetitions, because the other host has answered."""
        self._backoff = 1
        self.asking_since_s = None
        if not self._awaits_answer():
            self.speak_by_s = None

    def keep_copy(self, batch: Batch) -> None:
        """Keep messages that were sent with a request, in case the other host does not accept it.

        If both hosts request a channel at the same time, only one request counts.
        """
        size = sum(len(message.data) for message in batch.messages)
        if self.copied_bytes + size <= self.context.settings.hold_bytes:
            self.copied_bytes += size
            self.copies.append(batch)

    def _handshake_fields(self) -> tuple[int, bytes, bytes]:
        """Return header flags, request and acknowledgement of the next datagram."""
        if self.rekeying is not None:
            return HeaderFlag.REQUEST | HeaderFlag.REKEY, self.rekeying.encoded, b""
        if self.rekey_answer:
            answer, self.rekey_answer = self.rekey_answer, b""
            return HeaderFlag.ACKNOWLEDGE | HeaderFlag.REKEY, b"", answer
        if self.request is not None and not self.is_open:
            return HeaderFlag.REQUEST, self.request.encoded, b""
        if not self.is_initiator and not self.is_open and self.acknowledgement:
            return HeaderFlag.ACKNOWLEDGE, b"", self.acknowledgement
        return 0, b"", b""

    def _awaits_answer(self) -> bool:
        """Return whether datagrams are repeated until the other host answers."""
        proving = (self.security is not None and self.security.can_sign
                   and self.owners.has_unconfirmed())
        # With early messages, the owners' signatures show the acceptor that the request is no
        # replay.
        unsettled = self.is_initiator and not self.is_settled and not self.context.suite.early
        return self.is_tentative or self.rekeying is not None or proving or unsettled

    def _record_sent(self, now_s: float, *, is_retry: bool) -> None:
        """Compute the time of the next datagram after one was sent."""
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


# --- All channels with one host ---
# The current channel, candidates that are not used yet, and the channel that was replaced.

# Several, so that replayed old requests do not push out a genuine request at once.
_MAX_CANDIDATES = 8


@dataclass
class PeerChannels:
    """All channels with one other host.

    - `current`: the channel in use
    - `tentative`: requested by this host, and not acknowledged
    - `candidates`: requested by the other host, and not confirmed
    - `previous`: the channel before the current one
    """

    context: HostContext
    peer: str
    current: Channel | None = None
    tentative: Channel | None = None
    candidates: list[Channel] = field(default_factory=list)
    previous: Channel | None = None
    previous_until_s: float = 0.0

    def all_channels(self) -> list[Channel]:
        """Return all channels on which a datagram may arrive, the current one first."""
        places = (self.current, self.tentative, self.previous)
        return [channel for channel in places if channel is not None] + [
            candidate for candidate in self.candidates if candidate is not self.current]

    def find_channel(self, channel_id: bytes) -> Channel | None:
        """Return the channel with an identifier, or None."""
        return next((channel for channel in self.all_channels() if channel.id == channel_id), None)

    def usable_channel(self) -> Channel | None:
        """Return the channel that can carry messages of processes now, or None."""
        if self.current is not None:
            return self.current
        return self.tentative if self.context.suite.early else None

    def request_channel(self, now_s: float) -> Channel:
        """Create a channel whose request must be sent at once."""
        request, security = self.context.suite.create_request(self.peer)
        channel = Channel(self.context, request.channel, self._create_owners(), security, now_s,
                          request=request, speak_by_s=now_s, asking_since_s=now_s)
        self.tentative = channel
        return channel

    def accept_request(self, frame: Frame, security: ChannelSecurity, acknowledgement: bytes,
                       now_s: float) -> Channel:
        """Create a channel for a request of the other host. The caller must add it."""
        owners = self._create_owners()
        if not self.context.suite.early:
            owners.trust_kernel_owners()
        return Channel(self.context, frame.channel, owners, security, now_s,
                       received_request=frame.request, acknowledgement=acknowledgement,
                       session=frame.session)

    def add_candidate(self, candidate: Channel) -> None:
        """Add a channel that the other host requested. It is used once that host confirms it."""
        self.candidates = [*self.candidates, candidate][-_MAX_CANDIDATES:]

    def set_current(self, channel: Channel, now_s: float) -> None:
        """Use a channel from now on.

        Datagrams on the previous channel are accepted for another `give_up_s`. If the other host
        has restarted, the previous channel is dropped at once.
        """
        last = self.current
        if last is not None and last is not channel:
            self.previous = last if last.session == channel.session else None
            self.previous_until_s = now_s + self.context.settings.give_up_s
        self.current = channel
        self.candidates = [other for other in self.candidates if other is not channel]
        if self.tentative is channel:
            self.tentative = None

    def remove_channel(self, channel: Channel) -> None:
        """Remove a channel, whether it is in use or not."""
        self.candidates = [other for other in self.candidates if other is not channel]
        if self.current is channel:
            self.current = None
        if self.tentative is channel:
            self.tentative = None
        if self.previous is channel:
            self.previous = None

    def expire_channels(self, now_s: float) -> None:
        """Drop the previous channel and unconfirmed ones when their time is over."""
        if self.previous is not None and now_s >= self.previous_until_s:
            self.previous = None
        limit_s = now_s - self.context.settings.give_up_s
        self.candidates = [other for other in self.candidates if other.started_s > limit_s]

    def _create_owners(self) -> OwnerCache:
        return OwnerCache(self.context, self.peer)


def next_key(old: Channel, channel_id: bytes, security: ChannelSecurity, now_s: float, *,
             is_open: bool) -> Channel:
    """Return a copy of a channel with a new key. Session and authenticated owners stay.

    `is_open` says whether it may carry messages at once.
    """
    return Channel(old.context, channel_id, old.owners, security, now_s, request=old.request,
                   received_request=old.received_request, is_open=is_open, session=old.session)


def user_bytes(messages: list[Message]) -> int:
    """Return the size of messages in bytes of user data."""
    return sum(len(message.data) for message in messages)

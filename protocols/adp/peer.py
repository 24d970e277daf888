"""Handle the traffic of an ADP host with one other host: queue, channels and timers.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. A channel is the
secure connection of two hosts. `Peer` is the sending side. `Receiver` processes arriving datagrams
and changes the channels of its `Peer`. Both return actions and use no sockets and no clock.
`protocols.adp.host` has one of each per other host.

The life of a channel, with the names of `PeerChannels`:

| event | at the initiator | at the acceptor |
|---|---|---|
| request | `tentative` | candidate (1987 without another channel: `current`) |
| acknowledgement arrives | open, `current` | |
| confirmation arrives | | open, `current` |
| datagram after the acknowledgement | settled | |
| answer to a request for the next key | new key `current`, old one `previous` | new key candidate |
| no answer for `give_up_s` | dropped; waiting messages are lost | candidate dropped |

The confirmation proves to the acceptor that the request was no replay. Two suites differ in it:

- 1987 (`Suite.early`): messages go with the request already. The confirmation is a valid signature
  of an owner (user or service with a key pair).
- modern: messages wait for the acknowledgement. The confirmation is any datagram after it.

If both hosts send a request at the same time, that of the host with the greater name counts. A
session identifies one start of a host's program. A datagram with the flag SEALED has a body that is
protected with the channel's keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocols.adp.channel import Batch, Channel, Outbox, PeerChannels, next_key, user_bytes
from protocols.adp.context import HostContext, earliest_time
from protocols.adp.effects import Effect, Message, ProgramEvent, SendCause, SendFrame
from protocols.adp.packets import Frame, HeaderFlag, MessageKind, PacketError, ProtectedBody
from protocols.adp.suite import ChannelSecurity


class Peer:
    """The sending side for one other host. Its methods return actions in order."""

    def __init__(self, name: str, context: HostContext) -> None:
        settings = context.settings
        self.name = name
        self.context = context
        self.channels = PeerChannels(context, name)
        self.outbox = Outbox(settings.bound_bytes, settings.timeout_s, enabled=settings.queue)
        self._ahead: set[str] = set()
        self._waiting: list[Batch] = []
        self._waiting_bytes = 0

    def send(self, message: Message, now_s: float) -> list[Effect]:
        """Queue a message for the other host, and request a channel if there is none."""
        batches = self.outbox.add_message(message, now_s)
        if batches or self.channels.current is None:
            self._request_channel(now_s)
            return self._ship_all(batches, now_s) + self.send_control_messages(now_s)
        return []

    def open_channel(self, owners: Iterable[str], now_s: float) -> list[Effect]:
        """Request a channel and authenticate owners on it, before they are needed."""
        self._ahead.update(owners)
        self._request_channel(now_s)
        self._register_owners(now_s)
        return self.send_control_messages(now_s)

    def tick(self, now_s: float) -> list[Effect]:
        """Do what is due: send queued messages, repeat requests, and give up old ones."""
        self.channels.expire_channels(now_s)
        effects = self._give_up(now_s)
        for channel in self.channels.all_channels():
            effects += channel.owners.drop_stale(now_s)
        due = self.outbox.take_due(now_s)
        if due:
            self._request_channel(now_s)
        return effects + self._ship_all(due,
                                        now_s) + self.send_control_messages(now_s, is_retry=True)

    def stop(self, now_s: float) -> list[Effect]:
        """Send waiting messages if there is a channel, and report those that are lost."""
        effects = self._ship_all(self.outbox.take_all(), now_s)
        if lost := sum(len(batch.messages) for batch in self._take_waiting()):
            effects.append(self._dropped_note(lost, "the host stops and has no channel for them"))
        return effects

    def deadline_s(self) -> float | None:
        """Return the time (s) at which `tick` must be called next, or None."""
        times = [channel.deadline_s() for channel in self.channels.all_channels()]
        return earliest_time([self.outbox.deadline_s(), *times])

    def send_control_messages(self, now_s: float, *, is_retry: bool = False) -> list[Effect]:
        """Send datagrams without messages of processes, such as requests and confirmations.

        `is_retry` says whether they repeat earlier ones, so that the time to the next is longer.
        """
        return [self._control_message(channel, now_s, is_retry=is_retry) for channel
                in self.channels.all_channels()
                if channel.speak_by_s is not None and channel.speak_by_s <= now_s]

    def use_channel(self, channel: Channel, now_s: float) -> list[Effect]:
        """Use an established channel from now on, and send the messages that waited for it."""
        if channel is self.channels.current:
            return []
        last = self.channels.current
        self.channels.set_current(channel, now_s)
        self._register_owners(now_s)
        is_next_key = last is not None and last.owners is channel.owners
        note = ProgramEvent("rekeyed" if is_next_key else "opened", {
            "host": self.name, "channel": channel.id.hex(), "initiator": channel.is_initiator,
            "after_s": now_s - channel.started_s})
        return [note, *self._ship_all(self._take_waiting(), now_s)]

    def request_new_channel(self, now_s: float) -> None:
        """Request another channel, because the other host may have lost the current one.

        The current channel is used until the new one is established.
        """
        if self.channels.tentative is None:
            self.channels.request_channel(now_s)

    def ship_again(self, batches: Iterable[Batch], now_s: float) -> list[Effect]:
        """Send messages again that went with a request which the other host did not accept.

        That happens if both hosts request a channel at the same time.
        """
        return self._ship_all([Batch(batch.messages, SendCause.AGAIN) for batch in batches], now_s)

    def _request_channel(self, now_s: float) -> None:
        channels = self.channels
        if channels.current is None and channels.tentative is None:
            channels.request_channel(now_s)

    def _register_owners(self, now_s: float) -> None:
        channel = self.channels.current
        if channel is None:
            return
        for owner in sorted(self._ahead):
            channel.owners.register_owner(owner)
        self._ahead.clear()
        if channel.owners.has_unconfirmed():
            channel.schedule_message(now_s)

    def _ship_all(self, batches: Iterable[Batch], now_s: float) -> list[Effect]:
        return [effect for batch in batches for effect in self._ship_batch(batch, now_s)]

    def _ship_batch(self, batch: Batch, now_s: float) -> list[Effect]:
        channel = self.channels.usable_channel()
        if channel is None:
            return self._hold_batch(batch)
        self.request_rekey(channel, now_s)
        payload = channel.encode_message(batch.messages, now_s)
        if channel.is_tentative:
            channel.keep_copy(batch)
        return [SendFrame(payload, self.name, batch.cause, len(batch.messages))]

    def _hold_batch(self, batch: Batch) -> list[Effect]:
        size = user_bytes(batch.messages)
        if self._waiting_bytes + size > self.context.settings.hold_bytes:
            return [self._dropped_note(len(batch.messages), "too much waits for a channel")]
        self._waiting_bytes += size
        self._waiting.append(batch)
        return []

    def _take_waiting(self) -> list[Batch]:
        """Remove and return the messages that waited for a channel."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def _dropped_note(self, messages: int, reason: str) -> ProgramEvent:
        return ProgramEvent("dropped", {"host": self.name, "messages": messages, "reason": reason})

    def _control_message(self, channel: Channel, now_s: float, *, is_retry: bool) -> Effect:
        if channel is self.channels.current:
            self.request_rekey(channel, now_s)
        return SendFrame(channel.encode_message((), now_s, is_retry=is_retry), self.name,
                         SendCause.CONTROL)

    def request_rekey(self, channel: Channel, now_s: float) -> None:
        """Request the next key of a channel when it is old enough.

        Only the host that requested the channel does this.
        """
        age_s = now_s - channel.started_s
        if (self.context.suite.rekeys and channel.is_initiator and channel.is_open
                and channel.rekeying is None and age_s >= self.context.settings.rekey_after_s):
            channel.rekeying = self.context.suite.create_rekey(self.name)
            channel.schedule_message(now_s)

    def _give_up(self, now_s: float) -> list[Effect]:
        """Drop requests for channels and keys that the other host has not answered for too long."""
        effects: list[Effect] = []
        for channel in self.channels.all_channels():
            if not channel.has_given_up(now_s):
                continue
            if channel.is_tentative:
                effects.append(self._drop_unreachable(channel))
            elif channel.rekeying is not None:
                self.channels.remove_channel(channel)
            else:
                channel.speak_by_s = None  # its signatures are sent with the next message
        return effects

    def _drop_unreachable(self, channel: Channel) -> Effect:
        self.channels.remove_channel(channel)
        lost = sum(len(batch.messages) for batch in self._waiting)
        lost += sum(len(batch.messages) for batch in channel.copies)
        if self.channels.current is None:
            self._waiting, self._waiting_bytes = [], 0
        return ProgramEvent("unreachable", {"host": self.name, "messages": lost})


# --- Receiving side: frames that arrive from the remote host ---

_RESET_INTERVAL_S = 0.1


class Receiver:
    """The receiving side for one other host."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._context = peer.context
        self._channels = peer.channels
        self._reset_s: float | None = None
        self._renewed_s: float | None = None

    def receive_frame(self, frame: Frame, now_s: float) -> list[Effect]:
        """Process an arriving datagram.

        Raises:
            PacketError: the datagram is malformed, altered or not expected.
        """
        if frame.kind is MessageKind.RESET:
            return self._on_hint(frame.channel, now_s)
        channel = self._channels.find_channel(frame.channel)
        if channel is None:
            if not frame.flags & HeaderFlag.REQUEST or frame.flags & HeaderFlag.REKEY:
                return self._send_reset(frame, now_s)
            effects = self._accept_request(frame, now_s)
        elif channel.session not in {None, frame.session}:
            return [self._dropped_note("another session's"), *self._on_hint(frame.channel, now_s)]
        elif not frame.flags & HeaderFlag.SEALED:
            self._answer_repeated_request(channel, frame, now_s)
            effects = []
        else:
            effects = self._take_or_answer(channel, frame, now_s)
        return effects + self._peer.send_control_messages(now_s)

    def _accept_request(self, frame: Frame, now_s: float) -> list[Effect]:
        """Accept a new request for a channel from the other host.

        If this host has sent a request, too, that of the host with the greater name counts. The
        other one is dropped.
        """
        tentative, early = self._channels.tentative, self._context.suite.early
        if tentative is not None and self._context.identity.host > self._peer.name:
            return [self._dropped_note("both have asked, and the greater name's key, ours, counts")]
        security, acknowledgement = self._context.suite.accept_request(self._peer.name, frame)
        channel = self._channels.accept_request(frame, security, acknowledgement, now_s)
        effects: list[Effect] = []
        if early:
            # The message that carries the request must open before the channel is used.
            body = channel.open_message(frame, security)
            if tentative is not None or self._channels.current is None:
                effects += self._adopt_channel(channel, now_s)
            else:
                self._channels.add_candidate(channel)
            effects += self._process_body(channel, body, frame, now_s)
        else:
            self._channels.add_candidate(channel)
        channel.schedule_message(now_s)
        return effects

    def _adopt_channel(self, channel: Channel, now_s: float) -> list[Effect]:
        """Use the channel that the other host requested, instead of this host's request.

        Messages sent with this host's request are sent again.
        """
        tentative = self._channels.tentative
        if tentative is None:
            return self._peer.use_channel(channel, now_s)
        self._channels.remove_channel(tentative)
        for owner in tentative.owners.to_peer:
            channel.owners.register_owner(owner)
        return [*self._peer.use_channel(channel, now_s),
                *self._peer.ship_again(tentative.copies, now_s)]

    def _answer_repeated_request(self, channel: Channel, frame: Frame, now_s: float) -> None:
        """Answer a repeated request, because the first answer may have been lost."""
        if not frame.flags & HeaderFlag.REQUEST or frame.request != channel.received_request:
            raise PacketError("neither a body nor the channel's own request")
        if not channel.is_open:
            channel.schedule_message(now_s)

    def _take_or_answer(self, channel: Channel, frame: Frame, now_s: float) -> list[Effect]:
        """Process a datagram, or acknowledge again if the sender uses an older channel.

        This happens after an attacker replays an old request to a restarted host. From the
        acknowledgement the sender learns of the restart, and requests another channel.
        """
        try:
            effects = self._take_message(channel, frame, now_s)
        except PacketError as error:
            if channel.is_initiator or channel.is_open:
                raise
            effects = [self._dropped_note(str(error))]
        if not (channel.is_initiator or channel.is_open or frame.flags & HeaderFlag.REQUEST):
            channel.schedule_message(now_s)
        return effects

    def _take_message(self, channel: Channel, frame: Frame, now_s: float) -> list[Effect]:
        """Process a datagram on a known channel."""
        acknowledges = channel.is_tentative and bool(frame.flags & HeaderFlag.ACKNOWLEDGE)
        security = channel.security
        if acknowledges:
            assert channel.request is not None
            security = self._context.suite.complete_request(channel.request, security, frame)
        if security is None or (channel.is_tentative and not acknowledges):
            raise PacketError("a message before the acknowledgement")
        body = channel.open_message(frame, security)
        channel.security = security
        effects: list[Effect] = []
        if acknowledges:
            effects += self._handle_acknowledgement(channel, frame, now_s)
        else:
            channel.is_settled = True
            channel.record_answer()
            if not channel.is_open and not self._context.suite.early:
                effects += self._handle_confirmation(channel, now_s)
                channel.schedule_message(now_s + self._context.settings.timeout_s)
        effects += self._process_body(channel, body, frame, now_s)
        if frame.flags & HeaderFlag.REKEY:
            effects += self._handle_rekey(channel, security, frame, now_s)
        elif frame.flags & HeaderFlag.REQUEST:
            self._answer_repeated_request(channel, frame, now_s)
        if channel is self._channels.current:
            self._peer.request_rekey(channel, now_s)
        return effects

    def _handle_acknowledgement(self, channel: Channel, frame: Frame, now_s: float) -> list[Effect]:
        """Start to use a channel, because the other host has acknowledged the request."""
        channel.is_open = True
        channel.session = frame.session
        channel.copies.clear()
        if not self._context.suite.early:
            channel.owners.trust_kernel_owners()
        channel.record_answer()
        # The next message shows the modern acceptor that the request was fresh. The acceptor of
        # 1987 needs the signatures of the owners whose messages were sent with the request.
        if not self._context.suite.early or channel.owners.has_unconfirmed():
            channel.schedule_message(now_s)
        return self._peer.use_channel(channel, now_s)

    def _handle_confirmation(self, channel: Channel, now_s: float) -> list[Effect]:
        """Start to use a channel, because a confirmation shows that its request was no replay."""
        channel.is_open = True
        if channel is self._channels.current:
            return []
        return self._adopt_channel(channel, now_s)

    def _process_body(self, channel: Channel, body: ProtectedBody, frame: Frame,
                      now_s: float) -> list[Effect]:
        """Process the signatures, confirmations and messages in a datagram."""
        security, owners = channel.security, channel.owners
        assert security is not None
        effects: list[Effect] = []
        authenticated = len(owners.from_peer)
        for signature in body.signatures:
            effects += owners.check_signature(signature, security)
        if len(owners.from_peer) > authenticated and not channel.is_open:
            effects += self._handle_confirmation(channel, now_s)
        if body.confirmations:
            owners.mark_confirmed(body.confirmations)
            channel.record_answer()
        private = bool(frame.flags & HeaderFlag.ALL)
        for message in body.messages:
            effects += owners.deliver_message(message, now_s, private=private)
        if owners.confirmations:
            channel.schedule_message(now_s + self._context.settings.timeout_s)
        return effects

    def _handle_rekey(self, channel: Channel, security: ChannelSecurity, frame: Frame,
                      now_s: float) -> list[Effect]:
        """Process a request for the channel's next key, or the answer to one."""
        suite = self._context.suite
        if frame.flags & HeaderFlag.REQUEST:
            if channel.is_initiator:
                raise PacketError("a next key that only we may ask for")
            new = self._channels.find_channel(frame.request[:8])
            if new is None:
                keys, answer = suite.accept_rekey(security, frame)
                new = next_key(channel, frame.request[:8], keys, now_s, is_open=False)
                new.acknowledgement = answer
                self._channels.add_candidate(new)
            channel.rekey_answer = new.acknowledgement
            channel.schedule_message(now_s)
            return []
        request = channel.rekeying
        if request is None or frame.acknowledgement[:8] != request.channel:
            raise PacketError("a next key that nobody has asked for")
        keys = suite.complete_rekey(request, security, frame)
        channel.rekeying = None
        channel.record_answer()
        new = next_key(channel, request.channel, keys, now_s, is_open=True)
        new.schedule_message(now_s)
        return self._peer.use_channel(new, now_s)

    def _send_reset(self, frame: Frame, now_s: float) -> list[Effect]:
        """Tell the other host that its channel is unknown here, at most every 0.1 s."""
        dropped = self._dropped_note("no such channel")
        if self._reset_s is not None and now_s - self._reset_s < _RESET_INTERVAL_S:
            return [dropped]
        self._reset_s = now_s
        reset = Frame(self._context.suite.version, MessageKind.RESET, 0, 0, frame.channel,
                      self._context.identity.session)
        return [dropped, SendFrame(reset.clear_bytes(), self._peer.name, SendCause.CONTROL)]

    def _on_hint(self, channel_id: bytes, now_s: float) -> list[Effect]:
        """Request another channel, because the other host may have lost the current one.

        The hint (a reset) is not authenticated, so the current channel stays in use.
        """
        current = self._channels.current
        if current is None or current.id != channel_id:
            return []
        interval_s = self._context.settings.retry_s
        if self._renewed_s is not None and now_s - self._renewed_s < interval_s:
            return []
        self._renewed_s = now_s
        self._peer.request_new_channel(now_s)
        return [ProgramEvent("doubted", {"host": self._peer.name}),
                *self._peer.send_control_messages(now_s)]

    def _dropped_note(self, reason: str) -> ProgramEvent:
        return ProgramEvent("dropped", {"host": self._peer.name, "reason": reason})

"""Processing of the frames that arrive from one remote host."""

from __future__ import annotations

from protocols.adp.channel import Channel
from protocols.adp.channels import next_key
from protocols.adp.effects import Cause, Effect, Note, Send
from protocols.adp.errors import PacketError
from protocols.adp.packets import Flag, Frame, Kind, ProtectedBody
from protocols.adp.peer import Peer
from protocols.adp.suite import Security

_RESET_INTERVAL_S = 0.1


class Receiver:
    """The receiving side for one remote host."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._context = peer.context
        self._channels = peer.channels
        self._reset_s: float | None = None
        self._renewed_s: float | None = None

    def receive_frame(self, frame: Frame, now_s: float) -> list[Effect]:
        """Process a frame of this host. Raises PacketError if it is not accepted."""
        if frame.kind is Kind.RESET:
            return self._on_hint(frame.channel, now_s)
        channel = self._channels.find_channel(frame.channel)
        if channel is None:
            if not frame.flags & Flag.REQUEST or frame.flags & Flag.REKEY:
                return self._send_reset(frame, now_s)
            effects = self._accept_request(frame, now_s)
        elif channel.session not in {None, frame.session}:
            return [self._dropped_note("another session's"), *self._on_hint(frame.channel, now_s)]
        elif not frame.flags & Flag.SEALED:
            self._answer_repeated_request(channel, frame, now_s)
            effects = []
        else:
            effects = self._take_or_answer(channel, frame, now_s)
        return effects + self._peer.send_control_messages(now_s)

    def _accept_request(self, frame: Frame, now_s: float) -> list[Effect]:
        """Accept a new request of the peer."""
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
        """Use the peer's channel instead of the requested one, also for messages sent on it."""
        tentative = self._channels.tentative
        if tentative is None:
            return self._peer.use_channel(channel, now_s)
        self._channels.remove_channel(tentative)
        for owner in tentative.owners.to_peer:
            channel.owners.register_owner(owner)
        return [*self._peer.use_channel(channel, now_s),
                *self._peer.ship_again(tentative.copies, now_s)]

    def _answer_repeated_request(self, channel: Channel, frame: Frame, now_s: float) -> None:
        """Answer a repeated request, whose acknowledgement may have been lost."""
        if not frame.flags & Flag.REQUEST or frame.request != channel.received_request:
            raise PacketError("neither a body nor the channel's own request")
        if not channel.is_open:
            channel.schedule_message(now_s)

    def _take_or_answer(self, channel: Channel, frame: Frame, now_s: float) -> list[Effect]:
        """Process a message, or send the acknowledgement if the sender has an older channel.

        This happens after an attacker replays the request to this host's new session. The
        acknowledgement carries the new session, and the sender then requests another channel.
        """
        try:
            effects = self._take_message(channel, frame, now_s)
        except PacketError as error:
            if channel.is_initiator or channel.is_open:
                raise
            effects = [self._dropped_note(str(error))]
        if not (channel.is_initiator or channel.is_open or frame.flags & Flag.REQUEST):
            channel.schedule_message(now_s)
        return effects

    def _take_message(self, channel: Channel, frame: Frame, now_s: float) -> list[Effect]:
        """Process a message on a known channel."""
        acknowledges = channel.is_tentative and bool(frame.flags & Flag.ACKNOWLEDGE)
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
        if frame.flags & Flag.REKEY:
            effects += self._handle_rekey(channel, security, frame, now_s)
        elif frame.flags & Flag.REQUEST:
            self._answer_repeated_request(channel, frame, now_s)
        if channel is self._channels.current:
            self._peer.request_rekey(channel, now_s)
        return effects

    def _handle_acknowledgement(self, channel: Channel, frame: Frame, now_s: float) -> list[Effect]:
        """Open the channel after the acknowledgement of this host's request."""
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
        """Open the channel after the peer has shown that its request was fresh."""
        channel.is_open = True
        if channel is self._channels.current:
            return []
        return self._adopt_channel(channel, now_s)

    def _process_body(self, channel: Channel, body: ProtectedBody, frame: Frame,
                      now_s: float) -> list[Effect]:
        """Process the signatures, confirmations and user messages of a body."""
        security, owners = channel.security, channel.owners
        assert security is not None
        effects: list[Effect] = []
        authenticated = len(owners.from_peer)
        for proof in body.proofs:
            effects += owners.check_proof(proof, security)
        if len(owners.from_peer) > authenticated and not channel.is_open:
            effects += self._handle_confirmation(channel, now_s)
        if body.confirmed:
            owners.mark_confirmed(body.confirmed)
            channel.record_answer()
        private = bool(frame.flags & Flag.ALL)
        for record in body.records:
            effects += owners.deliver_message(record, now_s, private=private)
        if owners.confirmations:
            channel.schedule_message(now_s + self._context.settings.timeout_s)
        return effects

    def _handle_rekey(self, channel: Channel, security: Security, frame: Frame,
                      now_s: float) -> list[Effect]:
        """Process the initiator's rekey request, or the answer to it."""
        suite = self._context.suite
        if frame.flags & Flag.REQUEST:
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
        asked = channel.rekeying
        if asked is None or frame.acknowledgement[:8] != asked.channel:
            raise PacketError("a next key that nobody has asked for")
        keys = suite.complete_rekey(asked, security, frame)
        channel.rekeying = None
        channel.record_answer()
        new = next_key(channel, asked.channel, keys, now_s, is_open=True)
        new.schedule_message(now_s)
        return self._peer.use_channel(new, now_s)

    def _send_reset(self, frame: Frame, now_s: float) -> list[Effect]:
        """Tell the peer that the channel is unknown, at most every 0.1 s."""
        dropped = self._dropped_note("no such channel")
        if self._reset_s is not None and now_s - self._reset_s < _RESET_INTERVAL_S:
            return [dropped]
        self._reset_s = now_s
        reset = Frame(self._context.suite.version, Kind.RESET, 0, 0, frame.channel,
                      self._context.identity.session)
        return [dropped, Send(reset.clear_bytes(), self._peer.name, Cause.CONTROL)]

    def _on_hint(self, channel_id: bytes, now_s: float) -> list[Effect]:
        """Request another channel, because the peer may have lost the current one.

        Resets are not authenticated, so the current channel is kept.
        """
        current = self._channels.current
        if current is None or current.id != channel_id:
            return []
        interval_s = self._context.settings.retry_s
        if self._renewed_s is not None and now_s - self._renewed_s < interval_s:
            return []
        self._renewed_s = now_s
        self._peer.request_new_channel(now_s)
        return [Note("doubted", {"host": self._peer.name}),
                *self._peer.send_control_messages(now_s)]

    def _dropped_note(self, reason: str) -> Note:
        return Note("dropped", {"host": self._peer.name, "reason": reason})

"""Channels with one host: the current one and those not yet or no longer used."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocols.adp.channel import Channel
from protocols.adp.context import Context
from protocols.adp.effects import Message
from protocols.adp.owners import Owners
from protocols.adp.packets import Frame
from protocols.adp.suite import Security

# Several, so that replayed old requests do not push out a genuine request at once.
_MAX_CANDIDATES = 8


@dataclass
class Channels:
    """Channels with one peer: at most one of each kind, but several candidates.

    `current` is in use, `tentative` was requested by this host, and `candidates` were requested by
    the peer. `previous` was used before the current one.
    """

    context: Context
    peer: str
    current: Channel | None = None
    tentative: Channel | None = None
    candidates: list[Channel] = field(default_factory=list)
    previous: Channel | None = None
    previous_until_s: float = 0.0

    def all_channels(self) -> list[Channel]:
        """Return every channel that a message may arrive on, the current one first."""
        places = (self.current, self.tentative, self.previous)
        return [channel for channel in places if channel is not None] + [
            candidate for candidate in self.candidates if candidate is not self.current]

    def find_channel(self, channel_id: bytes) -> Channel | None:
        """Return the channel with an identifier, if any."""
        return next((channel for channel in self.all_channels() if channel.id == channel_id), None)

    def usable_channel(self) -> Channel | None:
        """Return the channel that can carry user messages now, if any."""
        if self.current is not None:
            return self.current
        return self.tentative if self.context.suite.early else None

    def request_channel(self, now_s: float) -> Channel:
        """Create a tentative channel whose request is due at once."""
        request, security = self.context.suite.create_request(self.peer)
        channel = Channel(self.context, request.channel, self._create_owners(), security, now_s,
                          request=request, speak_by_s=now_s, asking_since_s=now_s)
        self.tentative = channel
        return channel

    def accept_request(self, frame: Frame, security: Security, acknowledgement: bytes,
                       now_s: float) -> Channel:
        """Return a channel for the peer's request.

        The caller registers it.
        """
        owners = self._create_owners()
        if not self.context.suite.early:
            owners.trust_kernel_owners()
        return Channel(self.context, frame.channel, owners, security, now_s,
                       received_request=frame.request, acknowledgement=acknowledgement,
                       session=frame.session)

    def add_candidate(self, candidate: Channel) -> None:
        """Add a candidate, which is used only after the peer's confirmation."""
        self.candidates = [*self.candidates, candidate][-_MAX_CANDIDATES:]

    def set_current(self, channel: Channel, now_s: float) -> None:
        """Make a channel the current one.

        Messages under way on the previous channel are accepted for `give_up_s`. If the peer's
        session has changed, the previous channel is dropped at once.
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
        """Remove a channel from all lists."""
        self.candidates = [other for other in self.candidates if other is not channel]
        if self.current is channel:
            self.current = None
        if self.tentative is channel:
            self.tentative = None
        if self.previous is channel:
            self.previous = None

    def expire_channels(self, now_s: float) -> None:
        """Drop the previous channel and unconfirmed candidates after their time."""
        if self.previous is not None and now_s >= self.previous_until_s:
            self.previous = None
        limit_s = now_s - self.context.settings.give_up_s
        self.candidates = [other for other in self.candidates if other.started_s > limit_s]

    def _create_owners(self) -> Owners:
        return Owners(self.context, self.peer)


def next_key(old: Channel, channel_id: bytes, security: Security, now_s: float, *,
             is_open: bool) -> Channel:
    """Return a channel with the next key, with unchanged session and owners."""
    return Channel(old.context, channel_id, old.owners, security, now_s, request=old.request,
                   received_request=old.received_request, is_open=is_open, session=old.session)


def user_bytes(messages: list[Message]) -> int:
    """Return the size of the user data, in bytes."""
    return sum(len(message.data) for message in messages)

"""Channels with one host: in use, asked for by us, asked for by the other end, and last used."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocols.adp.channel import Channel
from protocols.adp.context import Context
from protocols.adp.effects import Message
from protocols.adp.owners import Owners
from protocols.adp.packets import Frame
from protocols.adp.suite import Security

# More than one: whoever replays old requests does not push a true one out at once.
_MAX_CANDIDATES = 8


@dataclass
class Channels:
    """At most one in each place but the other end's requests."""

    context: Context
    peer: str
    current: Channel | None = None
    tentative: Channel | None = None
    candidates: list[Channel] = field(default_factory=list)
    previous: Channel | None = None
    previous_until_s: float = 0.0

    def all(self) -> list[Channel]:
        """Every channel that something may arrive on; the one in use first."""
        places = (self.current, self.tentative, self.previous)
        return [channel for channel in places if channel is not None] + [
            candidate for candidate in self.candidates if candidate is not self.current]

    def find(self, channel_id: bytes) -> Channel | None:
        """The channel that a message bears."""
        return next((channel for channel in self.all() if channel.id == channel_id), None)

    def usable(self) -> Channel | None:
        """The channel that user messages can go on now."""
        if self.current is not None:
            return self.current
        return self.tentative if self.context.suite.early else None

    def ask(self, now_s: float) -> Channel:
        """A request of ours, due at once."""
        request, security = self.context.suite.request(self.peer)
        channel = Channel(self.context, request.channel, self._owners(), security, now_s,
                          request=request, speak_by_s=now_s, asking_since_s=now_s)
        self.tentative = channel
        return channel

    def accepted(self, frame: Frame, security: Security, acknowledgement: bytes,
                 now_s: float) -> Channel:
        """A channel of the other end's request; it is not in any place yet."""
        owners = self._owners()
        if not self.context.suite.early:
            owners.trust_kernel_owners()
        return Channel(self.context, frame.channel, owners, security, now_s,
                       received_request=frame.request, acknowledgement=acknowledgement,
                       session=frame.session)

    def add(self, candidate: Channel) -> None:
        """A channel that is in use only once the other end has confirmed it."""
        self.candidates = [*self.candidates, candidate][-_MAX_CANDIDATES:]

    def use(self, channel: Channel, now_s: float) -> None:
        """Put a channel into use. What is under way on the last one may still arrive for a while.

        A session of the other end's that has ended takes its channels with it.
        """
        last = self.current
        if last is not None and last is not channel:
            self.previous = last if last.session == channel.session else None
            self.previous_until_s = now_s + self.context.settings.give_up_s
        self.current = channel
        self.candidates = [other for other in self.candidates if other is not channel]
        if self.tentative is channel:
            self.tentative = None

    def forget(self, channel: Channel) -> None:
        """Drop a channel from wherever it is."""
        self.candidates = [other for other in self.candidates if other is not channel]
        if self.current is channel:
            self.current = None
        if self.tentative is channel:
            self.tentative = None
        if self.previous is channel:
            self.previous = None

    def expire(self, now_s: float) -> None:
        """Drop the last channel when its time is over, and requests that nobody confirms."""
        if self.previous is not None and now_s >= self.previous_until_s:
            self.previous = None
        limit_s = now_s - self.context.settings.give_up_s
        self.candidates = [other for other in self.candidates if other.started_s > limit_s]

    def _owners(self) -> Owners:
        return Owners(self.context, self.peer)


def next_key(old: Channel, channel_id: bytes, security: Security, now_s: float, *,
             is_open: bool) -> Channel:
    """A channel with the next key: the same session, the same authenticated owners."""
    return Channel(old.context, channel_id, old.owners, security, now_s, request=old.request,
                   received_request=old.received_request, is_open=is_open, session=old.session)


def user_bytes(messages: list[Message]) -> int:
    """Size of the user data."""
    return sum(len(message.data) for message in messages)

"""State between this host and one remote host: queue, channels and timers."""

from __future__ import annotations

from collections.abc import Iterable

from protocols.adp.channel import Channel
from protocols.adp.channels import Channels, user_bytes
from protocols.adp.context import Context, earliest
from protocols.adp.effects import Cause, Effect, Message, Note, Send
from protocols.adp.outbox import Batch, Outbox


class Peer:
    """The sending side for one remote host.

    Public methods return ordered effects.
    """

    def __init__(self, name: str, context: Context) -> None:
        settings = context.settings
        self.name = name
        self.context = context
        self.channels = Channels(context, name)
        self.outbox = Outbox(settings.bound_bytes, settings.timeout_s, enabled=settings.queue)
        self._ahead: set[str] = set()
        self._waiting: list[Batch] = []
        self._waiting_bytes = 0

    def send(self, message: Message, now_s: float) -> list[Effect]:
        """Queue a message, and request a channel if none is in use."""
        batches = self.outbox.add(message, now_s)
        if batches or self.channels.current is None:
            self._request(now_s)
            return self._ship_all(batches, now_s) + self.speak(now_s)
        return []

    def open(self, owners: Iterable[str], now_s: float) -> list[Effect]:
        """Request a channel and authenticate owners ahead of demand."""
        self._ahead.update(owners)
        self._request(now_s)
        self._want(now_s)
        return self.speak(now_s)

    def tick(self, now_s: float) -> list[Effect]:
        """Perform all actions that are due."""
        self.channels.expire(now_s)
        effects = self._give_up(now_s)
        for channel in self.channels.all():
            effects += channel.owners.forget(now_s)
        due = self.outbox.due(now_s)
        if due:
            self._request(now_s)
        return effects + self._ship_all(due, now_s) + self.speak(now_s, again=True)

    def stop(self, now_s: float) -> list[Effect]:
        """Send waiting messages if a channel exists, and report the lost ones."""
        effects = self._ship_all(self.outbox.rest(), now_s)
        if lost := sum(len(batch.messages) for batch in self._take_waiting()):
            effects.append(self._dropped(lost, "the host stops and has no channel for them"))
        return effects

    def deadline_s(self) -> float | None:
        """Return the time at which `tick` is due next."""
        times = [channel.deadline_s() for channel in self.channels.all()]
        return earliest([self.outbox.deadline_s(), *times])

    def speak(self, now_s: float, *, again: bool = False) -> list[Effect]:
        """Send ADP messages without user data on channels where one is due."""
        return [self._control(channel, now_s, again=again) for channel in self.channels.all()
                if channel.speak_by_s is not None and channel.speak_by_s <= now_s]

    def opened(self, channel: Channel, now_s: float) -> list[Effect]:
        """Put an established channel into use and send the messages that waited."""
        if channel is self.channels.current:
            return []
        last = self.channels.current
        self.channels.use(channel, now_s)
        self._want(now_s)
        is_next_key = last is not None and last.owners is channel.owners
        note = Note("rekeyed" if is_next_key else "opened", {
            "host": self.name, "channel": channel.id.hex(), "initiator": channel.initiator,
            "after_s": now_s - channel.started_s})
        return [note, *self._ship_all(self._take_waiting(), now_s)]

    def renew(self, now_s: float) -> None:
        """Request another channel, because the peer may have lost the current one.

        The current channel is used until the new one is open.
        """
        if self.channels.tentative is None:
            self.channels.ask(now_s)

    def ship_again(self, batches: Iterable[Batch], now_s: float) -> list[Effect]:
        """Send messages again whose request lost to the peer's request.

        The peer does not use the channel of that request.
        """
        return self._ship_all([Batch(batch.messages, Cause.AGAIN) for batch in batches], now_s)

    def _request(self, now_s: float) -> None:
        channels = self.channels
        if channels.current is None and channels.tentative is None:
            channels.ask(now_s)

    def _want(self, now_s: float) -> None:
        channel = self.channels.current
        if channel is None:
            return
        for owner in sorted(self._ahead):
            channel.owners.want(owner)
        self._ahead.clear()
        if channel.owners.are_unconfirmed():
            channel.speak(now_s)

    def _ship_all(self, batches: Iterable[Batch], now_s: float) -> list[Effect]:
        return [effect for batch in batches for effect in self._ship(batch, now_s)]

    def _ship(self, batch: Batch, now_s: float) -> list[Effect]:
        channel = self.channels.usable()
        if channel is None:
            return self._wait(batch)
        self.rekey(channel, now_s)
        payload = channel.encode(batch.messages, now_s)
        if channel.is_tentative:
            channel.keep(batch)
        return [Send(payload, self.name, batch.cause, len(batch.messages))]

    def _wait(self, batch: Batch) -> list[Effect]:
        size = user_bytes(batch.messages)
        if self._waiting_bytes + size > self.context.settings.hold_bytes:
            return [self._dropped(len(batch.messages), "too much waits for a channel")]
        self._waiting_bytes += size
        self._waiting.append(batch)
        return []

    def _take_waiting(self) -> list[Batch]:
        """Remove and return the batches that waited for a channel."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def _dropped(self, messages: int, reason: str) -> Note:
        return Note("dropped", {"host": self.name, "messages": messages, "reason": reason})

    def _control(self, channel: Channel, now_s: float, *, again: bool) -> Effect:
        if channel is self.channels.current:
            self.rekey(channel, now_s)
        return Send(channel.encode((), now_s, again=again), self.name, Cause.CONTROL)

    def rekey(self, channel: Channel, now_s: float) -> None:
        """Request the channel's next key when it is old enough.

        Only its initiator does.
        """
        age_s = now_s - channel.started_s
        if (self.context.suite.rekeys and channel.initiator and channel.is_open
                and channel.rekeying is None and age_s >= self.context.settings.rekey_after_s):
            channel.rekeying = self.context.suite.rekey(self.name)
            channel.speak(now_s)

    def _give_up(self, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        for channel in self.channels.all():
            if not channel.has_given_up(now_s):
                continue
            if channel.is_tentative:
                effects.append(self._unreachable(channel))
            elif channel.rekeying is not None:
                self.channels.forget(channel)
            else:
                channel.speak_by_s = None  # its signatures are sent with the next message
        return effects

    def _unreachable(self, channel: Channel) -> Effect:
        self.channels.forget(channel)
        lost = sum(len(batch.messages) for batch in self._waiting)
        lost += sum(len(batch.messages) for batch in channel.copies)
        if self.channels.current is None:
            self._waiting, self._waiting_bytes = [], 0
        return Note("unreachable", {"host": self.name, "messages": lost})

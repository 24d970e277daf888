"""State between this host and one remote host: queue, channels and timers."""

from __future__ import annotations

from collections.abc import Iterable

from protocols.adp.channel import Channel
from protocols.adp.channels import Channels, user_bytes
from protocols.adp.context import Context, earliest_time
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
        batches = self.outbox.add_message(message, now_s)
        if batches or self.channels.current is None:
            self._request_channel(now_s)
            return self._ship_all(batches, now_s) + self.send_control_messages(now_s)
        return []

    def open_channel(self, owners: Iterable[str], now_s: float) -> list[Effect]:
        """Request a channel and authenticate owners ahead of demand."""
        self._ahead.update(owners)
        self._request_channel(now_s)
        self._register_owners(now_s)
        return self.send_control_messages(now_s)

    def tick(self, now_s: float) -> list[Effect]:
        """Perform all actions that are due."""
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
        """Send waiting messages if a channel exists, and report the lost ones."""
        effects = self._ship_all(self.outbox.take_all(), now_s)
        if lost := sum(len(batch.messages) for batch in self._take_waiting()):
            effects.append(self._dropped_note(lost, "the host stops and has no channel for them"))
        return effects

    def deadline_s(self) -> float | None:
        """Return the time at which `tick` is due next."""
        times = [channel.deadline_s() for channel in self.channels.all_channels()]
        return earliest_time([self.outbox.deadline_s(), *times])

    def send_control_messages(self, now_s: float, *, is_retry: bool = False) -> list[Effect]:
        """Send ADP messages without user data on channels where one is due."""
        return [self._control_message(channel, now_s, is_retry=is_retry) for channel
                in self.channels.all_channels()
                if channel.speak_by_s is not None and channel.speak_by_s <= now_s]

    def use_channel(self, channel: Channel, now_s: float) -> list[Effect]:
        """Put an established channel into use and send the messages that waited."""
        if channel is self.channels.current:
            return []
        last = self.channels.current
        self.channels.set_current(channel, now_s)
        self._register_owners(now_s)
        is_next_key = last is not None and last.owners is channel.owners
        note = Note("rekeyed" if is_next_key else "opened", {
            "host": self.name, "channel": channel.id.hex(), "initiator": channel.is_initiator,
            "after_s": now_s - channel.started_s})
        return [note, *self._ship_all(self._take_waiting(), now_s)]

    def request_new_channel(self, now_s: float) -> None:
        """Request another channel, because the peer may have lost the current one.

        The current channel is used until the new one is open.
        """
        if self.channels.tentative is None:
            self.channels.request_channel(now_s)

    def ship_again(self, batches: Iterable[Batch], now_s: float) -> list[Effect]:
        """Send messages again whose request lost to the peer's request.

        The peer does not use the channel of that request.
        """
        return self._ship_all([Batch(batch.messages, Cause.AGAIN) for batch in batches], now_s)

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
        return [Send(payload, self.name, batch.cause, len(batch.messages))]

    def _hold_batch(self, batch: Batch) -> list[Effect]:
        size = user_bytes(batch.messages)
        if self._waiting_bytes + size > self.context.settings.hold_bytes:
            return [self._dropped_note(len(batch.messages), "too much waits for a channel")]
        self._waiting_bytes += size
        self._waiting.append(batch)
        return []

    def _take_waiting(self) -> list[Batch]:
        """Remove and return the batches that waited for a channel."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def _dropped_note(self, messages: int, reason: str) -> Note:
        return Note("dropped", {"host": self.name, "messages": messages, "reason": reason})

    def _control_message(self, channel: Channel, now_s: float, *, is_retry: bool) -> Effect:
        if channel is self.channels.current:
            self.request_rekey(channel, now_s)
        return Send(channel.encode_message((), now_s, is_retry=is_retry), self.name, Cause.CONTROL)

    def request_rekey(self, channel: Channel, now_s: float) -> None:
        """Request the channel's next key when it is old enough.

        Only its initiator does.
        """
        age_s = now_s - channel.started_s
        if (self.context.suite.rekeys and channel.is_initiator and channel.is_open
                and channel.rekeying is None and age_s >= self.context.settings.rekey_after_s):
            channel.rekeying = self.context.suite.create_rekey(self.name)
            channel.schedule_message(now_s)

    def _give_up(self, now_s: float) -> list[Effect]:
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
        return Note("unreachable", {"host": self.name, "messages": lost})

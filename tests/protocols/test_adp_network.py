"""ADP's state machine against a network that loses, repeats, delays and hosts that crash."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from adp_hosts import MODERN, OLD, OWNERS, World
from protocols.adp.context import HostSettings
from protocols.adp.effects import DeliverMessage, EncryptionScope, Message

LIMITS = HostSettings(retry_s=1, give_up_s=20, rekey_after_s=15, bound_bytes=4000)
HOSTS = st.sampled_from(["alpha", "beta"])
OTHER = {"alpha": "beta", "beta": "alpha"}


class AdpNetwork(RuleBasedStateMachine):
    """What holds whatever happens: who, what and how often; and that nothing stays broken."""

    version: str
    choice: HostSettings

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.version, self.choice)
        self.sent: dict[bytes, Message] = {}
        self.checked = dict.fromkeys(OTHER, 0)
        self.number = 0
        self.captured: list = []

    @rule(sender=HOSTS, owner=st.integers(0, 1), urgent=st.booleans(), private=st.booleans(),
          delay_s=st.sampled_from([None, 0.0, 0.01, 5.0]), size=st.integers(0, 2000))
    def send(self, sender, owner, urgent, private, delay_s, size):
        """An owner sends a message that is unlike all others."""
        self.number += 1
        data = b"%d:" % self.number + bytes(size)
        receiver = OTHER[sender]
        message = Message(OWNERS[sender][owner], receiver, OWNERS[receiver][1], 7, data,
                          urgent=urgent, max_delay_s=delay_s, private=private)
        self.sent[data] = message
        self.world.send(sender, message)

    @rule(host=HOSTS, owner=st.integers(0, 1))
    def establish_ahead(self, host, owner):
        """A channel and an owner ahead of demand."""
        self.world.open(host, OTHER[host], OWNERS[host][owner])

    @precondition(lambda self: self.world.packets)
    @rule(data=st.data())
    def arrive(self, data):
        """Any datagram that is under way arrives: order is not kept."""
        index = data.draw(st.integers(0, len(self.world.packets) - 1))
        packet = self.world.packets.pop(index)
        self.captured = [*self.captured, packet][-50:]
        self.world.arrive(packet)

    @precondition(lambda self: self.world.packets)
    @rule()
    def arrive_all(self):
        """The network is well for a moment."""
        self.world.flush()

    @precondition(lambda self: self.world.packets)
    @rule(data=st.data())
    def lose(self, data):
        """A datagram is lost."""
        self.world.packets.pop(data.draw(st.integers(0, len(self.world.packets) - 1)))

    @precondition(lambda self: self.captured)
    @rule(data=st.data())
    def replay(self, data):
        """A datagram arrives again, however long after."""
        self.world.arrive(data.draw(st.sampled_from(self.captured)))

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.0, 3.0, 25.0]))
    def wait(self, seconds):
        """Time passes; what is due is done, and is under way."""
        self.world.wait(seconds, lossless=False)

    @rule(host=HOSTS)
    def crash(self, host):
        """A kernel session ends, and another begins."""
        self.world.boot(host)

    @invariant()
    def delivered_is_what_was_sent(self):
        """Each message at most once, unaltered, under its owner's name, to whom it was meant."""
        for name, start in self.checked.items():
            for delivery in self.world.delivered[name][start:]:
                message = self.sent.pop(delivery.data)  # a KeyError: twice, or never sent
                assert (delivery.source, delivery.source_host) == (message.source, OTHER[name])
                assert (delivery.destination, name) == (message.destination, message.host)
                # One that is not private may have been piggybacked onto one that is.
                assert delivery.private or not (message.private
                                                or self.choice.scope is EncryptionScope.ALL)
            self.checked[name] = len(self.world.delivered[name])

    def teardown(self):
        """Once the network is well, each end reaches the other within a few attempts."""
        world = self.world
        world.packets.clear()
        for sender, receiver in OTHER.items():
            for attempt in range(4):
                data = b"%s %d" % (sender.encode(), attempt)
                message = Message(OWNERS[sender][1], receiver, OWNERS[receiver][1], 7, data,
                                  urgent=True)
                self.sent[data] = message
                world.send(sender, message)
                world.wait(22)
                if data in world.texts(receiver):
                    break
            else:
                raise AssertionError(f"{sender} cannot reach {receiver} any more")
        self.delivered_is_what_was_sent()
        world.wait(100)
        assert world.deadline_s() is None, "they never rest"
        assert all(isinstance(entry, DeliverMessage) for name in OTHER for entry
                   in world.delivered[name])


@pytest.mark.parametrize(("version", "choice"), [
    (OLD, LIMITS),
    (OLD,
     HostSettings(retry_s=1, give_up_s=20, checksum=True, scope=EncryptionScope.ALL, queue=False)),
    (MODERN, LIMITS),
    (MODERN, HostSettings(retry_s=1, give_up_s=20, scope=EncryptionScope.ALL, timeout_s=2)),
], ids=["1987", "1987-checksum-all-unqueued", "modern", "modern-all-slow"])
def test_whatever_the_network_does(version, choice):
    """Loss, repetition, reordering, replays and crashes at either end or both."""
    machine = type("Machine", (AdpNetwork,), {"version": version, "choice": choice})
    from hypothesis.stateful import run_state_machine_as_test
    run_state_machine_as_test(machine, settings=settings(
        max_examples=40, stateful_step_count=40, deadline=None))

"""ADP's queue: urgency at once, nobody beyond a deadline, never over the bound, order kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adp_hosts import MODERN, OLD, World, message
from protocols.adp.channel import Batch, Outbox
from protocols.adp.context import HostSettings
from protocols.adp.effects import Message, ProgramEvent, SendCause, SendFrame
from protocols.adp.packets import MAX_BOUND, AdpError


def user(number: int, size: int, *, urgent: bool = False, delay_s: float | None = None) -> Message:
    """A message that can be told from others; its size is its data's."""
    return Message("x", "beta", "y", number, bytes(size), urgent=urgent, max_delay_s=delay_s)


def numbers(batches: list[Batch]) -> list[list[int]]:
    """What is shipped together."""
    return [[entry.port for entry in batch.messages] for batch in batches]


def outbox(bound_bytes: int = 1000, timeout_s: float = 0.04, *, enabled: bool = True) -> Outbox:
    """A queue."""
    return Outbox(bound_bytes, timeout_s, enabled=enabled)


def test_urgent_takes_all_along():
    """An urgent message goes at once, behind all that has waited."""
    queue = outbox()
    assert queue.add_message(user(1, 10), 0) == []
    assert queue.add_message(user(2, 10), 0.01) == []
    [batch] = queue.add_message(user(3, 10, urgent=True), 0.02)
    assert numbers([batch]) == [[1, 2, 3]]
    assert batch.cause is SendCause.URGENT
    assert queue.deadline_s() is None


def test_default_timeout_and_own_delay():
    """The default timeout counts from the first message; a shorter delay of one's own wins."""
    queue = outbox()
    queue.add_message(user(1, 10), 1.0)
    queue.add_message(user(2, 10), 1.02)
    assert queue.deadline_s() == pytest.approx(1.04)
    queue.add_message(user(3, 10, delay_s=0.005), 1.02)
    assert queue.deadline_s() == pytest.approx(1.025)
    assert queue.take_due(1.02) == []
    [batch] = queue.take_due(1.025)
    assert numbers([batch]) == [[1, 2, 3]]
    assert batch.cause is SendCause.TIMEOUT


def test_a_longer_delay_does_not_hold_others_up():
    """Own delays above the default are only about their own message."""
    queue = outbox()
    queue.add_message(user(1, 10, delay_s=10), 0)
    queue.add_message(user(2, 10), 0)
    assert queue.deadline_s() == pytest.approx(0.04)


def test_no_delay_at_all():
    """A maximum delay of zero does not wait, and is no urgent message either."""
    [batch] = outbox().add_message(user(1, 10, delay_s=0), 5)
    assert batch.cause is SendCause.TIMEOUT


@pytest.mark.parametrize(("last", "shipped"), [
    (400, []),  # 999 bytes wait
    (401, [[1, 2]]),  # fills the queue: as if urgent
    (402, [[1], [2]]),  # would overflow it: what waits goes ahead, both at once
])
def test_bound(last, shipped):
    """A message that fills the queue or would overflow it is treated as urgent."""
    queue = outbox()
    queue.add_message(user(1, 599), 0)
    batches = queue.add_message(user(2, last), 0)
    assert numbers(batches) == shipped
    assert all(batch.cause is SendCause.BOUND for batch in batches)


def test_three_pages_fit():
    """The default bound is three pages of 8 kB, the largest ADP message in Figure 7."""
    queue = Outbox(HostSettings.bound_bytes, 0.04, enabled=True)
    assert queue.add_message(user(1, 8192), 0) == queue.add_message(user(2, 8192), 0) == []
    assert numbers(queue.add_message(user(3, 8192), 0)) == [[1, 2, 3]]


def test_many_small_messages_fit_a_datagram():
    """Headers count, too: a queue of one-byte messages is shipped before it is no datagram."""
    queue = Outbox(MAX_BOUND, 10, enabled=True)
    batches = [batch for number in range(6000) for batch in queue.add_message(user(number, 1), 0)]
    assert batches
    assert all(len(batch.messages) * 11 <= 65_000 for batch in batches)


def test_without_queueing():
    """Q=OFF: every message by itself, at once."""
    queue = outbox(enabled=False)
    assert [numbers(queue.add_message(user(number, 10), 0)) for number in (1, 2)] == [[[1]], [[2]]]


MESSAGES = st.tuples(st.floats(0, 0.1), st.integers(0, 1000), st.booleans(),
                     st.sampled_from([None, 0.0, 0.003, 0.05, 0.2]))


@given(st.lists(MESSAGES, max_size=60), st.integers(1000, 4000))
def test_invariants(arrivals, bound_bytes):
    """Whatever comes: each once, in order, by its deadline, within the bound, urgent at once."""
    queue = outbox(bound_bytes)
    now_s, shipped, due_s = 0.0, [], {}

    def take(batches, at_s):
        for batch in batches:
            assert sum(len(entry.data) for entry in batch.messages) <= bound_bytes
            for entry in batch.messages:
                assert at_s <= due_s[entry.port]
                shipped.append(entry.port)

    for number, (pause_s, size, urgent, delay_s) in enumerate(arrivals):
        now_s += pause_s
        deadline_s = queue.deadline_s()
        if deadline_s is not None and deadline_s <= now_s:
            take(queue.take_due(deadline_s), deadline_s)
        wait_s = 0 if urgent else 0.04 if delay_s is None else delay_s
        due_s[number] = now_s + wait_s
        take(queue.add_message(user(number, size, urgent=urgent, delay_s=delay_s), now_s), now_s)
        assert queue.waiting_bytes < bound_bytes
        if urgent:
            assert shipped[-1] == number
    deadline_s = queue.deadline_s()
    if deadline_s is not None:
        take(queue.take_due(deadline_s), deadline_s)
    assert shipped == list(range(len(arrivals)))


@pytest.mark.parametrize("version", [OLD, MODERN])
@given(arrivals=st.lists(st.tuples(st.floats(0, 0.06), st.integers(0, 3000), st.booleans()),
                         max_size=25))
def test_no_message_stays_beyond_its_timeout_in_a_host(version, arrivals):
    """On an open channel every message is on the wire when its time is over, seen from outside."""
    world = World(version, HostSettings(timeout_s=0.04))
    world.open("alpha", "beta", "xena")
    world.wait(1)
    handed_s = []
    for pause_s, size, urgent in arrivals:
        world.wait(pause_s)
        handed_s.append(world.now_s)
        world.send("alpha", message(bytes(size), urgent=urgent))
    world.wait(1)
    sent_s = [shipped.at_s for shipped in world.shipped if shipped.host == "alpha"
              for _ in range(shipped.effect.messages)]
    assert len(sent_s) == len(handed_s)
    assert all(sent - handed <= 0.04 + 1e-9
               for handed, sent in zip(handed_s, sent_s, strict=True))


@pytest.mark.parametrize(("changes", "complaint"), [
    ({"timeout_s": -0.001}, "timeout_s: a time from 0 on is needed, not -0.001"),
    ({"timeout_s": float("nan")}, "timeout_s"),
    ({"bound_bytes": 0}, "bound_bytes: from 1 to 57344, not 0"),
    ({"bound_bytes": 57_345}, "bound_bytes: from 1 to 57344, not 57345"),
    ({"retry_s": 0}, "retry_s: a time above 0 is needed, not 0"),
    ({"give_up_s": float("inf")}, "give_up_s"),
    ({"window": 0}, "window: at least 1"),
])
def test_settings_that_cannot_work(changes, complaint):
    """Each is refused in one line."""
    with pytest.raises(AdpError, match=complaint):
        HostSettings(**changes)


@pytest.mark.parametrize("version", [OLD, MODERN])
def test_a_host_that_stops_keeps_nothing(version):
    """What waits goes although its time has not come."""
    world = World(version)
    world.send("alpha", message())
    world.wait(1)
    for _ in range(2):
        world.send("alpha", message(urgent=False))
    [sent] = world.hosts["alpha"].stop(world.now_s)
    assert isinstance(sent, SendFrame) and (sent.cause, sent.messages) == (SendCause.STOP, 2)
    assert not world.hosts["alpha"].stop(world.now_s)


def test_what_has_no_channel_when_its_host_stops_is_told():
    """Modern messages wait for the acknowledgement, which has not come."""
    world = World(MODERN)
    world.send("alpha", message(urgent=True))
    world.send("alpha", message(urgent=False))
    [dropped] = world.hosts["alpha"].stop(world.now_s)
    assert isinstance(dropped, ProgramEvent) and dropped.event == "dropped"
    assert dropped.fields["messages"] == 2

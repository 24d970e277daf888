"""ADP's channels, owners and operations, on hosts without sockets: the paper's section 3."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocols.adp import packets
from protocols.adp.context import Settings
from protocols.adp.crypto import Operation
from protocols.adp.effects import Cause, Message, Scope
from protocols.adp.errors import AdpError
from protocols.adp.packets import Flag
from tests.adp_hosts import KEYS, MODERN, OLD, World, message, reply

BOTH = pytest.mark.parametrize("version", [OLD, MODERN])
SETTINGS = [Settings(scope=scope, checksum=checksum)
            for scope in Scope for checksum in (False, True)]


@BOTH
def test_first_message_arrives_once_its_owner_has_signed(version):
    """A message, its channel and its owner's signature: delivered with the owner's name."""
    world = World(version)
    world.send("alpha", message())
    world.flush()
    [delivery] = world.delivered["beta"]
    assert (delivery.source, delivery.source_host, delivery.destination) == ("xena", "alpha",
                                                                             "yuri")
    assert (delivery.port, delivery.data) == (7, b"hello")


def test_request_rides_until_acknowledged_and_r_until_signed():
    """1987: REQ is in every ADP message while the channel is tentative, R until a signature."""
    world = World(OLD)
    for _ in range(3):
        world.send("alpha", message())
    requests = list(world.packets)
    assert all(packets.parse(packet.payload).flags & Flag.REQUEST for packet in requests)
    assert len({packets.parse(packet.payload).request for packet in requests}) == 1
    world.packets.clear()
    world.arrive(requests[0])
    world.send("beta", reply())
    acknowledgements = [packets.parse(packet.payload) for packet in world.packets]
    assert len(acknowledgements) == 2
    assert len({frame.acknowledgement for frame in acknowledgements}) == 1
    assert all(len(frame.acknowledgement) == 16 for frame in acknowledgements)
    world.flush()
    assert not packets.parse(world.shipped[-1].effect.payload).flags & Flag.REQUEST
    world.send("beta", reply())
    assert not packets.parse(world.shipped[-1].effect.payload).flags & Flag.ACKNOWLEDGE


def test_messages_ride_on_the_request():
    """1987: what was shipped before the acknowledgement is delivered, in order, with it."""
    world = World(OLD)
    for number in range(5):
        world.send("alpha", message(b"%d" % number))
    assert [shipped.effect.messages for shipped in world.shipped] == [1] * 5
    world.flush()
    assert world.texts("beta") == [b"%d" % number for number in range(5)]


@BOTH
@pytest.mark.parametrize("owners", [("xena",), ("alice", "xena")])
def test_public_key_operations(version, owners):
    """Two an owner a remote host, however many messages; 1987: two more, the modern 8, a channel.

    The modern handshake itself authenticates both kernel owners, who need nothing further.
    """
    world = World(version)
    for number in range(20):
        for owner in owners:
            world.send("alpha", message(b"%d" % number, source=owner, urgent=number % 3 == 0))
        world.flush()
        world.send("beta", reply(b"%d" % number, urgent=number % 4 == 0))
        world.wait(0.1)
    if version == OLD:
        senders = len({*owners, "yuri"})
        assert world.public_key_operations() == 2 + 2 * senders
        assert world.operations["alpha"][Operation.RSA_PUBLIC] == 1 + 1  # the request; yuri's
    else:
        senders = len({*owners, "yuri"} - {"alice", "bob"})
        # Two ephemeral keys, two exchanges, both kernel owners' signatures, each checked.
        assert world.public_key_operations() == 8 + 2 * senders
    assert len(world.texts("beta")) == 20 * len(owners)
    assert len(world.texts("alpha")) == 20


@BOTH
@settings(max_examples=25, deadline=None)
@given(fates=st.lists(st.sampled_from(["arrive", "lose", "twice", "later"]), max_size=40),
       seed=st.integers(0, 3))
def test_public_key_operations_do_not_depend_on_the_network(version, fates, seed):
    """Loss, duplication and reordering repeat bytes, never public-key operations."""
    world = World(version, Settings(give_up_s=1e6), seed=seed)
    world.send("alpha", message(b"first"))
    for number, fate in enumerate(fates):
        if not world.packets:
            world.wait(0.5, lossless=False)
            world.send("alpha", message(b"%d" % number, urgent=number % 2 == 0))
            continue
        packet = world.packets.pop(0)
        if fate != "lose":
            world.arrive(packet)
        if fate in {"twice", "later"}:
            world.packets.append(packet)
    world.wait(40)
    assert world.public_key_operations() == (2 + 2 if version == OLD else 8 + 2)


@BOTH
def test_ahead_of_demand(version):
    """Channels and owners at boot: the first message costs no public-key operation."""
    world = World(version)
    world.open("alpha", "beta", "xena")
    world.open("beta", "alpha", "yuri")
    world.wait(5)
    before = world.public_key_operations()
    world.send("alpha", message())
    world.send("beta", reply())
    world.flush()
    assert world.public_key_operations() == before
    assert world.texts("beta") == [b"hello"]
    assert world.texts("alpha") == [b"hello back"]


@BOTH
def test_both_ends_at_once(version):
    """The greater name's key counts at both ends, and nothing that rode on the other is lost."""
    world = World(version)
    for number in range(3):
        world.send("alpha", message(b"a%d" % number))
        world.send("beta", reply(b"b%d" % number))
    world.wait(1)
    assert world.texts("beta") == [b"a0", b"a1", b"a2"]
    assert world.texts("alpha") == [b"b0", b"b1", b"b2"]
    channels = {(name, note.fields["channel"], note.fields["initiator"])
                for name, note in world.notes if note.event == "opened"}
    assert len({channel for _, channel, _ in channels}) == 1
    assert {name for name, _, initiator in channels if initiator} == {"beta"}


def test_both_ends_at_once_costs_one_operation_more():
    """1987: the request that loses has been encrypted; nobody decrypts it."""
    world = World(OLD)
    world.send("alpha", message())
    world.send("beta", reply())
    world.wait(1)
    assert world.operations["alpha"][Operation.RSA_PUBLIC] == 2  # its request, yuri's signature
    assert world.public_key_operations() == 2 + 2 * 2 + 1


@BOTH
@pytest.mark.parametrize("choice", SETTINGS, ids=str)
def test_scopes_and_trailers(version, choice):
    """Every scope and trailer carries data of any length; the modern refuses to protect nothing."""
    if version == MODERN and choice.scope is Scope.NONE:
        with pytest.raises(AdpError, match="always authenticates"):
            World(version, choice)
        return
    world = World(version, choice)
    for size in (0, 1, 7, 8, 9, 5000):
        world.send("alpha", message(bytes(size)))
    world.flush()
    assert [len(text) for text in world.texts("beta")] == [0, 1, 7, 8, 9, 5000]


@BOTH
def test_privacy_is_chosen_by_message(version):
    """A private message is nowhere in what is sent; another one is, and its receiver can tell."""
    world = World(version)
    secret, plain = b"nobody may read this", b"anybody may read this"
    world.send("alpha", message(secret, private=True))
    world.send("alpha", message(plain))
    world.flush()
    wire = b"".join(shipped.effect.payload for shipped in world.shipped)
    assert plain in wire
    assert secret not in wire
    assert [delivery.private for delivery in world.delivered["beta"]] == [True, False]


@BOTH
def test_full_encryption_leaves_no_piece(version):
    """Scope `all`: no 8 bytes of any message are in what is sent, the first included."""
    world = World(version, Settings(scope=Scope.ALL))
    text = bytes(range(256))
    for _ in range(3):
        world.send("alpha", message(text))
        world.flush()
    assert world.texts("beta") == [text] * 3
    wire = b"".join(shipped.effect.payload for shipped in world.shipped)
    assert not any(text[start:start + 8] in wire for start in range(len(text) - 7))


@BOTH
def test_piggybacking(version):
    """What waits goes with the next urgent message, in one ADP message, in order."""
    world = World(version)
    world.open("alpha", "beta", "xena")
    world.wait(1)
    world.shipped.clear()
    for number in range(4):
        world.send("alpha", message(b"%d" % number, urgent=number == 3))
    [shipped] = world.shipped
    assert (shipped.effect.cause, shipped.effect.messages) == (Cause.URGENT, 4)
    world.flush()
    assert world.texts("beta") == [b"0", b"1", b"2", b"3"]


@BOTH
def test_restart_of_the_receiver(version):
    """A crash takes the channels with it; the sender finds out and establishes another."""
    world = World(version)
    world.send("alpha", message(b"before"))
    world.wait(1)
    world.boot("beta")
    world.send("alpha", message(b"lost"))
    world.wait(1)
    world.send("alpha", message(b"after"))
    world.wait(1)
    assert world.texts("beta") == [b"before", b"after"]


@BOTH
def test_restart_of_the_sender(version):
    """A new session asks anew, and the other end uses the new channel in its own direction."""
    world = World(version)
    world.send("alpha", message(b"before"))
    world.wait(1)
    world.boot("alpha")
    world.send("alpha", message(b"after"))
    world.wait(1)
    world.send("beta", reply())
    world.wait(1)
    assert world.texts("beta") == [b"before", b"after"]
    assert world.texts("alpha") == [b"hello back"]


@BOTH
def test_unreachable(version):
    """Requests are repeated, ever more rarely, and given up with the number of lost messages."""
    world = World(version, Settings(give_up_s=20))
    world.send("alpha", message())
    world.wait(60, lossless=False)
    times = [shipped.at_s for shipped in world.shipped]
    assert times[0] == 0
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(gaps) >= 3
    assert gaps == sorted(gaps)
    assert max(times) <= 20
    [note] = world.events("alpha", "unreachable")
    assert note.fields["messages"] == 1
    assert world.deadline_s() is None


def test_rekeying_keeps_owners():
    """After its time a channel in use gets another key, without any signature."""
    world = World(MODERN, Settings(rekey_after_s=120))
    for minute in range(8):
        world.send("alpha", message(b"%d" % minute))
        world.flush()
        world.send("beta", reply(b"%d" % minute))
        world.wait(60)
    assert world.texts("beta") == world.texts("alpha") == [b"%d" % minute for minute in range(8)]
    rekeyed = world.events("alpha", "rekeyed")
    assert 2 <= len(rekeyed) <= 3
    signatures = sum(world.operations[name][Operation.ED25519_SIGN] for name in world.names)
    assert signatures == 2 + 2
    channels = {packets.parse(shipped.effect.payload).channel for shipped in world.shipped}
    assert len(channels) == 1 + len(rekeyed)


def test_rekeying_under_loss():
    """A next key that is lost on its way is asked for again; messages go on meanwhile."""
    world = World(MODERN, Settings(rekey_after_s=10))
    world.send("alpha", message(b"0"))
    world.wait(20)
    world.send("alpha", message(b"1"))
    world.packets.pop()  # with the request
    world.wait(0.5)
    world.send("alpha", message(b"2"))
    world.wait(5)
    assert world.texts("beta") == [b"0", b"2"]
    assert len(world.events("alpha", "rekeyed")) == len(world.events("beta", "rekeyed")) == 1
    assert not world.events("beta", "doubted")


def test_1987_never_rekeys():
    """A channel of 1987 has one key for its whole life."""
    world = World(OLD, Settings(rekey_after_s=1))
    for number in range(5):
        world.send("alpha", message(b"%d" % number))
        world.wait(10)
    assert len({packets.parse(shipped.effect.payload).channel for shipped in world.shipped}) == 1


@BOTH
def test_many_owners(version):
    """More signatures than fit one message ride on the next ones."""
    world = World(version)
    names = [f"owner{number:03}" + "x" * 200 for number in range(60)]
    keys = dict.fromkeys(names, KEYS[version]["xena"])
    world.directory.keys.update(dict.fromkeys(names, world.directory.keys["xena"]))
    world.boot("alpha", {**keys, "alice": KEYS[version]["alice"]})
    for name in keys:
        world.send("alpha", message(name.encode(), source=name, urgent=False))
    world.wait(120)
    assert world.texts("beta") == [name.encode() for name in keys]
    assert all(len(shipped.effect.payload) < 65_515 for shipped in world.shipped)


@BOTH
def test_largest_datagram(version):
    """The largest bound and the longest names still fit an IP datagram."""
    world = World(version, Settings(bound_bytes=packets.MAX_BOUND, scope=Scope.ALL))
    world.send("alpha", message(bytes(packets.MAX_BOUND)))
    for _ in range(3000):
        world.send("alpha", message(b"x" * 20, urgent=False))
    world.wait(5)
    assert max(len(shipped.effect.payload) for shipped in world.shipped) <= 65_515
    assert len(world.texts("beta")) == 3001


@pytest.mark.parametrize(("changes", "complaint"), [
    ({"host": "gamma"}, "no host gamma"),
    ({"host": "alpha"}, "no host alpha"),
    ({"source": "bob"}, "bob: no private key here"),
    ({"data": bytes(24_577)}, "more than the queue's bound of 24576"),
    ({"max_delay_s": -0.1}, "a maximum delay from 0 on is needed, not -0.1"),
    ({"max_delay_s": float("nan")}, "maximum delay"),
    ({"port": 65536}, "no port: 65536"),
    ({"destination": ""}, "a name of 1 to 255 bytes"),
    ({"destination": "\ud800"}, "a name that is no text"),
])
def test_messages_that_can_never_be_sent(changes, complaint):
    """Each is refused in one line, and nothing is sent."""
    world = World(MODERN)
    values = {"source": "xena", "host": "beta", "destination": "yuri", "port": 7, "data": b"x"}
    with pytest.raises(AdpError, match=complaint) as caught:
        world.send("alpha", Message(**{**values, **changes}))
    assert "\n" not in str(caught.value)
    assert not world.packets


@BOTH
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sends=st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([0.0, 0.01, None]),
                                st.integers(0, 3000), st.floats(0, 0.05)), max_size=30),
       bound=st.integers(3000, 9000))
def test_order_is_kept_and_nothing_is_lost(version, sends, bound):
    """On a network that keeps order, every message arrives once, in its sender's order."""
    world = World(version, Settings(bound_bytes=bound))
    sent: dict[str, list[bytes]] = {"alpha": [], "beta": []}
    for number, (from_alpha, urgent, delay_s, size, pause_s) in enumerate(sends):
        text = b"%d:" % number + bytes(max(0, size - 6))
        sender, receiver = ("alpha", "beta") if from_alpha else ("beta", "alpha")
        make = message if from_alpha else reply
        world.send(sender, make(text, urgent=urgent, max_delay_s=delay_s))
        sent[receiver].append(text)
        # Datagrams take their time: both ends may ask at once.
        world.wait(pause_s, lossless=number % 3 == 2)
    world.wait(5)
    assert {name: world.texts(name) for name in sent} == sent

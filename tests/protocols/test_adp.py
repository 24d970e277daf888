"""ADP's channels, owners and operations, on hosts without sockets: the paper's section 3."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adp_hosts import KEYS, MODERN, OLD, World, message, reply
from protocols.adp import packets
from protocols.adp.context import HostSettings
from protocols.adp.crypto import Crypto, Operation, RsaPrivateKey
from protocols.adp.effects import EncryptionScope, Message, SendCause
from protocols.adp.packets import AdpError, HeaderFlag

BOTH = pytest.mark.parametrize("version", [OLD, MODERN])
SETTINGS = [HostSettings(scope=scope, checksum=checksum)
            for scope in EncryptionScope for checksum in (False, True)]


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
    assert all(packets.parse_frame(packet.payload).flags & HeaderFlag.REQUEST for packet
               in requests)
    assert len({packets.parse_frame(packet.payload).request for packet in requests}) == 1
    world.packets.clear()
    world.arrive(requests[0])
    world.send("beta", reply())
    acknowledgements = [packets.parse_frame(packet.payload) for packet in world.packets]
    assert len(acknowledgements) == 2
    assert len({frame.acknowledgement for frame in acknowledgements}) == 1
    assert all(len(frame.acknowledgement) == 16 for frame in acknowledgements)
    world.flush()
    assert not packets.parse_frame(world.shipped[-1].effect.payload).flags & HeaderFlag.REQUEST
    world.send("beta", reply())
    assert not packets.parse_frame(world.shipped[-1].effect.payload).flags & HeaderFlag.ACKNOWLEDGE


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
    world = World(version, HostSettings(give_up_s=1e6), seed=seed)
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
    if version == MODERN and choice.scope is EncryptionScope.NONE:
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
    world = World(version, HostSettings(scope=EncryptionScope.ALL))
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
    assert (shipped.effect.cause, shipped.effect.messages) == (SendCause.URGENT, 4)
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
def test_a_session_takes_its_messages_with_it(version):
    """What a crashed session had sent does not arrive once the next one has been established."""
    world = World(version)
    world.send("alpha", message(b"before"))
    world.wait(1)
    world.send("alpha", message(b"late"))
    late = world.packets.pop()
    world.boot("alpha")
    world.send("alpha", message(b"after"))
    world.wait(1)
    world.arrive(late)
    assert world.texts("beta") == [b"before", b"after"]


@BOTH
def test_unreachable(version):
    """Requests are repeated, ever more rarely, and given up with the number of lost messages."""
    world = World(version, HostSettings(give_up_s=20))
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
    world = World(MODERN, HostSettings(rekey_after_s=120))
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
    channels = {packets.parse_frame(shipped.effect.payload).channel for shipped in world.shipped}
    assert len(channels) == 1 + len(rekeyed)


def test_rekeying_under_loss():
    """A next key that is lost on its way is asked for again; messages go on meanwhile."""
    world = World(MODERN, HostSettings(rekey_after_s=10))
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


def test_rekeying_and_reordering():
    """What was under way on the last key when both ends changed still arrives."""
    world = World(MODERN, HostSettings(rekey_after_s=10))
    world.send("alpha", message(b"0"))
    world.wait(20)
    world.send("alpha", message(b"1"))  # with the request for the next key
    world.send("alpha", message(b"2"))
    late = world.packets.pop()
    world.wait(1)
    assert world.events("beta", "rekeyed")
    world.arrive(late)
    world.flush()
    assert world.texts("beta") == [b"0", b"1", b"2"]
    assert not world.events("alpha", "doubted")


def test_1987_never_rekeys():
    """A channel of 1987 has one key for its whole life."""
    world = World(OLD, HostSettings(rekey_after_s=1))
    for number in range(5):
        world.send("alpha", message(b"%d" % number))
        world.wait(10)
    assert len({packets.parse_frame(shipped.effect.payload).channel for shipped
                in world.shipped}) == 1


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
    world = World(version, HostSettings(bound_bytes=packets.MAX_BOUND, scope=EncryptionScope.ALL))
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
    ({"destination": "\ud800"}, "a name that is not text"),
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
@settings(max_examples=25, deadline=None)
@given(sends=st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([0.0, 0.01, None]),
                                st.integers(0, 3000), st.floats(0, 0.05)), max_size=30),
       bound=st.integers(3000, 9000))
def test_order_is_kept_and_nothing_is_lost(version, sends, bound):
    """On a network that keeps order, every message arrives once, in its sender's order."""
    world = World(version, HostSettings(bound_bytes=bound))
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


def test_des_and_rsa_vectors():
    """DES by its best-known worked example, and textbook RSA by hand: n = 61 * 53, e = 17."""
    crypto = Crypto(lambda _kind, _size: None)
    key, plain = bytes.fromhex("133457799BBCDFF1"), bytes.fromhex("0123456789ABCDEF")
    assert crypto.des_encrypt(key, plain).hex() == "85e813540f0ab405"
    assert crypto.des_decrypt(key, bytes.fromhex("85e813540f0ab405")) == plain
    private = RsaPrivateKey(61, 53, 17)
    assert crypto.rsa_public(private.public, b"\0A") == (2790).to_bytes(2)
    assert crypto.rsa_private(private, (2790).to_bytes(2)) == b"\0A"


@pytest.mark.parametrize(("version", "choice", "operation", "charged"), [
    (OLD, HostSettings(), Operation.DES, 16),
    (OLD, HostSettings(scope=EncryptionScope.NONE), Operation.DES, 0),
    # 2 + 2 counts and headers' bytes with 1000 of data: padded to whole blocks, and the trailer.
    (OLD, HostSettings(scope=EncryptionScope.ALL), Operation.DES, 1016 + 16),
    (OLD, HostSettings(checksum=True), Operation.DES_MAC, 8 + 20 + 1015 + 8 + 5),
    (MODERN, HostSettings(), Operation.CHACHA20_POLY1305, 20 + 1015),
    (MODERN, HostSettings(scope=EncryptionScope.ALL), Operation.CHACHA20_POLY1305, 20 + 1015),
])
def test_what_a_device_is_charged(version, choice, operation, charged):
    """Each end of one ADP message: the trailer alone, or all of it, whatever the data are."""
    sizes = {"alpha": Counter(), "beta": Counter()}
    world = World(version, choice)
    world.open("alpha", "beta", "xena")
    world.wait(5)
    for name, host in world.hosts.items():
        host._context.crypto.charge = (
            lambda kind, size, name=name: sizes[name].update({kind: size}))
    world.send("alpha", message(bytes(1000)))
    [packet] = world.packets
    world.arrive(packet)
    for name in sizes:
        assert sizes[name][operation] == charged
        assert sizes[name][Operation.USER_MESSAGE] == 1000
        assert sizes[name][Operation.ADP_MESSAGE] == len(packet.payload)


@BOTH
def test_same_randomness_same_bytes(version):
    """Nothing but what is passed in decides what is sent, or when: a run can be repeated."""
    def run() -> list:
        world = World(version, seed=7)
        for number in range(5):
            world.send("alpha", message(b"%d" % number, urgent=number % 2 == 0))
            world.send("beta", reply(b"%d" % number))
            world.wait(0.02)
        world.wait(50)
        return [(shipped.at_s, shipped.host, shipped.effect) for shipped in world.shipped]
    assert run() == run()


def test_what_waits_for_a_signature_is_bounded():
    """1987: more user data than `hold_bytes` is not held, and is not held for ever."""
    world = World(OLD, HostSettings(hold_bytes=1000, give_up_s=10))
    for _ in range(5):
        world.send("alpha", message(bytes(300)))
    for packet in [*world.packets]:
        world.arrive(packet)
    reasons = [note.fields["reason"] for note in world.events("beta", "dropped")]
    assert reasons == ["too much waits for signatures"] * 2
    world.packets.clear()
    world.hosts["alpha"] = World(OLD, seed=9).hosts["alpha"]  # it crashes, and never signs
    world.wait(11)
    assert world.events("beta", "dropped")[-1].fields == {
        "host": "alpha", "messages": 3, "reason": "their sender has not signed"}
    assert not world.delivered["beta"]


def test_what_waits_for_a_channel_is_bounded():
    """Modern: more user data than `hold_bytes` is dropped, and said to be."""
    world = World(MODERN, HostSettings(hold_bytes=1000))
    for number in range(5):
        world.send("alpha", message(b"%d" % number + bytes(299)))
    assert len(world.events("alpha", "dropped")) == 2
    world.wait(1)
    assert [text[:1] for text in world.texts("beta")] == [b"0", b"1", b"2"]


@BOTH
def test_a_host_knows_when_an_owner_is_known_at_the_other_end(version):
    """Not when the channel has been asked for, but when the signature has been confirmed."""
    world = World(version)
    world.open("alpha", "beta", "xena")
    assert not world.hosts["alpha"].is_established("beta", ["xena"])
    world.wait(2)
    assert world.hosts["alpha"].is_established("beta", ["xena"])
    assert not world.hosts["beta"].is_established("alpha", ["yuri"])

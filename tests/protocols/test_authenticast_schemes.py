"""Authenticast's schemes over bad networks: nothing wrong passes, and every packet is accounted."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from authenticast_ends import DATA, ED, MS, START_NS, Ends, adds_up, key, passes, wish
from protocols.authenticast.crypto import Crypto
from protocols.authenticast.effects import PacketFate
from protocols.authenticast.packets import KeyDisclosure, StreamPacket, parse_bundle, parse_data
from protocols.authenticast.receiver import ArrivalRegister
from protocols.authenticast.schemes import tesla, tree
from protocols.authenticast.schemes.base import PacketSigner, PacketVerifier
from protocols.authenticast.schemes.delayed import DelayedOpener, DelayedSealer
from protocols.authenticast.schemes.tesla import TeslaOpener, TeslaParameters, TeslaSealer
from protocols.authenticast.settings import Algorithm, Scheme
from protocols.authenticast.wire import MessageKind

SESSION = b"s" * 32
EVERY = [wish(Scheme.PERCENTAGE), wish(Scheme.PERCENTAGE, level=0.3), wish(Scheme.DELAYED,
         bundle=4), wish(Scheme.TREE, bundle=8), wish(Scheme.SECRET_KEY, Algorithm.HMAC),
         wish(Scheme.TESLA, Algorithm.HMAC)]


def bad_wire(loss: float, late: float, twice: float):
    """A wire that loses, reorders and repeats datagrams."""
    def wire(datagram: bytes, rng: random.Random):
        copies = [] if rng.random() < loss else [datagram]
        copies += copies if rng.random() < twice else []
        return [(MS + (rng.randrange(60 * MS) if rng.random() < late else 0), copy)
                for copy in copies]
    return wire


@settings(max_examples=40, deadline=None)
@given(wished=st.sampled_from(EVERY), seed=st.integers(0, 2 ** 32), loss=st.floats(0, 0.4),
       late=st.floats(0, 0.5), twice=st.floats(0, 0.5))
@example(wished=EVERY[4], seed=979, loss=0.3125, late=0.125, twice=0.4375)
def test_bad_networks(wished, seed, loss, late, twice):
    """Loss, reordering and repetition: what is delivered was sent, once, and the account adds up.

    The control plane suffers, too; the stream comes about all the same. Where the signs of life
    of an idle server are lost for so long that a new stream takes the place of the first, the
    numbers start again, and both have their account.
    """
    wire = bad_wire(loss, late, twice)
    ends = Ends(wished, seed=seed, wire=wire)
    ends.wire["down"] = ends.wire["up"] = wire
    ends.start().run(8000 * MS)
    ends.stream(60)
    account = ends.finish()
    accounts = [*ends.events("replaced"), account]
    assert all(adds_up(account) for account in accounts)
    numbers = {(delivered.stream, delivered.sequence) for delivered in ends.delivered}
    assert len(ends.delivered) == len(numbers) == sum(each["processed"] for each in accounts)
    before = itertools.accumulate((left["sent"] for left in ends.events("left")), initial=0)
    first = dict(zip([stream["stream"] for stream in ends.events("stream")], before, strict=False))
    for delivered in ends.delivered:
        number = first[delivered.stream] + delivered.sequence
        assert delivered.payload == number.to_bytes(4, "big") * 25
        assert delivered.verified or wished.setting.level < 1
    assert account["lost"]["failed"] == account["lost"]["bundle_failed"] == 0
    assert account["lost"]["buffer"] == 0


@pytest.mark.parametrize("wished", EVERY, ids=lambda wished: wished.setting.scheme.name)
def test_good_networks(wished):
    """Without losses every packet is processed, in order."""
    ends = Ends(wished).start()
    ends.stream(200)
    account = ends.finish()
    assert account["sent"] == account["processed"] == 200
    assert not any(account["lost"].values())
    assert [delivered.sequence for delivered in ends.delivered] == list(range(200))


@pytest.mark.parametrize("scheme", [Scheme.DELAYED, Scheme.TREE])
def test_what_a_loss_costs(scheme):
    """One packet lost of four: 1998's bundle is discounted, a tree's other packets are verified."""
    def loses_6(datagram, rng):
        lost = datagram[0] & 15 == MessageKind.DATA and parse_data(datagram).sequence == 6
        return [] if lost else passes(datagram, rng)
    ends = Ends(wish(scheme, bundle=4), wire=loses_6).start()
    ends.stream(200)
    account = ends.finish()
    assert account["lost"]["air"] == 1
    assert account["lost"]["bundle_incomplete"] == (3 if scheme is Scheme.DELAYED else 0)
    assert account["processed"] == 199 - account["lost"]["bundle_incomplete"]
    assert adds_up(account)


@pytest.mark.parametrize("bundle", [1, 3, 16])
def test_one_signature_a_tree(bundle):
    """Trees cost server and receiver one signature each, whatever is lost of them."""
    ends = Ends(wish(Scheme.TREE, bundle=bundle), wire=bad_wire(0.3, 0, 0)).start()
    before = ends.client._crypto.verified
    trees = -(-48 // bundle)
    ends.stream(48)
    ends.finish()
    arrived = {delivered.sequence // bundle for delivered in ends.delivered}
    assert ends.client._crypto.verified - before == len(arrived) <= trees
    signatures = {parse_data(datagram).authenticator[2:66] for datagram in ends.data()}
    assert len(signatures) == trees


def test_a_trees_wait_is_bounded():
    """A tree that does not fill leaves when its first packet has waited long enough."""
    ends = Ends(wish(Scheme.TREE, bundle=100), hold_ns=50 * MS).start()
    ends.stream(1)
    assert not ends.delivered
    ends.run(60 * MS)
    assert [delivered.verified for delivered in ends.delivered] == [True]


@settings(deadline=None)
@given(st.integers(1, 40), st.data())
def test_trees(size, choices):
    """Every leaf's path leads to the root; no other leaf's, length or place does."""
    operations = Crypto()
    leaves = [bytes([n]) * 32 for n in range(size)]
    levels = tree.build_tree(operations, leaves)
    root = levels[-1][0]
    position = choices.draw(st.integers(0, size - 1))
    partners = tree.authentication_path(levels, position)
    assert tree.compute_root(operations, leaves[position], (position, size), partners) == root
    assert tree.compute_root(operations, b"x" * 32, (position, size), partners) != root
    assert tree.compute_root(operations, leaves[position], (position, size), partners
                             + b"x") is None
    if partners:
        assert tree.compute_root(operations, leaves[position], (position, size),
                                 partners[:-1]) is None
        assert tree.compute_root(operations, leaves[position], ((position + 1) % size, size),
                                 partners) != root


def sealed(sealer, numbers, scheme=Scheme.DELAYED, algorithm=ED) -> list[bytes]:
    """Datagrams of packets with these numbers."""
    return [datagram for n in numbers for datagram in sealer.seal_packet(
        StreamPacket(scheme, algorithm, 0, 1, n, START_NS, n, 0, 0, 1, b"p%d" % n), START_NS)]


def test_one_operation_a_bundle():
    """A bundle's receiver verifies once and hashes each packet; the sender signs n + 1 times."""
    counted = []
    operations = Crypto(lambda kind, _: counted.append(kind))
    sealer = DelayedSealer(PacketSigner(operations, key("server"), SESSION), 5)
    datagrams = sealed(sealer, range(5))
    assert counted.count("ed25519-256-sign") == 6
    opener = DelayedOpener(PacketVerifier(operations, {ED: key("server").public}, SESSION))
    verdicts = [verdict for datagram in datagrams[:5]
                for verdict in opener.open_packet(parse_data(datagram), START_NS)]
    assert verdicts == []
    assert opener.waiting == 5
    counted.clear()
    verdicts = opener.add_signature(parse_bundle(datagrams[5]), START_NS)
    assert [fate for _, fate in verdicts] == [PacketFate.VERIFIED] * 5
    assert counted.count("ed25519-256-verify") == 1


def tesla_pair(delay=2, ahead_ns=0):
    """A sealer and an opener of a chain with intervals of 100 ms; keys[i] is K(i)."""
    operations = Crypto()
    keys = tesla.make_key_chain(operations, b"k" * 32, 50)
    parameters = TeslaParameters(START_NS, 100 * MS, 50, delay, keys[0])
    return (TeslaSealer(operations, SESSION, parameters, keys),
            TeslaOpener(operations, SESSION, parameters, ahead_ns, START_NS), keys)


def tesla_packet(sealer, number, at_ns) -> StreamPacket:
    """A packet sealed at a time."""
    datagram, = sealer.seal_packet(StreamPacket(Scheme.TESLA, Algorithm.HMAC, 0, 1, number, at_ns,
                                                0, 0, 0,
                                                1,
                                b"payload"), at_ns)
    return parse_data(datagram)


@settings(deadline=None)
@given(sent=st.integers(0, 2000), delay=st.integers(0, 1000), ahead=st.integers(0, 300))
def test_tesla_is_safe_whatever_the_delay(sent, delay, ahead):
    """No packet is taken that could have been forged: its key was not out when it arrived.

    The receiver believes the server's clock to be up to `ahead` ms further than it is.
    """
    sealer, opener, _ = tesla_pair(delay=2, ahead_ns=ahead * MS)
    sent_ns, arrived_ns = START_NS + sent * MS, START_NS + (sent + delay) * MS
    packet = tesla_packet(sealer, 0, sent_ns)
    verdicts = opener.open_packet(packet, arrived_ns)
    disclosed_ns = START_NS + (sent // 100 + 2) * 100 * MS
    if arrived_ns >= disclosed_ns:
        assert verdicts == [(packet, PacketFate.LATE)]
    if not verdicts:
        assert arrived_ns < disclosed_ns
        assert opener.waiting == 1
    elif ahead == 0 and arrived_ns < disclosed_ns - MS:
        pytest.fail("refused though it was safe")


def test_tesla_keys_are_never_early():
    """Packets and disclosures carry keys only of intervals that are over by the delay."""
    ends = Ends(wish(Scheme.TESLA, Algorithm.HMAC)).start()
    seen = []
    original = ends.send

    def record(effect):
        if effect.to == DATA:
            seen.append((ends.now_ns, effect.payload))
        original(effect)
    ends.send = record
    ends.stream(100)
    ends.finish()
    change, = ends.events("changed")
    opener = ends.client.receiver._epochs[change["epoch"]].openers[Scheme.TESLA]
    parameters = opener._parameters
    kinds = {MessageKind.DATA: 0, MessageKind.DISCLOSE: 0}
    for at_ns, datagram in seen:
        kind = MessageKind(datagram[0] & 15)
        kinds[kind] += 1
        if kind is MessageKind.DISCLOSE:
            interval = int.from_bytes(datagram[9:13], "big")
        else:
            packet = parse_data(datagram)
            interval = int.from_bytes(packet.authenticator[:4], "big") - parameters.delay
        assert interval < 1 or parameters.disclosed_ns(interval) <= at_ns
    assert all(kinds.values())


def test_tesla_refuses_what_is_forged_with_a_disclosed_key():
    """Whoever has learnt a key can make MACs with it, but nobody takes them any more."""
    sealer, opener, keys = tesla_pair()
    real = tesla_packet(sealer, 0, START_NS)
    assert opener.open_packet(real, START_NS + MS) == []
    late_ns = START_NS + 250 * MS
    forger = TeslaSealer(Crypto(), SESSION, opener._parameters, keys)
    forged = tesla_packet(forger, 1, START_NS)
    verdicts = opener.open_packet(forged, late_ns)
    assert (forged, PacketFate.LATE) in verdicts
    verdicts = opener.process_disclosure(KeyDisclosure(1, 0, 1, keys[1]), late_ns)
    assert verdicts == [(real, PacketFate.VERIFIED)]


def test_tesla_refuses_wrong_keys_and_contents():
    """A key that is not of the chain teaches nothing; a changed packet fails when its key comes."""
    sealer, opener, keys = tesla_pair()
    packet = tesla_packet(sealer, 0, START_NS)
    changed = replace(tesla_packet(sealer, 1, START_NS), payload=b"another")
    assert opener.open_packet(packet, START_NS) == opener.open_packet(changed, START_NS) == []
    assert opener.process_disclosure(KeyDisclosure(1, 0, 1, b"x" * 32), START_NS + 300 * MS) == []
    assert opener.process_disclosure(KeyDisclosure(1, 0, 40, keys[40]), START_NS + 300 * MS) == []
    assert opener.process_disclosure(KeyDisclosure(1, 0, 2, keys[2]), START_NS + 300 * MS) == [
        (packet, PacketFate.VERIFIED), (changed, PacketFate.FAILED)]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["pass", "air", "buffer"]), max_size=80))
def test_air_and_buffer_are_told_apart(fates):
    """The kernel's counter, which comes with each datagram, says which gap was the buffer's."""
    arrivals, dropped = ArrivalRegister(), 0
    for number, fate in enumerate(fates):
        dropped += fate == "buffer"
        if fate == "pass":
            arrivals.count_drops(dropped)
            arrivals.accept(number)
    arrivals.count_drops(dropped)
    arrivals.count_missing(len(fates))
    assert (arrivals.air, arrivals.buffer) == (fates.count("air"), fates.count("buffer"))
    assert arrivals.accepted == fates.count("pass")


def test_losses_by_three_causes():
    """Air, buffer and failed verification in one stream: each is counted as what it was."""
    rng = random.Random(3)
    truth = {"air": 0, "failed": 0}

    def wire(datagram, _):
        if rng.random() < 0.05:
            truth["air"] += 1
            return []
        if rng.random() < 0.05:
            truth["failed"] += 1
            return [(MS, datagram[:50] + bytes([datagram[50] ^ 1]) + datagram[51:])]
        return [(MS, datagram)]
    ends = Ends(wish(), wire=wire, buffer=10, costs={"ed25519-256-verify": 15 * MS}).start()
    ends.stream(1000)
    account = ends.finish()
    assert adds_up(account)
    lost = account["lost"]
    assert lost["air"] == truth["air"]
    assert lost["buffer"] == ends.dropped > 100
    # Some of the altered ones never got out of the buffer.
    assert 0 < lost["failed"] <= truth["failed"]

"""Controls that must fail: tampered, replayed, forged, downgraded; what a level lets through."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from authenticast_ends import CONTROL, ED, MS, Ends, adds_up, broken, key, passes, wish
from protocols.authenticast import crypto, messages, session
from protocols.authenticast.crypto import Crypto
from protocols.authenticast.effects import PacketFate
from protocols.authenticast.messages import ControlMessage, ReceiverReport
from protocols.authenticast.packets import parse_bundle, parse_data
from protocols.authenticast.schemes.base import PacketVerifier
from protocols.authenticast.settings import Algorithm, LevelRange, Scheme
from protocols.authenticast.wire import MessageKind

DSA = Algorithm.DSA
ALL = [wish(Scheme.PERCENTAGE), wish(Scheme.DELAYED, bundle=4), wish(Scheme.TREE, bundle=4),
       wish(Scheme.SECRET_KEY, Algorithm.HMAC), wish(Scheme.TESLA, Algorithm.HMAC)]


def scheme_of(wished) -> str:
    """A test's name."""
    return wished.setting.scheme.name


def is_data(datagram: bytes) -> bool:
    """Whether it is a packet of the stream."""
    return datagram[0] & 15 == MessageKind.DATA


def altering(every: int, change):
    """A wire that changes every n-th packet, and knows which."""
    altered = []

    def wire(datagram, rng):
        if is_data(datagram) and (packet := parse_data(datagram)).sequence % every == every - 1:
            altered.append(packet.sequence)
            return [(MS, change(packet).encode())]
        return passes(datagram, rng)
    return wire, altered


def other_payload(packet):
    """A packet with another picture in it."""
    return replace(packet, payload=b"!" * len(packet.payload))


@pytest.mark.parametrize("wished", ALL, ids=scheme_of)
@pytest.mark.parametrize("change", [
    other_payload, lambda p: replace(p, flags=p.flags ^ 1), lambda p: replace(p, frame=9),
    lambda p: replace(p, sent_ns=p.sent_ns + 1),
    lambda p: replace(p, authenticator=p.authenticator[:-1]),
    lambda p: replace(p, authenticator=bytes(len(p.authenticator)))])
def test_at_full_level_nothing_altered_passes(wished, change):
    """Whatever an attacker changes in a packet: it is not processed, under no scheme."""
    wire, altered = altering(10, change)
    ends = Ends(wished, wire=wire).start()
    ends.stream(100)
    account = ends.finish()
    assert len(altered) == 10
    assert all(delivered.verified for delivered in ends.delivered)
    for delivered in ends.delivered:
        assert delivered.payload == delivered.sequence.to_bytes(4, "big") * 25
        assert delivered.frame == delivered.flags == 0
    lost = account["lost"]
    if wished.setting.scheme is not Scheme.DELAYED:
        assert lost["failed"] == 10
    elif change is other_payload:
        assert lost["bundle_failed"] >= 40
    assert adds_up(account)


@pytest.mark.parametrize("level", [0.0, 0.1, 0.35, 0.8, 1.0])
def test_altered_packets_pass_in_the_share_that_the_level_lets_through(level):
    """The level is proven by what an attacker gets through, never by the receiver's word."""
    wire, altered = altering(2, other_payload)
    ends = Ends(wish(level=level), wire=wire, seed=11).start()
    ends.stream(800, every_ns=MS)
    ends.finish()
    through = sum(set(delivered.payload) == {ord("!")} for delivered in ends.delivered)
    assert len(altered) == 400
    interval = binomtest(through, len(altered)).proportion_ci(0.999)
    assert interval.low <= 1 - level <= interval.high
    assert through == 0 or level < 1


@settings(deadline=None, max_examples=25)
@given(st.binary(min_size=32, max_size=32), st.floats(0.05, 0.95))
def test_the_choice_cannot_be_guessed(secret, level):
    """Without the secret, what was chosen before says nothing about what comes next.

    Neighbours agree as often as chance has it, and another secret's choice is independent of it.
    """
    def chosen(by):
        return [crypto.is_chosen(by, b"verify", (7, n), level) for n in range(2000)]
    choices, others = chosen(secret), chosen(bytes(31) + b"x")
    assert abs(sum(choices) / 2000 - level) < 0.08
    alike = level ** 2 + (1 - level) ** 2
    neighbours = sum(a == b for a, b in itertools.pairwise(choices))
    assert abs(neighbours / 1999 - alike) < 0.08
    if secret != bytes(31) + b"x":
        assert abs(sum(map(lambda a, b: a == b, choices, others)) / 2000 - alike) < 0.08


def test_the_choice_is_redone_with_the_secret():
    """Whoever is told the secret after the stream knows which packets were verified."""
    ends = Ends(wish(level=0.4)).start()
    ends.stream(300, every_ns=MS)
    account = ends.finish()
    secret, stream = bytes.fromhex(account["choice_secret"]), ends.client._stream
    for delivered in ends.delivered:
        chosen = crypto.is_chosen(secret, b"verify", (stream, delivered.sequence), 0.4)
        # The first packet of an epoch is always verified.
        assert delivered.verified == (chosen or delivered.sequence == 0)


@pytest.mark.parametrize("wished", [wish(level=0.0), *ALL], ids=scheme_of)
def test_replayed_packets(wished):
    """Every datagram three times, and all of them once more at the end: each counts once."""
    ends = Ends(wished, wire=lambda datagram, _: [(MS, datagram), (MS, datagram),
                                                    (300 * MS, datagram)]).start()
    ends.stream(100)
    for datagram in ends.data():
        ends.perform(ends.client.process_data(datagram, ends.now_ns))
    account = ends.finish()
    assert account["processed"] == len({d.sequence for d in ends.delivered}) == 100
    assert account["duplicates"] >= 300


def test_nothing_of_another_session():
    """A stream recorded in one session is worth nothing in the next one, not even its number."""
    old = Ends(wish(), seed=1).start()
    old.stream(50)
    ends = Ends(wish(), seed=2).start()
    number = ends.client._stream
    for datagram in old.data():
        packet = replace(parse_data(datagram), stream=number)
        ends.perform(ends.client.process_data(packet.encode(), ends.now_ns))
    assert not ends.delivered
    assert ends.summary()["failed_operations"] == 50


def test_wrong_server_key():
    """A server with another key than the client trusts gets no stream."""
    ends = Ends(wish(), client_keys={ED: key("stranger").public}).start()
    assert ends.client.receiver is None
    assert ends.events("refused")[0]["reason"] == "the hello-ack is not the server's"
    assert not ends.server.clients


def test_wrong_client_key():
    """A client whose key the server does not know gets none either."""
    ends = Ends(wish())
    ends.client.policy = replace(ends.client.policy, identity=key("stranger"))
    ends.start()
    assert ends.client.receiver is None
    assert "not the client's" in ends.events("refused")[0]["reason"]


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_downgraded_algorithm(level):
    """A packet with another algorithm in its flag is never processed, whatever the level."""
    wire, altered = altering(5, lambda p: replace(p, algorithm=Algorithm.ED25519))
    ends = Ends(wish(algorithm=DSA, level=level), wire=wire, keys=(ED, DSA)).start()
    ends.stream(100)
    ends.finish()
    assert len(altered) == 20
    assert not {delivered.sequence for delivered in ends.delivered} & set(altered)
    assert ends.summary()["lost"]["failed"] == ends.summary()["refused"] == 20


@pytest.mark.parametrize("field", ["scheme", "epoch"])
def test_downgraded_scheme_or_epoch(field):
    """Back to an older epoch or another scheme: refused, also where nothing would be verified."""
    ends = Ends(wish(), keys=(ED, DSA)).start()
    ends.stream(20)
    ends.turn(wish(level=0.0, algorithm=DSA))
    ends.stream(20)
    forged = replace(parse_data(ends.data()[-1]), sequence=40)
    forged = replace(forged, epoch=0, algorithm=ED) if field == "epoch" else replace(
        forged, scheme=Scheme.SECRET_KEY)
    before = len(ends.delivered)
    ends.perform(ends.client.process_data(forged.encode(), ends.now_ns))
    assert len(ends.delivered) == before
    assert ends.lost[-1].fate is PacketFate.REFUSED


def test_an_unknown_epoch_is_verified_in_full():
    """A packet that claims a setting to come is believed only with a signature."""
    ends = Ends(wish(level=0.0)).start()
    ends.stream(5)
    forged = replace(parse_data(ends.data()[-1]), sequence=5, epoch=1)
    ends.perform(ends.client.process_data(forged.encode(), ends.now_ns))
    assert ends.lost[-1].fate is PacketFate.FAILED


def test_a_jump_of_the_window_is_verified():
    """One forged number far ahead would make everything after it old; so it has to be signed."""
    ends = Ends(wish(level=0.0)).start()
    ends.stream(5)
    forged = replace(parse_data(ends.data()[-1]), sequence=1 << 40)
    ends.perform(ends.client.process_data(forged.encode(), ends.now_ns))
    assert ends.lost[-1].fate is PacketFate.FAILED
    ends.stream(5)
    assert ends.summary()["processed"] == 10


@pytest.mark.parametrize("wished", [wish(level=0.0), wish(Scheme.TESLA, Algorithm.HMAC),
                                    wish(Scheme.DELAYED, bundle=4)], ids=scheme_of)
def test_many_small_jumps_do_not_move_the_window_either(wished):
    """Forged numbers ever further ahead cost nobody the packets that are to come."""
    ends = Ends(wished).start()
    ends.stream(8)
    last = parse_data([datagram for datagram in ends.data() if is_data(datagram)][-1])
    for n in range(1, 40):
        forged = replace(last, sequence=n * 2000, position=0, bundle=1, payload=b"forged")
        ends.perform(ends.client.process_data(forged.encode(), ends.now_ns))
    ends.stream(40)
    ends.run(1000 * MS)
    genuine = {d.sequence for d in ends.delivered if d.payload != b"forged"}
    assert genuine == set(range(48))


@pytest.mark.parametrize("wished", [wish(level=0.1), *ALL], ids=scheme_of)
def test_a_long_outage(wished):
    """More packets lost in one go than the window is wide: the stream goes on behind them."""
    ends = Ends(wished).start()
    ends.stream(20)
    ends.wire["data"] = broken
    ends.stream(4500, every_ns=MS // 10)
    ends.wire["data"] = passes
    ends.stream(80)
    account = ends.finish()
    assert adds_up(account)
    assert account["sent"] == 4600
    # Open groups at both edges of the outage are incomplete; nothing else is lost.
    assert 4490 <= account["lost"]["air"] <= 4510
    assert account["processed"] >= 84


def test_forged_report():
    """A stranger who says that the client lags moves nothing: neither DELTA nor the level."""
    ends = Ends(wish(automatic=True)).start()
    ends.stream(50)
    before, reports = ends.server.get_stream("client").delta, len(ends.events("report"))
    report = ReceiverReport(ends.client._stream, 10 ** 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    forged = session.seal_message(Crypto(), b"f" * 32, report.encode())
    for payload in (forged, report.encode()):
        ends.perform(ends.server.process_message(payload, CONTROL, ends.now_ns))
    assert ends.server.get_stream("client").delta == before
    assert len(ends.events("report")) == reports
    assert len(ends.events("refused")) == 2


def test_replayed_report():
    """An old report of the client's own is refused, too."""
    ends = Ends(wish()).start()
    ends.stream(50)
    report = next(payload for way, payload in ends.wires
                  if way == "up" and payload[0] & 15 == MessageKind.REPORT)
    ends.perform(ends.server.process_message(report, CONTROL, ends.now_ns))
    assert len(ends.events("refused")) == 1


def test_forged_and_replayed_control():
    """The dial obeys the client's key and each message once; the session's MAC is not enough."""
    ends = Ends(wish()).start()
    ends.turn(wish(level=0.5))
    ends.run(50 * MS)
    stream = ends.server.get_stream("client")
    assert stream.setting.level == 0.5
    turned = next(payload for way, payload in ends.wires
                  if way == "up" and payload[0] & 15 == MessageKind.CONTROL)
    ends.turn(wish(level=1.0))
    ends.run(50 * MS)
    client_key = ends.client._session.client_key
    body = ControlMessage(ends.client._stream, 99, wish(level=0.0)).encode()
    by_stranger = session.seal_signed(Crypto(), client_key, key("stranger"),
                                      ends.client._session.digest, body)
    for payload in (turned, by_stranger, session.seal_message(Crypto(), client_key, body)):
        ends.perform(ends.server.process_message(payload, CONTROL, ends.now_ns))
        assert stream.setting.level == 1.0
    assert len(ends.events("refused")) == 3


def test_forged_change():
    """Nobody but the server changes a receiver's level, not even with the session's MAC."""
    ends = Ends(wish()).start()
    ends.turn(wish(level=0.5))
    ends.run(50 * MS)
    change = next(payload for way, payload in ends.wires
                  if way == "down" and payload[0] & 15 == MessageKind.CHANGE)
    received = messages.parse_message(change)
    body = replace(received.message, epoch=9, setting=replace(
        received.message.setting, level=0.0)).encode()
    server_key = ends.client._session.server_key
    forged = session.seal_signed(Crypto(), server_key, key("stranger"),
                                 ends.client._session.digest, body)
    ends.perform(ends.client.process_message(forged, ends.now_ns))
    assert ends.events("refused")[-1]["reason"] == "the change is not the server's"
    assert ends.client.receiver.level == 0.5


def test_forgeries_of_messages_cost_no_signature():
    """A flood of forged reports, controls and changes is refused by its MAC, at both ends."""
    ends = Ends(wish()).start()
    verified = ends.client._crypto.verified, ends.server._crypto.verified
    for n in range(100):
        body = ControlMessage(ends.client._stream, 50 + n, wish(level=0.0)).encode()
        ends.perform(ends.server.process_message(body + bytes(81), CONTROL, ends.now_ns))
        change = messages.EpochChange(ends.client._stream, 5 + n, 0, 0, wish(level=0.0).setting)
        ends.perform(ends.client.process_message(change.encode() + bytes(81), ends.now_ns))
    assert (ends.client._crypto.verified, ends.server._crypto.verified) == verified


def test_replayed_hello():
    """A hello that was recorded gets no new stream, and the one that runs goes on."""
    ends = Ends(wish()).start()
    hello = next(payload for way, payload in ends.wires if payload[0] & 15 == MessageKind.HELLO)
    ends.stream(10)
    ends.client.request_stream(ends.now_ns)
    older = ends.server.process_message(hello, CONTROL, ends.now_ns)
    ends.perform(older)
    answer = next(payload for _, payload in ends.wires if payload[0] & 15 == MessageKind.HELLO_ACK)
    assert [effect.payload for effect in older] == [answer]
    assert len(ends.events("stream")) == 1


def test_the_server_cannot_leave_the_users_range():
    """Whatever level a server announces, its client verifies no less than its user's floor."""
    ends = Ends(wish(low=0.3, high=0.8, level=0.5)).start()
    ends.turn(wish(low=0.3, high=0.8, level=0.3))
    ends.run(50 * MS)
    receiver = ends.client.receiver
    for level, applied in ((0.0, 0.3), (0.6, 0.6), (1.0, 0.8)):
        receiver.setting = replace(receiver.setting, level=level)
        assert receiver.level == applied
    receiver.set_range(LevelRange(0.9, 1), ends.now_ns)
    assert receiver.level == 1.0


@pytest.mark.parametrize("algorithm", [DSA, Algorithm.RSA, ED])
def test_every_packet_verifies_outside(algorithm):
    """Each packet on the wire carries a signature of the algorithm that it announces."""
    ends = Ends(wish(Scheme.DELAYED, algorithm, 3), keys=(algorithm,)).start()
    ends.stream(9)
    verifier = PacketVerifier(Crypto(), {algorithm: key("server", algorithm).public},
                              ends.client._session.digest)
    packets = [parse_data(datagram) for datagram in ends.data() if is_data(datagram)]
    assert len(packets) == 9
    assert all(packet.algorithm is algorithm and verifier.is_authentic(packet)
               for packet in packets)
    bundles = [parse_bundle(datagram) for datagram in ends.data() if not is_data(datagram)]
    for bundle in bundles:
        hashes = b"".join(verifier.crypto.compute_digest(packets[bundle.first + n].signed_bytes())
                          for n in range(3))
        assert verifier.is_signed(algorithm, "bundle", bundle.signed_bytes(hashes),
                                  bundle.signature)
    assert len(bundles) == 3


@settings(max_examples=75, deadline=None)
@given(noise=st.lists(st.tuples(st.integers(0, 10 ** 6), st.integers(0, 10 ** 6),
                                st.integers(1, 255), st.binary(max_size=60)), max_size=8))
def test_noise_reaches_nobody(noise):
    """Damaged copies of real datagrams, cut ones and noise: no end breaks, nothing is delivered."""
    ends, datagrams = recorded()
    delivered = len(ends.delivered)
    for which, place, turned, junk in noise:
        way, real = datagrams[which % len(datagrams)]
        damaged = bytearray(real)
        damaged[place % len(real)] ^= turned
        for datagram in (bytes(damaged), real[:place % len(real)], junk,
                         bytes((0x11 + place % 10,)) + junk):
            ends.perform(ends.client.process_data(datagram, ends.now_ns))
            ends.perform(ends.client.process_message(datagram, ends.now_ns))
            ends.perform(ends.server.process_message(datagram, CONTROL, ends.now_ns))
            assert way in {"up", "down", "data"}
    assert len(ends.delivered) == delivered
    assert ends.client.receiver.level == 1.0
    assert ends.server.clients == ["client"]


@functools.lru_cache
def recorded() -> tuple[Ends, list[tuple[str, bytes]]]:
    """A stream under way that has seen every kind of datagram, and all of them."""
    ends = Ends(wish(Scheme.DELAYED, bundle=3), keys=(ED, DSA)).start()
    for step in (wish(Scheme.TREE, DSA, 4), wish(Scheme.SECRET_KEY, Algorithm.HMAC),
                 wish(Scheme.TESLA, Algorithm.HMAC), wish(Scheme.DELAYED, ED, 2)):
        ends.stream(12)
        ends.turn(step)
        ends.run(400 * MS)
    return ends, list(ends.wires)

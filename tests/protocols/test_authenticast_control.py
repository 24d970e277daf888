"""Authenticast while it runs: the dial, changes of scheme, algorithm, key; ends that die."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from authenticast_ends import (
    CONTROL,
    ED,
    MS,
    START_NS,
    Ends,
    adds_up,
    broken,
    key,
    passes,
    wish,
)
from protocols.authenticast.client import Client, ClientPolicy
from protocols.authenticast.controllers import StaticController
from protocols.authenticast.crypto import TAG_BYTES, Crypto
from protocols.authenticast.effects import DeliverPacket, SendDatagram
from protocols.authenticast.packets import parse_data
from protocols.authenticast.schemes.tesla import TeslaSchedule
from protocols.authenticast.server import Server, ServerPolicy
from protocols.authenticast.settings import Algorithm, Scheme, SettingError
from protocols.authenticast.stream import StreamPolicy
from protocols.authenticast.wire import MessageKind

DSA, RSA, HMAC = Algorithm.DSA, Algorithm.RSA, Algorithm.HMAC


def sent_packets(ends):
    """The stream's packets as they were sent."""
    return [parse_data(datagram) for datagram in ends.data() if datagram[0] & 15
            == MessageKind.DATA]


def test_a_turn_that_is_sent_again_is_not_refused():
    """While changes are lost, the client repeats its message; it is heeded once."""
    ends = Ends(wish()).start()
    ends.wire["down"] = lambda datagram, rng: [] if datagram[
        0] & 15 == MessageKind.CHANGE else passes(
        datagram, rng)
    ends.turn(wish(level=0.5))
    ends.run(1200 * MS)
    turns = [payload for way, payload in ends.wires
             if way == "up" and payload[0] & 15 == MessageKind.CONTROL]
    assert len(turns) == 3 and len(set(turns)) == 1
    assert not ends.events("refused")
    assert len(ends.events("switched")) == 1
    ends.wire["down"] = passes
    ends.run(500 * MS)
    assert ends.client.receiver.level == 0.5


STEPS = [wish(Scheme.DELAYED, ED, 3), wish(Scheme.DELAYED, DSA, 5), wish(level=0.5),
         wish(Scheme.TREE, RSA, 8), wish(Scheme.SECRET_KEY, HMAC), wish(Scheme.TESLA, HMAC),
         wish(Scheme.PERCENTAGE, DSA)]


@pytest.mark.parametrize("lossy", [False, True])
def test_everything_changes_while_it_runs(lossy):
    """Scheme, level, bundle and algorithm by the dial: no packet is unsigned, none is interrupted.

    Also where every third message of the control plane is lost.
    """
    ends = Ends(wish(), keys=(ED, DSA, RSA)).start()
    if lossy:
        for way in ("up", "down"):
            ends.wire[way] = lambda datagram, rng: (
                [] if rng.random() < 0.33 else passes(datagram, rng))
    for step in STEPS:
        ends.turn(step)
        ends.stream(203)
        assert ends.server.get_stream("client").setting == step.setting
    account = ends.finish()
    packets = sent_packets(ends)
    assert [packet.sequence for packet in packets] == list(range(len(packets)))
    assert all(packet.authenticator for packet in packets)
    assert account["processed"] == account["sent"] == 203 * len(STEPS)
    assert not any(account["lost"].values())
    schemes = list(dict.fromkeys((p.scheme, p.algorithm) for p in packets))
    assert {(step.setting.scheme, step.setting.algorithm) for step in STEPS} <= set(schemes)


def test_algorithm_change():
    """The very next packet carries the new algorithm's flag and signature (section 4.3.4)."""
    ends = Ends(wish(Scheme.PERCENTAGE, DSA), keys=(DSA, RSA)).start()
    ends.stream(20)
    ends.turn(wish(Scheme.PERCENTAGE, RSA))
    ends.run(10 * MS)
    ends.stream(20)
    account = ends.finish()
    assert [packet.algorithm for packet in sent_packets(ends)] == [DSA] * 20 + [RSA] * 20
    assert account["verified"] == 40
    switched, = ends.events("switched")
    assert (switched["sequence"], switched["algorithm"]) == (20, "rsa")


def test_secret_key_connection():
    """Negotiated with signatures, swapped in without interruption; then tags, no signatures.

    Both ends are told when; the key is in no datagram, and another one each time.
    """
    keys = []
    for seed in (1, 2):
        ends = Ends(wish(), seed=seed).start()
        ends.wire["down"] = lambda datagram, _: [(120 * MS, datagram)]
        ends.stream(20)
        ends.turn(wish(Scheme.SECRET_KEY, HMAC))
        ends.stream(60)
        account = ends.finish()
        packets = sent_packets(ends)
        switched, = ends.events("switched")
        first = switched["sequence"]
        # Until the client has the key, packets are signed as before.
        assert 20 < first < 50
        assert {p.algorithm for p in packets[:first]} == {ED}
        assert {(p.algorithm, len(p.authenticator)) for p in packets[first:]} == {(HMAC, TAG_BYTES)}
        assert ends.events("changed")[0]["scheme"] == "secret_key"
        assert ends.events("epoch")[1]["sequence"] == first
        assert account["verified"] == account["sent"] == 80
        secret = ends.client.receiver._epochs[1].key
        assert len(secret) == 32
        assert not any(secret in payload or secret[:16] in payload for _, payload in ends.wires)
        keys.append(secret)
    assert keys[0] != keys[1]


def test_a_secret_key_is_replaced():
    """A second request makes a second key; packets of the first one are refused afterwards."""
    ends = Ends(wish(Scheme.SECRET_KEY, HMAC)).start()
    ends.stream(30)
    old = sent_packets(ends)[-1]
    ends.turn(wish(Scheme.SECRET_KEY, HMAC))
    ends.stream(30)
    epochs = ends.client.receiver._epochs
    assert epochs[1].key != epochs[2].key
    ends.perform(ends.client.process_data(replace(old, sequence=60).encode(), ends.now_ns))
    assert ends.summary()["refused"] == 1
    assert ends.finish()["processed"] == 60


def test_a_secret_key_is_made_only_on_request():
    """A change to a secret key connection that the user has not asked for is refused."""
    ends = Ends(wish()).start()
    stream = ends.server.get_stream("client")
    exchange = ends.server._crypto.compute_public_key(b"k" * 32)
    ends.perform(stream._announce_setting(wish(Scheme.SECRET_KEY, HMAC).setting, "", exchange,
                                          ends.now_ns))
    ends.stream(10)
    assert "nobody asked for" in ends.events("refused")[0]["reason"]
    assert {packet.algorithm for packet in sent_packets(ends)} == {ED}


def test_tesla_chains_are_renewed():
    """A chain that comes to its end is followed by another one, without a packet lost."""
    ends = Ends(wish(Scheme.TESLA, HMAC), tesla=TeslaSchedule(20 * MS, 2, 40)).start()
    ends.stream(300)
    account = ends.finish()
    assert len([e for e in ends.events("switched") if e["cause"] == "a new TESLA chain"]) >= 3
    assert account["processed"] == 300
    assert all(delivered.verified for delivered in ends.delivered)


def test_without_a_new_chain_there_are_signatures():
    """A client that hears of no new chain gets signed packets, never unauthenticated ones."""
    ends = Ends(wish(Scheme.TESLA, HMAC), tesla=TeslaSchedule(20 * MS, 2, 40)).start()
    ends.stream(10)
    ends.wire["down"] = broken
    ends.stream(150)
    assert {packet.algorithm for packet in sent_packets(ends)[-20:]} == {ED}
    assert all(delivered.verified for delivered in ends.delivered)


def test_the_floor_holds_at_once():
    """A dial turned up is obeyed at the receiver before any answer of the server."""
    ends = Ends(wish(level=0.1)).start()
    ends.wire["up"] = broken
    ends.turn(wish(low=1.0, level=1.0))
    assert ends.client.receiver.level == 1.0
    ends.stream(50)
    assert all(delivered.verified for delivered in ends.delivered)


def test_the_level_now_is_of_the_setting_now():
    """Two trees after a change it is 1, whatever was verified in the second before."""
    ends = Ends(wish(level=0.05)).start()
    ends.stream(90)
    account = ends.client.receiver.account
    assert account.level < 0.3
    ends.turn(wish(Scheme.TREE, ED, 8))
    ends.stream(16)
    assert account.level == 1.0
    ends.turn(wish(level=0.05))
    ends.stream(40)
    assert account.level < 0.3


def test_a_dial_that_contradicts_itself():
    """A level below the floor is refused before anything is sent."""
    ends = Ends(wish()).start()
    with pytest.raises(SettingError, match="below the floor"):
        ends.turn(wish(level=0.1, low=0.2))
    assert not ends.events("turned")


def test_what_was_not_agreed():
    """A scheme or algorithm that the server lacks leaves the stream as it is, and says so."""
    ends = Ends(wish(), keys=(ED,)).start()
    ends.client.policy = replace(ends.client.policy, algorithms=frozenset({ED, DSA}))
    ends.turn(wish(algorithm=DSA))
    ends.stream(20)
    assert ends.server.get_stream("client").setting.algorithm is ED
    assert ends.events("refused")
    assert ends.finish()["verified"] == 20


def test_a_client_that_dies():
    """The server ends a silent client's stream, and says why; its other business goes on."""
    ends = Ends(wish()).start()
    ends.stream(10)
    ends.wire["up"] = broken
    ends.stream(600)
    assert not ends.server.clients
    assert ends.events("left")[0]["reason"] == "silent for 5 s"


def test_a_server_that_was_restarted():
    """A client without a sign of life asks anew, and has a stream again."""
    ends = Ends(wish()).start()
    ends.stream(10)
    again = Ends(wish(), seed=9)
    ends.server = again.server
    ends.run(8000 * MS)
    assert ends.events("silence")
    assert ends.server.clients == ["client"]
    assert ends.events("replaced")[0]["processed"] == 10
    ends.stream(10)
    assert ends.finish()["processed"] == 10


def test_a_server_that_speaks_again():
    """Whoever asked anew for want of a sign of life keeps the stream it has, without a loss."""
    ends = Ends(wish()).start()
    ends.stream(10)
    ends.wire["down"] = broken
    ends.run(7000 * MS)
    assert ends.events("silence")
    ends.stream(10)
    ends.wire["down"] = passes
    ends.run(3000 * MS)
    assert len(ends.events("stream")) == 1
    assert not ends.events("replaced")
    assert ends.finish()["processed"] == 20


def test_a_pause_is_no_end():
    """An application that pauses for long leaves both ends together."""
    ends = Ends(wish()).start()
    ends.stream(5)
    ends.run(60_000 * MS)
    ends.stream(5)
    assert not ends.events("silence")
    assert ends.finish()["processed"] == 10


def test_a_client_that_leaves():
    """The server hears it, and frees what it had for the client."""
    ends = Ends(wish()).start()
    ends.stream(5)
    ends.perform(ends.client.stop_stream(ends.now_ns))
    ends.run(100 * MS)
    assert ends.events("left")[0]["reason"] == "the client is done"
    assert ends.client.deadline_ns() is None


def test_a_client_that_comes_again():
    """A second hello replaces the stream once it is confirmed, and not before."""
    ends = Ends(wish()).start()
    ends.stream(5)
    old = ends.client._stream
    hello = ends.client.request_stream(ends.now_ns)
    ends.perform(ends.server.process_message(hello[0].payload, CONTROL, ends.now_ns))
    assert ends.server.get_stream("client").peer.number == old
    ends.run(50 * MS)
    assert ends.server.get_stream("client").peer.number == ends.client._stream != old
    assert ends.events("left")[0]["reason"] == "replaced"


@pytest.mark.parametrize("scheme", [Scheme.DELAYED, Scheme.TREE])
def test_an_open_bundle_survives_a_change(scheme):
    """A change in the middle of a bundle closes it: none of its packets is lost."""
    ends = Ends(wish(scheme, bundle=10)).start()
    ends.stream(14)
    ends.turn(wish(scheme, bundle=3))
    ends.stream(8)
    account = ends.finish()
    assert account["processed"] == account["sent"] == 22
    assert account["level"] == 1


def test_whoever_lags_catches_up_with_what_it_holds():
    """From delayed to by-percentage: packets of open bundles are sampled at once (5.2)."""
    ends = Ends(wish(Scheme.DELAYED, bundle=100)).start()
    ends.stream(50)
    assert not ends.delivered
    ends.turn(wish(level=0.2))
    ends.run(20 * MS)
    assert len(ends.delivered) == 50
    assert 0 < sum(delivered.verified for delivered in ends.delivered) < 30
    assert adds_up(ends.finish())


def test_gaps_of_both_types():
    """DELTA is what was sent and not taken up; a hole is noted where numbers are missing."""
    def loses_some(datagram, rng):
        gone = datagram[0] & 15 == MessageKind.DATA and parse_data(datagram).sequence in {7, 8}
        return [] if gone else [(MS, datagram)]
    ends = Ends(wish(), wire=loses_some, costs={"ed25519-256-verify": 20 * MS}).start()
    ends.stream(100)
    assert ends.events("hole") == [{"before": 9, "missing": 2}]
    # Packets come every 10 ms and take 20 ms each: about half of them wait.
    assert 40 <= ends.events("report")[-1]["delta"] <= 55
    assert ends.summary()["max_lag_s"] > 0.4


def test_exposure():
    """Time below the user's highest level is counted, also the longest stretch of it."""
    ends = Ends(wish()).start()
    for level, packets in ((1.0, 50), (0.5, 100), (1.0, 50), (0.5, 30)):
        ends.turn(wish(level=level))
        ends.stream(packets)
    account = ends.finish(0)
    assert account["exposure_s"] == pytest.approx(1.3, abs=0.05)
    assert account["longest_exposure_s"] == pytest.approx(1.0, abs=0.05)
    assert account["below_floor_s"] == 0


def test_two_runs_are_the_same():
    """The same random bytes and times give the same datagrams, to the last bit."""
    def run():
        ends = Ends(wish(Scheme.DELAYED, ED, 3), seed=5).start()
        ends.stream(50)
        ends.turn(wish(Scheme.SECRET_KEY, HMAC))
        ends.stream(50)
        return ends.wires, ends.finish()
    assert run() == run()


def test_the_core_asks_for_nothing_but_values():
    """What an end wants done is data: effects of four kinds, nothing that has been done already."""
    ends = Ends(wish())
    effects = ends.client.request_stream(ends.now_ns)
    assert [type(effect).__name__ for effect in effects] == ["SendDatagram", "ProgramEvent"]
    assert isinstance(effects[0], SendDatagram) and effects[0].to is None


def test_several_clients_share_the_signing():
    """Three clients of one server, each with keys and a session of its own, all with work waiting.

    By weight and by cost: who asks for two signatures a packet gets half as many packets.
    """
    rng, now_ns = random.Random(1), START_NS
    server_key = key("server")
    names = {"tree": (wish(Scheme.TREE, bundle=8), 1.0), "each": (wish(), 1.0),
             "bundles of one": (wish(Scheme.DELAYED, bundle=1), 1.0), "heavy": (wish(), 2.0)}
    server = Server(ServerPolicy(
        "server", StreamPolicy({ED: server_key}, server_key),
        {name: {ED: key(name).public} for name in names},
        weights={name: weight for name, (_, weight) in names.items()}), Crypto(), rng.randbytes,
        StaticController)
    clients = {}
    for number, (name, (wished, _)) in enumerate(names.items()):
        address = (f"10.0.0.{number}", 4000)
        client = clients[address] = Client(
            ClientPolicy(name, key(name), "server", {ED: server_key.public}, wished, 4001,
                         frozenset({ED})), Crypto(), rng.randbytes)
        hello = client.request_stream(now_ns)[0]
        answer, = server.process_message(hello.payload, address, now_ns)
        confirm = client.process_message(answer.payload, now_ns)[0]
        server.process_message(confirm.payload, address, now_ns)
    assert server.clients == list(names)
    for name in names:
        for _ in range(60):
            server.queue_packet(name, b"picture")
        assert server.has_room(name)
    served = Counter()
    for _ in range(120):
        before = {name: server.count_waiting(name) for name in names}
        for effect in server.seal_next(now_ns):
            if isinstance(effect, SendDatagram) and effect.to[1] == 4001:
                for delivered in clients[effect.to[0], 4000].process_data(effect.payload, now_ns):
                    assert not isinstance(delivered, DeliverPacket) or delivered.verified
        served.update(name for name in names if server.count_waiting(name) < before[name])
    # 60 are the tree's, at an eighth of a signature each; the rest is shared 1 : 1 : 2.
    assert served["tree"] == 60
    assert served["heavy"] == pytest.approx(2 * served["each"], abs=3)
    assert served["each"] == pytest.approx(2 * served["bundles of one"], abs=3)
    sessions = {client._session.digest for client in clients.values()}
    assert len(sessions) == len(names)

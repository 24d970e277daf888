"""Verification outside the machine, against the protocol's own core: what it passes, what not."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import made_up_captures
from authenticast_ends import DATA, ED, MS, SERVER, Ends, key, wish
from measure.agent.errors import MeasureError
from protocols.authenticast.crypto import SigningKey
from protocols.authenticast.settings import Algorithm, Scheme
from studies.authenticast1998 import verification
from studies.authenticast1998.verification import (
    Key,
    VerificationResult,
    WireDatagram,
    verify_capture,
)

DSA = Algorithm.DSA
WISHES = [wish(Scheme.PERCENTAGE, level=0.3), wish(Scheme.PERCENTAGE, DSA),
          wish(Scheme.DELAYED, bundle=4), wish(Scheme.TREE, DSA, bundle=8),
          wish(Scheme.TESLA, Algorithm.HMAC)]


def public(made: SigningKey) -> Key:
    """A public key as a repetition keeps it."""
    return Key(made.public.to_pem().decode())


def streamed(wished, packets: int = 60) -> list[WireDatagram]:
    """What a client's capture of a short stream holds."""
    # The identity, too, is of the stream's algorithm.
    algorithm = wished.setting.algorithm if wished.setting.algorithm is DSA else ED
    ends = Ends(wished, keys=(algorithm,)).start()
    ends.stream(packets)
    ends.finish()
    client = DATA[0]
    return [WireDatagram(*((client, SERVER[0]) if way == "up" else (SERVER[0], client)), payload)
            for way, payload in ends.wires]


def checked(every: Iterable[WireDatagram], algorithm: Algorithm = ED) -> VerificationResult:
    """Verified with the run's keys."""
    return verify_capture(every, public(key("server", algorithm)), public(key("client")))


def changed(every: list[WireDatagram], change: Callable[[bytes], bytes]) -> list[WireDatagram]:
    """The capture with its eighth data packet changed."""
    at = [number for number, datagram in enumerate(every) if datagram.kind == verification.DATA][7]
    return [WireDatagram(one.source, one.target, change(one.payload)) if number == at else one
            for number, one in enumerate(every)]


def algorithm_of(wished) -> Algorithm:
    """What signs a stream of a wish."""
    return DSA if wished.setting.algorithm is DSA else ED


@pytest.mark.parametrize("wished", WISHES, ids=lambda wished: wished.setting.scheme.name)
def test_every_packet_of_a_good_stream(wished):
    """All packets verify, as the server has announced them; bundles, too."""
    seen = checked(streamed(wished), algorithm_of(wished))
    assert (len(seen.right), seen.wrong, seen.unlike, seen.complaints) == (60, set(), set(), [])
    assert seen.bundles_wrong == 0
    assert seen.bundles_right == (15 if wished.setting.scheme is Scheme.DELAYED else 0)


@pytest.mark.parametrize("wished", WISHES, ids=lambda wished: wished.setting.scheme.name)
def test_an_altered_packet(wished):
    """One bit of one payload, and this packet does not verify any more."""
    every = changed(streamed(wished), lambda data: data[:38] + bytes([data[38] ^ 1]) + data[39:])
    seen = checked(every, algorithm_of(wished))
    assert len(seen.wrong) == 1
    assert len(seen.right) == 59
    assert seen.bundles_wrong == (1 if wished.setting.scheme is Scheme.DELAYED else 0)


def test_an_altered_flag():
    """A packet that says another algorithm than was announced is told apart from a wrong one."""
    every = changed(streamed(WISHES[0]), lambda data: data[:2] + b"\x02" + data[3:])
    seen = checked(every)
    assert (len(seen.unlike), len(seen.wrong), len(seen.right)) == (1, 0, 59)


def test_a_strangers_key():
    """Nothing of a server with another key is believed, and it is said why."""
    seen = verify_capture(streamed(WISHES[0]), public(key("stranger")), public(key("client")))
    assert seen.right == set()
    assert "hello-ack that is not signed" in seen.complaints[0]


def test_an_altered_change():
    """A change of setting that the server has not signed announces nothing."""
    wished = wish(Scheme.DELAYED, bundle=4)
    ends = Ends(wished).start()
    ends.stream(10)
    ends.turn(wish(Scheme.PERCENTAGE, level=0.2))
    ends.stream(10)
    ends.finish()
    every = [WireDatagram(SERVER[0], DATA[0], payload) for _, payload in ends.wires]
    assert len(checked(every).right) == 20
    raised = [WireDatagram(one.source, one.target,
                           one.payload[:29] + b"\x00\x00" + one.payload[31:])
              if one.kind == verification.CHANGE else one for one in every]
    seen = checked(raised)
    assert set(seen.complaints) == {"a change that the server has not signed"}
    # The change is in force with the packet after the one that was on its way.
    assert (len(seen.right), len(seen.unlike)) == (11, 9)


def test_an_altered_turn_of_the_dial():
    """The range that a client has signed counts, and none that somebody else has made of it."""
    ends = Ends(wish(Scheme.PERCENTAGE, level=0.5)).start()
    ends.stream(10)
    ends.turn(wish(Scheme.PERCENTAGE, level=0.3, low=0.2, high=0.4))
    ends.stream(10)
    ends.finish()
    every = [WireDatagram(SERVER[0], DATA[0], payload) for _, payload in ends.wires]
    [session] = checked(every).sessions.values()
    assert session.ranges == {0: (0.0, 1.0), 1: (0.2, 0.4)}
    assert {epoch.answers: epoch.level for epoch in session.epochs.values()} == {0: 0.5, 1: 0.3}
    lowered = [WireDatagram(one.source, one.target,
                            one.payload[:14] + b"\0\0" + one.payload[16:])
               if one.kind == verification.CONTROL else one for one in every]
    seen = checked(lowered)
    assert set(seen.complaints) == {"a turn of the dial that the client has not signed"}
    assert [session.ranges for session in seen.sessions.values()] == [{0: (0.0, 1.0)}]


def test_tags_after_a_key_change():
    """A secret key connection's packets have tags, and none of them counts as a signature."""
    ends = Ends(wish(Scheme.SECRET_KEY, Algorithm.HMAC)).start()
    ends.run(500 * MS)
    ends.stream(30)
    ends.finish()
    seen = checked([WireDatagram(SERVER[0], DATA[0], payload) for _, payload in ends.wires])
    assert (len(seen.tagged), len(seen.right), len(seen.wrong)) == (30, 0, 0)


def frame(payload: bytes) -> bytes:
    """An Ethernet frame with a UDP datagram from 10.0.0.2 to 10.0.1.2."""
    udp = struct.pack("!HHHH", 5000, 4001, 8 + len(payload), 0) + payload
    head = bytes([0x45, 0]) + struct.pack("!HIBBH", 20 + len(udp), 0, 64, 17, 0)
    return b"\0" * 12 + b"\x08\0" + head + bytes([10, 0, 0, 2, 10, 0, 1, 2]) + udp


def test_captures_are_read(tmp_path: Path):
    """Addresses and payload come out of a capture; anything else is refused by name."""
    file = tmp_path / "a.pcap"
    made_up_captures.written(file, [(1.000002, frame(b"\x11payload"))])
    assert list(verification.read_datagrams(file)) == [
        WireDatagram("10.0.0.2", "10.0.1.2", b"\x11payload", 1.000002)]
    file.write_text("no capture")
    with pytest.raises(MeasureError, match=r"a\.pcap is not a capture"):
        list(verification.read_datagrams(file))

"""Attacks on ADP: what the protocol of 1987 lets through by its design, and the modern does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adp_hosts import KEYS, MODERN, OLD, Packet, World, message, reply
from protocols.adp import packets
from protocols.adp.context import HostSettings
from protocols.adp.crypto import Crypto
from protocols.adp.effects import EncryptionScope
from protocols.adp.packets import Frame, HeaderFlag, MessageKind, OwnerSignature
from protocols.adp.suite import Identity, SuiteTools
from protocols.adp.suite_1987 import Suite1987
from protocols.adp.suite_modern import SuiteModern

BOTH = pytest.mark.parametrize("version", [OLD, MODERN])
NUMBER = 9  # that an attacker gives to whom it claims to be


class Mallory:
    """The owner of host `mid`'s kernel: a lawful user with keys of her own, and her own program."""

    def __init__(self, world: World, *, checksum: bool = False) -> None:
        self.world = world
        self.version = world.version
        self.session = b"mallory!"
        self.challenge: bytes | None = None
        keys = {"mallory": KEYS[world.version]["mallory"]}
        tools = SuiteTools(Identity("mid", "mallory", keys, self.session), world.directory,
                           Crypto(lambda _kind, _size: None), self.random,
                           EncryptionScope.TRAILER, 64)
        self.suite: Any = (Suite1987(tools, checksum=checksum) if world.version == OLD
                           else SuiteModern(tools))

    def random(self, size: int) -> bytes:
        """Random bytes, or what she wants others to sign."""
        return self.world._rng.randbytes(size) if self.challenge is None else self.challenge

    def frame(self, channel: bytes, flags: int = 0, count: int = 0, request: bytes = b"",
              acknowledgement: bytes = b"") -> Frame:
        """The clear part of a message of hers."""
        return Frame(self.suite.version, MessageKind.DATA, flags, count, channel, self.session,
                     request,
                     acknowledgement)

    def sealed(self, keys: Any, frame: Frame, signatures: tuple[OwnerSignature, ...] = (),
               text: bytes | None = None, number: int = 0) -> bytes:
        """A message under keys that she has."""
        messages = [] if text is None else [packets.encode_message(number, b"yuri", 7, text)]
        frame = replace(frame, flags=frame.flags | self.suite.header_flags(private=False),
                        count=len(messages))
        body = packets.encode_body(signatures, (), messages)
        return frame.clear_bytes() + keys.seal(frame.clear_bytes(), body, private=False)

    def open_to_beta(self) -> tuple[Any, bytes]:
        """A channel of her own with beta, as anybody may have: its keys and number."""
        request, keys = self.suite.create_request("beta")
        frame = self.frame(request.channel, HeaderFlag.REQUEST, request=request.encoded)
        payload = frame.clear_bytes() if keys is None else self.sealed(keys, frame)
        self.world.arrive(Packet("mid", "beta", payload))
        answer = packets.parse_frame(self.world.packets.pop().payload)
        keys = self.suite.complete_request(request, keys, answer)
        self.world.arrive(Packet("mid", "beta", self.sealed(keys, self.frame(request.channel))))
        return keys, request.channel

    def lure(self, challenge: bytes | None) -> OwnerSignature:
        """Let xena, on alpha, talk to mid; what she signs. 1987: `challenge` is what she gets."""
        self.world.send("alpha", message(host="mid", destination="mallory"))
        request = packets.parse_frame(self.world.packets.pop().payload)
        self.challenge = challenge
        keys, acknowledgement = self.suite.accept_request("alpha", request)
        frame = self.frame(request.channel, HeaderFlag.ACKNOWLEDGE, acknowledgement=acknowledgement)
        self.world.arrive(Packet("mid", "alpha", self.sealed(keys, frame)))
        answer = packets.parse_frame(self.world.packets.pop().payload)
        body = packets.parse_body(keys.open(answer.clear_bytes(), answer), answer.count)
        return next(signature for signature in body.signatures if signature.name == "xena")


@pytest.mark.parametrize("checksum", [False, True])
def test_relayed_owner_succeeds_against_1987(checksum):
    """Who talks to mallory signs beta's R for her: beta takes her for xena.

    A checksum does not help: what xena has signed names neither a channel nor a peer.
    """
    world = World(OLD, HostSettings(checksum=checksum), names=("alpha", "beta", "mid"))
    mallory = Mallory(world, checksum=checksum)
    keys, channel = mallory.open_to_beta()
    signature = mallory.lure(challenge=keys.theirs)
    forged = mallory.sealed(keys, mallory.frame(channel),
                            (OwnerSignature(NUMBER, "xena", signature.value),), b"from mallory",
                            NUMBER)
    world.arrive(Packet("mid", "beta", forged))
    [delivery] = world.delivered["beta"]
    assert (delivery.source, delivery.data) == ("xena", b"from mallory")


def test_relayed_owner_fails_against_modern():
    """The same with the modern protocol: xena's signature is of alpha's channel with mid alone."""
    world = World(MODERN, names=("alpha", "beta", "mid"))
    mallory = Mallory(world)
    keys, channel = mallory.open_to_beta()
    signature = mallory.lure(challenge=None)
    forged = mallory.sealed(keys, mallory.frame(channel),
                            (OwnerSignature(NUMBER, "xena", signature.value),), b"from mallory",
                            NUMBER)
    world.arrive(Packet("mid", "beta", forged))
    assert not world.delivered["beta"]
    [note] = world.events("beta", "refused")
    assert note.fields == {"owner": "xena", "host": "mid", "reason": "wrong signature"}


def test_mallory_may_speak_for_herself():
    """The check itself: with her own signature the very same message arrives."""
    for version in (OLD, MODERN):
        world = World(version, names=("alpha", "beta", "mid"))
        mallory = Mallory(world)
        keys, channel = mallory.open_to_beta()
        signature = keys.sign_owner("mallory", KEYS[version]["mallory"])
        world.arrive(Packet("mid", "beta", mallory.sealed(
            keys, mallory.frame(channel), (OwnerSignature(NUMBER, "mallory", signature),),
            b"honest",
            NUMBER)))
        assert [delivery.source for delivery in world.delivered["beta"]] == ["mallory"]


def test_relayed_request_fails_against_modern():
    """A modern request is signed for one host: passed on to another it is refused."""
    world = World(MODERN, names=("alpha", "beta", "mid"))
    world.send("alpha", message(host="mid", destination="mallory"))
    request = world.packets.pop()
    for source in ("alpha", "mid"):
        world.arrive(Packet(source, "beta", request.payload))
    assert not world.packets
    assert len(world.events("beta", "dropped")) == 2


@BOTH
def test_forged_owner(version):
    """A signature with another key is refused, and what bears its number is not delivered."""
    world = World(version, names=("alpha", "beta", "mid"))
    keys = KEYS[version]
    world.boot("mid", {"mallory": keys["mallory"], "xena": keys["mallory"]})
    world.send("mid", message(b"forged"))
    world.wait(60)
    assert not world.delivered["beta"]
    assert all(note.fields["owner"] == "xena" for note in world.events("beta", "refused"))
    assert world.events("beta", "refused")


@BOTH
def test_another_host_in_alphas_place(version):
    """Whoever takes alpha's address without alpha's keys gets nothing delivered."""
    world = World(version, names=("alpha", "beta", "mid"))
    world.hosts["alpha"] = World(version, seed=5).hosts["alpha"]
    wrong = KEYS[version]["mallory"]
    world.boot("alpha", {"alice": wrong, "xena": wrong})
    world.send("alpha", message(b"forged"))
    world.wait(10)
    assert not world.delivered["beta"]


def altered_in_transit(choice: HostSettings, version: str) -> World:
    """A world in which somebody on the way has changed the amount in a message."""
    world = World(version, choice)
    world.open("alpha", "beta", "xena")
    world.wait(1)
    world.send("alpha", message(b"pay 100 to yuri"))
    packet = world.packets.pop()
    assert b"pay 100" in packet.payload
    world.arrive(replace(packet, payload=packet.payload.replace(b"pay 100", b"pay 999")))
    return world


def test_unprotected_body_succeeds_against_1987():
    """A trailer with a sequence number says nothing about the body: the change is delivered."""
    world = altered_in_transit(HostSettings(checksum=False), OLD)
    assert world.texts("beta") == [b"pay 999 to yuri"]
    assert world.delivered["beta"][0].source == "xena"


@pytest.mark.parametrize(("version", "checksum"), [(OLD, True), (MODERN, False)])
def test_unprotected_body_fails(version, checksum):
    """With a cryptographic checksum, and always with the modern protocol, it is dropped."""
    world = altered_in_transit(HostSettings(checksum=checksum), version)
    assert not world.delivered["beta"]
    assert world.events("beta", "dropped")[-1].fields["reason"] == "altered, or under another key"


@pytest.mark.parametrize(("version", "choice"), [
    (OLD, HostSettings(checksum=True)),
    (OLD, HostSettings(checksum=True, scope=EncryptionScope.ALL)),
    (MODERN, HostSettings()), (MODERN, HostSettings(scope=EncryptionScope.ALL))])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_altered_messages(version, choice, data):
    """Whatever bit is changed, of whatever part: nothing is delivered but what was sent."""
    world = World(version, choice)
    world.open("alpha", "beta", "xena")
    world.wait(1)
    world.send("alpha", message(b"as it was sent"))
    packet = world.packets.pop()
    bit = data.draw(st.integers(0, 8 * len(packet.payload) - 1))
    altered = bytearray(packet.payload)
    altered[bit // 8] ^= 1 << bit % 8
    world.arrive(replace(packet, payload=bytes(altered)))
    assert not world.delivered["beta"]
    world.arrive(packet)
    assert world.texts("beta") == [b"as it was sent"]


@BOTH
def test_duplicates_and_replays(version):
    """Nothing is delivered twice, at once or much later, however often it arrives."""
    world = World(version)
    captured = []
    for number in range(10):
        world.send("alpha", message(b"%d" % number))
        captured += [packet for packet in world.packets if packet.host == "beta"]
        world.flush()
    for packet in captured * 2:
        world.arrive(packet)
    world.wait(100)
    for packet in captured:
        world.arrive(packet)
    assert world.texts("beta") == [b"%d" % number for number in range(10)]


@BOTH
@pytest.mark.parametrize("answers_arrive", [False, True])
def test_replay_after_a_restart(version, answers_arrive):
    """A session's whole traffic, replayed to the receiver's next session, delivers nothing.

    Also when the true sender hears the answers; and it can still talk afterwards.
    """
    world = World(version)
    captured: list[Packet] = []
    world.send("alpha", message(b"transfer"))
    for _ in range(10):
        captured += [packet for packet in world.packets if packet.host == "beta"]
        world.flush()
        world.send("alpha", message(b"again", urgent=False))
        world.now_s += 0.1
        world.perform("alpha", world.hosts["alpha"].tick(world.now_s))
    world.flush()
    world.boot("beta")
    world.delivered["beta"].clear()
    for packet in captured * 2:
        world.arrive(packet)
        if not answers_arrive:
            world.packets.clear()
    world.wait(10)
    assert not world.delivered["beta"]
    for _ in range(2):  # the first may be lost on a channel that beta has lost
        world.send("alpha", message(b"alive"))
        world.wait(5)
    assert b"alive" in world.texts("beta")
    assert set(world.texts("beta")) == {b"alive"}


@BOTH
def test_stale_request_does_not_take_a_channel_away(version):
    """Requests of alpha's last session, replayed, leave the channel in use as it is."""
    world = World(version)
    world.send("alpha", message(b"old"))
    stale = list(world.packets)
    world.flush()
    world.wait(1)
    world.boot("alpha")
    world.send("alpha", message(b"new"))
    world.wait(1)
    for packet in stale * 20:
        world.arrive(packet)
        world.packets.clear()
    world.send("beta", reply())
    world.send("alpha", message(b"still here"))
    world.wait(1)
    assert world.texts("alpha") == [b"hello back"]
    assert world.texts("beta") == [b"old", b"new", b"still here"]
    assert not world.events("alpha", "doubted")


@BOTH
def test_reflection(version):
    """A host's own messages, sent back to it, are not taken for the other end's."""
    world = World(version)
    world.open("beta", "alpha", "yuri")
    world.open("alpha", "beta", "alice", "xena")
    world.wait(1)
    world.send("alpha", message(b"boomerang", destination="xena"))
    packet = world.packets.pop()
    forged = packets.parse_frame(packet.payload)
    session = world.hosts["beta"].session
    world.arrive(Packet("beta", "alpha", packet.payload))
    world.arrive(Packet("beta", "alpha", replace(forged, session=session).clear_bytes()
                        + forged.sealed))
    assert not world.delivered["alpha"]


def test_downgrade():
    """1987: who encrypts trailers does not accept one in clear, or of the other kind."""
    world = World(OLD)
    world.open("alpha", "beta", "xena")
    world.wait(1)
    world.send("alpha", message())
    packet = world.packets.pop()
    frame = packets.parse_frame(packet.payload)
    for flags in (frame.flags & ~HeaderFlag.TRAILER, frame.flags | HeaderFlag.CHECKSUM):
        clear = replace(frame, flags=flags).clear_bytes()
        world.arrive(replace(packet, payload=clear + frame.sealed))
        assert world.events("beta", "dropped")[-1].fields["reason"] == (
            "protected less than we demand")
    assert not world.delivered["beta"]


@BOTH
def test_forged_resets(version):
    """Anybody can say that a channel is unknown: it costs a request now and then, no message."""
    world = World(version)
    world.send("alpha", message(b"0"))
    world.wait(5)
    before = world.public_key_operations("alpha")
    for number in range(1, 101):
        frame = packets.parse_frame(world.shipped[-1].effect.payload)
        current = world.hosts["alpha"]._peers["beta"].channels.current
        reset = replace(frame, kind=MessageKind.RESET, flags=0, count=0, channel=current.id,
                        sealed=b"",
                        request=b"", acknowledgement=b"", session=world.hosts["beta"].session)
        world.arrive(Packet("beta", "alpha", reset.clear_bytes()))
        world.send("alpha", message(b"%d" % number))
        world.wait(0.01)
    assert world.texts("beta") == [b"%d" % number for number in range(101)]
    # A second of resets: at most two requests, with the signatures on their channels.
    assert world.public_key_operations("alpha") - before <= 2 * 5


def test_signing_by_hand_is_an_oracle_only_in_1987():
    """1987: an owner signs whatever 16 bytes it is given; the signature verifies as raw RSA."""
    world = World(OLD, names=("alpha", "beta", "mid"))
    chosen = b"attack at dawn!!"
    signature = Mallory(world).lure(challenge=chosen)
    public = KEYS[OLD]["xena"].public
    value = pow(int.from_bytes(signature.value), public.exponent, public.modulus)
    assert value.to_bytes(16) == chosen

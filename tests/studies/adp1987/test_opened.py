"""Tests that channels of the modern protocol open with one end's ephemeral key, and only so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from adp_hosts import KEYS, MODERN, OLD, World, message
from measure.capture.pcap import CapturedFrame
from protocols.adp import packets
from protocols.adp.context import HostSettings
from protocols.adp.crypto import RsaPrivateKey
from protocols.adp.effects import EncryptionScope
from protocols.adp.packets import HEADER, HeaderFlag
from protocols.adp.suite import PrivateKey
from studies.adp1987.proof import captured_messages, decryption
from studies.adp1987.proof.captured_messages import CapturedHead, CapturedMessage
from studies.adp1987.proof.decryption import DecryptedCapture

TEXTS = [b"first", b"second", b"third"]


@dataclass
class Talk:
    """What alpha and beta sent, the ephemeral keys that one of them logged, and owners' files."""

    sent: list[CapturedMessage]
    secrets: dict[bytes, bytes]
    folder: Path

    def opened(self) -> DecryptedCapture:
        """What the judge makes of it."""
        return decryption.decrypt_capture(self.sent, "alpha", self.folder, self.secrets)

    def change(self, place: int, at: int) -> None:
        """A byte of a message is another one."""
        payload = bytearray(self.sent[place].payload)
        payload[at] ^= 1
        self.sent[place] = CapturedMessage(0.0, self.sent[place].source, bytes(payload),
                                           packets.parse_frame(bytes(payload)))


def talked(folder: Path, scope: EncryptionScope, host: str = "beta", *, rests_s: float = 5,
           version: str = MODERN, checksum: bool = False) -> Talk:
    """The key log is of `host`; `rests_s` before the last message."""
    world = World(version, HostSettings(scope=scope, queue=False, checksum=checksum))
    secrets: dict[bytes, bytes] = {}
    world.hosts[host].log_keys(secrets.__setitem__)
    for place, text in enumerate(TEXTS):
        if place == len(TEXTS) - 1:
            world.wait(rests_s)
        world.send("alpha", message(text))
        world.flush()
    world.wait(5)
    assert world.texts("beta") == TEXTS
    for name in ("xena", "yuri", "alice", "bob"):
        key = loaded(KEYS[version][name])
        (folder / f"{name}.pem").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        (folder / f"{name}.pub.pem").write_bytes(
            key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return Talk([CapturedMessage(shipped.at_s, shipped.host, shipped.effect.payload,
                                 packets.parse_frame(shipped.effect.payload))
                 for shipped in world.shipped], secrets, folder)


def loaded(key: PrivateKey) -> RSAPrivateKey | Ed25519PrivateKey:
    """A key that can be written to a file."""
    if not isinstance(key, RsaPrivateKey):
        return key
    public, d = key.public, pow(key.exponent, -1, (key.p - 1) * (key.q - 1))
    return RSAPrivateNumbers(
        key.p, key.q, d, d % (key.p - 1), d % (key.q - 1), pow(key.q, -1, key.p),
        RSAPublicNumbers(public.exponent, public.modulus)).private_key()


def said(capture: DecryptedCapture) -> list[bytes]:
    return [message.data for each in capture.messages if each.body
            for message in each.body.messages]


def places(talk: Talk, flag: int) -> list[int]:
    return [place for place, each in enumerate(talk.sent) if each.frame and each.frame.flags & flag]


@pytest.mark.parametrize("scope", [EncryptionScope.ALL, EncryptionScope.TRAILER])
@pytest.mark.parametrize("host", ["alpha", "beta"])
def test_a_channel_opens_with_either_ends_ephemeral_key(tmp_path: Path, scope: EncryptionScope,
                                                        host: str) -> None:
    """Every message, a signed handshake, and the owner's only signature, right under her key."""
    seen = talked(tmp_path, scope, host).opened()
    assert said(seen) == TEXTS and seen.spoilt == 0
    assert decryption.check_channel(seen).ok and decryption.check_owner(seen, tmp_path).ok
    [channel] = seen.channels
    [signature] = channel.signatures["xena"]
    [keys] = channel.keys.values()
    files = {name: tmp_path / f"{name}.pub.pem" for name in ("xena", "yuri")}
    assert not channel.is_signature("xena", signature, files["yuri"])
    assert not channel.is_signature("yuri", signature, files["xena"])
    assert not decryption.has_signed("xena", signature, bytes(32), files["xena"])
    assert decryption.has_signed("xena", signature, keys.transcript, files["xena"])


def test_a_channel_goes_on_with_its_next_keys(tmp_path: Path) -> None:
    """After two minutes they come of another exchange inside it; it is one channel all the same."""
    talk = talked(tmp_path, EncryptionScope.ALL, rests_s=200)
    seen = talk.opened()
    assert places(talk, HeaderFlag.REKEY)
    assert said(seen) == TEXTS and decryption.check_channel(seen).ok
    assert len(seen.channels[0].keys) == 2


@pytest.mark.parametrize("version", [OLD, MODERN])
def test_what_is_there_again_says_so(tmp_path: Path, version: str) -> None:
    """All that was sent is sent once more: it opens as before, and no signature counts twice."""
    talk = talked(tmp_path, EncryptionScope.ALL, version=version)
    seen = replace(talk, sent=[*talk.sent, *talk.sent]).opened()
    assert said(seen) == TEXTS * 2
    half = len(seen.messages) // 2
    assert [each.is_again for each in seen.messages] == [False] * half + [True] * half
    assert decryption.check_owner(seen, tmp_path).ok


def last_of_alphas(talk: Talk) -> int:
    """The place of her last message with user data."""
    return max(at for at, each in enumerate(talk.sent) if each.source == "alpha" and each.frame
               and each.frame.count)


def later(talk: Talk, start: int) -> list[CapturedHead]:
    """Heads of what alpha sent from a place on, as a capture has them."""
    header = b"\x45" + bytes(8) + bytes((captured_messages.PROTOCOL, 0, 0, 10, 9, 0, 1)) + bytes(4)
    frames = [CapturedFrame(0.0, bytes(12) + b"\x08\x00" + header + each.payload,
                            34 + len(each.payload))
              for each in talk.sent[start:] if each.source == "alpha"]
    return list(captured_messages.find_heads(frames, "10.9.0.1"))


@pytest.mark.parametrize("scope", [EncryptionScope.ALL, EncryptionScope.TRAILER])
@pytest.mark.parametrize("rests_s", [5, 200])
def test_later_phases_stay_on_their_channel(tmp_path: Path, scope: EncryptionScope,
                                            rests_s: float) -> None:
    """With its next keys, too, which it announces; not on another one, nor with another request."""
    talk = talked(tmp_path, scope, rests_s=rests_s)
    first = max(places(talk, HeaderFlag.ACKNOWLEDGE) if rests_s == 5 else [
        place for place in places(talk, HeaderFlag.ACKNOWLEDGE)
        if place not in places(talk, HeaderFlag.REKEY)]) + 4
    seen = replace(talk, sent=talk.sent[:first]).opened()
    heads = later(talk, first)
    assert heads and any(head.announced for head in heads) is (rests_s == 200)
    assert len({head.channel for head in heads}) == (2 if rests_s == 200 else 1)
    assert decryption.check_channel(seen, heads).ok
    assert decryption.check_owner(seen, tmp_path, heads).ok
    for other in (replace(heads[-1], channel=bytes(8)),
                  replace(heads[-1], flags=HeaderFlag.REQUEST)):
        assert not decryption.check_channel(seen, [*heads, other]).ok


@pytest.mark.parametrize(("scope", "is_seen"),
                         [(EncryptionScope.TRAILER, True), (EncryptionScope.ALL, False)])
def test_a_later_signature_is_seen_where_it_is_in_the_clear(tmp_path: Path, scope: EncryptionScope,
                                                            is_seen: bool) -> None:
    """Encrypted whole, only the opened capture has it."""
    talk = talked(tmp_path, scope)
    assert bool(sum(head.signatures for head in later(talk, 0))) is is_seen
    assert decryption.check_owner(talk.opened(), tmp_path, later(talk, 0)).ok is not is_seen


@pytest.mark.parametrize("scope", EncryptionScope)
@pytest.mark.parametrize("checksum", [False, True])
def test_a_channel_of_1987_opens_with_either_trailer(tmp_path: Path, scope: EncryptionScope,
                                                     checksum: bool) -> None:
    """Its judge computes checksums anew: under one, another body shows, under a number it does not.

    A trailer shows as it is where nothing is encrypted alone.
    """
    talk = talked(tmp_path, scope, version=OLD, checksum=checksum)
    seen = talk.opened()
    assert said(seen) == TEXTS and seen.spoilt == 0
    assert decryption.check_channel(seen).ok and decryption.check_owner(seen, tmp_path).ok
    assert {each.is_bare for each in seen.messages} == {scope is EncryptionScope.NONE}
    if scope is not EncryptionScope.ALL:
        talk.change(last_of_alphas(talk), -1 - 16)
        assert talk.opened().spoilt == checksum


@pytest.mark.parametrize(("flag", "at"), [
    (HeaderFlag.REQUEST, HEADER + 2 + 40), (HeaderFlag.ACKNOWLEDGE, HEADER + 2 + 40)])
def test_a_handshake_that_nobody_signed_is_seen(tmp_path: Path, flag: int, at: int) -> None:
    """One bit of a kernel owner's signature on the way, of either end's."""
    talk = talked(tmp_path, EncryptionScope.ALL)
    for place in places(talk, flag):
        talk.change(place, at)
    assert not decryption.check_channel(talk.opened()).ok


def test_what_was_exchanged_decides_the_keys(tmp_path: Path) -> None:
    """Another session number in the captured request, and nothing opens: no program is asked."""
    talk = talked(tmp_path, EncryptionScope.ALL)
    for place in places(talk, HeaderFlag.REQUEST):
        talk.change(place, 4 + 8)
    assert said(talk.opened()) == []


def test_without_its_keys_nothing_opens(tmp_path: Path) -> None:
    """Nor with a key of something else, nor where a byte was changed: that is spoilt."""
    talk = talked(tmp_path, EncryptionScope.ALL)
    assert said(replace(talk, secrets={}).opened()) == []
    other = dict.fromkeys(talk.secrets, bytes(range(32)))
    assert said(replace(talk, secrets=other).opened()) == []
    talk.change(last_of_alphas(talk), -1)
    seen = talk.opened()
    assert said(seen) == TEXTS[:-1] and seen.spoilt == 1

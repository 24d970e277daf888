"""Keys that EAP delivers, from messages made as RFC 2548 and IEEE 802.1X-2001 say, and damaged."""

from __future__ import annotations

import hashlib
import hmac
import struct

import pytest

from measure.packets import eap
from measure.packets.eap import SessionKey

SECRET, AUTHENTICATOR = b"a secret of two", bytes(range(16))
SESSION = SessionKey(bytes(range(32, 64)), bytes(range(64, 96)))
WEP_KEY = bytes(range(13))


def hidden(key: bytes, salt: bytes) -> bytes:
    """A key as RFC 2548 hides it."""
    plain = bytes([len(key)]) + key
    plain += bytes(-len(plain) % 16)
    before, value = AUTHENTICATOR + salt, b""
    for at in range(0, len(plain), 16):
        mask = hashlib.md5(SECRET + before, usedforsecurity=False).digest()
        before = bytes(a ^ b for a, b in zip(plain[at:at + 16], mask, strict=True))
        value += before
    return salt + value


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute of RADIUS."""
    return bytes([kind, 2 + len(value)]) + value


def radius(code: int, number: int, *attributes: bytes) -> bytes:
    """A message of RADIUS."""
    body = b"".join(attributes)
    return struct.pack("!BBH", code, number, 20 + len(body)) + AUTHENTICATOR + body


def accept(number: int = 7, session: SessionKey = SESSION) -> bytes:
    """An Access-Accept with a session's key, among other attributes."""
    keys = [attribute(26, struct.pack("!I", 311) + attribute(kind, hidden(key, salt)))
            for kind, key, salt in ((17, session.receive, b"\x80\x01"),
                                    (16, session.send, b"\x80\x02"))]
    return radius(2, number, attribute(1, b"mobile-node"), *keys, attribute(79, bytes(4)))


def key_frame(key: bytes, *, size: int = 13, session: SessionKey = SESSION) -> bytes:
    """An EAPOL-Key frame with a key, padded as short Ethernet frames are."""
    vector = bytes(range(16, 32))
    data = eap.rc4(vector + session.receive, key)
    frame = struct.pack("!BBHBHQ16sB16s", 1, 3, 44 + len(data), 1, size, 5, vector, 1,
                        bytes(16)) + data
    signature = hmac.digest(session.send, frame, "md5")
    return frame[:32] + signature + frame[48:] + bytes(3)


@pytest.mark.parametrize("sizes", [None, frozenset()], ids=["library", "own"])
@pytest.mark.parametrize(("key", "stream"), [
    # RFC 6229, section 2: the first 16 octets under keys of 40, 128 and 256 bits.
    ("0102030405", "b2396305f03dc027ccc3524a0a1118a8"),
    ("0102030405060708090a0b0c0d0e0f10", "9ac7cc9a609d1ef7b2932899cde41b97"),
    ("0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20",
     "eaa6bd25880bf93d3f5d1e4ca2611d91"),
])
def test_rc4_is_rc4(key: str, stream: str, sizes: frozenset[int] | None,
                    monkeypatch: pytest.MonkeyPatch) -> None:
    """By published test vectors, with the library and without it, as in the container image."""
    assert eap._library_rc4_bits() >= {64, 128}  # WEP's keys with their vectors
    if sizes is not None:
        monkeypatch.setattr(eap, "_library_rc4_bits", lambda: sizes)
    assert eap.rc4(bytes.fromhex(key), bytes(16)).hex() == stream


def test_the_session_key_is_in_the_accept() -> None:
    """Found by the request that it answers, each in its turn; halves are not mixed up."""
    other = SessionKey(bytes(32), bytes(range(32)))
    messages = [radius(1, 6), radius(11, 6), radius(1, 7), accept(), radius(1, 9),
                accept(9, other)]
    assert eap.session_keys(messages, SECRET) == [SESSION, other]


def test_a_session_is_of_the_station_that_was_asked_for() -> None:
    """By the request that the Access-Accept answers; "" where it named none."""
    messages = [radius(1, 6), radius(1, 7, attribute(31, b"02-00-00-00-5E-0A")), accept(),
                radius(1, 8), accept(8)]
    assert [session.station for session in eap.session_keys(messages, SECRET)] == [
        "02:00:00:00:5e:0a", ""]


def test_what_is_no_accept_with_keys_gives_none() -> None:
    """An unasked one, one without keys, a reject, and whatever is cut."""
    assert eap.session_keys([accept()], SECRET) == []
    assert eap.session_keys([radius(1, 7), radius(2, 7), radius(3, 7)], SECRET) == []
    whole = accept()
    for length in range(len(whole)):
        assert eap.session_keys([radius(1, 7), whole[:length]], SECRET) in ([], [SESSION])
    assert eap.session_keys([radius(1, 7), whole], b"another") != [SESSION]


def test_wep_keys_come_from_signed_frames() -> None:
    """A key that is sent, and one that is the session's own; each once, in order."""
    frames = [key_frame(WEP_KEY), key_frame(b""), key_frame(WEP_KEY)]
    assert eap.wep_keys(frames, [SESSION]) == [WEP_KEY, SESSION.receive[:13]]


def test_frames_that_are_altered_or_anothers_give_no_key() -> None:
    """Any octet of the frame, another session, another kind of frame, a frame that is cut."""
    frame = key_frame(WEP_KEY)
    for at in range(len(frame) - 3):
        altered = bytearray(frame)
        altered[at] ^= 1
        assert eap.wep_keys([bytes(altered)], [SESSION]) == [], at
        assert eap.wep_keys([frame[:at]], [SESSION]) == []
    assert eap.wep_keys([frame], [SessionKey(bytes(32), bytes(32))]) == []
    assert eap.wep_keys([frame], []) == []

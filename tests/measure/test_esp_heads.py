"""Heads of ESP packets: each opens under its key to a packet of its length, noise never."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

import made_up_captures
from measure.capture import pcap
from measure.packets import truncated_frames

SPI, KEY, SALT = 0x0A0B0C0D, bytes(range(32)), b"salt"
#: A datagram's packet, and what UDP has of the stream's.
INNER = made_up_captures.datagram(1428, "10.1.0.12", "10.1.0.1")
DATAGRAM = struct.pack("!HHHH", 40_000, 5201, 1408, 0) + bytes(1400)
SNAP = 192


def padded(text: bytes, block: int, protocol: int = 4) -> bytes:
    """A text with ESP's trailer, to a whole number of blocks."""
    size = -(len(text) + 2) % block
    return text + bytes(range(1, size + 1)) + bytes((size, protocol))


def chained(text: bytes, algorithm: TripleDES | algorithms.AES, block: int) -> bytes:
    """A body under CBC, with a check of 12 bytes."""
    vector = os.urandom(block)
    tool = Cipher(algorithm, modes.CBC(vector)).encryptor()
    return vector + tool.update(padded(text, block)) + bytes(12)


def sealed(text: bytes, tool: AESGCM | ChaCha20Poly1305) -> bytes:
    """A body of a cipher with a check of its own."""
    vector = os.urandom(8)
    return vector + tool.encrypt(SALT + vector, padded(text, 4), b"")


def key(name: str, secret: bytes, mode: str = "tunnel") -> dict[str, str]:
    """What the kernel says of an association."""
    said = {"spi": f"0x{SPI:08x}", "mode": mode, "enc": name, "enc_key": secret.hex()}
    return said | ({"auth": "hmac(sha1)", "auth_bits": "96"} if name.startswith("cbc") else {})


CIPHERS = {
    "3DES": (lambda text: chained(text, TripleDES(KEY[:24]), 8), ("cbc(des3_ede)", KEY[:24])),
    "AES-128": (lambda text: chained(text, algorithms.AES(KEY[:16]), 16), ("cbc(aes)", KEY[:16])),
    "AES-256": (lambda text: chained(text, algorithms.AES(KEY), 16), ("cbc(aes)", KEY)),
    "GCM": (lambda text: sealed(text, AESGCM(KEY)), ("rfc4106(gcm(aes))", KEY + SALT)),
    "ChaCha20": (lambda text: sealed(text, ChaCha20Poly1305(KEY)),
                 ("rfc7539esp(chacha20,poly1305)", KEY + SALT))}


def verified(file: Path, body: bytes, said: dict[str, str], *, spi: int = SPI,
             flags: int = 0) -> tuple[int, int]:
    """How many heads open, and how many do not, of a capture with this packet."""
    text = struct.pack("!II", spi, 7) + body
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(text), 9, flags, 64, 50, 0) + bytes(8)
    frame = bytes(12) + b"\x08\0" + head + text
    pcap.write_frames(file, [pcap.CapturedFrame(1.0, frame[:SNAP], len(frame))])
    found = truncated_frames.verify_esp_heads([file, file.with_name("none.pcap")], [said])
    return found.opened, found.closed


@pytest.mark.parametrize("name", CIPHERS)
def test_head_opens_under_the_kernels_key_and_no_other(tmp_path: Path, name: str) -> None:
    """And under no other, nor for another association."""
    encrypt, (kind, secret) = CIPHERS[name]
    file = tmp_path / "wire.pcap"
    assert verified(file, encrypt(INNER), key(kind, secret)) == (1, 0)
    assert verified(file, encrypt(INNER), key(kind, secret[::-1])) == (0, 1)
    assert verified(file, encrypt(INNER), key(kind, secret), spi=1) == (0, 1)


@pytest.mark.parametrize("mode", ["tunnel", "transport"])
@pytest.mark.parametrize("name", CIPHERS)
@pytest.mark.parametrize("noise", [bytes(1500), b"\x5a" * 1500, INNER + bytes(80)],
                         ids=["zeros", "constant", "clear"])
def test_noise_opens_under_no_key(tmp_path: Path, name: str, noise: bytes, mode: str) -> None:
    """Of a right length and number."""
    encrypt, (kind, secret) = CIPHERS[name]
    body = encrypt(INNER)
    fake = body[:8] + noise[:len(body) - 8]
    assert verified(tmp_path / "wire.pcap", fake, key(kind, secret, mode)) == (0, 1)


@pytest.mark.parametrize("name", CIPHERS)
def test_packet_of_another_length_is_none(tmp_path: Path, name: str) -> None:
    """What is inside is as long as the packet around it has room for."""
    encrypt, (kind, secret) = CIPHERS[name]
    assert verified(tmp_path / "wire.pcap", encrypt(INNER + bytes(20)),
                    key(kind, secret)) == (0, 1)


@pytest.mark.parametrize("name", CIPHERS)
def test_transport_mode_shows_the_streams_port(tmp_path: Path, name: str) -> None:
    """No header of IP is inside there; in tunnel mode one has to be."""
    encrypt, (kind, secret) = CIPHERS[name]
    file = tmp_path / "wire.pcap"
    assert verified(file, encrypt(DATAGRAM), key(kind, secret, "transport")) == (1, 0)
    assert verified(file, encrypt(DATAGRAM), key(kind, secret)) == (0, 1)
    other = DATAGRAM[:2] + b"\0\7" + DATAGRAM[4:]
    assert verified(file, encrypt(other), key(kind, secret, "transport")) == (0, 1)


def test_cipher_that_encrypts_nothing_opens_nothing(tmp_path: Path) -> None:
    """What is readable is no tunnel's packet, whatever the kernels agreed on."""
    said = {**key("ecb(cipher_null)", b""), "auth": "hmac(sha1)", "auth_bits": "96"}
    assert verified(tmp_path / "wire.pcap", padded(INNER, 4) + bytes(12), said) == (0, 1)


def test_later_fragments_have_no_head(tmp_path: Path) -> None:
    """Of a packet in fragments the first one's head is opened alone, whose length tells nothing."""
    encrypt, (kind, secret) = CIPHERS["3DES"]
    file = tmp_path / "wire.pcap"
    assert verified(file, encrypt(INNER), key(kind, secret), flags=0x00B9) == (0, 0)
    assert verified(file, encrypt(INNER)[:1000], key(kind, secret), flags=0x2000) == (1, 0)


@pytest.mark.parametrize("name", ["3DES", "AES-128", "AES-256", "GCM"])
def test_openssl_does_where_the_library_lacks(tmp_path: Path, name: str,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the container image."""
    encrypt, (kind, secret) = CIPHERS[name]
    body = encrypt(INNER)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    assert verified(tmp_path / "wire.pcap", body, key(kind, secret)) == (1, 0)


def in_ipv6(body: bytes) -> bytes:
    """An IPv6 packet with ESP."""
    payload = struct.pack("!II", SPI, 7) + body
    return b"\x60\0\0\0" + struct.pack("!HBB", len(payload), 50, 64) + OUTSIDE + payload


OUTSIDE = bytes.fromhex("fd716f700a010000000000fffe00a200fd716f700a0100000000000000000001")
INSIDE = b"\x60\0\0\0" + struct.pack("!HBB", 1408, 17, 64) + OUTSIDE + DATAGRAM


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize(("inside", "version", "mode", "is_open"), [
    (INSIDE, 6, "tunnel", True), (INSIDE, 4, "tunnel", False), (INNER, 6, "tunnel", False),
    (INNER, 4, "tunnel", True), (INSIDE[:5] + b"\1" + INSIDE[6:], 6, "tunnel", False),
    (INSIDE[:8] + bytes(4) + INSIDE[12:], 6, "tunnel", False), (DATAGRAM, 6, "transport", True),
    (DATAGRAM, 4, "transport", False)],
    ids=["right", "another version is expected", "IPv4 inside", "IPv4 inside is expected",
         "length", "prefix", "transport mode", "transport mode is of the outer version"])
def test_ipv6_head_of_an_esp_packet_opens_to_the_version_inside(
        tmp_path: Path, cipher: str, inside: bytes, version: int, mode: str,
        is_open: bool) -> None:
    """In ESP over IPv6, whose header has no checksum; length and prefix decide."""
    encrypt, (name, secret) = CIPHERS[cipher]
    packet = bytes(12) + b"\x86\xdd" + in_ipv6(encrypt(inside))
    file = tmp_path / "wire.pcap"
    pcap.write_frames(file, [pcap.CapturedFrame(1.0, packet[:SNAP], len(packet))])
    found = truncated_frames.verify_esp_heads([file], [key(name, secret, mode)], version)
    assert (found.opened, found.closed) == ((1, 0) if is_open else (0, 1))

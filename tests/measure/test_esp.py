"""ESP opens with the keys that a kernel had, whole or cut short, and with no others."""

from __future__ import annotations

import struct

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from measure.agent import kernel_state
from measure.capture.pcap import CapturedFrame
from measure.packets import esp

_ETHERNET = b"\0" * 12 + b"\x08\0"
_KEY = bytes(range(24))
INNER = (bytes([0x45, 0]) + struct.pack("!HIBBH", 128, 0, 64, 17, 0)
         + bytes([10, 0, 0, 2, 10, 0, 1, 2]) + struct.pack("!HHHH", 5000, 4001, 108, 0)
         + b"x" * 100)
STATES = """src 10.1.0.1 dst 10.1.0.12
\tproto esp spi 0x0a0b0c0d reqid 1 mode tunnel
\treplay-window 0 flag af-unspec
\tauth-trunc hmac(sha1) 0x00 96
\tenc {name} 0x{key}
src 10.1.0.12 dst 10.1.0.1
\tproto esp spi 0x01020304 reqid 1 mode tunnel
\taead rfc4106(gcm(aes)) 0x{salted} 128
"""


def keys(name: str, key: bytes, salted: bytes = b"") -> list[dict[str, str]]:
    """What the kernel would say of two SAs."""
    return kernel_state.parse_xfrm_keys(STATES.format(name=name, key=key.hex(),
                                                      salted=salted.hex()))


def carried(spi: int, body: bytes) -> CapturedFrame:
    """A frame with an ESP packet."""
    packet = struct.pack("!II", spi, 7) + body
    head = bytes([0x45, 0]) + struct.pack("!HIBBH", 20 + len(packet), 0, 64, 50, 0)
    data = _ETHERNET + head + bytes([10, 1, 0, 1, 10, 1, 0, 12]) + packet
    return CapturedFrame(1.5, data, len(data))


@pytest.mark.parametrize(("name", "algorithm", "size"), [
    ("cbc(des3_ede)", TripleDES(_KEY), 8), ("cbc(aes)", algorithms.AES(_KEY), 16)])
def test_a_tunnels_packet_opens(name: str, algorithm: TripleDES | algorithms.AES,
                                size: int) -> None:
    """To the byte; of one that was cut short, as many whole blocks as there are."""
    vector = b"v" * size
    cipher = Cipher(algorithm, modes.CBC(vector)).encryptor()
    frame = carried(0x0A0B0C0D, vector + cipher.update(INNER) + b"integrity..." * 2)
    [seen] = esp.decrypt_esp_frames([frame], keys(name, _KEY))
    assert (seen.at_s, seen.kind, seen.payload[:len(INNER)]) == (1.5, 0x0800, INNER)
    cut = CapturedFrame(1.5, frame.data[:14 + 20 + 8 + size + 70], frame.wire_bytes)
    [seen] = esp.decrypt_esp_frames([cut], keys(name, _KEY))
    assert seen.payload == INNER[:64]


def test_an_aeads_packet_opens() -> None:
    """Counted from the block after the tag's, with the salt that ends the key."""
    salted = _KEY[:16] + b"salt"
    body = b"8 octets" + AESGCM(salted[:16]).encrypt(b"salt8 octets", INNER, b"")
    [seen] = esp.decrypt_esp_frames([carried(0x01020304, body)], keys("cbc(aes)", _KEY, salted))
    assert seen.payload[:len(INNER)] == INNER


def test_what_no_key_opens_stays_as_it_is() -> None:
    """Another SA's, another key's, and what is no ESP."""
    cipher = Cipher(TripleDES(_KEY), modes.CBC(b"v" * 8)).encryptor()
    body = b"v" * 8 + cipher.update(INNER)
    known = keys("cbc(des3_ede)", _KEY)
    for frame, held in ((carried(0x99, body), known),
                        (carried(0x0A0B0C0D, body), keys("cbc(des3_ede)", _KEY[::-1])),
                        (CapturedFrame(1.5, _ETHERNET + INNER, 142), known)):
        assert list(esp.decrypt_esp_frames([frame], held)) == [frame]

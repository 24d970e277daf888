"""Decrypt ESP packets in captured frames, with keys that were read from the nodes' kernels.

`decrypt_esp_frames` takes frames and keys, and yields the frames with the inner packets in place of
the ESP packets. Studies whose own programs communicate through an IPsec tunnel use it, because a
capture on a node shows the packets in the tunnel only encrypted. Packets without a matching key are
left as they are. Truncated packets are decrypted as far as they go, so integrity is not checked
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from measure.capture import pcap
from measure.capture.pcap import CapturedFrame

_ETHERNET_BYTES, _IPV4 = 14, 0x0800
_ESP, _UDP = 50, 17
_SPI_AND_NUMBER_BYTES, _COUNTER_IV_BYTES, _SALT_BYTES = 8, 8, 4
#: CBC ciphers by the kernel's names, with the length of their initialisation vector (bytes).
_BLOCKS = {"cbc(des3_ede)": (TripleDES, 8), "cbc(aes)": (algorithms.AES, 16)}
_COUNTED = "rfc4106(gcm(aes))"
#: Counter of GCM's first block of text.
_FIRST = b"\0\0\0\2"


def decrypt_esp_frames(frames: Iterable[CapturedFrame],
                       keys: Sequence[Mapping[str, str]]) -> Iterator[CapturedFrame]:
    """Yield frames in which ESP packets are replaced by the decrypted inner packets.

    Packets without a matching key stay as they are. Fragments are reassembled first; of a truncated
    one, only the first fragment's start is decrypted.

    Args:
        frames: Ethernet frames.
        keys: Keys of `kernel_state.xfrm_keys`.
    """
    by_spi = {int(key["spi"], 16): key for key in keys}
    for frame in pcap.join_fragments(frames, _ESP):
        packet = pcap.unwrap_esp(frame.payload)
        if frame.kind != _IPV4 or len(packet) < 20 or packet[9] != _ESP:
            yield frame
            continue
        start = (packet[0] & 15) * 4
        key = by_spi.get(int.from_bytes(packet[start:start + 4], "big"))
        inner = _decrypt_body(packet[start + _SPI_AND_NUMBER_BYTES:], key) if key else b""
        if key and inner and key.get("mode") != "tunnel":
            # Transport mode: the transport header follows. Only the trailer has its protocol
            # number.
            inner = packet[:9] + bytes((_UDP,)) + packet[10:start] + inner
        is_packet = inner[:1] == b"\x45" and len(inner) > 20
        yield replace(frame, data=frame.data[:_ETHERNET_BYTES] + inner) if is_packet else frame


def _decrypt_body(body: bytes, key: Mapping[str, str]) -> bytes:
    """Return the decrypted content of an ESP packet, or b"" for unknown ciphers.

    A truncated packet is decrypted as far as it goes.
    """
    secret = bytes.fromhex(key.get("enc_key", ""))
    name = key.get("enc", "")
    if name in _BLOCKS:
        algorithm, size = _BLOCKS[name]
        text = body[size:size + (len(body) - size) // size * size]
        mode: modes.Mode = modes.CBC(body[:size])
    elif name == _COUNTED:
        text = body[_COUNTER_IV_BYTES:]
        algorithm, mode = algorithms.AES, modes.CTR(
            secret[-_SALT_BYTES:] + body[:_COUNTER_IV_BYTES] + _FIRST)
        secret = secret[:-_SALT_BYTES]
    else:
        return b""
    if len(text) < 1:
        return b""
    cipher: Cipher[Any] = Cipher(algorithm(secret), mode)
    decryptor = cipher.decryptor()
    return decryptor.update(text) + decryptor.finalize()

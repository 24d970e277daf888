"""Guess a WPA passphrase from a captured four-way handshake, as an eavesdropper could.

`find_handshakes` finds the handshakes in a capture. `guess_passphrase` takes them with a list of
words and the SSID, and returns the word that is the passphrase. The second message has a MIC under
a key that is derived from the passphrase (IEEE 802.11-2020, 12.7.1). A guess that yields the same
MIC is right. With a key exchange (SAE, OWE) the keys do not follow from the passphrase, so guessing
fails. With fast transition they also follow from names of access points, which are not tried here.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from measure.capture.pcap import EAPOL, CapturedFrame
from measure.packets.ciphers import PAIRWISE_LABEL, compute_cmac, expand_kdf, expand_sha1

_KEY = 3
_ITERATIONS, _KEY_BYTES, _CHECK_BYTES = 4096, 32, 16
_NONCE, _CHECK = slice(17, 49), slice(81, 97)
_LEAST_BYTES = 99
#: Low byte of the key information, with the version that says how the MIC is made.
_INFORMATION, _VERSION = 6, 7
#: Hash of the MIC by version: TKIP's, and that of CCMP with SHA-1. Others have AES-CMAC.
_HASHES = {1: "md5", 2: "sha1"}
#: Length of the key of the MIC, and of all keys of a handshake with ciphers of 128 and 256 bits.
_MIC_KEY_BYTES, _ALL_KEYS_BYTES = 16, (48, 64)


@dataclass(frozen=True)
class Handshake:
    """The parts of a captured four-way handshake that are needed to check a passphrase.

    These are the addresses, the nonces and the second message. The access point's address and nonce
    come first.
    """

    addresses: tuple[bytes, bytes]
    nonces: tuple[bytes, bytes]
    message: bytes

    def is_made_with(self, passphrase: str, ssid: str) -> bool:
        """Return whether a passphrase and SSID yield the MIC of this handshake."""
        master = master_key(passphrase, ssid)
        seed = b"".join((*sorted(self.addresses), *sorted(self.nonces)))
        blank = self.message[:_CHECK.start] + bytes(_CHECK_BYTES) + self.message[_CHECK.stop:]
        if digest := _HASHES.get(self.message[_INFORMATION] & _VERSION):
            key = expand_sha1(master, PAIRWISE_LABEL, seed, _MIC_KEY_BYTES)
            mics = [hmac.digest(key, blank, digest)[:_CHECK_BYTES]]
        else:
            keys = (expand_kdf(master, PAIRWISE_LABEL, seed, size, "sha256")
                    for size in _ALL_KEYS_BYTES)
            mics = [compute_cmac(key[:_MIC_KEY_BYTES], blank) for key in keys]
        return any(hmac.compare_digest(mic, self.message[_CHECK]) for mic in mics)


def master_key(passphrase: str, ssid: str) -> bytes:
    """Return the pairwise master key (PMK) that follows from a passphrase and an SSID."""
    return hashlib.pbkdf2_hmac("sha1", passphrase.encode(), ssid.encode(), _ITERATIONS, _KEY_BYTES)


def find_handshakes(frames: Iterable[CapturedFrame]) -> Iterator[Handshake]:
    """Yield the first two messages of each four-way handshake in a capture."""
    first: dict[bytes, CapturedFrame] = {}
    for frame in frames:
        payload, target, source = frame.payload, frame.data[:6], frame.data[6:12]
        if frame.kind != EAPOL or len(payload) < _LEAST_BYTES or payload[1] != _KEY:
            continue
        if not any(payload[_CHECK]):
            first[source + target] = frame
        elif target + source in first:
            length = 4 + int.from_bytes(payload[2:4], "big")
            yield Handshake((target, source), (first.pop(target + source).payload[_NONCE],
                                               payload[_NONCE]), payload[:length])


def guess_passphrase(recorded: Sequence[Handshake], words: Iterable[str], ssid: str) -> str:
    """Return the first of these words that is the passphrase of a handshake, or ""."""
    return next((word for word in words
                 if any(each.is_made_with(word, ssid) for each in recorded)), "")

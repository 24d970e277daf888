"""Guess a passphrase from a recorded four-way handshake, as an eavesdropper could.

The second message has a MIC under a key that is derived from the passphrase (IEEE 802.11-2020,
12.7.1). A guess that yields the same MIC is right. No guess leads to keys of a key exchange (SAE,
OWE).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from measure.pcap import CapturedFrame

_EAPOL, _KEY = 0x888E, 3
_ITERATIONS, _KEY_BYTES, _CHECK_BYTES = 4096, 32, 16
_NONCE, _CHECK = slice(17, 49), slice(81, 97)
_LEAST_BYTES = 99


@dataclass(frozen=True)
class Handshake:
    """The data for checking a guess: addresses, nonces and the second message.

    The access point's address and nonce come first.
    """

    addresses: tuple[bytes, bytes]
    nonces: tuple[bytes, bytes]
    message: bytes

    def is_made_with(self, passphrase: str, ssid: str) -> bool:
        """Return whether the message's MIC results from a passphrase and an SSID."""
        master = master_key(passphrase, ssid)
        seed = b"".join((*sorted(self.addresses), *sorted(self.nonces)))
        key = hmac.digest(master, b"Pairwise key expansion\0" + seed + b"\0", "sha1")[:16]
        blank = self.message[:_CHECK.start] + bytes(_CHECK_BYTES) + self.message[_CHECK.stop:]
        made = hmac.digest(key, blank, "sha1")[:_CHECK_BYTES]
        return hmac.compare_digest(made, self.message[_CHECK])


def master_key(passphrase: str, ssid: str) -> bytes:
    """Return the pairwise master key of a passphrase and an SSID."""
    return hashlib.pbkdf2_hmac("sha1", passphrase.encode(), ssid.encode(), _ITERATIONS, _KEY_BYTES)


def find_handshakes(frames: Iterable[CapturedFrame]) -> Iterator[Handshake]:
    """Yield the first two messages of each four-way handshake of a capture."""
    first: dict[bytes, CapturedFrame] = {}
    for frame in frames:
        said, target, source = frame.payload, frame.data[:6], frame.data[6:12]
        if frame.kind != _EAPOL or len(said) < _LEAST_BYTES or said[1] != _KEY:
            continue
        if not any(said[_CHECK]):
            first[source + target] = frame
        elif target + source in first:
            length = 4 + int.from_bytes(said[2:4], "big")
            yield Handshake((target, source), (first.pop(target + source).payload[_NONCE],
                                               said[_NONCE]), said[:length])


def guess_passphrase(recorded: Sequence[Handshake], words: Iterable[str], ssid: str) -> str:
    """Return the first of these words that fits a handshake, or ""."""
    return next((word for word in words
                 if any(each.is_made_with(word, ssid) for each in recorded)), "")

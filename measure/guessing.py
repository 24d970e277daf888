"""A passphrase is guessed from a recorded four-way handshake, as whoever listened could.

The handshake's second message bears a check under a key that the passphrase leads to (IEEE
802.11-2020, 12.7.1): a guess that makes the same check is right. Of keys that come of an exchange
(SAE, OWE), no guess leads to them.
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
    """What a guess is checked against: both addresses and nonces, and the second message.

    The access point's come first.
    """

    addresses: tuple[bytes, bytes]
    nonces: tuple[bytes, bytes]
    message: bytes

    def is_made_with(self, passphrase: str, ssid: str) -> bool:
        """Whether the message's check is that of a passphrase in a network of this name."""
        master = master_key(passphrase, ssid)
        seed = b"".join((*sorted(self.addresses), *sorted(self.nonces)))
        key = hmac.digest(master, b"Pairwise key expansion\0" + seed + b"\0", "sha1")[:16]
        blank = self.message[:_CHECK.start] + bytes(_CHECK_BYTES) + self.message[_CHECK.stop:]
        made = hmac.digest(key, blank, "sha1")[:_CHECK_BYTES]
        return hmac.compare_digest(made, self.message[_CHECK])


def master_key(passphrase: str, ssid: str) -> bytes:
    """Return the pairwise master key of a passphrase in a network of this name."""
    return hashlib.pbkdf2_hmac("sha1", passphrase.encode(), ssid.encode(), _ITERATIONS, _KEY_BYTES)


def handshakes(frames: Iterable[CapturedFrame]) -> Iterator[Handshake]:
    """The first two messages of each four-way handshake of a capture."""
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


def guessed(recorded: Sequence[Handshake], words: Iterable[str], ssid: str) -> str:
    """The first of these words that a handshake was made with; "" if none was."""
    return next((word for word in words
                 if any(each.is_made_with(word, ssid) for each in recorded)), "")

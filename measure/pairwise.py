"""Derive pairwise temporal keys from master keys and the four-way handshakes of captures."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import guessing, pcap
from measure.guessing import Handshake
from policies import LinkLayer

_LABEL, _SHA1_BYTES = b"Pairwise key expansion", 20
#: Bytes of the KCK and KEK, which come before the temporal key, by hash (IEEE 802.11-2020, table
#: 12-8).
_BEFORE = {"sha1": 32, "sha256": 32, "sha384": 56}
#: Length of a temporal key by cipher; TKIP's includes two Michael keys.
_KEY_BYTES = {"TKIP": 32, "CCMP": 16, "GCMP": 16, "CCMP-256": 32, "GCMP-256": 32}


@dataclass(frozen=True)
class TemporalKey:
    """A temporal key, and its station's address (b"" if unknown)."""

    key: bytes
    station: bytes = b""


def temporal_keys(layer: LinkLayer, keys: Sequence[str],
                  captures: Iterable[Path]) -> list[TemporalKey]:
    """Return the temporal keys that may apply, from the keys of `decryption`.

    Keys from kernels are taken as they are. Master keys and passphrases yield one key for each
    handshake of a station.

    Raises:
        MeasureError: A capture cannot be read.
    """
    told = [TemporalKey(bytes.fromhex(value)) for kind, _, value in map(_split_key, keys)
            if kind in ("tk", "wep")]
    masters = [master for key in keys if (master := _pairwise_master_key(key))]
    shaken = [shake for file in captures if file.exists()
              for shake in guessing.find_handshakes(pcap.read_frames(file))] if masters else []
    derived = [TemporalKey(_derive_temporal_key(layer, master, shake), shake.addresses[1])
               for shake in shaken for master in masters]
    return list(dict.fromkeys((*told, *derived)))


def _split_key(key: str) -> tuple[str, str, str]:
    return key.partition(":")


def _pairwise_master_key(key: str) -> bytes:
    """Return the pairwise master key of a key or passphrase, or b"" for other kinds."""
    kind, _, value = _split_key(key)
    if kind == "wpa-pwd":
        passphrase, _, ssid = value.rpartition(":")
        return guessing.master_key(passphrase, ssid)
    return bytes.fromhex(value) if kind == "wpa-psk" else b""


def _derive_temporal_key(layer: LinkLayer, master: bytes, shake: Handshake) -> bytes:
    digest = {"sha256": "sha256", "suite-b-192": "sha384"}.get(layer.akm or "", "sha1")
    begin, size = _BEFORE[digest], _KEY_BYTES[layer.cipher]
    seed = b"".join((*sorted(shake.addresses), *sorted(shake.nonces)))
    made = expand_sha1(master, _LABEL, seed, begin + size) if digest == "sha1" else expand_kdf(
        master, _LABEL, seed, begin + size, digest)
    return made[begin:]


def expand_sha1(master: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """Return `size` bytes of the PRF (IEEE 802.11-2020, 12.7.1.2)."""
    return b"".join(hmac.digest(master, label + b"\0" + seed + bytes((number,)), "sha1")
                    for number in range(-(-size // _SHA1_BYTES)))[:size]


def expand_kdf(master: bytes, label: bytes, seed: bytes, size: int, digest: str) -> bytes:
    """Return `size` bytes of the KDF with a hash (12.7.1.6.2)."""
    bits = (size * 8).to_bytes(2, "little")
    return b"".join(hmac.digest(master, number.to_bytes(2, "little") + label + seed + bits, digest)
                    for number in range(1, 1 - (-size // hashlib.new(digest).digest_size)))[:size]

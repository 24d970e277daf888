"""The modern protocol's handshake is worked out anew: signatures, transcript and keys.

From the captured request and acknowledgement, the hosts' names, the kernel owners' published keys,
and one end's ephemeral private key, which is all that a program is asked for. Nothing here is the
program's own code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from protocols.adp.packets import Frame

#: Initiator and acceptor: host, and who has booted it.
ENDS = (("alpha", "alice"), ("beta", "bob"))
_KEY_BYTES, _CHANNEL_BYTES = 32, 8


@dataclass(frozen=True)
class ChannelKeys:
    """Keys of a channel by who seals with them; `are_signed`: both kernel owners have signed."""

    transcript: bytes
    are_signed: bool
    to_acceptor: ChaCha20Poly1305 = field(repr=False)
    to_initiator: ChaCha20Poly1305 = field(repr=False)
    chain: bytes = field(repr=False)


def first(request: Frame, answer: Frame, secrets: Mapping[bytes, bytes],
          folder: Path) -> ChannelKeys | None:
    """The keys that a handshake leads to; None where neither end's ephemeral key is known.

    `secrets` are ephemeral private keys by their public halves, `folder` has the owners' keys.
    """
    asked, asked_signature = request.request[:_KEY_BYTES], request.request[_KEY_BYTES:]
    given, given_signature = (answer.acknowledgement[:_KEY_BYTES],
                              answer.acknowledgement[_KEY_BYTES:])
    names = b"".join(bytes([len(name)]) + name.encode() for end in ENDS for name in end)
    asking = b"adp/2 request" + request.channel + request.session + asked + names
    answering = b"adp/2 acknowledgement" + answer.session + given + asking
    shared = _shared(given, asked, secrets)
    if shared is None:
        return None
    transcript = hashlib.sha256(answering).digest()
    are_signed = (_is_signed(_published(folder, ENDS[0][1]), asked_signature, asking)
                  and _is_signed(_published(folder, ENDS[1][1]), given_signature, answering))
    return _derived(shared, transcript, b"adp/2 keys", transcript, are_signed=are_signed)


def following(keys: ChannelKeys, request: bytes, answer: bytes,
              secrets: Mapping[bytes, bytes]) -> ChannelKeys | None:
    """The next keys, of an exchange inside the channel; None where no ephemeral key is known."""
    asked, given = request[_CHANNEL_BYTES:], answer[_CHANNEL_BYTES:]
    shared = _shared(given, asked, secrets)
    return None if shared is None else _derived(
        shared, keys.chain, b"adp/2 rekey" + request + answer, keys.transcript,
        are_signed=keys.are_signed)


def has_signed(owner: str, signature: bytes, transcript: bytes, key: Path) -> bool:
    """Whether an owner of the initiator's has signed the channel of this transcript."""
    public: Any = load_pem_public_key(key.read_bytes())
    return _is_signed(public, signature, b"adp/2 owner" + transcript + b"\x01" + owner.encode())


def _shared(given: bytes, asked: bytes, secrets: Mapping[bytes, bytes]) -> bytes | None:
    """What both ends share: of either's private key, which has to be of the captured public one."""
    for ours, theirs in ((given, asked), (asked, given)):
        private = X25519PrivateKey.from_private_bytes(secrets[ours]) if ours in secrets else None
        if private is not None and private.public_key().public_bytes_raw() == ours:
            return private.exchange(X25519PublicKey.from_public_bytes(theirs))
    return None


def _derived(shared: bytes, salt: bytes, purpose: bytes, transcript: bytes, *,
             are_signed: bool) -> ChannelKeys:
    derived = HKDF(SHA256(), 3 * _KEY_BYTES, salt, purpose).derive(shared)
    to_acceptor, to_initiator, chain = (derived[at:at + _KEY_BYTES]
                                        for at in range(0, len(derived), _KEY_BYTES))
    return ChannelKeys(transcript, are_signed, ChaCha20Poly1305(to_acceptor),
                       ChaCha20Poly1305(to_initiator), chain)


def _published(folder: Path, owner: str) -> Any:
    """An owner's public key, of its own file or of its private key's."""
    public = folder / f"{owner}.pub.pem"
    if public.exists():
        return load_pem_public_key(public.read_bytes())
    return load_pem_private_key((folder / f"{owner}.pem").read_bytes(), None).public_key()


def _is_signed(key: Any, signature: bytes, text: bytes) -> bool:
    try:
        key.verify(signature, text)
    except InvalidSignature:
        return False
    return True

"""Recompute the handshake of the modern protocol: signatures, transcript and keys.

The input is the captured request and acknowledgement, the hosts' names, the kernel owners'
published keys, and the ephemeral private key of one end. Only this private key comes from a
program, and no code of the programs is used here.
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

#: Initiator and acceptor: name of the host and of its kernel owner.
ENDS = (("alpha", "alice"), ("beta", "bob"))
_KEY_BYTES, _CHANNEL_BYTES = 32, 8


@dataclass(frozen=True)
class ChannelKeys:
    """The keys of a channel by sender.

    `are_signed`: both kernel owners signed the handshake.
    """

    transcript: bytes
    are_signed: bool
    to_acceptor: ChaCha20Poly1305 = field(repr=False)
    to_initiator: ChaCha20Poly1305 = field(repr=False)
    chain: bytes = field(repr=False)


def derive_first_keys(request: Frame, answer: Frame, secrets: Mapping[bytes, bytes],
                      folder: Path) -> ChannelKeys | None:
    """Return the first keys of a channel, None if neither end's ephemeral key is known.

    Args:
        request: The captured request for the channel.
        answer: The captured acknowledgement.
        secrets: Ephemeral private keys by their public keys.
        folder: Folder with the owners' key files.
    """
    asked, asked_signature = request.request[:_KEY_BYTES], request.request[_KEY_BYTES:]
    given, given_signature = (answer.acknowledgement[:_KEY_BYTES],
                              answer.acknowledgement[_KEY_BYTES:])
    names = b"".join(bytes([len(name)]) + name.encode() for end in ENDS for name in end)
    asking = b"adp/2 request" + request.channel + request.session + asked + names
    answering = b"adp/2 acknowledgement" + answer.session + given + asking
    shared = _shared_secret(given, asked, secrets)
    if shared is None:
        return None
    transcript = hashlib.sha256(answering).digest()
    are_signed = (_is_signed(_read_public_key(folder, ENDS[0][1]), asked_signature, asking)
                  and _is_signed(_read_public_key(folder, ENDS[1][1]), given_signature, answering))
    return _derive_keys(shared, transcript, b"adp/2 keys", transcript, are_signed=are_signed)


def derive_next_keys(keys: ChannelKeys, request: bytes, answer: bytes,
                     secrets: Mapping[bytes, bytes]) -> ChannelKeys | None:
    """Return a channel's next keys, None if neither end's ephemeral key is known.

    Their key exchange is inside the channel.
    """
    asked, given = request[_CHANNEL_BYTES:], answer[_CHANNEL_BYTES:]
    shared = _shared_secret(given, asked, secrets)
    return None if shared is None else _derive_keys(
        shared, keys.chain, b"adp/2 rekey" + request + answer, keys.transcript,
        are_signed=keys.are_signed)


def has_signed(owner: str, signature: bytes, transcript: bytes, key: Path) -> bool:
    """Return whether an owner at the initiator has signed the channel's transcript."""
    public: Any = load_pem_public_key(key.read_bytes())
    return _is_signed(public, signature, b"adp/2 owner" + transcript + b"\x01" + owner.encode())


def _shared_secret(acceptor_share: bytes, initiator_share: bytes,
                   secrets: Mapping[bytes, bytes]) -> bytes | None:
    """Return the shared secret from either private key, None if neither is known.

    The private key must belong to the captured public key.
    """
    for ours, theirs in ((acceptor_share, initiator_share), (initiator_share, acceptor_share)):
        private = X25519PrivateKey.from_private_bytes(secrets[ours]) if ours in secrets else None
        if private is not None and private.public_key().public_bytes_raw() == ours:
            return private.exchange(X25519PublicKey.from_public_bytes(theirs))
    return None


def _derive_keys(shared: bytes, salt: bytes, purpose: bytes, transcript: bytes, *,
                 are_signed: bool) -> ChannelKeys:
    derived = HKDF(SHA256(), 3 * _KEY_BYTES, salt, purpose).derive(shared)
    to_acceptor, to_initiator, chain = (derived[at:at + _KEY_BYTES]
                                        for at in range(0, len(derived), _KEY_BYTES))
    return ChannelKeys(transcript, are_signed, ChaCha20Poly1305(to_acceptor),
                       ChaCha20Poly1305(to_initiator), chain)


def _read_public_key(folder: Path, owner: str) -> Any:
    """Return an owner's public key, from its own file or its private key."""
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

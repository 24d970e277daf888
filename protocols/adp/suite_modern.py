"""The modern ADP suite: X25519, Ed25519 signatures and ChaCha20-Poly1305.

All values that identify a channel (hosts, kernel owners, sessions, both ephemeral keys) are in one
transcript. Both kernel owners sign the transcript, and the keys are derived from it. Later
signatures of owners include it, so a signature for one channel is useless on another.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from protocols.adp.crypto import TAG
from protocols.adp.effects import Scope
from protocols.adp.errors import AdpError, PacketError
from protocols.adp.packets import Flag, Frame
from protocols.adp.suite import PrivateKey, PublicKey, Security, SessionRequest, Tools
from protocols.adp.window import ReplayWindow

EPHEMERAL = 32  # size of an X25519 key, in bytes
SIGNATURE = 64
_SEQUENCE = struct.Struct("!Q")


@dataclass
class ModernKeys:
    """Keys of one channel: one key per direction, the chain key and the transcript.

    The chain key is the input of the next key derivation. Owners sign the transcript.
    """

    tools: Tools
    sending: ChaCha20Poly1305 = field(repr=False)
    receiving: ChaCha20Poly1305 = field(repr=False)
    chain: bytes = field(repr=False)
    transcript: bytes
    initiator: bool
    window: ReplayWindow
    sequence: int = 0

    @property
    def can_prove(self) -> bool:
        """Return True: the transcript is complete as soon as there are keys."""
        return True

    def seal(self, clear: bytes, body: bytes, *, private: bool) -> bytes:
        """Return sequence number, body and tag.

        The body is encrypted only for a private message or under the scope ALL.
        """
        self.sequence += 1
        number = _SEQUENCE.pack(self.sequence)
        crypto = self.tools.crypto
        if private or self.tools.scope is Scope.ALL:
            return number + crypto.seal(self.sending, self.sequence, body, clear)
        return number + body + crypto.seal(self.sending, self.sequence, b"", clear + body)

    def open(self, clear: bytes, frame: Frame) -> bytes:
        """Authenticate a frame of any scope and return its body. Raises PacketError."""
        sealed = frame.sealed
        if len(sealed) < _SEQUENCE.size + TAG:
            raise PacketError("no tag")
        sequence: int = _SEQUENCE.unpack_from(sealed)[0]
        if not self.window.is_fresh(sequence):
            raise PacketError("a duplicate, or too late")
        crypto = self.tools.crypto
        if frame.flags & Flag.ALL:
            body = crypto.open(self.receiving, sequence, sealed[_SEQUENCE.size:], clear)
        else:
            body = sealed[_SEQUENCE.size:-TAG]
            crypto.open(self.receiving, sequence, sealed[-TAG:], clear + body)
        self.window.accept(sequence)
        return body

    def sign_owner(self, owner: str, key: PrivateKey) -> bytes:
        """Sign this channel, this direction and the owner's name."""
        return self.tools.crypto.sign(_ed25519_private(key, owner),
                                      self._owner_statement(owner, by_initiator=self.initiator))

    def is_proof(self, owner: str, key: PublicKey, signature: bytes) -> bool:
        """Return whether an owner of the peer has signed this channel."""
        statement = self._owner_statement(owner, by_initiator=not self.initiator)
        return self.tools.crypto.verify(_ed25519_public(key, owner), signature, statement)

    def _owner_statement(self, owner: str, *, by_initiator: bool) -> bytes:
        return b"adp/2 owner" + self.transcript + bytes([by_initiator]) + owner.encode()


class SuiteModern:
    """Channels between authenticated kernel owners, with forward secrecy."""

    version = 2
    early = False
    padding = 1
    rekeys = True

    def __init__(self, tools: Tools) -> None:
        if tools.scope is Scope.NONE:
            raise AdpError("scope: the modern protocol always authenticates: trailer or all")
        self._tools = tools

    def header_flags(self, *, private: bool) -> int:
        """Return the header flags that describe a message's protection."""
        everything = private or self._tools.scope is Scope.ALL
        return Flag.SEALED | Flag.TRAILER | Flag.CHECKSUM | (Flag.ALL if everything else 0)

    def is_acceptable(self, flags: int) -> bool:
        """Return True: every frame is authenticated when it is opened."""
        return True

    def create_request(self, peer: str) -> tuple[SessionRequest, None]:
        """Return an ephemeral key, signed by the local kernel owner for this peer."""
        tools, identity = self._tools, self._tools.identity
        channel, secret = tools.random(8), tools.random(EPHEMERAL)
        ephemeral = tools.crypto.x25519_public(secret)
        text = self._request_text(channel, identity.session, ephemeral, from_host=identity.host,
                                  to_host=peer)
        key = _ed25519_private(identity.keys[identity.kernel_owner], identity.kernel_owner)
        return SessionRequest(channel, peer, ephemeral + tools.crypto.sign(key, text), secret), None

    def accept_request(self, peer: str, frame: Frame) -> tuple[ModernKeys, bytes]:
        """Return the keys and an ephemeral key, signed together with the request.

        Raises PacketError.
        """
        tools, identity = self._tools, self._tools.identity
        ephemeral, signature = _split_signed(frame.request)
        text = self._request_text(frame.channel, frame.session, ephemeral, from_host=peer,
                                  to_host=identity.host)
        if not tools.crypto.verify(self._kernel_key(peer), signature, text):
            raise PacketError("a request that the host's kernel owner has not signed")
        secret = tools.random(EPHEMERAL)
        ours = tools.crypto.x25519_public(secret)
        shared = tools.crypto.x25519_secret(secret, ephemeral)
        answer = _answer_text(text, identity.session, ours)
        key = _ed25519_private(identity.keys[identity.kernel_owner], identity.kernel_owner)
        acknowledgement = ours + tools.crypto.sign(key, answer)
        return self._first_keys(shared, answer, initiator=False), acknowledgement

    def complete_request(self, request: SessionRequest, security: Security | None,
                         frame: Frame) -> ModernKeys:
        """Return the keys if the peer's kernel owner signed the acknowledgement.

        Raises PacketError.
        """
        tools, identity = self._tools, self._tools.identity
        ephemeral, signature = _split_signed(frame.acknowledgement)
        text = self._request_text(request.channel, identity.session, request.encoded[:EPHEMERAL],
                                  from_host=identity.host, to_host=request.peer)
        answer = _answer_text(text, frame.session, ephemeral)
        if not tools.crypto.verify(self._kernel_key(request.peer), signature, answer):
            raise PacketError("an acknowledgement that the host's kernel owner has not signed")
        shared = tools.crypto.x25519_secret(request.secret, ephemeral)
        return self._first_keys(shared, answer, initiator=True)

    def create_rekey(self, peer: str) -> SessionRequest:
        """Return an unsigned ephemeral key.

        The channel itself authenticates it.
        """
        channel, secret = self._tools.random(8), self._tools.random(EPHEMERAL)
        encoded = channel + self._tools.crypto.x25519_public(secret)
        return SessionRequest(channel, peer, encoded, secret)

    def accept_rekey(self, security: Security, frame: Frame) -> tuple[ModernKeys, bytes]:
        """Return the next keys and this host's ephemeral key.

        Raises PacketError.
        """
        assert isinstance(security, ModernKeys)
        channel, ephemeral = _split_rekey(frame.request)
        secret = self._tools.random(EPHEMERAL)
        shared = self._tools.crypto.x25519_secret(secret, ephemeral)
        answer = channel + self._tools.crypto.x25519_public(secret)
        return self._next_keys(security, shared, frame.request + answer), answer

    def complete_rekey(self, request: SessionRequest, security: Security,
                       frame: Frame) -> ModernKeys:
        """Return the next keys from the peer's ephemeral key. Raises PacketError."""
        assert isinstance(security, ModernKeys)
        _, ephemeral = _split_rekey(frame.acknowledgement)
        shared = self._tools.crypto.x25519_secret(request.secret, ephemeral)
        return self._next_keys(security, shared, request.encoded + frame.acknowledgement)

    def _kernel_key(self, host: str) -> Ed25519PublicKey:
        owner = self._tools.directory.kernel_owners[host]
        return _ed25519_public(self._tools.directory.keys[owner], owner)

    def _request_text(self, channel: bytes, session: bytes, ephemeral: bytes, *, from_host: str,
                      to_host: str) -> bytes:
        owners = self._tools.directory.kernel_owners
        names = (from_host, owners[from_host], to_host, owners[to_host])
        encoded = (name.encode() for name in names)
        return b"".join((b"adp/2 request", channel, session, ephemeral,
                         *(bytes([len(name)]) + name for name in encoded)))

    def _first_keys(self, shared: bytes, answer: bytes, *, initiator: bool) -> ModernKeys:
        transcript = self._tools.crypto.digest(answer)
        return self._derive_keys(shared, transcript, b"adp/2 keys", transcript, initiator=initiator)

    def _next_keys(self, keys: ModernKeys, shared: bytes, exchanged: bytes) -> ModernKeys:
        return self._derive_keys(shared, keys.chain, b"adp/2 rekey" + exchanged, keys.transcript,
                                 initiator=keys.initiator)

    def _derive_keys(self, shared: bytes, salt: bytes, purpose: bytes, transcript: bytes, *,
                     initiator: bool) -> ModernKeys:
        derived = self._tools.crypto.derive_key(shared, salt, purpose, 96)
        ciphers = [ChaCha20Poly1305(derived[:32]), ChaCha20Poly1305(derived[32:64])]
        sending, receiving = ciphers if initiator else reversed(ciphers)
        return ModernKeys(self._tools, sending, receiving, derived[64:], transcript, initiator,
                          ReplayWindow(self._tools.window))


def _answer_text(request: bytes, session: bytes, ephemeral: bytes) -> bytes:
    return b"adp/2 acknowledgement" + session + ephemeral + request


def _split_signed(field_: bytes) -> tuple[bytes, bytes]:
    if len(field_) != EPHEMERAL + SIGNATURE:
        raise PacketError("no ephemeral key with a signature")
    return field_[:EPHEMERAL], field_[EPHEMERAL:]


def _split_rekey(field_: bytes) -> tuple[bytes, bytes]:
    if len(field_) != 8 + EPHEMERAL:
        raise PacketError("no ephemeral key for a channel")
    return field_[:8], field_[8:]


def _ed25519_public(key: PublicKey, owner: str) -> Ed25519PublicKey:
    if not isinstance(key, Ed25519PublicKey):
        raise AdpError(f"{owner}: the modern protocol needs an Ed25519 key")
    return key


def _ed25519_private(key: PrivateKey, owner: str) -> Ed25519PrivateKey:
    if not isinstance(key, Ed25519PrivateKey):
        raise AdpError(f"{owner}: the modern protocol needs an Ed25519 key")
    return key

"""Protect ADP channels with today's cryptography: X25519, Ed25519 and ChaCha20-Poly1305.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. `SuiteModern`
implements `Suite`, like `suite_1987.py` for the version of 1987. All values that identify a channel
(hosts, the owners that represent them, both ephemeral keys) form a transcript. These owners sign
it, and the keys are derived from it. Later signatures of other owners (users or services) cover it,
too, so a signature for one channel is useless on another.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from protocols.adp.crypto import TAG
from protocols.adp.effects import EncryptionScope
from protocols.adp.packets import AdpError, Frame, HeaderFlag, PacketError
from protocols.adp.suite import (
    ChannelSecurity,
    PrivateKey,
    PublicKey,
    ReplayWindow,
    SessionRequest,
    SuiteTools,
)

EPHEMERAL = 32  # size of an X25519 key, in bytes
SIGNATURE = 64
_SEQUENCE = struct.Struct("!Q")


@dataclass
class ModernChannelKeys:
    """Keys of one channel: a key per direction, a chain key and the transcript.

    - `tools`: keys and functions of this host
    - `sending`, `receiving`: keys of the two directions
    - `chain`: an input of the next key derivation
    - `transcript`: digest of the handshake, which owners sign
    - `initiator`: whether this host requested the channel
    - `window`: sequence numbers that were received
    - `sequence`: last sequence number that was sent
    """

    tools: SuiteTools
    sending: ChaCha20Poly1305 = field(repr=False)
    receiving: ChaCha20Poly1305 = field(repr=False)
    chain: bytes = field(repr=False)
    transcript: bytes
    initiator: bool
    window: ReplayWindow
    sequence: int = 0

    @property
    def can_sign(self) -> bool:
        """Return True, because owners can sign as soon as there are keys."""
        return True

    def seal(self, clear: bytes, body: bytes, *, private: bool) -> bytes:
        """Return sequence number, body and tag of a datagram.

        The body is encrypted if the message is private, or if the host encrypts everything.
        """
        self.sequence += 1
        number = _SEQUENCE.pack(self.sequence)
        crypto = self.tools.crypto
        if private or self.tools.scope is EncryptionScope.ALL:
            return number + crypto.seal(self.sending, self.sequence, body, clear)
        return number + body + crypto.seal(self.sending, self.sequence, b"", clear + body)

    def open(self, clear: bytes, frame: Frame) -> bytes:
        """Verify a datagram, and return its body.

        Raises:
            PacketError: the datagram was altered, is a duplicate or is too old.
        """
        sealed = frame.sealed
        if len(sealed) < _SEQUENCE.size + TAG:
            raise PacketError("no tag")
        sequence: int = _SEQUENCE.unpack_from(sealed)[0]
        if not self.window.is_fresh(sequence):
            raise PacketError("a duplicate, or too late")
        crypto = self.tools.crypto
        if frame.flags & HeaderFlag.ALL:
            body = crypto.open(self.receiving, sequence, sealed[_SEQUENCE.size:], clear)
        else:
            body = sealed[_SEQUENCE.size:-TAG]
            crypto.open(self.receiving, sequence, sealed[-TAG:], clear + body)
        self.window.accept(sequence)
        return body

    def sign_owner(self, owner: str, key: PrivateKey) -> bytes:
        """Sign channel, direction and name with an owner's private key."""
        return self.tools.crypto.sign(_ed25519_private(key, owner),
                                      self._owner_statement(owner, by_initiator=self.initiator))

    def is_owner_signature(self, owner: str, key: PublicKey, signature: bytes) -> bool:
        """Return whether an owner of the other host has signed this channel."""
        statement = self._owner_statement(owner, by_initiator=not self.initiator)
        return self.tools.crypto.verify(_ed25519_public(key, owner), signature, statement)

    def _owner_statement(self, owner: str, *, by_initiator: bool) -> bytes:
        return b"adp/2 owner" + self.transcript + bytes([by_initiator]) + owner.encode()


class SuiteModern:
    """Keys and protection of channels with forward secrecy, between authenticated hosts."""

    version = 2
    early = False
    padding = 1
    rekeys = True

    def __init__(self, tools: SuiteTools) -> None:
        if tools.scope is EncryptionScope.NONE:
            raise AdpError("scope: the modern protocol always authenticates: trailer or all")
        self._tools = tools

    def header_flags(self, *, private: bool) -> int:
        """Return the header flags that describe how a datagram is protected."""
        everything = private or self._tools.scope is EncryptionScope.ALL
        return HeaderFlag.SEALED | HeaderFlag.TRAILER | HeaderFlag.CHECKSUM | (
            HeaderFlag.ALL if everything else 0)

    def is_acceptable(self, flags: int) -> bool:
        """Return True, because every datagram is authenticated when it is opened."""
        return True

    def create_request(self, peer: str) -> tuple[SessionRequest, None]:
        """Create an ephemeral key for a channel, and sign it in this host's name.

        Returns:
            The request with its secret, and None, because keys exist only after the answer.
        """
        tools, identity = self._tools, self._tools.identity
        channel, secret = tools.random(8), tools.random(EPHEMERAL)
        ephemeral = tools.crypto.x25519_public(secret)
        text = self._request_text(channel, identity.session, ephemeral, from_host=identity.host,
                                  to_host=peer)
        key = _ed25519_private(identity.keys[identity.kernel_owner], identity.kernel_owner)
        return SessionRequest(channel, peer, ephemeral + tools.crypto.sign(key, text), secret), None

    def accept_request(self, peer: str, frame: Frame) -> tuple[ModernChannelKeys, bytes]:
        """Verify a request, and return the channel's keys and a signed ephemeral key.

        The ephemeral key is the answer to the request.

        Raises:
            PacketError: the other host did not sign the request for this host.
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

    def complete_request(self, request: SessionRequest, security: ChannelSecurity | None,
                         frame: Frame) -> ModernChannelKeys:
        """Verify the acknowledgement of a request, and return the channel's keys.

        Raises:
            PacketError: the other host did not sign the acknowledgement.
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
        """Create an ephemeral key for the next key of a channel. The channel authenticates it."""
        channel, secret = self._tools.random(8), self._tools.random(EPHEMERAL)
        encoded = channel + self._tools.crypto.x25519_public(secret)
        return SessionRequest(channel, peer, encoded, secret)

    def accept_rekey(self, security: ChannelSecurity,
                     frame: Frame) -> tuple[ModernChannelKeys, bytes]:
        """Return the next keys of a channel, and this host's ephemeral key as the answer.

        Raises:
            PacketError: the request is malformed.
        """
        assert isinstance(security, ModernChannelKeys)
        channel, ephemeral = _split_rekey(frame.request)
        secret = self._tools.random(EPHEMERAL)
        shared = self._tools.crypto.x25519_secret(secret, ephemeral)
        answer = channel + self._tools.crypto.x25519_public(secret)
        return self._next_keys(security, shared, frame.request + answer), answer

    def complete_rekey(self, request: SessionRequest, security: ChannelSecurity,
                       frame: Frame) -> ModernChannelKeys:
        """Return the next keys of a channel from the other host's ephemeral key.

        Raises:
            PacketError: the answer is malformed.
        """
        assert isinstance(security, ModernChannelKeys)
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

    def _first_keys(self, shared: bytes, answer: bytes, *, initiator: bool) -> ModernChannelKeys:
        transcript = self._tools.crypto.digest(answer)
        return self._derive_keys(shared, transcript, b"adp/2 keys", transcript, initiator=initiator)

    def _next_keys(self, keys: ModernChannelKeys, shared: bytes,
                   exchanged: bytes) -> ModernChannelKeys:
        return self._derive_keys(shared, keys.chain, b"adp/2 rekey" + exchanged, keys.transcript,
                                 initiator=keys.initiator)

    def _derive_keys(self, shared: bytes, salt: bytes, purpose: bytes, transcript: bytes, *,
                     initiator: bool) -> ModernChannelKeys:
        derived = self._tools.crypto.derive_key(shared, salt, purpose, 96)
        ciphers = [ChaCha20Poly1305(derived[:32]), ChaCha20Poly1305(derived[32:64])]
        sending, receiving = ciphers if initiator else reversed(ciphers)
        return ModernChannelKeys(self._tools, sending, receiving, derived[64:], transcript,
                                 initiator,
                                 ReplayWindow(self._tools.window))


def _answer_text(request: bytes, session: bytes, ephemeral: bytes) -> bytes:
    return b"adp/2 acknowledgement" + session + ephemeral + request


def _split_signed(field_: bytes) -> tuple[bytes, bytes]:
    """Split a field into an X25519 public key and an Ed25519 signature."""
    if len(field_) != EPHEMERAL + SIGNATURE:
        raise PacketError("no ephemeral key with a signature")
    return field_[:EPHEMERAL], field_[EPHEMERAL:]


def _split_rekey(field_: bytes) -> tuple[bytes, bytes]:
    """Split a field into a channel number and an X25519 public key."""
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

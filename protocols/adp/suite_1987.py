"""The protocol of 1987: a DES key under the other end's RSA key, owners' signatures of R and T.

Known weaknesses are the paper's own and are kept: what an owner signs is bound to no channel and no
peer, and a trailer with a sequence number alone leaves the body unprotected. docs/adp.md lists what
the paper leaves open and how it was filled.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass, replace

from protocols.adp.crypto import BLOCK, RsaPrivate, RsaPublic
from protocols.adp.effects import Scope
from protocols.adp.errors import AdpError, PacketError
from protocols.adp.packets import Flag, Frame
from protocols.adp.suite import PrivateKey, PublicKey, Security, SessionRequest, Tools
from protocols.adp.window import ReplayWindow

CHALLENGE = 16  # R and T, in bytes
_TRAILER = struct.Struct("!Q8s")
_ACCEPTOR = 1 << 63


@dataclass
class Keys1987:
    """Of one channel: S for both directions, and the challenge that each end is to sign."""

    tools: Tools
    key: bytes
    channel: bytes
    initiator: bool
    ours: bytes  # what the other end's owners sign
    theirs: bytes  # what our owners sign
    checksum: bool
    window: ReplayWindow
    sequence: int = 0

    @property
    def can_prove(self) -> bool:
        """Whether the other end's challenge is known."""
        return bool(self.theirs)

    def seal(self, clear: bytes, body: bytes, *, private: bool) -> bytes:
        """Body and trailer, encrypted as far as the scope says."""
        self.sequence += 1
        numbered = self.sequence | (0 if self.initiator else _ACCEPTOR)
        whole = private or self.tools.scope is Scope.ALL
        if whole:
            body += bytes(-len(body) % BLOCK)
        trailer = _TRAILER.pack(numbered, self._check(clear, body, numbered))
        crypto = self.tools.crypto
        if whole:
            return crypto.des_encrypt(self.key, body + trailer)
        if self.tools.scope is Scope.NONE:
            return body + trailer
        return body + crypto.des_encrypt(self.key, trailer)

    def open(self, clear: bytes, frame: Frame) -> bytes:
        """A body whose trailer is right. Raises PacketError."""
        sealed = frame.sealed
        crypto = self.tools.crypto
        if len(sealed) < _TRAILER.size:
            raise PacketError("no trailer")
        if frame.flags & Flag.ALL:
            sealed = crypto.des_decrypt(self.key, sealed)
        body, trailer = sealed[:-_TRAILER.size], sealed[-_TRAILER.size:]
        if not frame.flags & Flag.ALL and frame.flags & Flag.TRAILER:
            trailer = crypto.des_decrypt(self.key, trailer)
        numbered, check = _TRAILER.unpack(trailer)
        if bool(numbered & _ACCEPTOR) is not self.initiator:
            raise PacketError("altered, reflected, or under another key")
        sequence = numbered & ~_ACCEPTOR
        if not self.window.is_fresh(sequence):
            raise PacketError("a duplicate, or too late")
        if not hmac.compare_digest(check, self._check(clear, body, numbered)):
            raise PacketError("altered, or under another key")
        self.window.accept(sequence)
        return body

    def _check(self, clear: bytes, body: bytes, numbered: int) -> bytes:
        if not self.checksum:
            return self.channel
        text = clear + body + numbered.to_bytes(8)
        return self.tools.crypto.des_mac(self.key, text)

    def prove(self, owner: str, key: PrivateKey) -> bytes:
        """(R) encrypted with the owner's private key: bound to nothing but R."""
        return self.tools.crypto.rsa_private(_rsa_private(key, owner), self.theirs)

    def is_proof(self, owner: str, key: PublicKey, signature: bytes) -> bool:
        """Whether the signature, under the public key, is what we had sent."""
        public = _rsa_public(key, owner)
        try:
            block = self.tools.crypto.rsa_public(public, signature)
        except PacketError:
            return False
        return hmac.compare_digest(block, self.ours.rjust(public.size, b"\0"))


class Suite1987:
    """Secure channels of the paper's section 3.1."""

    version = 1
    early = True
    padding = BLOCK
    rekeys = False

    def __init__(self, tools: Tools, *, checksum: bool) -> None:
        self._tools = tools
        self._checksum = checksum

    def flags(self, *, private: bool) -> int:
        """How a message is protected."""
        flags = Flag.SEALED | (Flag.CHECKSUM if self._checksum else 0)
        if private or self._tools.scope is Scope.ALL:
            return flags | Flag.ALL | Flag.TRAILER
        return flags | (Flag.TRAILER if self._tools.scope is Scope.TRAILER else 0)

    def is_acceptable(self, flags: int) -> bool:
        """Whether the trailer is of our kind, and encrypted if ours are."""
        return (bool(flags & Flag.CHECKSUM) is self._checksum
                and (self._tools.scope is Scope.NONE or bool(flags & Flag.TRAILER)))

    def request(self, peer: str) -> tuple[SessionRequest, Keys1987]:
        """(S) under the public key of the other kernel's owner, and T."""
        directory = self._tools.directory
        owner = directory.kernel_owners[peer]
        public = _rsa_public(directory.keys[owner], owner)
        channel = self._tools.random(8)
        secret = self._tools.random(public.size - 1)
        challenge = self._tools.random(CHALLENGE)
        encrypted = self._tools.crypto.rsa_public(public, secret)
        keys = self._keys(secret, channel, initiator=True, ours=challenge, theirs=b"")
        return SessionRequest(channel, peer, challenge + encrypted, secret, challenge), keys

    def accept(self, peer: str, frame: Frame) -> tuple[Keys1987, bytes]:
        """S as its sender meant it, and R. Raises PacketError."""
        challenge, encrypted = frame.request[:CHALLENGE], frame.request[CHALLENGE:]
        identity = self._tools.identity
        private = _rsa_private(identity.keys[identity.kernel_owner], identity.kernel_owner)
        if len(encrypted) != private.public.size:
            raise PacketError("a request of another length than our key's")
        secret = self._tools.crypto.rsa_private(private, encrypted)
        ours = self._tools.random(CHALLENGE)
        keys = self._keys(secret, frame.channel, initiator=False, ours=ours, theirs=challenge)
        return keys, ours

    def acknowledged(self, request: SessionRequest, security: Security | None,
                     frame: Frame) -> Keys1987:
        """The same key, and R to sign. Raises PacketError."""
        assert isinstance(security, Keys1987)
        if len(frame.acknowledgement) != CHALLENGE:
            raise PacketError("an R of another length")
        return replace(security, theirs=frame.acknowledgement)

    def rekey(self, peer: str) -> SessionRequest:
        """A channel of 1987 keeps its key for as long as it lives."""
        raise AdpError("channels of 1987 have one key")

    def accept_rekey(self, security: Security, frame: Frame) -> tuple[Security, bytes]:
        """See `rekey`."""
        raise PacketError("channels of 1987 have one key")

    def rekeyed(self, request: SessionRequest, security: Security, frame: Frame) -> Security:
        """See `rekey`."""
        raise PacketError("channels of 1987 have one key")

    def _keys(self, secret: bytes, channel: bytes, *, initiator: bool, ours: bytes,
              theirs: bytes) -> Keys1987:
        return Keys1987(self._tools, secret[-BLOCK:], channel, initiator, ours, theirs,
                        self._checksum, ReplayWindow(self._tools.window))


def _rsa_public(key: PublicKey, owner: str) -> RsaPublic:
    if not isinstance(key, RsaPublic):
        raise AdpError(f"{owner}: the protocol of 1987 needs an RSA key")
    return key


def _rsa_private(key: PrivateKey, owner: str) -> RsaPrivate:
    if not isinstance(key, RsaPrivate):
        raise AdpError(f"{owner}: the protocol of 1987 needs an RSA key")
    return key

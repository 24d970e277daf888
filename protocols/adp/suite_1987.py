"""The ADP suite of 1987: DES keys under RSA, signatures of R and T.

The DES key is encrypted under the peer's RSA key. The known weaknesses are the paper's own and are
kept: an owner's signature is bound to no channel and no peer. A trailer with only a sequence number
leaves the body unprotected. docs/adp.md lists what the paper leaves open and how it was filled.
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

CHALLENGE = 16  # size of R and T, in bytes
_TRAILER = struct.Struct("!Q8s")
_ACCEPTOR = 1 << 63


@dataclass
class Keys1987:
    """Keys of one channel: S for both directions, and the challenges of both ends."""

    tools: Tools
    key: bytes
    channel: bytes
    initiator: bool
    ours: bytes  # the challenge that the peer's owners sign
    theirs: bytes  # the challenge that this host's owners sign
    checksum: bool
    window: ReplayWindow
    sequence: int = 0

    @property
    def can_prove(self) -> bool:
        """Return whether the peer's challenge is known."""
        return bool(self.theirs)

    def seal(self, clear: bytes, body: bytes, *, private: bool) -> bytes:
        """Return body and trailer, encrypted as the scope requires."""
        self.sequence += 1
        numbered = self.sequence | (0 if self.initiator else _ACCEPTOR)
        whole = private or self.tools.scope is Scope.ALL
        if whole:
            body += bytes(-len(body) % BLOCK)
        trailer = _TRAILER.pack(numbered, self._trailer_check(clear, body, numbered))
        crypto = self.tools.crypto
        if whole:
            return crypto.des_encrypt(self.key, body + trailer)
        if self.tools.scope is Scope.NONE:
            return body + trailer
        return body + crypto.des_encrypt(self.key, trailer)

    def open(self, clear: bytes, frame: Frame) -> bytes:
        """Verify the trailer and return the body. Raises PacketError."""
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
        if not hmac.compare_digest(check, self._trailer_check(clear, body, numbered)):
            raise PacketError("altered, or under another key")
        self.window.accept(sequence)
        return body

    def _trailer_check(self, clear: bytes, body: bytes, numbered: int) -> bytes:
        if not self.checksum:
            return self.channel
        text = clear + body + numbered.to_bytes(8)
        return self.tools.crypto.des_mac(self.key, text)

    def sign_owner(self, owner: str, key: PrivateKey) -> bytes:
        """Encrypt R with the owner's private key.

        The result is bound only to R.
        """
        return self.tools.crypto.rsa_private(_rsa_private(key, owner), self.theirs)

    def is_proof(self, owner: str, key: PublicKey, signature: bytes) -> bool:
        """Return whether the signature decrypts to the challenge that was sent."""
        public = _rsa_public(key, owner)
        try:
            block = self.tools.crypto.rsa_public(public, signature)
        except PacketError:
            return False
        return hmac.compare_digest(block, self.ours.rjust(public.size, b"\0"))


class Suite1987:
    """Secure channels as in section 3.1 of the paper."""

    version = 1
    early = True
    padding = BLOCK
    rekeys = False

    def __init__(self, tools: Tools, *, checksum: bool) -> None:
        self._tools = tools
        self._checksum = checksum

    def header_flags(self, *, private: bool) -> int:
        """Return the header flags that describe a message's protection."""
        flags = Flag.SEALED | (Flag.CHECKSUM if self._checksum else 0)
        if private or self._tools.scope is Scope.ALL:
            return flags | Flag.ALL | Flag.TRAILER
        return flags | (Flag.TRAILER if self._tools.scope is Scope.TRAILER else 0)

    def is_acceptable(self, flags: int) -> bool:
        """Return whether the trailer has the configured kind.

        It must also be encrypted, unless the scope of this host is NONE.
        """
        return (bool(flags & Flag.CHECKSUM) is self._checksum
                and (self._tools.scope is Scope.NONE or bool(flags & Flag.TRAILER)))

    def create_request(self, peer: str) -> tuple[SessionRequest, Keys1987]:
        """Return T and S, with S encrypted for the kernel owner of the peer."""
        directory = self._tools.directory
        owner = directory.kernel_owners[peer]
        public = _rsa_public(directory.keys[owner], owner)
        channel = self._tools.random(8)
        secret = self._tools.random(public.size - 1)
        challenge = self._tools.random(CHALLENGE)
        encrypted = self._tools.crypto.rsa_public(public, secret)
        keys = self._create_keys(secret, channel, initiator=True, own_challenge=challenge,
                                 peer_challenge=b"")
        return SessionRequest(channel, peer, challenge + encrypted, secret, challenge), keys

    def accept_request(self, peer: str, frame: Frame) -> tuple[Keys1987, bytes]:
        """Decrypt S from a request and answer with R. Raises PacketError."""
        challenge, encrypted = frame.request[:CHALLENGE], frame.request[CHALLENGE:]
        identity = self._tools.identity
        private = _rsa_private(identity.keys[identity.kernel_owner], identity.kernel_owner)
        if len(encrypted) != private.public.size:
            raise PacketError("a request of another length than our key's")
        secret = self._tools.crypto.rsa_private(private, encrypted)
        ours = self._tools.random(CHALLENGE)
        keys = self._create_keys(secret, frame.channel, initiator=False, own_challenge=ours,
                                 peer_challenge=challenge)
        return keys, ours

    def complete_request(self, request: SessionRequest, security: Security | None,
                         frame: Frame) -> Keys1987:
        """Return the unchanged key, with R to sign. Raises PacketError."""
        assert isinstance(security, Keys1987)
        if len(frame.acknowledgement) != CHALLENGE:
            raise PacketError("an R of another length")
        return replace(security, theirs=frame.acknowledgement)

    def create_rekey(self, peer: str) -> SessionRequest:
        """Raise AdpError: a channel of 1987 never changes its key."""
        raise AdpError("channels of 1987 have one key")

    def accept_rekey(self, security: Security, frame: Frame) -> tuple[Security, bytes]:
        """Raise PacketError: a channel of 1987 never changes its key."""
        raise PacketError("channels of 1987 have one key")

    def complete_rekey(self, request: SessionRequest, security: Security, frame: Frame) -> Security:
        """Raise PacketError: a channel of 1987 never changes its key."""
        raise PacketError("channels of 1987 have one key")

    def _create_keys(self, secret: bytes, channel: bytes, *, initiator: bool, own_challenge: bytes,
                     peer_challenge: bytes) -> Keys1987:
        return Keys1987(self._tools, secret[-BLOCK:], channel, initiator, own_challenge,
                        peer_challenge,
                        self._checksum, ReplayWindow(self._tools.window))


def _rsa_public(key: PublicKey, owner: str) -> RsaPublic:
    if not isinstance(key, RsaPublic):
        raise AdpError(f"{owner}: the protocol of 1987 needs an RSA key")
    return key


def _rsa_private(key: PrivateKey, owner: str) -> RsaPrivate:
    if not isinstance(key, RsaPrivate):
        raise AdpError(f"{owner}: the protocol of 1987 needs an RSA key")
    return key

"""Protect ADP channels as published in 1987, with RSA and DES.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. `Suite1987`
implements `Suite`. The host that requests a channel chooses the DES key S, and sends it under the
other host's RSA key, with a random number T. The other host answers with a random number R. Owners
(users or services) sign R or T. Weaknesses of the paper are kept: a signature is bound to no
channel and no host. A trailer with only a sequence number leaves the body unprotected. docs/adp.md
lists what the paper (Anderson, Ferrari, Rangan and Sartirana, 1987) leaves open and how it was
filled.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass, replace

from protocols.adp.crypto import BLOCK, RsaPrivateKey, RsaPublicKey
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

CHALLENGE = 16  # size of R and T, in bytes
_TRAILER = struct.Struct("!Q8s")
_ACCEPTOR = 1 << 63


@dataclass
class ChannelKeys1987:
    """Keys of one channel: DES key S for both directions, and the random numbers to sign.

    - `tools`: keys and functions of this host
    - `channel`: identifier of the channel
    - `initiator`: whether this host requested the channel
    - `checksum`: whether datagrams have a checksum
    - `window`: sequence numbers that were received
    - `sequence`: last sequence number that was sent
    """

    tools: SuiteTools
    key: bytes
    channel: bytes
    initiator: bool
    ours: bytes  # the challenge that the peer's owners sign
    theirs: bytes  # the challenge that this host's owners sign
    checksum: bool
    window: ReplayWindow
    sequence: int = 0

    @property
    def can_sign(self) -> bool:
        """Return whether the random number that local owners must sign has arrived."""
        return bool(self.theirs)

    def seal(self, clear: bytes, body: bytes, *, private: bool) -> bytes:
        """Return body and trailer of a datagram, encrypted as the settings require."""
        self.sequence += 1
        numbered = self.sequence | (0 if self.initiator else _ACCEPTOR)
        whole = private or self.tools.scope is EncryptionScope.ALL
        if whole:
            body += bytes(-len(body) % BLOCK)
        trailer = _TRAILER.pack(numbered, self._trailer_check(clear, body, numbered))
        crypto = self.tools.crypto
        if whole:
            return crypto.des_encrypt(self.key, body + trailer)
        if self.tools.scope is EncryptionScope.NONE:
            return body + trailer
        return body + crypto.des_encrypt(self.key, trailer)

    def open(self, clear: bytes, frame: Frame) -> bytes:
        """Verify the trailer of a datagram, and return its body.

        Raises:
            PacketError: the trailer is wrong, or a duplicate.
        """
        sealed = frame.sealed
        crypto = self.tools.crypto
        if len(sealed) < _TRAILER.size:
            raise PacketError("no trailer")
        if frame.flags & HeaderFlag.ALL:
            sealed = crypto.des_decrypt(self.key, sealed)
        body, trailer = sealed[:-_TRAILER.size], sealed[-_TRAILER.size:]
        if not frame.flags & HeaderFlag.ALL and frame.flags & HeaderFlag.TRAILER:
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
        """Sign the other host's random number with an owner's private key.

        The signature is bound to nothing else. This is a weakness of the paper's protocol.
        """
        return self.tools.crypto.rsa_private(_rsa_private(key, owner), self.theirs)

    def is_owner_signature(self, owner: str, key: PublicKey, signature: bytes) -> bool:
        """Return whether the other host's owner (user or service) signed the random number."""
        public = _rsa_public(key, owner)
        try:
            block = self.tools.crypto.rsa_public(public, signature)
        except PacketError:
            return False
        return hmac.compare_digest(block, self.ours.rjust(public.size, b"\0"))


class Suite1987:
    """Keys and protection of channels as in section 3.1 of the 1987 report.

    With `checksum`, the trailer has a checksum of the whole message.
    """

    version = 1
    early = True
    padding = BLOCK
    rekeys = False

    def __init__(self, tools: SuiteTools, *, checksum: bool) -> None:
        self._tools = tools
        self._checksum = checksum

    def header_flags(self, *, private: bool) -> int:
        """Return the header flags that describe how a datagram is protected."""
        flags = HeaderFlag.SEALED | (HeaderFlag.CHECKSUM if self._checksum else 0)
        if private or self._tools.scope is EncryptionScope.ALL:
            return flags | HeaderFlag.ALL | HeaderFlag.TRAILER
        return flags | (HeaderFlag.TRAILER if self._tools.scope is EncryptionScope.TRAILER else 0)

    def is_acceptable(self, flags: int) -> bool:
        """Return whether a datagram has the configured kind of trailer.

        The trailer must also be encrypted, unless this host encrypts nothing.
        """
        return (bool(flags & HeaderFlag.CHECKSUM) is self._checksum
                and (self._tools.scope is EncryptionScope.NONE or bool(flags & HeaderFlag.TRAILER)))

    def create_request(self, peer: str) -> tuple[SessionRequest, ChannelKeys1987]:
        """Choose the random number T and the DES key S, and encrypt S for the other host.

        Returns:
            The request with its secrets, and the keys of the channel.
        """
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

    def accept_request(self, peer: str, frame: Frame) -> tuple[ChannelKeys1987, bytes]:
        """Decrypt the DES key S of a request, and answer with the random number R.

        Returns:
            The keys of the channel, and R as the answer.

        Raises:
            PacketError: the request is malformed.
        """
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

    def complete_request(self, request: SessionRequest, security: ChannelSecurity | None,
                         frame: Frame) -> ChannelKeys1987:
        """Return the keys of the channel, with the random number R that owners must sign.

        Raises:
            PacketError: the acknowledgement is malformed.
        """
        assert isinstance(security, ChannelKeys1987)
        if len(frame.acknowledgement) != CHALLENGE:
            raise PacketError("an R of another length")
        return replace(security, theirs=frame.acknowledgement)

    def create_rekey(self, peer: str) -> SessionRequest:
        """Raise AdpError, because a channel of 1987 never changes its key."""
        raise AdpError("channels of 1987 have one key")

    def accept_rekey(self, security: ChannelSecurity,
                     frame: Frame) -> tuple[ChannelSecurity, bytes]:
        """Raise PacketError, because a channel of 1987 never changes its key."""
        raise PacketError("channels of 1987 have one key")

    def complete_rekey(self, request: SessionRequest, security: ChannelSecurity,
                       frame: Frame) -> ChannelSecurity:
        """Raise PacketError, because a channel of 1987 never changes its key."""
        raise PacketError("channels of 1987 have one key")

    def _create_keys(self, secret: bytes, channel: bytes, *, initiator: bool, own_challenge: bytes,
                     peer_challenge: bytes) -> ChannelKeys1987:
        return ChannelKeys1987(self._tools, secret[-BLOCK:], channel, initiator, own_challenge,
                               peer_challenge,
                               self._checksum, ReplayWindow(self._tools.window))


def _rsa_public(key: PublicKey, owner: str) -> RsaPublicKey:
    if not isinstance(key, RsaPublicKey):
        raise AdpError(f"{owner}: the protocol of 1987 needs an RSA key")
    return key


def _rsa_private(key: PrivateKey, owner: str) -> RsaPrivateKey:
    if not isinstance(key, RsaPrivateKey):
        raise AdpError(f"{owner}: the protocol of 1987 needs an RSA key")
    return key

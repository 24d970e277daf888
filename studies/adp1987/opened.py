"""Decrypt the channels in a capture with the run's keys, independently of the programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from protocols.adp import packets
from protocols.adp.errors import PacketError
from protocols.adp.packets import Flag, Frame, ProtectedBody
from studies.adp1987 import transcript
from studies.adp1987.sniffed import SniffedMessage
from studies.adp1987.transcript import ChannelKeys

_TRAILER_BYTES, _CHALLENGE_BYTES, _BLOCK, _TAG_BYTES = 16, 16, 8, 16
#: Sequence number, body if readable, and whether the message is valid.
_Read = tuple[int, ProtectedBody | None, bool]


@dataclass(frozen=True)
class OpenedMessage:
    """A message whose sealed part was read.

    `body` is None if it cannot be decrypted. `is_again`: the same bytes were sent before.
    `is_bare`: the trailer was valid without decryption.
    """

    sniffed: SniffedMessage
    frame: Frame
    sequence: int
    body: ProtectedBody | None
    is_again: bool
    is_bare: bool


@dataclass
class OpenedChannel:
    """A channel with its keys and the initiator's messages in order.

    `challenge` is what owners sign in 1987. `proofs` are the distinct signatures by owner.
    `proof_places` are the indices of the messages with a signature. `confirmed_after` counts the
    messages before the acceptor confirmed, -1 if it never did. `secret` is the DES key of 1987.
    `keys` are the keys of the modern protocol by channel number; new keys have a new number.
    """

    request: Frame | None = None
    requests: set[bytes] = field(default_factory=set)
    messages: list[OpenedMessage] = field(default_factory=list)
    challenge: bytes = b""
    proofs: dict[str, set[bytes]] = field(default_factory=dict)
    proof_places: list[int] = field(default_factory=list)
    confirmed_after: int = -1
    secret: bytes = field(default=b"", repr=False)
    keys: dict[bytes, ChannelKeys] = field(default_factory=dict, repr=False)
    next_request: bytes = b""
    known: set[Frame] = field(default_factory=set, repr=False)

    @property
    def is_old(self) -> bool:
        """Return whether the channel has the protocol of 1987, which signs no handshake."""
        return self.request is None or self.request.version == 1

    @property
    def is_signed(self) -> bool:
        """Return whether both kernel owners signed the handshake.

        The protocol of 1987 needs no such signatures, so the result is true for it.
        """
        return self.is_old or any(keys.are_signed for keys in self.keys.values())

    def is_signature(self, owner: str, signature: bytes, key: Path) -> bool:
        """Return whether a signature for this channel verifies under the owner's published key."""
        if self.is_old:
            return is_signature(signature, self.challenge, key)
        return any(transcript.has_signed(owner, signature, keys.transcript, key)
                   for keys in self.keys.values())


@dataclass
class OpenedCapture:
    """All channels of one initiator.

    `spoilt` counts invalid messages of the initiator.
    """

    channels: list[OpenedChannel] = field(default_factory=list)
    spoilt: int = 0
    by_number: dict[bytes, OpenedChannel] = field(default_factory=dict, repr=False)

    @property
    def messages(self) -> list[OpenedMessage]:
        """Return the initiator's messages, ordered by channel."""
        return [message for channel in self.channels for message in channel.messages]


def open_capture(sniffed: Sequence[SniffedMessage], initiator: str, keys: Path,
                 secrets: Mapping[bytes, bytes]) -> OpenedCapture:
    """Follow the channels of both protocol versions through a capture.

    Args:
        sniffed: Captured messages, in order of time.
        initiator: IPv4 address of the host that requests channels.
        keys: Folder with the owners' key files.
        secrets: Ephemeral private keys by their public keys, for the modern protocol.
    """
    opened = OpenedCapture()
    for message in sniffed:
        frame = message.frame
        if frame is None:
            opened.spoilt += message.source == initiator
        elif message.source != initiator:
            _record_answer(opened, frame, secrets, keys)
        else:
            _record_message(opened, message, frame, keys)
    return opened


def is_signature(proof: bytes, challenge: bytes, key: Path) -> bool:
    """Return whether a signature of 1987 is the challenge under an owner's private key."""
    numbers: Any = load_pem_public_key(key.read_bytes())
    public = numbers.public_numbers()
    size = (public.n.bit_length() + 7) // 8
    block = pow(int.from_bytes(proof), public.e, public.n).to_bytes(size)
    return bool(block == challenge.rjust(size, b"\0"))


def _record_answer(opened: OpenedCapture, frame: Frame, secrets: Mapping[bytes, bytes],
                   folder: Path) -> None:
    """Record the acceptor's challenge or keys, and its confirmation of signatures."""
    channel = opened.by_number.get(frame.channel)
    if channel is None:
        return
    if frame.flags & Flag.ACKNOWLEDGE and frame.version == 1 and not channel.challenge:
        channel.challenge = frame.acknowledgement[:_CHALLENGE_BYTES]
    elif frame.flags & Flag.ACKNOWLEDGE and frame.version != 1:
        _record_keys(opened, channel, frame, secrets, folder)
    body = _read_sealed(channel, frame, by_initiator=False)[1]
    if body is not None and body.confirmed and channel.confirmed_after < 0:
        channel.confirmed_after = len(channel.messages)


def _record_keys(opened: OpenedCapture, channel: OpenedChannel, frame: Frame,
                 secrets: Mapping[bytes, bytes], folder: Path) -> None:
    """Derive the keys that an acknowledgement of the modern protocol leads to.

    These are the first keys of a channel or the next ones.
    """
    number, last, made = frame.channel, channel.keys.get(frame.channel), None
    if not frame.flags & Flag.REKEY and channel.request is not None:
        made = transcript.derive_first_keys(channel.request, frame, secrets, folder)
    elif last is not None:
        number = frame.acknowledgement[:8]
        made = transcript.derive_next_keys(last, channel.next_request, frame.acknowledgement,
                                           secrets)
    if made is not None and number not in channel.keys:
        channel.keys[number] = made
        opened.by_number[number] = channel


def _record_message(opened: OpenedCapture, message: SniffedMessage, frame: Frame,
                    folder: Path) -> None:
    """Record a message of the initiator."""
    channel = opened.by_number.get(frame.channel)
    if channel is None:
        channel = opened.by_number[frame.channel] = OpenedChannel()
        opened.channels.append(channel)
    if frame.flags & Flag.REQUEST and frame.flags & Flag.REKEY:
        channel.next_request = frame.request
    elif frame.flags & Flag.REQUEST:
        channel.requests.add(frame.request)
        if channel.request is None:
            channel.request = frame
            channel.secret = _des_key(frame.request,
                                      folder / "bob.pem") if frame.version == 1 else b""
    if not frame.flags & Flag.SEALED:
        return
    sequence, body, is_right = _read_sealed(channel, frame, by_initiator=True)
    opened.spoilt += not is_right
    # A copy is not opened again; its sequence number shows that it is a copy.
    is_again = frame in channel.known
    channel.known.add(frame)
    for proof in body.proofs if body is not None and not is_again else ():
        channel.proofs.setdefault(proof.name, set()).add(proof.signature)
        channel.proof_places.append(len(channel.messages))
    is_bare = frame.version == 1 and _is_trailer(frame, frame.sealed, channel.secret)
    channel.messages.append(OpenedMessage(message, frame, sequence, body, is_again, is_bare))


def _read_sealed(channel: OpenedChannel, frame: Frame, *, by_initiator: bool) -> _Read:
    try:
        if frame.version == 1:
            return _read_1987(frame, channel.secret)
        keys = channel.keys.get(frame.channel)
        return _read_modern(frame, None if keys is None else
                            keys.to_acceptor if by_initiator else keys.to_initiator)
    except (PacketError, ValueError, IndexError):
        return -1, None, False


def _read_1987(frame: Frame, secret: bytes) -> _Read:
    sealed = frame.sealed
    if frame.flags & Flag.ALL:
        sealed = _decrypt_des(secret, sealed)
    body, trailer = sealed[:-_TRAILER_BYTES], sealed[-_TRAILER_BYTES:]
    if frame.flags & Flag.TRAILER and not frame.flags & Flag.ALL:
        trailer = _decrypt_des(secret, trailer)
    sequence = int.from_bytes(trailer[:8]) & ~(1 << 63)
    return (sequence, packets.parse_body(body, frame.count, _BLOCK),
            _is_trailer(frame, body + trailer, secret))


def _is_trailer(frame: Frame, opened: bytes, secret: bytes) -> bool:
    """Return whether the trailer of 1987 has the right channel number or checksum."""
    text, check = opened[:-_BLOCK], opened[-_BLOCK:]
    if not frame.flags & Flag.CHECKSUM:
        return check == frame.channel
    text = frame.clear_bytes() + text
    # CBC-MAC with the length in front, under the key variant that docs/adp.md defines.
    padded = len(text).to_bytes(_BLOCK) + text + bytes(-len(text) % _BLOCK)
    encryptor = _des_cipher(bytes(byte ^ 0xF0 for byte in secret)).encryptor()
    return check == encryptor.update(padded)[-_BLOCK:]


def _read_modern(frame: Frame, key: ChaCha20Poly1305 | None) -> _Read:
    """Decrypt a message of the modern protocol and verify its tag.

    A body that is not encrypted can be read even if the tag is wrong.
    """
    sequence, sealed, clear = int.from_bytes(frame.sealed[:8]), frame.sealed[
        8:], frame.clear_bytes()
    is_whole = bool(frame.flags & Flag.ALL)
    body = b"" if is_whole else sealed[:-_TAG_BYTES]
    try:
        if key is None:
            is_right = False
        elif is_whole:
            body, is_right = key.decrypt(sequence.to_bytes(12), sealed, clear), True
        else:
            key.decrypt(sequence.to_bytes(12), sealed[-_TAG_BYTES:], clear + body)
            is_right = True
    except InvalidTag:
        is_right = False
    return (sequence, packets.parse_body(body, frame.count) if body else None, is_right)


def _des_key(request: bytes, owner: Path) -> bytes:
    """Return the channel's DES key as the acceptor derives it: the end of S."""
    private: Any = load_pem_private_key(owner.read_bytes(), None)
    numbers = private.private_numbers()
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    secret = pow(int.from_bytes(request[_CHALLENGE_BYTES:]), numbers.d, modulus).to_bytes(size)
    return bytes(secret[-_BLOCK:])


def _decrypt_des(key: bytes, data: bytes) -> bytes:
    decryptor = _des_cipher(key).decryptor()
    return decryptor.update(data) + decryptor.finalize()


def _des_cipher(key: bytes) -> Cipher[modes.CBC]:
    return Cipher(TripleDES(key * 3), modes.CBC(bytes(_BLOCK)))

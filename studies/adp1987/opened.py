"""What a captured channel's messages say, with the run's keys and without the programs' help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from protocols.adp import packets
from protocols.adp.errors import PacketError
from protocols.adp.packets import Flag, Frame, ProtectedBody
from studies.adp1987.logs import DerivedKeys
from studies.adp1987.sniffed import SniffedMessage

_TRAILER_BYTES, _CHALLENGE_BYTES, _BLOCK, _TAG_BYTES = 16, 16, 8, 16


@dataclass(frozen=True)
class OpenedMessage:
    """A message whose sealed part was read: `body` is None where only its program could read it."""

    sniffed: SniffedMessage
    frame: Frame
    sequence: int
    body: ProtectedBody | None
    is_right: bool


@dataclass
class OpenedChannel:
    """The initiator's messages in order, and what both ends gave each other to sign.

    `proofs` are signatures by owner, each different one once, with the number of messages that bore
    one; `spoilt` counts messages that could not be read.
    """

    messages: list[OpenedMessage] = field(default_factory=list)
    requests: set[bytes] = field(default_factory=set)
    channels: set[bytes] = field(default_factory=set)
    challenge: bytes = b""
    proofs: dict[str, set[bytes]] = field(default_factory=dict)
    proof_places: list[int] = field(default_factory=list)
    confirmed_after: int = -1
    spoilt: int = 0


def channel(sniffed: Sequence[SniffedMessage], initiator: str, keys: Path,
            derived: Sequence[DerivedKeys] = ()) -> OpenedChannel:
    """Follow a channel of either version through a capture.

    `keys` has the owners' files; `derived` is the receiver's key log, for the modern protocol.
    """
    opened = OpenedChannel()
    secret = b""
    to_acceptor = [ChaCha20Poly1305(each.to_acceptor) for each in derived]
    to_initiator = [ChaCha20Poly1305(each.to_initiator) for each in derived]
    for message in sniffed:
        frame = message.frame
        if frame is None:
            opened.spoilt += message.source == initiator
            continue
        if message.source != initiator:
            _answered(opened, frame, secret, to_initiator)
            continue
        opened.channels.add(frame.channel)
        if frame.flags & Flag.REQUEST:
            opened.requests.add(frame.request)
            if frame.version == 1 and not secret:
                secret = _key(frame.request, keys / "bob.pem")
        if frame.flags & Flag.SEALED:
            _take(opened, message, frame, _read(frame, secret, to_acceptor))
    return opened


def is_signature(proof: bytes, challenge: bytes, key: Path) -> bool:
    """Whether a signature of 1987 is the challenge under an owner's private key."""
    numbers: Any = load_pem_public_key(key.read_bytes())
    public = numbers.public_numbers()
    size = (public.n.bit_length() + 7) // 8
    block = pow(int.from_bytes(proof), public.e, public.n).to_bytes(size)
    return bool(block == challenge.rjust(size, b"\0"))


def is_modern_signature(proof: bytes, transcript: bytes, owner: str, key: Path) -> bool:
    """Whether an owner of the initiator's has signed the channel of this transcript."""
    public: Any = load_pem_public_key(key.read_bytes())
    try:
        public.verify(proof, b"adp/2 owner" + transcript + b"\x01" + owner.encode())
    except InvalidSignature:
        return False
    return True


def _answered(opened: OpenedChannel, frame: Frame, secret: bytes,
              keys: Sequence[ChaCha20Poly1305]) -> None:
    if frame.flags & Flag.ACKNOWLEDGE and not opened.challenge:
        opened.challenge = frame.acknowledgement[:_CHALLENGE_BYTES] if frame.version == 1 else b""
    body = _read(frame, secret, keys)[1]
    if body is not None and body.confirmed and opened.confirmed_after < 0:
        opened.confirmed_after = len(opened.messages)


def _take(opened: OpenedChannel, message: SniffedMessage, frame: Frame,
          read: tuple[int, ProtectedBody | None, bool]) -> None:
    sequence, body, is_right = read
    if not is_right:
        opened.spoilt += 1
    for proof in body.proofs if body is not None else ():
        opened.proofs.setdefault(proof.name, set()).add(proof.signature)
        opened.proof_places.append(len(opened.messages))
    opened.messages.append(OpenedMessage(message, frame, sequence, body, is_right))


def _read(frame: Frame, secret: bytes, keys: Sequence[ChaCha20Poly1305],
          ) -> tuple[int, ProtectedBody | None, bool]:
    """Sequence number, body and whether all of it is as it must be."""
    try:
        return _read_1987(frame, secret) if frame.version == 1 else _read_modern(frame, keys)
    except (PacketError, ValueError, IndexError):
        return -1, None, False


def _read_1987(frame: Frame, secret: bytes) -> tuple[int, ProtectedBody | None, bool]:
    sealed = frame.sealed
    if frame.flags & Flag.ALL:
        sealed = _decrypt(secret, sealed)
    body, trailer = sealed[:-_TRAILER_BYTES], sealed[-_TRAILER_BYTES:]
    if frame.flags & Flag.TRAILER and not frame.flags & Flag.ALL:
        trailer = _decrypt(secret, trailer)
    sequence = int.from_bytes(trailer[:8]) & ~(1 << 63)
    return (sequence, packets.parse_body(body, frame.count, _BLOCK), trailer[8:] == frame.channel)


def _read_modern(frame: Frame, keys: Sequence[ChaCha20Poly1305],
                 ) -> tuple[int, ProtectedBody | None, bool]:
    """Under one of the channel's keys; without any, what is encrypted stays so."""
    sequence, sealed, clear = int.from_bytes(frame.sealed[:8]), frame.sealed[8:], frame.clear()
    is_whole = bool(frame.flags & Flag.ALL)
    if not keys:
        return sequence, None if is_whole else packets.parse_body(
            sealed[:-_TAG_BYTES], frame.count), True
    for key in keys:
        try:
            if is_whole:
                body = key.decrypt(sequence.to_bytes(12), sealed, clear)
            else:
                body = sealed[:-_TAG_BYTES]
                key.decrypt(sequence.to_bytes(12), sealed[-_TAG_BYTES:], clear + body)
        except InvalidTag:
            continue
        return sequence, packets.parse_body(body, frame.count), True
    return sequence, None, False


def _key(request: bytes, owner: Path) -> bytes:
    """The channel's DES key, as the acceptor gets it: the end of S."""
    private: Any = load_pem_private_key(owner.read_bytes(), None)
    numbers = private.private_numbers()
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    secret = pow(int.from_bytes(request[_CHALLENGE_BYTES:]), numbers.d, modulus).to_bytes(size)
    return bytes(secret[-_BLOCK:])


def _decrypt(key: bytes, data: bytes) -> bytes:
    decryptor = Cipher(TripleDES(key * 3), modes.CBC(bytes(_BLOCK))).decryptor()
    return decryptor.update(data) + decryptor.finalize()

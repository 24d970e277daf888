"""What a captured channel's messages say, with the run's keys and without the programs' help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from protocols.adp import packets
from protocols.adp.errors import PacketError
from protocols.adp.packets import Flag, Frame, ProtectedBody
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


def channel(sniffed: Sequence[SniffedMessage], initiator: str, keys: Path) -> OpenedChannel:
    """Follow a channel of either version through a capture; `keys` has the owners' files."""
    opened = OpenedChannel()
    secret = b""
    for message in sniffed:
        frame = message.frame
        if frame is None:
            opened.spoilt += message.source == initiator
            continue
        if message.source != initiator:
            _answered(opened, frame, secret)
            continue
        opened.channels.add(frame.channel)
        if frame.flags & Flag.REQUEST:
            opened.requests.add(frame.request)
            if frame.version == 1 and not secret:
                secret = _key(frame.request, keys / "bob.pem")
        if frame.flags & Flag.SEALED:
            _take(opened, message, frame, secret)
    return opened


def is_signature(proof: bytes, challenge: bytes, key: Path) -> bool:
    """Whether a signature of 1987 is the challenge under an owner's private key."""
    numbers: Any = load_pem_public_key(key.read_bytes())
    public = numbers.public_numbers()
    size = (public.n.bit_length() + 7) // 8
    block = pow(int.from_bytes(proof), public.e, public.n).to_bytes(size)
    return bool(block == challenge.rjust(size, b"\0"))


def _answered(opened: OpenedChannel, frame: Frame, secret: bytes) -> None:
    if frame.flags & Flag.ACKNOWLEDGE and not opened.challenge:
        opened.challenge = frame.acknowledgement[:_CHALLENGE_BYTES] if frame.version == 1 else b""
    body = _read(frame, secret)[1]
    if body is not None and body.confirmed and opened.confirmed_after < 0:
        opened.confirmed_after = len(opened.messages)


def _take(opened: OpenedChannel, message: SniffedMessage, frame: Frame, secret: bytes) -> None:
    sequence, body, is_right = _read(frame, secret)
    if not is_right:
        opened.spoilt += 1
    for proof in body.proofs if body is not None else ():
        opened.proofs.setdefault(proof.name, set()).add(proof.signature)
        opened.proof_places.append(len(opened.messages))
    opened.messages.append(OpenedMessage(message, frame, sequence, body, is_right))


def _read(frame: Frame, secret: bytes) -> tuple[int, ProtectedBody | None, bool]:
    """Sequence number, body and whether all of it is as it must be."""
    try:
        return _read_1987(frame, secret) if frame.version == 1 else _read_modern(frame)
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


def _read_modern(frame: Frame) -> tuple[int, ProtectedBody | None, bool]:
    """Ephemeral keys are gone: what is encrypted stays so; tags are the receiver's to check."""
    sequence = int.from_bytes(frame.sealed[:8])
    if frame.flags & Flag.ALL:
        return sequence, None, True
    return sequence, packets.parse_body(frame.sealed[8:-_TAG_BYTES], frame.count), True


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

"""Decrypt captured ADP channels with the run's keys, and check who signed their handshakes.

ADP is the Authenticated Datagram Protocol of 1987. A channel is a secure connection between two
hosts. Users are called owners, and each has a key pair. The kernel owner of a host signs for the
host itself.

`decrypt_capture` takes captured datagrams and the keys, and returns the channels with their
decrypted messages. It reads the version of 1987 (RSA, DES) and the modern one (ChaCha20-Poly1305).
`check_channel` and `check_owner` check the handshakes. No code is shared with the protocol's
programs, because these are under test.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from measure.capture.pcap import CapturedFrame
from measure.checks.observation import Check
from protocols.adp import packets
from protocols.adp.packets import Frame, HeaderFlag, PacketError, ProtectedBody
from studies.adp1987.proof import captured_messages
from studies.adp1987.proof.captured_messages import CapturedHead, CapturedMessage

# --- Handshake of the modern protocol: signatures, transcript and keys ---
# The input is the captured request and acknowledgement, the hosts' names, the kernel owners'
# published keys, and the ephemeral private key of one end. Only this private key comes from a
# program, and no code of the programs is used here.

#: Initiator and acceptor: name of the host and of its kernel owner.
ENDS = (("alpha", "alice"), ("beta", "bob"))
_KEY_BYTES, _CHANNEL_BYTES = 32, 8


@dataclass(frozen=True)
class ChannelKeys:
    """The keys of a modern channel.

    - `transcript`: digest of the handshake, which owners sign
    - `are_signed`: whether both hosts signed the handshake
    - `to_acceptor`, `to_initiator`: keys of either direction. The initiator requested the channel.
    - `chain`: key from which the next keys are derived
    """

    transcript: bytes
    are_signed: bool
    to_acceptor: ChaCha20Poly1305 = field(repr=False)
    to_initiator: ChaCha20Poly1305 = field(repr=False)
    chain: bytes = field(repr=False)


def derive_first_keys(request: Frame, answer: Frame, secrets: Mapping[bytes, bytes],
                      folder: Path) -> ChannelKeys | None:
    """Compute the first keys of a channel, or return None if no ephemeral key is known.

    Args:
        request: the captured request for the channel.
        answer: the captured acknowledgement.
        secrets: ephemeral private keys by their public keys.
        folder: folder with the owners' key files.
    """
    requested, request_signature = request.request[:_KEY_BYTES], request.request[_KEY_BYTES:]
    answered, given_signature = (answer.acknowledgement[:_KEY_BYTES],
                                 answer.acknowledgement[_KEY_BYTES:])
    names = b"".join(bytes([len(name)]) + name.encode() for end in ENDS for name in end)
    asking = b"adp/2 request" + request.channel + request.session + requested + names
    answering = b"adp/2 acknowledgement" + answer.session + answered + asking
    shared = _shared_secret(answered, requested, secrets)
    if shared is None:
        return None
    transcript = hashlib.sha256(answering).digest()
    are_signed = (_is_signed(_read_public_key(folder, ENDS[0][1]), request_signature, asking)
                  and _is_signed(_read_public_key(folder, ENDS[1][1]), given_signature, answering))
    return _derive_keys(shared, transcript, b"adp/2 keys", transcript, are_signed=are_signed)


def derive_next_keys(keys: ChannelKeys, request: bytes, answer: bytes,
                     secrets: Mapping[bytes, bytes]) -> ChannelKeys | None:
    """Compute a channel's next keys, or return None if no ephemeral key is known.

    Their key exchange is inside the channel.
    """
    requested, answered = request[_CHANNEL_BYTES:], answer[_CHANNEL_BYTES:]
    shared = _shared_secret(answered, requested, secrets)
    return None if shared is None else _derive_keys(
        shared, keys.chain, b"adp/2 rekey" + request + answer, keys.transcript,
        are_signed=keys.are_signed)


def has_signed(owner: str, signature: bytes, transcript: bytes, key: Path) -> bool:
    """Return whether an owner (user) on the requesting host has signed the channel."""
    public: Any = load_pem_public_key(key.read_bytes())
    return _is_signed(public, signature, b"adp/2 owner" + transcript + b"\x01" + owner.encode())


def _shared_secret(acceptor_share: bytes, initiator_share: bytes,
                   secrets: Mapping[bytes, bytes]) -> bytes | None:
    """Compute the shared secret from either private key, or return None if none is known.

    The private key must belong to the captured public key.
    """
    for share, other_share in ((acceptor_share, initiator_share),
                               (initiator_share, acceptor_share)):
        private = X25519PrivateKey.from_private_bytes(secrets[share]) if share in secrets else None
        if private is not None and private.public_key().public_bytes_raw() == share:
            return private.exchange(X25519PublicKey.from_public_bytes(other_share))
    return None


def _derive_keys(shared: bytes, salt: bytes, purpose: bytes, transcript: bytes, *,
                 are_signed: bool) -> ChannelKeys:
    derived = HKDF(SHA256(), 3 * _KEY_BYTES, salt, purpose).derive(shared)
    to_acceptor, to_initiator, chain = (derived[at:at + _KEY_BYTES]
                                        for at in range(0, len(derived), _KEY_BYTES))
    return ChannelKeys(transcript, are_signed, ChaCha20Poly1305(to_acceptor),
                       ChaCha20Poly1305(to_initiator), chain)


def _read_public_key(folder: Path, owner: str) -> Any:
    """Read an owner's public key from its file, or from that of the private key."""
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


# --- Decryption of the messages in a capture ---

_TRAILER_BYTES, _CHALLENGE_BYTES, _BLOCK, _TAG_BYTES = 16, 16, 8, 16
#: Sequence number, body if readable, and whether the message is valid.
_Read = tuple[int, ProtectedBody | None, bool]


@dataclass(frozen=True)
class DecryptedMessage:
    """A decrypted ADP datagram.

    - `frame`: parsed fields of the captured datagram
    - `sequence`: sequence number
    - `body`: decrypted content, None if decryption failed
    - `is_again`: whether a datagram with equal bytes was sent before
    - `is_bare`: whether the trailer was valid although it was not encrypted
    """

    frame: Frame
    sequence: int
    body: ProtectedBody | None
    is_again: bool
    is_bare: bool


@dataclass
class DecryptedChannel:
    """A channel with its keys and the datagrams of the requesting host, in order.

    - `request`, `requests`: the first datagram with a request, and all different requests
    - `messages`: datagrams of the requesting host
    - `challenge`: the random number that owners sign (version of 1987)
    - `signatures`: the different signatures, by owner (user)
    - `signature_places`: positions of the datagrams with a signature
    - `confirmed_after`: number of datagrams before the other host confirmed, -1 if it never did
    - `secret`: the DES key (version of 1987)
    - `keys`: keys of the modern version by channel number. New keys have a new number.
    - `next_request`: request for new keys that has no answer yet
    - `known`: all datagrams so far, to detect copies
    """

    request: Frame | None = None
    requests: set[bytes] = field(default_factory=set)
    messages: list[DecryptedMessage] = field(default_factory=list)
    challenge: bytes = b""
    signatures: dict[str, set[bytes]] = field(default_factory=dict)
    signature_places: list[int] = field(default_factory=list)
    confirmed_after: int = -1
    secret: bytes = field(default=b"", repr=False)
    keys: dict[bytes, ChannelKeys] = field(default_factory=dict, repr=False)
    next_request: bytes = b""
    known: set[Frame] = field(default_factory=set, repr=False)

    @property
    def is_old(self) -> bool:
        """Return whether the channel has the version of 1987, whose handshake is not signed."""
        return self.request is None or self.request.version == 1

    @property
    def is_signed(self) -> bool:
        """Return whether no required signature of the handshake is missing.

        In the modern version, both hosts sign the handshake. The handshake of 1987 has no
        signatures, so none can be missing.
        """
        return self.is_old or any(keys.are_signed for keys in self.keys.values())

    def is_signature(self, owner: str, signature: bytes, key: Path) -> bool:
        """Return whether an owner's signature for this channel fits the published public key."""
        if self.is_old:
            return is_signature(signature, self.challenge, key)
        return any(has_signed(owner, signature, keys.transcript, key)
                   for keys in self.keys.values())


@dataclass
class DecryptedCapture:
    """All channels that one host requested.

    - `channels`: the channels, in order of their requests
    - `spoilt`: number of invalid datagrams of this host
    - `by_number`: the channel to which each channel number belongs. New keys have a new number.
    """

    channels: list[DecryptedChannel] = field(default_factory=list)
    spoilt: int = 0
    by_number: dict[bytes, DecryptedChannel] = field(default_factory=dict, repr=False)

    @property
    def messages(self) -> list[DecryptedMessage]:
        """Return the datagrams of the requesting host, ordered by channel."""
        return [message for channel in self.channels for message in channel.messages]


def decrypt_capture(sniffed: Sequence[CapturedMessage], initiator: str, keys: Path,
                    secrets: Mapping[bytes, bytes]) -> DecryptedCapture:
    """Decrypt the channels of both protocol versions in a capture.

    Args:
        sniffed: captured datagrams, in order of time.
        initiator: IPv4 address of the host that requests channels.
        keys: folder with the owners' key files.
        secrets: ephemeral private keys by their public keys, for the modern version.
    """
    opened = DecryptedCapture()
    for message in sniffed:
        frame = message.frame
        if frame is None:
            opened.spoilt += message.source == initiator
        elif message.source != initiator:
            _record_answer(opened, frame, secrets, keys)
        else:
            _record_message(opened, frame, keys)
    return opened


def is_signature(proof: bytes, challenge: bytes, key: Path) -> bool:
    """Return whether an owner signed the challenge, by the rules of 1987 (RSA without padding)."""
    numbers: Any = load_pem_public_key(key.read_bytes())
    public = numbers.public_numbers()
    size = (public.n.bit_length() + 7) // 8
    block = pow(int.from_bytes(proof), public.e, public.n).to_bytes(size)
    return bool(block == challenge.rjust(size, b"\0"))


def _record_answer(opened: DecryptedCapture, frame: Frame, secrets: Mapping[bytes, bytes],
                   folder: Path) -> None:
    """Record the other host's challenge or keys, and its confirmation of signatures."""
    channel = opened.by_number.get(frame.channel)
    if channel is None:
        return
    if frame.flags & HeaderFlag.ACKNOWLEDGE and frame.version == 1 and not channel.challenge:
        channel.challenge = frame.acknowledgement[:_CHALLENGE_BYTES]
    elif frame.flags & HeaderFlag.ACKNOWLEDGE and frame.version != 1:
        _record_keys(opened, channel, frame, secrets, folder)
    body = _read_sealed(channel, frame, by_initiator=False)[1]
    if body is not None and body.confirmations and channel.confirmed_after < 0:
        channel.confirmed_after = len(channel.messages)


def _record_keys(opened: DecryptedCapture, channel: DecryptedChannel, frame: Frame,
                 secrets: Mapping[bytes, bytes], folder: Path) -> None:
    """Compute and record the keys that follow from an acknowledgement of the modern version.

    They are the first keys of a channel, or the next ones.
    """
    number, last, keys = frame.channel, channel.keys.get(frame.channel), None
    if not frame.flags & HeaderFlag.REKEY and channel.request is not None:
        keys = derive_first_keys(channel.request, frame, secrets, folder)
    elif last is not None:
        number = frame.acknowledgement[:8]
        keys = derive_next_keys(last, channel.next_request, frame.acknowledgement,
                                secrets)
    if keys is not None and number not in channel.keys:
        channel.keys[number] = keys
        opened.by_number[number] = channel


def _record_message(opened: DecryptedCapture, frame: Frame, folder: Path) -> None:
    """Add a captured datagram of the host that requested the channel to its channel in `opened`.

    The first request also creates the channel. A protected datagram is decrypted first.
    """
    channel = opened.by_number.get(frame.channel)
    if channel is None:
        channel = opened.by_number[frame.channel] = DecryptedChannel()
        opened.channels.append(channel)
    if frame.flags & HeaderFlag.REQUEST and frame.flags & HeaderFlag.REKEY:
        channel.next_request = frame.request
    elif frame.flags & HeaderFlag.REQUEST:
        channel.requests.add(frame.request)
        if channel.request is None:
            channel.request = frame
            channel.secret = _des_key(frame.request,
                                      folder / "bob.pem") if frame.version == 1 else b""
    if not frame.flags & HeaderFlag.SEALED:
        return
    sequence, body, is_right = _read_sealed(channel, frame, by_initiator=True)
    opened.spoilt += not is_right
    # A copy is not opened again; its sequence number shows that it is a copy.
    is_again = frame in channel.known
    channel.known.add(frame)
    for signature in body.signatures if body is not None and not is_again else ():
        channel.signatures.setdefault(signature.name, set()).add(signature.value)
        channel.signature_places.append(len(channel.messages))
    is_bare = frame.version == 1 and _is_trailer(frame, frame.sealed, channel.secret)
    channel.messages.append(DecryptedMessage(frame, sequence, body, is_again, is_bare))


def _read_sealed(channel: DecryptedChannel, frame: Frame, *, by_initiator: bool) -> _Read:
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
    if frame.flags & HeaderFlag.ALL:
        sealed = _decrypt_des(secret, sealed)
    body, trailer = sealed[:-_TRAILER_BYTES], sealed[-_TRAILER_BYTES:]
    if frame.flags & HeaderFlag.TRAILER and not frame.flags & HeaderFlag.ALL:
        trailer = _decrypt_des(secret, trailer)
    sequence = int.from_bytes(trailer[:8]) & ~(1 << 63)
    return (sequence, packets.parse_body(body, frame.count, _BLOCK),
            _is_trailer(frame, body + trailer, secret))


def _is_trailer(frame: Frame, opened: bytes, secret: bytes) -> bool:
    """Return whether a decrypted trailer of 1987 has the right channel number or checksum."""
    text, check = opened[:-_BLOCK], opened[-_BLOCK:]
    if not frame.flags & HeaderFlag.CHECKSUM:
        return check == frame.channel
    text = frame.clear_bytes() + text
    # CBC-MAC with the length in front, under the key variant that docs/adp.md defines.
    padded = len(text).to_bytes(_BLOCK) + text + bytes(-len(text) % _BLOCK)
    encryptor = _des_cipher(bytes(byte ^ 0xF0 for byte in secret)).encryptor()
    return check == encryptor.update(padded)[-_BLOCK:]


def _read_modern(frame: Frame, key: ChaCha20Poly1305 | None) -> _Read:
    """Decrypt a datagram of the modern version, and verify its tag.

    A body that is not encrypted can be read even if the tag is wrong.
    """
    sequence, sealed, clear = int.from_bytes(frame.sealed[:8]), frame.sealed[
        8:], frame.clear_bytes()
    is_whole = bool(frame.flags & HeaderFlag.ALL)
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
    """Return a channel's DES key, from the request and the private key of the other host."""
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


# --- Checks of the ends of a channel ---
# They are equal over wires and on the air.

OWNER = "xena"
#: Key files that are needed to open a channel and to verify its signatures.
KEY_FILES = (f"{OWNER}.pub.pem", "alice.pub.pem", "bob.pem")


def ephemeral_keys(logged: Iterable[Sequence[str]]) -> dict[bytes, bytes]:
    """Return the ephemeral private keys in a program's log, by their public keys."""
    return {bytes.fromhex(public): bytes.fromhex(private) for public, private in logged}


def open_frames(frames: Iterable[CapturedFrame], initiator: str, keys: Path,
                secrets: Mapping[bytes, bytes]) -> DecryptedCapture:
    """Decrypt the channels in complete captured frames.

    Args:
        frames: captured frames, in order of time.
        initiator: IPv4 address of the host that requests channels.
        keys: folder with the owners' key files.
        secrets: ephemeral private keys by their public keys.

    Raises:
        MeasureError: the frames cannot be read.
    """
    return decrypt_capture(captured_messages.reassemble_messages(frames), initiator, keys, secrets)


def check_channel(capture: DecryptedCapture, later: Sequence[CapturedHead] = ()) -> Check:
    """Check that one request led to one channel, whose handshake both hosts signed.

    The version of 1987 does not sign the handshake.

    Args:
        capture: the decrypted first phase.
        later: headers of later datagrams. They must be on that channel and request no other one.
    """
    requests = sum(len(channel.requests) for channel in capture.channels)
    unsigned = sum(not channel.is_signed for channel in capture.channels)
    asking = sum(head.is_request for head in later)
    strange = captured_messages.count_channels({head.channel for head in later},
                                               capture.by_number.keys() | {
                                                   head.announced for head in later})
    return Check("channel", requests == len(capture.channels) == 1 and bool(capture.messages)
                 and not (unsigned or asking or strange), (
        f"{requests} request for {len(capture.channels)} channel in the capture, "
        f"{len(capture.messages)} messages on it; {strange} other channels and {asking} requests "
        f"in the {len(later)} ADP messages of later phases"
        + f"; {unsigned} whose handshake the kernels' owners have not signed" * bool(unsigned)))


def check_owner(capture: DecryptedCapture, folder: Path,
                later: Sequence[CapturedHead] = ()) -> Check:
    """Check that the owner (user) of the messages signs a channel validly and only once.

    The signature must fit the published public key. None may follow the other host's confirmation.

    Args:
        capture: the decrypted first phase.
        folder: folder with the published keys.
        later: headers of later datagrams, without a further signature that is visible.
    """
    key = folder / f"{OWNER}.pub.pem"
    counts = [len(channel.signatures.get(OWNER, ())) for channel in capture.channels]
    others = {name for channel in capture.channels for name in channel.signatures} - {OWNER}
    wrong = sum(not channel.is_signature(OWNER, signature, key) for channel in capture.channels
                for signature in channel.signatures.get(OWNER, ()))
    after = sum(0 <= channel.confirmed_after <= place for channel in capture.channels
                for place in channel.signature_places)
    unknown = sum(channel.confirmed_after < 0 for channel in capture.channels)
    unread = sum(message.body is None for message in capture.messages)
    bearing = sum(len(channel.signature_places) for channel in capture.channels)
    repeated = sum(head.signatures for head in later)
    ok = bool(counts) and set(counts) == {1} and not (
        others or wrong or after or unknown or unread or repeated)
    return Check("owner", ok, (
        f"{sum(counts)} signature of {OWNER} on {len(counts)} channel, {wrong} of them wrong under "
        f"the published key, in {bearing} of {len(capture.messages)} messages ({unread} of them "
        f"unreadable), {after} after it was confirmed, {unknown} never confirmed; {len(others)} of "
        f"other owners"
        + f"; {repeated} in the clear in the {len(later)} ADP messages of later phases"
        * bool(later)))

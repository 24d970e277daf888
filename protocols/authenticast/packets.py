"""Encode and parse the packets of an Authenticast stream, and generate their content.

Authenticast streams signed packets over UDP. There are three kinds: data (`StreamPacket`), the
signature of a bundle (a group of packets), and a disclosed TESLA key. All integers are big-endian.
`signed_bytes` returns the bytes that a signature covers. They do not include the length of the
signature, which is unknown before signing. `ConstantSource` and `FrameTraceSource` (frames of a
video) yield the packets to send.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from protocols.authenticast.settings import MAX_BUNDLE, Algorithm, Scheme
from protocols.authenticast.wire import FieldReader, MessageKind, PacketError

_DATA = struct.Struct("!BBBIQQIIHHH")
_BUNDLE = struct.Struct("!BIIQH")
_DISCLOSE = struct.Struct("!III")
TESLA_KEY_BYTES = 32
# Flags: the frame's type in the two low bits, then its first and its last packet (one bit each).
FRAME_TYPES = ("", "I", "P", "B")
FIRST_OF_FRAME = 0x04
LAST_OF_FRAME = 0x08


@dataclass(frozen=True)
class StreamPacket:
    """A data packet of a stream.

    - `scheme`, `algorithm`: how it is authenticated
    - `frame`, `flags`: number of the video frame that it is a part of, and marks of its kind
    - `sent_ns`: time of signing on the server's clock
    - `epoch`: number of the setting that it follows
    - `position`, `bundle`: its index in a bundle or tree (group signed together), and the number of
      packets there. They are 0 and 1 for a packet that is signed alone.
    - `authenticator`: signature, MAC or path in the tree
    """

    scheme: Scheme
    algorithm: Algorithm
    flags: int
    stream: int
    sequence: int
    sent_ns: int
    frame: int
    epoch: int
    position: int
    bundle: int
    payload: bytes
    authenticator: bytes = b""

    @property
    def first(self) -> int:
        """Return the sequence number of the first packet in this packet's bundle or tree."""
        return self.sequence - self.position

    def signed_bytes(self) -> bytes:
        """Return the bytes that the signature or MAC covers: header with flags, and payload."""
        return bytes((MessageKind.DATA.first_byte,)) + _DATA.pack(
            self.scheme, self.algorithm, self.flags, self.stream, self.sequence, self.sent_ns,
            self.frame, self.epoch, self.position, self.bundle, len(self.payload)) + self.payload

    def encode(self) -> bytes:
        """Return the packet as a datagram."""
        return self.signed_bytes() + self.authenticator


def parse_data(data: bytes) -> StreamPacket:
    """Parse a data packet of a stream.

    Raises:
        PacketError: the datagram does not have the format of a data packet.
    """
    reader = FieldReader(data, MessageKind.DATA)
    scheme, algorithm, *numbers, position, bundle, length = reader.read_numbers(_DATA)
    flags, stream, sequence, sent_ns, frame, epoch = numbers
    try:
        packet = StreamPacket(Scheme(scheme), Algorithm(algorithm), flags, stream, sequence,
                              sent_ns,
                              frame, epoch, position, bundle, reader.read_bytes(length),
                              reader.read_rest())
    except ValueError as error:
        raise PacketError(str(error)) from None
    if packet.position > packet.sequence or not (
            packet.position < packet.bundle <= MAX_BUNDLE):
        raise PacketError(f"packet {packet.position} of a group of {packet.bundle}")
    return packet


@dataclass(frozen=True)
class BundleSignature:
    """A packet with one signature over a group of `size` packets from sequence number `first` on.

    The hashes of the packets are not sent: the receiver computes them.
    """

    algorithm: Algorithm
    stream: int
    epoch: int
    first: int
    size: int
    signature: bytes = b""

    def signed_bytes(self, hashes: bytes) -> bytes:
        """Return the bytes that the signature covers: header, and hash of each packet."""
        return self._encode_head() + hashes

    def _encode_head(self) -> bytes:
        return bytes((MessageKind.BUNDLE.first_byte,)) + _BUNDLE.pack(
            self.algorithm, self.stream, self.epoch, self.first, self.size)

    def encode(self) -> bytes:
        """Return the signature of the group as a datagram."""
        return self._encode_head() + self.signature


def parse_bundle(data: bytes) -> BundleSignature:
    """Parse a packet with the signature of a group.

    Raises:
        PacketError: the datagram does not have this format.
    """
    reader = FieldReader(data, MessageKind.BUNDLE)
    algorithm, stream, epoch, first, size = reader.read_numbers(_BUNDLE)
    if not 1 <= size <= MAX_BUNDLE:
        raise PacketError(f"a bundle of {size} packets")
    try:
        return BundleSignature(Algorithm(algorithm), stream, epoch, first, size, reader.read_rest())
    except ValueError as error:
        raise PacketError(str(error)) from None


@dataclass(frozen=True)
class KeyDisclosure:
    """A packet that discloses a TESLA key, with which earlier packets can be verified.

    The receiver checks the key against the key chain, so the packet needs no signature.
    """

    stream: int
    epoch: int
    interval: int
    key: bytes

    def encode(self) -> bytes:
        """Return the disclosed key as a datagram."""
        return bytes((MessageKind.DISCLOSE.first_byte,)) + _DISCLOSE.pack(
            self.stream, self.epoch, self.interval) + self.key


def parse_disclosure(data: bytes) -> KeyDisclosure:
    """Parse a packet that discloses a TESLA key.

    Raises:
        PacketError: the datagram does not have this format.
    """
    reader = FieldReader(data, MessageKind.DISCLOSE)
    stream, epoch, interval = reader.read_numbers(_DISCLOSE)
    key = reader.read_bytes(TESLA_KEY_BYTES)
    reader.check_end()
    return KeyDisclosure(stream, epoch, interval, key)


# --- Packet sources: a constant rate, or the frames of a trace cut into packets ---

_FRAME = re.compile(r"([IPB]),0*([1-9][0-9]*)(?:,([0-9]+))?", re.ASCII)


@dataclass(frozen=True)
class SourcePacket:
    """The content of a packet to send: size, frame number, flags and time to the next packet."""

    payload: bytes
    frame: int
    flags: int
    gap_ns: int


@dataclass(frozen=True)
class ConstantSource:
    """A source of packets of one size at a constant rate. Each packet counts as a frame."""

    packets: int
    packets_per_s: float
    payload_bytes: int
    seed: int = 1

    def items(self) -> Iterator[SourcePacket]:
        """Yield the packets of the source in order."""
        rng = random.Random(self.seed)  # noqa: S311 - a picture, no secret
        gap_ns = round(1e9 / self.packets_per_s)
        for number in range(self.packets):
            yield SourcePacket(rng.randbytes(self.payload_bytes), number,
                               FIRST_OF_FRAME | LAST_OF_FRAME, gap_ns)


@dataclass(frozen=True)
class FrameTraceSource:
    """A source of packets that repeats the frames of a video trace `rounds` times.

    A frame has a type, a size in bytes and a duration in ns. Its packets are spread evenly over its
    duration. A duration of 0 means the interval of `frames_per_s`.
    """

    frames: tuple[tuple[str, int, int], ...]
    frames_per_s: float
    payload_bytes: int
    rounds: int = 1
    seed: int = 1

    def items(self) -> Iterator[SourcePacket]:
        """Yield the packets of all frames in order."""
        rng = random.Random(self.seed)  # noqa: S311 - a picture, no secret
        for number, (kind, size, lasts_ns) in enumerate(self.frames * self.rounds):
            count = -(-size // self.payload_bytes)
            gap_ns = round((lasts_ns or 1e9 / self.frames_per_s) / count)
            for part in range(count):
                flags = (FRAME_TYPES.index(kind) | FIRST_OF_FRAME * (part == 0)
                         | LAST_OF_FRAME * (part == count - 1))
                length = min(self.payload_bytes, size - part * self.payload_bytes)
                yield SourcePacket(rng.randbytes(length), number, flags, gap_ns)


def read_frames(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Read a video trace file with a frame per line: type and bytes.

    A line is `I,9000`, or `I,9000,40000` with the frame's duration in microseconds.

    Raises:
        ValueError: a line has another format.
        OSError: the file cannot be read.
    """
    frames = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        matched = _FRAME.fullmatch(line)
        if matched is None:
            raise ValueError(f"{path.name}, line {number}: give I, P or B, a comma, and bytes")
        kind, size, lasts_us = matched.groups()
        frames.append((kind, int(size), 1000 * int(lasts_us or 0)))
    if not frames:
        raise ValueError(f"{path.name}: no frames")
    return tuple(frames)

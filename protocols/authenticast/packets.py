"""Packets of the data plane.

They are data, the signature of a bundle, and a disclosed TESLA key. Encoders and parsers are pure
functions on bytes. All integers are big-endian. `signed_bytes` returns the bytes that are
authenticated. They do not contain the length of the signature, which is not known before signing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from protocols.authenticast.settings import MAX_BUNDLE, Algorithm, Scheme
from protocols.authenticast.wire import Kind, PacketError, Reader

_DATA = struct.Struct("!BBBIQQIIHHH")
_BUNDLE = struct.Struct("!BIIQH")
_DISCLOSE = struct.Struct("!III")
DATA_HEADER_BYTES = 1 + _DATA.size
TESLA_KEY_BYTES = 32
# Flags: the frame's type in the two low bits, then its first and its last packet (one bit each).
FRAME_TYPES = ("", "I", "P", "B")
FIRST_OF_FRAME = 0x04
LAST_OF_FRAME = 0x08


@dataclass(frozen=True)
class Data:
    """A data packet of the stream.

    `position` is its index in a bundle or tree of `bundle` packets. The two are 0 and 1 where a
    packet is authenticated alone. `sent_ns` is when the server sealed the packet, on the server's
    clock.
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
        """Return the sequence number of the first packet of its bundle or tree."""
        return self.sequence - self.position

    def signed_bytes(self) -> bytes:
        """Return the authenticated bytes: header with flags, and payload.

        They are all bytes before the authenticator.
        """
        return bytes((Kind.DATA.first_byte,)) + _DATA.pack(
            self.scheme, self.algorithm, self.flags, self.stream, self.sequence, self.sent_ns,
            self.frame, self.epoch, self.position, self.bundle, len(self.payload)) + self.payload

    def encode(self) -> bytes:
        """Return the datagram."""
        return self.signed_bytes() + self.authenticator


def parse_data(data: bytes) -> Data:
    """Parse a data packet. Raises PacketError."""
    reader = Reader(data, Kind.DATA)
    scheme, algorithm, *numbers, position, bundle, length = reader.read_numbers(_DATA)
    flags, stream, sequence, sent_ns, frame, epoch = numbers
    try:
        packet = Data(Scheme(scheme), Algorithm(algorithm), flags, stream, sequence, sent_ns,
                      frame, epoch, position, bundle, reader.read_bytes(length), reader.read_rest())
    except ValueError as error:
        raise PacketError(str(error)) from None
    if packet.position > packet.sequence or not (
            packet.position < packet.bundle <= MAX_BUNDLE):
        raise PacketError(f"packet {packet.position} of a group of {packet.bundle}")
    return packet


@dataclass(frozen=True)
class Bundle:
    """A signature over the `size` packets from sequence number `first` on.

    The packets' hashes are not sent: the receiver computes them.
    """

    algorithm: Algorithm
    stream: int
    epoch: int
    first: int
    size: int
    signature: bytes = b""

    def signed_bytes(self, hashes: bytes) -> bytes:
        """Return the bytes that the signature covers.

        They are the header and the hash of the authenticated bytes of each packet.
        """
        return self._encode_head() + hashes

    def _encode_head(self) -> bytes:
        return bytes((Kind.BUNDLE.first_byte,)) + _BUNDLE.pack(
            self.algorithm, self.stream, self.epoch, self.first, self.size)

    def encode(self) -> bytes:
        """Return the datagram."""
        return self._encode_head() + self.signature


def parse_bundle(data: bytes) -> Bundle:
    """Parse the signature of a bundle. Raises PacketError."""
    reader = Reader(data, Kind.BUNDLE)
    algorithm, stream, epoch, first, size = reader.read_numbers(_BUNDLE)
    if not 1 <= size <= MAX_BUNDLE:
        raise PacketError(f"a bundle of {size} packets")
    try:
        return Bundle(Algorithm(algorithm), stream, epoch, first, size, reader.read_rest())
    except ValueError as error:
        raise PacketError(str(error)) from None


@dataclass(frozen=True)
class Disclose:
    """A disclosed TESLA key.

    The receiver checks the key against the key chain, so the packet needs no signature.
    """

    stream: int
    epoch: int
    interval: int
    key: bytes

    def encode(self) -> bytes:
        """Return the datagram."""
        return bytes((Kind.DISCLOSE.first_byte,)) + _DISCLOSE.pack(
            self.stream, self.epoch, self.interval) + self.key


def parse_disclose(data: bytes) -> Disclose:
    """Parse a disclosed TESLA key. Raises PacketError."""
    reader = Reader(data, Kind.DISCLOSE)
    stream, epoch, interval = reader.read_numbers(_DISCLOSE)
    key = reader.read_bytes(TESLA_KEY_BYTES)
    reader.check_end()
    return Disclose(stream, epoch, interval, key)

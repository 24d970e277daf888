"""Encode and parse the control messages between Authenticast client and server.

Authenticast streams signed packets over UDP. The messages are hello, hello-ack, report, control,
change, ack and bye, each a class here. `parse_message` takes a datagram, and returns a
`ReceivedMessage`: its body and its authentication. The authentication is first a MAC under the
session's keys, so that forgeries cost little time. A signature follows where a third party may have
to be convinced. Hellos have a signature only. Times are in nanoseconds, fractions in hundredths of
a per cent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from protocols.authenticast.settings import (
    RANGE_BYTES,
    SETTING_BYTES,
    LevelRange,
    StreamSetting,
    parse_range,
    parse_setting,
)
from protocols.authenticast.wire import (
    FieldReader,
    MessageKind,
    PacketError,
    encode_block,
    encode_text,
    kind_of,
)

NONCE_BYTES = 16
EXCHANGE_BYTES = 32
DIGEST_BYTES = 32
MAC_BYTES = 16
_HELLO = struct.Struct("!QHIIB")
_HELLO_ACK = struct.Struct("!IQII")
_CONTROL = struct.Struct("!IQB")
_CHANGE = struct.Struct("!IIQQ")
_ACK = struct.Struct("!II")
_BYE = struct.Struct("!IQ")
_AUTOMATIC = 0x01
_ALGORITHM_CHANGE = 0x02


@dataclass(frozen=True)
class StreamRequest:
    """The user's request for a stream: setting, permitted range of levels and two switches.

    The level is the fraction of packets to verify. With `automatic`, the server's controller
    chooses the setting. With `algorithm_change`, it may also change the algorithm.
    """

    permitted: LevelRange
    setting: StreamSetting
    automatic: bool = False
    algorithm_change: bool = False

    def to_flags(self) -> int:
        """Return the two switches of the request as flag bits of a message."""
        return _AUTOMATIC * self.automatic | _ALGORITHM_CHANGE * self.algorithm_change

    def to_event_fields(self) -> dict[str, Any]:
        """Return the request as fields of an event. Levels are fractions from 0 to 1."""
        setting = self.setting
        return {"low": self.permitted.low, "high": self.permitted.high,
                "scheme": setting.scheme.name.lower(),
                "algorithm": setting.algorithm.name.lower(), "bundle": setting.bundle,
                "level": setting.level, "automatic": self.automatic,
                "algorithm_change": self.algorithm_change}


@dataclass(frozen=True)
class Hello:
    """A client's request for a stream, signed with the client's identity key.

    - `name`, `time_ns`: name of the client, and time of the request
    - `data_port`: UDP port for the stream
    - `algorithms`, `schemes`: those that the client supports, as bits
    - `nonce`, `exchange`: random bytes, and the client's part of the key exchange
    - `wish`: requested settings of the stream
    """

    name: str
    time_ns: int
    data_port: int
    algorithms: int
    schemes: int
    nonce: bytes
    exchange: bytes
    wish: StreamRequest

    def encode(self) -> bytes:
        """Return the hello as bytes, without its signature."""
        return bytes((MessageKind.HELLO.first_byte,)) + _HELLO.pack(
            self.time_ns, self.data_port, self.algorithms, self.schemes, self.wish.to_flags()) + (
            self.nonce + self.exchange + self.wish.permitted.encode() + self.wish.setting.encode()
            + encode_text(self.name))


@dataclass(frozen=True)
class HelloAck:
    """The server's answer to a hello, which grants the stream.

    The server signs the hello and this answer with its identity key.

    - `name`, `time_ns`: name of the server, and time of the answer
    - `stream`: number of the stream
    - `algorithms`, `schemes`: those that both ends support, as bits
    - `hello`: digest of the hello
    - `nonce`, `exchange`: random bytes, and the server's part of the key exchange
    - `setting`: setting with which the stream begins
    """

    name: str
    stream: int
    time_ns: int
    algorithms: int
    schemes: int
    hello: bytes
    nonce: bytes
    exchange: bytes
    setting: StreamSetting

    def encode(self) -> bytes:
        """Return the answer as bytes, without its signature."""
        return bytes((MessageKind.HELLO_ACK.first_byte,)) + _HELLO_ACK.pack(
            self.stream, self.time_ns, self.algorithms, self.schemes) + (
            self.hello + self.nonce + self.exchange + self.setting.encode()
            + encode_text(self.name))


@dataclass(frozen=True)
class ControlMessage:
    """A message of the client with a new request of its user for the running stream.

    `number` increases with each request. `exchange` is an X25519 public key if a secret key is
    requested, otherwise empty.
    """

    stream: int
    number: int
    wish: StreamRequest
    exchange: bytes = b""

    def encode(self) -> bytes:
        """Return the message as bytes, without its authentication."""
        return bytes((MessageKind.CONTROL.first_byte,)) + _CONTROL.pack(
            self.stream, self.number, self.wish.to_flags()) + (
            self.wish.permitted.encode() + self.wish.setting.encode() + encode_block(self.exchange))


@dataclass(frozen=True)
class EpochChange:
    """The server's announcement that the stream gets a new setting.

    A setting says how packets are authenticated. An epoch is the time of one setting. No packet
    before sequence number `first` belongs to the new epoch. `answers` is the number of the last
    control message that the server has processed. `material` is what the scheme needs: the server's
    X25519 public key, or parameters of TESLA.
    """

    stream: int
    epoch: int
    first: int
    answers: int
    setting: StreamSetting
    cause: str = ""
    material: bytes = b""

    def encode(self) -> bytes:
        """Return the announcement as bytes, without its authentication."""
        return bytes((MessageKind.CHANGE.first_byte,)) + _CHANGE.pack(
            self.stream, self.epoch, self.first, self.answers) + (
            self.setting.encode() + encode_text(self.cause) + encode_block(self.material))


@dataclass(frozen=True)
class Ack:
    """A client's acknowledgement of a new setting, or a keep-alive of the server.

    - `stream`: number of the stream
    - `epoch`: number of the acknowledged setting. Epoch 0 confirms the handshake. In a
      keep-alive it is the server's latest epoch.
    - `proof`: shows that the client has the secret key of the epoch
    """

    stream: int
    epoch: int
    proof: bytes = b""

    def encode(self) -> bytes:
        """Return the acknowledgement as bytes, without its authentication."""
        return bytes((MessageKind.ACK.first_byte,)) + _ACK.pack(self.stream,
                                                                self.epoch) + encode_block(
                                                                    self.proof)


@dataclass(frozen=True)
class ReceiverReport:
    """A report of the client to the server on received and verified packets.

    Most fields are packet counts since the start.

    - `stream`, `number`: numbers of the stream and of the report
    - `highest`, `processing`: one more than the highest sequence number accepted, and processed
    - `failed`: packets whose verification failed
    - `buffer`, `air`: packets that the receive buffer dropped, and that were lost on the way
    - `waiting`: packets that wait for verification
    - `holes`: number of gaps between processed packets
    - `lag_ns`: delay of the last processed packet beyond the smallest delay
    - `verify_ns`, `handle_ns`: mean time to verify a signature, and to handle a packet without that
    - `level`: fraction of packets verified in the last second
    """

    stream: int
    number: int
    highest: int
    processing: int
    processed: int
    verified: int
    failed: int
    buffer: int
    air: int
    waiting: int
    holes: int
    lag_ns: int
    verify_ns: int
    handle_ns: int
    level: int

    def encode(self) -> bytes:
        """Return the report as bytes, without its authentication."""
        return bytes((MessageKind.REPORT.first_byte,)) + _REPORT.pack(
            *(getattr(self, field.name) for field in fields(self)))


_REPORT = struct.Struct("!I13QH")


@dataclass(frozen=True)
class Bye:
    """A message that ends the stream. All sequence numbers are below `end`."""

    stream: int
    end: int

    def encode(self) -> bytes:
        """Return the message as bytes, without its authentication."""
        return bytes((MessageKind.BYE.first_byte,)) + _BYE.pack(self.stream, self.end)


Message = Hello | HelloAck | ControlMessage | EpochChange | Ack | ReceiverReport | Bye


@dataclass(frozen=True)
class ReceivedMessage:
    """A control message as received, with its authentication.

    `authentication` (MAC, signature or both) is about the bytes in `body`.
    """

    message: Message
    body: bytes
    authentication: bytes


def parse_message(data: bytes) -> ReceivedMessage:
    """Parse a control message.

    Raises:
        PacketError: the datagram does not have the format of a control message.
    """
    kind = kind_of(data)
    if kind not in _PARSERS:
        raise PacketError("no message of the control plane")
    reader = FieldReader(data, kind)
    try:
        message = _PARSERS[kind](reader)
    except ValueError as error:
        raise PacketError(str(error)) from None
    body = data[:reader.offset]
    return ReceivedMessage(message, body, reader.read_rest())


def _parse_request(reader: FieldReader, flags: int) -> StreamRequest:
    if flags & ~(_AUTOMATIC | _ALGORITHM_CHANGE):
        raise PacketError(f"unknown flags {flags:#x}")
    permitted = parse_range(reader.read_bytes(RANGE_BYTES))
    setting = parse_setting(reader.read_bytes(SETTING_BYTES)).check(permitted)
    return StreamRequest(permitted, setting, bool(flags & _AUTOMATIC),
                         bool(flags & _ALGORITHM_CHANGE))


def _parse_hello(reader: FieldReader) -> Hello:
    time_ns, port, algorithms, schemes, flags = reader.read_numbers(_HELLO)
    nonce, exchange = reader.read_bytes(NONCE_BYTES), reader.read_bytes(EXCHANGE_BYTES)
    wish = _parse_request(reader, flags)
    return Hello(reader.read_text(), time_ns, port, algorithms, schemes, nonce, exchange, wish)


def _parse_hello_ack(reader: FieldReader) -> HelloAck:
    stream, time_ns, algorithms, schemes = reader.read_numbers(_HELLO_ACK)
    hello, nonce = reader.read_bytes(DIGEST_BYTES), reader.read_bytes(NONCE_BYTES)
    exchange = reader.read_bytes(EXCHANGE_BYTES)
    setting = parse_setting(reader.read_bytes(SETTING_BYTES))
    return HelloAck(reader.read_text(), stream, time_ns, algorithms, schemes, hello, nonce,
                    exchange,
                    setting)


def _parse_control(reader: FieldReader) -> ControlMessage:
    stream, number, flags = reader.read_numbers(_CONTROL)
    wish = _parse_request(reader, flags)
    return ControlMessage(stream, number, wish, reader.read_block())


def _parse_change(reader: FieldReader) -> EpochChange:
    stream, epoch, first, answers = reader.read_numbers(_CHANGE)
    setting = parse_setting(reader.read_bytes(SETTING_BYTES))
    return EpochChange(stream, epoch, first, answers, setting, reader.read_text(),
                       reader.read_block())


def _parse_ack(reader: FieldReader) -> Ack:
    stream, epoch = reader.read_numbers(_ACK)
    return Ack(stream, epoch, reader.read_block())


_PARSERS: dict[MessageKind, Callable[[FieldReader], Message]] = {
    MessageKind.HELLO: _parse_hello,
    MessageKind.HELLO_ACK: _parse_hello_ack,
    MessageKind.CONTROL: _parse_control,
    MessageKind.CHANGE: _parse_change,
    MessageKind.ACK: _parse_ack,
    MessageKind.REPORT: lambda reader: ReceiverReport(*reader.read_numbers(_REPORT)),
    MessageKind.BYE: lambda reader: Bye(*reader.read_numbers(_BYE)),
}

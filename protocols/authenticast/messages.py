"""Messages of the control plane between client and server.

They are hello, hello-ack, report, control, change, ack and bye. A message is a body followed by its
authentication. First comes a MAC under the session's keys, so that a receiver refuses a forgery at
little cost. A signature follows where a third party may have to be convinced. Hellos have a
signature only. Times are in nanoseconds, shares in hundredths of a per cent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from protocols.authenticast.settings import (
    RANGE_BYTES,
    SETTING_BYTES,
    Range,
    Setting,
    parse_range,
    parse_setting,
)
from protocols.authenticast.wire import (
    Kind,
    PacketError,
    Reader,
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
class Wish:
    """The user's request for a stream: permitted range, setting and two switches.

    With `automatic`, the server's controller chooses the setting. With `algorithm_change`, it may
    also change the algorithm.
    """

    permitted: Range
    setting: Setting
    automatic: bool = False
    algorithm_change: bool = False

    def to_flags(self) -> int:
        """Return the two switches as flags of a message."""
        return _AUTOMATIC * self.automatic | _ALGORITHM_CHANGE * self.algorithm_change

    def to_event_fields(self) -> dict[str, Any]:
        """Return the request as fields of an event. Levels are shares."""
        setting = self.setting
        return {"low": self.permitted.low, "high": self.permitted.high,
                "scheme": setting.scheme.name.lower(),
                "algorithm": setting.algorithm.name.lower(), "bundle": setting.bundle,
                "level": setting.level, "automatic": self.automatic,
                "algorithm_change": self.algorithm_change}


@dataclass(frozen=True)
class Hello:
    """A client's request for a stream, signed with the client's identity."""

    name: str
    time_ns: int
    data_port: int
    algorithms: int
    schemes: int
    nonce: bytes
    exchange: bytes
    wish: Wish

    def encode(self) -> bytes:
        """Return the message's body."""
        return bytes((Kind.HELLO.first_byte,)) + _HELLO.pack(
            self.time_ns, self.data_port, self.algorithms, self.schemes, self.wish.to_flags()) + (
            self.nonce + self.exchange + self.wish.permitted.encode() + self.wish.setting.encode()
            + encode_text(self.name))


@dataclass(frozen=True)
class HelloAck:
    """The server's answer to a hello, which grants the stream.

    The server's identity signs the hello and this message. `hello` is the digest of the hello.
    """

    name: str
    stream: int
    time_ns: int
    algorithms: int
    schemes: int
    hello: bytes
    nonce: bytes
    exchange: bytes
    setting: Setting

    def encode(self) -> bytes:
        """Return the message's body."""
        return bytes((Kind.HELLO_ACK.first_byte,)) + _HELLO_ACK.pack(
            self.stream, self.time_ns, self.algorithms, self.schemes) + (
            self.hello + self.nonce + self.exchange + self.setting.encode()
            + encode_text(self.name))


@dataclass(frozen=True)
class Control:
    """A new request of the user for the stream.

    `number` increases with each request. `exchange` is an X25519 public key if a secret key is
    requested, otherwise empty.
    """

    stream: int
    number: int
    wish: Wish
    exchange: bytes = b""

    def encode(self) -> bytes:
        """Return the message's body."""
        return bytes((Kind.CONTROL.first_byte,)) + _CONTROL.pack(
            self.stream, self.number, self.wish.to_flags()) + (
            self.wish.permitted.encode() + self.wish.setting.encode() + encode_block(self.exchange))


@dataclass(frozen=True)
class Change:
    """The server's announcement of epoch `epoch`.

    No packet before sequence number `first` belongs to the epoch. `answers` is the number of the
    last control message that the server processed. `material` is what the scheme needs: the
    server's X25519 public key, or TESLA's parameters.
    """

    stream: int
    epoch: int
    first: int
    answers: int
    setting: Setting
    cause: str = ""
    material: bytes = b""

    def encode(self) -> bytes:
        """Return the message's body."""
        return bytes((Kind.CHANGE.first_byte,)) + _CHANGE.pack(
            self.stream, self.epoch, self.first, self.answers) + (
            self.setting.encode() + encode_text(self.cause) + encode_block(self.material))


@dataclass(frozen=True)
class Ack:
    """The acknowledgement of epoch `epoch`.

    `proof` shows that the client has the epoch's secret key. Epoch 0 confirms the handshake. The
    server sends this message as a keep-alive.
    """

    stream: int
    epoch: int
    proof: bytes = b""

    def encode(self) -> bytes:
        """Return the message's body."""
        return bytes((Kind.ACK.first_byte,)) + _ACK.pack(self.stream, self.epoch) + encode_block(
            self.proof)


@dataclass(frozen=True)
class ReceiverReport:
    """A client's report on its progress.

    All fields are packet counts since the start, except `stream`, `number` and the last four.
    `highest` is one more than the highest sequence number accepted. `processing` is one more than
    the highest processed. `lag_ns` is the delay of the last processed packet beyond the smallest
    delay. `verify_ns` and `handle_ns` are mean times of a verification and of a packet without one.
    `level` is the share verified in the last second.
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
        """Return the message's body."""
        return bytes((Kind.REPORT.first_byte,)) + _REPORT.pack(
            *(getattr(self, field.name) for field in fields(self)))


_REPORT = struct.Struct("!I13QH")


@dataclass(frozen=True)
class Bye:
    """The end of the stream. All sequence numbers are below `end`."""

    stream: int
    end: int

    def encode(self) -> bytes:
        """Return the message's body."""
        return bytes((Kind.BYE.first_byte,)) + _BYE.pack(self.stream, self.end)


Message = Hello | HelloAck | Control | Change | Ack | ReceiverReport | Bye


@dataclass(frozen=True)
class Received:
    """A message as received.

    `authentication` (MAC, signature block or both) authenticates the bytes in `body`.
    """

    message: Message
    body: bytes
    authentication: bytes


def parse_message(data: bytes) -> Received:
    """Parse a message of the control plane. Raises PacketError for other datagrams."""
    kind = kind_of(data)
    if kind not in _PARSERS:
        raise PacketError("no message of the control plane")
    reader = Reader(data, kind)
    try:
        message = _PARSERS[kind](reader)
    except ValueError as error:
        raise PacketError(str(error)) from None
    body = data[:reader.offset]
    return Received(message, body, reader.read_rest())


def _parse_request(reader: Reader, flags: int) -> Wish:
    if flags & ~(_AUTOMATIC | _ALGORITHM_CHANGE):
        raise PacketError(f"unknown flags {flags:#x}")
    permitted = parse_range(reader.read_bytes(RANGE_BYTES))
    setting = parse_setting(reader.read_bytes(SETTING_BYTES)).check(permitted)
    return Wish(permitted, setting, bool(flags & _AUTOMATIC), bool(flags & _ALGORITHM_CHANGE))


def _parse_hello(reader: Reader) -> Hello:
    time_ns, port, algorithms, schemes, flags = reader.read_numbers(_HELLO)
    nonce, exchange = reader.read_bytes(NONCE_BYTES), reader.read_bytes(EXCHANGE_BYTES)
    wish = _parse_request(reader, flags)
    return Hello(reader.read_text(), time_ns, port, algorithms, schemes, nonce, exchange, wish)


def _parse_hello_ack(reader: Reader) -> HelloAck:
    stream, time_ns, algorithms, schemes = reader.read_numbers(_HELLO_ACK)
    hello, nonce = reader.read_bytes(DIGEST_BYTES), reader.read_bytes(NONCE_BYTES)
    exchange = reader.read_bytes(EXCHANGE_BYTES)
    setting = parse_setting(reader.read_bytes(SETTING_BYTES))
    return HelloAck(reader.read_text(), stream, time_ns, algorithms, schemes, hello, nonce,
                    exchange,
                    setting)


def _parse_control(reader: Reader) -> Control:
    stream, number, flags = reader.read_numbers(_CONTROL)
    wish = _parse_request(reader, flags)
    return Control(stream, number, wish, reader.read_block())


def _parse_change(reader: Reader) -> Change:
    stream, epoch, first, answers = reader.read_numbers(_CHANGE)
    setting = parse_setting(reader.read_bytes(SETTING_BYTES))
    return Change(stream, epoch, first, answers, setting, reader.read_text(), reader.read_block())


def _parse_ack(reader: Reader) -> Ack:
    stream, epoch = reader.read_numbers(_ACK)
    return Ack(stream, epoch, reader.read_block())


_PARSERS: dict[Kind, Callable[[Reader], Message]] = {
    Kind.HELLO: _parse_hello,
    Kind.HELLO_ACK: _parse_hello_ack,
    Kind.CONTROL: _parse_control,
    Kind.CHANGE: _parse_change,
    Kind.ACK: _parse_ack,
    Kind.REPORT: lambda reader: ReceiverReport(*reader.read_numbers(_REPORT)),
    Kind.BYE: lambda reader: Bye(*reader.read_numbers(_BYE)),
}

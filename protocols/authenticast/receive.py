"""Program: the client, `python3 -m protocols.authenticast receive CONFIG.json`.

One thread and blocking work on purpose: while the processor verifies, packets wait in the kernel's
own buffer, and are lost there when it is full. Messages have a socket of their own, read first.
"""

from __future__ import annotations

import socket
import struct
import time
import zlib
from pathlib import Path
from typing import Any, TextIO

from protocols.authenticast.client import Client
from protocols.authenticast.config import ClientConfig, load_client, take_wish
from protocols.authenticast.crypto import Crypto
from protocols.authenticast.effects import Deliver, Effect, Lose, Note, Send
from protocols.authenticast.loop import (
    Loop,
    bind,
    now_ns,
    random_bytes,
    say,
    send,
    wait_until,
)
from protocols.authenticast.processor import Processor
from protocols.fields import ConfigError, Fields, one_of

_MAX_DATAGRAM = 65535
# Linux: <asm/socket.h>. Python has no names for them.
_SO_TIMESTAMPNS = 35
_SO_RXQ_OVFL = 40
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_TIMESPEC = struct.Struct("@ll")
_DROPS = struct.Struct("@I")


class DataPort:
    """The socket of the data plane: datagrams, when they came, how many were dropped before."""

    def __init__(self, address: str, port: int, buffer_bytes: int | None) -> None:
        self.socket = bind(address, port)
        self._dropped = 0
        if buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        for option in (_SO_RXQ_OVFL, _SO_TIMESTAMPNS):
            self.socket.setsockopt(socket.SOL_SOCKET, option, 1)

    def receive(self) -> tuple[bytes, int, int] | None:
        """A datagram, drops before it, ns since 1970 when it came; None when there is none."""
        try:
            datagram, ancillary, _, _ = self.socket.recvmsg(_MAX_DATAGRAM, 128)
        except BlockingIOError:
            return None
        arrived_ns = now_ns()
        for _, kind, data in ancillary:
            if kind == _SO_RXQ_OVFL:
                self._dropped, = _DROPS.unpack_from(data)
            elif kind == _SO_TIMESTAMPNS:
                seconds, ns = _TIMESPEC.unpack_from(data)
                # The kernel's clock may have been set since we started: only the age counts.
                arrived_ns -= max(0, time.time_ns() - (seconds * 1_000_000_000 + ns))
        return datagram, self._dropped, arrived_ns

    def dropped(self) -> int:
        """The kernel's count of drops now."""
        info = self.socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        return int(_MEMINFO.unpack(info)[8])


class Receiving:
    """Sockets, processor and commands on one side, the client's logic on the other."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._processor = Processor(config.device.costs, 1, config.device.steal, now_ns())
        self._crypto = Crypto(self._processor.charge, config.device.charged_as)
        self._client = Client(config.policy, self._crypto, random_bytes(config.seed))
        self._control = bind(config.address, config.port)
        self._data = DataPort(config.address, config.policy.data_port,
                              config.receive_buffer_bytes)
        self._series: TextIO | None = None
        self._loop = Loop(self._obey)

    def run(self) -> None:
        """Until the stream's end, a signal, `stop` or the end of input."""
        if self._config.series is not None:
            self._series = self._config.series.open("w")
            self._series.write("stream,sequence,sent_ns,settled_ns,fate,crc32\n")
        try:
            with self._loop as loop, self._control, self._data.socket:
                loop.watch(self._control)
                loop.watch(self._data.socket)
                say("ready", address=self._config.address, data_port=self._config.policy.data_port,
                    control_port=self._control.getsockname()[1])
                self._perform(self._client.start(now_ns()))
                while not loop.ended and not self._client.ended:
                    self._step(loop.wait(self._client.deadline_ns()))
                self._client.dropped(self._data.dropped())
                self._perform(self._client.stop(now_ns()))
        finally:
            if self._series is not None:
                self._series.close()

    def _step(self, ready: set[object]) -> None:
        if self._control in ready:
            self._read_messages()
        elif self._data.socket in ready:
            self._read_data()
        else:
            self._client.dropped(self._data.dropped())
        due_ns = self._client.deadline_ns()
        if due_ns is not None and due_ns <= now_ns():
            self._perform(self._client.tick(now_ns()))

    def _read_messages(self) -> None:
        try:
            datagram, source = self._control.recvfrom(_MAX_DATAGRAM)
        except (BlockingIOError, ConnectionRefusedError):
            return  # nobody serves there yet: the hello is repeated
        if source[0] == self._config.server[0]:
            effects = self._client.message(datagram, now_ns())
            wait_until(self._processor.settle(now_ns()))
            self._perform(effects)

    def _read_data(self) -> None:
        received = self._data.receive()
        if received is None:
            return
        datagram, dropped, arrived_ns = received
        started_ns, verified = now_ns(), self._crypto.verified
        self._processor.charge("packet", len(datagram))
        effects = self._client.data(datagram, started_ns, dropped, arrived_ns)
        wait_until(self._processor.settle(started_ns))
        self._client.took(now_ns() - started_ns, self._crypto.verified - verified)
        self._perform(effects)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                send(self._control, effect.payload, self._config.server)
            elif isinstance(effect, Note):
                say(effect.event, **effect.fields)
            elif self._series is not None:
                self._write(effect, self._series)

    @staticmethod
    def _write(effect: Deliver | Lose, series: TextIO) -> None:
        sent_ns, crc32 = "", ""
        if isinstance(effect, Deliver):
            sent_ns, fate = str(effect.sent_ns), "verified" if effect.verified else "unverified"
            crc32 = f"{zlib.crc32(effect.payload):08x}"
        else:
            fate = effect.fate.value
        series.write(f"{effect.stream},{effect.sequence},{sent_ns},{now_ns()},{fate},{crc32}\n")

    def _obey(self, command: dict[str, Any]) -> None:
        if command == {"do": "stop"}:
            self._loop.end()
            return
        try:
            reader = Fields(command, "command")
            reader.take("do", one_of({"dial": None}))
            wish = take_wish(reader, self._client.wish)
            reader.end()
        except ConfigError as error:
            say("error", reason=str(error))
        else:
            self._perform(self._client.dial(wish, now_ns()))


def run(path: Path) -> None:
    """Receive. Raises ConfigError, OSError."""
    Receiving(load_client(path)).run()

"""Run the client of Authenticast: receive a stream of signed packets over UDP.

The command is `python3 -m protocols.authenticast receive CONFIG.json`. It writes events as JSON
lines. The configuration may state how long each operation takes on a slow computer, such as one of
1998. After each datagram, the program then waits until that computer would have processed it
(`processor.Processor`).

The program has one thread and blocks on purpose. While it verifies signatures, packets wait in the
kernel's receive buffer, and are lost there when the buffer is full. Control messages have their own
socket, which is read first.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, TextIO

from protocols.authenticast.client import Client
from protocols.authenticast.config import ClientConfig, load_client, take_request
from protocols.authenticast.crypto import Crypto
from protocols.authenticast.effects import (
    DeliverPacket,
    DropPacket,
    Effect,
    ProgramEvent,
    SendDatagram,
)
from protocols.authenticast.loop import Loop, UdpPort, random_bytes
from protocols.authenticast.processor import Processor
from protocols.fields import ConfigError, Fields, one_of


class ClientProgram:
    """The client program: it connects sockets, commands and the processor's model to a `Client`."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._clock = config.clock()
        self._processor = Processor(config.device.costs, 1, config.device.steal,
                                    self._clock.now_ns())
        self._crypto = Crypto(self._processor.charge, config.device.charged_as)
        self._client = Client(config.policy, self._crypto, random_bytes(config.seed))
        self._control = UdpPort(self._clock, config.address, config.port)
        self._data = UdpPort(self._clock, config.address, config.policy.data_port,
                             config.receive_buffer_bytes)
        self._series: TextIO | None = None
        #: The server's signature algorithms, the last one requested first.
        self._signs = tuple(config.policy.server_keys)
        self._loop = Loop(self._clock, self._run_command)

    def run(self) -> None:
        """Run until the stream ends, or until a signal, `stop` or the end of standard input."""
        if self._config.series is not None:
            self._series = self._config.series.open("w")
            self._series.write("stream,sequence,sent_ns,settled_ns,fate,crc32\n")
        try:
            with self._loop as loop, self._control, self._data:
                loop.add_port(self._control)
                loop.add_port(self._data)
                loop.write_event("ready", address=self._config.address,
                                 control_port=self._control.number,
                                 data_port=self._config.policy.data_port)
                self._perform_effects(self._client.request_stream(self._clock.now_ns()))
                while not loop.ended and not self._client.ended:
                    self._process_ready(loop.wait(self._client.deadline_ns()))
                self._client.count_drops(self._data.read_drop_count())
                self._perform_effects(self._client.stop_stream(self._clock.now_ns()))
        finally:
            if self._series is not None:
                self._series.close()

    def _process_ready(self, ready: set[UdpPort]) -> None:
        if self._control in ready:
            self._read_messages()
        elif self._data in ready:
            self._read_data()
        else:
            self._client.count_drops(self._data.read_drop_count())
        due_ns = self._client.deadline_ns()
        if due_ns is not None and due_ns <= self._clock.now_ns():
            self._perform_effects(self._client.tick(self._clock.now_ns()))

    def _read_messages(self) -> None:
        arrival = self._control.receive()
        if arrival is not None and arrival.source[0] == self._config.server[0]:
            started_ns = self._clock.resume_ns(arrival.arrived_ns, self._processor.free_ns())
            effects = self._client.process_message(arrival.datagram, started_ns)
            self._perform_effects(effects, self._run_charged_work(started_ns))

    def _read_data(self) -> None:
        arrival = self._data.receive()
        if arrival is None:
            return
        started_ns = self._clock.resume_ns(arrival.arrived_ns, self._processor.free_ns())
        verified = self._crypto.verified
        self._processor.charge("packet", len(arrival.datagram))
        effects = self._client.process_data(arrival.datagram, started_ns, arrival.dropped,
                                            arrival.arrived_ns)
        done_ns = self._run_charged_work(started_ns)
        self._client.record_duration(done_ns - started_ns, self._crypto.verified - verified)
        self._perform_effects(effects, done_ns)

    def _run_charged_work(self, started_ns: int) -> int:
        """Wait for the time that the operations of a datagram take on the modelled processor.

        Returns:
            The time (ns) at which the operations end.
        """
        done_ns = self._processor.settle_charges(started_ns)
        self._clock.wait_until(done_ns)
        return self._clock.resume_ns(done_ns)

    def _perform_effects(self, effects: list[Effect], at_ns: int | None = None) -> None:
        at_ns = self._clock.now_ns() if at_ns is None else at_ns
        for effect in effects:
            if isinstance(effect, SendDatagram):
                self._control.send(effect.payload, self._config.server)
            elif isinstance(effect, ProgramEvent):
                self._loop.write_event(effect.event, at_ns, **effect.fields)
            elif self._series is not None:
                self._write_row(effect, at_ns, self._series)

    @staticmethod
    def _write_row(effect: DeliverPacket | DropPacket, at_ns: int, series: TextIO) -> None:
        sent_ns, crc32 = "", ""
        if isinstance(effect, DeliverPacket):
            sent_ns, fate = str(effect.sent_ns), "verified" if effect.verified else "unverified"
            crc32 = f"{zlib.crc32(effect.payload):08x}"
        else:
            fate = effect.fate.value
        series.write(f"{effect.stream},{effect.sequence},{sent_ns},{at_ns},{fate},{crc32}\n")

    def _run_command(self, command: dict[str, Any]) -> None:
        if command == {"do": "stop"}:
            self._loop.end()
            return
        try:
            reader = Fields(command, "command")
            reader.take("do", one_of({"dial": None}))
            last = self._client.wish.setting.algorithm
            if last in self._signs:
                self._signs = tuple(dict.fromkeys((last, *self._signs)))
            wish = take_request(reader, self._signs, self._client.wish)
            reader.end()
        except ConfigError as error:
            self._loop.write_event("error", reason=str(error))
        else:
            self._perform_effects(self._client.update_request(wish, self._clock.now_ns()))


def run(path: Path) -> None:
    """Run the client program with a configuration file.

    Raises:
        ConfigError: the configuration is wrong.
        OSError: the system refuses a socket or a file.
    """
    ClientProgram(load_client(path)).run()

"""Run the server of Authenticast: send streams of signed packets over UDP.

The command is `python3 -m protocols.authenticast serve CONFIG.json`. It writes events as JSON
lines. The configuration names the source of the packets, and may state how long each operation
takes on a slow computer. Packets are then sent when such a computer would have signed them
(`processor.Processor`).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocols.authenticast.config import ServerConfig, load_server
from protocols.authenticast.crypto import Crypto
from protocols.authenticast.effects import Effect, ProgramEvent, SendDatagram
from protocols.authenticast.loop import Loop, UdpPort, random_bytes
from protocols.authenticast.packets import SourcePacket
from protocols.authenticast.processor import Processor
from protocols.authenticast.server import Server

# Number of datagrams read before the streams are served again.
_MAX_BATCH = 64


@dataclass
class _PacketFeed:
    """The packets still to send to a client, and the due time of the next one."""

    items: Iterator[SourcePacket]
    item: SourcePacket | None
    due_ns: int


class ServerProgram:
    """The server program: it connects socket, packet sources and processor model to a `Server`."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._clock = config.clock()
        self._processor = Processor(config.device.costs, config.device.count, config.device.steal,
                                    self._clock.now_ns())
        self._server = Server(config.policy, Crypto(self._processor.charge,
                                                    config.device.charged_as),
                              random_bytes(config.seed), config.controller)
        self._port = UdpPort(self._clock, config.address, config.port)
        self._feeds: dict[str, _PacketFeed] = {}
        self._later: list[tuple[int, int, list[Effect]]] = []
        self._order = itertools.count()
        self._started = False
        #: The time at which the server's `tick` is due, as of the last wait.
        self._tick_ns: int | None = None
        self._loop = Loop(self._clock, self._run_command)

    def run(self) -> None:
        """Run until a signal, the command `stop` or the end of standard input."""
        with self._loop as loop, self._port:
            loop.add_port(self._port)
            loop.write_event("ready", address=self._config.address, port=self._port.number)
            while not loop.ended:
                if self._port in loop.wait(self._due_ns()):
                    self._read_datagrams()
                # Packets that waited go first. Their work began when a processor became free.
                self._seal_waiting(self._processor.free_ns())
                self._feed_streams()
                self._seal_waiting(self._clock.now_ns())
                self._perform_due()
                if self._tick_ns is not None and self._tick_ns <= self._clock.now_ns():
                    self._perform_effects(self._server.tick(self._clock.now_ns()))

    def _run_command(self, command: dict[str, Any]) -> None:
        if command == {"do": "stop"}:
            self._loop.end()
        else:
            self._loop.write_event("error", reason=f"unknown command {command!r}")

    def _due_ns(self) -> int | None:
        self._tick_ns = self._server.deadline_ns()
        times = [self._tick_ns]
        times += [feed.due_ns for name, feed in self._feeds.items()
                  if feed.item is not None and self._server.has_room(name)]
        times += [self._later[0][0]] if self._later else []
        times += [self._processor.free_ns()] if self._server.has_work() else []
        return min((time for time in times if time is not None), default=None)

    def _read_datagrams(self) -> None:
        arrivals = itertools.islice(iter(self._port.receive, None), _MAX_BATCH)
        # The kernel may return datagrams that arrived at once in any order. Sorting makes runs
        # repeatable.
        for arrival in sorted(arrivals, key=lambda arrival: (arrival.arrived_ns, arrival.source)):
            self._schedule_effects(self._server.process_message(arrival.datagram, arrival.source,
                                                                self._clock.now_ns()),
                                   self._clock.now_ns())

    def _schedule_effects(self, effects: list[Effect], started_ns: int) -> None:
        """Schedule datagrams for the time at which the modelled processor has signed them."""
        due_ns = self._processor.settle_charges(started_ns)
        heapq.heappush(self._later, (due_ns, next(self._order), effects))

    def _perform_due(self) -> None:
        while self._later and self._later[0][0] <= self._clock.now_ns():
            due_ns, _, effects = heapq.heappop(self._later)
            self._perform_effects(effects, self._clock.resume_ns(due_ns))

    def _perform_effects(self, effects: list[Effect], at_ns: int | None = None) -> None:
        for effect in effects:
            if isinstance(effect, SendDatagram) and isinstance(effect.to, tuple):
                self._port.send(effect.payload, effect.to)
            elif isinstance(effect, ProgramEvent):
                self._loop.write_event(effect.event, at_ns, **effect.fields)

    # --- streams -----------------------------------------------------------------------------

    def _feed_streams(self) -> None:
        """Pass the packets that are due from each source to the server.

        A source waits while its client's queue is full, because signing is too slow.
        """
        clients = self._server.clients
        self._started = self._started or len(clients) >= self._config.start_with
        if not self._started:
            return
        now_ns = self._clock.now_ns()
        for name in clients:
            if name not in self._feeds:
                items = self._config.source.items()
                self._feeds[name] = _PacketFeed(items, next(items, None), now_ns)
        for name in self._feeds.keys() - set(clients):
            del self._feeds[name]
        for name, feed in self._feeds.items():
            self._offer_packets(name, feed)

    def _offer_packets(self, name: str, feed: _PacketFeed) -> None:
        while feed.item is not None and feed.due_ns <= self._clock.now_ns() and (
                self._server.has_room(name)):
            item = feed.item
            self._server.queue_packet(name, item.payload, item.frame, item.flags)
            # A source that had to wait does not catch up: its rate falls.
            late_ns = max(0, self._clock.now_ns() - feed.due_ns - item.gap_ns)
            feed.due_ns += item.gap_ns + late_ns
            feed.item = next(feed.items, None)
            if feed.item is None:
                feed.due_ns = self._clock.now_ns() + 1

    def _seal_waiting(self, since_ns: int) -> None:
        """Sign waiting packets while a modelled processor is free.

        Args:
            since_ns: earliest time (ns) at which the work can start.
        """
        while self._server.has_work() and self._processor.free_ns() <= self._clock.now_ns():
            started_ns = self._clock.resume_ns(since_ns, self._processor.free_ns())
            self._schedule_effects(self._server.seal_next(started_ns), started_ns)
        for name, feed in self._feeds.items():
            if feed.item is None and feed.due_ns and name in self._server.clients and (
                    not self._server.count_waiting(name)):
                feed.due_ns = 0
                self._schedule_effects(self._server.finish_stream(name, self._clock.now_ns()),
                                       self._clock.now_ns())


def run(path: Path) -> None:
    """Run the server program with a configuration file.

    Raises:
        ConfigError: the configuration is wrong.
        OSError: the system refuses a socket or a file.
    """
    ServerProgram(load_server(path)).run()

"""Two ends of Authenticast and what lies between them, in a time of their own, for tests."""

from __future__ import annotations

import functools
import heapq
import itertools
import random
from collections import Counter, deque

from protocols.authenticast import crypto
from protocols.authenticast.client import Client, ClientPolicy
from protocols.authenticast.controllers import StaticController
from protocols.authenticast.crypto import Crypto
from protocols.authenticast.effects import DeliverPacket, DropPacket, ProgramEvent, SendDatagram
from protocols.authenticast.messages import StreamRequest
from protocols.authenticast.schemes.tesla import TeslaSchedule
from protocols.authenticast.server import Server, ServerPolicy
from protocols.authenticast.settings import Algorithm, LevelRange, Scheme, StreamSetting
from protocols.authenticast.stream import StreamPolicy

MS = 1_000_000
START_NS = 1_800_000_000_000_000_000
CONTROL, DATA, SERVER = ("10.0.0.2", 4000), ("10.0.0.2", 4001), ("10.0.0.1", 5000)
ED = Algorithm.ED25519


@functools.lru_cache
def key(name: str, algorithm: Algorithm = ED):
    """A key pair for a name, made once."""
    return crypto.generate_key(algorithm)


def wish(scheme=Scheme.PERCENTAGE, algorithm=ED, bundle=1, level=1.0, low=0.0, high=1.0,
         **switches) -> StreamRequest:
    """What a user wants."""
    return StreamRequest(LevelRange(low, high), StreamSetting(scheme, algorithm, bundle, level),
                         **switches)


def passes(datagram: bytes, rng: random.Random) -> list[tuple[int, bytes]]:
    """A wire that loses nothing: delays in ns, and what arrives."""
    return [(MS, datagram)]


def broken(_datagram: bytes, _rng: random.Random) -> list[tuple[int, bytes]]:
    """A wire that loses everything."""
    return []


class Ends:
    """A server, one client, and wires between them; `costs` are ns by kind of operation."""

    def __init__(self, wished: StreamRequest, *, seed=1, wire=passes, costs=None, buffer=None,
                 controller=StaticController, tesla=None, hold_ns=500 * MS, ahead_ns=0,
                 keys=(Algorithm.ED25519,), client_keys=None, client_steal=lambda _s: 0.0,
                 delay_bound_s=1.0) -> None:
        self.rng = random.Random(seed)
        self.now_ns = START_NS
        self.ahead_ns = ahead_ns  # of the server's clock
        self.wire = {"data": wire, "down": passes, "up": passes}
        self.costs, self.buffer_size, self.steal = costs or {}, buffer, client_steal
        self.spent_ns = 0
        self.queue: list = []
        self.order = itertools.count()
        self.buffer: deque = deque()
        self.dropped = 0
        self.busy_ns = START_NS
        self.delivered: list[DeliverPacket] = []
        self.lost: list[DropPacket] = []
        self.notes: list[ProgramEvent] = []
        self.wires: list[tuple[str, bytes]] = []
        self.counts: Counter = Counter()
        server_keys = {algorithm: key("server", algorithm) for algorithm in keys}
        identity = server_keys[keys[0]]
        self.server = Server(ServerPolicy(
            "server", StreamPolicy(server_keys, identity, delay_bound_s, hold_ns,
                                   tesla or TeslaSchedule(100 * MS, 3, 200)),
            {"client": {ED: key("client").public}}), Crypto(), self.rng.randbytes, controller)
        trusted = client_keys or {a: k.public for a, k in server_keys.items()}
        self.client = Client(ClientPolicy("client", key("client"), "server", trusted, wished,
                                          DATA[1], frozenset(trusted)),
                             Crypto(self._charge), self.rng.randbytes)

    def _charge(self, kind: str, size: int) -> None:
        self.counts[kind] += 1
        self.spent_ns += self.costs.get(kind, 0)

    def start(self):
        """The handshake."""
        self.perform(self.client.request_stream(self.now_ns))
        self.run(20 * MS)
        return self

    def perform(self, effects) -> None:
        """Carry out what an end wants done."""
        for effect in effects:
            if isinstance(effect, SendDatagram):
                self.send(effect)
            else:
                {DeliverPacket: self.delivered, DropPacket: self.lost, ProgramEvent: self.notes}[
                    type(effect)].append(effect)

    def send(self, effect: SendDatagram) -> None:
        """Put a datagram on its wire."""
        way = {None: "up", DATA: "data", CONTROL: "down"}[effect.to]
        self.wires.append((way, effect.payload))
        for delay_ns, datagram in self.wire[way](effect.payload, self.rng):
            heapq.heappush(self.queue, (self.now_ns + delay_ns, next(self.order), way, datagram))

    def run(self, ns: int) -> None:
        """Let time pass."""
        end_ns = self.now_ns + ns
        while (due_ns := self.due_ns()) is not None and due_ns <= end_ns:
            self.now_ns = max(self.now_ns, due_ns)
            self.step()
        self.now_ns = max(self.now_ns, end_ns)

    def due_ns(self):
        """When something happens next."""
        server = self.server.deadline_ns()
        times = [self.queue[0][0] if self.queue else None, self.client.deadline_ns(),
                 None if server is None else server - self.ahead_ns,
                 self.busy_ns if self.buffer else None]
        return min((time for time in times if time is not None), default=None)

    def step(self) -> None:
        """What is due now."""
        while self.queue and self.queue[0][0] <= self.now_ns:
            arrived_ns, _, way, datagram = heapq.heappop(self.queue)
            if way == "up":
                self.perform(self.server.process_message(datagram, CONTROL, self.now_ns
                                                         + self.ahead_ns))
            elif way == "down":
                self.perform(self.client.process_message(datagram, self.now_ns))
            elif self.buffer_size is not None and len(self.buffer) >= self.buffer_size:
                self.dropped += 1
            else:
                self.buffer.append((datagram, self.dropped, arrived_ns))
        while self.buffer and self.busy_ns <= self.now_ns:
            self.read(*self.buffer.popleft())
        if not self.buffer:
            self.client.count_drops(self.dropped)
        self.perform(self.client.tick(self.now_ns))
        self.perform(self.server.tick(self.now_ns + self.ahead_ns))

    def read(self, datagram: bytes, dropped: int, arrived_ns: int) -> None:
        """The client takes a datagram out of its buffer, and its time for it."""
        client = self.client
        verified = client._crypto.verified
        self.spent_ns = self.costs.get("handle", 0)
        effects = client.process_data(datagram, self.now_ns, dropped, arrived_ns)
        share = 1 - self.steal((self.now_ns - START_NS) / 1e9)
        took_ns = int(self.spent_ns / share)
        self.busy_ns = self.now_ns + took_ns
        client.record_duration(took_ns, client._crypto.verified - verified)
        self.perform(effects)

    def stream(self, packets: int, *, every_ns=10 * MS, size=100) -> None:
        """The application sends packets at a rate."""
        for number in range(packets):
            if "client" not in self.server.clients:
                return
            self.server.queue_packet("client", number.to_bytes(4, "big") * (size // 4))
            self.perform(self.server.seal_next(self.now_ns + self.ahead_ns))
            self.run(every_ns)

    def finish(self, ns=30_000 * MS) -> dict:
        """The end of the stream; the client's account."""
        self.perform(self.server.finish_stream("client", self.now_ns + self.ahead_ns))
        self.run(ns)
        return self.summary()

    def turn(self, wished: StreamRequest) -> None:
        """The user turns the dial."""
        self.perform(self.client.update_request(wished, self.now_ns))

    def summary(self) -> dict:
        """The client's account."""
        return self.client.receiver.to_dict()

    def events(self, event: str) -> list[dict]:
        """Fields of the events of a name."""
        return [note.fields for note in self.notes if note.event == event]

    def data(self) -> list[bytes]:
        """Datagrams that were sent on the data plane."""
        return [datagram for way, datagram in self.wires if way == "data"]


def adds_up(account: dict) -> bool:
    """Whether every packet that was sent is accounted for, once."""
    return account["sent"] == account["processed"] + account["waiting"] + sum(
        account["lost"].values())


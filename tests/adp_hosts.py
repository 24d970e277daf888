"""Two or three ADP hosts on a network that the tests play themselves: what ADP's tests share."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocols.adp import host as adp_host
from protocols.adp.context import HostSettings
from protocols.adp.crypto import PUBLIC_KEY, Operation, RsaPrivateKey
from protocols.adp.effects import DeliverMessage, Effect, Message, ProgramEvent, SendFrame
from protocols.adp.host import Host
from protocols.adp.keys import public_half
from protocols.adp.suite import KeyDirectory, PrivateKey

OLD, MODERN = "adp-1987", "adp"
#: 256-bit primes: real RSA of 512 bits, as in the 1980s, and quick.
_PRIMES = [
    95027041744151462009624090339617952408468421775997230154442526506948560936189,
    99631306869414239331274252233911669726380267723496777840260193052512221890739,
    99807777766135397870995768174760227634170774100259332283812376368386296862441,
    87282159962660143324743721429788456643392224565709676914507139268823336055587,
    99982983757932247887194622900865986608033154689611323854968038405727438650787,
    92383014959713290175218108225542023203158919755584557832106136944205171829207,
    88684494545751778664253524630053863077799222895601494032000709883276881022531,
    88666779759526543482178813466258118141447930958245562462038795795231314937527,
]
#: Who boots each host, and whose processes run there.
KERNEL_OWNERS = {"alpha": "alice", "beta": "bob", "mid": "mallory"}
OWNERS = {"alpha": ("alice", "xena"), "beta": ("bob", "yuri"), "mid": ("mallory",)}
NAMES = ("alice", "bob", "mallory", "xena", "yuri")


def private_keys(version: str) -> dict[str, PrivateKey]:
    """A key for every owner; two of 1987 share primes, which no test minds."""
    if version == MODERN:
        return {name: Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32))
                for name in NAMES}
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7), (0, 3)]
    return {name: RsaPrivateKey(_PRIMES[p], _PRIMES[q], 65537)
            for name, (p, q) in zip(NAMES, pairs, strict=True)}


KEYS = {version: private_keys(version) for version in (OLD, MODERN)}


@dataclass
class Packet:
    """A datagram under way."""

    source: str
    host: str
    payload: bytes


@dataclass
class Shipped:
    """An ADP message as its host gave it away."""

    at_s: float
    host: str
    effect: SendFrame


@dataclass
class World:
    """Hosts, a clock, and a network that does only what it is told."""

    version: str
    settings: HostSettings = field(default_factory=HostSettings)
    seed: int = 1
    names: tuple[str, ...] = ("alpha", "beta")
    now_s: float = 0.0
    hosts: dict[str, Host] = field(default_factory=dict)
    operations: dict[str, Counter[Operation]] = field(default_factory=dict)
    packets: list[Packet] = field(default_factory=list)
    delivered: dict[str, list[DeliverMessage]] = field(default_factory=dict)
    shipped: list[Shipped] = field(default_factory=list)
    notes: list[tuple[str, ProgramEvent]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        keys = KEYS[self.version]
        self.directory = KeyDirectory({name: KERNEL_OWNERS[name] for name in self.names},
                                      {name: public_half(key) for name, key in keys.items()})
        for name in self.names:
            self.operations[name] = Counter()
            self.delivered[name] = []
            self.boot(name)

    def boot(self, name: str, keys: dict[str, PrivateKey] | None = None) -> None:
        """Begin a kernel session; the last one's channels are gone."""
        own = {owner: KEYS[self.version][owner] for owner in OWNERS[name]}
        self.hosts[name] = adp_host.create_host(
            self.version, host=name, keys=own if keys is None else keys, directory=self.directory,
            settings=self.settings, random=self._rng.randbytes,
            meter=lambda operation, _size: self.operations[name].update([operation]))

    def perform(self, name: str, effects: list[Effect]) -> None:
        """Put what is sent on the network, keep the rest."""
        for effect in effects:
            match effect:
                case SendFrame():
                    self.shipped.append(Shipped(self.now_s, name, effect))
                    self.packets.append(Packet(name, effect.host, effect.payload))
                case DeliverMessage():
                    self.delivered[name].append(effect)
                case ProgramEvent():
                    self.notes.append((name, effect))

    def send(self, name: str, message: Message) -> None:
        """Hand a user message to a host."""
        self.perform(name, self.hosts[name].send(message, self.now_s))

    def open(self, name: str, host: str, *owners: str) -> None:
        """Establish a channel ahead of demand."""
        self.perform(name, self.hosts[name].open_channel(host, owners, self.now_s))

    def arrive(self, packet: Packet) -> None:
        """Let a datagram arrive, whoever has sent it."""
        effects = self.hosts[packet.host].receive(packet.payload, packet.source, self.now_s)
        self.perform(packet.host, effects)

    def flush(self) -> None:
        """Let everything arrive in order, answers too."""
        for _ in range(1000):
            if not self.packets:
                return
            self.arrive(self.packets.pop(0))
        raise AssertionError("they never stop talking")

    def deadline_s(self) -> float | None:
        """When some host is due next."""
        times = [host.deadline_s() for host in self.hosts.values()]
        return min((time for time in times if time is not None), default=None)

    def wait(self, seconds: float, *, lossless: bool = True) -> None:
        """Let time pass, every host doing what is due when it is due."""
        until_s = self.now_s + seconds
        if lossless:
            self.flush()
        for _ in range(10_000):
            due_s = self.deadline_s()
            if due_s is None or due_s > until_s:
                self.now_s = until_s
                return
            self.now_s = max(self.now_s, due_s)
            for name, host in self.hosts.items():
                self.perform(name, host.tick(self.now_s))
            if lossless:
                self.flush()
        raise AssertionError("time does not pass")

    def public_key_operations(self, *names: str) -> int:
        """Of all hosts, or of those that are named."""
        return sum(count for name in names or self.names
                   for operation, count in self.operations[name].items()
                   if operation in PUBLIC_KEY)

    def texts(self, name: str) -> list[bytes]:
        """User data that has been delivered on a host."""
        return [delivery.data for delivery in self.delivered[name]]

    def events(self, name: str, event: str) -> list[ProgramEvent]:
        """Notes of one kind of one host."""
        return [note for host, note in self.notes if host == name and note.event == event]


def message(data: bytes = b"hello", *, source: str = "xena", host: str = "beta",
            destination: str = "yuri", urgent: bool = True, max_delay_s: float | None = None,
            private: bool = False) -> Message:
    """A message from alpha to beta."""
    return Message(source, host, destination, 7, data, urgent=urgent, max_delay_s=max_delay_s,
                   private=private)


def reply(data: bytes = b"hello back", **changes: object) -> Message:
    """A message from beta to alpha."""
    return message(data, **{"source": "yuri", "host": "alpha", "destination": "xena", **changes})

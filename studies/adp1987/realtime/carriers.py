"""Carriers take user messages from host to host: modern ADP, or UDP through whatever is below.

Standard library and the protocol only: this runs inside the machine.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from protocols.adp.config import Config, load
from protocols.adp.crypto import Operation
from protocols.adp.effects import Deliver, Effect, Message, Note
from protocols.adp.host import VERSIONS
from protocols.adp.network import IP_MTU_DISCOVER, IP_PMTUDISC_DONT, Datagrams
from protocols.adp.program import HostEndpoint
from studies.adp1987.endpoint import PacedEndpoint

PORT = 4987
_BUFFER_BYTES = 1 << 20
_LARGEST = 65_535
#: By which share of its timeout select may be late (Linux, fs/select.c), and from when on it shows.
_SLACK, _LONG_S = 0.001, 0.05
_RCVBUFFORCE = 33  # of Linux, for root: whatever the system's limit is
#: Who says so at either end; the kernels' owners are known as soon as there is a channel.
_NAMES = {"alpha": ("xena", "beta", "bob"), "beta": ("bob", "alpha", "alice")}


class Carrier(Protocol):
    """One end: messages arrive whole, once and in order, as long as nothing is lost below.

    Times are by the machine's monotonic clock; callers read it, since in a guest a look at it is a
    system call.
    """

    def establish(self) -> None:
        """Have ready what the first message would wait for."""

    def is_established(self) -> bool:
        """Whether that has come about."""

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """Hand a message over."""

    def receive(self) -> list[bytes]:
        """All messages that have arrived, without waiting."""

    def due_s(self) -> float | None:
        """When it has something to do by itself."""

    def tick(self, now_s: float) -> None:
        """Do what is due."""

    def fileno(self) -> int:
        """A descriptor to wait for."""


class UdpCarrier:
    """A datagram a message; what protects it, if anything, is the kernel's."""

    def __init__(self, address: str, peer: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (_RCVBUFFORCE, socket.SO_SNDBUF):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        # As ADP's own datagrams: what is larger than a link on the way is fragmented there.
        self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
        self._socket.bind((address, PORT))
        self._socket.connect((peer, PORT))
        self.fileno = self._socket.fileno

    def establish(self) -> None:
        """Nothing: the kernel's tunnel is there, or is made for the first datagram."""

    def is_established(self) -> bool:
        """At once."""
        return True

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """A datagram; waits where the kernel has no room."""
        self._socket.send(data)

    def receive(self) -> list[bytes]:
        """What is in the socket's buffer."""
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(_LARGEST, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return messages

    def due_s(self) -> float | None:
        """Never."""
        return None

    def tick(self, now_s: float) -> None:
        """Nothing."""


class AdpCarrier:
    """A host of ADP, with the one owner's messages on its channel."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        loaded = load(Path(job["config"]))
        self._source, self._host, self._destination = _NAMES[loaded.host]
        self._arrived: list[bytes] = []
        self.notes: list[tuple[str, Mapping[str, Any]]] = []
        #: Ephemeral keys, for who opens captures.
        self.keys: list[tuple[str, str]] = []
        self._endpoint = self._made(job, loaded)
        self._tell_keys()

    def _tell_keys(self) -> None:
        self._endpoint.host.log_keys(
            lambda public, private: self.keys.append((public.hex(), private.hex())))

    def _made(self, job: Mapping[str, Any], config: Config) -> HostEndpoint:
        """The host, whose computing takes what it takes."""
        datagrams = Datagrams(config.network.kind, config.network.number,
                              config.addresses[config.host])
        self.fileno = datagrams.fileno
        return HostEndpoint(config, datagrams, _unmetered, self._heard)

    def establish(self) -> None:
        """Ask for the channel, and have the owner known to the other end."""
        endpoint = self._endpoint
        endpoint.perform(endpoint.host.open(self._host, [self._source], time.monotonic()))

    def is_established(self) -> bool:
        """Whether the other end has confirmed the owner, so that nothing is signed any more."""
        return self._endpoint.host.is_established(self._host, [self._source])

    def begin_anew(self) -> None:
        """A negative control's: the kernel session ends, and the next one asks for a channel."""
        self._endpoint.begin_anew()
        self._tell_keys()
        self.establish()

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """A user message, which waits for others unless it is urgent."""
        endpoint = self._endpoint
        endpoint.perform(endpoint.host.send(
            Message(self._source, self._host, self._destination, 7, data, urgent=urgent), now_s))

    def receive(self) -> list[bytes]:
        """What the datagrams in the socket's buffer bring."""
        while self._endpoint.read():
            pass
        arrived, self._arrived = self._arrived, []
        return arrived

    def due_s(self) -> float | None:
        """When a message has waited long enough, or the channel has something to say."""
        return self._endpoint.host.deadline_s()

    def tick(self, now_s: float) -> None:
        """Send what is due."""
        due_s = self.due_s()
        if due_s is not None and due_s <= now_s:
            self._endpoint.perform(self._endpoint.host.tick(now_s))

    def _heard(self, effect: Effect) -> None:
        if isinstance(effect, Deliver):
            self._arrived.append(effect.data)
        elif isinstance(effect, Note):
            self.notes.append((effect.event, effect.fields))


class ChargedAdpCarrier(AdpCarrier):
    """The same on a modelled processor, which charges each operation what its device says."""

    def _made(self, job: Mapping[str, Any], config: Config) -> HostEndpoint:
        self._paced = PacedEndpoint(job, lambda effect, _at_ns: self._heard(effect))
        self.fileno = self._paced.datagrams.fileno
        return self._paced

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """A user message, paid for when its process hands it over."""
        processor = self._paced.processor
        processor.reach(time.monotonic_ns())
        processor.charge("user-message-send")
        processor.settle()
        super().send(data, self._paced.now_s, urgent=urgent)

    def receive(self) -> list[bytes]:
        """What has arrived, once the processor is done with it."""
        arrived = super().receive()
        self._paced.processor.wait()
        return arrived

    def tick(self, now_s: float) -> None:
        """Send what is due."""
        self._paced.processor.reach(round(now_s * 1e9))
        super().tick(self._paced.now_s)


class BesideAdpCarrier(UdpCarrier):
    """A negative control's: the channel is established, and the messages go beside it by UDP."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        super().__init__(job["address"], job["peer_address"])
        self._channel = AdpCarrier(job)
        both = select.epoll()
        for descriptor in (self.fileno(), self._channel.fileno()):
            both.register(descriptor, select.EPOLLIN)
        self.fileno = both.fileno
        self.notes, self.keys = self._channel.notes, self._channel.keys

    def establish(self) -> None:
        """Ask for the channel, as ever."""
        self._channel.establish()

    def is_established(self) -> bool:
        """Whether it is there."""
        return self._channel.is_established()

    def receive(self) -> list[bytes]:
        """What came beside the channel; nothing comes on it."""
        return [*super().receive(), *self._channel.receive()]

    def due_s(self) -> float | None:
        """When the channel has something to say."""
        return self._channel.due_s()

    def tick(self, now_s: float) -> None:
        """Have the channel say it."""
        self._channel.tick(now_s)


def wait(carrier: Carrier, until_s: float | None, files: Sequence[Any] = ()) -> bool:
    """Until something arrives, is due, or the time is over; whether a file has something.

    A long wait ends before its time, so that a caller who waits again is not late.
    """
    due = [at for at in (until_s, carrier.due_s()) if at is not None]
    left_s = wait_s(min(due) - time.monotonic()) if due else None
    ready, _, _ = select.select([carrier.fileno(), *files], [], [], left_s)
    carrier.tick(time.monotonic())
    return any(file in ready for file in files)


def wait_s(left_s: float) -> float:
    """Return the timeout to give to select, of which the kernel may be late by a thousandth."""
    return left_s * (1 - 2 * _SLACK) if left_s > _LONG_S else max(0.0, left_s)


def make(job: Mapping[str, Any]) -> Carrier:
    """The carrier of a job."""
    if job["protocol"] not in VERSIONS:
        return UdpCarrier(job["address"], job["peer_address"])
    if job.get("beside_channel"):
        return BesideAdpCarrier(job)
    return ChargedAdpCarrier(job) if "work" in job else AdpCarrier(job)


def _unmetered(_operation: Operation, _size: int) -> None:
    """Computing takes what it takes."""

"""Carriers of user messages between hosts: modern ADP, or UDP over the tunnel below.

This module runs in the guest. Beyond the standard library it needs only the protocol.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from protocols.adp.config import Config, load_config
from protocols.adp.crypto import Operation
from protocols.adp.effects import Deliver, Effect, Message, Note
from protocols.adp.host import VERSIONS
from protocols.adp.network import IP_MTU_DISCOVER, IP_PMTUDISC_DONT, Datagrams
from protocols.adp.program import HostEndpoint
from studies.adp1987.endpoint import PacedEndpoint

PORT = 4987
_BUFFER_BYTES = 1 << 20
_LARGEST = 65_535
#: Share of its timeout by which select may be late (Linux, fs/select.c), and the time (s) from
#: which on it matters.
_SLACK, _LONG_S = 0.001, 0.05
_RCVBUFFORCE = 33  # SO_RCVBUFFORCE of Linux: root may exceed the system's limit
#: Sending owner, other host and receiving owner at each end. The kernel owners are known as soon as
#: there is a channel.
_NAMES = {"alpha": ("xena", "beta", "bob"), "beta": ("bob", "alpha", "alice")}


class Carrier(Protocol):
    """A Protocol for one end of the transport of messages.

    Messages arrive whole, once and in order, as long as no packet is lost below. Times are those of
    the guest's monotonic clock. The caller reads the clock, because each reading is a system call
    in a guest.
    """

    def establish(self) -> None:
        """Prepare everything that the first message would wait for."""

    def is_established(self) -> bool:
        """Return whether the preparation is complete."""

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """Send a message.

        Args:
            data: The message.
            now_s: The current time (s).
            urgent: Whether the message must not wait for others.
        """

    def receive(self) -> list[bytes]:
        """Return all messages that have arrived, without waiting."""

    def due_s(self) -> float | None:
        """Return the time of the next timer (s), None without a timer."""

    def tick(self, now_s: float) -> None:
        """Run the timers that are due at `now_s`."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when datagrams have arrived."""


class UdpCarrier:
    """A carrier with one UDP datagram per message.

    The kernel's tunnel protects the datagrams, if anything does.
    """

    def __init__(self, address: str, peer: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (_RCVBUFFORCE, socket.SO_SNDBUF):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        # As for ADP, routers fragment datagrams that are too large for a link.
        self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
        self._socket.bind((address, PORT))
        self._socket.connect((peer, PORT))
        self.fileno = self._socket.fileno

    def establish(self) -> None:
        """Do nothing: the tunnel exists, or the kernel makes it for the first datagram."""

    def is_established(self) -> bool:
        """Return true at once."""
        return True

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """Send a datagram, and wait while the socket's buffer is full."""
        self._socket.send(data)

    def receive(self) -> list[bytes]:
        """Return the messages in the socket's buffer."""
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(_LARGEST, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return messages

    def due_s(self) -> float | None:
        """Return None: UDP has no timers."""
        return None

    def tick(self, now_s: float) -> None:
        """Do nothing: UDP has no timers."""


class AdpCarrier:
    """An ADP host that sends the messages of one owner on its channel."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        loaded = load_config(Path(job["config"]))
        self._source, self._host, self._destination = _NAMES[loaded.host]
        self._arrived: list[bytes] = []
        self.notes: list[tuple[str, Mapping[str, Any]]] = []
        #: Ephemeral keys (public, private), which decrypt the captures.
        self.keys: list[tuple[str, str]] = []
        self._endpoint = self._make_endpoint(job, loaded)
        self._log_keys()

    def _log_keys(self) -> None:
        self._endpoint.host.log_keys(
            lambda public, private: self.keys.append((public.hex(), private.hex())))

    def _make_endpoint(self, job: Mapping[str, Any], config: Config) -> HostEndpoint:
        """Return the host of ADP.

        Its operations take the processor time that they need.
        """
        datagrams = Datagrams(config.network.kind, config.network.number,
                              config.addresses[config.host])
        self.fileno = datagrams.fileno
        return HostEndpoint(config, datagrams, _charge_nothing, self._handle_effect)

    def establish(self) -> None:
        """Request the channel and make the owner known to the other end."""
        endpoint = self._endpoint
        endpoint.perform_effects(endpoint.host.open_channel(self._host, [self._source],
                                                            time.monotonic()))

    def is_established(self) -> bool:
        """Return whether the other end has confirmed the owner, so that no signatures follow."""
        return self._endpoint.host.is_established(self._host, [self._source])

    def begin_anew(self) -> None:
        """Start a new kernel session and request another channel (negative control)."""
        self._endpoint.start_session()
        self._log_keys()
        self.establish()

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """Send a user message, which waits for others unless it is urgent."""
        endpoint = self._endpoint
        endpoint.perform_effects(endpoint.host.send(
            Message(self._source, self._host, self._destination, 7, data, urgent=urgent), now_s))

    def receive(self) -> list[bytes]:
        """Return the user messages in the datagrams of the socket's buffer."""
        while self._endpoint.read_datagram():
            pass
        arrived, self._arrived = self._arrived, []
        return arrived

    def due_s(self) -> float | None:
        """Return when a queued message or the channel is due (s), None for never."""
        return self._endpoint.host.deadline_s()

    def tick(self, now_s: float) -> None:
        """Send the ADP messages that are due."""
        due_s = self.due_s()
        if due_s is not None and due_s <= now_s:
            self._endpoint.perform_effects(self._endpoint.host.tick(now_s))

    def _handle_effect(self, effect: Effect) -> None:
        if isinstance(effect, Deliver):
            self._arrived.append(effect.data)
        elif isinstance(effect, Note):
            self.notes.append((effect.event, effect.fields))


class ChargedAdpCarrier(AdpCarrier):
    """An ADP carrier on a modelled processor, which charges each operation to its device."""

    def _make_endpoint(self, job: Mapping[str, Any], config: Config) -> HostEndpoint:
        self._paced = PacedEndpoint(job, lambda effect, _at_ns: self._handle_effect(effect))
        self.fileno = self._paced.datagrams.fileno
        return self._paced

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """Send a user message, and charge it when its process hands it over."""
        processor = self._paced.processor
        processor.advance_to(time.monotonic_ns())
        processor.charge_operation("user-message-send")
        processor.settle_charges()
        super().send(data, self._paced.now_s, urgent=urgent)

    def receive(self) -> list[bytes]:
        """Return the arrived messages after the processor has finished their work."""
        arrived = super().receive()
        self._paced.processor.wait_for_clock()
        return arrived

    def tick(self, now_s: float) -> None:
        """Send the ADP messages that are due."""
        self._paced.processor.advance_to(round(now_s * 1e9))
        super().tick(self._paced.now_s)


class BesideAdpCarrier(UdpCarrier):
    """A carrier that establishes a channel and sends messages by UDP (negative control)."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        super().__init__(job["address"], job["peer_address"])
        self._channel = AdpCarrier(job)
        both = select.epoll()
        for descriptor in (self.fileno(), self._channel.fileno()):
            both.register(descriptor, select.EPOLLIN)
        self.fileno = both.fileno
        self.notes, self.keys = self._channel.notes, self._channel.keys

    def establish(self) -> None:
        """Request the channel, as without the control."""
        self._channel.establish()

    def is_established(self) -> bool:
        """Return whether the channel is established."""
        return self._channel.is_established()

    def receive(self) -> list[bytes]:
        """Return the messages that arrived by UDP.

        The channel carries no messages.
        """
        return [*super().receive(), *self._channel.receive()]

    def due_s(self) -> float | None:
        """Return when the channel is due (s), None for never."""
        return self._channel.due_s()

    def tick(self, now_s: float) -> None:
        """Send the channel's messages that are due."""
        self._channel.tick(now_s)


def wait_for_events(carrier: Carrier, until_s: float | None, files: Sequence[Any] = ()) -> bool:
    """Wait for a datagram, timer or file, and run due timers.

    A long wait ends early, so that a caller who waits again is not late.

    Args:
        carrier: The carrier to wait for.
        until_s: End (s of the monotonic clock), None for no end.
        files: Files that end the wait when they become readable.

    Returns:
        True if a file is readable.
    """
    due = [at for at in (until_s, carrier.due_s()) if at is not None]
    left_s = select_timeout_s(min(due) - time.monotonic()) if due else None
    ready, _, _ = select.select([carrier.fileno(), *files], [], [], left_s)
    carrier.tick(time.monotonic())
    return any(file in ready for file in files)


def select_timeout_s(left_s: float) -> float:
    """Return a shortened timeout for select, because the kernel may exceed it.

    The kernel may be late by a thousandth of a long timeout.
    """
    return left_s * (1 - 2 * _SLACK) if left_s > _LONG_S else max(0.0, left_s)


def make_carrier(job: Mapping[str, Any]) -> Carrier:
    """Return the carrier that a job needs."""
    if job["protocol"] not in VERSIONS:
        return UdpCarrier(job["address"], job["peer_address"])
    if job.get("beside_channel"):
        return BesideAdpCarrier(job)
    return ChargedAdpCarrier(job) if "work" in job else AdpCarrier(job)


def _charge_nothing(_operation: Operation, _size: int) -> None:
    """Charge nothing: in real time, an operation takes its own processor time."""

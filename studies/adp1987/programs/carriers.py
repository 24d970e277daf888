"""Carry messages between two hosts by ADP or by UDP, with one interface for programs.

ADP is the Authenticated Datagram Protocol of 1987. `make_carrier` takes a program's configuration,
and returns a `Carrier`. Its methods send a message, and return the messages that have arrived. With
`UdpCarrier`, messages are unprotected, or protected by a tunnel of the kernel (WireGuard, ESP). So
the study adp1987 can compare them with ADP. `programs.realtime` uses the module in the guest. It
needs the standard library and the protocol only.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from protocols.adp.config import HostConfig, load_config
from protocols.adp.crypto import Operation
from protocols.adp.effects import DeliverMessage, Effect, Message, ProgramEvent
from protocols.adp.host import VERSIONS
from protocols.adp.program import IP_MTU_DISCOVER, IP_PMTUDISC_DONT, DatagramSocket, HostEndpoint
from studies.adp1987.programs.endpoint import PacedEndpoint

PORT = 4987
_BUFFER_BYTES = 1 << 20
_LARGEST = 65_535
#: Share of its timeout by which select may be late (Linux, fs/select.c), and the time (s) from
#: which on it matters.
_SLACK, _LONG_S = 0.001, 0.05
_RCVBUFFORCE = 33  # SO_RCVBUFFORCE of Linux: root may exceed the system's limit
#: Sending owner, other host and receiving owner at each end. The sender's user xena sends to bob,
#: the owner of host beta itself. The receiver's reports go from bob to alice, the owner of host
#: alpha itself. A channel authenticates hosts' own owners (kernel owners) when it is set up, so
#: only xena needs a signature.
_NAMES = {"alpha": ("xena", "beta", "bob"), "beta": ("bob", "alpha", "alice")}


class Carrier(Protocol):
    """An interface for one end of the transport of messages.

    Messages arrive complete, once and in order, as long as no packet is lost. Times are read from
    the guest's monotonic clock. The caller reads the clock, because each reading is a slow system
    call.
    """

    def establish(self) -> None:
        """Prepare everything that the first message would wait for, such as keys."""

    def is_established(self) -> bool:
        """Return whether the preparation is complete."""

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """Send a message.

        Args:
            data: the message.
            now_s: the current time (s).
            urgent: whether the message must not wait for others.
        """

    def receive(self) -> list[bytes]:
        """Return all messages that have arrived, without waiting."""

    def due_s(self) -> float | None:
        """Return the time (s) of the next timer, or None without a timer."""

    def tick(self, now_s: float) -> None:
        """Run the timers that are due at `now_s`."""

    def fileno(self) -> int:
        """Return a file descriptor that is readable when datagrams have arrived."""


class UdpCarrier:
    """A carrier that sends each message as one UDP datagram.

    A tunnel of the kernel protects the datagrams, if there is one.
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
        """Do nothing, because a tunnel exists already or is set up for the first datagram."""

    def is_established(self) -> bool:
        """Return True, because UDP needs no preparation."""
        return True

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """Send a datagram, and wait while the socket's buffer is full."""
        self._socket.send(data)

    def receive(self) -> list[bytes]:
        """Return the messages that have arrived in the socket's buffer."""
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(_LARGEST, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return messages

    def due_s(self) -> float | None:
        """Return None, because UDP has no timers."""
        return None

    def tick(self, now_s: float) -> None:
        """Do nothing, because UDP has no timers."""


class AdpCarrier:
    """A carrier that sends messages by ADP, in the name of one user."""

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

    def _make_endpoint(self, job: Mapping[str, Any], config: HostConfig) -> HostEndpoint:
        """Create the ADP host. Its operations take the CPU time that they really need."""
        datagrams = DatagramSocket(config.network.kind, config.network.number,
                                   config.addresses[config.host])
        self.fileno = datagrams.fileno
        return HostEndpoint(config, datagrams, _charge_nothing, self._handle_effect)

    def establish(self) -> None:
        """Request a secure channel to the other host, and authenticate the user there."""
        endpoint = self._endpoint
        endpoint.perform_effects(endpoint.host.open_channel(self._host, [self._source],
                                                            time.monotonic()))

    def is_established(self) -> bool:
        """Return whether the other host has authenticated the user."""
        return self._endpoint.host.is_established(self._host, [self._source])

    def begin_anew(self) -> None:
        """Restart the ADP host, and request another channel (injected fault)."""
        self._endpoint.start_session()
        self._log_keys()
        self.establish()

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """Send a message, which waits for others unless it is urgent."""
        endpoint = self._endpoint
        endpoint.perform_effects(endpoint.host.send(
            Message(self._source, self._host, self._destination, 7, data, urgent=urgent), now_s))

    def receive(self) -> list[bytes]:
        """Return the messages in all datagrams that have arrived."""
        while self._endpoint.read_datagram():
            pass
        arrived, self._arrived = self._arrived, []
        return arrived

    def due_s(self) -> float | None:
        """Return when queued messages must be sent (s), or None."""
        return self._endpoint.host.deadline_s()

    def tick(self, now_s: float) -> None:
        """Send the datagrams that are due."""
        due_s = self.due_s()
        if due_s is not None and due_s <= now_s:
            self._endpoint.perform_effects(self._endpoint.host.tick(now_s))

    def _handle_effect(self, effect: Effect) -> None:
        if isinstance(effect, DeliverMessage):
            self._arrived.append(effect.data)
        elif isinstance(effect, ProgramEvent):
            self.notes.append((effect.event, effect.fields))


class ChargedAdpCarrier(AdpCarrier):
    """An ADP carrier on a modelled slow processor, where each operation takes a given time."""

    def _make_endpoint(self, job: Mapping[str, Any], config: HostConfig) -> HostEndpoint:
        self._paced = PacedEndpoint(job, lambda effect, _at_ns: self._handle_effect(effect))
        self.fileno = self._paced.datagrams.fileno
        return self._paced

    def send(self, data: bytes, now_s: float, *, urgent: bool) -> None:
        """Send a message, and charge the time to take it from its process."""
        processor = self._paced.processor
        processor.advance_to(time.monotonic_ns())
        processor.charge_operation("user-message-send")
        processor.settle_charges()
        super().send(data, self._paced.now_s, urgent=urgent)

    def receive(self) -> list[bytes]:
        """Return arrived messages once the modelled processor has finished its work on them."""
        arrived = super().receive()
        self._paced.processor.wait_for_clock()
        return arrived

    def tick(self, now_s: float) -> None:
        """Send the datagrams that are due."""
        self._paced.processor.advance_to(round(now_s * 1e9))
        super().tick(self._paced.now_s)


class BypassingAdpCarrier(UdpCarrier):
    """A carrier that sets up an ADP channel, but sends messages by plain UDP (injected fault)."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        super().__init__(job["address"], job["peer_address"])
        self._channel = AdpCarrier(job)
        both = select.epoll()
        for descriptor in (self.fileno(), self._channel.fileno()):
            both.register(descriptor, select.EPOLLIN)
        self.fileno = both.fileno
        self.notes, self.keys = self._channel.notes, self._channel.keys

    def establish(self) -> None:
        """Request the ADP channel, as without the fault."""
        self._channel.establish()

    def is_established(self) -> bool:
        """Return whether the ADP channel is established."""
        return self._channel.is_established()

    def receive(self) -> list[bytes]:
        """Return the messages that arrived by UDP, and answer datagrams of the channel."""
        return [*super().receive(), *self._channel.receive()]

    def due_s(self) -> float | None:
        """Return when the ADP channel must send something (s), or None."""
        return self._channel.due_s()

    def tick(self, now_s: float) -> None:
        """Send the datagrams of the ADP channel that are due."""
        self._channel.tick(now_s)


def wait_for_events(carrier: Carrier, until_s: float | None, files: Sequence[Any] = ()) -> bool:
    """Wait for a datagram, a timer or a file, and run due timers.

    A long wait ends early, so that a caller who waits again is not late.

    Args:
        carrier: the carrier to wait for.
        until_s: end (s of the monotonic clock), or None for no end.
        files: files that end the wait when they become readable.

    Returns:
        True if a file is readable.
    """
    due = [at for at in (until_s, carrier.due_s()) if at is not None]
    left_s = select_timeout_s(min(due) - time.monotonic()) if due else None
    ready, _, _ = select.select([carrier.fileno(), *files], [], [], left_s)
    carrier.tick(time.monotonic())
    return any(file in ready for file in files)


def select_timeout_s(left_s: float) -> float:
    """Return a timeout for `select` that is a little shorter than the time left.

    The kernel may end a long wait late, by a thousandth of its length.
    """
    return left_s * (1 - 2 * _SLACK) if left_s > _LONG_S else max(0.0, left_s)


def make_carrier(job: Mapping[str, Any]) -> Carrier:
    """Create the carrier that a program's configuration asks for."""
    if job["protocol"] not in VERSIONS:
        return UdpCarrier(job["address"], job["peer_address"])
    if job.get("beside_channel"):
        return BypassingAdpCarrier(job)
    return ChargedAdpCarrier(job) if "work" in job else AdpCarrier(job)


def _charge_nothing(_operation: Operation, _size: int) -> None:
    """Add no modelled time: in real time, an operation takes its own CPU time."""

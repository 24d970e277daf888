"""A host's ADP module for one kernel session: interface to users, network and clock.

The module has no socket, no clock and no source of randomness. Times (seconds, monotonic) and
random bytes are passed in, and actions are returned. Both versions have this interface.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from protocols.adp import packets
from protocols.adp.context import Context, Settings, earliest_time
from protocols.adp.crypto import Crypto, KeyLog, Meter, Operation
from protocols.adp.effects import Effect, Message, Note
from protocols.adp.errors import AdpError, PacketError
from protocols.adp.peer import Peer
from protocols.adp.receiver import Receiver
from protocols.adp.suite import Directory, Identity, PrivateKey, Random, Suite, Tools
from protocols.adp.suite_1987 import Suite1987
from protocols.adp.suite_modern import SuiteModern

VERSIONS = ("adp-1987", "adp")


class Host:
    """A kernel session of a host.

    A new session needs a new Host.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._peers = {name: Peer(name, context)
                       for name in context.directory.kernel_owners
                       if name != context.identity.host}
        self._receivers = {name: Receiver(peer) for name, peer in self._peers.items()}

    @property
    def session(self) -> bytes:
        """Return the number of the kernel session."""
        return self._context.identity.session

    def send(self, message: Message, now_s: float) -> list[Effect]:
        """Queue a user message. Raises AdpError if it can never be sent."""
        peer = self._peers.get(message.host)
        settings = self._context.settings
        if peer is None:
            raise AdpError(f"no host {message.host}")
        if message.source not in self._context.identity.keys:
            raise AdpError(f"{message.source}: no private key here")
        if len(message.data) > settings.bound_bytes:
            raise AdpError(f"a message of {len(message.data)} bytes, more than the queue's bound "
                           f"of {settings.bound_bytes}")
        if not 0 <= message.port <= 0xFFFF:
            raise AdpError(f"no port: {message.port}")
        # An integer can exceed the largest float.
        if message.max_delay_s is not None and not 0 <= message.max_delay_s <= sys.float_info.max:
            raise AdpError(f"a maximum delay from 0 on is needed, not {message.max_delay_s!r:.40}")
        check_name(message.destination)
        return peer.send(message, now_s)

    def open_channel(self, host: str, owners: Iterable[str], now_s: float) -> list[Effect]:
        """Establish a channel ahead of demand and authenticate owners on it.

        Raises AdpError.
        """
        if host not in self._peers:
            raise AdpError(f"no host {host}")
        names = list(owners)
        for name in names:
            if name not in self._context.identity.keys:
                raise AdpError(f"{name}: no private key here")
        return self._peers[host].open_channel(names, now_s)

    def is_established(self, host: str, owners: Iterable[str]) -> bool:
        """Return whether a channel exists on which the peer confirmed these owners."""
        channel = self._peers[host].channels.current
        return channel is not None and all(channel.owners.is_confirmed(name) for name in owners)

    def receive(self, payload: bytes, source: str, now_s: float) -> list[Effect]:
        """Process an unauthenticated datagram from a host's address. Never raises."""
        self._context.crypto.charge(Operation.ADP_MESSAGE, len(payload))
        receiver = self._receivers.get(source)
        try:
            frame = packets.parse_frame(payload)
            if receiver is not None and frame.version == self._context.suite.version:
                return receiver.receive_frame(frame, now_s)
            reason = f"version {frame.version}" if receiver else "no such host"
        except PacketError as error:
            reason = str(error)
        return [Note("dropped", {"host": source, "reason": reason})]

    def tick(self, now_s: float) -> list[Effect]:
        """Perform all actions that are due."""
        return [effect for peer in self._peers.values() for effect in peer.tick(now_s)]

    def stop(self, now_s: float) -> list[Effect]:
        """Send all queued messages, because the session ends."""
        return [effect for peer in self._peers.values() for effect in peer.stop(now_s)]

    def log_keys(self, log: KeyLog) -> None:
        """Log ephemeral keys, so that captures of a run can be decrypted."""
        self._context.crypto.key_log = log

    def deadline_s(self) -> float | None:
        """Return the time at which `tick` is due next."""
        return earliest_time([peer.deadline_s() for peer in self._peers.values()])


def create_host(version: str, *, host: str, keys: Mapping[str, PrivateKey], directory: Directory,
                settings: Settings, random: Random, meter: Meter) -> Host:
    """Create a host in a new kernel session.

    Args:
        version: `adp-1987` or `adp`.
        host: Name of the host.
        keys: Private keys of the kernel owner and of the owners of its processes.
        directory: The name server.
        settings: Settings of the host.
        random: Returns the requested number of random bytes.
        meter: Called with kind and size in bytes before each operation.

    Raises:
        AdpError: The arguments do not make a working host.
    """
    check_host(version, host, keys, directory)
    identity = Identity(host, directory.kernel_owners[host], keys, random(8))
    crypto = Crypto(meter)
    tools = Tools(identity, directory, crypto, random, settings.scope, settings.window)
    suite: Suite = (Suite1987(tools, checksum=settings.checksum) if version == "adp-1987"
                    else SuiteModern(tools))
    return Host(Context(identity, directory, settings, suite, crypto))


def check_host(version: str, host: str, keys: Mapping[str, PrivateKey],
               directory: Directory) -> None:
    """Raise AdpError for a host that cannot communicate."""
    if version not in VERSIONS:
        raise AdpError(f"no protocol {version}: {' or '.join(VERSIONS)}")
    if host not in directory.kernel_owners:
        raise AdpError(f"no host {host}")
    for name, owner in directory.kernel_owners.items():
        check_name(name)
        if owner not in directory.keys:
            raise AdpError(f"{owner}, the kernel owner of {name}: no public key")
    owner = directory.kernel_owners[host]
    if owner not in keys:
        raise AdpError(f"{owner}, the kernel owner of {host}: no private key")
    for name in directory.keys:
        check_name(name)


def check_name(name: str) -> None:
    """Raise AdpError for a name that does not fit into a message."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise AdpError(f"a name that is not text: {name!r}") from None
    if not 0 < size <= packets.MAX_NAME:
        raise AdpError(f"a name of 1 to {packets.MAX_NAME} bytes is needed, not {name!r}")

"""Implement an ADP host without sockets: messages, datagrams and times in, actions out.

ADP is the Authenticated Datagram Protocol, for secure messages between hosts. A program calls the
methods of `Host`: `send` for a user's message, `receive` for a datagram, `tick` when a timer is
due. Each returns a list of actions (`protocols.adp.effects`), such as a datagram to send or a
message to deliver. Times (seconds, monotonic) and random bytes are passed in. `create_host` takes
version, settings and keys.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from protocols.adp import packets
from protocols.adp.context import HostContext, HostSettings, earliest_time
from protocols.adp.crypto import Crypto, KeyLog, Meter, Operation
from protocols.adp.effects import Effect, Message, ProgramEvent
from protocols.adp.packets import AdpError, PacketError
from protocols.adp.peer import Peer, Receiver
from protocols.adp.suite import Identity, KeyDirectory, PrivateKey, Random, Suite, SuiteTools
from protocols.adp.suite_1987 import Suite1987
from protocols.adp.suite_modern import SuiteModern

VERSIONS = ("adp-1987", "adp")


class Host:
    """An ADP host from its boot to its crash. After a crash, a new Host is needed."""

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._peers = {name: Peer(name, context)
                       for name in context.directory.kernel_owners
                       if name != context.identity.host}
        self._receivers = {name: Receiver(peer) for name, peer in self._peers.items()}

    @property
    def session(self) -> bytes:
        """Return the random number that identifies this run of the host (kernel session)."""
        return self._context.identity.session

    def send(self, message: Message, now_s: float) -> list[Effect]:
        """Queue a message to an owner (user or service) on another host.

        Returns:
            Actions such as datagrams to send now.

        Raises:
            AdpError: the message can never be sent.
        """
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
        """Establish a channel to another host before it is needed, and authenticate owners on it.

        Args:
            host: name of the other host.
            owners: names of users or services of this host.
            now_s: current time (s).

        Raises:
            AdpError: there is no such host, or an owner has no private key here.
        """
        if host not in self._peers:
            raise AdpError(f"no host {host}")
        names = list(owners)
        for name in names:
            if name not in self._context.identity.keys:
                raise AdpError(f"{name}: no private key here")
        return self._peers[host].open_channel(names, now_s)

    def is_established(self, host: str, owners: Iterable[str]) -> bool:
        """Return whether there is a channel to the host on which owners are authenticated."""
        channel = self._peers[host].channels.current
        return channel is not None and all(channel.owners.is_confirmed(name) for name in owners)

    def receive(self, payload: bytes, source: str, now_s: float) -> list[Effect]:
        """Process a datagram from another host's address. Never raises."""
        self._context.crypto.charge(Operation.ADP_MESSAGE, len(payload))
        receiver = self._receivers.get(source)
        try:
            frame = packets.parse_frame(payload)
            if receiver is not None and frame.version == self._context.suite.version:
                return receiver.receive_frame(frame, now_s)
            reason = f"version {frame.version}" if receiver else "no such host"
        except PacketError as error:
            reason = str(error)
        return [ProgramEvent("dropped", {"host": source, "reason": reason})]

    def tick(self, now_s: float) -> list[Effect]:
        """Do what is due: send queued messages, and repeat requests."""
        return [effect for peer in self._peers.values() for effect in peer.tick(now_s)]

    def stop(self, now_s: float) -> list[Effect]:
        """Send all queued messages, because the host stops."""
        return [effect for peer in self._peers.values() for effect in peer.stop(now_s)]

    def log_keys(self, log: KeyLog) -> None:
        """Log ephemeral keys, so that captures can be decrypted."""
        self._context.crypto.key_log = log

    def deadline_s(self) -> float | None:
        """Return the time (s) at which `tick` must be called next, or None."""
        return earliest_time([peer.deadline_s() for peer in self._peers.values()])


def create_host(version: str, *, host: str, keys: Mapping[str, PrivateKey], directory: KeyDirectory,
                settings: HostSettings, random: Random, meter: Meter) -> Host:
    """Create a host of the Authenticated Datagram Protocol.

    Args:
        version: `adp-1987` or `adp` (today's cryptography).
        host: name of the host.
        keys: private keys of the owners on this host, and of the owner that represents it.
        directory: public keys of all owners, and owners of all hosts.
        settings: settings of the host.
        random: returns the requested number of random bytes.
        meter: called with kind and size in bytes before each operation.

    Raises:
        AdpError: the arguments do not make a working host.
    """
    check_host(version, host, keys, directory)
    identity = Identity(host, directory.kernel_owners[host], keys, random(8))
    crypto = Crypto(meter)
    tools = SuiteTools(identity, directory, crypto, random, settings.scope, settings.window)
    suite: Suite = (Suite1987(tools, checksum=settings.checksum) if version == "adp-1987"
                    else SuiteModern(tools))
    return Host(HostContext(identity, directory, settings, suite, crypto))


def check_host(version: str, host: str, keys: Mapping[str, PrivateKey],
               directory: KeyDirectory) -> None:
    """Check that a host has the keys that it needs to communicate.

    Raises:
        AdpError: a key is missing, or of the wrong kind.
    """
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
    """Check that a name is short enough for a message.

    Raises:
        AdpError: the name is empty or too long.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise AdpError(f"a name that is not text: {name!r}") from None
    if not 0 < size <= packets.MAX_NAME:
        raise AdpError(f"a name of 1 to {packets.MAX_NAME} bytes is needed, not {name!r}")

"""A host's ADP module for one kernel session: the interface to users, network and clock.

Nothing in here has a socket, a clock or a source of randomness: times (seconds, never going back)
and random bytes are passed in, what is to be done is returned. Both versions have this interface.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from protocols.adp import packets
from protocols.adp.context import Context, Settings, earliest
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
    """One kernel session. A crash, or another kernel owner, is another Host."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._peers = {name: Peer(name, context)
                       for name in context.directory.kernel_owners
                       if name != context.identity.host}
        self._receivers = {name: Receiver(peer) for name, peer in self._peers.items()}

    @property
    def session(self) -> bytes:
        """The kernel session's number."""
        return self._context.identity.session

    def send(self, message: Message, now_s: float) -> list[Effect]:
        """Take a user message. Raises AdpError for one that can never be sent."""
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
        # Whole numbers may be larger than what a time can be.
        if message.max_delay_s is not None and not 0 <= message.max_delay_s <= sys.float_info.max:
            raise AdpError(f"a maximum delay from 0 on is needed, not {message.max_delay_s!r:.40}")
        check_name(message.destination)
        return peer.send(message, now_s)

    def open(self, host: str, owners: Iterable[str], now_s: float) -> list[Effect]:
        """Establish a channel, and authenticate owners on it, ahead of demand. Raises AdpError."""
        if host not in self._peers:
            raise AdpError(f"no host {host}")
        names = list(owners)
        for name in names:
            if name not in self._context.identity.keys:
                raise AdpError(f"{name}: no private key here")
        return self._peers[host].open(names, now_s)

    def is_established(self, host: str, owners: Iterable[str]) -> bool:
        """Whether there is a channel on which the other end has confirmed these owners."""
        channel = self._peers[host].channels.current
        return channel is not None and all(channel.owners.is_confirmed(name) for name in owners)

    def receive(self, payload: bytes, source: str, now_s: float) -> list[Effect]:
        """What has arrived, unprotected, from an address of that host's. Never raises."""
        self._context.crypto.charge(Operation.ADP_MESSAGE, len(payload))
        receiver = self._receivers.get(source)
        try:
            frame = packets.parse(payload)
            if receiver is not None and frame.version == self._context.suite.version:
                return receiver.receive(frame, now_s)
            reason = f"version {frame.version}" if receiver else "no such host"
        except PacketError as error:
            reason = str(error)
        return [Note("dropped", {"host": source, "reason": reason})]

    def tick(self, now_s: float) -> list[Effect]:
        """Whatever is due."""
        return [effect for peer in self._peers.values() for effect in peer.tick(now_s)]

    def stop(self, now_s: float) -> list[Effect]:
        """Let nothing wait any longer: the session ends."""
        return [effect for peer in self._peers.values() for effect in peer.stop(now_s)]

    def log_keys(self, log: KeyLog) -> None:
        """Have ephemeral keys told, for who opens captures of a run."""
        self._context.crypto.key_log = log

    def deadline_s(self) -> float | None:
        """When `tick` is due next."""
        return earliest([peer.deadline_s() for peer in self._peers.values()])


def make(version: str, *, host: str, keys: Mapping[str, PrivateKey], directory: Directory,
         settings: Settings, random: Random, meter: Meter) -> Host:
    """A host of either version in a new kernel session. Raises AdpError for what cannot work.

    `keys` are the private keys of the kernel's owner and of its processes' owners.
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
    """Raise AdpError for a host that could not talk to anybody."""
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
    """Raise AdpError for a name that does not fit on the wire."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise AdpError(f"a name that is not text: {name!r}") from None
    if not 0 < size <= packets.MAX_NAME:
        raise AdpError(f"a name of 1 to {packets.MAX_NAME} bytes is needed, not {name!r}")

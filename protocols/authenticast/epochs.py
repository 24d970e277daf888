"""Epochs of a stream at its receiver: the setting that applies to each packet.

A change starts an epoch, and every packet names its epoch. Epochs may only increase with the
sequence numbers, as far as verified packets show. An attacker can therefore not return a receiver
to a weaker setting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocols.authenticast.packets import Data
from protocols.authenticast.schemes.base import Opener, Verifier
from protocols.authenticast.schemes.delayed import DelayedOpener
from protocols.authenticast.schemes.secret_key import SecretKeyOpener
from protocols.authenticast.schemes.tesla import TeslaOpener, parse_parameters
from protocols.authenticast.schemes.tree import TreeOpener
from protocols.authenticast.settings import Algorithm, Scheme, Setting

# Number of epochs that a packet may be ahead of the changes received.
_MAX_AHEAD = 16
_MAX_EPOCHS = 16


@dataclass(frozen=True)
class Agreed:
    """The algorithms and schemes agreed in the handshake. No others are accepted."""

    algorithms: frozenset[Algorithm]
    schemes: frozenset[Scheme]

    def is_permitted(self, scheme: Scheme, algorithm: Algorithm) -> bool:
        """Return whether a scheme with an algorithm was agreed."""
        return scheme in self.schemes and (
            algorithm in self.algorithms or (not scheme.is_signed and algorithm is Algorithm.HMAC))


@dataclass
class Epoch:
    """The setting from one change to the next, and the packets verified in it.

    `first` and `last` are the lowest and the highest sequence number verified. `setting` is None
    until the change arrives; until then every packet of the epoch is verified.
    """

    setting: Setting | None = None
    key: bytes = b""
    first: int | None = None
    last: int = -1
    openers: dict[Scheme, Opener] = field(default_factory=dict)


class Epochs:
    """The epochs to which packets can still belong."""

    def __init__(self, verifier: Verifier, agreed: Agreed, ahead_ns: int, agreed_ns: int) -> None:
        self._verifier = verifier
        self._agreed = agreed
        self._ahead_ns = ahead_ns
        self._agreed_ns = agreed_ns
        self._epochs: dict[int, Epoch] = {}
        self.newest = 0

    def __getitem__(self, number: int) -> Epoch | None:
        return self._epochs.get(number)

    def all_openers(self) -> list[Opener]:
        """Return all openers, which may hold packets."""
        return [opener for epoch in self._epochs.values() for opener in epoch.openers.values()]

    def start_epoch(self, number: int, setting: Setting, key: bytes, material: bytes) -> None:
        """Start an epoch with the setting of a change.

        Args:
            number: Number of the epoch.
            setting: Its setting.
            key: A new secret key, or empty to keep the key of the epoch before.
            material: TESLA's parameters, encoded; ignored for other schemes.

        Raises:
            ValueError: The setting was not agreed, or lacks what its scheme needs.
        """
        if not self._agreed.is_permitted(setting.scheme, setting.algorithm):
            raise ValueError(f"{setting.scheme.name} with {setting.algorithm.name} is not agreed")
        crypto, session = self._verifier.crypto, self._verifier.session
        opener: Opener | None = None
        if setting.scheme is Scheme.SECRET_KEY:
            key = key or self._key_before(number)
            opener = SecretKeyOpener(crypto, key, session)
        elif setting.scheme is Scheme.TESLA:
            opener = TeslaOpener(crypto, session, parse_parameters(material), self._ahead_ns,
                                 self._agreed_ns)
        epoch = self._epochs.setdefault(number, Epoch())
        epoch.setting, epoch.key = setting, key
        if opener is not None:
            epoch.openers[setting.scheme] = opener
        self.newest = max(self.newest, number)
        self._forget_old()

    def find_opener(self, packet: Data) -> Opener | None:
        """Return the opener for a packet that may belong to its epoch.

        Returns None if the packet is verified on its own signature.
        """
        epoch = self._epochs.setdefault(packet.epoch, Epoch())
        if packet.scheme is Scheme.DELAYED:
            return epoch.openers.setdefault(packet.scheme, DelayedOpener(self._verifier))
        if packet.scheme is Scheme.TREE:
            return epoch.openers.setdefault(packet.scheme, TreeOpener(self._verifier))
        return epoch.openers.get(packet.scheme)

    def is_in_epoch(self, packet: Data) -> bool:
        """Return whether a packet may belong to the epoch that it names."""
        for number, other in self._epochs.items():
            if other.first is None:
                continue
            if (number > packet.epoch and packet.sequence > other.first) or (
                    number < packet.epoch and packet.sequence < other.last):
                return False
        epoch = self._epochs.get(packet.epoch)
        if epoch is not None and epoch.setting is not None:
            return (packet.scheme, packet.algorithm) == (epoch.setting.scheme,
                                                         epoch.setting.algorithm)
        oldest = min(self._epochs)
        return (oldest < packet.epoch <= self.newest + _MAX_AHEAD and packet.scheme.is_signed
                and self._agreed.is_permitted(packet.scheme, packet.algorithm))

    def confirm_packet(self, packet: Data) -> bool:
        """Register a verified packet. Return whether it is the first of its epoch."""
        epoch = self._epochs.setdefault(packet.epoch, Epoch())
        is_first = epoch.first is None
        epoch.first = packet.sequence if epoch.first is None else min(epoch.first, packet.sequence)
        epoch.last = max(epoch.last, packet.sequence)
        return is_first

    def _key_before(self, number: int) -> bytes:
        keys = [epoch.key for before, epoch in sorted(self._epochs.items())
                if before < number and epoch.key]
        if not keys:
            raise ValueError("a secret key connection without a key")
        return keys[-1]

    def _forget_old(self) -> None:
        for old in sorted(self._epochs)[:-_MAX_EPOCHS - _MAX_AHEAD]:
            if not any(getattr(opener, "waiting", 0)
                       for opener in self._epochs[old].openers.values()):
                del self._epochs[old]

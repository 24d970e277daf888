"""Which setting a packet belongs to, and whether it may: the epochs of a stream at its receiver.

A change starts an epoch; every packet names its own. Epochs only grow with sequence numbers, as far
as packets that were verified show it; so nobody can lead a receiver back to a weaker setting.
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

# Epochs that a packet may be ahead of the changes that were heard.
_MAX_AHEAD = 16
_MAX_EPOCHS = 16


@dataclass(frozen=True)
class Agreed:
    """The algorithms and schemes of the handshake: nothing else is ever accepted."""

    algorithms: frozenset[Algorithm]
    schemes: frozenset[Scheme]

    def permits(self, scheme: Scheme, algorithm: Algorithm) -> bool:
        """Whether a packet or a setting of this kind may come."""
        return scheme in self.schemes and (
            algorithm in self.algorithms or (not scheme.is_signed and algorithm is Algorithm.HMAC))


@dataclass
class Epoch:
    """A setting from its change on; `first` and `last` bound the packets verified in it.

    Without a setting its change has not come yet: every packet of it is verified.
    """

    setting: Setting | None = None
    key: bytes = b""
    first: int | None = None
    last: int = -1
    openers: dict[Scheme, Opener] = field(default_factory=dict)


class Epochs:
    """The epochs that packets may still belong to."""

    def __init__(self, verifier: Verifier, agreed: Agreed, ahead_ns: int, agreed_ns: int) -> None:
        self._verifier = verifier
        self._agreed = agreed
        self._ahead_ns = ahead_ns
        self._agreed_ns = agreed_ns
        self._epochs: dict[int, Epoch] = {}
        self.newest = 0

    def __getitem__(self, number: int) -> Epoch | None:
        return self._epochs.get(number)

    def openers(self) -> list[Opener]:
        """All that may hold packets."""
        return [opener for epoch in self._epochs.values() for opener in epoch.openers.values()]

    def install(self, number: int, setting: Setting, key: bytes, material: bytes) -> None:
        """A change has come. Raises ValueError where it lacks what its scheme needs."""
        if not self._agreed.permits(setting.scheme, setting.algorithm):
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
        self._forget()

    def opener(self, packet: Data) -> Opener | None:
        """What opens a packet that is in force; None where it is verified by itself."""
        epoch = self._epochs.setdefault(packet.epoch, Epoch())
        if packet.scheme is Scheme.DELAYED:
            return epoch.openers.setdefault(packet.scheme, DelayedOpener(self._verifier))
        if packet.scheme is Scheme.TREE:
            return epoch.openers.setdefault(packet.scheme, TreeOpener(self._verifier))
        return epoch.openers.get(packet.scheme)

    def is_in_force(self, packet: Data) -> bool:
        """Whether a packet may be of the epoch that it names."""
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
                and self._agreed.permits(packet.scheme, packet.algorithm))

    def confirm(self, packet: Data) -> bool:
        """A packet was verified; whether it is the first one of its epoch."""
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

    def _forget(self) -> None:
        for old in sorted(self._epochs)[:-_MAX_EPOCHS - _MAX_AHEAD]:
            if not any(getattr(opener, "waiting", 0)
                       for opener in self._epochs[old].openers.values()):
                del self._epochs[old]

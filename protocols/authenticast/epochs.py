"""Find which setting applies to which packets of an Authenticast stream.

Authenticast streams signed packets. A setting says how they are authenticated (scheme, algorithm,
fraction to verify). All packets under one setting form an epoch, and each packet has the number of
its epoch. The receiver adds each announced setting to `Epochs`, and gets the `Epoch` of an arriving
packet from it. Epoch numbers may only increase with the sequence numbers of verified packets. So an
attacker cannot return a receiver to a weaker setting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from protocols.authenticast.packets import StreamPacket
from protocols.authenticast.schemes.base import Opener, PacketVerifier, SecretKeyOpener
from protocols.authenticast.schemes.delayed import DelayedOpener
from protocols.authenticast.schemes.tesla import TeslaOpener, parse_parameters
from protocols.authenticast.schemes.tree import TreeOpener
from protocols.authenticast.settings import Algorithm, Scheme, StreamSetting

# Number of epochs that a packet may be ahead of the changes received.
_MAX_AHEAD = 16
_MAX_EPOCHS = 16


@dataclass(frozen=True)
class AgreedAlgorithms:
    """The signature algorithms and schemes that client and server agreed on in the handshake."""

    algorithms: frozenset[Algorithm]
    schemes: frozenset[Scheme]

    def is_permitted(self, scheme: Scheme, algorithm: Algorithm) -> bool:
        """Return whether client and server agreed on a scheme with this algorithm."""
        return scheme in self.schemes and (
            algorithm in self.algorithms or (not scheme.is_signed and algorithm is Algorithm.HMAC))


@dataclass
class Epoch:
    """The packets that were sent under one setting, as a receiver knows them.

    - `setting`: None until the server's message about the setting arrives. Until then, each packet
      of the epoch is verified.
    - `key`: the secret key of the epoch, empty for schemes without one
    - `first`, `last`: lowest and highest verified sequence number
    - `openers`: verifiers of the epoch's packets, by scheme
    """

    setting: StreamSetting | None = None
    key: bytes = b""
    first: int | None = None
    last: int = -1
    openers: dict[Scheme, Opener] = field(default_factory=dict)


class Epochs:
    """The epochs to which arriving packets can still belong."""

    def __init__(self, verifier: PacketVerifier, agreed: AgreedAlgorithms, ahead_ns: int,
                 agreed_ns: int) -> None:
        self._verifier = verifier
        self._agreed = agreed
        self._ahead_ns = ahead_ns
        self._agreed_ns = agreed_ns
        self._epochs: dict[int, Epoch] = {}
        self.newest = 0

    def __getitem__(self, number: int) -> Epoch | None:
        return self._epochs.get(number)

    def all_openers(self) -> list[Opener]:
        """Return the verifiers of all epochs. Some of them hold packets."""
        return [opener for epoch in self._epochs.values() for opener in epoch.openers.values()]

    def start_epoch(self, number: int, setting: StreamSetting, key: bytes, material: bytes) -> None:
        """Add the setting of an epoch, which the server has announced.

        Args:
            number: number of the epoch.
            setting: how its packets are authenticated.
            key: a new secret key, or empty to keep the key of the previous epoch.
            material: encoded parameters of TESLA (MACs with keys disclosed later). Ignored for
                other schemes.

        Raises:
            ValueError: client and server have not agreed on the setting, or its key is missing.
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

    def find_opener(self, packet: StreamPacket) -> Opener | None:
        """Return the verifier of a packet's scheme, or None if each packet has its signature."""
        epoch = self._epochs.setdefault(packet.epoch, Epoch())
        if packet.scheme is Scheme.DELAYED:
            return epoch.openers.setdefault(packet.scheme, DelayedOpener(self._verifier))
        if packet.scheme is Scheme.TREE:
            return epoch.openers.setdefault(packet.scheme, TreeOpener(self._verifier))
        return epoch.openers.get(packet.scheme)

    def is_in_epoch(self, packet: StreamPacket) -> bool:
        """Return whether scheme and sequence number of a packet fit the epoch that it names.

        Its number must lie before all later epochs and after all earlier ones. An epoch that the
        server has not announced yet may begin soon, with any agreed signature scheme.
        """
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

    def confirm_packet(self, packet: StreamPacket) -> bool:
        """Record a verified packet, and return whether it is the first of its epoch."""
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

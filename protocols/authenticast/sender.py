"""The sender of one stream, which numbers and seals packets.

To seal a packet is to add its authenticator. No packet leaves without an authenticator. A switch of
the scheme closes the open bundle or tree first, and the next packet is sealed by the new scheme.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from protocols.authenticast.crypto import Crypto, SigningKey
from protocols.authenticast.packets import Data
from protocols.authenticast.schemes.base import Sealer, Signer
from protocols.authenticast.schemes.delayed import DelayedSealer
from protocols.authenticast.schemes.percentage import PercentageSealer
from protocols.authenticast.schemes.secret_key import SecretKeySealer
from protocols.authenticast.schemes.tesla import Parameters, TeslaSealer
from protocols.authenticast.schemes.tree import TreeSealer
from protocols.authenticast.settings import Algorithm, Scheme, Setting


@dataclass(frozen=True)
class Material:
    """Keys that a scheme needs in addition to a signing key.

    They are a secret key, or a TESLA chain with its parameters.
    """

    key: bytes = b""
    parameters: Parameters | None = None
    chain: tuple[bytes, ...] = ()


class Sender:
    """The sender of one stream.

    `hold_ns` is the longest time that a packet waits for its tree to fill.
    """

    def __init__(self, crypto: Crypto, keys: Mapping[Algorithm, SigningKey],
                 stream_id: tuple[int, bytes], setting: Setting, hold_ns: int) -> None:
        self._crypto = crypto
        self._keys = keys
        self._stream, self._session = stream_id
        self._hold_ns = hold_ns
        self.next_sequence = 0
        self.epoch = 0
        self.setting = setting
        self._material = Material()
        self._sealer = self._sealer_for(setting, self._material)
        self._lingering: list[TeslaSealer] = []

    def seal_payload(self, payload: bytes, now_ns: int, frame: int = 0,
                     flags: int = 0) -> list[bytes]:
        """Seal a packet under the next sequence number and return the datagrams to send now.

        Raises ValueError when the TESLA chain has no key left. Call `switch_setting` before that.
        """
        setting = self.setting
        packet = Data(setting.scheme, setting.algorithm, flags, self._stream, self.next_sequence,
                      now_ns, frame, self.epoch, 0, 1, payload)
        datagrams = self._sealer.seal_packet(packet, now_ns)
        self.next_sequence += 1
        return datagrams

    def switch_setting(self, epoch: int, setting: Setting, material: Material,
                       now_ns: int) -> list[bytes]:
        """Use another setting from the next packet on.

        Returns the datagrams that close the open bundle or tree; send them first. Raises ValueError
        if the keys for the setting are missing.
        """
        sealer = self._sealer_for(setting, self._select_material(setting, material))
        datagrams = self.close_group(now_ns)
        if isinstance(self._sealer, TeslaSealer):
            self._lingering.append(self._sealer)
        self._sealer, self._material = sealer, self._select_material(setting, material)
        self.epoch, self.setting = epoch, setting
        return datagrams

    @property
    def released_end(self) -> int:
        """Return the sequence number below which all packets have left.

        Packets that wait for their tree have not left.
        """
        held = self._sealer.held_count if isinstance(self._sealer, TreeSealer) else 0
        return self.next_sequence - held

    def close_group(self, now_ns: int) -> list[bytes]:
        """Close the open bundle or tree and return its datagrams."""
        return self._sealer.close_group(now_ns)

    def tick(self, now_ns: int) -> list[bytes]:
        """Return the datagrams that are due: trees that have waited, keys to disclose."""
        datagrams = [datagram for sealer in (*self._lingering, self._sealer)
                     for datagram in sealer.tick(now_ns)]
        self._lingering = [sealer for sealer in self._lingering
                           if sealer.deadline_ns() is not None]
        return datagrams

    def deadline_ns(self) -> int | None:
        """Return the time at which `tick` is due next."""
        times = [sealer.deadline_ns() for sealer in (*self._lingering, self._sealer)]
        return min((time for time in times if time is not None), default=None)

    def chain_left(self, now_ns: int) -> int | None:
        """Return the intervals left in the TESLA chain, or None for other schemes."""
        return self._sealer.remaining_intervals(now_ns) if isinstance(self._sealer,
                                                                      TeslaSealer) else None

    def _select_material(self, setting: Setting, material: Material) -> Material:
        """Return the material to use: the current secret key if no new one comes.

        Other schemes use the new material.
        """
        if setting.scheme is Scheme.SECRET_KEY and not material.key:
            return self._material
        return material

    def _sealer_for(self, setting: Setting, material: Material) -> Sealer:
        if setting.scheme is Scheme.SECRET_KEY:
            if not material.key:
                raise ValueError("a secret key connection without a key")
            return SecretKeySealer(self._crypto, material.key, self._session)
        if setting.scheme is Scheme.TESLA:
            if material.parameters is None:
                raise ValueError("TESLA without parameters")
            return TeslaSealer(self._crypto, self._session, material.parameters,
                               list(material.chain))
        key = self._keys.get(setting.algorithm)
        if key is None:
            raise ValueError(f"no key for {setting.algorithm.name}")
        signer = Signer(self._crypto, key, self._session)
        if setting.scheme is Scheme.DELAYED:
            return DelayedSealer(signer, setting.bundle)
        if setting.scheme is Scheme.TREE:
            return TreeSealer(signer, setting.bundle, self._hold_ns)
        return PercentageSealer(signer)

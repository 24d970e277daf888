"""Authenticate a stream by a signature on each packet, and one more on each bundle.

This is the scheme `delayed` of Authenticast, a protocol for signed streams. A bundle is a group of
n packets. `DelayedSealer` signs at the sender. `DelayedOpener` holds the packets of a bundle at the
receiver until the bundle's signature arrives, and verifies them with one operation. If one packet
is wrong or lost, all packets of the bundle are rejected.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from protocols.authenticast.effects import PacketFate
from protocols.authenticast.packets import BundleSignature, StreamPacket
from protocols.authenticast.schemes.base import (
    ImmediateSealer,
    PacketSigner,
    PacketVerdict,
    PacketVerifier,
)

# A bundle is given up when a packet this far behind its end has arrived. Reordering over a longer
# distance is not expected.
REORDER = 64
PATIENCE_NS = 5_000_000_000
MAX_OPEN = 64
_MAX_REMEMBERED = 256


class DelayedSealer(ImmediateSealer):
    """A sender that signs each packet, and adds a common signature after every `size` packets."""

    def __init__(self, signer: PacketSigner, size: int) -> None:
        self._signer = signer
        self._size = size
        self._open: list[StreamPacket] = []

    def seal_packet(self, packet: StreamPacket, now_ns: int) -> list[bytes]:
        """Return the signed packet, and after the last of a bundle the common signature."""
        packet = replace(packet, position=len(self._open), bundle=self._size)
        self._open.append(packet)
        signature = self._signer.sign("data", packet.signed_bytes())
        sealed = [replace(packet, authenticator=signature).encode()]
        return sealed + (self.close_group(now_ns) if len(self._open) == self._size else [])

    def close_group(self, now_ns: int) -> list[bytes]:
        """Return the signature of an incomplete bundle, over the packets that it has so far."""
        if not self._open:
            return []
        first, size = self._open[0], len(self._open)
        bundle = BundleSignature(first.algorithm, first.stream, first.epoch, first.sequence, size)
        hashes = b"".join(self._signer.crypto.compute_digest(packet.signed_bytes()) for packet
                          in self._open)
        self._open = []
        return [replace(bundle, signature=self._signer.sign(
            "bundle", bundle.signed_bytes(hashes))).encode()]


@dataclass
class _BundleGroup:
    """The packets of a bundle that have arrived, by position, and its signature.

    `touched_ns` is the time of the last arrival.
    """

    packets: dict[int, StreamPacket] = field(default_factory=dict)
    signature: BundleSignature | None = None
    touched_ns: int = 0

    @property
    def is_complete(self) -> bool:
        return self.signature is not None and all(
            position in self.packets for position in range(self.signature.size))


class DelayedOpener:
    """A receiver that holds packets until the common signature of their bundle arrives."""

    def __init__(self, verifier: PacketVerifier, patience_ns: int = PATIENCE_NS) -> None:
        self._verifier = verifier
        self._patience_ns = patience_ns
        self._groups: dict[int, _BundleGroup] = {}
        self._given_up: dict[int, None] = {}

    @property
    def waiting(self) -> int:
        """Return the number of packets that are held."""
        return sum(len(group.packets) for group in self._groups.values())

    def open_packet(self, packet: StreamPacket, now_ns: int) -> list[PacketVerdict]:
        """Hold a packet until the common signature of its bundle (group of packets) arrives.

        Returns:
            The verdicts on the packets of all bundles that are now complete, or that have lost
            packets.
        """
        if packet.first in self._given_up:
            return [(packet, PacketFate.BUNDLE_INCOMPLETE)]
        group = self._groups.setdefault(packet.first, _BundleGroup())
        group.packets[packet.position] = packet
        group.touched_ns = now_ns
        return self._settle_bundle(packet.first) + self._give_up_before(packet.sequence)

    def add_signature(self, bundle: BundleSignature, now_ns: int) -> list[PacketVerdict]:
        """Add the common signature of a bundle, and verify the bundle if it is complete."""
        if bundle.first in self._given_up:
            return []
        group = self._groups.setdefault(bundle.first, _BundleGroup())
        group.signature = bundle
        group.touched_ns = now_ns
        return self._settle_bundle(bundle.first) + self._give_up_before(bundle.first)

    def release_packets(self) -> list[StreamPacket]:
        """Return all held packets unverified, because packets are now verified one by one."""
        waiting = [packet for _, group in sorted(self._groups.items())
                   for _, packet in sorted(group.packets.items())]
        self._groups.clear()
        return waiting

    def give_up(self) -> list[PacketVerdict]:
        """Give up all held packets, because the stream is over."""
        return [(packet, PacketFate.BUNDLE_INCOMPLETE) for packet in self.release_packets()]

    def tick(self, now_ns: int) -> list[PacketVerdict]:
        """Give up bundles of which nothing has arrived for `patience_ns`."""
        old = [first for first, group in self._groups.items()
               if group.touched_ns + self._patience_ns <= now_ns]
        return [verdict for first in old for verdict in self._give_up(first)]

    def deadline_ns(self) -> int | None:
        """Return the time (ns) at which the first bundle is given up, or None."""
        return min((group.touched_ns + self._patience_ns for group in self._groups.values()),
                   default=None)

    def _settle_bundle(self, first: int) -> list[PacketVerdict]:
        """Verify a bundle if it is complete, and return the verdicts on its packets."""
        group = self._groups[first]
        if not group.is_complete:
            return []
        del self._groups[first]
        bundle = group.signature
        assert bundle is not None
        packets = [group.packets.pop(position) for position in range(bundle.size)]
        hashes = b"".join(self._verifier.crypto.compute_digest(packet.signed_bytes()) for packet
                          in packets)
        is_right = self._verifier.is_signed(bundle.algorithm, "bundle", bundle.signed_bytes(hashes),
                                            bundle.signature)
        fate = PacketFate.VERIFIED if is_right else PacketFate.BUNDLE_FAILED
        # A packet at a position that the signature does not cover was not sent by the server.
        strangers = [(packet, PacketFate.BUNDLE_FAILED) for packet in group.packets.values()]
        return [(packet, fate) for packet in packets] + strangers

    def _give_up_before(self, sequence: int) -> list[PacketVerdict]:
        hopeless = [first for first, group in self._groups.items()
                    if max((first + position for position in group.packets), default=first)
                    + REORDER < sequence]
        hopeless += sorted(self._groups)[:max(0, len(self._groups) - MAX_OPEN)]
        return [verdict for first in dict.fromkeys(hopeless) for verdict in self._give_up(first)]

    def _give_up(self, first: int) -> list[PacketVerdict]:
        group = self._groups.pop(first)
        self._given_up[first] = None
        while len(self._given_up) > _MAX_REMEMBERED:
            del self._given_up[next(iter(self._given_up))]
        return [(packet, PacketFate.BUNDLE_INCOMPLETE) for packet in group.packets.values()]

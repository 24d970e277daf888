"""Delayed authentication: n signed packets, and one more signature over all of them.

A receiver holds the packets of a bundle until the bundle's signature arrives, and verifies them
with one operation. If one packet is wrong, or lost, all packets of the bundle are rejected.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import Bundle, Data
from protocols.authenticast.schemes.base import AtOnce, Signer, Verdict, Verifier

# A bundle is given up when a packet this far behind its end has arrived. Reordering over a longer
# distance is not expected.
REORDER = 64
PATIENCE_NS = 5_000_000_000
MAX_OPEN = 64
_MAX_REMEMBERED = 256


class DelayedSealer(AtOnce):
    """A sealer that signs each packet, and a bundle after every `size` packets."""

    def __init__(self, signer: Signer, size: int) -> None:
        self._signer = signer
        self._size = size
        self._open: list[Data] = []

    def seal_packet(self, packet: Data, now_ns: int) -> list[bytes]:
        """Return the signed packet, and the bundle's signature after its last packet."""
        packet = replace(packet, position=len(self._open), bundle=self._size)
        self._open.append(packet)
        signature = self._signer.sign("data", packet.signed_bytes())
        sealed = [replace(packet, authenticator=signature).encode()]
        return sealed + (self.close_group(now_ns) if len(self._open) == self._size else [])

    def close_group(self, now_ns: int) -> list[bytes]:
        """Return the bundle's signature over the packets so far, if there are any."""
        if not self._open:
            return []
        first, size = self._open[0], len(self._open)
        bundle = Bundle(first.algorithm, first.stream, first.epoch, first.sequence, size)
        hashes = b"".join(self._signer.crypto.compute_digest(packet.signed_bytes()) for packet
                          in self._open)
        self._open = []
        return [replace(bundle, signature=self._signer.sign(
            "bundle", bundle.signed_bytes(hashes))).encode()]


@dataclass
class _Group:
    packets: dict[int, Data] = field(default_factory=dict)
    signature: Bundle | None = None
    touched_ns: int = 0

    @property
    def is_complete(self) -> bool:
        return self.signature is not None and all(
            position in self.packets for position in range(self.signature.size))


class DelayedOpener:
    """An opener that holds bundles until they can be verified."""

    def __init__(self, verifier: Verifier, patience_ns: int = PATIENCE_NS) -> None:
        self._verifier = verifier
        self._patience_ns = patience_ns
        self._groups: dict[int, _Group] = {}
        self._given_up: dict[int, None] = {}

    @property
    def waiting(self) -> int:
        """Return the number of packets that are held."""
        return sum(len(group.packets) for group in self._groups.values())

    def open_packet(self, packet: Data, now_ns: int) -> list[Verdict]:
        """Hold a packet, and return verdicts on bundles that this packet settles.

        It completes its own bundle, or shows that an older bundle will not become complete.
        """
        if packet.first in self._given_up:
            return [(packet, Fate.BUNDLE_INCOMPLETE)]
        group = self._groups.setdefault(packet.first, _Group())
        group.packets[packet.position] = packet
        group.touched_ns = now_ns
        return self._settle_bundle(packet.first) + self._give_up_before(packet.sequence)

    def add_signature(self, bundle: Bundle, now_ns: int) -> list[Verdict]:
        """Add the signature of a bundle and return the verdicts that follow."""
        if bundle.first in self._given_up:
            return []
        group = self._groups.setdefault(bundle.first, _Group())
        group.signature = bundle
        group.touched_ns = now_ns
        return self._settle_bundle(bundle.first) + self._give_up_before(bundle.first)

    def release_packets(self) -> list[Data]:
        """Return all held packets and forget their bundles.

        From now on the receiver verifies packets one by one.
        """
        held = [packet for _, group in sorted(self._groups.items())
                for _, packet in sorted(group.packets.items())]
        self._groups.clear()
        return held

    def give_up(self) -> list[Verdict]:
        """Give up all bundles, because the stream is over."""
        return [(packet, Fate.BUNDLE_INCOMPLETE) for packet in self.release_packets()]

    def tick(self, now_ns: int) -> list[Verdict]:
        """Give up bundles that have received nothing for `patience_ns`."""
        old = [first for first, group in self._groups.items()
               if group.touched_ns + self._patience_ns <= now_ns]
        return [verdict for first in old for verdict in self._give_up(first)]

    def deadline_ns(self) -> int | None:
        """Return the time at which the first bundle is given up, or None."""
        return min((group.touched_ns + self._patience_ns for group in self._groups.values()),
                   default=None)

    def _settle_bundle(self, first: int) -> list[Verdict]:
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
        fate = Fate.VERIFIED if is_right else Fate.BUNDLE_FAILED
        # A packet at a position that the signature does not cover was not sent by the server.
        strangers = [(packet, Fate.BUNDLE_FAILED) for packet in group.packets.values()]
        return [(packet, fate) for packet in packets] + strangers

    def _give_up_before(self, sequence: int) -> list[Verdict]:
        hopeless = [first for first, group in self._groups.items()
                    if max((first + position for position in group.packets), default=first)
                    + REORDER < sequence]
        hopeless += sorted(self._groups)[:max(0, len(self._groups) - MAX_OPEN)]
        return [verdict for first in dict.fromkeys(hopeless) for verdict in self._give_up(first)]

    def _give_up(self, first: int) -> list[Verdict]:
        group = self._groups.pop(first)
        self._given_up[first] = None
        while len(self._given_up) > _MAX_REMEMBERED:
            del self._given_up[next(iter(self._given_up))]
        return [(packet, Fate.BUNDLE_INCOMPLETE) for packet in group.packets.values()]

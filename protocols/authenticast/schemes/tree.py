"""Authenticate a stream by one signature over a hash tree of several packets.

This is tree chaining (Wong and Lam, 1998), a scheme of Authenticast, a protocol for signed streams.
`TreeSealer` holds packets at the sender until a tree is full, and signs its root. Each packet
carries its path to the root, so `TreeOpener` at the receiver can verify it alone. A lost packet
affects no other packet. The first packet of a tree costs the receiver a signature verification, the
others cost only hashes.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from protocols.authenticast.crypto import HASH_BYTES, Crypto
from protocols.authenticast.effects import PacketFate
from protocols.authenticast.packets import StreamPacket
from protocols.authenticast.schemes.base import (
    ImmediateOpener,
    PacketSigner,
    PacketVerdict,
    PacketVerifier,
)
from protocols.authenticast.wire import encode_block

_ROOT = struct.Struct("!IIQH")
_LEAF, _NODE = b"\0", b"\1"
_MAX_ROOTS = 256


def build_tree(crypto: Crypto, leaves: list[bytes]) -> list[list[bytes]]:
    """Compute the rows of a hash tree, from the hashes of the packets to the root.

    A node without a partner moves up unchanged.
    """
    tree = [leaves]
    while len(tree[-1]) > 1:
        below = tree[-1]
        above = [crypto.compute_digest(_NODE + below[n] + below[n + 1])
                 for n in range(0, len(below) - 1, 2)]
        tree.append(above + below[len(above) * 2:])
    return tree


def authentication_path(tree: list[list[bytes]], position: int) -> bytes:
    """Return the hashes that a packet needs to compute the root: its partners on each row."""
    partners = b""
    for nodes in tree[:-1]:
        partner = position ^ 1
        partners += nodes[partner] if partner < len(nodes) else b""
        position //= 2
    return partners


def compute_root(crypto: Crypto, leaf: bytes, position_and_size: tuple[int, int],
                 partners: bytes) -> bytes | None:
    """Compute the root of a hash tree from one packet's hash and its path.

    Args:
        crypto: the hash function.
        leaf: hash of the packet.
        position_and_size: position of the packet, and number of packets in the tree.
        partners: the hashes on the path, joined.

    Returns:
        The root, or None if the path has the wrong length.
    """
    position, size = position_and_size
    node, used = leaf, 0
    while size > 1:
        if position ^ 1 < size:
            partner = partners[used:used + HASH_BYTES]
            used += HASH_BYTES
            if len(partner) != HASH_BYTES:
                return None
            node = crypto.compute_digest(_NODE
                                         + (partner + node if position & 1 else node + partner))
        position, size = position // 2, (size + 1) // 2
    return node if used == len(partners) else None


def leaf_hash(crypto: Crypto, signed: bytes) -> bytes:
    """Return the hash of a packet as a leaf of the tree."""
    return crypto.compute_digest(_LEAF + signed)


def signed_statement(packet: StreamPacket, root: bytes) -> bytes:
    """Return the bytes that a tree's signature covers: root, size and place in the stream."""
    return _ROOT.pack(packet.stream, packet.epoch, packet.first, packet.bundle) + root


class TreeSealer:
    """A sender that holds packets until a tree of `size` is full, but at most for `hold_ns`."""

    def __init__(self, signer: PacketSigner, size: int, hold_ns: int) -> None:
        self._signer = signer
        self._size = size
        self._hold_ns = hold_ns
        self._open: list[StreamPacket] = []
        self._since_ns = 0

    @property
    def held_count(self) -> int:
        """Return the number of packets that wait until their tree is full."""
        return len(self._open)

    def seal_packet(self, packet: StreamPacket, now_ns: int) -> list[bytes]:
        """Hold the packet, and return all packets of its tree once the tree is full."""
        if not self._open:
            self._since_ns = now_ns
        self._open.append(packet)
        return self.close_group(now_ns) if len(self._open) == self._size else []

    def close_group(self, now_ns: int) -> list[bytes]:
        """Sign the packets held so far as one tree, and return them."""
        size, crypto = len(self._open), self._signer.crypto
        if not size:
            return []
        packets = [replace(packet, position=position, bundle=size)
                   for position, packet in enumerate(self._open)]
        self._open = []
        texts = [packet.signed_bytes() for packet in packets]
        tree = build_tree(crypto, [leaf_hash(crypto, text) for text in texts])
        signature = encode_block(self._signer.sign("tree",
                                                   signed_statement(packets[0], tree[-1][0])))
        return [text + signature + authentication_path(tree, position) for position, text
                in enumerate(texts)]

    def tick(self, now_ns: int) -> list[bytes]:
        """Return the packets of an incomplete tree if the first one has waited for `hold_ns`."""
        due_ns = self.deadline_ns()
        return self.close_group(now_ns) if due_ns is not None and due_ns <= now_ns else []

    def deadline_ns(self) -> int | None:
        """Return the time (ns) at which the incomplete tree must be sent, or None."""
        return self._since_ns + self._hold_ns if self._open else None


class TreeOpener(ImmediateOpener):
    """A receiver that verifies each packet by its path to a signed root."""

    waiting = 0

    def __init__(self, verifier: PacketVerifier) -> None:
        self._verifier = verifier
        self._roots: dict[bytes, None] = {}

    def open_packet(self, packet: StreamPacket, now_ns: int) -> list[PacketVerdict]:
        """Verify a packet at once, and return the result."""
        return [(packet, PacketFate.VERIFIED if self._is_authentic(packet) else PacketFate.FAILED)]

    def _is_authentic(self, packet: StreamPacket) -> bool:
        """Return whether a packet's path leads to a root of its tree that the server signed."""
        length = int.from_bytes(packet.authenticator[:2], "big")
        signature = packet.authenticator[2:2 + length]
        crypto = self._verifier.crypto
        root = compute_root(crypto, leaf_hash(crypto, packet.signed_bytes()),
                            (packet.position, packet.bundle),
                            packet.authenticator[2 + length:])
        if root is None or len(signature) != length:
            return False
        stated = bytes((packet.algorithm,)) + signed_statement(packet, root)
        if stated in self._roots:
            return True
        if not self._verifier.is_signed(packet.algorithm, "tree", stated[1:], signature):
            return False
        self._roots[stated] = None
        if len(self._roots) > _MAX_ROOTS:
            del self._roots[next(iter(self._roots))]
        return True

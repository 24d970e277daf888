"""Tree chaining (Wong and Lam, 1998): one signature over a hash tree.

Each packet carries its path to the root, so it can be verified alone. A loss affects no other
packet. The first packet of a tree costs the receiver a signature verification, the others cost only
hashes. The sender holds packets until a tree is full.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from protocols.authenticast.crypto import HASH_BYTES, Crypto
from protocols.authenticast.effects import Fate
from protocols.authenticast.packets import Data
from protocols.authenticast.schemes.base import NeverWaits, Signer, Verdict, Verifier
from protocols.authenticast.wire import encode_block

_ROOT = struct.Struct("!IIQH")
_LEAF, _NODE = b"\0", b"\1"
_MAX_ROOTS = 256


def build_tree(crypto: Crypto, leaves: list[bytes]) -> list[list[bytes]]:
    """Return the tree's levels, from the leaves' hashes to the root.

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
    """Return the partner hashes on the way from a leaf to the root."""
    partners = b""
    for nodes in tree[:-1]:
        partner = position ^ 1
        partners += nodes[partner] if partner < len(nodes) else b""
        position //= 2
    return partners


def compute_root(crypto: Crypto, leaf: bytes, position_and_size: tuple[int, int],
                 partners: bytes) -> bytes | None:
    """Return the root above a leaf, or None if the path has the wrong length.

    `position_and_size` is the leaf's position and the number of leaves.
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
    """Return the leaf hash of a packet's authenticated bytes."""
    return crypto.compute_digest(_LEAF + signed)


def signed_statement(packet: Data, root: bytes) -> bytes:
    """Return the bytes that the signature of a tree covers."""
    return _ROOT.pack(packet.stream, packet.epoch, packet.first, packet.bundle) + root


class TreeSealer:
    """A sealer that holds packets until there are `size`, or for at most `hold_ns`."""

    def __init__(self, signer: Signer, size: int, hold_ns: int) -> None:
        self._signer = signer
        self._size = size
        self._hold_ns = hold_ns
        self._open: list[Data] = []
        self._since_ns = 0

    @property
    def held_count(self) -> int:
        """Return the number of packets that wait for their tree."""
        return len(self._open)

    def seal_packet(self, packet: Data, now_ns: int) -> list[bytes]:
        """Hold the packet, and return the packets of its tree if the tree is full."""
        if not self._open:
            self._since_ns = now_ns
        self._open.append(packet)
        return self.close_group(now_ns) if len(self._open) == self._size else []

    def close_group(self, now_ns: int) -> list[bytes]:
        """Return the packets held so far, sealed as one tree."""
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
        """Return the packets of a tree whose first packet has waited for `hold_ns`."""
        due_ns = self.deadline_ns()
        return self.close_group(now_ns) if due_ns is not None and due_ns <= now_ns else []

    def deadline_ns(self) -> int | None:
        """Return the time at which the open tree is due, or None."""
        return self._since_ns + self._hold_ns if self._open else None


class TreeOpener(NeverWaits):
    """An opener that verifies each packet by its path to a signed root."""

    waiting = 0

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._roots: dict[bytes, None] = {}

    def open_packet(self, packet: Data, now_ns: int) -> list[Verdict]:
        """Return the verdict on the packet at once."""
        return [(packet, Fate.VERIFIED if self._is_authentic(packet) else Fate.FAILED)]

    def _is_authentic(self, packet: Data) -> bool:
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

"""The air as a shared half-duplex channel, from the kernel's queueing disciplines alone.

Every data frame of a cell, up or down, is sent through one queue that is served at the PHY's rate,
with the fixed cost of a frame (interframe spaces, mean backoff, preamble, acknowledgement) charged
as extra bytes. Management frames go by it.
"""

from __future__ import annotations

from mininet.node import Node

from topologies import model

# MAC header, LLC and checksum that the queue does not see but the air carries: 24 + 8 + 4 bytes,
# less the Ethernet header it does see.
_MAC_EXTRA_BYTES = 24 + 8 + 4 - 14


class Air:
    """One channel; access points attached to it share its airtime."""

    def __init__(self, medium: model.Medium, cipher_bytes: int) -> None:
        self.medium = medium
        # Ciphers work below the queue, which therefore does not see what they add to a frame.
        self.cipher_bytes = cipher_bytes

    @property
    def overhead_bytes(self) -> int:
        """What a frame costs besides its payload, in bytes at the PHY's rate."""
        fixed = self.medium.frame_overhead_us * 1e-6 * self.medium.rate_bps / 8
        return round(fixed) + _MAC_EXTRA_BYTES + self.cipher_bytes

    def attach(self, access_point: Node, interface: str, queue_bytes: int = 200_000) -> None:
        """Send everything that passes `interface`, both ways, through the channel's queue."""
        match = "protocol all u32 match u32 0 0 action mirred egress redirect dev air"
        said = access_point.cmd("; ".join([
            "ip link add air type ifb",
            "ip link set air up",
            f"tc qdisc add dev air root handle 1: stab overhead {self.overhead_bytes} "
            f"mtu 8192 tsize 1024 tbf rate {self.medium.rate_bps}bit burst 8kb "
            f"limit {queue_bytes}",
            f"tc qdisc add dev {interface} clsact",
            f"tc filter add dev {interface} ingress {match}",
            f"tc filter add dev {interface} egress {match}"])).strip()
        if said:
            raise RuntimeError(f"{access_point.name}: medium: {said}")

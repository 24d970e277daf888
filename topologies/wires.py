"""A wire's rate, delay and loss become queueing disciplines, the same at both of its ends."""

from __future__ import annotations

from topologies.model import Link

# Packets on their way are not in anybody's queue: none of them is lost for want of room.
_UNDER_WAY = 100_000


def commands(link: Link, port: str) -> list[str]:
    """What gives the interface at one end of a link the wire's behaviour; nothing for a plain one.

    First packets wait for their turn at the wire's rate, up to `queue_packets`; then each takes the
    delay, or is lost.
    """
    steps = []
    parent = "root"
    if link.rate_bps is not None:
        steps.append(f"tc qdisc add dev {port} root handle 1: netem limit {link.queue_packets} "
                     f"rate {round(link.rate_bps)}bit {link.overhead_bytes}")
        parent = "parent 1:1"
    if link.delay_ms or link.loss_percent:
        steps.append(f"tc qdisc add dev {port} {parent} netem limit {_UNDER_WAY} "
                     f"delay {link.delay_ms}ms loss {link.loss_percent}%")
    return steps

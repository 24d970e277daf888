"""Find the largest packet that passes a path whole, which may explain a stalled stream.

A bridge cannot fragment and reports no drops. So a node sends echo requests of several sizes that
no router may fragment. Standard library only: this runs inside the machine.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed

#: IPv4 and ICMP headers around an echo's payload (bytes).
_HEADER_BYTES = 28
#: Least MTU of any path (RFC 791), and the largest packet of a stream.
_LEAST_BYTES, _MOST_BYTES = 68, 1500
_ASKED_TIMES, _SPARE_S = 3, 5.0


def largest_packet(testbed: Testbed, node: str, address: str, within_s: float) -> int | None:
    """Return the size of the largest IPv4 packet that reaches an address and is answered.

    Three echo requests are sent per size, each with a time limit of `within_s`. The result is None
    if not even the smallest size is answered.
    """
    def passes(size_bytes: int) -> bool:
        wait_s = max(1, math.ceil(within_s))
        argv = ["ping", "-n", "-q", "-M", "do", "-c", str(_ASKED_TIMES), "-i", "0.2",
                "-W", str(wait_s), "-s", str(size_bytes - _HEADER_BYTES), address]
        return testbed.run_unchecked(node, argv, _ASKED_TIMES + wait_s + _SPARE_S).returncode == 0

    if not passes(_LEAST_BYTES):
        return None
    low, high = _LEAST_BYTES, _MOST_BYTES + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def describe_cause(largest_bytes: int | None, device_bytes: int, address: str) -> str:
    """Return why a stream stalls, or "" if the path takes what the device sends.

    Args:
        largest_bytes: Result of `largest_packet`.
        device_bytes: MTU of the outgoing device.
        address: The destination.
    """
    if largest_bytes is None:
        return f"no packet comes back from {address} any more"
    if largest_bytes >= device_bytes:
        return ""
    return (f"packets of up to {largest_bytes} bytes reach {address}, and longer ones, of up to "
            f"{device_bytes}, do not: a link on the path has a smaller MTU")

"""Give a queueing discipline a size table, which `tc` can only compute for ATM: by netlink.

A size table says what the scheduler takes a packet's length for.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from topologies import rtnetlink
from topologies.netlink import attribute

_TCA_STAB_BASE, _TCA_STAB_DATA = 1, 2
_LINKLAYER_ETHERNET = 1
_ENTRY_LIMIT = 0xFFFF


def set_size_table(pid: int, device: str, kind: str, handle: int, sizes: Sequence[int]) -> None:
    """Let a root qdisc take a packet of n bytes for one of `sizes[n]`.

    `sizes` must be as long as the longest packet; the kernel extrapolates beyond its end. `pid` is
    a process in the device's network namespace. Raises OSError.
    """
    with rtnetlink.route_socket(pid, device) as (channel, index):
        rtnetlink.ask(channel, message(index, kind, handle, sizes), f"size table of {device}")


def message(index: int, kind: str, handle: int, sizes: Sequence[int]) -> bytes:
    """The netlink request: change the size table of the root qdisc `handle` and nothing else."""
    shift = max(0, (max(sizes) // _ENTRY_LIMIT).bit_length())
    entries = [size >> shift for size in sizes]
    # cell_log, size_log, cell_align, overhead, linklayer, mpu, mtu, tsize
    base = struct.pack("=BBhiIIII", 0, shift, 0, 0, _LINKLAYER_ETHERNET, 0, 0, len(entries))
    table = (attribute(_TCA_STAB_BASE, base)
             + attribute(_TCA_STAB_DATA, struct.pack(f"={len(entries)}H", *entries)))
    return rtnetlink.qdisc_request(
        index, handle, attribute(rtnetlink.TCA_KIND, kind.encode() + b"\0")
        + attribute(rtnetlink.TCA_STAB, table))

"""Set the size table of a queueing discipline, which `tc` can compute only for ATM.

A size table maps a packet's length to the length that the scheduler uses.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from topologies import rtnetlink
from topologies.netlink import encode_attribute

_TCA_STAB_BASE, _TCA_STAB_DATA = 1, 2
_LINKLAYER_ETHERNET = 1
_ENTRY_LIMIT = 0xFFFF


def set_size_table(pid: int, device: str, kind: str, handle: int, sizes: Sequence[int]) -> None:
    """Set the size table of a root qdisc: a packet of n bytes counts as `sizes[n]`.

    Args:
        pid: A process in the device's network namespace.
        device: The device.
        kind: Kind of the qdisc.
        handle: The qdisc's handle.
        sizes: Sizes, up to the longest packet; the kernel extrapolates beyond the end.

    Raises:
        OSError: The kernel refuses.
    """
    with rtnetlink.route_socket(pid, device) as (channel, index):
        rtnetlink.send_request(channel, build_request(index, kind, handle, sizes),
                               f"size table of {device}")


def build_request(index: int, kind: str, handle: int, sizes: Sequence[int]) -> bytes:
    """Return the netlink request that changes only the size table of the root qdisc `handle`."""
    shift = max(0, (max(sizes) // _ENTRY_LIMIT).bit_length())
    entries = [size >> shift for size in sizes]
    # cell_log, size_log, cell_align, overhead, linklayer, mpu, mtu, tsize
    base = struct.pack("=BBhiIIII", 0, shift, 0, 0, _LINKLAYER_ETHERNET, 0, 0, len(entries))
    table = (encode_attribute(_TCA_STAB_BASE, base)
             + encode_attribute(_TCA_STAB_DATA, struct.pack(f"={len(entries)}H", *entries)))
    return rtnetlink.qdisc_request(
        index, handle, encode_attribute(rtnetlink.TCA_KIND, kind.encode() + b"\0")
        + encode_attribute(rtnetlink.TCA_STAB, table))

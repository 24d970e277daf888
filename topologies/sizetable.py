"""Give a queueing discipline a size table, which `tc` can only compute for ATM: by netlink.

A size table says what the scheduler takes a packet's length for. Layouts and numbers are from the
kernel's `rtnetlink.h` and `pkt_sched.h`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from topologies.namespaces import network_of

_RTM_NEWQDISC = 36
_NLM_F_REQUEST_ACK = 0x5
_NLMSG_ERROR = 2
_TC_H_ROOT = 0xFFFFFFFF
_TCA_KIND, _TCA_STAB = 1, 8
_TCA_STAB_BASE, _TCA_STAB_DATA = 1, 2
_LINKLAYER_ETHERNET = 1
_ENTRY_LIMIT = 0xFFFF


def set_size_table(pid: int, device: str, kind: str, handle: int, sizes: Sequence[int]) -> None:
    """Let a root qdisc take a packet of n bytes for one of `sizes[n]`.

    `sizes` must be as long as the longest packet; the kernel extrapolates beyond its end. `pid` is
    a process in the device's network namespace. Raises OSError.
    """
    with network_of(pid):
        index = socket.if_nametoindex(device)
        # A socket stays in the namespace that it was made in.
        channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    with channel:
        channel.send(message(index, kind, handle, sizes))
        answer = channel.recv(1 << 16)
    length, answer_type = struct.unpack_from("=IH", answer)
    error = struct.unpack_from("=i", answer, 16)[0] if length >= 20 else -1
    if answer_type != _NLMSG_ERROR or error:
        raise OSError(-error, f"size table of {device} refused")


def message(index: int, kind: str, handle: int, sizes: Sequence[int]) -> bytes:
    """The netlink request: change the size table of the root qdisc `handle` and nothing else."""
    shift = max(0, (max(sizes) // _ENTRY_LIMIT).bit_length())
    entries = [size >> shift for size in sizes]
    # cell_log, size_log, cell_align, overhead, linklayer, mpu, mtu, tsize
    base = struct.pack("=BBhiIIII", 0, shift, 0, 0, _LINKLAYER_ETHERNET, 0, 0, len(entries))
    table = (_attribute(_TCA_STAB_BASE, base)
             + _attribute(_TCA_STAB_DATA, struct.pack(f"={len(entries)}H", *entries)))
    body = (struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, _TC_H_ROOT, 0)
            + _attribute(_TCA_KIND, kind.encode() + b"\0") + _attribute(_TCA_STAB, table))
    return struct.pack("=IHHII", 16 + len(body), _RTM_NEWQDISC, _NLM_F_REQUEST_ACK, 1, 0) + body


def _attribute(number: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)

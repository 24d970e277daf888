"""Send queueing requests that `tc` does not support, in a node's network namespace.

Layouts and numbers are from the kernel's `rtnetlink.h` and `pkt_sched.h`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from topologies.namespaces import network_of

_RTM_NEWQDISC = 36
_NLM_F_REQUEST_ACK = 0x5
#: Additional flags to create a queueing discipline that does not exist yet.
NLM_F_CREATE_NEW = 0x600
_NLMSG_ERROR = 2
_TC_H_ROOT = 0xFFFFFFFF
TCA_KIND, TCA_OPTIONS, TCA_STAB = 1, 2, 8
NLA_F_NESTED = 0x8000


def qdisc_request(index: int, handle: int, attributes: bytes, flags: int = 0) -> bytes:
    """Return the request that creates or changes an interface's root queueing discipline."""
    body = struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, _TC_H_ROOT, 0) + attributes
    return struct.pack("=IHHII", 16 + len(body), _RTM_NEWQDISC, _NLM_F_REQUEST_ACK | flags, 1,
                       0) + body


@contextmanager
def route_socket(pid: int, device: str) -> Iterator[tuple[socket.socket, int]]:
    """Open a netlink socket in a process's network namespace. Yield it and a device's index."""
    with network_of(pid):
        index = socket.if_nametoindex(device)
        # A socket stays in the namespace in which it was opened.
        channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    with channel:
        yield channel, index


def send_request(channel: socket.socket, request: bytes, what: str) -> None:
    """Send a request to the kernel.

    Raises:
        OSError: The kernel refuses; the text names `what` was refused.
    """
    channel.send(request)
    answer = channel.recv(1 << 16)
    length, answer_type = struct.unpack_from("=IH", answer)
    error = struct.unpack_from("=i", answer, 16)[0] if length >= 20 else -1
    if answer_type != _NLMSG_ERROR or error:
        raise OSError(-error, f"{what} refused")

"""Read IPsec SAs from a node's kernel by netlink, as `ip xfrm state` does.

Starting `ip` takes 10 ms in a guest, several times per repetition. Structures and numbers:
linux/xfrm.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any

from topologies.namespaces import network_of
from topologies.netlink import DUMP, NetlinkSocket, parse_attributes

_NETLINK_XFRM = 6
_GET_SA = 18
#: Offsets in struct xfrm_usersa_info: addresses, protocol, counters, family and mode.
_SA_BYTES = 224
_DESTINATION, _PROTOCOL, _SOURCE, _CURRENT, _FAMILY = 56, 76, 80, 160, 212
_PROTOCOLS = {50: "esp", 51: "ah", 108: "comp"}
_MODES = ("transport", "tunnel", "ro", "in_trigger", "beet", "iptfs")
#: XFRMA_ALG_*, and the bytes before the key. The kernel reports an integrity algorithm twice; the
#: attribute with the truncated length comes first.
_ALGORITHMS = {"auth": ((20, 72), (1, 68)), "enc": ((2, 68),), "aead": ((18, 72),)}
_NAME_BYTES = 64


def read_states(pid: int) -> list[dict[str, Any]]:
    """Return the SAs in a process's network namespace.

    Returns:
        A dict for each SA: src, dst, proto, mode, enc, auth or aead, bytes, packets. `enc_bits` and
            so on are the key sizes.

    Raises:
        OSError: The query failed.
    """
    with network_of(pid):  # a socket stays in the namespace in which it was created
        netlink = NetlinkSocket(_NETLINK_XFRM)
    with netlink:
        return [parse_state(body) for body in netlink.send_request(_GET_SA, DUMP, b"")]


def parse_state(body: bytes) -> dict[str, Any]:
    """Parse an SA from the bytes after a message's header."""
    family, mode = struct.unpack_from("=HB", body, _FAMILY)
    size_bytes, packets = struct.unpack_from("=QQ", body, _CURRENT)
    address_bytes = 4 if family == socket.AF_INET else 16
    source, destination = (socket.inet_ntop(family, body[place:place + address_bytes])
                           for place in (_SOURCE, _DESTINATION))
    protocol = body[_PROTOCOL]
    return {"src": source, "dst": destination, "proto": _PROTOCOLS.get(protocol, str(protocol)),
            "mode": _MODES[mode] if mode < len(_MODES) else str(mode),
            **_parse_algorithms(parse_attributes(body[_SA_BYTES:])), "bytes": size_bytes,
            "packets": packets}


def _parse_algorithms(attributes_by_type: Mapping[int, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, forms in _ALGORITHMS.items():
        for number, _ in forms:
            if kind not in found and number in attributes_by_type:
                value = attributes_by_type[number]
                found[kind] = value[:_NAME_BYTES].partition(b"\0")[0].decode()
                (found[f"{kind}_bits"],) = struct.unpack_from("=I", value, _NAME_BYTES)
    return found

"""IPsec SAs are read from a node's kernel by netlink, as `ip -s xfrm state` shows them.

To start `ip` for each look takes 10 ms in a guest, several times a repetition. Structures and
numbers: linux/xfrm.h, linux/netlink.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from topologies.namespaces import network_of

_NETLINK_XFRM = 6
_HEAD = struct.Struct("=IHHII")
_GET_SA, _NEW_SA, _REQUEST_DUMP = 18, 16, 0x301
_ERROR, _DONE = 2, 3
_BYTES = 1 << 16
_ATTRIBUTE = struct.Struct("=HH")
#: Of struct xfrm_usersa_info: the addresses, the protocol, what went through, family and mode.
_SA_BYTES = 224
_DESTINATION, _PROTOCOL, _SOURCE, _CURRENT, _FAMILY = 56, 76, 80, 160, 212
_PROTOCOLS = {50: "esp", 51: "ah", 108: "comp"}
_MODES = ("transport", "tunnel", "ro", "in_trigger", "beet", "iptfs")
#: XFRMA_ALG_*, and how long what stands before a key is. A kernel tells of an integrity algorithm
#: twice; the one with its shortened length comes first.
_ALGORITHMS = {"auth": ((20, 72), (1, 68)), "enc": ((2, 68),), "aead": ((18, 72),)}
_NAME_BYTES = 64


def states(pid: int) -> list[dict[str, Any]]:
    """The SAs in a process' network: src, dst, proto, mode, enc, auth or aead, bytes, packets.

    `enc_bits` and so on are the sizes of the keys. Raises OSError.
    """
    with network_of(pid):  # a socket stays in the namespace that it was made in
        line = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_XFRM)
    with line:
        line.send(_HEAD.pack(_HEAD.size, _GET_SA, _REQUEST_DUMP, 1, 0))
        return [parse(body) for body in _bodies(line)]


def _bodies(line: socket.socket) -> Iterator[bytes]:
    while True:
        said, place = line.recv(_BYTES), 0
        while place < len(said):
            size, kind, _, _, _ = _HEAD.unpack_from(said, place)
            if kind == _DONE:
                return
            if kind == _ERROR:
                (number,) = struct.unpack_from("=i", said, place + _HEAD.size)
                raise OSError(-number, os.strerror(-number))
            if kind == _NEW_SA:
                yield said[place + _HEAD.size:place + size]
            place += size + -size % 4


def parse(body: bytes) -> dict[str, Any]:
    """One SA, from what is behind a message's header."""
    family, mode = struct.unpack_from("=HB", body, _FAMILY)
    size_bytes, packets = struct.unpack_from("=QQ", body, _CURRENT)
    address_bytes = 4 if family == socket.AF_INET else 16
    source, destination = (socket.inet_ntop(family, body[place:place + address_bytes])
                           for place in (_SOURCE, _DESTINATION))
    protocol = body[_PROTOCOL]
    return {"src": source, "dst": destination, "proto": _PROTOCOLS.get(protocol, str(protocol)),
            "mode": _MODES[mode] if mode < len(_MODES) else str(mode),
            **_algorithms(_attributes(body)), "bytes": size_bytes, "packets": packets}


def _algorithms(attributes: Mapping[int, bytes]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, forms in _ALGORITHMS.items():
        for number, _ in forms:
            if kind not in found and number in attributes:
                value = attributes[number]
                found[kind] = value[:_NAME_BYTES].partition(b"\0")[0].decode()
                (found[f"{kind}_bits"],) = struct.unpack_from("=I", value, _NAME_BYTES)
    return found


def _attributes(body: bytes) -> dict[int, bytes]:
    attributes, place = {}, _SA_BYTES
    while place < len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, place)
        attributes[kind] = body[place + _ATTRIBUTE.size:place + size]
        place += size + -size % 4
    return attributes

"""SAs by netlink, as Linux lays them out; that `ip` says the same, test_by_netlink shows."""

from __future__ import annotations

import socket
import struct

from measure.agent import kernel_state


def algorithm(number: int, name: str, bits: int, *more: int) -> bytes:
    """An attribute as struct xfrm_algo, xfrm_algo_auth or xfrm_algo_aead, with a key of zeros."""
    value = struct.pack(f"=64s{1 + len(more)}I", name.encode(), bits, *more) + bytes(bits // 8)
    return struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)


def association(source: str, destination: str, mode: int, counts: tuple[int, int],
                *attributes: bytes, family: int = socket.AF_INET) -> bytes:
    """struct xfrm_usersa_info with attributes; limits are other numbers than counts."""
    addresses = [socket.inet_pton(family, text) for text in (destination, source)]
    head = struct.pack("=56s16sIB3x16s", b"\xaa" * 56, addresses[0], 1, socket.IPPROTO_ESP,
                       addresses[1])
    rest = struct.pack("=8Q4Q3I2IHBBB7x", *[77] * 8, *counts, 5, 6, *[7] * 3, 8, 9, family, mode,
                       32, 0)
    assert len(head + rest) == 224
    return head + rest + b"".join(attributes)


def test_an_association_with_two_algorithms() -> None:
    """The kernel tells of an integrity algorithm twice, the first time as it is for ESP alone."""
    body = association("10.1.0.12", "10.1.0.1", 1, (215921, 186),
                       algorithm(1, "hmac(sha1)", 160), algorithm(20, "hmac(sha1)", 160, 96),
                       algorithm(2, "cbc(des3_ede)", 192))
    assert kernel_state.parse_xfrm_state(body) == {
        "src": "10.1.0.12", "dst": "10.1.0.1", "proto": "esp", "mode": "tunnel",
        "auth": "hmac(sha1)", "auth_bits": 160, "enc": "cbc(des3_ede)", "enc_bits": 192,
        "bytes": 215921, "packets": 186}


def test_a_combined_mode_algorithm_is_neither() -> None:
    """Its key is counted with what goes before each nonce, as `ip` shows it."""
    body = association("fd00::2", "fd00::1", 0, (84, 1),
                       algorithm(18, "rfc4106(gcm(aes))", 160, 128), family=socket.AF_INET6)
    assert kernel_state.parse_xfrm_state(body) == {
        "src": "fd00::2", "dst": "fd00::1", "proto": "esp", "mode": "transport",
        "aead": "rfc4106(gcm(aes))", "aead_bits": 160, "bytes": 84, "packets": 1}


def test_one_that_is_being_negotiated_has_no_algorithm() -> None:
    """So it cannot pass for a good one."""
    assert kernel_state.parse_xfrm_state(association("10.0.0.1", "10.0.0.2", 1, (0, 0))) == {
        "src": "10.0.0.1", "dst": "10.0.0.2", "proto": "esp", "mode": "tunnel", "bytes": 0,
        "packets": 0}

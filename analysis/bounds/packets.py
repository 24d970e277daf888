"""Lengths of packets: what ESP and IP-in-IP put around an IP packet, and where it is split."""

from __future__ import annotations

from dataclasses import dataclass

from policies import Policy

IPV4_BYTES = 20
UDP_BYTES = 8
#: IPv4 and TCP with timestamps, as Linux sends them.
TCP_IP_BYTES = 52
#: An IPv4 header around an IPv4 packet (RFC 2003, 3.1).
IP_IN_IP_BYTES = IPV4_BYTES
# Security parameters index and sequence number; pad length and next header (RFC 4303, 2).
_ESP_HEADER_BYTES = 8
_ESP_TRAILER_BYTES = 2
# Fragments but the last one carry multiples of this (RFC 791, 3.2).
_FRAGMENT_BYTES = 8

#: Block length to pad to, and initialisation vector, by cipher: RFC 2451 (3DES), 3602 (AES-CBC),
#: 4106 (AES-GCM), 7634 (ChaCha20-Poly1305). ESP asks for multiples of 4 in any case.
_CIPHERS = {"3des": (8, 8), "aes128": (16, 16), "aes192": (16, 16), "aes256": (16, 16),
            "aes128gcm16": (4, 8), "aes256gcm16": (4, 8), "chacha20poly1305": (4, 8)}
#: Bytes of the integrity check value: RFC 2403 (MD5), 2404 (SHA-1), 4868 (SHA-2).
_CHECKS = {"md5": 12, "sha1": 12, "sha256": 16, "sha384": 24, "sha512": 32}
_AEAD_CHECK_BYTES = 16


@dataclass(frozen=True)
class Esp:
    """How a security association lengthens an IP packet; `tunnel` puts a new IP header around it.

    `block_bytes` is what the encrypted part is padded to.
    """

    block_bytes: int
    vector_bytes: int
    check_bytes: int
    tunnel: bool = True

    @property
    def _outside_bytes(self) -> int:
        """What is not encrypted: IP header, ESP header, initialisation vector, check value."""
        return IPV4_BYTES + _ESP_HEADER_BYTES + self.vector_bytes + self.check_bytes

    @property
    def _kept_bytes(self) -> int:
        """What transport mode leaves in front of ESP: the packet's own IP header."""
        return 0 if self.tunnel else IPV4_BYTES

    def packet_bytes(self, inner_bytes: int) -> int:
        """Length of the IP packet that carries an IP packet of `inner_bytes`."""
        secret = inner_bytes - self._kept_bytes + _ESP_TRAILER_BYTES
        return self._outside_bytes + _up(secret, self.block_bytes)

    def largest_inner_bytes(self, mtu_bytes: int) -> int:
        """The longest IP packet whose protected form is no longer than `mtu_bytes`."""
        room = mtu_bytes - self._outside_bytes
        secret = room - room % self.block_bytes
        return secret - _ESP_TRAILER_BYTES + self._kept_bytes


def esp_of(policy: Policy) -> Esp | None:
    """The policy's ESP between mobile node and home agent, or None without IPsec."""
    layer = policy.layers.ipsec
    if layer is None:
        return None
    cipher, *others = layer.esp_proposal.split("-")
    block, vector = _CIPHERS[cipher]
    check = next((_CHECKS[name] for name in others if name in _CHECKS), _AEAD_CHECK_BYTES)
    return Esp(block, vector, check, tunnel=layer.mode == "tunnel")


def fragments(packet_bytes: int, limit_bytes: int) -> tuple[int, ...]:
    """Lengths of the IP packets that a packet is split into so that none exceeds the limit.

    Linux splits before it encrypts where it knows the tunnel's limit (RFC 4301, 8.1 and 8.2).
    """
    if packet_bytes <= limit_bytes:
        return (packet_bytes,)
    room = (limit_bytes - IPV4_BYTES) // _FRAGMENT_BYTES * _FRAGMENT_BYTES
    whole, rest = divmod(packet_bytes - IPV4_BYTES, room)
    return (room + IPV4_BYTES,) * whole + ((rest + IPV4_BYTES,) if rest else ())


def _up(count: int, step: int) -> int:
    return -(-count // step) * step

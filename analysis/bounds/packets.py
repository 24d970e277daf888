"""Lengths of packets with ESP and IP-in-IP headers, and their fragmentation."""

from __future__ import annotations

from dataclasses import dataclass

from policies import Policy

IPV4_BYTES = 20
UDP_BYTES = 8
#: Headers of IPv4 and of TCP with timestamps, as Linux sends them.
TCP_IP_BYTES = 52
#: Outer IPv4 header of an IP-in-IP packet (RFC 2003, 3.1).
IP_IN_IP_BYTES = IPV4_BYTES
# Header: SPI and sequence number. Trailer: pad length and next header (RFC 4303, 2).
_ESP_HEADER_BYTES = 8
_ESP_TRAILER_BYTES = 2
# All fragments but the last one carry a multiple of this length (RFC 791, 3.2).
_FRAGMENT_BYTES = 8

#: Bytes of the padding block and of the initialisation vector by cipher: RFC 2451 (3DES), 3602
#: (AES-CBC), 4106 (AES-GCM), 7634 (ChaCha20-Poly1305). ESP requires a multiple of 4 in any case.
_CIPHERS = {"3des": (8, 8), "aes128": (16, 16), "aes192": (16, 16), "aes256": (16, 16),
            "aes128gcm16": (4, 8), "aes256gcm16": (4, 8), "chacha20poly1305": (4, 8)}
#: Bytes of the integrity check value: RFC 2403 (MD5), 2404 (SHA-1), 4868 (SHA-2).
_CHECKS = {"md5": 12, "sha1": 12, "sha256": 16, "sha384": 24, "sha512": 32}
_AEAD_CHECK_BYTES = 16


@dataclass(frozen=True)
class Esp:
    """The lengths that ESP of a security association adds to an IP packet.

    `tunnel` means tunnel mode, which adds a new IP header. The encrypted part is padded to a
    multiple of `block_bytes`.
    """

    block_bytes: int
    vector_bytes: int
    check_bytes: int
    tunnel: bool = True

    @property
    def _outside_bytes(self) -> int:
        """Return the length of the parts that are not encrypted.

        These are the IP header, the ESP header, the initialisation vector and the check value.
        """
        return IPV4_BYTES + _ESP_HEADER_BYTES + self.vector_bytes + self.check_bytes

    @property
    def _kept_bytes(self) -> int:
        """Return the length of the original IP header before ESP in transport mode.

        It is 0 in tunnel mode.
        """
        return 0 if self.tunnel else IPV4_BYTES

    def packet_bytes(self, inner_bytes: int) -> int:
        """Return the length of the IP packet that carries an IP packet of `inner_bytes`."""
        secret = inner_bytes - self._kept_bytes + _ESP_TRAILER_BYTES
        return self._outside_bytes + _round_up(secret, self.block_bytes)

    def largest_inner_bytes(self, mtu_bytes: int) -> int:
        """Return the length of the longest IP packet whose ESP packet fits into `mtu_bytes`."""
        room = mtu_bytes - self._outside_bytes
        secret = room - room % self.block_bytes
        return secret - _ESP_TRAILER_BYTES + self._kept_bytes


def esp_of(policy: Policy) -> Esp | None:
    """Return the policy's ESP between mobile node and home agent, or None without IPsec."""
    layer = policy.layers.ipsec
    if layer is None:
        return None
    cipher, *others = layer.esp_proposal.split("-")
    block, vector = _CIPHERS[cipher]
    check = next((_CHECKS[name] for name in others if name in _CHECKS), _AEAD_CHECK_BYTES)
    return Esp(block, vector, check, tunnel=layer.mode == "tunnel")


def fragment_lengths(packet_bytes: int, limit_bytes: int) -> tuple[int, ...]:
    """Return the lengths of the IP packets into which a packet is fragmented.

    No fragment exceeds `limit_bytes`. Linux fragments before encryption where it knows the tunnel's
    MTU (RFC 4301, 8.1 and 8.2).
    """
    if packet_bytes <= limit_bytes:
        return (packet_bytes,)
    room = (limit_bytes - IPV4_BYTES) // _FRAGMENT_BYTES * _FRAGMENT_BYTES
    whole, rest = divmod(packet_bytes - IPV4_BYTES, room)
    return (room + IPV4_BYTES,) * whole + ((rest + IPV4_BYTES,) if rest else ())


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step

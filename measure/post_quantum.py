"""Check ML-KEM in IKEv2 by its message lengths: no other message is as long."""

from __future__ import annotations

from collections.abc import Sequence

from measure.dissect import Packet
from measure.observed import Check
from policies import IpsecLayer

#: Exchange type and name, with ML-KEM as first and as additional key exchange (RFC 9370).
_FIRST, _LATER = (34, "IKE_SA_INIT"), (43, "IKE_INTERMEDIATE")
#: Encapsulation key and ciphertext of ML-KEM-768 (FIPS 203, table 3), in bytes.
_KEY_BYTES, _CIPHERTEXT_BYTES = 1184, 1088
_IP_UDP_BYTES = 28


def verify(layer: IpsecLayer, stays: Sequence[Sequence[Packet]], mac: str) -> Check:
    """Check that key and ciphertext passed in each attachment's IKE packets.

    Another check states that ML-KEM-768 was chosen; IKE_INTERMEDIATE is encrypted.
    """
    kind, name = _LATER if layer.is_hybrid else _FIRST
    sizes = [[_message_bytes([p for p in packets if p.isakmp_exchange == kind
                              and (p.ethernet_src == mac) == is_sent]) for is_sent in (True, False)]
             for packets in stays]
    said = "; ".join(f"{sent or 'no'} bytes sent, {back or 'none'} back" for sent, back in sizes)
    return Check("ML-KEM-768 is exchanged", bool(stays) and all(
        sent > _KEY_BYTES and back > _CIPHERTEXT_BYTES for sent, back in sizes),
        f"{name}: {said}, more than {_KEY_BYTES} and {_CIPHERTEXT_BYTES} expected")


def _message_bytes(packets: Sequence[Packet]) -> int:
    """Return the bytes of a message over all its fragments.

    Retransmissions are not counted. IKE_SA_INIT has no fragments (RFC 7383, 2.5). Of its messages,
    one of which may have a cookie in addition, the largest counts.
    """
    sizes = {p.ip_bytes - _IP_UDP_BYTES for p in packets}
    return max(sizes, default=0) if packets and packets[0].isakmp_exchange == _FIRST[0] \
        else sum(sizes)

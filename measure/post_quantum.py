"""ML-KEM in IKEv2 is proven by what its exchange carries: nothing else there is as long."""

from __future__ import annotations

from collections.abc import Sequence

from measure.dissect import Packet
from measure.observed import Check
from policies import IpsecLayer

#: Where it is the first exchange, and where it comes after one (RFC 9370): number and name.
_FIRST, _LATER = (34, "IKE_SA_INIT"), (43, "IKE_INTERMEDIATE")
#: The initiator's key, and what the other end answers (ML-KEM-768: FIPS 203, table 3).
_KEY_BYTES, _CIPHERTEXT_BYTES = 1184, 1088
_IP_UDP_BYTES = 28


def verify(layer: IpsecLayer, stays: Sequence[Sequence[Packet]], mac: str) -> Check:
    """Both passed, in each stay's packets of IKE.

    That ML-KEM-768 was chosen, the check of the proposal says; IKE_INTERMEDIATE is encrypted.
    """
    kind, name = _LATER if layer.is_hybrid else _FIRST
    sizes = [[_carried([p for p in packets if p.isakmp_exchange == kind
                        and (p.ethernet_src == mac) == is_sent]) for is_sent in (True, False)]
             for packets in stays]
    said = "; ".join(f"{sent or 'no'} bytes sent, {back or 'none'} back" for sent, back in sizes)
    return Check("ML-KEM-768 is exchanged", bool(stays) and all(
        sent > _KEY_BYTES and back > _CIPHERTEXT_BYTES for sent, back in sizes),
        f"{name}: {said}, more than {_KEY_BYTES} and {_CIPHERTEXT_BYTES} expected")


def _carried(packets: Sequence[Packet]) -> int:
    """Return the bytes of a message, which may be in fragments; sent again, it is no larger.

    The first exchange of all has no fragments (RFC 7383, 2.5): of its messages, one more of which
    has a cookie, the largest counts.
    """
    sizes = {p.ip_bytes - _IP_UDP_BYTES for p in packets}
    return max(sizes, default=0) if packets and packets[0].isakmp_exchange == _FIRST[0] \
        else sum(sizes)

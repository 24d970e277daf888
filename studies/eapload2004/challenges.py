"""Recompute every step of captured EAP-AKA authentications.

Response, keys and MACs are computed from the subscriber's key and the challenge, and compared with
the capture. No output of daemons or programs is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from measure import eap_keys, pcap
from protocols.aka import packets
from protocols.aka.milenage import MilenageKey
from protocols.aka.program import PORT
from protocols.aka.recomputed import recompute_challenge
from studies.eapload2004.exchanges import Exchange

_ANSWER = b"AKA-RESP-AUTH "


def read_vectors(file: Path) -> list[tuple[bytes, bytes]]:
    """Return RAND and AUTN of each vector that the subscriber server sent."""
    words = [datagram.payload.split() for datagram in pcap.udp_datagrams(file)
             if datagram.source_port == PORT and datagram.payload.startswith(_ANSWER)]
    return [(bytes.fromhex(said[2].decode()), bytes.fromhex(said[3].decode()))
            for said in words if len(said) == 7]


def find_faults(exchanges: Sequence[Exchange], vectors: Sequence[tuple[bytes, bytes]],
                secrets: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return differences to the values that the subscriber's key gives.

    Args:
        exchanges: Captured authentications.
        vectors: RAND and AUTN of the subscriber server's vectors.
        secrets: Secrets of the run.

    Returns:
        Up to three reasons, none if all values agree.
    """
    shared = MilenageKey.from_secrets(secrets["subscriber"])
    return [reason for exchange in exchanges for reason in _find_exchange_faults(
        exchange, vectors, shared, secrets["network"]["radius_secret"].encode())][:3]


def _find_exchange_faults(exchange: Exchange, vectors: Sequence[tuple[bytes, bytes]],
                          shared: MilenageKey,
                          secret: bytes) -> Iterator[str]:
    said = [packet for eap in exchange.aka if (packet := packets.parse_packet(eap))]
    made = recompute_challenge(said, exchange.user, shared)
    if made.request is None:
        yield from made.faults
        return
    if (made.request.rand, made.request.autn) not in vectors:
        yield "a challenge that the subscriber server gave nobody"
    yield from made.faults
    handed = eap_keys.session_keys(exchange.last, secret)
    if [(key.receive, key.send) for key in handed] != [(made.msk[:32], made.msk[32:])]:
        yield "the access point was given other keys than the challenge makes"

"""Every step of an EAP-AKA authentication is worked out again of what was captured.

Of the daemons and programs nothing is believed: response, keys and MACs come of the subscriber's
key and the challenge, and have to be what passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from measure import eap_keys, pcap
from protocols.aka import packets
from protocols.aka.milenage import MilenageKey
from protocols.aka.program import PORT
from protocols.aka.recomputed import recompute
from studies.eapload2004.exchanges import Exchange

_ANSWER = b"AKA-RESP-AUTH "


def vectors(file: Path) -> list[tuple[bytes, bytes]]:
    """RAND and AUTN of each vector that the subscriber server gave out."""
    words = [datagram.payload.split() for datagram in pcap.datagrams(file)
             if datagram.source_port == PORT and datagram.payload.startswith(_ANSWER)]
    return [(bytes.fromhex(said[2].decode()), bytes.fromhex(said[3].decode()))
            for said in words if len(said) == 7]


def faults(exchanges: Sequence[Exchange], given: Sequence[tuple[bytes, bytes]],
           secrets: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is not as the subscriber's key has it, a reason each; none if all is."""
    shared = MilenageKey.of(secrets["subscriber"])
    return [reason for exchange in exchanges for reason in _faults(
        exchange, given, shared, secrets["network"]["radius_secret"].encode())][:3]


def _faults(exchange: Exchange, given: Sequence[tuple[bytes, bytes]], shared: MilenageKey,
            secret: bytes) -> Iterator[str]:
    said = [packet for eap in exchange.aka if (packet := packets.parse(eap))]
    made = recompute(said, exchange.user, shared)
    if made.request is None:
        yield from made.faults
        return
    if (made.request.rand, made.request.autn) not in given:
        yield "a challenge that the subscriber server gave nobody"
    yield from made.faults
    handed = eap_keys.sessions(exchange.last, secret)
    if [(key.receive, key.send) for key in handed] != [(made.msk[:32], made.msk[32:])]:
        yield "the access point was given other keys than the challenge makes"

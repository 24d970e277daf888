"""Every step of an EAP-AKA authentication is worked out again of what was captured.

Of the daemons and programs nothing is believed: response, keys and MACs come of the subscriber's
key and the challenge, and have to be what passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from measure import eap_keys, pcap
from protocols.aka import keys, packets
from protocols.aka.milenage import SQN_BYTES, MilenageKey, answers, hidden, macs
from protocols.aka.program import PORT
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
    if any(packet.subtype == packets.SYNCHRONIZATION_FAILURE for packet in said):
        yield "the card had seen a later sequence number, and had the server resynchronised"
        return
    challenges = [packet for packet in said if packet.subtype == packets.CHALLENGE]
    if len(challenges) != 2:
        yield f"{len(challenges)} packets of a challenge, which are a request and its answer"
        return
    request, answer = challenges
    if (request.rand, request.autn) not in given:
        yield "a challenge that the subscriber server gave nobody"
    identity = next((packet.identity for packet in said if packet.identity), exchange.user)
    made = answers(shared, request.rand)
    derived = keys.derive(identity, made.ik, made.ck)
    sqn, rest = hidden(request.autn[:SQN_BYTES], made.ak), request.autn[SQN_BYTES:]
    if macs(shared, request.rand, sqn, rest[:2])[0] != rest[2:]:
        yield "a challenge that is not of the subscriber's key"
    if answer.res != made.res:
        yield "a response that is not of the subscriber's key"
    if any(derived.mac(packet.unsigned) != packet.mac for packet in challenges):
        yield "a packet whose MAC is not of the keys that the challenge makes"
    handed = eap_keys.sessions(exchange.last, secret)
    if [(key.receive, key.send) for key in handed] != [(derived.msk[:32], derived.msk[32:])]:
        yield "the access point was given other keys than the challenge makes"

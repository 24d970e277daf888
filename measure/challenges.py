"""Recompute EAP-AKA authentications from captures with the subscriber's key.

No daemon's statement is used. Response, keys and MACs are computed from the subscriber's key and
the challenge, and must equal those in the capture. The keys must equal those that the access point
received.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import eap_keys, pcap

_EAP_PACKET, _EAPOL_BYTES = 0, 4
_RESPONSE, _SUCCESS, _FAILURE, _IDENTITY = 2, 3, 4, 1


@dataclass(frozen=True)
class Challenged:
    """An EAP-AKA authentication: its end time, and differences from the subscriber's key."""

    ended_s: float
    faults: Sequence[str]


def recompute_all(stations: Iterable[Path], wires: Iterable[Path],
                  secrets: Mapping[str, Mapping[str, str]],
                  ) -> list[Challenged]:
    """Recompute every completed authentication.

    Args:
        stations: Captures at the stations.
        wires: Captures behind access points.
        secrets: The run's secrets.

    Raises:
        MeasureError: A capture cannot be read.
    """
    # Imported here: the container image lacks the AES library, and judges all other policies.
    from protocols.aka import packets
    from protocols.aka.milenage import MilenageKey
    from protocols.aka.recomputed import recompute_challenge

    shared = MilenageKey.from_secrets(secrets["subscriber"])
    secret = secrets["network"]["radius_secret"].encode()
    handed = [session.receive + session.send for file in wires for session in eap_keys.session_keys(
        (message for _, message in pcap.udp_payloads(file, eap_keys.PORT)), secret)]
    made = []
    for file in stations:
        for ended_s, exchange in _split_authentications(pcap.eapol_frames(file)):
            said = [packet for eap in exchange if (packet := packets.parse_packet(eap)) is not None]
            worked_out = recompute_challenge(said, _first_identity(exchange), shared)
            faults = worked_out.faults
            if worked_out.msk not in handed:
                faults = (*faults, "the access point was not given the keys of the challenge")
            made.append(Challenged(ended_s, faults))
    return made


def _split_authentications(frames: Iterable[tuple[float,
                                                  bytes]]) -> Iterator[tuple[float, list[bytes]]]:
    """Yield the EAP packets of each completed authentication, with its end time.

    A retransmitted packet is equal in every byte (RFC 3748, 4.1), and counts once.
    """
    so_far: list[bytes] = []
    for at_s, frame in frames:
        if len(frame) < _EAPOL_BYTES + 4 or frame[1] != _EAP_PACKET:
            continue
        eap = frame[_EAPOL_BYTES:]
        eap = eap[:int.from_bytes(eap[2:4], "big")]
        if eap not in so_far:
            so_far.append(eap)
        if eap[0] in (_SUCCESS, _FAILURE):
            if len(so_far) > 1:
                yield at_s, so_far
            so_far = []


def _first_identity(exchange: Sequence[bytes]) -> str:
    """Return the station's first identity."""
    return next((eap[5:].decode("utf-8", "replace") for eap in exchange
                 if eap[0] == _RESPONSE and len(eap) > 5 and eap[4] == _IDENTITY), "")

"""What must hold of a real-time repetition: that its protocol, and nothing beside it, was there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import pcap, wireguard
from measure.observed import Check
from studies.adp1987.evidence import OWNER, shows
from studies.adp1987.payload import PIECE_BYTES, Payload
from studies.adp1987.realtime import packets

_AEAD = "rfc7539esp(chacha20,poly1305)"
_IKE_PACKETS = 4


@dataclass(frozen=True)
class RealEvidence:
    """The captures' packets by what they are, and what kernels and programs said at the end.

    `showing` of the `frames` captured whole have a piece of a payload in them.
    """

    traffic: packets.HostTraffic | wireguard.WireGuardTraffic
    showing: int
    frames: int
    raw: Mapping[str, Any]
    notes: Sequence[Any]


def gather(out: Path, protocol: str, raw: Mapping[str, Any], payload: Payload,
           notes: Sequence[Any]) -> RealEvidence:
    """Read the captures. Raises MeasureError."""
    proof = list(pcap.frames(out / "proof-alpha.pcap"))
    later = [frame for part in ("latency", "throughput")
             for frame in pcap.frames(out / f"{part}-alpha.pcap")]
    pieces = payload.pieces()
    seen = (wireguard.traffic([*proof, *later], {wireguard.PORT}) if protocol == "wireguard" else
            packets.traffic([*proof, *later], protocol))
    return RealEvidence(seen, sum(shows(frame.payload, pieces) for frame in proof), len(proof),
                        raw, notes)


def checks(proof: RealEvidence, carried_bytes: int) -> Iterator[Check]:
    """All that must hold; so many bytes of user data were captured on their way."""
    seen = proof.traffic
    if isinstance(seen, wireguard.WireGuardTraffic):
        yield from wireguard.checks(seen, carried_bytes)
        yield _kernels_handshake(proof.raw["wireguard"], carried_bytes)
    else:
        shown = ", ".join(f"{count} {name}" for name, count in seen.strangers.most_common(3))
        yield Check("nothing-else", seen.packets > 0 and not seen.strangers, (
            f"{seen.packets} packets of its own captured, {seen.strangers.total()} others"
            + (f" ({shown})" if shown else "")))
        if seen.protocol == "esp":
            yield from _esp(seen, proof.raw["esp"], carried_bytes)
        elif seen.protocol == "adp":
            yield from _adp(seen, proof.notes)
    is_open = isinstance(seen, packets.HostTraffic) and seen.protocol == "none"
    yield private(proof.showing, proof.frames, is_open=is_open)


def private(showing: int, frames: int, *, is_open: bool) -> Check:
    """So many of the frames captured whole show a piece of a payload: some where it is open."""
    return Check("private", (showing > 0) is is_open, (
        f"{showing} of {frames} packets captured whole show {PIECE_BYTES} bytes of a payload"))


def owner(notes: Sequence[Any]) -> Check:
    """The receiving program of a channel has authenticated its owner, once."""
    known = [note for note in notes if note[0] == "authenticated" and note[1]["owner"] == OWNER]
    return Check("owner", len(known) == 1, f"{OWNER} was authenticated {len(known)} times")


def _kernels_handshake(states: Mapping[str, Any], carried_bytes: int) -> Check:
    ends = [state for node in states.values() for state in node]
    shaken = sum(state["handshake_s"] is not None for state in ends)
    received = max((state["received_bytes"] for state in states["beta"]), default=0)
    return Check("kernel", shaken == len(ends) == len(states) and received >= carried_bytes, (
        f"{shaken} of {len(states)} kernels have a handshake, beta's has received {received} bytes"
    ))


def _esp(seen: packets.HostTraffic, states: Mapping[str, Any],
         carried_bytes: int) -> Iterator[Check]:
    yield Check("handshake", seen.shaking >= _IKE_PACKETS, f"{seen.shaking} IKE packets captured")
    ends = [state for node in states.values() for state in node]
    others = sorted({str(state.get("aead")) for state in ends} - {_AEAD})
    yield Check("sessions", len(seen.sessions) in (1, 2) and not seen.repeated and bool(ends)
                and not others, (
        f"{len(seen.sessions)} SPIs captured, {seen.repeated} sequence numbers that did not rise, "
        f"{len(ends)} SAs in the kernels, {', '.join(others) or 'all'} of {_AEAD}"))
    carried = max((state.get("bytes", 0) for state in states["beta"]), default=0)
    yield Check("carried", carried >= carried_bytes > 0, (
        f"{carried} bytes through one of beta's SAs, {carried_bytes} of the stream"))


def _adp(seen: packets.HostTraffic, notes: Sequence[Any]) -> Iterator[Check]:
    yield Check("handshake", seen.shaking > 1, (
        f"{seen.shaking} packets with a request or an acknowledgement captured"))
    yield Check("sessions", len(seen.sessions) == 1 and not seen.repeated, (
        f"{len(seen.sessions)} channel captured, {seen.repeated} sequence numbers that did not "
        "rise"))
    yield owner(notes)

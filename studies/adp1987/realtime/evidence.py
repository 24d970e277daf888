"""Evidence of a real-time repetition: only its protocol carried the messages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import pcap, wireguard
from measure.observed import Check
from studies.adp1987 import authenticated, sniffed
from studies.adp1987.dispatched import Arrival
from studies.adp1987.evidence import ALPHA
from studies.adp1987.opened import OpenedCapture
from studies.adp1987.payload import PIECE_BYTES, Payload
from studies.adp1987.pieces import PieceSearch, ShownPieces
from studies.adp1987.realtime import packets, waits
from studies.adp1987.realtime.waits import RealWaits

_AEAD = "rfc7539esp(chacha20,poly1305)"
_IKE_PACKETS = 4


@dataclass(frozen=True)
class RealEvidence:
    """The captured packets by kind, and the state of kernels and programs at the end.

    `shown` holds, by phase, how many captured frames show payload bytes. Frames of the first phase
    are whole, those of later phases are heads. `channel` is the decrypted first phase. `late` holds
    the waits of modern ADP's messages in the trace's own time.
    """

    traffic: packets.HostTraffic | wireguard.WireGuardTraffic
    shown: Mapping[str, ShownPieces]
    raw: Mapping[str, Any]
    channel: OpenedCapture
    keys: Path
    late: RealWaits | None = None


def gather_evidence(out: Path, task: Mapping[str, Any], raw: Mapping[str, Any], payload: Payload,
                    secrets: Mapping[bytes, bytes], paced: Sequence[Arrival]) -> RealEvidence:
    """Read and decrypt the captures of a repetition.

    Args:
        out: Folder of the repetition.
        task: The workload's task.
        raw: Raw values of the repetition, with the kernels' states.
        payload: Payloads of the messages.
        secrets: Ephemeral private keys by their public keys.
        paced: The trace that was replayed in its own time.

    Raises:
        MeasureError: A capture cannot be read.
    """
    protocol = task["protocol"]
    parts = {part: list(pcap.read_frames(out / f"{part}-alpha.pcap"))
             for part in ("proof", "latency", "throughput")}
    every = list(itertools.chain(*parts.values()))
    seen = (wireguard.classify_traffic(every, {wireguard.PORT}) if protocol == "wireguard" else
            packets.count_traffic(every, protocol))
    search = PieceSearch(payload)
    channel = (authenticated.open_frames(parts["proof"], ALPHA, out, secrets)
               if protocol == "adp" else OpenedCapture())
    late = waits.measure_waits(parts["latency"], ALPHA, paced, task) if protocol == "adp" else None
    return RealEvidence(seen,
                        {part: search.search_frames(frames) for part, frames in parts.items()}, raw,
                        channel, out, late)


def run_checks(proof: RealEvidence, carried_bytes: int) -> Iterator[Check]:
    """Yield all checks of a real-time repetition.

    `carried_bytes` is the user data in the captured phases.
    """
    seen = proof.traffic
    if isinstance(seen, wireguard.WireGuardTraffic):
        yield from wireguard.verify_traffic(seen, carried_bytes)
        yield _check_kernel_handshake(proof.raw["wireguard"], carried_bytes)
    else:
        shown = ", ".join(f"{count} {name}" for name, count in seen.strangers.most_common(3))
        yield Check("nothing-else", seen.packets > 0 and not seen.strangers, (
            f"{seen.packets} packets of its own captured, {seen.strangers.total()} others"
            + (f" ({shown})" if shown else "")))
        if seen.protocol == "esp":
            yield from _check_esp(seen, proof.raw["esp"], carried_bytes)
        elif seen.protocol == "adp":
            yield from _check_adp(seen, proof)
    is_open = isinstance(seen, packets.HostTraffic) and seen.protocol == "none"
    yield check_privacy(proof.shown, is_open=is_open)


def check_privacy(captures: Mapping[str, ShownPieces], *, is_open: bool) -> Check:
    """Check that no frame shows a piece of a payload.

    Where nothing is encrypted (`is_open`), frames of every capture must show some, which proves the
    search.
    """
    used = {name: shown for name, shown in captures.items() if shown.frames}
    ok = all(bool(shown.showing) is is_open for shown in used.values())
    return Check("private", ok and bool(used), (
        f"{PIECE_BYTES} bytes of a payload in " + ", ".join(
            f"{shown.showing} of {shown.frames} frames of {name}"
            + (f" ({shown.bytes // shown.frames} bytes of each on average)" if shown.cut else "")
            for name, shown in used.items())))


def _check_kernel_handshake(states: Mapping[str, Any], carried_bytes: int) -> Check:
    ends = [state for node in states.values() for state in node]
    shaken = sum(state["handshake_s"] is not None for state in ends)
    received = max((state["received_bytes"] for state in states["beta"]), default=0)
    return Check("kernel", shaken == len(ends) == len(states) and received >= carried_bytes, (
        f"{shaken} of {len(states)} kernels have a handshake, beta's has received {received} bytes"
    ))


def _check_esp(traffic: packets.HostTraffic, states: Mapping[str, Any],
               carried_bytes: int) -> Iterator[Check]:
    yield Check("handshake", traffic.shaking >= _IKE_PACKETS,
                f"{traffic.shaking} IKE packets captured")
    ends = [state for node in states.values() for state in node]
    others = sorted({str(state.get("aead")) for state in ends} - {_AEAD})
    yield Check("sessions", len(traffic.sessions) in (1, 2) and not traffic.repeated and bool(ends)
                and not others, (
        f"{len(traffic.sessions)} SPIs captured, {traffic.repeated} sequence numbers that did not "
        "rise, "
        f"{len(ends)} SAs in the kernels, {', '.join(others) or 'all'} of {_AEAD}"))
    carried = max((state.get("bytes", 0) for state in states["beta"]), default=0)
    yield Check("carried", carried >= carried_bytes > 0, (
        f"{carried} bytes through one of beta's SAs, {carried_bytes} of the stream"))


def _check_adp(traffic: packets.HostTraffic, proof: RealEvidence) -> Iterator[Check]:
    yield Check("handshake", traffic.shaking > 1, (
        f"{traffic.shaking} packets with a request or an acknowledgement captured"))
    channels = sniffed.count_channels(traffic.sessions, traffic.announced)
    yield Check("sessions", channels == 1 and not traffic.repeated, (
        f"{channels} channel captured, {traffic.repeated} sequence numbers that did not "
        "rise"))
    yield authenticated.check_owner(proof.channel, proof.keys)
    if proof.late is not None:
        yield waits.check_waits(proof.late)

"""Phases of getting on the network, from captures and the supplicant's events.

Negotiations are timed as DESIGN defines: last minus first packet of each, as the mobile node's
interface saw them. Times are seconds after the repetition's start, on one clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure import dissect
from measure.dissect import Packet

#: Phases whose durations add up to the authentication time (Table 4, without Mobile IP here).
NEGOTIATIONS = ("dot1x", "four_way_handshake", "ike")


@dataclass(frozen=True)
class Phase:
    """One phase: seconds after the start, seconds it took, and packets that made it up."""

    name: str
    start_s: float
    duration_s: float
    packets: int


def find(raw: Mapping[str, Any], air: Sequence[Packet], mobile_node: Sequence[Packet],
         address: str) -> list[Phase]:
    """Every phase that took place, in order of time; `address` is the mobile node's MAC."""
    start = raw["stamps"]["start"]
    ours = [p for p in air if address in (p.transmitter, p.receiver)]
    found = [
        _scan(raw, ours, start),
        _span("authentication", start,
              [p for p in ours if p.subtype == dissect.AUTHENTICATION_SUBTYPE]),
        _span("association", start, [p for p in ours if p.subtype in dissect.ASSOCIATION_SUBTYPES]),
        _span(*_eapol(mobile_node, start)),
        _span("ike", start, [p for p in mobile_node if p.is_isakmp]),
    ]
    phases = [phase for phase in found if phase is not None]
    last = max((phase.start_s + phase.duration_s for phase in phases), default=0.0)
    first_packet = _first_packet(mobile_node, start, last)
    if first_packet:
        phases.append(first_packet)
    return sorted(phases, key=lambda phase: phase.start_s)


def authentication_time_s(phases: Sequence[Phase]) -> float:
    """The sum of the negotiations; 0 for a policy that negotiates nothing."""
    return sum(phase.duration_s for phase in phases if phase.name in NEGOTIATIONS)


def _span(name: str, start: float, packets: Sequence[Packet]) -> Phase | None:
    if not packets:
        return None
    first, last = packets[0].time_s, packets[-1].time_s
    return Phase(name, first - start, last - first, len(packets))


def _eapol(packets: Sequence[Packet], start: float) -> tuple[str, float, list[Packet]]:
    """802.1X from its first frame to EAP-Success or the last key; keys alone are a handshake."""
    eapol = [p for p in packets if p.is_eapol]
    ends = [i for i, p in enumerate(eapol)
            if p.eap_code in (dissect.EAP_SUCCESS, dissect.EAP_FAILURE)
            or p.eapol_type == dissect.EAPOL_KEY]
    negotiation = eapol[:ends[-1] + 1] if ends else eapol
    has_eap = any(p.eapol_type == dissect.EAPOL_EAP for p in negotiation)
    return ("dot1x" if has_eap else "four_way_handshake"), start, negotiation


def _scan(raw: Mapping[str, Any], air: Sequence[Packet], start: float) -> Phase | None:
    times = {event["name"]: event["at_s"] for event in reversed(raw["events"])}
    if not {"CTRL-EVENT-SCAN-STARTED", "CTRL-EVENT-SCAN-RESULTS"} <= times.keys():
        return None
    begin, end = times["CTRL-EVENT-SCAN-STARTED"], times["CTRL-EVENT-SCAN-RESULTS"]
    probes = [p for p in air if p.subtype in dissect.PROBE_SUBTYPES]
    return Phase("scan", begin - start, end - begin, len(probes))


def _first_packet(packets: Sequence[Packet], start: float, after_s: float) -> Phase | None:
    """From the end of the last phase to the first answer from the peer."""
    later = [p for p in packets if p.time_s - start >= after_s and not p.is_eapol]
    answers = [i for i, p in enumerate(later) if p.icmp_type == 0]
    if not answers:
        return None
    used = later[:answers[0] + 1]
    return Phase("first_packet", after_s, used[-1].time_s - start - after_s, len(used))

"""Evaluate one measurement of releases: compute measured values and run its checks.

The study releases measures security policies with the daemons of several Debian releases.
`judge_repetition` reads the captures and raw values that one measurement (repetition) left. It
returns the time and packets of joining the network, checks, and the reason of a failure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from measure.capture import pcap
from measure.checks import phases, proof
from measure.packets import eap
from measure.records import judgement
from measure.records.record import CheckRecord
from policies import Policy
from studies.releases.facts import read_facts
from studies.releases.measurements import ReleaseMeasurements
from studies.study import Judgement, Repetition
from topologies.model import Scenario

#: Phases of `measure.checks.phases` whose durations add up to the authentication time.
_NEGOTIATIONS = ("dot1x", "four_way_handshake", "wireguard", "quic", "mptcp", "ike")


def judge_repetition(repetition: Repetition) -> Judgement:
    """Evaluate one repetition by the files that its workload left.

    Raises:
        MeasureError: A capture cannot be interpreted.
    """
    raw: dict[str, Any] = json.loads((repetition.out / "raw.json").read_text())
    about: dict[str, Any] = {"captures": proof.list_captures(raw), "elapsed_s": raw["elapsed_s"],
                             "raw": judgement.select_raw_values(raw, ("stamps", "failure",
                                                                      "parts"))}
    if raw["failure"]:
        return Judgement(None, reason=raw["failure"]["reason"], **about)
    policy: Policy = repetition.cell.value("policy")
    scenario: Scenario = repetition.cell.value("scenario")
    observed = proof.build_air_observation(policy, scenario, repetition.out, raw,
                                           repetition.secrets)
    checks = proof.make_check_records(policy, observed)
    node = observed.by_attachment("auth-mn")[0]
    found = phases.find_phases(observed.raw, observed.packets_of("auth-air"),
                               observed.packets_of("auth-mn"), observed.mac)
    durations = [phase.duration_s for phase in found if phase.name in _NEGOTIATIONS]
    # Of the first authentication, by any EAP method.
    _, packets = next(eap.split_authentications(pcap.eapol_frames(
        repetition.out / "auth-mn.pcap")), (0.0, []))
    measured = ReleaseMeasurements(
        authentication_s=sum(durations) if durations else None,
        eap_packets=len(packets),
        eap_bytes=sum(map(len, packets)),
        ike_packets=sum(p.isakmp_exchange is not None for p in node),
        round_trip_s=raw["round_trip_s"],
        facts=read_facts(repetition.out, observed.mac, observed.inside))
    return Judgement(measured, checks, "; ".join(_find_reasons(checks, raw)), **about)


def _find_reasons(checks: Sequence[CheckRecord], raw: dict[str, Any]) -> list[str]:
    return [*judgement.failure_reasons(checks),
            *judgement.dropped_packets_reason({"captures": proof.list_captures(raw)})]

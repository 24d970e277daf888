"""Invent results of measurements, for benchmarks of qop's own speed.

`make_synthetic_outcome` takes a combination of policy and scenario (cell) and a random generator.
It returns a result with the shape and size of a measured one. Its durations and rates are near
those of a short run, but say nothing about any policy. `studies.qop2007` lists the terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from measure.checks import phases
from measure.checks.phases import FOREIGN, Phase
from measure.records.record import CheckRecord
from policies import Policy
from studies.qop2007.measurements import (
    SCHEMA,
    AuthenticationRecord,
    Measurements,
    PhaseRecord,
    StreamRecord,
    handoff_s,
)
from studies.qop2007.phases import (
    authentication_time_s,
    exchange_of,
    find_components,
    summed_components,
)
from studies.study import Cell, Judgement
from topologies.model import STATION, Scenario

_STREAM_BYTES, _AUTHENTICATIONS = 1_000_000, 4
#: Goodput without security on one crossing of the air, in bit/s, and its share on two crossings.
_TCP_BPS, _UDP_BPS, _SHARED = 4.6e6, 5.8e6, 0.52
#: Duration in seconds, and packets, of the phases of a stay. A policy leaves out phases that it
#: lacks.
_STAY = {"scan": (0.0394, 3), "authentication": (0.0009, 2), "association": (0.0002, 2),
         "dot1x": (0.0217, 17), "agent_discovery": (0.0017, 2), "registration": (0.0020, 2),
         "ike": (0.0171, 9), "first_packet": (0.0135, 2)}
_LEAVING_S = 0.0085


def make_synthetic_outcome(cell: Cell, generator: np.random.Generator) -> Judgement:
    """Return invented results of one repetition, with random durations (s) and rates (bit/s)."""
    policy, scenario = cell.value("policy"), cell.value("scenario")
    slower, faster = float(generator.gamma(50, 1 / 50)), float(generator.normal(1, 0.01))
    stamps = {"start": 1e9 + float(generator.uniform(0, 1e6))}
    took_place = _make_stays(policy, scenario, slower, stamps)
    return Judgement(_make_body(policy, scenario, took_place, stamps, faster), elapsed_s=6.0,
                     evidence=[CheckRecord(check=f"made up {number}", ok=True,
                                           detail="no packets, 0 dropped") for number in range(9)],
                     raw=_make_raw_values(stamps))


def _make_stays(policy: Policy, scenario: Scenario, slower: float,
                stamps: dict[str, float]) -> list[Phase]:
    """Invent the phases at home and in the visited network, and add time stamps of the handoff."""
    home = _make_stay(policy, slower, 0.0, "")
    if not scenario.roams_to:
        return home
    left = home[-1].end_s
    stamps["handoff"] = stamps["start"] + left
    away = _make_stay(policy, slower, left + _LEAVING_S, FOREIGN)
    stamps["foreign_first_packet"] = stamps["start"] + away[-1].end_s
    return [*home, *away]


def _make_stay(policy: Policy, slower: float, at: float, prefix: str) -> list[Phase]:
    stay = []
    for name, (duration, packets) in _STAY.items():
        if (name != "dot1x" or policy.uses_eap) and (name != "ike" or policy.uses_ipsec):
            stay.append(Phase(prefix + name, at, duration * slower, packets))
            at = stay[-1].end_s
    return stay


def _make_body(policy: Policy, scenario: Scenario, took_place: list[Phase],
               stamps: dict[str, float], faster: float) -> Measurements:
    """Return invented values of one repetition, such as durations of phases and goodput.

    Goodput is lower if the policy encrypts frames on the air or has IPsec, and if packets cross the
    air twice.

    Args:
        policy: policy of the repetition.
        scenario: scenario of the repetition.
        took_place: invented phases of joining, and of the handoff if the scenario has one.
        stamps: invented time stamps (s).
        faster: factor of the goodput, a random number around 1.
    """
    crossings_share = _SHARED if scenario.network.nodes[scenario.peer].has_duty(STATION) else 1.0
    share = crossings_share * (1 - 0.035 * policy.uses_ipsec - 0.007 * policy.encrypts_air)
    parts = find_components(took_place, exchange_of(policy))
    summed = summed_components(policy, roaming=scenario.foreign_agent is not None,
                               has_home_agent=scenario.has_mobile_ip)
    stay, moved = ([PhaseRecord(name=phase.name, start_s=phase.start_s, packets=phase.packets,
                                duration_s=phase.duration_s) for phase in each]
                   for each in (took_place, phases.handoff_phases({"stamps": stamps}, took_place)))
    tcp, udp = (StreamRecord(goodput_bps=bps * share * faster, bytes=_STREAM_BYTES,
                             duration_s=8 * _STREAM_BYTES / (bps * share * faster),
                             iperf={"packets": 713.0, "lost_packets": 300.0})
                for bps in (_TCP_BPS, _UDP_BPS))
    return Measurements(
        schema=SCHEMA, authentication_sum=list(summed),
        authentications=[AuthenticationRecord(components_s=parts, phases=stay)] * _AUTHENTICATIONS,
        authentication_time_s=authentication_time_s(parts, summed), handoff=moved,
        handoff_s=handoff_s(stay, moved, stamps), tcp=tcp, udp=udp)


def _make_raw_values(stamps: dict[str, float]) -> dict[str, Any]:
    """Return invented raw values as large as measured ones, since reports load them all."""
    events = [{"at_s": stamps["start"] + number, "name": "CTRL-EVENT-MADE-UP",
               "text": "02:00:00:00:a1:00 no such event, and no such packet either"}
              for number in range(60)]
    return {"stamps": stamps, "events": events,
            "processor_s": {"user": 0.2, "system": 1.9, "idle": 3.9, "iowait": 0.0}}

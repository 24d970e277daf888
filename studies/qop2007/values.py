"""Values of a record's body: one row of numbers, and what of them cannot be.

Columns: the metrics, `authentications` (how many), `authentication_sum` (components, joined by
`+`), `authentication_time_sd_s` (the standard deviation, over a repetition's authentications, of
what of that sum is negotiated at home; absent where there is one), `handoff_sum_s`,
`outage_up_s`, `outage_down_s` and `outage_up_lost_packets`, `outage_down_lost_packets`,
`tcp_bytes`, `udp_bytes`, `tcp_duration_s`, `udp_duration_s`, `udp_sent_packets`,
`udp_lost_packets` (iperf3's counts), and for every NAME that a record has `component_NAME_s`,
`phase_NAME_duration_s` and `phase_NAME_packets`; the same for the phases of a handoff with
`handoff_` in place of `phase_`. Of components, phases and handoffs that took place several times,
in one authentication after the other, the row has means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev

from studies.qop2007.body import Measured, PhaseRecord, StreamRecord

#: How far an authentication time may be from the sum of its components: rounding.
_ROUNDING_S = 1e-6


def values(measured: Measured) -> dict[str, float | int | str | None]:
    """The row of a record's body, by name."""
    row: dict[str, float | int | str | None] = {
        "authentication_time_s": measured.authentication_time_s,
        "authentications": len(measured.authentications),
        "authentication_time_sd_s": _deviation_s(measured),
        "authentication_sum": "+".join(measured.authentication_sum),
        "handoff_s": _mean(measured.handoffs_s),
        "handoff_sum_s": _mean([_sum_s(phases) for phases in measured.handoffs])}
    row |= _outages(measured)
    for name, stream in (("tcp", measured.tcp), ("udp", measured.udp)):
        row |= {f"{name}_goodput_bps": stream.goodput_bps if stream else None,
                f"{name}_bytes": stream.bytes if stream else None,
                f"{name}_duration_s": stream.duration_s if stream else None}
    # Offered above what the medium carries, so the losses are the overload's.
    said = measured.udp.iperf if measured.udp else {}
    row |= {"udp_sent_packets": said.get("packets"), "udp_lost_packets": said.get("lost_packets")}
    row |= {f"component_{name}_s": seconds
            for name, seconds in measured.authentication_components_s.items()}
    row |= _means([_phases("phase_", each.phases) for each in measured.authentications])
    row |= _means([_phases("handoff_", phases) for phases in measured.handoffs])
    return row


def at_home_s(measured: Measured) -> list[float]:
    """Of each authentication, the sum of what the authentication time counts of it at home (s)."""
    names = [name for name in measured.authentication_sum if name.endswith("_home")]
    return [sum(each.components_s.get(name, 0.0) for name in names)
            for each in measured.authentications]


def _deviation_s(measured: Measured) -> float | None:
    times = at_home_s(measured)
    return stdev(times) if len(times) > 1 else None


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each column over the rows that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: fmean(row[name] for row in rows if name in row) for name in names}


def impossible(measured: Measured) -> str:
    """Which number of a record's body cannot be, in a few words; empty where all can."""
    for name, value in _numbers(measured):
        if value is not None and not (math.isfinite(value) and value >= 0):
            return f"{name} is {value}, which cannot be"
    parts = sum(measured.authentication_components_s.get(name, 0.0)
                for name in measured.authentication_sum)
    whole = measured.authentication_time_s
    if measured.authentication_sum and whole is not None and abs(whole - parts) > _ROUNDING_S:
        return (f"authentication_time_s is {whole:g}, but its components add up to {parts:g}")
    return ""


def _outages(measured: Measured) -> dict[str, float | int | str | None]:
    """The worse direction's gap, the losses of both, and each by itself."""
    ways = measured.outages or {}
    if not ways:
        return {"outage_s": None, "outage_lost_packets": None}
    return {"outage_s": max(way.gap_s for way in ways.values()),
            "outage_lost_packets": sum(way.lost_packets for way in ways.values()),
            **{f"outage_{name}_s": way.gap_s for name, way in ways.items()},
            **{f"outage_{name}_lost_packets": way.lost_packets for name, way in ways.items()}}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _sum_s(phases: Sequence[PhaseRecord]) -> float:
    return sum(phase.duration_s for phase in phases)


def _phases(prefix: str, phases: list[PhaseRecord]) -> dict[str, float]:
    """Durations and packets; a phase that took place twice took the sum of both."""
    row: dict[str, float] = {}
    for phase in phases:
        duration, packets = (f"{prefix}{phase.name}_{what}" for what in ("duration_s", "packets"))
        row[duration] = row.get(duration, 0.0) + phase.duration_s
        row[packets] = row.get(packets, 0) + phase.packets
    return row


def _numbers(measured: Measured) -> Iterator[tuple[str, float | None]]:
    """Every number of a body that cannot be negative, with where it stands."""
    yield "authentication_time_s", measured.authentication_time_s
    yield from (("handoff", seconds) for seconds in measured.handoffs_s)
    yield from _stream_numbers("tcp", measured.tcp)
    yield from _stream_numbers("udp", measured.udp)
    for number, each in enumerate(measured.authentications, start=1):
        for name, value in each.components_s.items():
            yield f"authentications.{number}.components_s.{name}", value
    for phase in (*(phase for each in measured.authentications for phase in each.phases),
                  *(phase for phases in measured.handoffs for phase in phases)):
        yield f"{phase.name}.duration_s", phase.duration_s
        yield f"{phase.name}.packets", phase.packets


def _stream_numbers(name: str, stream: StreamRecord | None) -> Iterator[tuple[str, float]]:
    if stream is not None:
        yield f"{name}.goodput_bps", stream.goodput_bps
        yield f"{name}.bytes", stream.bytes

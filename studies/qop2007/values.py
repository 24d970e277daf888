"""Values of a record's body as one row of numbers, and detection of impossible values.

Columns:

- the metrics
- `authentications`: number of authentications
- `authentication_sum`: components of the authentication time, joined by `+`
- `authentication_time_sd_s`: standard deviation over a repetition's authentications of the
  part of that sum that is negotiated at home; absent with one authentication
- `handoff_sum_s`
- `outage_up_s`, `outage_down_s`, `outage_up_lost_packets` and `outage_down_lost_packets`
- `tcp_bytes`, `udp_bytes`, `tcp_duration_s` and `udp_duration_s`
- `udp_sent_packets` and `udp_lost_packets`: iperf3's counts
- `component_NAME_s`, `phase_NAME_duration_s` and `phase_NAME_packets` for every NAME in a
  record, and the latter two with `handoff_` instead of `phase_` for the phases of a handoff

The row has the means of components, phases and handoffs that took place several times, in
one authentication after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev

from studies.qop2007.body import Measured, PhaseRecord, StreamRecord

#: Largest rounding difference (s) between an authentication time and the sum of its components.
_ROUNDING_S = 1e-6


def row_from_body(measured: Measured) -> dict[str, float | int | str | None]:
    """Return the row of a record's body, by column."""
    row: dict[str, float | int | str | None] = {
        "authentication_time_s": measured.authentication_time_s,
        "authentications": len(measured.authentications),
        "authentication_time_sd_s": _deviation_s(measured),
        "authentication_sum": "+".join(measured.authentication_sum),
        "handoff_s": _mean_of(measured.handoffs_s),
        "handoff_sum_s": _mean_of([_sum_s(phases) for phases in measured.handoffs])}
    row |= _outage_values(measured)
    for name, stream in (("tcp", measured.tcp), ("udp", measured.udp)):
        row |= {f"{name}_goodput_bps": stream.goodput_bps if stream else None,
                f"{name}_bytes": stream.bytes if stream else None,
                f"{name}_duration_s": stream.duration_s if stream else None}
    # UDP is offered above the medium's capacity, so the losses are due to overload.
    said = measured.udp.iperf if measured.udp else {}
    row |= {"udp_sent_packets": said.get("packets"), "udp_lost_packets": said.get("lost_packets")}
    row |= {f"component_{name}_s": seconds
            for name, seconds in measured.authentication_components_s.items()}
    row |= _column_means([_phase_values("phase_", each.phases) for each
                          in measured.authentications])
    row |= _column_means([_phase_values("handoff_", phases) for phases in measured.handoffs])
    return row


def at_home_s(measured: Measured) -> list[float]:
    """Return each authentication's sum of the components that count at home (s)."""
    names = [name for name in measured.authentication_sum if name.endswith("_home")]
    return [sum(each.components_s.get(name, 0.0) for name in names)
            for each in measured.authentications]


def _deviation_s(measured: Measured) -> float | None:
    times = at_home_s(measured)
    return stdev(times) if len(times) > 1 else None


def _column_means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each column over the rows that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: fmean(row[name] for row in rows if name in row) for name in names}


def find_impossible_value(measured: Measured) -> str:
    """Describe the first impossible number of a record's body, or return ""."""
    for name, value in _body_numbers(measured):
        if value is not None and not (math.isfinite(value) and value >= 0):
            return f"{name} is {value}, which cannot be"
    parts = sum(measured.authentication_components_s.get(name, 0.0)
                for name in measured.authentication_sum)
    whole = measured.authentication_time_s
    if measured.authentication_sum and whole is not None and abs(whole - parts) > _ROUNDING_S:
        return (f"authentication_time_s is {whole:g}, but its components add up to {parts:g}")
    return ""


def _outage_values(measured: Measured) -> dict[str, float | int | str | None]:
    """Return the longer gap and both directions' losses, then each direction's."""
    ways = measured.outages or {}
    if not ways:
        return {"outage_s": None, "outage_lost_packets": None}
    return {"outage_s": max(way.gap_s for way in ways.values()),
            "outage_lost_packets": sum(way.lost_packets for way in ways.values()),
            **{f"outage_{name}_s": way.gap_s for name, way in ways.items()},
            **{f"outage_{name}_lost_packets": way.lost_packets for name, way in ways.items()}}


def _mean_of(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _sum_s(phases: Sequence[PhaseRecord]) -> float:
    return sum(phase.duration_s for phase in phases)


def _phase_values(prefix: str, phases: list[PhaseRecord]) -> dict[str, float]:
    """Return durations and packets by phase, added up for a phase that took place twice."""
    row: dict[str, float] = {}
    for phase in phases:
        duration, packets = (f"{prefix}{phase.name}_{what}" for what in ("duration_s", "packets"))
        row[duration] = row.get(duration, 0.0) + phase.duration_s
        row[packets] = row.get(packets, 0) + phase.packets
    return row


def _body_numbers(measured: Measured) -> Iterator[tuple[str, float | None]]:
    """Yield every number of a body that cannot be negative, with its name."""
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

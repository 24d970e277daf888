"""Define the measured values of qop2007, as the JSON record of a measurement stores them.

`Measurements` has the values of one measurement (repetition): authentications with their phases,
handoffs, and TCP and UDP streams. `METRICS` lists the values that a report compares.
`row_from_body` converts a record to one row of numbers, and `find_impossible_value` finds
contradictions. The paper is Agarwal and Wang (2007), on the cost of security policies in wireless
LANs. `studies.qop2007` lists the terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from pydantic import ConfigDict, Field

from analysis.metrics import Metric, Stage
from measure.records.record import RecordPart

SCHEMA = 2


class PhaseRecord(RecordPart):
    """A phase of an authentication, such as association or IKE.

    `start_s` counts seconds from the start of that authentication.
    """

    name: str
    start_s: float
    duration_s: float
    packets: int


class AuthenticationRecord(RecordPart):
    """An authentication from a clean state: durations of its negotiations, and its phases.

    The phases are in order of time. If the mobile node moves afterwards, the phases in the visited
    network follow those at home.
    """

    components_s: dict[str, float]
    phases: list[PhaseRecord]


class StreamRecord(RecordPart):
    """A TCP or UDP stream as its receiver measured it.

    `iperf` keeps the values that iperf3 printed.
    """

    goodput_bps: float
    bytes: int
    duration_s: float
    iperf: dict[str, float]


class HandoffRecord(RecordPart):
    """A handoff before the last one of a repetition: its phases, and its duration (s)."""

    phases: list[PhaseRecord]
    handoff_s: float


class OutageRecord(RecordPart):
    """Effect of a handoff on a probe stream in one direction: longest gap (s) and lost packets."""

    gap_s: float
    lost_packets: int


class Measurements(RecordPart):
    """Measured values of a repetition: authentications, handoffs and streams.

    - `authentication_sum`: the negotiations that Table 4 of the 2007 paper adds up for this policy
      and scenario
    - `authentication_time_s`: the sum of their means over all authentications
    - `handoff_s`: time from the order to leave to the first answered packet, for the last handoff.
      It is measured, not a sum of phases.
    """

    schema_: int = Field(SCHEMA, alias="schema")
    authentication_time_s: float | None
    authentication_sum: list[str]
    authentications: list[AuthenticationRecord]
    handoff: list[PhaseRecord]
    handoff_s: float | None = None
    tcp: StreamRecord | None
    udp: StreamRecord | None
    #: Outages by direction, where a stream ran during the move.
    outages: dict[str, OutageRecord] | None = None
    #: Moves before the last one, in order of time, if there are any.
    earlier_handoffs: list[HandoffRecord] | None = None

    model_config = ConfigDict(populate_by_name=True)

    @property
    def phases(self) -> list[PhaseRecord]:
        """Return the phases of the last authentication, and of the handoff after it."""
        return self.authentications[-1].phases if self.authentications else []

    @property
    def handoffs(self) -> list[list[PhaseRecord]]:
        """Return the phases of each handoff of the repetition, in order of time."""
        earlier = [each.phases for each in self.earlier_handoffs or ()]
        return [*earlier, *([self.handoff] if self.handoff else [])]

    @property
    def handoffs_s(self) -> list[float]:
        """Return the duration of each handoff of the repetition (s), in order of time."""
        last = self.handoff_s
        if last is None and self.handoff:  # Older records have no `handoff_s`.
            last = sum(phase.duration_s for phase in self.handoff)
        return [*(each.handoff_s for each in self.earlier_handoffs or ()),
                *([] if last is None else [last])]

    @property
    def authentication_components_s(self) -> dict[str, float]:
        """Return the mean duration (s) of each negotiation, where it took place."""
        return mean_components_s([each.components_s for each in self.authentications])


def mean_components_s(authentications: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean duration (s) of each negotiation, over the authentications that have it."""
    names = dict.fromkeys(name for components in authentications for name in components)
    return {name: fmean(components[name] for components in authentications if name in components)
            for name in names}


#: Prefix of the names of phases in the visited network.
FOREIGN = "foreign_"


def handoff_s(phases: Sequence[PhaseRecord], handoff: Sequence[PhaseRecord],
              stamps: Mapping[str, Any]) -> float | None:
    """Return the duration (s) of a handoff, from the order to leave to the first answered packet.

    Args:
        phases: phases of the authentication, with those in the visited network.
        handoff: phases of the handoff, empty if the node did not move.
        stamps: time stamps (s) of the repetition, by event.

    Returns:
        The duration, or None without a handoff. Its end is the answer in the capture. If the
        capture lacks the answer, the end is the time stamp of the ping program, some milliseconds
        later. If time stamps are missing, the result is the sum of the phases.
    """
    if not handoff:
        return None
    answered = [phase.start_s + phase.duration_s for phase in phases
                if phase.name == f"{FOREIGN}first_packet"]
    try:
        left_s = float(stamps["handoff"]) - float(stamps["start"])
        answered_ping = float(stamps["foreign_first_packet"]) - float(stamps["start"])
    except (KeyError, TypeError, ValueError):
        return sum(phase.duration_s for phase in handoff)
    return (answered[-1] if answered else answered_ping) - left_s


# --- Metrics, and stages that the processor must not limit ---

_TIMES = "Authentication"
TRAFFIC = "Throughput and cryptographic overhead"
#: Difference of time (s) that does not matter: a thirtieth of the 0.15 s below which the paper
#: takes a delay for inaudible.
_NEGLIGIBLE_S = 0.005

AUTHENTICATION = Metric(
    "authentication_time_s", "authentication time", unit="ms", scale=1e3, short="auth",
    better="lower", negligible=_NEGLIGIBLE_S, heading=("auth.", "time"), part=_TIMES)
CONNECTION = Metric(
    "connection_time_s", "connection time", unit="ms", scale=1e3, short="connect", better="lower",
    negligible=_NEGLIGIBLE_S, heading=("connec-", "tion"), part=_TIMES)
HANDOFF = Metric(
    "handoff_s", "handoff", unit="ms", scale=1e3, short="handoff", better="lower",
    negligible=_NEGLIGIBLE_S, heading=("hand-", "off"), part=_TIMES)
OUTAGE = Metric(
    "outage_s", "outage", unit="ms", scale=1e3, short="outage", better="lower",
    negligible=_NEGLIGIBLE_S, heading=("out-", "age"), part=_TIMES)
LOST = Metric(
    "outage_lost_packets", "lost over the move", unit="packets", short="lost", better="lower",
    negligible=1, heading=("lost", ""), part=_TIMES)
TCP_OVERHEAD = Metric("tcp_overhead_bps", "TCP overhead", unit="kbit/s", scale=1e-3,
                      better="lower", heading=("overhead", "TCP"), part=TRAFFIC)
UDP_OVERHEAD = Metric("udp_overhead_bps", "UDP overhead", unit="kbit/s", scale=1e-3,
                      better="lower", heading=("overhead", "UDP"), part=TRAFFIC)
TCP = Metric(
    "tcp_goodput_bps", "TCP goodput", unit="Mbit/s", scale=1e-6, short="tcp", better="higher",
    negligible=0.01, is_relative=True, stops=True, heading=("goodput", "TCP"), part=TRAFFIC,
    difference=TCP_OVERHEAD)
UDP = Metric(
    "udp_goodput_bps", "UDP goodput", unit="Mbit/s", scale=1e-6, short="udp", better="higher",
    negligible=0.01, is_relative=True, stops=True, heading=("goodput", "UDP"), part=TRAFFIC,
    difference=UDP_OVERHEAD)
METRICS = (AUTHENTICATION, CONNECTION, HANDOFF, OUTAGE, LOST, TCP, UDP)
#: Metrics of streams by protocol, as tables and options name them.
STREAMS = {"tcp": TCP, "udp": UDP}
OVERHEADS = {"tcp": TCP_OVERHEAD, "udp": UDP_OVERHEAD}

#: Limits are from measurements in which the waiting of every program counts (docs/running.md).
#: Without other load, authentication waits for 0.2 to 0.3 of its time, because the kernel and its
#: programs share one processor. Beyond 0.35 it takes a fifth to two fifths longer. Goodput does not
#: depend on it.
STAGES = (
    Stage("authentication", ("start",), ("foreign_first_packet", "first_packet"), limit=0.35),
    Stage("tcp", ("tcp_start",), ("tcp_end",), limit=0.3),
    Stage("udp", ("udp_start",), ("udp_end",), limit=0.4),
)


# --- Values of a record's body as one row of numbers, and detection of impossible values ---
# Columns:
#
# - the metrics
# - `authentications`: number of authentications
# - `authentication_sum`: components of the authentication time, joined by `+`
# - `authentication_time_sd_s`: standard deviation over a repetition's authentications of the
#   part of that sum that is negotiated at home; absent with one authentication
# - `handoff_sum_s`
# - `outage_up_s`, `outage_down_s`, `outage_up_lost_packets` and `outage_down_lost_packets`
# - `tcp_bytes`, `udp_bytes`, `tcp_duration_s` and `udp_duration_s`
# - `udp_sent_packets` and `udp_lost_packets`: iperf3's counts
# - `component_NAME_s`, `phase_NAME_duration_s` and `phase_NAME_packets` for every NAME in a
#   record, and the latter two with `handoff_` instead of `phase_` for the phases of a handoff
#
# If a repetition has several authentications, the row has the means of components, phases and
# handoffs.

#: Largest rounding difference (s) between an authentication time and the sum of its components.
_ROUNDING_S = 1e-6


def row_from_body(measured: Measurements) -> dict[str, float | int | str | None]:
    """Return the measured values of a repetition as one row, by column name.

    None means not measured.
    """
    row: dict[str, float | int | str | None] = {
        "authentication_time_s": measured.authentication_time_s,
        "authentications": len(measured.authentications),
        "authentication_time_sd_s": _deviation_s(measured),
        "authentication_sum": "+".join(measured.authentication_sum),
        "connection_time_s": _mean_of(_connections_s(measured)),
        "handoff_s": _mean_of(measured.handoffs_s),
        "handoff_sum_s": _mean_of([_sum_s(phases) for phases in measured.handoffs])}
    row |= _outage_values(measured)
    for name, stream in (("tcp", measured.tcp), ("udp", measured.udp)):
        row |= {f"{name}_goodput_bps": stream.goodput_bps if stream else None,
                f"{name}_bytes": stream.bytes if stream else None,
                f"{name}_duration_s": stream.duration_s if stream else None}
    # UDP is offered above the medium's capacity, so the losses are due to overload.
    counts = measured.udp.iperf if measured.udp else {}
    row |= {"udp_sent_packets": counts.get("packets"),
            "udp_lost_packets": counts.get("lost_packets")}
    row |= {f"component_{name}_s": seconds
            for name, seconds in measured.authentication_components_s.items()}
    row |= _column_means([_phase_values("phase_", each.phases) for each
                          in measured.authentications])
    row |= _column_means([_phase_values("handoff_", phases) for phases in measured.handoffs])
    return row


def _connections_s(measured: Measurements) -> list[float]:
    """Return the time (s) from the order to connect to the first answered packet at home.

    There is one for each authentication in a network with DHCP or IPv6. Elsewhere the address is
    there from the beginning, and the list is empty.
    """
    phases = [{phase.name: phase for phase in each.phases} for each in measured.authentications]
    return [found["first_packet"].start_s + found["first_packet"].duration_s for found in phases
            if {"dhcp", "slaac"} & found.keys() and "first_packet" in found]


def sum_home_s(measured: Measurements) -> list[float]:
    """Return the authentication time at home (s) of each authentication in a repetition.

    It is the sum of the negotiations at home that Table 4 of the 2007 paper counts.
    """
    names = [name for name in measured.authentication_sum if name.endswith("_home")]
    return [sum(each.components_s.get(name, 0.0) for name in names)
            for each in measured.authentications]


def _deviation_s(measured: Measurements) -> float | None:
    times = sum_home_s(measured)
    return stdev(times) if len(times) > 1 else None


def _column_means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each column over the rows that have a value for it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: fmean(row[name] for row in rows if name in row) for name in names}


def find_impossible_value(measured: Measurements) -> str:
    """Describe the first negative or contradictory number among measured values, or return ""."""
    for name, value in _body_numbers(measured):
        if value is not None and not (math.isfinite(value) and value >= 0):
            return f"{name} is {value}, which cannot be"
    parts = sum(measured.authentication_components_s.get(name, 0.0)
                for name in measured.authentication_sum)
    total_s = measured.authentication_time_s
    if measured.authentication_sum and total_s is not None and abs(total_s - parts) > _ROUNDING_S:
        return (f"authentication_time_s is {total_s:g}, but its components add up to {parts:g}")
    return ""


def _outage_values(measured: Measurements) -> dict[str, float | int | str | None]:
    """Return columns of outages: the longer gap, all losses, and both for each direction."""
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
    """Return duration and packets of each phase as columns, added up over phases of one name."""
    row: dict[str, float] = {}
    for phase in phases:
        duration, packets = (f"{prefix}{phase.name}_{what}" for what in ("duration_s", "packets"))
        row[duration] = row.get(duration, 0.0) + phase.duration_s
        row[packets] = row.get(packets, 0) + phase.packets
    return row


def _body_numbers(measured: Measurements) -> Iterator[tuple[str, float | None]]:
    """Yield every measured number that cannot be negative, with its name."""
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

"""Define the measured values of one signed video stream, as its JSON record stores them.

`Measurements` has the values of one measurement (repetition) of the study authenticast1998: means
over the clients, and what happened to each client's packets. The functions compute what figures
show: values by second, changes of the setting, and lost packets. `studies.authenticast1998` lists
the terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field

from measure.records.record import RecordPart
from studies.study import Metric

# --- Body of a record ---

SCHEMA = 1
#: Causes of lost packets: on the way, during the handoff, no room in the buffer, failed
#: verification, shed, too late.
#: Verification fails for a packet alone, for a packet with its bundle, or because a bundle is
#: incomplete.
LOST = ("air", "handoff", "buffer", "failed", "bundle_failed", "bundle_incomplete", "shed", "late")


class ClientRecord(RecordPart):
    """Packet counts and times of one client in a repetition.

    All counts are of packets. `lost` is by cause. Lost, processed and waiting packets add up to
    `sent`.

    - `sent`, `arrived`, `altered`: from captures
    - `processed`, `verified`: from the application's list of packets. Other counts are the
      receiver's own.
    - `altered_settled`: packets altered on the wire for which the receiver has a result
    - `altered_processed`: packets among `altered_settled` that the application got
    - `max_gap_packets`: largest number of unread packets (DELTA)
    - `signatures_verified`: number of verified signatures
    - `duration_s`: from the first sent packet to the last processed one
    - `delay_median_s`, `delay_p99_s`: delay of processed packets, median and 99th percentile
    - `exposure_s`: time in which a smaller fraction was verified than the user wants
    - `below_floor_s`: time in which a smaller fraction was verified than the user permits
    - `sent_pps`, `contended_pps`: sending rate (packets/s), over the whole stream and while the
      streams of all clients lasted

    Times are in seconds.
    """

    name: str
    sent: int
    arrived: int
    processed: int
    verified: int
    lost: dict[str, int]
    altered: int
    altered_settled: int
    altered_processed: int
    bytes_processed: int
    duration_s: float
    delay_median_s: float
    delay_p99_s: float
    exposure_s: float
    below_floor_s: float
    max_gap_packets: int
    signatures_verified: int
    sent_pps: float = 0.0
    contended_pps: float | None = None


class ChangeRecord(RecordPart):
    """A change of the first client's setting (scheme, fraction to verify) by the server.

    - `at_s`, `sequence`: time since the first packet (s), and number of the first packet concerned
    - `scheme`, `level`, `bundle`: the new scheme, fraction to verify and size of a group
    - `cause`: the controller's reason
    """

    at_s: float
    sequence: int
    scheme: str
    level: float
    bundle: int
    cause: str


class Measurements(RecordPart):
    """Measured values of a repetition: means over the clients, and details of the first client.

    Means over the clients:

    - `retention_share`: fraction of the sent packets that the application got
    - `stream_goodput_bps`: payload that the application got (bit/s)
    - `delay_median_s`, `delay_p99_s`: delay of processed packets
    - `level_share`: fraction of the processed packets that were verified before
    - `exposure_share`: fraction of time in which less was verified than the user wants
    - `sent_pps`: sending rate (packets/s)
    - `max_gap_packets`: largest number of unread packets

    Others:

    - `seed`: seed of the video's start and of the programs' random bytes
    - `clients`: counts and times of each client
    - `handoff_s`: time (s) from leaving the home network to the first answered packet in the
      visited network

    The first client's:

    - `changes`: changes of its setting
    - `lost_runs`: first and last sequence number of each run of lost packets
    - `gap_packets`, `level_now_share`, `retained_share`: unread packets, verified fraction and
      fraction of packets that the application got. They are pairs of seconds since the first
      packet, and value.
    """

    schema_: int = Field(SCHEMA, alias="schema")
    seed: int
    retention_share: float
    stream_goodput_bps: float
    delay_median_s: float | None
    delay_p99_s: float | None
    level_share: float | None
    exposure_share: float
    sent_pps: float
    max_gap_packets: float
    clients: list[ClientRecord]
    changes: list[ChangeRecord]
    lost_runs: list[tuple[int, int]]
    handoff_s: float | None = None
    gap_packets: list[tuple[float, float]]
    level_now_share: list[tuple[float, float]]
    retained_share: list[tuple[float, float]]

    model_config = ConfigDict(populate_by_name=True)


# --- Metrics and timelines ---

RETENTION = Metric("retention_share", "retention", unit="%", scale=100.0, digits=1,
                   short="retention", better="higher", negligible=0.005,
                   heading=("reten-", "tion"))
GOODPUT = Metric("stream_goodput_bps", "goodput", unit="kbit/s", scale=1e-3, digits=0,
                 short="goodput", better="higher", negligible=1000.0)
DELAY_MEDIAN = Metric("delay_median_s", "median delay", unit="ms", scale=1e3, digits=1,
                      short="delay", better="lower", negligible=0.001,
                      heading=("median", "delay"))
DELAY_P99 = Metric("delay_p99_s", "99th percentile of the delay", unit="ms", scale=1e3, digits=0,
                   short="p99", better="lower", negligible=0.005, heading=("delay,", "p99"))
LEVEL = Metric("level_share", "level", unit="%", scale=100.0, digits=1, short="level",
               better="higher", negligible=0.005)
EXPOSURE = Metric("exposure_share", "share of the time exposed", unit="%", scale=100.0, digits=1,
                  short="exposure", better="lower", negligible=0.005,
                  heading=("ex-", "posed"))
SENT = Metric("sent_pps", "sending rate", unit="1/s", digits=1, short="rate", negligible=0.5,
              heading=("sent", "per s"))
MAX_GAP = Metric("max_gap_packets", "largest gap", unit="packets", digits=0, short="gap",
                 better="lower", negligible=1.0, heading=("largest", "gap"))
METRICS = (RETENTION, GOODPUT, DELAY_MEDIAN, DELAY_P99, LEVEL, EXPOSURE, SENT, MAX_GAP)
GAP = Metric("gap_packets", "gap (DELTA) of the first client", unit="packets")
LEVEL_NOW = Metric("level_now_share", "level of the first client", unit="%", scale=100.0)
RETAINED = Metric("retained_share", "retention of the first client, second by second", unit="%",
                  scale=100.0)
TIMELINES = (GAP, LEVEL_NOW, RETAINED)


_BIN_S = 1.0
#: Name of the packets' fates among a record's series.
FATES = "fates"
Place = tuple[int, int]


def reported_values(events: Sequence[Mapping[str, Any]], client: str, sent_ns: Mapping[Place, int],
                    name: str) -> list[tuple[float, float]]:
    """Return a value of a client's reports over time, as pairs of seconds and value.

    The time is that of the packet that the server signed last before the report.
    """
    times_s = _sending_times(sent_ns)
    return [(times_s[event["sent"] - 1], float(event[name])) for event in events
            if event["event"] == "report" and event["client"] == client
            and 0 < event["sent"] <= len(times_s)]


def retention_by_second(sent_ns: Mapping[Place, int],
                        processed: set[Place]) -> list[tuple[float, float]]:
    """Return the fraction of packets that the application got, for each second of the stream.

    Returns:
        Pairs of the second's begin (s since the first packet) and the fraction.
    """
    bins: dict[int, list[bool]] = {}
    begin_ns = min(sent_ns.values())
    for place, stamp_ns in sent_ns.items():
        bins.setdefault(int((stamp_ns - begin_ns) / 1e9 / _BIN_S), []).append(place in processed)
    return [(number * _BIN_S, sum(fates) / len(fates)) for number, fates in sorted(bins.items())]


def setting_changes(events: Iterable[Mapping[str, Any]], client: str,
                    sent_ns: Mapping[Place, int]) -> list[ChangeRecord]:
    """Return the changes of a client's setting (scheme, fraction to verify) in order."""
    times_s = _sending_times(sent_ns)
    return [ChangeRecord(
        at_s=times_s[min(event["sequence"], len(times_s) - 1)], sequence=event["sequence"],
        scheme=event["scheme"], level=event["level"], bundle=event["bundle"],
        cause=event["cause"])
        for event in events if event["event"] == "switched" and event["client"] == client]


def lost_runs(sent: Iterable[Place], processed: set[Place]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of packets that the application did not get."""
    numbers = sorted(sequence for stream, sequence in sent if (stream, sequence) not in processed)
    runs = []
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        runs.append((members[0], members[-1]))
    return runs


def packet_fates(runs: Iterable[tuple[int, int]], sent: int) -> list[tuple[float, float]]:
    """Return a step function over sequence numbers: 1 for a delivered packet, 0 for a lost one.

    Args:
        runs: first and last number of each run of lost packets.
        sent: number of packets sent.

    Returns:
        The corners of the function: pairs of sequence number and value.
    """
    steps = [(0.0, 1.0)]
    for first, last in runs:
        steps += [(float(first), 1.0), (float(first), 0.0), (last + 1.0, 0.0), (last + 1.0, 1.0)]
    return [*steps, (float(sent), 1.0)]


def _sending_times(sent_ns: Mapping[Place, int]) -> list[float]:
    """Return when each packet was sent, in seconds since the first, by sequence number."""
    stamps = [stamp_ns for _, stamp_ns in sorted(sent_ns.items())]
    return [(stamp_ns - stamps[0]) / 1e9 for stamp_ns in stamps]

"""Timelines of the first client's stream, with its changes of setting and losses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from studies.authenticast1998.body import ChangeRecord

_BIN_S = 1.0
#: Name of the packets' fates among a record's series.
FATES = "fates"
Place = tuple[int, int]


def reported_values(events: Sequence[Mapping[str, Any]], client: str, sent_ns: Mapping[Place, int],
                    name: str) -> list[tuple[float, float]]:
    """Return a field of a client's reports, by the time (s) of the last sealed packet."""
    times_s = _sending_times(sent_ns)
    return [(times_s[event["sent"] - 1], float(event[name])) for event in events
            if event["event"] == "report" and event["client"] == client
            and 0 < event["sent"] <= len(times_s)]


def retention_by_second(sent_ns: Mapping[Place, int],
                        processed: set[Place]) -> list[tuple[float, float]]:
    """Return the share of each second's packets that was processed."""
    bins: dict[int, list[bool]] = {}
    begin_ns = min(sent_ns.values())
    for place, stamp_ns in sent_ns.items():
        bins.setdefault(int((stamp_ns - begin_ns) / 1e9 / _BIN_S), []).append(place in processed)
    return [(number * _BIN_S, sum(fates) / len(fates)) for number, fates in sorted(bins.items())]


def setting_changes(events: Iterable[Mapping[str, Any]], client: str,
                    sent_ns: Mapping[Place, int]) -> list[ChangeRecord]:
    """Return each switch of a client's setting."""
    times_s = _sending_times(sent_ns)
    return [ChangeRecord(
        at_s=times_s[min(event["sequence"], len(times_s) - 1)], sequence=event["sequence"],
        scheme=event["scheme"], level=event["level"], bundle=event["bundle"],
        cause=event["cause"])
        for event in events if event["event"] == "switched" and event["client"] == client]


def lost_runs(sent: Iterable[Place], processed: set[Place]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of packets that were not processed."""
    numbers = sorted(sequence for stream, sequence in sent if (stream, sequence) not in processed)
    runs = []
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        runs.append((members[0], members[-1]))
    return runs


def packet_fates(runs: Iterable[tuple[int, int]], sent: int) -> list[tuple[float, float]]:
    """Return steps by sequence number: 1 for a retained packet, 0 for a lost one."""
    steps = [(0.0, 1.0)]
    for first, last in runs:
        steps += [(float(first), 1.0), (float(first), 0.0), (last + 1.0, 0.0), (last + 1.0, 1.0)]
    return [*steps, (float(sent), 1.0)]


def _sending_times(sent_ns: Mapping[Place, int]) -> list[float]:
    """Return the seconds since the first packet, by sequence number."""
    stamps = [stamp_ns for _, stamp_ns in sorted(sent_ns.items())]
    return [(stamp_ns - stamps[0]) / 1e9 for stamp_ns in stamps]

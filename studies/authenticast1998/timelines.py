"""What the first client's stream did over time: gap, level, retention, changes, losses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from studies.authenticast1998.body import ChangeRecord

_BIN_S = 1.0
#: Their name among a record's series.
FATES = "fates"
Place = tuple[int, int]


def reported(events: Sequence[Mapping[str, Any]], client: str, sent_ns: Mapping[Place, int],
             name: str) -> list[tuple[float, float]]:
    """A field of a client's reports, at the times of the packets that were sealed last."""
    times_s = _times(sent_ns)
    return [(times_s[event["sent"] - 1], float(event[name])) for event in events
            if event["event"] == "report" and event["client"] == client
            and 0 < event["sent"] <= len(times_s)]


def retained(sent_ns: Mapping[Place, int], processed: set[Place]) -> list[tuple[float, float]]:
    """The share of each second's packets that was processed."""
    bins: dict[int, list[bool]] = {}
    begin_ns = min(sent_ns.values())
    for place, stamp_ns in sent_ns.items():
        bins.setdefault(int((stamp_ns - begin_ns) / 1e9 / _BIN_S), []).append(place in processed)
    return [(number * _BIN_S, sum(fates) / len(fates)) for number, fates in sorted(bins.items())]


def changes(events: Iterable[Mapping[str, Any]], client: str,
            sent_ns: Mapping[Place, int]) -> list[ChangeRecord]:
    """Each switch of setting of a client's stream."""
    times_s = _times(sent_ns)
    return [ChangeRecord(
        at_s=times_s[min(event["sequence"], len(times_s) - 1)], sequence=event["sequence"],
        scheme=event["scheme"], level=event["level"], bundle=event["bundle"],
        cause=event["cause"])
        for event in events if event["event"] == "switched" and event["client"] == client]


def lost_runs(sent: Iterable[Place], processed: set[Place]) -> list[tuple[int, int]]:
    """First and last number of every run of packets that were not processed."""
    numbers = sorted(sequence for stream, sequence in sent if (stream, sequence) not in processed)
    runs = []
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        runs.append((members[0], members[-1]))
    return runs


def fates(runs: Iterable[tuple[int, int]], sent: int) -> list[tuple[float, float]]:
    """Steps by sequence number: 1 for a packet that was retained, 0 for one that was not."""
    steps = [(0.0, 1.0)]
    for first, last in runs:
        steps += [(float(first), 1.0), (float(first), 0.0), (last + 1.0, 0.0), (last + 1.0, 1.0)]
    return [*steps, (float(sent), 1.0)]


def _times(sent_ns: Mapping[Place, int]) -> list[float]:
    """Seconds since the first packet, by sequence number."""
    stamps = [stamp_ns for _, stamp_ns in sorted(sent_ns.items())]
    return [(stamp_ns - stamps[0]) / 1e9 for stamp_ns in stamps]

"""Table of every throughput with its theoretical ceiling and its limiting factor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.bounds.ceilings import ONE_IN, Ceiling, Path
from analysis.bounds.verdict import (
    COLLISIONS_LEAVE,
    MEDIUM_SHARE,
    PROCESSOR_SHARE,
    Protocol,
    judge_bound,
)
from analysis.cells import Cells, Ids
from analysis.clock import REAL
from analysis.numbers import NOT_COUNTED, estimate_entry, metric_column
from analysis.results import Results
from analysis.statistics import Estimate
from analysis.table import Column, Entry, Quantity, Table
from policies import Policy
from studies.qop2007.metrics import STREAMS
from studies.qop2007.report.calls import CallPackets
from studies.qop2007.report.from_run import policy_of, scenario_of
from studies.qop2007.report.paths import stream_path
from topologies.model import Medium, Scenario, from_json

PROTOCOLS: tuple[Protocol, ...] = ("udp", "tcp")


@dataclass
class Circumstances:
    """Policies, scenarios and media in a run's manifest. Missing ones are noted in `unknown`."""

    results: Results
    unknown: set[str] = field(default_factory=set)
    _read: dict[tuple[str, str], Any] = field(default_factory=dict)

    def find_path(self, ids: Ids) -> Path | None:
        """Return the path of a cell's streams, or None without its layers or scenario."""
        policy, scenario = self._find_policy(ids[0]), self._find_scenario(ids[1])
        return stream_path(policy, scenario) if policy and scenario else None

    def find_medium(self, cells: Cells, ids: Ids) -> Medium | None:
        """Return the medium of a cell's good repetitions."""
        names = set(cells.find_words("medium", ids))
        documents = self.results.manifest.media if self.results.manifest else {}
        name = next(iter(names)) if len(names) == 1 else ""
        if name in documents:
            medium: Medium = self._read_once("medium", name,
                                             lambda: from_json(Medium, documents[name]))
            return medium
        self.unknown.add(f"No ceiling on the medium '{', '.join(sorted(names))}', of which the "
                         "results folder says nothing." if names - {""} else
                         "No ceiling where no medium was emulated.")
        return None

    @property
    def payload_bytes(self) -> int | None:
        """Return the payload of a UDP datagram, as set for the run."""
        size = self.results.manifest.asked.get("udp_payload_bytes") if self.results.manifest \
            else None
        return size if isinstance(size, int) else None

    def _find_policy(self, name: str) -> Policy | None:
        policy: Policy | None = self._read_once("policy", name,
                                                lambda: policy_of(self.results, name))
        if policy is None:
            self.unknown.add(f"{name}: no ceiling; the results folder does not say which layers "
                             "it has.")
        return policy

    def _find_scenario(self, name: str) -> Scenario | None:
        scenario: Scenario | None = self._read_once("scenario", name,
                                                    lambda: scenario_of(self.results, name))
        if scenario is None:
            self.unknown.add(f"{name}: no ceiling; the results folder does not say what the "
                             "scenario is.")
        return scenario

    def _read_once(self, kind: str, name: str, read: Any) -> Any:
        if (kind, name) not in self._read:
            self._read[kind, name] = read()
        return self._read[kind, name]


def bounds_table(cells: Cells) -> Table:
    """Build the table of goodputs, with ceiling, share and verdict of each.

    Only cells with good repetitions have a row.

    A cell whose policy, scenario or medium the run's manifest does not describe has no ceiling.
    """
    known = Circumstances(cells.results)
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, members in cells.sections.items():
        measured = [ids for ids in members if cells.record_names(ids)]
        if measured:
            sections.append((len(rows), cells.section_heading(section)))
            rows += [tuple(_cell_entries(cells, ids, known)) for ids in measured]
    counts = _counts_processor(cells)
    columns = _bound_columns() if counts else _bound_columns()[:-1]
    return Table("bounds", "What bounded the throughput", columns,
                 tuple(row[:len(columns)] for row in rows),
                 caption="Goodput at the receiver beside the theoretical ceiling of the policy on "
                 "this path, and what bounded it.",
                 notes=(*(_NOTES if counts else _NOTES_WITHOUT_PROCESSOR), *sorted(known.unknown)),
                 sections=tuple(sections))


def calls_of(cells: Cells, packets: CallPackets) -> dict[tuple[CallPackets, str, str], int]:
    """Return the largest number of calls on the air, by policy and scenario.

    A call sends a datagram each way every interval. Stations contend, and the access point
    draws a backoff for each datagram to a station. So the access point sets the pace (Garg and
    Kappes, "Can I add a VoIP call?", 2003). Cells with unknown path or medium are left out.
    """
    known, calls = Circumstances(cells.results), {}
    for ids in cells.results.cells:
        way = known.find_path(ids)
        medium = known.find_medium(cells, ids) if cells.record_names(ids) else None
        if way is not None and medium is not None:
            airtime_us = way.call_ceiling(medium, packets.payload_bytes).airtime_us
            calls[packets, ids[0], ids[1]] = int(packets.interval_s * 1e6 / airtime_us)
    return calls


def _counts_processor(cells: Cells) -> bool:
    """Return whether this machine's processor can have limited a stream.

    In virtual time computing takes no time, and by the processor clock each node has its own
    processor.
    """
    return cells.results.clock in (REAL, "")


def _cell_entries(cells: Cells, ids: Ids, known: Circumstances) -> Iterator[Entry]:
    processor, way, medium = _processor_share(cells, ids), known.find_path(ids), known.find_medium(
        cells, ids)
    yield Entry(ids[0])
    yield Entry(number=Quantity(len(way.hops))) if way else NOT_COUNTED
    for protocol in PROTOCOLS:
        ceiling = _find_ceiling(protocol, way, medium, known.payload_bytes)
        yield from _stream_entries(cells, ids, protocol, ceiling, processor)
    yield Entry(number=Quantity(processor, n=len(cells.record_names(ids)))) \
        if processor is not None else Entry("not recorded")


def _stream_entries(cells: Cells, ids: Ids, protocol: Protocol, ceiling: Ceiling | None,
                    processor: float | None) -> Iterator[Entry]:
    """Yield the entries of one stream: goodput, ceiling, share and verdict."""
    goodput = cells.mean_of_any(STREAMS[protocol].name, ids)
    if goodput is None:
        yield from (NOT_COUNTED,) * 4
        return
    yield estimate_entry(goodput.estimate, records=goodput.records)
    share, senders, most = None, 1, math.inf
    if ceiling is None:
        yield from (NOT_COUNTED,) * 2
    else:
        at_most_bps = ceiling.at_most_bps(_count_datagrams(cells, ids, protocol, ceiling),
                                          goodput.estimate.n)
        share, senders = _scale_estimate(goodput.estimate, 1 / ceiling.bps), ceiling.senders
        most = at_most_bps / ceiling.bps
        yield Entry(number=Quantity(at_most_bps), note=(
            f"{ceiling.airtime_us:.1f} \N{MICRO SIGN}s of airtime for {ceiling.payload_bytes} "
            f"bytes with mean backoffs, which would be {ceiling.bps / 1e6:.4g} Mbit/s"))
        yield estimate_entry(_scale_estimate(goodput.estimate, 1 / at_most_bps))
    verdict = judge_bound(protocol, share, processor, senders=senders, most=most,
                          virtual=not _counts_processor(cells))
    yield Entry(verdict.bound + ("" if verdict.certain else "?"), note=verdict.note,
                records=goodput.records)


def _count_datagrams(cells: Cells, ids: Ids, protocol: Protocol, ceiling: Ceiling) -> float:
    """Return the number of payloads in a cell's streams, at least one for each stream."""
    counts = cells.sample(f"{protocol}_bytes", ids)
    counts = counts[np.isfinite(counts)]
    return max(float(counts.sum()) / ceiling.payload_bytes, float(len(cells.record_names(ids))),
               1.0)


def _find_ceiling(protocol: Protocol, way: Path | None, medium: Medium | None,
                  payload_bytes: int | None) -> Ceiling | None:
    if way is None or medium is None:
        return None
    if protocol == "tcp":
        return way.tcp_ceiling(medium)
    return way.udp_ceiling(medium, payload_bytes) if payload_bytes else None


def _processor_share(cells: Cells, ids: Ids) -> float | None:
    """Return the largest share of the streams' time in which one processor can have worked.

    It is a mean over repetitions. Processor time is known for the whole repetition only, so the
    streams may have used all of it or less.
    """
    streams = np.nansum([cells.sample(f"{name}_duration_s", ids) for name in PROTOCOLS], axis=0)
    busy = cells.sample("processor_busy_s", ids)
    usable = np.isfinite(busy) & (streams > 0)
    return float(np.mean(busy[usable] / streams[usable])) if usable.any() else None


def _scale_estimate(value: Estimate, factor: float) -> Estimate:
    return Estimate(value.mean * factor, None if value.low is None else value.low * factor,
                    None if value.high is None else value.high * factor, value.n)


def _bound_columns() -> tuple[Column, ...]:
    def stream(name: Protocol) -> Sequence[Column]:
        group = name.upper()
        return (metric_column(STREAMS[name], title="goodput", group=group),
                Column(f"{name}_ceiling_bps", "ceiling", "Mbit/s", 1e-6, digits=3, group=group),
                Column(f"{name}_share", "of it", "%", 100.0, digits=1, group=group),
                Column(f"{name}_bound", "bounded by", group=group))

    return (Column("policy", "policy"), Column("crossings", "air", digits=0),
            *(shown for name in PROTOCOLS for shown in stream(name)),
            Column("processor_share", "processor", "%", 100.0, digits=0))


_HOW = (
    ("Air: how often a packet crosses the shared channel on its way. Each time it takes the "
     "medium's airtime for its own length, with what the policy adds: ESP with its padding around "
     "the packet, the cipher's bytes in the frame. IP-in-IP is on wires only, which cost nothing."),
    ("Ceilings: datagrams back to back; for TCP a window that always suffices, segments as long as "
     "fit into ESP, and an acknowledgement for every second one. Senders that contend (relaying "
     "access points, acknowledgements) count their backoffs down together, so a channel takes the "
     "backoffs of the sender that draws most, and DIFS, frame, SIFS and acknowledgement of all."),
    ("Backoffs are drawn at random. A ceiling allows for luck in as many frames as were received: "
     f"one in {ONE_IN:,} would be passed."))
_MEDIUM = (f"Medium: with mean backoffs, at least {MEDIUM_SHARE['udp']:.0%} of UDP's ceiling was "
           f"reached, or {MEDIUM_SHARE['tcp']:.0%} of TCP's, whose start and losses at full queues "
           f"its ceiling does not know; of several senders {COLLISIONS_LEAVE:.0%} of that, since "
           "ceilings do not count collisions.")
_NOTES = (
    *_HOW,
    (f"{_MEDIUM} Processor: that was not so, and it can have worked for {PROCESSOR_SHARE:.0%} of "
     "the streams' time. Emulator: neither. A question mark: the interval leaves it open."),
    ("Processor: its work of the whole repetition by the streams' time, so this is the most that "
     "the streams can have had of it. In a guest it includes the time that the host kept it "
     "waiting."))
_NOTES_WITHOUT_PROCESSOR = (
    *_HOW, (f"{_MEDIUM} Emulator: that was not so. A question mark: the interval leaves it "
            "open."))

"""Explain measured throughput by the highest possible rate and the bytes of headers.

`bounds_table` compares every measured goodput with the ceiling that follows from airtime and
headers. `arithmetic_table` shows how many bytes and how much airtime a policy adds to a packet.

There are two ceilings, because backoffs are random:

- The mean ceiling (`Ceiling.bps`) is the goodput with backoffs of mean length. It decides whether
  the medium was the limit, and is the ceiling of `arithmetic_table`.
- The certain ceiling (`Ceiling.at_most_bps`) is so high that chance exceeds it once in `ONE_IN`
  cases. It is the column "ceiling" of `bounds_table`. In code, `most` is its ratio to the mean one.

`studies.qop2007.report` lists the terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from analysis.cells import Cells, Ids
from analysis.circumstances import REAL
from analysis.reporting.table_entries import NOT_COUNTED_ENTRY, estimate_entry, metric_column
from analysis.results import Results
from analysis.table import Column, Entry, Quantity, Table
from analysis.throughput_bounds import (
    COLLISIONS_LEAVE,
    IP_BYTES,
    IP_IN_IP_BYTES,
    IPV4_BYTES,
    LLC_BYTES,
    MEDIUM_SHARE,
    ONE_IN,
    PROCESSOR_SHARE,
    UDP_BYTES,
    Ceiling,
    EspOverhead,
    Hop,
    PacketPath,
    TransportProtocol,
    esp_overhead,
    judge_bound,
)
from policies import Policy
from studies.qop2007 import published
from studies.qop2007.measurements import STREAMS
from studies.qop2007.report.basis import CallPackets, policy_of, scenario_of
from topologies.model import ROUTER, STATION, Medium, Scenario, from_json

# --- Path of a cell's streams from mobile node to peer ---

_MTU_BYTES = 1500


def stream_path(policy: Policy, scenario: Scenario) -> PacketPath:
    """Return the hops of a packet from the mobile node to its peer, with the headers on each."""
    link = policy.layers.link
    return PacketPath(_air_hops(policy, scenario), _limit_bytes(policy, scenario),
                      link.frame_expansion_bytes if link else 0, IP_BYTES[scenario.network.ip])


def _air_hops(policy: Policy, scenario: Scenario) -> tuple[Hop, ...]:
    """Return the hops over the air in order. All packets pass the home agents."""
    nodes = scenario.network.nodes
    crossings = [(scenario.access_point, scenario.mobile_node, scenario.access_point)]
    if nodes[scenario.peer].has_duty(STATION):
        point = scenario.home_of(scenario.peer)
        crossings.append((point, point, scenario.peer))
    esp = esp_overhead(policy, scenario.network.ip)
    # In tunnel mode, ESP takes all packets of a mobile node. Otherwise it takes only those to the
    # agent.
    if esp and not esp.tunnel and scenario.peer != scenario.agent:
        esp = None
    return tuple(Hop(nodes[point].channel or 0, esp, sender, receiver)
                 for point, sender, receiver in crossings)


def _limit_bytes(policy: Policy, scenario: Scenario) -> int:
    """Return the length (bytes) of the longest IP packet that no hop fragments."""
    esp, between = _air_hops(policy, scenario)[0].esp, headers_between_agents(policy, scenario)
    on_air = room = _MTU_BYTES
    if between is not None:
        wire = _wire_mtu_bytes(scenario)
        room = between.esp.largest_inner_bytes(wire) if between.esp else wire
        if between.ip_in_ip:  # The foreign agent wraps a packet as it came from the air.
            on_air = min(on_air, room - IP_IN_IP_BYTES)
    sent = esp.largest_inner_bytes(on_air) if esp else on_air
    # Without a tunnel to the home agent, this agent unpacks the packet before it forwards it.
    return sent if between is not None and between.ip_in_ip else min(sent, room)


@dataclass(frozen=True)
class AgentHeaders:
    """Headers that tunnels add to a packet on the wire between the home agents."""

    ip_in_ip: bool
    esp: EspOverhead | None

    def packet_bytes(self, from_air_bytes: int) -> int:
        """Return the length (bytes) of the IP packet on the wire, from its length on the air."""
        inner = from_air_bytes + IP_IN_IP_BYTES * self.ip_in_ip
        return self.esp.packet_bytes(inner) if self.esp else inner


def headers_between_agents(policy: Policy, scenario: Scenario) -> AgentHeaders | None:
    """Return the tunnel headers between the home agents, or None if no packet goes there."""
    peer = scenario.network.nodes[scenario.peer].agent or scenario.peer
    away = scenario.foreign_agent not in (None, scenario.agent)
    if not away and peer == scenario.agent:
        return None
    esp = esp_overhead(policy, scenario.network.ip)
    # Between agents there is always a tunnel, also without one of the mobile nodes.
    return AgentHeaders(away, replace(esp, tunnel=True) if esp else None)


def _wire_mtu_bytes(scenario: Scenario) -> int:
    """Return the smallest MTU (bytes) of the wires to routers."""
    routers = set(scenario.network.of_duty(ROUTER))
    return min((link.mtu_bytes for link in scenario.network.links
                if any(end.partition("/")[0] in routers for end in link.ends)),
               default=_MTU_BYTES)


# --- Ceilings and limiting factors ---

PROTOCOLS: tuple[TransportProtocol, ...] = ("udp", "tcp")


@dataclass
class RunConditions:
    """Policies, scenarios and radio media of a run, read from its plan once.

    Names that the plan does not describe are collected in `unknown`.
    """

    results: Results
    unknown: set[str] = field(default_factory=set)
    _read: dict[tuple[str, str], Any] = field(default_factory=dict)

    def find_path(self, ids: Ids) -> PacketPath | None:
        """Return the path of the streams, or None if the plan lacks the policy or scenario."""
        policy, scenario = self._find_policy(ids[0]), self._find_scenario(ids[1])
        return stream_path(policy, scenario) if policy and scenario else None

    def find_medium(self, cells: Cells, ids: Ids) -> Medium | None:
        """Return the radio medium of the `ok` repetitions, or None if it is unknown."""
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
        """Return the payload (bytes) of a UDP datagram in this run."""
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
    """Build the table of goodputs, each with its upper limit and its bottleneck.

    Rows are the policies and scenarios with repetitions whose status is `ok`. A row has no upper
    limit if the plan of the run lacks its policy, scenario or radio medium.
    """
    known = RunConditions(cells.results)
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    for section, members in cells.sections.items():
        measured = [ids for ids in members if cells.record_names(ids)]
        if measured:
            sections.append((len(rows), cells.section_heading(section)))
            rows += [tuple(_cell_entries(cells, ids, known)) for ids in measured]
    counts = _counts_processor(cells)
    columns = _bound_columns() if counts else _bound_columns()[:-1]
    return Table("bounds", "Limits of the throughput", columns,
                 tuple(row[:len(columns)] for row in rows),
                 caption="Goodput at the receiver, the theoretical ceiling of the policy on this "
                         "path, and what limited the goodput.",
                 notes=(*(_NOTES if counts else _NOTES_WITHOUT_PROCESSOR), *sorted(known.unknown)),
                 sections=tuple(sections))


def calls_of(cells: Cells, packets: CallPackets) -> dict[tuple[CallPackets, str, str], int]:
    """Return the number of voice calls that the air carries, by call, policy and scenario.

    A call sends a packet each way every interval. The access point draws a backoff for each packet
    to a station, so its channel access limits the number (Garg and Kappes, "Can I add a VoIP
    call?", 2003).

    Args:
        cells: the records of the run, grouped by policy and scenario.
        packets: interval and payload of a call.

    Returns:
        Numbers of calls. Policies and scenarios with unknown path or medium are left out.
    """
    known, calls = RunConditions(cells.results), {}
    for ids in cells.results.cells:
        way = known.find_path(ids)
        medium = known.find_medium(cells, ids) if cells.record_names(ids) else None
        if way is not None and medium is not None:
            airtime_us = way.call_ceiling(medium, packets.payload_bytes).airtime_us
            calls[packets, ids[0], ids[1]] = int(packets.interval_s * 1e6 / airtime_us)
    return calls


def _counts_processor(cells: Cells) -> bool:
    """Return whether this machine's CPU could limit a stream: with the real clock only.

    With the virtual clock computing takes no time. With the processor clock each node has an
    emulated CPU of its own.
    """
    return cells.results.clock in (REAL, "")


def _cell_entries(cells: Cells, ids: Ids, known: RunConditions) -> Iterator[Entry]:
    processor, way, medium = _processor_share(cells, ids), known.find_path(ids), known.find_medium(
        cells, ids)
    yield Entry(ids[0])
    yield Entry(number=Quantity(len(way.hops))) if way else NOT_COUNTED_ENTRY
    for protocol in PROTOCOLS:
        ceiling = _find_ceiling(protocol, way, medium, known.payload_bytes)
        yield from _stream_entries(cells, ids, protocol, ceiling, processor)
    yield Entry(number=Quantity(processor, n=len(cells.record_names(ids)))) \
        if processor is not None else Entry("not recorded")


def _stream_entries(cells: Cells, ids: Ids, protocol: TransportProtocol, ceiling: Ceiling | None,
                    processor: float | None) -> Iterator[Entry]:
    """Yield the entries of a stream: goodput, its upper limit, their ratio and the bottleneck.

    The upper limit is the goodput that only rare random backoffs exceed (`Ceiling.at_most_bps`).

    Args:
        cells: the records of the run, grouped by policy and scenario.
        ids: policy and scenario.
        protocol: transport protocol of the stream.
        ceiling: highest goodput of the path, None if the path or the medium is unknown.
        processor: largest fraction of the streams' time in which one CPU can have been busy, None
            if not recorded.
    """
    goodput = cells.mean_of_any(STREAMS[protocol].name, ids)
    if goodput is None:
        yield from (NOT_COUNTED_ENTRY,) * 4
        return
    yield estimate_entry(goodput.estimate, records=goodput.records)
    share, senders, most = None, 1, math.inf
    if ceiling is None:
        yield from (NOT_COUNTED_ENTRY,) * 2
    else:
        at_most_bps = ceiling.at_most_bps(_count_datagrams(cells, ids, protocol, ceiling),
                                          goodput.estimate.n)
        share, senders = goodput.estimate.scale(1 / ceiling.bps), ceiling.senders
        most = at_most_bps / ceiling.bps
        yield Entry(number=Quantity(at_most_bps), note=(
            f"{ceiling.airtime_us:.1f} \N{MICRO SIGN}s of airtime for {ceiling.payload_bytes} "
            f"bytes with mean backoffs, which would be {ceiling.bps / 1e6:.4g} Mbit/s"))
        yield estimate_entry(goodput.estimate.scale(1 / at_most_bps))
    verdict = judge_bound(protocol, share, processor, senders=senders, most=most,
                          virtual=not _counts_processor(cells))
    yield Entry(verdict.bound + ("" if verdict.certain else "?"), note=verdict.note,
                records=goodput.records)


def _count_datagrams(cells: Cells, ids: Ids, protocol: TransportProtocol,
                     ceiling: Ceiling) -> float:
    """Return how many packets' payloads a stream had, at least one."""
    counts = cells.sample(f"{protocol}_bytes", ids)
    counts = counts[np.isfinite(counts)]
    return max(float(counts.sum()) / ceiling.payload_bytes, float(len(cells.record_names(ids))),
               1.0)


def _find_ceiling(protocol: TransportProtocol, way: PacketPath | None, medium: Medium | None,
                  payload_bytes: int | None) -> Ceiling | None:
    if way is None or medium is None:
        return None
    if protocol == "tcp":
        return way.tcp_ceiling(medium)
    return way.udp_ceiling(medium, payload_bytes) if payload_bytes else None


def _processor_share(cells: Cells, ids: Ids) -> float | None:
    """Return the largest fraction of the streams' time in which one CPU can have been busy.

    CPU time is known for the whole repetition only, so this is an upper limit. It is a mean over
    the repetitions.
    """
    streams = np.nansum([cells.sample(f"{name}_duration_s", ids) for name in PROTOCOLS], axis=0)
    busy = cells.sample("processor_busy_s", ids)
    usable = np.isfinite(busy) & (streams > 0)
    return float(np.mean(busy[usable] / streams[usable])) if usable.any() else None


def _bound_columns() -> tuple[Column, ...]:
    def stream(name: TransportProtocol) -> Sequence[Column]:
        group = name.upper()
        return (metric_column(STREAMS[name], title="goodput", group=group),
                Column(f"{name}_ceiling_bps", "ceiling", "Mbit/s", 1e-6, digits=3, group=group),
                Column(f"{name}_share", "of it", "%", 100.0, digits=1, group=group),
                Column(f"{name}_bound", "bounded by", group=group))

    return (Column("policy", "policy"), Column("crossings", "air", digits=0),
            *(shown for name in PROTOCOLS for shown in stream(name)),
            Column("processor_share", "processor", "%", 100.0, digits=0))


_HOW = (
    ("Air: how often a packet crosses the shared channel on its path. Each time it takes the "
     "airtime of its length, with the bytes that the policy adds: ESP with padding around the "
     "packet, the cipher's bytes in the frame. IP-in-IP is used on wires only, which cost "
     "nothing."),
    ("Ceilings: datagrams are sent back to back. TCP has a window that is always large enough, "
     "segments as long as fit into ESP, and an acknowledgement for every second segment or "
     "every aggregate. Contending senders (relaying access points, acknowledgements) count their "
     "backoffs down together. So a channel takes the backoffs of the sender that draws most, and "
     "DIFS, frame, SIFS and acknowledgement of all."),
    ("Backoffs are random. A ceiling is so high that as many frames as were received would exceed "
     f"it by chance in one of {ONE_IN:,} cases."))
_MEDIUM = (f"Medium: the stream reached at least {MEDIUM_SHARE['udp']:.0%} of UDP's ceiling with "
           f"mean backoffs, or {MEDIUM_SHARE['tcp']:.0%} of TCP's, which leaves out slow start and "
           f"losses at full queues. With several senders {COLLISIONS_LEAVE:.0%} of that is enough, "
           "because ceilings do not count collisions.")
_NOTES = (
    *_HOW,
    (f"{_MEDIUM} Processor: the medium was not the limit, and the processor can have worked for "
     f"{PROCESSOR_SHARE:.0%} of the streams' time. Emulator: neither was the limit. A question "
     "mark: the interval does not decide."),
    ("Processor: CPU time of the whole repetition divided by the duration of the streams. So this "
     "is an upper bound for the streams. In a guest it includes the time that the host kept it "
     "waiting."))
_NOTES_WITHOUT_PROCESSOR = (
    *_HOW, (f"{_MEDIUM} Emulator: the medium was not the limit. A question mark: the interval "
            "does not decide."))


# --- Header bytes: additions of a policy to a packet and to its airtime ---

_COLUMNS = (
    Column("policy", "policy"),
    Column("cipher_bytes", "cipher", "bytes", digits=0, group="added to a datagram"),
    Column("esp_bytes", "ESP", "bytes", digits=0, group="added to a datagram"),
    Column("packet_bytes", "IP packet", "bytes", digits=0, group="on the air"),
    Column("frame_bytes", "frame", "bytes", digits=0, group="on the air"),
    Column("airtime_s", "airtime", "\N{MICRO SIGN}s", 1e6, digits=1, group="on the air"),
    Column("udp_ceiling_bps", "UDP", "Mbit/s", 1e-6, digits=3, group="ceiling"),
    Column("tcp_segment_bytes", "segment", "bytes", digits=0, group="ceiling"),
    Column("tcp_ceiling_bps", "TCP", "Mbit/s", 1e-6, digits=3, group="ceiling"),
    Column("wire_bytes", "IP packet", "bytes", digits=0, group="between agents"))


def arithmetic_table(medium: Medium, payload_bytes: int, paths: tuple[Scenario, Scenario]
                     ) -> Table:
    """Build the table of header bytes and airtime that each of P1 to P12 adds to a UDP packet.

    Args:
        medium: the radio medium.
        payload_bytes: payload of the packet in bytes.
        paths: a scenario with one hop over the air (such as N2), and one with a Mobile IP tunnel
            (such as R1). The (mean) ceilings are for the first. A path with two hops has half of
            them.
    """
    rows = tuple(tuple(_policy_entries(policy, medium, payload_bytes, paths))
                 for policy in published.load_policies())
    return Table(
        f"arithmetic-{medium.name}", "Headers and airtime", _COLUMNS, rows,
        caption=f"A UDP datagram of {payload_bytes} bytes on {medium.name}.",
        notes=(
            (f"An IP packet has {UDP_BYTES} bytes of UDP and {IPV4_BYTES} of IP beside the "
             f"payload; a frame has {medium.mac_bytes} of MAC header and checksum and {LLC_BYTES} "
             "of LLC beside the packet. ESP's bytes include its padding."),
            ("Airtime: waiting, preamble, frame and acknowledgement, in the mean; with what the "
             "medium's losses cost. Ceilings: one crossing of the air."),
            ("Between agents: the same datagram of a node that is away, in IP-in-IP, and in the "
             "agents' own ESP where the policy has IPsec. Split datagrams count with all their "
             "parts.")))


def _policy_entries(policy: Policy, medium: Medium, payload_bytes: int,
                    paths: tuple[Scenario, Scenario]) -> Iterator[Entry]:
    once, scenario = stream_path(policy, paths[0]), paths[1]
    datagram = payload_bytes + UDP_BYTES + IPV4_BYTES
    udp, tcp = once.udp_ceiling(medium, payload_bytes), once.tcp_ceiling(medium)
    packets = [once.hops[0].packet_bytes(part) for part in once.split_packet(datagram)]
    frames = [packet + medium.mac_bytes + LLC_BYTES + once.cipher_bytes for packet in packets]
    away, between = stream_path(policy, scenario), headers_between_agents(policy, scenario)
    wire = sum(between.packet_bytes(away.hops[0].packet_bytes(part)) if between else part
               for part in away.split_packet(datagram))
    yield Entry(policy.id, note=policy.name)
    for value in (once.cipher_bytes * len(packets), sum(packets) - datagram, sum(packets),
                  sum(frames), udp.airtime_us / 1e6, udp.bps, tcp.payload_bytes, tcp.bps, wire):
        yield Entry(number=Quantity(float(value)))

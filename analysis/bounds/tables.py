"""Every throughput beside its theoretical ceiling, with what bounded it, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import statistics
from analysis.bounds.ceilings import Ceiling, Path, path
from analysis.bounds.verdict import MEDIUM_SHARE, PROCESSOR_SHARE, Protocol, judge
from analysis.frame import Frame, Results
from analysis.names import scenario_heading
from analysis.one_clock import VIRTUAL
from analysis.statistics import Estimate, Sample
from analysis.table import Column, Entry, Quantity, Table
from measure.record import record_name
from policies import Policy, load_all
from topologies.loader import load_medium, load_scenario, medium_names, scenario_ids
from topologies.model import Medium, Scenario

PROTOCOLS: tuple[Protocol, ...] = ("udp", "tcp")
_NONE = Entry("-")


@dataclass(frozen=True)
class Known:
    """What records name and ceilings need: policies by digest, scenarios and media by name."""

    policies: Mapping[str, Policy]
    scenarios: Mapping[str, Scenario]
    media: Mapping[str, Medium]


def known(results: Results, policies: Iterable[Policy] = (), scenarios: Iterable[Scenario] = (),
          media: Iterable[Medium] = ()) -> Known:
    """What comes with the project of what a run names, and what is given beside it."""
    # Names come from records; they must not be taken for paths.
    named = {column: set(results.frame[column]) for column in ("scenario", "medium")}
    return Known(
        {policy.digest(): policy for policy in (*load_all(), *policies)},
        {name: load_scenario(name) for name in named["scenario"] & set(scenario_ids())}
        | {scenario.id: scenario for scenario in scenarios},
        {name: load_medium(name) for name in named["medium"] & set(medium_names())}
        | {medium.name: medium for medium in media})


def table(results: Results, policies: Iterable[Policy] = (), scenarios: Iterable[Scenario] = (),
          media: Iterable[Medium] = ()) -> Table:
    """Goodput, ceiling, share and verdict of every cell with good repetitions.

    Policies, scenarios and media that do not come with the project can be given; a cell whose own
    are not known has no ceiling.
    """
    found = known(results, policies, scenarios, media)
    rows: list[tuple[Entry, ...]] = []
    sections: list[tuple[int, str]] = []
    unknown: set[str] = set()
    for scenario, cells in results.good.groupby("scenario", sort=False):
        sections.append((len(rows), scenario_heading(str(scenario))))
        for policy, part in cells.groupby("policy", sort=False):
            way, medium = _circumstances(part, str(scenario), found, unknown)
            rows.append(_row(str(policy), str(scenario), part, way, medium))
    # Where processors take no time, there is nothing to say of them.
    virtual = results.clock == VIRTUAL
    columns = _columns()[:-1] if virtual else _columns()
    return Table("bounds", "What bounded the throughput", columns,
                 tuple(row[:len(columns)] for row in rows),
                 caption="Goodput at the receiver beside the theoretical ceiling of the policy on "
                 "this path, and what bounded it.",
                 notes=(*(_NOTES_VIRTUAL if virtual else _NOTES), *sorted(unknown)),
                 sections=tuple(sections))


def _circumstances(part: Frame, scenario: str, found: Known,
                   unknown: set[str]) -> tuple[Path | None, Medium | None]:
    """The path and the medium of a cell, as far as they are known; what is not is noted."""
    digests, names = set(part["policy_sha256"]), set(part["medium"])
    policy = found.policies.get(digests.pop()) if len(digests) == 1 else None
    medium = found.media.get(next(iter(names))) if len(names) == 1 else None
    if policy is None:
        unknown.add(f"{part['policy'].iloc[0]}: no ceiling; its layers are not those of a policy "
                    "that is known here.")
    if scenario not in found.scenarios:
        unknown.add(f"{scenario}: no ceiling; the scenario is not known here.")
    if medium is None:
        unknown.add(f"No ceiling on the medium '{', '.join(sorted(names))}', which is not known "
                    "here." if names - {""} else "No ceiling where no medium was emulated.")
    if policy is None or scenario not in found.scenarios:
        return None, medium
    return path(policy, found.scenarios[scenario]), medium


def _row(policy: str, scenario: str, part: Frame, way: Path | None,
         medium: Medium | None) -> tuple[Entry, ...]:
    processor, virtual = _processor(part), set(part["clock"]) == {VIRTUAL}
    crossings = Entry(number=Quantity(len(way.hops))) if way else _NONE
    return (Entry(policy), crossings,
            *(entry for protocol in PROTOCOLS
              for entry in _stream(protocol, policy, scenario, part,
                                   _ceiling(protocol, part, way, medium), processor,
                                   virtual=virtual)),
            Entry(number=Quantity(processor, n=len(part))) if processor is not None
            else Entry("not recorded"))


def _stream(protocol: Protocol, policy: str, scenario: str, part: Frame, ceiling: Ceiling | None,
            processor: float | None, *, virtual: bool) -> Iterator[Entry]:
    """Goodput, ceiling, share and verdict of one stream."""
    measured = part[part[f"{protocol}_goodput_bps"].notna()]
    if measured.empty:
        yield from (_NONE,) * 4
        return
    goodput = statistics.mean(measured[f"{protocol}_goodput_bps"])
    names = tuple(record_name(policy, scenario, int(number)) for number in measured["repetition"])
    yield Entry(number=_quantity(goodput), records=names)
    share = None
    if ceiling is None:
        yield from (_NONE,) * 2
    else:
        share = _scaled(goodput, 1 / ceiling.bps)
        yield Entry(number=Quantity(ceiling.bps), note=(
            f"{ceiling.airtime_us:.1f} \N{MICRO SIGN}s of airtime for {ceiling.payload_bytes} "
            "bytes"))
        yield Entry(number=_quantity(share))
    verdict = judge(protocol, share, processor, virtual=virtual)
    yield Entry(verdict.bound + ("" if verdict.certain else "?"), note=verdict.note, records=names)


def _ceiling(protocol: Protocol, part: Frame, way: Path | None,
             medium: Medium | None) -> Ceiling | None:
    if way is None or medium is None:
        return None
    if protocol == "tcp":
        return way.tcp(medium)
    payload = _payload_bytes(part)
    return way.udp(medium, payload) if payload else None


def _payload_bytes(part: Frame) -> int | None:
    """What a datagram carried: the bytes received, shared among the datagrams received."""
    count = _finite(part, "udp_sent_packets") - _finite(part, "udp_lost_packets")
    received = _finite(part, "udp_bytes")
    usable = np.isfinite(count) & np.isfinite(received) & (count > 0)
    # Arrivals are counted at the peer, losses by iperf3; both may miss a few.
    sizes = {int(size) for size in np.rint(received[usable] / count[usable])}
    return sizes.pop() if len(sizes) == 1 else None


def _processor(part: Frame) -> float | None:
    """The most of the streams' time that one processor can have worked, averaged over repetitions.

    Processor time is of the whole repetition, so all of it may have been the streams', or less.
    """
    streams = np.nansum([_finite(part, f"{name}_duration_s") for name in PROTOCOLS], axis=0)
    busy = _finite(part, "processor_busy_s")
    usable = np.isfinite(busy) & (streams > 0)
    return float(np.mean(busy[usable] / streams[usable])) if usable.any() else None


def _finite(part: Frame, column: str) -> Sample:
    """A column's numbers; NaN where there is none, or no such column."""
    if column not in part:
        return np.full(len(part), np.nan)
    found: Sample = part[column].to_numpy(dtype=np.float64)
    return found


def _scaled(value: Estimate, factor: float) -> Estimate:
    return Estimate(value.mean * factor, None if value.low is None else value.low * factor,
                    None if value.high is None else value.high * factor, value.n)


def _quantity(value: Estimate) -> Quantity:
    return Quantity(value.mean, value.low, value.high, value.n)


def _columns() -> tuple[Column, ...]:
    def stream(name: Protocol) -> Sequence[Column]:
        group = name.upper()
        return (Column(f"{name}_goodput_bps", "goodput", "Mbit/s", 1e-6, group=group),
                Column(f"{name}_ceiling_bps", "ceiling", "Mbit/s", 1e-6, digits=3, group=group),
                Column(f"{name}_share", "of it", "%", 100.0, digits=1, group=group),
                Column(f"{name}_bound", "bounded by", group=group))

    return (Column("policy", "policy"), Column("crossings", "air", digits=0),
            *(column for name in PROTOCOLS for column in stream(name)),
            Column("processor_share", "processor", "%", 100.0, digits=0))


_HOW = (
    ("Air: how often a packet crosses the shared channel on its way. Each time it takes the "
     "medium's airtime for its own length, with what the policy adds: ESP with its padding around "
     "the packet, the cipher's bytes in the frame. IP-in-IP is on wires only, which cost nothing."),
    ("Ceilings: datagrams back to back; for TCP an estimate with a window that always suffices, "
     "segments as long as fit into ESP, and an acknowledgement for every second one."))
_SHORT = ("A short stream can be 1 to 2 % above its ceiling: after a pause the emulated channel "
          "lets pass 20 ms too much, once.")
_MEDIUM = (f"Medium: at least {MEDIUM_SHARE['udp']:.0%} of UDP's ceiling was reached, or "
           f"{MEDIUM_SHARE['tcp']:.0%} of TCP's, whose start and losses at full queues its ceiling "
           "does not know.")
_NOTES = (
    *_HOW,
    (f"{_MEDIUM} Processor: that was not so, and it can have worked for {PROCESSOR_SHARE:.0%} of "
     "the streams' time. Emulator: neither. A question mark: the interval leaves it open."),
    ("Processor: its work of the whole repetition by the streams' time, so this is the most that "
     "the streams can have had of it. In a guest it includes the time that the host kept it "
     "waiting."), _SHORT)
_NOTES_VIRTUAL = (
    *_HOW, (f"{_MEDIUM} Emulator: that was not so. A question mark: the interval leaves it "
            "open."), _SHORT)

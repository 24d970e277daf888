"""Build tables that compare stream controllers with each other and with theoretical bounds.

A controller adapts which fraction of a signed video stream a receiver verifies.
`build_comparison_tables` takes the measured values of a run. Its tables compare controllers with
fixed settings, and with the bound of a receiver that knows the future (clairvoyant). Further tables
compare hash trees with one signature per packet, and show how fairly a server signs for its
clients. The 1998 paper (Schneck and Schwan) has none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from analysis import statistics
from analysis.cells import Cells, Observation
from analysis.reporting import table_entries
from analysis.reporting.table_entries import observation_entry, value_entry
from analysis.statistics import Estimate
from analysis.table import Column, Entry, Quantity, Table
from studies.authenticast1998.cells import (
    BESIDE,
    DISTURBANCES,
    FLOODED,
    HEURISTICS,
    RATES,
    SHARED,
    WIRED,
    Disturbance,
)
from studies.authenticast1998.measurements import DELAY_P99, EXPOSURE, LEVEL, RETENTION, SENT
from studies.authenticast1998.programs import FRAMES_PER_S, TRACE

# --- Cells over wires by heuristic, clients and load ---

#: Levels of heuristic, clients and load.
Ids = tuple[str, str, str]
_Value = TypeVar("_Value")


def wired_cell(cells: Cells, ids: Ids) -> tuple[str, ...]:
    """Return heuristic (way to authenticate packets), number of clients and load of a result.

    Newer results also name a policy and a scenario, which are left out.
    """
    return (*ids, *WIRED)[:len(cells.results.names)]


def select_wired(values: Mapping[tuple[str, ...], _Value]) -> dict[tuple[str, ...], _Value]:
    """Select values measured over Ethernet, with heuristic, clients and load as key."""
    return {key[:4]: value for key, value in values.items() if key[4:] in ((), WIRED)}


# --- Differences between the 1998 blend and each other heuristic ---
# Streams are paired by their seeds.

_BLEND = "adaptive-1998"
_VERIFIED_SHARE = "verified_share"
#: Blocks below which the variation between repetitions is unknown.
_MIN_BLOCKS = 3


def difference_table(cells: Cells, heuristics: Iterable[str], loads: Iterable[str]) -> Table | None:
    """Build a table that compares controllers with the controller of the 1998 paper (blend).

    It has a row per load and controller. Both controllers ran with equal seeds.
    """
    others = [name for name in dict.fromkeys(heuristics) if name != _BLEND]
    rows = [row for load in loads for name in others if (row := _difference_row(cells, name, load))]
    if not rows:
        return None
    columns = (Column("load", "Load"), Column("against", "Against"),
               Column("retained_more", "Retains more", "%", 100.0, 1),
               Column("verified_more", "Verified of sent, more", "%", 100.0, 1),
               Column("blend_wins", "The blend of 1998"))
    return Table("blend", "Where the controller of 1998 (blend) is better", columns, tuple(rows),
                 "Difference of the blend and the other controller, one client. Repetitions with "
                 "equal seeds are paired. Intervals are of 95 %.",
                 ("Undecided: the interval includes zero.",))


def _difference_row(cells: Cells, other: str, load: str) -> tuple[Entry, ...] | None:
    estimates = [*_paired_differences(cells, other, load)]
    if not estimates:
        return None
    retained, verified = estimates
    return (Entry(load, note=DISTURBANCES[load].title), Entry(other, note=HEURISTICS[other].title),
            *(table_entries.estimate_entry(estimate, ("spans-zero",) if estimate.spans_zero else ())
              for estimate in estimates),
            Entry(
                f"{_verdict_of(retained)} in retention, {_verdict_of(verified)} in what is "
                "verified"))


def _paired_differences(cells: Cells, other: str, load: str) -> Iterator[Estimate]:
    for name in (RETENTION.name, _VERIFIED_SHARE):
        of_blend, of_other = (cells.values_by_block(name,
                                                    wired_cell(cells, (heuristic, "1", load)))
                              for heuristic in (_BLEND, other))
        if len(of_blend.keys() & of_other.keys()) < _MIN_BLOCKS:
            return
        yield statistics.compare_paired(of_blend, of_other).difference


def _verdict_of(difference: Estimate) -> str:
    if difference.spans_zero:
        return "undecided"
    return "wins" if difference.mean > 0 else "loses"


# --- Clairvoyant bound: the largest share of a stream that could be verified and used ---
# A clairvoyant receiver knows all arrivals, loads and forgeries in advance. It verifies in the
# largest groups that the delay bound permits, verifies nothing in vain, and works whenever there is
# work. It loses a packet only on the way, or when its buffer and processor are exhausted. The queue
# is treated as a fluid.

@dataclass(frozen=True)
class ReceiverCapacity:
    """Capacity of a receiver: shortest time per packet (s), buffer and arrival rate (packets/s)."""

    packet_s: float
    room: float
    arrivals_pps: float


def receiver_capacity(settings: Mapping[str, Any], work: Mapping[str, Any],
                      sent_pps: float) -> ReceiverCapacity:
    """Compute how fast a receiver can be at best, by the run's settings and its device model.

    A group of packets with a common signature may be as large as the number sent within the delay
    bound. It is held while it is collected, in addition to the socket's buffer.

    Args:
        settings: settings of the run.
        work: seconds of each operation on the client's device model.
        sent_pps: sending rate in packets per second.
    """
    group = max(1.0, sent_pps * settings["delay_bound_ms"] / 1e3)
    packet_s = (settings["packet_ms"] / 1e3
                + settings["payload_bytes"] / work["sha1"]["bytes_per_s"]
                + work["dsa-512-verify"]["seconds"] / group)
    return ReceiverCapacity(packet_s, settings["buffer_packets"] + group, sent_pps)


def verified_at_most(load: Disturbance, settings: Mapping[str, Any],
                     client: ReceiverCapacity) -> float:
    """Return the largest fraction of sent packets that a receiver could verify and use."""
    lost, waiting, total = 0.0, 0.0, 0.0
    rate_pps = client.arrivals_pps * (1 - load.loss)
    for seconds, share in _load_phases(load, settings):
        served_pps = (1 - share) / client.packet_s
        waiting += (rate_pps - served_pps) * seconds
        lost += max(0.0, waiting - client.room)
        waiting = min(max(waiting, 0.0), client.room)
        total += client.arrivals_pps * seconds
    return (total * (1 - load.loss) - lost) / total


def _load_phases(load: Disturbance, settings: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield the phases of a stream: duration (s), and fraction of the CPU taken by other work."""
    length_s = settings["frames"] / FRAMES_PER_S
    begin_s, end_s = (min(settings[name], length_s) for name in ("load_from_s", "load_to_s"))
    if not load.share:
        begin_s = end_s = length_s
    yield begin_s, 0.0
    if end_s > begin_s:
        yield end_s - begin_s, load.share
    if length_s > end_s:
        yield length_s - end_s, 0.0


def signed_pps(settings: Mapping[str, Any], device: Mapping[str, Any]) -> float:
    """Return how many packets per second a server can sign one by one."""
    work = device["work"]
    sign_s: float = settings["precomputed_ms"] / 1e3 if settings["signing"] == "precomputed" \
        else work["dsa-512-sign"]["seconds"]
    packet_s: float = sign_s + settings["payload_bytes"] / work["sha1"]["bytes_per_s"]
    processors: int = device.get("processors", 1)
    return processors / packet_s


def demand_pps(settings: Mapping[str, Any]) -> float:
    """Return the packets per second of the study's own video."""
    sizes = [int(line.partition(",")[2]) for line in TRACE.read_text().split()]
    payload_bytes: int = settings["payload_bytes"]
    packets = sum(-(-size // payload_bytes) for size in sizes)
    return FRAMES_PER_S * packets / len(sizes)


def max_min_shares(capacity: float, demands: Sequence[float],
                   weights: Sequence[float]) -> list[float]:
    """Divide a capacity among clients by weighted max-min fairness.

    No client gets more than its demand. The rest is divided among the others.
    """
    shares = [0.0] * len(demands)
    open_ = [number for number, demand in enumerate(demands) if demand > 0]
    while open_ and capacity > 1e-9:
        level = min(capacity / sum(weights[number] for number in open_), *(
            (demands[number] - shares[number]) / weights[number] for number in open_))
        for number in open_:
            shares[number] += level * weights[number]
        capacity -= level * sum(weights[number] for number in open_)
        open_ = [number for number in open_ if demands[number] - shares[number] > 1e-9]
    return shares


# --- Tables of the comparisons ---

_SHOWN = (RETENTION, LEVEL, EXPOSURE, DELAY_P99)
_COMPARED = ("idle", "half", "most", "loss", "flood")
_NOTES = (
    ('Retention alone is no success if fewer packets were verified for it. "Verified of sent" '
     "combines both: the percentage of all packets that were verified and used."),
    ("Clairvoyant: the most that a receiver could verify and use within the delay bound, if it "
     "knew arrivals, load and forgeries in advance. This is a fluid bound, which no setting "
     "reaches exactly."))


def build_comparison_tables(cells: Cells) -> Iterator[Table]:
    """Yield the comparison tables for which there are measurements."""
    for table in (*(_comparison_table(cells, load) for load in _COMPARED),
                  difference_table(cells, (*BESIDE, *FLOODED), _COMPARED),
                  _rate_table(cells), _fairness_table(cells)):
        if table is not None:
            yield table


def _comparison_table(cells: Cells, load: str) -> Table | None:
    at_most = _bound_entry(cells, load)
    rows = []
    for heuristic in FLOODED if load == "flood" else BESIDE:
        ids = wired_cell(cells, (heuristic, "1", load))
        if ids in cells.results.cells and isinstance(cells.value(RETENTION.name, ids), Observation):
            rows.append((Entry(heuristic, note=HEURISTICS[heuristic].title),
                         *(value_entry(cells.value(metric.name, ids)) for metric in _SHOWN),
                         observation_entry(cells.mean_of_any(_VERIFIED_SHARE, ids)), at_most))
    if len(rows) < 2:
        return None
    columns = (Column("heuristic", "Heuristic"), *(
        Column(metric.name, metric.sentence, metric.unit, metric.scale, metric.digits)
        for metric in _SHOWN), Column(_VERIFIED_SHARE, "Verified of sent", "%", 100.0, 1),
        Column("clairvoyant_share", "Clairvoyant", "%", 100.0, 1))
    return Table(f"beside-{load}", f"One client; {DISTURBANCES[load].title}", columns, tuple(rows),
                 "Schemes and controllers of 1998 and later, side by side.", _NOTES)


def _bound_entry(cells: Cells, load: str) -> Entry:
    """Return the clairvoyant bound as a table entry: the most that a receiver could verify.

    It is a dash if the server's sending rate is unknown.
    """
    heuristics = (*BESIDE, *(heuristic for heuristic, _ in RATES))
    rates = [observation.estimate.mean for heuristic in heuristics if (
        observation := cells.mean_of_any(SENT.name,
                                         wired_cell(cells, (heuristic, "1", load))))]
    manifest = cells.results.manifest
    if manifest is None or not rates or (
            manifest.asked.get("video") and not DISTURBANCES[load].rate_pps):
        return Entry("-")  # A results folder does not state how long a user's video lasts.
    settings = manifest.asked
    work = manifest.devices[settings["client_device"]]["work"]
    share = verified_at_most(DISTURBANCES[load], settings,
                             receiver_capacity(settings, work, max(rates)))
    return Entry(number=Quantity(share))


def _rate_table(cells: Cells) -> Table | None:
    """Build a table of the packets per second that a receiver verifies, with and without trees.

    With a hash tree, one signature covers many packets.
    """
    names = ("verified_pps", RETENTION.name, SENT.name, DELAY_P99.name)
    rows, first = [], None
    for heuristic, load in RATES:
        ids = wired_cell(cells, (heuristic, "1", load))
        values = [cells.mean_of_any(name, ids) for name in names]
        if values[0] is None:
            continue
        first = first or values[0].estimate.mean
        rows.append((Entry(heuristic, note=HEURISTICS[heuristic].title),
                     *(observation_entry(value) for value in values),
                     _bound_entry(cells, load),
                     Entry(number=Quantity(values[0].estimate.mean / first))))
    if len(rows) < 2:
        return None
    columns = (Column("heuristic", "Heuristic"),
               Column("verified_pps", "Verified", "1/s", digits=1),
               Column(RETENTION.name, RETENTION.sentence, "%", 100.0, 1),
               Column(SENT.name, "Sent", "1/s", digits=1),
               Column(DELAY_P99.name, DELAY_P99.sentence, "ms", 1e3, 0),
               Column("clairvoyant_share", "Clairvoyant", "%", 100.0, 1),
               Column("times", "Times the first", digits=1))
    return Table("rates", "The rate of trees against signing each packet, at 2 % loss", columns,
                 tuple(rows), "One client, one device. The first row is the rate that the "
                              "receiver can verify packet by packet. The second row has "
                              "signatures per packet at the trees' rate.",
                 ("Each packet of a tree can be verified alone, so a lost packet affects no other.",
                  ))


def _fairness_table(cells: Cells) -> Table | None:
    """Build a table of the clients' rates where the server is too slow to sign for all of them."""
    names = ("first_sent_pps", "others_sent_pps", "worst_sent_pps", "fairness_share")
    rows = []
    for load in ("idle", "weighted"):
        values = [cells.mean_of_any(name, wired_cell(cells, (*SHARED, load))) for name
                  in names]
        if values[0] is not None:
            rows.append((Entry(DISTURBANCES[load].title), *map(observation_entry, values),
                         *_fair_bounds(cells, load)))
    if not rows:
        return None
    columns = (Column("load", "Load"), Column("first_sent_pps", "First client", "1/s", digits=1),
               Column("others_sent_pps", "Others, mean", "1/s", digits=1),
               Column("worst_sent_pps", "Worst of all", "1/s", digits=1),
               Column("fairness_share", "Jain's index", digits=3),
               Column("first_at_most_pps", "First, max-min", "1/s", digits=1),
               Column("others_at_most_pps", "Others, max-min", "1/s", digits=1))
    return Table("fair-signing", "Fair signing: 5 clients of a server that cannot sign for all",
                 columns, tuple(rows), "Packets signed and sent per second. Each video needs 117. "
                                       "Max-min fair rates divide all that the server's "
                                       "processors can sign.",
                 ("Jain's index is 1 if all rates are equal. It does not consider weights.",))


def _fair_bounds(cells: Cells, load: str) -> tuple[Entry, Entry]:
    """Return the max-min fair packet rates of the first client and of each other client."""
    manifest = cells.results.manifest
    if manifest is None or manifest.asked.get("video"):
        return Entry("-"), Entry("-")
    weights = [DISTURBANCES[load].weight, *(1.0 for _ in range(int(SHARED[1]) - 1))]
    offered_pps = demand_pps(manifest.asked)
    shares = max_min_shares(signed_pps(
        manifest.asked, manifest.devices[manifest.asked["server_device"]]),
        [offered_pps] * len(weights), weights)
    return Entry(number=Quantity(shares[0])), Entry(number=Quantity(shares[1]))

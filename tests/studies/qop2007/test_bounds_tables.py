"""Tests of what bounded a throughput: measured runs, verdicts, and the tables that show them."""

from __future__ import annotations

import csv
import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import recorded
from analysis.cells import Cells
from analysis.statistics import Estimate
from analysis.table import Entry, Quantity, Table
from analysis.throughput_bounds import Ceiling, judge_bound
from bounded import SCENARIOS, SHORT, with_ipsec
from fabricated import POLICIES, body_of, cells_of, changed, make, manifest_of, results_of
from measure.records.record import Record
from studies.qop2007.measurements import StreamRecord
from studies.qop2007.report import throughput_bounds
from studies.qop2007.report.throughput_bounds import stream_path
from topologies.loader import load_medium, to_json
from topologies.model import Medium

# --- what was measured --------------------------------------------------------------------------


def measured() -> list[Record]:
    """180 repetitions, measured in the embedded guest on 802.11b-short with streams of 1 MB.

    `recorded/throughput.csv` holds their streams and processor time: P1 to P12 in all scenarios,
    three times, on a busy machine of two cores.
    """
    records = []
    with (recorded.FOLDER / "throughput.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            streams = {}
            for name in ("tcp", "udp"):
                count, bps = int(row[f"{name}_bytes"]), float(row[f"{name}_goodput_bps"])
                iperf = {} if name == "tcp" else {
                    "packets": float(row["udp_packets"]),
                    "lost_packets": float(row["udp_lost_packets"])}
                streams[name] = StreamRecord(goodput_bps=bps, bytes=count,
                                             duration_s=count * 8 / bps, iperf=iperf)
            found = make(row["policy"], int(row["repetition"]), scenario=row["scenario"])
            busy = {"system": float(row["processor_busy_s"]), "idle": 3.0}
            records.append(changed(found, **streams, raw=found.raw | {"processor_s": busy},
                                   environment=found.environment | {"medium": SHORT.name}))
    return records


def test_measured_udp_reaches_its_ceiling_and_never_exceeds_it() -> None:
    """In N2 the median repetition of every policy is within 1 % below; two crossings, within 2 %.

    It was measured in turns, where a stream may be above by the 20 ms that the emulated channel
    makes up for, once: 1.6 % of a stream of 1.27 s.
    """
    shares: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for record in measured():
        udp, (policy, scenario) = body_of(record).udp, record.cell.values()
        assert udp is not None
        ceiling = stream_path(POLICIES[policy],
                              SCENARIOS[scenario]).udp_ceiling(SHORT.without_contention, 1400)
        shares[policy, scenario == "N2"].append(udp.goodput_bps / ceiling.bps)
        assert udp.goodput_bps <= ceiling.at_most_bps(udp.bytes / 1400)
    for (policy, once), found in shares.items():
        assert 0.99 <= np.median(found) <= (1.0 if once else 1.016), policy


def contended() -> Iterator[tuple[str, str, Medium, str, float, int]]:
    """Streams where stations contended: policy, scenario, medium, stream, bit/s and bytes.

    `recorded/throughput-dcf.csv` holds 720 streams of the default run (802.11b-short, 500 kB) and
    some of five more media, with other seeds.
    """
    with (recorded.FOLDER / "throughput-dcf.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield (row["policy"], row["scenario"], load_medium(row["medium"]), row["stream"],
                   float(row["goodput_bps"]), int(row["bytes"]))


def test_no_stream_of_stations_that_contend_exceeds_its_ceiling() -> None:
    """Nor does any cell's mean; and UDP is near: 0.93 of it, or 0.88 where OFDM's slots collide."""
    cells: dict[tuple[str, str, str, str], list[tuple[float, int, Ceiling]]] = defaultdict(list)
    for policy, scenario, medium, stream, bps, count in contended():
        way = stream_path(POLICIES[policy], SCENARIOS[scenario])
        ceiling = way.udp_ceiling(medium, 1400) if stream == "udp" else way.tcp_ceiling(medium)
        assert bps <= ceiling.at_most_bps(count / ceiling.payload_bytes), (policy, scenario)
        cells[medium.name, policy, scenario, stream].append((bps, count, ceiling))
    assert len(cells) > 160
    for (medium_name, _, scenario, stream), found in cells.items():
        ceiling = found[0][2]
        datagrams = sum(count for _, count, _ in found) / ceiling.payload_bytes
        mean_bps = np.mean([bps for bps, _, _ in found])
        share = mean_bps / ceiling.at_most_bps(datagrams, len(found))
        assert share < 1
        if stream == "udp" and load_medium(medium_name).aggregate == 1:
            assert share > (0.93 if "802.11b" in medium_name else 0.88), (medium_name, scenario)


def test_measured_runs_are_bounded_by_the_medium() -> None:
    """Every cell has its ceilings, and the verdict that such a medium makes one expect."""
    records = measured()
    manifest = manifest_of(records, media={SHORT.name: to_json(SHORT.without_contention)})
    table = throughput_bounds.bounds_table(Cells(results_of(*records, manifest=manifest)))
    assert len(table.rows) == 60
    assert [at for at, _ in table.sections] == [0, 12, 24, 36, 48]
    words = {entry.text.rstrip("?") for row in table.rows for entry in (row[5], row[9])}
    assert words == {"medium"}
    certain = sum(row[5].text == "medium" for row in table.rows)
    assert certain >= 50
    assert all(row[column].number.value < 1 for row in table.rows for column in (4, 8)
               if row[column].number)
    assert all(0.2 < row[10].number.value < 1 for row in table.rows if row[10].number)


# --- verdicts and tables ------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "processor", "bound", "certain"), [
    ((0.99, 0.98, 1.0), 0.5, "medium", True), ((0.96, 0.9, 1.02), 0.5, "medium", False),
    ((0.5, 0.4, 0.6), 0.5, "emulator", True), ((0.5, 0.4, 0.6), 1.3, "processor", True),
    ((0.9, 0.8, 1.0), 0.95, "processor", False), ((0.5, 0.4, 0.6), None, "emulator", False),
    ((0.99, None, None), 0.5, "medium", False),
    (None, 0.97, "processor", True), (None, 0.2, "emulator", True)])
def test_verdicts(share: tuple[float, float | None, float | None] | None, processor: float | None,
                  bound: str, certain: bool) -> None:
    """Near the ceiling the medium; below it whatever had no time left; what is open is said."""
    found = judge_bound("udp", Estimate(*share, n=3) if share else None, processor)
    assert (found.bound, found.certain) == (bound, certain)
    assert found.note or (bound, certain) == ("medium", True)


def test_what_is_above_its_ceiling_was_not_of_this_medium() -> None:
    """Luck allows 2 % here, and the stream has 30."""
    found = judge_bound("udp", Estimate(1.3, 1.2, 1.4, n=3), 0.5, most=1.02)
    assert (found.bound, found.certain) == ("emulator", False)
    assert judge_bound("udp", Estimate(1.01, 1.0, 1.02, n=3), 0.5, most=1.02).bound == "medium"


def test_collisions_are_allowed_for_where_several_send() -> None:
    """0.9 of a ceiling is what two senders reach, and too little for one."""
    share = Estimate(0.9, 0.89, 0.91, n=3)
    assert judge_bound("udp", share, 0.2, senders=2).bound == "medium"
    assert judge_bound("udp", share, 0.2, senders=1).bound == "emulator"


@pytest.mark.parametrize(("clock", "has_processor"), [
    ("real", True), ("virtual", False), ("processor", False)])
def test_the_processor_is_shown_where_it_can_bound(clock: str, has_processor: bool) -> None:
    """By the processor clock each node has its own, and records do not say how busy it was."""
    table = throughput_bounds.bounds_table(cells_of(*[fast("P1", k, clock=clock) for k in (1, 2)]))
    assert table.has_column("processor_share") == has_processor
    assert any("Processor:" in note for note in table.notes) == has_processor


def number(table: Table, row: int, key: str) -> Quantity:
    """The number of a row under a column's key."""
    entry = table.rows[row][[column.key for column in table.columns].index(key)]
    assert entry.number is not None, entry
    return entry.number


def fast(policy: str, repetition: int, bps: float = 4e6, digest: str = "",
         **environment: Any) -> Record:
    """A repetition with 1.5 s of work and streams of 2 s each."""
    made = make(policy, repetition)
    stream = StreamRecord(goodput_bps=bps, bytes=1_000_000, duration_s=2.0, iperf={})
    return changed(made, tcp=stream, udp=stream.model_copy(update={"bytes": 980_000}),
                   environment=made.environment | environment,
                   digests={"policy": digest} if digest else made.digests,
                   raw=made.raw | {"processor_s": {"user": 0.5, "system": 1.0, "idle": 4.0}})


def test_a_row_adds_up() -> None:
    """Share is goodput by ceiling, with its interval; the processor's its work by streams' time."""
    table = throughput_bounds.bounds_table(cells_of(fast("P2", 1, 4e6), fast("P2", 2, 4.4e6)))
    goodput, ceiling, share = (number(table, 0, f"udp_{what}")
                               for what in ("goodput_bps", "ceiling_bps", "share"))
    most = stream_path(POLICIES["P2"], SCENARIOS["N2"]).udp_ceiling(load_medium("802.11b-long"),
                                                                    1400)
    assert most.bps == pytest.approx(load_medium("802.11b-long").udp_ceiling_bps(1400, 8))
    assert ceiling.value == pytest.approx(most.at_most_bps(2 * 980_000 / 1400, 2))
    assert share.value == pytest.approx(4.2e6 / ceiling.value)
    assert share.high is not None and goodput.high is not None
    assert share.high == pytest.approx(goodput.high / ceiling.value)
    assert number(table, 0, "processor_share").value == pytest.approx(1.5 / 4)
    assert table.rows[0][2].records == ("P2-N2-001", "P2-N2-002")
    assert table.rows[0][5].text == "emulator?"


@pytest.mark.parametrize(("environment", "says"), [
    ({"medium": None}, "No ceiling where no medium was emulated."),
    ({"medium": "/etc/ether.yml"}, "No ceiling on the medium '/etc/ether.yml'"),
    ({"digest": "other"}, "P2: no ceiling; the results folder does not say which layers")])
def test_what_is_not_known_has_no_ceiling(environment: dict[str, Any], says: str) -> None:
    """Names from records are never taken for paths; the goodput is shown all the same."""
    table = throughput_bounds.bounds_table(cells_of(*[fast("P2", k, **environment) for k
                                                      in (1, 2)]))
    assert any(note.startswith(says) for note in table.notes)
    assert table.rows[0][3] == Entry("-")
    assert number(table, 0, "udp_goodput_bps").value == 4e6
    assert table.rows[0][5].text in ("emulator", "processor")


def test_a_policy_and_a_medium_of_ones_own_are_in_the_manifest() -> None:
    """What does not come with the project is found where the run wrote it down."""
    policy, medium = with_ipsec("aes128gcm16"), dataclasses.replace(SHORT, name="mine")
    records = [fast(policy.id, k, digest=policy.digest(), medium="mine") for k in (1, 2)]
    manifest = manifest_of(records, [policy], media={"mine": to_json(medium)})
    table = throughput_bounds.bounds_table(Cells(results_of(*records, manifest=manifest)))
    mean_bps = 1400 * 8e6 / SHORT.airtime_us(1484 + 8)
    assert mean_bps < number(table, 0, "udp_ceiling_bps").value < 1.02 * mean_bps


def test_the_payload_is_what_was_asked_for() -> None:
    """Not what packet counts suggest: a run of small datagrams has its own ceiling."""
    records = [fast("P1", k, medium=SHORT.name) for k in (1, 2)]
    asked = {"udp_payload_bytes": 200}
    table = throughput_bounds.bounds_table(Cells(results_of(
        *records, manifest=manifest_of(records, asked=asked))))
    mean_bps = SHORT.udp_ceiling_bps(200)
    assert mean_bps < number(table, 0, "udp_ceiling_bps").value < 1.02 * mean_bps


def test_the_arithmetic_of_headers() -> None:
    """P12's datagram: 1400 + 28 + 52 of ESP + 8 of WEP; 1552 bytes between agents, as captured."""
    table = throughput_bounds.arithmetic_table(SHORT, 1400, (SCENARIOS["N2"], SCENARIOS["R1"]))
    row = [row[0].text for row in table.rows].index("P12")
    found = {key: number(table, row, key).value for key in
             ("cipher_bytes", "esp_bytes", "packet_bytes", "frame_bytes", "wire_bytes",
              "tcp_segment_bytes")}
    assert found == {
        "cipher_bytes": 8, "esp_bytes": 52, "packet_bytes": 1480,
        "frame_bytes": 1480 + 8 + 28 + 8, "wire_bytes": 1552, "tcp_segment_bytes": 1394}
    assert number(table, row, "airtime_s").value == pytest.approx(SHORT.airtime_us(1496) / 1e6)

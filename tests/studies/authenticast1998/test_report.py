"""The report: every figure, table and claim of the study, from records made up after its model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import analysis
import studies
from analysis.present.page import save_report as write_report
from analysis.present.report import Report
from harness.engine.request import RunRequest, build_plan
from measure.records.record import CheckRecord, Record, StudyRecord, write_record
from studies import records as stored
from studies.authenticast1998 import cells, measurements
from studies.authenticast1998.cells import Disturbance
from studies.authenticast1998.measurements import ClientRecord, Measurements
from studies.authenticast1998.report import claims, comparisons

STUDY = studies.load_study("authenticast1998")
#: Every cell: the profile `paper` leaves out what has a profile of its own.
PLAN = build_plan(RunRequest(STUDY, profile="paper", levels={"load": list(cells.DISTURBANCES)}),
                  {})
SENT = 1000
#: Retention and exposure by heuristic: those of one client, as the paper has them.
RETENTION = {"delayed": 0.5, "adaptive-1998": 1.0, "adaptive-limit-150": 0.9, "p100": 0.25,
             "adaptive-gradual": 0.8}
EXPOSED = {"adaptive-1998": 0.2, "adaptive-gradual": 0.8}
#: Packets a second by load, where the source is another one; one client in any case.
RATES = {"rate-19": 19.0, "rate-220": 220.0}
FATES = {"p20": (80, 20), "secret-key": (0, 100), "delayed": (0, 300), "tree-16": (0, 100),
         "tesla": (0, 100)}


def retained(heuristic: str, clients: int) -> float:
    """The share of the packets: full up to 21 % verified, more with more clients."""
    if heuristic[1:].isdigit() and clients == 5:
        return min(1.0, 0.21 / max(0.01, int(heuristic[1:]) / 100))
    return min(1.0, RETENTION.get(heuristic, 1.0) * (1 + (clients - 1) / 5))


def body(cell: dict[str, str], repetition: int) -> dict[str, Any]:
    """A record's body."""
    heuristic, clients = cell["heuristic"], int(cell["clients"])
    # Repetitions differ by a packet or two.
    processed = min(SENT, round(SENT * retained(heuristic, clients)) + repetition % 2)
    passed, lost = FATES.get(heuristic, (0, 0)) if cell["load"] == "tampered" else (0, 0)
    one = ClientRecord(
        name="c1", sent=SENT, arrived=SENT, processed=processed, verified=processed,
        lost={"air": 20, "handoff": 16 * (cell["scenario"] == "R1"), "shed": 0, "late": 0,
              "failed": lost, "bundle_failed": 0, "bundle_incomplete": 0, "buffer": 0},
        altered=110 if lost or passed else 0, altered_settled=100 if lost or passed else 0,
        altered_processed=passed, bytes_processed=1400 * processed, duration_s=10.0,
        delay_median_s=0.01, delay_p99_s=0.02, exposure_s=0.0, below_floor_s=0.0,
        max_gap_packets=80, signatures_verified=10, sent_pps=RATES.get(cell["load"], 117.0))
    measured = Measurements(
        schema=1, seed=repetition, retention_share=processed / SENT, stream_goodput_bps=1e6,
        delay_median_s=0.01, delay_p99_s=0.02, level_share=0.5,
        exposure_share=EXPOSED.get(heuristic, 0.0) + repetition / 1000,
        sent_pps=117 - 10 * clients + repetition / 100,
        max_gap_packets=150 if heuristic == "adaptive-limit-150" else 80, clients=[one], changes=[],
        handoff_s=0.125 if cell["scenario"] == "R1" else None, lost_runs=[],
        gap_packets=[(0.0, 1.0), (1.0, 90.0)],
        level_now_share=[(0.0, 1.0), (1.0, 0.1)], retained_share=[(0.0, 1.0), (1.0, 0.9)])
    return measured.model_dump(mode="json", by_alias=True)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of all cells of the profile `paper`."""
    folder = tmp_path_factory.mktemp("run")
    for repetition in (1, 2, 3):
        for cell in PLAN.cells:
            write_record(Record(
                schema=2, study=StudyRecord(id=STUDY.id, version=1), cell=cell.ids,
                repetition=repetition, status="ok", reason="", digests={}, asked={},
                measured=body(cell.ids, repetition),
                evidence=[CheckRecord(check="no packet arrives twice", ok=True, detail="0")],
                environment={"clock": "virtual", "machine": "guest"}, captures=[],
                raw={"stamps": {"start": 1000.0}}), folder / "records")
    results = analysis.load(folder, STUDY, PLAN.manifest, stored.read_record)
    made: Report = STUDY.report(results, {})
    write_report(made, folder)
    assert (folder / "report.html").stat().st_size > 100_000
    return made


def test_every_figure_is_there(report: Report) -> None:
    """Figures 3 to 9; each metric of Fig. 4 has a panel of its own."""
    figures = {figure.id: figure for section in report.sections for figure in section.figures}
    assert {"fig-3", "fig-4", "fig-5", "fig-6", "fig-7-8-9"} <= figures.keys()
    assert [panel.title for panel in figures["fig-4"].panels] == [
        "Retention", "Goodput", "99th percentile of the delay"]
    assert len(figures["fig-7-8-9"].panels) == 3


def test_figures_are_described_by_what_is_drawn(report: Report) -> None:
    """What came out is for the numbers to say: with other settings or devices it is another."""
    drawn = [figure for section in report.sections for figure in section.figures]
    assert [figure.id for figure in drawn if not figure.describes.startswith("Line")] == []


def test_table_1_is_of_what_was_measured(report: Report) -> None:
    """Level and loss risk come from altered packets, non-repudiation from what signs."""
    table = next(table for table in report.tables if table.id == "table-1")
    rows = {row[0].text: [entry.text for entry in row[1:]] for row in table.rows}
    assert rows["by percentage"] == ["yes", "0.20", "low", "20 % (16 to 25)", "240 of 300",
                                     "0 to 100 %"]
    assert rows["delayed"][:2] == ["yes", "3.00"]
    assert rows["secret key"][:2] == ["no", "1.00"]
    assert {table.id for table in report.tables} >= {
        "beside-idle", "beside-half", "beside-most", "beside-loss", "beside-flood", "on-air",
        "rates", "fair-signing"}


def entries(report: Report, table: str, row: int = 0) -> dict[str, float | str]:
    """A row of a table by the keys of its columns: numbers, or words where there is none."""
    made = next(each for each in report.tables if each.id == table)
    return {column.key: entry.number.value if entry.number else entry.text
            for column, entry in zip(made.columns, made.rows[row], strict=True)}


def test_losses_on_the_air_are_told_by_where(report: Report) -> None:
    """A row a policy, scenario and heuristic; a handoff's losses are its own."""
    rows = [entries(report, "on-air", row) for row in range(24)]
    roaming = [row for row in rows if row["scenario"] == "R1"]
    assert len(roaming) == 12
    assert {row["lost_handoff_packets"] for row in roaming} == {16}
    assert {row["handoff_s"] for row in roaming} == {0.125}
    assert {row["lost_air_packets"] for row in rows} == {20}
    assert {row["lost_handoff_packets"] for row in rows if row["scenario"] == "N2"} <= {0, "0"}


def test_controllers_stand_beside_what_could_be_had(report: Report) -> None:
    """Verified of sent is level and retention in one; nobody could have verified more."""
    half = entries(report, "beside-half")
    assert half["heuristic"] == "p15"
    assert half["clairvoyant_share"] == 1.0
    assert entries(report, "beside-loss")["clairvoyant_share"] == pytest.approx(0.98)
    assert entries(report, "rates", 2)["heuristic"] == "tree-16"


def test_where_the_blend_wins_is_said(report: Report) -> None:
    """By paired differences in retention and in what is verified; only what varies is undecided."""
    table = next(each for each in report.tables if each.id == "blend")
    rows = {(row[0].text, row[1].text): row for row in table.rows}
    retained, words = rows["idle", "delayed"][2].number, rows["idle", "delayed"][4].text
    assert retained is not None
    assert retained.value == pytest.approx(0.5, abs=0.01)
    assert words == "wins in retention, wins in what is verified"
    assert rows["half", "delayed-8"][4].text.startswith("undecided")
    assert ("flood", "tree-16") in rows and ("flood", "lyapunov") in rows


def test_shares_stand_beside_those_that_are_fair(report: Report) -> None:
    """Max-min fair shares of the server's 426 signatures a second, weighted and not."""
    even, weighted = (entries(report, "fair-signing", row) for row in (0, 1))
    assert even["first_at_most_pps"] == even["others_at_most_pps"] == pytest.approx(84.7, abs=0.2)
    assert weighted["first_at_most_pps"] == pytest.approx(116.8, abs=0.2)
    assert weighted["others_at_most_pps"] == pytest.approx(76.7, abs=0.2)


@pytest.mark.parametrize(("capacity", "weights", "shares"), [
    (30.0, [1.0, 1.0, 1.0], [10.0, 10.0, 10.0]), (60.0, [1.0, 1.0, 1.0], [10.0, 20.0, 30.0]),
    (30.0, [1.0, 2.0, 2.0], [6.0, 12.0, 12.0]), (100.0, [1.0, 5.0, 1.0], [10.0, 20.0, 30.0]),
    (0.0, [1.0, 1.0, 1.0], [0.0, 0.0, 0.0])])
def test_max_min_fairness(capacity: float, weights: list[float], shares: list[float]) -> None:
    """Three that ask for 10, 20 and 30: nobody gets more, what is left is shared by weight."""
    assert comparisons.max_min_shares(capacity, [10.0, 20.0, 30.0],
                                      weights) == pytest.approx(shares)


ASKED = {"delay_bound_ms": 1000.0, "packet_ms": 1.0, "payload_bytes": 1400, "buffer_packets": 100,
         "frames": 300, "load_from_s": 2.0, "load_to_s": 6.0}
WORK = {"sha1": {"bytes_per_s": 7.1e6}, "dsa-512-verify": {"seconds": 0.05}}


@pytest.mark.parametrize(("share", "rate_pps", "at_most"), [
    # Nothing stolen; half stolen, which groups of a second's packets make good.
    (0.0, 100.0, 1.0), (0.5, 100.0, 1.0),
    # 4 s at a hundredth of 588 packets/s: 400 - 24 sent there wait, for whom there is room of 200.
    (0.99, 100.0, 1 - 176.5 / 1001),
    # More than even groups let the processor do: 802 of 1000 each second, and room for 1100.
    (0.0, 1000.0, 1 - (198 * 10 - 1100) / 10_000)])
def test_the_clairvoyant_bound(share: float, rate_pps: float, at_most: float) -> None:
    """Arrivals less what neither processor nor room can take."""
    load = Disturbance("", share=share)
    client = comparisons.receiver_capacity(ASKED, WORK, rate_pps)
    assert comparisons.verified_at_most(load, ASKED, client) == pytest.approx(at_most, abs=0.02)


@pytest.mark.parametrize("claim", ["A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8"])
def test_every_claim_is_judged(report: Report, claim: str) -> None:
    """Where a run is as the paper says, its claim is confirmed."""
    verdict = next(verdict for verdict in report.claims if verdict.id == claim)
    assert verdict.verdict == "confirmed", (verdict.figure, verdict.evidence)


def test_lost_packets_are_told_by_runs() -> None:
    """First and last number of each run; none where nothing was lost."""
    sent = [(7, number) for number in range(10)]
    assert measurements.lost_runs(sent, {(7, 0), (7, 3), (7, 9)}) == [(1, 2), (4, 8)]
    assert measurements.lost_runs(sent, set(sent)) == []


def test_fates_are_steps() -> None:
    """A packet is retained or not; a run of lost ones is a step down, and up behind it."""
    assert measurements.packet_fates([(2, 3)], 6) == [(0, 1), (2, 1), (2, 0), (4, 0), (4, 1),
                                                      (6, 1)]


def test_time_is_that_of_the_packets() -> None:
    """Reports belong to the packet sealed before them, retention to the second of sealing."""
    sent_ns = {(7, number): number * 400_000_000 for number in range(5)}
    events = [{"event": "report", "client": "c1", "sent": 0, "delta": 9},
              {"event": "report", "client": "c2", "sent": 1, "delta": 9},
              {"event": "report", "client": "c1", "sent": 3, "delta": 2}]
    assert measurements.reported_values(events, "c1", sent_ns, "delta") == [(0.8, 2.0)]
    assert measurements.retention_by_second(sent_ns, {(7, 0), (7, 1), (7, 4)}) == [
        (0.0, pytest.approx(2 / 3)), (1.0, 0.5)]


def test_the_claims_are_those_of_the_paper(report: Report) -> None:
    """Eight of them, in its order, each with the place that it stands at."""
    assert [verdict.id for verdict in report.claims] == [f"A{number}" for number in range(1, 9)]
    assert all(verdict.where for verdict in report.claims)


def test_where_the_curve_bends() -> None:
    """Between the levels that enclose 99 %, of many curves at once; a later rise does not count."""
    curves = np.array([
        [1.0, 1.0, 0.94, 0.8],  # between 20 and 25 %
        [1.0, 0.98, 1.0, 0.8],  # between 15 and 20 %
        [0.9, 0.8, 0.7, 0.6],  # before the first level
        [1.0, 1.0, 1.0, 1.0]])  # nowhere
    assert claims.knee_share(curves) == pytest.approx([0.20 + 0.05 / 6, 0.175, 0.15, 0.30])
    assert float(claims.knee_share(curves[0])) == pytest.approx(0.20 + 0.05 / 6)

"""Policies stand at the utilization that was measured, beside a model of their own calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import analysis
import studies
from analysis.cells import Cells
from measure.records.record import Record, StudyRecord
from studies.eapload2004 import model, published
from studies.eapload2004.cells import NAMES, cell_ids, share_ids
from studies.eapload2004.measurements import (
    Measurements,
    OverloadRecord,
    SaturationRecord,
    SplitRecord,
)
from studies.eapload2004.model import BackgroundPrediction
from studies.eapload2004.report import figures, tables

STUDY = studies.load_study("eapload2004")
_SPLIT = SplitRecord(client_s=0.0, air_s=0.0, wire_s=0.6, server_s=0.0)


def record(row: Sequence[str], utilization: float, *, repetition: int = 1,
           clock: str = "virtual", **measured: Any) -> Record:
    """A proven repetition of a cell, at a utilization of its server."""
    body = Measurements(seed=1, service_time_s=0.63, service_p95_s=0.64, services_s=[0.62, 0.64],
                        round_trips=5, utilization_share=utilization, cycle_s=0.8,
                        # In real time the server is the machine's, unless it is said to have a
                        # device.
                        **{"split": _SPLIT, "demand_s": 0.0 if clock == "real" else 0.01,
                           **measured})
    return Record(schema_=2, study=StudyRecord(id=STUDY.id, version=STUDY.version),
                  cell=dict(zip(NAMES, row, strict=True)), repetition=repetition,
                  status="ok", reason="", digests={}, asked={}, evidence=[], captures=[],
                  environment={"clock": clock, "medium": "802.11g", "machine": "guest",
                               "fault": None}, measured=body.model_dump(mode="json"))


def cells(*records: Record) -> Cells:
    """What a report is made of."""
    return Cells(analysis.from_records(records, STUDY))


def calibrated(capacity_per_s: float, alone_s: float,
               rested_s: float | None = None) -> SaturationRecord:
    """What a cell measures before there is load."""
    return SaturationRecord(alone_s=alone_s, customers=16, capacity_per_s=capacity_per_s,
                            saturated_s=0.16, rested_s=rested_s)


@pytest.fixture
def measured() -> Cells:
    """The paper's policy at two loads, another at one, and a load beyond the capacity."""
    return cells(
        record(cell_ids(load="0"), 0.0, saturation=calibrated(100, 0.0105)),
        record(cell_ids(load="20"), 0.2, background_s=0.013),
        record(share_ids(50), 0.5, background_s=0.02, saturation=calibrated(100, 0.0105)),
        record(share_ids(50, key="rsa-2048"), 0.5, background_s=0.1,
               saturation=calibrated(20, 0.051)),
        record(share_ids(120), 0.99, background_s=3.0, offered_per_s=120.0, overload=OverloadRecord(
            growth=0.3, retransmitted=4, failed=2, refused=1)))


def test_each_policy_has_its_own_model(measured: Cells) -> None:
    """Its own demand and its own rest, at the same utilizations as any other's."""
    usual, longer = figures.policy_curves(measured)
    assert (usual.title, longer.title) == ("RSA-1024, TLS 1.2", "RSA-2048")
    assert sorted(at for at, _ in usual.background_s) == pytest.approx([0.2, 0.5])
    for policy, demand_s, rest_s in ((usual, 0.01, 0.0005), (longer, 0.05, 0.001)):
        assert [value.value for _, value in policy.modelled_s] == pytest.approx(
            [rest_s + demand_s / (1 - at) for at, _ in policy.modelled_s])


def test_an_overload_has_no_place_at_a_utilization(measured: Cells) -> None:
    """It is no point of the figure, and a row of its own table."""
    assert all(at < 0.9 for policy in figures.policy_curves(measured) for at, _
               in policy.background_s)
    paper = published.load_values()
    [over] = [table for table in tables.build_tables(measured, paper, {}, []) if table.id
              == "overload"]
    assert [entry.number.value for entry in over.rows[0][1:] if entry.number] == pytest.approx(
        [120.0, 0.99, 3.0, 0.3, 4, 2, 1])


def test_time_of_before_has_air_and_access_point_together() -> None:
    """Records of either kind are shown, in the table and step by step; nothing is made up."""
    spans = {"supplicant": [0.0, 0.02], "wire": [0.03, 0.15]}
    before = record(cell_ids(load="0"), 0.0,
                    waterfall_s=spans | {"air and access point": [0.02, 0.03]})
    now = record(cell_ids(load="50"), 0.5,
                 split=_SPLIT.model_copy(update={"authenticator_s": 0.002}),
                 waterfall_s=spans | {"air": [0.02, 0.025], "access point": [0.025, 0.03]})
    made = cells(before, now)
    [split] = [table for table in tables.build_tables(made, published.load_values(), {}, [])
               if table.id == "split"]
    column = [column.title for column in split.columns].index("access point")
    by_cell = {row[0].text: row[column].number for row in split.rows}
    without, with_it = (by_cell["-".join(cell_ids(load=load))] for load in ("0", "50"))
    assert without is None
    assert with_it is not None and with_it.value == pytest.approx(0.002)
    [drawn] = [figure for figure in figures.build_figures(made, published.load_values(), {})
               if figure.id == "waterfall"]
    assert [[bars["name"] for bars in panel.data] for panel in drawn.panels] == [
        ["supplicant", "air and access point", "wire"], ["supplicant", "air", "access point",
                                                         "wire"]]


def test_each_point_says_whether_it_is_equivalent() -> None:
    """Where the interval of measured / modelled decides; of too few arrivals nothing is said."""
    rng = np.random.default_rng(1)

    def point(title: str, off: float, count: int = 20,
              utilization: float = 0.5) -> BackgroundPrediction:
        parts = tuple((each * off, each) for each in rng.normal(0.02, 0.0001, count))
        return BackgroundPrediction(title, float(title), utilization, 0.02, 0.04, 0.02 * off,
                                    0.04 * off,
                                    parts, parts)

    points = [point("20", 1.001), point("50", 1.2), point("25", 1.001, 0),
              point("80", 1.001, utilization=0.9)]
    idle = cells(record(cell_ids(load="0"), 0.0))
    [made] = [table for table in tables.build_tables(idle, published.load_values(), {}, points)
              if table.id == "model"]
    outcomes = [index for index, column in enumerate(made.columns)
                if column.key.startswith("equivalent")]
    assert [[row[index].text for index in outcomes] for row in made.rows] == [
        ["confirmed"] * 2, ["refuted"] * 2, ["-"] * 2, ["-"] * 2]
    assert "beyond 85 %" in made.rows[3][outcomes[0]].note
    assert "too few" in made.rows[2][outcomes[1]].note


def test_the_generators_lateness_is_told() -> None:
    """In time and beside the mean; what one costs only where computing takes time."""
    made = cells(record(cell_ids(load="20"), 0.2, background_s=0.01, offered_per_s=20.0,
                        lateness_s=0.00005, lateness_p99_s=0.0001, generator_processor_s=0.0))
    [table] = [table for table in tables.build_tables(made, published.load_values(), {}, [])
               if table.id == "generator"]
    assert [entry.number.value for entry in table.rows[0] if entry.number] == pytest.approx(
        [20.0, 0.00005, 0.0001, 0.005])


def test_the_figure_has_all_policies_on_one_axis(measured: Cells) -> None:
    """Measured and modelled curves of each, by the utilization of its server in per cent."""
    [drawn] = [figure for figure in figures.build_figures(measured, published.load_values(), {})
               if figure.id == "utilization"]
    names = {curve["name"] for curve in drawn.panels[1].data}
    assert names == {"RSA-1024, TLS 1.2", "RSA-1024, TLS 1.2, modelled", "RSA-2048",
                     "RSA-2048, modelled"}
    assert all(max(curve["x"]) <= 90 for curve in drawn.panels[1].data)


def test_every_repetition_is_predicted() -> None:
    """They stand one behind the other: a customer of one meets nobody of another."""
    once = {"background_s": 0.012, "rate_per_s": 20.0, "arrivals_s": [0.0, 1.0, 3.0],
            "latencies_s": [0.0105, 0.0105, 0.0105], "meetings_s": [2.0, 1.5]}
    # Two who come at once share the server.
    again = {**once, "arrivals_s": [0.0, 0.0, 5.0], "latencies_s": [0.0205, 0.0205, 0.0105]}
    made = cells(record(cell_ids(load="0"), 0.0, saturation=calibrated(100, 0.0105)),
                 record(cell_ids(load="20"), 0.2, **once),
                 record(cell_ids(load="20"), 0.2, **again, repetition=2))
    [predicted] = model.predict_background(made)
    assert predicted.utilization == pytest.approx(6 / (3.0 + 5.0) / 100)
    mean_s = (4 * 0.0105 + 2 * 0.0205) / 6
    assert (predicted.response_s, predicted.measured_s) == pytest.approx((mean_s, mean_s))


def test_the_supplicant_comes_for_each_part_of_its_demand() -> None:
    """Who comes while the server checks its signature waits for that, and for no more."""
    demands = {"demands_s": {"server": [0.00003, 0.009, 0.00003, 0.001]}}
    # One in the background alone; one as the supplicant asks for its tenth, sharing the processor.
    loaded = {"background_s": 0.012, "rate_per_s": 20.0, "arrivals_s": [0.0, 1.5],
              "latencies_s": [0.0105, 0.0115], "meetings_s": [1.0]}
    alone = record(cell_ids(load="0"), 0.0, saturation=calibrated(100, 0.0105), **demands)
    asked_s = [[0.9], [1.0], [1.4], [1.5]]
    [made] = model.predict_background(cells(alone, record(cell_ids(load="20"), 0.2, **loaded,
                                                          asked_s=asked_s)))
    assert made.response_s == pytest.approx((0.0105 + 0.0115) / 2)
    # Records that do not say when, or for how much: all of it at once, when it asked for most.
    [before] = model.predict_background(cells(alone, record(cell_ids(load="20"), 0.2, **loaded)))
    assert before.response_s == pytest.approx(0.0105)


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_in_real_time_one_processor_has_to_be_warm_and_does_the_supplicants_work(
        clock: str) -> None:
    """Who finds nobody takes 2 ms more; who comes while the supplicant computes waits for it.

    In virtual time each has a processor of its own, which is always as quick.
    """
    demands = {"demands_s": {"server": [0.01], "supplicant": [0.02]}}
    alone = record(cell_ids(load="0"), 0.0, clock=clock, saturation=calibrated(100, 0.0105),
                   **demands)
    # The first comes to an idle server; the second while the supplicant computes for 20 ms, half a
    # round trip before it asks.
    loaded = record(share_ids(50), 0.5, clock=clock, background_s=0.012, rate_per_s=20.0,
                    arrivals_s=[0.0, 2.0 - 0.06 - 0.02 + 0.001], latencies_s=[0.0125, 0.0205],
                    meetings_s=[2.0], asked_s=[[2.0]],
                    saturation=calibrated(100, 0.0105, rested_s=0.0125))
    [made] = model.predict_background(cells(alone, loaded))
    took_s = (0.0125, 0.0205) if clock == "real" else (0.0105, 0.0105)
    assert made.response_s == pytest.approx(sum(took_s) / 2)


def test_in_real_time_devices_are_as_in_virtual_time() -> None:
    """Nobody is in the way of who computes on a device of its own; who comes at once shares it.

    Its demand is what it was busy for, not what so few came to a second while it rested, too.
    """
    demands = {"demands_s": {"server": [0.01], "supplicant": [0.02]}, "demand_s": 0.01}
    said = calibrated(80, 0.0105).model_copy(update={"busy_s": 0.01})
    alone = record(cell_ids(load="0"), 0.0, clock="real", saturation=said, **demands)
    loaded = record(share_ids(50), 0.5, clock="real", background_s=0.012, rate_per_s=20.0,
                    arrivals_s=[0.0, 1.0, 2.0 - 0.06 - 0.02 + 0.001, 2.0],
                    latencies_s=[0.0105, 0.0105, 0.0105, 0.0205], meetings_s=[2.0],
                    asked_s=[[2.0]], saturation=said, demand_s=0.01)
    [made] = model.predict_background(cells(alone, loaded))
    assert made.response_s == pytest.approx((3 * 0.0105 + 0.0205) / 4)


def test_in_real_time_the_generator_goes_before_the_server() -> None:
    """Its 4 ms interrupt the server's 6; who finds nobody takes 2 ms more, and each waits 0.5 ms.

    The second comes 1 ms after the first, whose first step takes 6 ms: it has 4 until 10, then the
    first one's 6 until 16, its own until 22.
    """
    said = calibrated(100, 0.0105).model_copy(update={
        "steps_s": [0.0041, 0.00615], "paused_s": [0.5, 1.0], "rests_s": [0.0115, 0.0125]})
    alone = record(cell_ids(load="0"), 0.0, clock="real", saturation=said,
                   demands_s={"server": [0.01], "supplicant": []})
    loaded = record(share_ids(50), 0.5, clock="real", background_s=0.012, rate_per_s=20.0,
                    arrivals_s=[0.0, 0.001], latencies_s=[0.0165, 0.0215], meetings_s=[9.0],
                    asked_s=[[9.0]], saturation=said, saturation_after=said)
    [made] = model.predict_background(cells(alone, loaded))
    assert made.response_s == pytest.approx((0.0165 + 0.0215) / 2)
    assert made.drift == pytest.approx(0)


def test_a_machine_that_becomes_slower_is_taken_at_its_mean() -> None:
    """One authentication alone, by 10 ms of demand before the load and by 12 after it."""
    before, after = (calibrated(1 / demand_s, demand_s + 0.0005).model_copy(update={
        "steps_s": [0.5 * demand_s] * 2, "paused_s": [1.0], "rests_s": [demand_s + 0.0005]})
        for demand_s in (0.01, 0.012))
    alone = record(cell_ids(load="0"), 0.0, clock="real", saturation=before,
                   demands_s={"server": [0.01], "supplicant": []})
    loaded = record(share_ids(50), 0.5, clock="real", background_s=0.0115, rate_per_s=20.0,
                    arrivals_s=[0.0, 1.0], latencies_s=[0.0115] * 2, meetings_s=[9.0],
                    asked_s=[[9.0]], saturation=before, saturation_after=after)
    [made] = model.predict_background(cells(alone, loaded))
    assert made.response_s == pytest.approx(0.0115)
    assert made.drift == pytest.approx(0.2)


def test_in_real_time_each_repetition_is_predicted_by_its_own_calibration() -> None:
    """A machine that is half as quick in the second repetition is so in what is predicted of it."""
    quick, slow = (calibrated(1 / demand_s, demand_s + 0.0005).model_copy(update={
        "steps_s": [0.5 * demand_s] * 2, "paused_s": [1.0], "rests_s": [demand_s + 0.0005]})
        for demand_s in (0.01, 0.02))
    once = {"clock": "real", "background_s": 0.02, "rate_per_s": 20.0, "arrivals_s": [0.0, 1.0],
            "meetings_s": [9.0], "asked_s": [[9.0]]}
    made = cells(
        record(cell_ids(load="0"), 0.0, clock="real", saturation=quick,
               demands_s={"server": [0.01], "supplicant": []}),
        record(share_ids(50), 0.5, saturation=quick, saturation_after=quick,
               latencies_s=[0.0105] * 2, **once),
        record(share_ids(50), 0.5, saturation=slow, saturation_after=slow,
               latencies_s=[0.0205] * 2, **once, repetition=2))
    [predicted] = model.predict_background(made)
    assert predicted.response_s == pytest.approx((0.0105 + 0.0205) / 2)
    assert predicted.p95_s == pytest.approx(0.0205)
    assert predicted.utilization == pytest.approx((2 * 0.01 + 2 * 0.02) / 2.0)


def test_a_load_of_hardly_anybody_is_not_predicted() -> None:
    """One who comes alone has no rate; where nobody came, the model is without that load."""
    idle = record(cell_ids(load="0"), 0.0, saturation=calibrated(100, 0.0105))
    one = record(cell_ids(load="1"), 0.0, background_s=0.0105, rate_per_s=1.0, arrivals_s=[3.0],
                 latencies_s=[0.0105], meetings_s=[2.0])
    none = record(cell_ids(load="4"), 0.0, rate_per_s=4.0, meetings_s=[2.0])
    two = record(cell_ids(load="5"), 0.0, background_s=0.0105, rate_per_s=5.0,
                 arrivals_s=[2.0, 3.0],
                 latencies_s=[0.0105] * 2, meetings_s=[2.5])
    made = cells(idle, one, none, two)
    assert [each.title for each in model.predict_background(made)] == ["5"]
    [points] = model.build_model(made).measured.values()
    assert [point.load for point in points] == [1.0, 5.0]

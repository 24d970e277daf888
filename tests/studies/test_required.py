"""Tests of what is required of a repetition: each study's metrics by cell, and their absence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

import studies
from measure.records.record import CheckRecord
from studies import study
from studies.study import Cell, Clock, Judgement, Metric, Repetition, Settings, Study

PROVEN = (CheckRecord(check="made up", ok=True, detail="by this test"),)


class Body(BaseModel):
    """A body with one value that may be anything."""

    delay_s: Any = 1.0


class Timed(Study):
    """A study of two metrics, one of them only where it is asked for by the clock."""

    id: ClassVar[str] = "timed"
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("delay_s", "delay"), Metric("work_s", "work"))

    def __init__(self, verdict: Judgement) -> None:
        self._verdict = verdict

    def required_metrics(self, cell: Cell, asked: Settings,
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the work only where the clock counts it."""
        return self.metrics if clock == "processor" else self.metrics[:1]

    def judge(self, repetition: Repetition) -> Judgement:
        """Return what the test says."""
        return self._verdict


def judged(verdict: Judgement, clock: Clock = "virtual", fault: str = "") -> Judgement:
    """Judge a repetition of the made-up study."""
    return study.judge_repetition(Timed(verdict),
                                  Repetition(Cell({}), Settings(), Path(), {}, clock, fault))


def test_repetition_with_all_that_is_required_stays_ok() -> None:
    """A value that is measured is no reason to fail; 0 is measured."""
    for value in (1.0, 0, 3):
        assert judged(Judgement(Body(delay_s=value), PROVEN)).status == "ok"


@pytest.mark.parametrize("value", [None, math.nan, math.inf, "1.0", True])
def test_required_metric_without_a_number_fails_the_repetition_with_its_cause(value: Any) -> None:
    """Null, NaN, text and truth are no measurement, and the judge's cause is in the reason."""
    verdict = judged(Judgement(Body(delay_s=value), PROVEN, causes={"delay_s": "nothing arrived"}))
    assert verdict.status == "failed"
    assert verdict.reason == "not measured: delay (nothing arrived)"


def test_repetition_without_a_body_lacks_every_required_metric() -> None:
    """A judge that measured nothing and says ok is not believed."""
    assert "not measured: delay (" in judged(Judgement(None, PROVEN)).reason


def test_metric_is_required_where_the_study_says_so() -> None:
    """What another clock counts is not required by this one."""
    assert judged(Judgement(Body(), PROVEN), "virtual").status == "ok"
    assert judged(Judgement(Body(), PROVEN), "processor").reason.startswith("not measured: work (")


def test_failed_repetitions_and_negative_controls_keep_their_own_verdict() -> None:
    """A reason that is there stays alone, and a control may take a metric away."""
    lacking = Body(delay_s=None)
    assert judged(Judgement(lacking, PROVEN, "broken")).reason == "broken"
    assert judged(Judgement(lacking, PROVEN, is_skipped=True)).status == "skipped"
    assert judged(Judgement(lacking, PROVEN), fault="a control").status == "ok"


def test_a_study_that_says_nothing_requires_all_its_metrics() -> None:
    """The contract's own answer is the strict one."""
    study = studies.load_study("authenticast1998")
    assert study.required_metrics(Cell({}), study.settings_type(), None) == study.metrics


def _names(study: Study, levels: Mapping[str, str], clock: Clock | None = None,
           **asked: Any) -> set[str]:
    """Return the names of the metrics that a study requires of a cell of its own levels."""
    read = {factor.name: next(iter(factor.read([levels[factor.name]], [])))
            if factor.name in levels else next(iter(factor.read([], [])))
            for factor in study.factors}
    return {metric.name for metric in study.required_metrics(
        Cell(read), study.settings_type.model_validate(asked), clock)}


def test_qop2007_requires_both_streams_everywhere_and_handoffs_where_the_node_moves() -> None:
    """What is lost over a move is required only where a stream goes over it."""
    study = studies.load_study("qop2007")
    streams = {"authentication_time_s", "tcp_goodput_bps", "udp_goodput_bps"}
    assert _names(study, {"policy": "P1", "scenario": "N2"}) == streams
    assert _names(study, {"policy": "P1", "scenario": "R1"}) == streams | {"handoff_s"}
    assert _names(study, {"policy": "P1", "scenario": "R1"}, move_stream_ms=5) == streams | {
        "handoff_s", "outage_s", "outage_lost_packets"}


def test_other_studies_require_what_their_cells_can_have() -> None:
    """Each metric of a study is required in some cell, or by some clock, and not in every one."""
    hall = studies.load_study("lecturehall")
    assert "handshake_mean_s" not in _names(hall, {"policy": "P1"})
    assert "handshake_mean_s" in _names(hall, {"policy": "M2"})
    krb = studies.load_study("krb5today")
    assert {"kdc_s", "client_s"} <= _names(krb, {}, "processor")
    assert not {"kdc_s", "client_s", "away_login_s"} & _names(krb, {}, "virtual")
    eap = studies.load_study("eapload2004")
    assert "background_s" in _names(eap, {"load": "5"}, "virtual")
    assert "background_s" not in _names(eap, {"load": "0"}, "virtual")
    assert "capacity_per_s" in _names(eap, {"load": "0", "share": "50"}, "real")
    kerberos = studies.load_study("kerberos2002")
    assert "transaction_s" in _names(kerberos, {})


def test_adp1987_requires_establishment_of_protocols_that_have_one() -> None:
    """Datagrams without protection establish nothing, and paced traces have no throughput."""
    study = studies.load_study("adp1987")
    nominal = {"trace": "ALL", "technology": "HW", "protocol": "1987", "rate": "1"}
    assert _names(study, nominal) >= {"throughput_bytes_per_s", "latency_s", "establishment_s",
                                      "utilisation_share"}
    assert "throughput_bytes_per_s" not in _names(study, {**nominal, "rate": "2"})
    bare = _names(study, {**nominal, "technology": "real", "protocol": "none"})
    assert "establishment_s" not in bare
    assert "messages_per_processor_s" in bare

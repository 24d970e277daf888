"""The report on made-up records: what logins cost, what is sent again, and the model's answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import studies
from analysis import results as loading
from analysis.present import page, terminal
from analysis.present.report import Report
from analysis.table import Table
from harness.engine.request import RunRequest, build_plan
from measure.records.record import CheckRecord, Record, StudyRecord
from studies.krb5today import cells
from studies.krb5today.measurements import Measurements
from studies.krb5today.mechanisms import LOADED, MECHANISMS
from studies.krb5today.model import LoginDemand

STUDY = studies.load_study("krb5today")
DEMAND = LoginDemand(kdc_s=0.009, delay_s=0.003)
#: Of what 2G has sent again.
AGAIN = {"default": 1.8, "tcp": 1.2}


def body(row: tuple[str, ...]) -> dict[str, Any]:
    """A login that is as the model says, and larger at 2G by what is sent again."""
    _, wire, transport, customers, *_ = row
    rate = DEMAND.login_rate(int(customers))
    size = 6000 * (AGAIN[transport] if wire == "2g" else 1.0)
    return Measurements(
        schema=1, logins=5, login_s=int(customers) / rate, logins_per_s=rate, kdc_s=DEMAND.kdc_s,
        client_s=0.02, round_trips=3, login_packets=16, login_bytes=size, repeated_requests=0,
        retransmitted_packets=0, login_times_s=[0.012], messages=[]).model_dump(by_alias=True)


def records() -> Iterator[Record]:
    """One repetition of every cell; ECDH is nowhere to be had."""
    for row in dict.fromkeys(cells.design_rows()):
        is_had = row[0] != "pkinit-ecdh"
        yield Record(
            schema_=2, study=StudyRecord(id=STUDY.id, version=STUDY.version),
            cell=dict(zip(cells.NAMES, row, strict=True)), repetition=1,
            status="ok" if is_had else "skipped", reason="" if is_had else "no ECDH here",
            digests={}, asked={}, captures=[], measured=body(row) if is_had else None,
            evidence=[CheckRecord(check="mechanism", ok=True, detail="made up")],
            environment={"medium": "", "clock": "processor", "machine": "guest", "fault": None})


@pytest.fixture(scope="module")
def report() -> Report:
    """The report on all of them."""
    manifest = build_plan(RunRequest(STUDY), {}).manifest
    return STUDY.report(loading.from_records(list(records()), STUDY, manifest), {})


def table(report: Report, name: str) -> Table:
    """A table of the report."""
    return next(table for section in report.sections for table in section.tables
                if table.id == name)


def numbers(of: Table, key: str) -> list[float]:
    """A column's numbers."""
    return [row[of.column_index(key)].number.value for row in of.rows
            if row[of.column_index(key)].number is not None]


def test_the_price_list_has_what_was_measured(report: Report) -> None:
    """Every mechanism but the one that is not to be had, with what a login takes."""
    prices = table(report, "table-prices")
    assert [row[0].text for row in prices.rows] == [
        mechanism.title for name, mechanism in MECHANISMS.items() if name != "pkinit-ecdh"]
    assert set(numbers(prices, "login_bytes")) == {6000.0}


def test_what_timers_add_is_against_the_same_login_near_by(report: Report) -> None:
    """Bytes at 2G over those at 10 Mbit/s, by the transport."""
    assert numbers(table(report, "table-timers"), "added_share") == pytest.approx([0.8, 0.2] * 3)


def test_loads_stand_beside_the_model(report: Report) -> None:
    """Loads that are as the model says show no error; capacity is one over the processor."""
    loads, capacity = table(report, "table-loads"), table(report, "table-capacity")
    assert len(loads.rows) == len(LOADED) * (len(cells.CUSTOMERS) - 1)
    assert numbers(loads, "model_error") == pytest.approx([0.0] * len(loads.rows), abs=1e-9)
    assert numbers(capacity, "capacity_per_s") == pytest.approx([1 / DEMAND.kdc_s] * len(LOADED))


def test_the_report_is_shown(report: Report) -> None:
    """Page and terminal take it as it is."""
    assert "fig-kdc" in page.render_page(report)
    for section in report.sections:
        for shown in section.tables:
            assert terminal.to_plain_text(shown, 120)

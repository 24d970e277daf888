"""The report on made-up records: the model is held against loads, and claims follow the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import studies
from analysis import results as loading
from analysis.present import page, terminal
from analysis.present.report import Report
from harness.engine.request import RunRequest, build_plan
from measure.records.record import CheckRecord, Record, StudyRecord
from studies.kerberos2002 import cells, published
from studies.kerberos2002.measurements import Measurements, VisitRecord
from studies.kerberos2002.model import Transaction
from studies.kerberos2002.variants import MOBILE, VARIANTS

STUDY = studies.load_study("kerberos2002")
PAPER = published.load_values()
PRIVATE_S, PUBLIC_S, MESSAGES_S, DELAY_S = 2.469, 0.125, 0.02, 0.02


def visits(protocol: str, servers: int, placement: str, speed: float) -> list[VisitRecord]:
    """Who computes how long, by public-key operations alone."""
    by_party = {"pkcross": {"kdc-l": (2, 3), "kdc-r": (1, 4), "app1": (0, 0)},
                "pktapp": {f"app{number}": (1, 4) for number in range(1, servers + 1)}
                if placement == "each" else {"app1": (servers, 4 * servers)}}.get(
        protocol, {"kdc-l": (1, 4), "app1": (0, 0)})
    if VARIANTS[protocol].proxy != "none":
        by_party = {**by_party, "proxy": (0, 1)}
    by_party = {"client": (2, 3), **by_party} if protocol != "pkcross" else by_party
    return [VisitRecord(party=party, name="PKINIT AS-REQ", visits=1,
                        service_s=(private * PRIVATE_S + public * PUBLIC_S + MESSAGES_S) / speed,
                        operations={"rsa-1024-private": private, "rsa-1024-public": public})
            for party, (private, public) in by_party.items()]


#: What section 6.4's guidelines are about.
COUNTED = dict.fromkeys(("proxy_keys", "proxy_parts", "parts", "own_messages", "kdc_made",
                         "key_holders"), 1.0)
#: What operations of Table I take on some machine.
HERE = dict.fromkeys(PAPER.table_1_s, 1e-4)


def body(row: tuple[str, ...], off: float) -> dict[str, Any]:
    """What a cell comes to by exact MVA, or another rate than that, the more so under load."""
    protocol, servers, _, speed, customers, placement, *_ = row
    parts = visits(protocol, int(servers), placement, float(speed))
    asked = Transaction({(one.party, one.name): (one.visits, one.service_s) for one in parts
                         if one.party != "client"}, DELAY_S)
    rate, took_s = asked.mean_performance(int(customers))
    if customers != "1":
        rate *= 1 + off * int(customers) / max(cells.CUSTOMERS)
    phases = dict.fromkeys(("pre_auth_s", "auth_s", "post_auth_s", "tgt_st_s"), 0.1) \
        if VARIANTS[protocol].way == "mobile" else {}
    return Measurements(
        schema=1, seed=1, transactions=1, transaction_s=took_s, transactions_per_s=rate,
        client_packets=10, client_bytes=4000, retransmitted_packets=0,
        transaction_times_s=[took_s] if customers == "1" else [took_s * 0.9, took_s * 1.1] * 20,
        predicted=phases, counted=COUNTED if phases else {}, visits=parts, messages=[],
        operations_here_s=HERE if row == cells.cell_ids("pkcross") else {},
        **phases).model_dump(by_alias=True)


def records(off: float) -> Iterator[Record]:
    """One repetition of every cell of the design."""
    for row in dict.fromkeys(cells.design_cells()):
        yield Record(
            schema_=2, study=StudyRecord(id=STUDY.id, version=STUDY.version),
            cell=dict(zip(cells.NAMES, row, strict=True)), repetition=1, status="ok", reason="",
            digests={}, asked={}, captures=[], measured=body(row, off),
            evidence=[CheckRecord(check="order", ok=True, detail="made up")],
            environment={"medium": "", "clock": "virtual", "machine": "guest", "fault": None})


def made(off: float) -> Report:
    """The report on a run whose loads are so much off the model."""
    manifest = build_plan(RunRequest(STUDY), {}).manifest
    return STUDY.report(loading.from_records(list(records(off)), STUDY, manifest), {})


@pytest.fixture(scope="module")
def right() -> Report:
    """The report on a run that is as the model says."""
    return made(0.0)


def test_claims_follow_the_numbers(right: Report) -> None:
    """All 14 have a verdict; by operations alone C7 holds and C3 does not, with a machine each."""
    words = {claim.id: claim for claim in right.claims}
    assert list(words) == [f"C{number}" for number in range(1, 15)]
    assert {words[name].verdict for name in ("C1", "C2", "C6", "C7", "C14")} == {"confirmed"}
    for name in ("C3", "C5"):  # for want of a shared machine, and for that alone
        assert words[name].verdict == "refuted"
        assert all(("a machine each" in line) >= ("not as" in line)
                   for line in words[name].evidence)
        assert any("on one machine" in line and ": as" in line for line in words[name].evidence)


def test_a_model_that_is_off_is_said_to_be() -> None:
    """Five per cent more throughput than the model says refutes the claim of three."""
    claim = next(claim for claim in made(0.05).claims if claim.id == "C1")
    assert claim.verdict == "refuted"


def test_the_worst_load_is_shown() -> None:
    """Of all fifteen loads the one stands on the claim that the model is furthest off at."""
    claim = next(claim for claim in made(0.02).claims if claim.id == "C1")
    assert claim.verdict == "confirmed"
    assert len(claim.evidence) == 15
    assert claim.figure.partition(", ")[2] == "32 customers: 2.0 % off"


def test_print_stands_beside(right: Report) -> None:
    """Table III has every printed figure, and the contradictions are among the facts."""
    tables = {table.id: table for section in right.sections for table in section.tables}
    assert {"table-1", "table-2", "table-3", "table-model", "table-combined",
            "table-mixed", "table-b1"} <= set(tables)
    assert [entry.number.value for row in tables["table-1"].rows for entry in row[2:3]
            if entry.number] == list(HERE.values())
    half_widths = [row[-1].number for row in tables["table-model"].rows]
    assert all(width is not None and 0 <= width.value < 0.1 for width in half_widths)
    printed = [entry.published for row in tables["table-3"].rows for entry in row[1:]]
    assert sorted(printed) == sorted(PAPER.table_3.values())
    against = tables["table-3-predicted"].rows
    assert len(against) == 24 and all(row[-1].number is not None for row in against)
    facts = dict(right.facts)
    assert all(f"I{number}:" in facts["Inconsistent in print"] for number in range(1, 11))


def test_figures_have_the_marks_of_the_text(right: Report) -> None:
    """Figure 6 has a line where curves are said to be stable, Figure 10 points in both panels."""
    drawn = {figure.id: figure for section in right.sections for figure in section.figures}
    assert [shape["x0"] for panel in drawn["fig-paper-6"].panels
            for shape in panel.layout["shapes"]] == [PAPER.stable_below_per_s] * 2
    printed = [[curve["y"][0] for curve in panel.data if "published" in curve["name"]]
               for panel in drawn["fig-paper-10"].panels]
    assert printed[0] == [PAPER.figure_10_s["2g_without"], PAPER.figure_10_s["2g_assist"]]
    assert len(printed[1]) == 1 and printed[1][0] > PAPER.figure_10_s["3g_penalty"]


def test_guidelines_are_answered_by_numbers(right: Report) -> None:
    """Each of section 6.4's four questions has its columns, of which no entry is a text."""
    tables = {table.id: table for section in right.sections for table in section.tables}
    rows = tables["table-questions"].rows
    assert len(rows) == len(MOBILE)
    assert all(entry.number is not None for row in rows for entry in row[1:])


def test_the_report_is_shown(right: Report) -> None:
    """Page and terminal take it as it is, with its own figures and no others."""
    html = page.render_page(right)
    drawn = [figure.id for section in right.sections for figure in section.figures]
    assert [name for name in drawn if not name.startswith(("fig-paper", "fig-surface",
                                                           "fig-distribution"))] == []
    assert all(f"fig-paper-{name}" in html for name in ("4-9", "5", "6", "10", "11"))
    for section in right.sections:
        for table in section.tables:
            assert terminal.to_plain_text(table, 120)


def test_where_the_conclusion_turns_is_measured(right: Report) -> None:
    """By operations, PKTAPP on machines of its own bears more; it is quicker for one server."""
    tables = {table.id: table for section in right.sections for table in section.tables}
    rows = tables["table-surface-measured"].rows
    assert len(rows) == len(cells.TURNING_WIRES) * len(cells.TURNING_SERVERS)
    assert {row[-1].text for row in rows} == {"PKTAPP"}
    assert {row[4].text for row in rows if row[1].number and row[1].number.value == 1} == {"PKTAPP"}

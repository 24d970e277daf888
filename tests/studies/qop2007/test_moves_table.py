"""Tests of the report's tables of moves: how each came about, and which ways there are."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.cells import Cells
from analysis.table import Table
from fabricated import STUDY, cells_of, make, manifest_of, results_of
from measure.records.record import Record
from policies import load_named
from studies.qop2007.measurements import OutageRecord
from studies.qop2007.report import moves
from studies.qop2007.report.basis import basis_from_run

OWN = [load_named(name) for name in ("M1", "M2", "M2-ft", "M5", "M8", "M10", "M11",
                                         "M15", "M15-new", "M16")]
FRAMES = {"authentication": (0.001, 2), "association": (0.001, 2)}


def moved(policy: str, scenario: str, gap_s: float, repetition: int = 1) -> Record:
    """A good repetition with a stream over its move."""
    digests = {"policy": load_named(policy).digest()}
    return make(policy, repetition, scenario=scenario, phases=FRAMES, digests=digests, outages={
        "up": OutageRecord(gap_s=gap_s, lost_packets=2).model_dump(),
        "down": OutageRecord(gap_s=gap_s / 2, lost_packets=1).model_dump()})


def tables_of(*records: Record) -> list[Table]:
    """The tables of moves of these records."""
    cells = cells_of(*records, own=OWN)
    return list(moves.move_tables(cells, basis_from_run(cells)))


def test_report_without_the_papers_policies_has_no_claims() -> None:
    """The page begins with what was measured; a run with P1 still has the paper's claims."""
    digests = {"policy": load_named("M5").digest()}
    records = [make("M5", number, scenario="campus-0ms", digests=digests) for number in (1, 2)]
    report = STUDY.report(results_of(*records, own=OWN), {})
    assert report.claims == () and report.beside == ()
    assert not any("claims" in line for line in report.summary)
    assert STUDY.report(results_of(*records, make("P1"), own=OWN), {}).claims


def test_each_move_says_how_its_link_and_layer_3_came_along() -> None:
    """By policy and scenario: in full or fast, within a subnet, by an agent or by its tunnel."""
    table, _ = tables_of(moved("P1", "R3", 0.02), moved("M2-ft", "R3", 0.01),
                         moved("M10", "R3", 0.02), moved("M11", "R3", 0.1),
                         moved("M8", "E1", 0.01), moved("M8", "R1", 0.06))
    link, network = ([column.key for column in table.columns].index(key)
                     for key in ("move_link", "move_network"))
    assert {(row[0].text, row[link].text, row[network].text) for row in table.rows} == {
        ("P1", "in full", "Mobile IP"),
        ("M2-ft", "fast transition, keys made by each", "Mobile IP"),
        ("M10", "in full", "WireGuard's own"), ("M11", "in full", "MOBIKE"),
        ("M8", "fast transition, keys pushed", "none needed"), ("M8", "in full", "Mobile IP")}


def test_ways_are_crossed_by_their_shortest_outage() -> None:
    """The worse direction of the quicker policy, with its name; a dash where none moves so."""
    _, crossed = tables_of(moved("P1", "R3", 0.03), moved("M5", "R3", 0.02),
                           moved("M11", "R3", 0.1))
    [row] = crossed.rows
    assert [column.title for column in crossed.columns] == [
        "Link", "none needed", "Mobile IP", "MOBIKE", "WireGuard's own", "QUIC's own",
        "Multipath TCP"]
    assert [row[0].text, row[2].detail, row[3].detail] == ["in full", "M5", "M11"]
    assert [entry.number.value if entry.number else None for entry in row[1:]] == [
        None, 0.02, 0.1, None, None, None]


def test_fast_transition_is_compared_with_the_same_policy_in_full() -> None:
    """Not with the quickest policy that authenticates in full, which may protect nothing."""
    _, crossed = tables_of(moved("P2", "E1", 0.012), moved("M2", "E1", 0.014),
                           moved("M5", "E1", 0.031), moved("M8", "E1", 0.011))
    assert [(row[0].text, row[1].detail) for row in crossed.rows] == [
        ("fast transition, keys pushed", "M8"), ("in full, the same otherwise", "M5")]


def test_layer_3_is_compared_over_one_link_layer() -> None:
    """OWE with each mechanism of layer 3, though WEP's registration was quicker."""
    _, crossed = tables_of(moved("P2", "R3", 0.05), moved("M1", "R3", 0.06),
                           moved("M10", "R3", 0.061), moved("M11", "R3", 0.16),
                           moved("M15", "R3", 0.03), moved("M15-new", "R3", 0.05),
                           moved("M16", "R3", 0.04))
    [row] = crossed.rows
    assert [entry.detail for entry in row[2:]] == [
        "M1", "M11", "M10", "M15", "M16"]


def test_frames_are_a_number() -> None:
    """Their mean over repetitions is shown as other numbers are."""
    table, _ = tables_of(moved("P1", "R1", 0.03), moved("P1", "R1", 0.03, repetition=2))
    at = [column.key for column in table.columns].index("move_frames")
    [row] = table.rows
    assert row[at].number is not None
    assert row[at].number.value == 4


def test_a_move_that_the_folder_does_not_describe_is_not_guessed() -> None:
    """Without the scenario's network, or the policy's layers, nobody says how its node moved."""
    records = [moved("M11", "R3", 0.1), moved("M11", "E1", 0.01)]
    levels = dict(manifest_of(records, own=OWN).levels)
    for factor, level in (("policy", "M11"), ("scenario", "R3")):
        bare = levels[factor][level].model_copy(update={"content": {}})
        plan = manifest_of(records, own=OWN).model_copy(update={
            "levels": levels | {factor: levels[factor] | {level: bare}}})
        cells = Cells(results_of(*records, own=OWN, manifest=plan))
        table, *crossed = moves.move_tables(cells, basis_from_run(cells))
        assert ("-", "-") in {(row[2].text, row[3].text) for row in table.rows}
        assert {entry.note for row in table.rows for entry in row[2:4] if entry.text == "-"} == {
            "the results folder does not say how the node moves"}
        assert [len(each.rows) for each in crossed] == ([1] if factor == "scenario" else [])


@pytest.mark.parametrize("changes", [
    {"network": 5}, {"network": {"nodes": {"a": {}}}}, {"roams_to": "nowhere"}], ids=str)
def test_a_scenario_of_another_version_is_not_guessed(changes: dict[str, Any]) -> None:
    """What the folder says of a network and is none as they are now is as good as nothing."""
    records = [moved("M11", "R3", 0.1)]
    plan = manifest_of(records, own=OWN)
    other = plan.levels["scenario"]["R3"]
    plan = plan.model_copy(update={"levels": {**plan.levels, "scenario": {
        "R3": other.model_copy(update={"content": other.content | changes})}}})
    cells = Cells(results_of(*records, own=OWN, manifest=plan))
    [table] = moves.move_tables(cells, basis_from_run(cells))
    assert [(row[2].text, row[3].text) for row in table.rows] == [("-", "-")]


def test_without_a_stream_there_is_no_table() -> None:
    """Nothing is said of moves over which nothing went."""
    assert tables_of(make("P1", scenario="R1")) == []

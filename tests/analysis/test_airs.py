"""Tests of the two airs: no table mixes contention with queues; plans know which is had where."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from analysis import NoResultsError
from analysis.circumstances import list_air_biases
from analysis.reporting.comparison import compare_runs
from analysis.reporting.run_table import describe_circumstances
from fabricated import cells_of, make, results_of
from guest import kernel
from harness.engine.recording import describe_circumstances as circumstances_of
from measure.records.record import Record
from plans import plan_of
from studies.qop2007.report.basis import basis_from_paper, basis_from_run
from studies.qop2007.report.paper_tables import (
    build_table_5,
    build_table_6,
    build_table_7,
    build_table_8,
)
from studies.qop2007.report.run_table import build_run_table


@pytest.fixture(autouse=True)
def _stock_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This machine has no module of the air."""
    monkeypatch.setattr(kernel, "LOADED_MODULE_VERSION", tmp_path / "none")


def of_air(air: str | None, records: Iterable[Record]) -> list[Record]:
    """The same records, said to be of an air; None leaves it unsaid, as records did before."""
    said = {} if air is None else {"air": air}
    return [record.model_copy(update={"environment": {
        **{name: value for name, value in record.environment.items() if name != "air"}, **said}})
        for record in records]


def test_records_of_two_airs_are_separated() -> None:
    """Most are kept, the others named; records that do not say it are of queues."""
    results = results_of(*of_air("dcf", [make("P1", 1), make("P1", 2)]),
                         *of_air(None, [make("P1", 3)]))
    assert results.air == "dcf" and list(results.frame["repetition"]) == [1, 2]
    assert "of another air (queue) and left out" in results.left_out
    assert "P1-N2-003" in results.left_out
    assert "(air: dcf)" in describe_circumstances(results)


def test_one_air_leaves_nothing_out() -> None:
    """The usual case, and what is without a medium stays with what has one."""
    records = of_air("dcf", [make("P1", 1), make("P1", 2)])
    without = records[1].model_copy(update={"environment": {
        **records[1].environment, "medium": None, "air": None}})
    for second in (records[1], without):
        results = results_of(records[0], second)
        assert results.left_out == "" and len(results.frame) == 2


def test_two_airs_are_not_compared() -> None:
    """Nor as if they were one, nor side by side."""
    runs = [results_of(*of_air(air, [make("P1", 1), make("P1", 2)])) for air in ("dcf", None)]
    with pytest.raises(NoResultsError, match="no table mixes airs"):
        compare_runs(*runs)


@pytest.mark.parametrize(("air", "said"), [("dcf", "was lower by 5 %"),
                                           ("queue", "is higher by 5 %")])
def test_tables_of_traffic_say_what_the_air_makes_of_them(air: str, said: str) -> None:
    """Tables 5 to 8 of a run: against the other air, and why. What the paper printed has none."""
    basis = basis_from_run(cells_of(*of_air(air, [make(policy, n) for policy in ("P1", "P2")
                                                  for n in (1, 2)])))
    for table in (build_table_5, build_table_6, build_table_7, build_table_8):
        [note] = [note for note in table(basis).notes if "hops on one channel" in note]
        assert said in note and "count down their backoffs" in note
        assert not any("hops on one channel" in note for note in table(basis_from_paper()).notes)
    varies = [any("Backoffs are drawn" in note for note in table(basis).notes)
              for table in (build_table_5, build_table_6, build_table_7, build_table_8)]
    assert varies == [air == "dcf", air == "dcf", False, False]


def test_only_the_guest_has_contention() -> None:
    """On the host, the same medium is one of queues, and the plan's digest tells the two apart."""
    guest, host = plan_of(), plan_of(on="host")
    airs = [{medium["air"] for medium in plan.manifest.media.values()} for plan in (guest, host)]
    assert airs == [{"dcf"}, {"queue"}]
    assert guest.digest != host.digest


def test_a_record_says_which_air_it_was() -> None:
    """What a run writes into each record's environment; records of two such runs share no table."""
    said = [circumstances_of(plan, next(iter(plan.all_steps())))
            for plan in (plan_of(), plan_of(on="host"))]
    assert [entry["air"] for entry in said] == ["dcf", "queue"]
    contended, in_turns = ([record.model_copy(update={"environment": {
        **record.environment, "medium": entry["medium"], "air": entry["air"]}})
        for record in (make("P1", 1), make("P1", 2))] for entry in said)
    assert results_of(*contended, *in_turns[:1]).air == "dcf"
    with pytest.raises(NoResultsError, match="no table mixes airs"):
        compare_runs(results_of(*contended), results_of(*in_turns))


def test_the_bias_of_queues_stands_beside_their_numbers() -> None:
    """With its size, by the medium of the plan; what stations contend for has none."""
    host, guest = plan_of(on="host"), plan_of()
    [said] = list_air_biases("queue", host.manifest)
    assert "was late by 0.52 ms" in said and "14 % at 256" in said
    assert list(list_air_biases("dcf", guest.manifest)) == [] == list(list_air_biases("", None))
    [unknown] = list_air_biases("queue", None)
    assert "was late, and times are too long" in unknown
    table = build_run_table(cells_of(*of_air("queue", [make("P1", 1), make("P1", 2)])))
    assert any("served its stations by queues" in note for note in table.notes)

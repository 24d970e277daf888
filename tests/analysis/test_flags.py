"""Tests of flagged repetitions: a column of the frame, counted and named wherever tables are."""

from __future__ import annotations

from pathlib import Path

import pytest

import results_folder
from analysis.present import latex, terminal
from analysis.present.export import to_markdown
from analysis.reporting.comparison import compare_runs
from analysis.reporting.run_table import describe_flagged, list_contention_notes
from fabricated import STUDY, cells_of, failed, handoffs_of, make, paper_run, results_of
from harness.engine import results
from measure.records.record import Record, read_record, write_record


def flagged(record: Record, *, alone: bool = False) -> Record:
    """The same record, as one that waited too long for the processor."""
    return record.model_copy(update={"environment": record.environment | {
        "flags": ["processor"], "alone": alone}})


def test_the_frame_has_a_column() -> None:
    """Flags, none, and records from before there were any."""
    old, new = make("P1", 1), make("P1", 2)
    new = new.model_copy(update={"environment": new.environment | {"flags": [], "alone": True}})
    found = results_of(old, new, flagged(make("P1", 3))).frame
    assert found["flagged"].tolist() == [False, False, True]
    assert found["alone"].tolist() == [False, True, False]


@pytest.mark.parametrize(("alone", "says"), [
    ((), ""),
    ((False,), "1 of 4 good repetitions is flagged"),
    ((False,), "P1-N2-001. It counts all the same; the same './qop run' measures it again, alone."),
    ((True,), "It counts all the same, and had nothing beside it."),
    ((True, True), "They count all the same, and had nothing beside them."),
    ((False, True), "2 of 4 good repetitions are flagged"),
    ((False, True), "1 of them had nothing beside them; the same './qop run' measures 1 of them")])
def test_flagged_repetitions_are_counted_and_named(alone: tuple[bool, ...], says: str) -> None:
    """Which, and what can be done about it: those that were alone are not measured again."""
    records = [make("P1", number) for number in (1, 2, 3, 4)]
    for number, was_alone in enumerate(alone):
        records[number] = flagged(records[number], alone=was_alone)
    line = describe_flagged(results_of(*records))
    assert says in line and bool(line) == bool(alone)


def test_what_was_measured_again_alone_is_named() -> None:
    """It stands in its block, and was measured out of it: good ones only, flagged again or not."""
    assert list(list_contention_notes(results_of(make("P1", 1)))) == []
    calm = make("P1", 2).model_copy(update={"environment": make("P1", 2).environment | {
        "flags": [], "alone": True}})
    records = [make("P1", 1), calm, flagged(make("P1", 3), alone=True),
               flagged(failed("P1", 4), alone=True)]
    [about_flags, again] = list_contention_notes(results_of(*records))
    assert about_flags == describe_flagged(results_of(*records))
    assert "2 of 3 good repetitions were measured once more" in again
    assert again.endswith("P1-N2-002, P1-N2-003.")


def test_repetitions_that_do_not_count_are_not_counted() -> None:
    """A failed one is named for its failure."""
    assert describe_flagged(results_of(make("P1", 1), flagged(failed("P1", 2)))) == ""


def test_many_are_named_in_part() -> None:
    """Ten names and a number."""
    line = describe_flagged(results_of(*[flagged(make("P1", n)) for n in range(1, 16)]))
    assert "P1-N2-010 and 5 more" in line and "P1-N2-011" not in line


def test_every_table_and_the_report_say_so(tmp_path: Path) -> None:
    """Terminal, Markdown, handoffs, page, tables of records as text and as LaTeX, comparisons."""
    records = paper_run(("N2", "R1"))
    records[5] = flagged(records[5])
    results = results_of(*records)
    line = describe_flagged(results)
    assert records[5].name in line
    cells = cells_of(*records)
    for table in (STUDY.run_table(cells), handoffs_of(cells)):
        assert line in to_markdown(table).replace("\\", "")
        assert line in terminal.to_plain_text(table, 500)
    made = STUDY.report(results, {})
    assert line in made.warnings
    measured = [table for table in made.tables
                if any(entry.records for row in table.rows for entry in row)]
    assert len(measured) > 10
    assert all(line in (*table.notes, *table.warnings) for table in measured)
    assert latex.escape_latex(line) in latex.to_latex(measured[0])
    notes = compare_runs(results, results_of(*paper_run(("N2", "R1"))), names=("a", "b"))[0].notes
    assert f"a: {line}" in notes and not any(note.startswith("b: ") for note in notes)


@pytest.mark.parametrize("alone", [False, True])
def test_a_run_is_complete_when_flagged_repetitions_were_measured_alone(
        tmp_path: Path, alone: bool) -> None:
    """As the sentence says: the same command goes on in the folder, and only while it must."""
    plan = results_folder.plan_of("P1")
    folder = results_folder.make(tmp_path / "run", plan)
    write_record(flagged(read_record(folder / "records" / "P1-N2-001.json"), alone=alone),
                 folder / "records")
    chosen = results.choose_results_folder(None, tmp_path, plan, fresh=False)
    assert (chosen == folder) != alone

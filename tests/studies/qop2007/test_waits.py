"""Tests of the waits of users: their table, their sentences, and where a report shows both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fabricated
from analysis.cells import Cells
from analysis.present.page import render_page
from analysis.present.report import Report
from analysis.reporting.significance import decide_differences
from fabricated import STUDY, make, manifest_of, results_of
from harness.commands import report as report_command
from harness.commands.output import SCREEN_LINES, SCREEN_WIDTH
from measure.records.record import Record
from policies import load_named
from studies.qop2007.report import waits
from studies.qop2007.report.basis import basis_from_run

#: Means of the profile `campus` in ms, as docs/campus.md has them: connect and move, by distance.
CAMPUS = {
    "M4": (192, 31, 369, 203, 913, 747), "M4-ft": (194, 11, 373, 8, 915, 5),
    "M4-okc": (192, 10, 370, 13, 911, 11), "M4-resumed": (181, 16, 263, 98, 500, 340),
    "M14": (192, 29, 353, 185, 834, 665), "M14-ft": (193, 9, 353, 8, 833, 10),
    "M14-okc": (191, 10, 349, 11, 831, 11), "M13": (195, 28, 316, 150, 675, 506),
    "M13-ft": (198, 11, 315, 8, 679, 8), "M13-okc": (197, 12, 313, 14, 671, 9),
    "M13-resumed": (187, 16, 241, 75, 419, 259), "M5": (195, 29, 337, 167, 758, 592),
    "M8": (195, 9, 337, 11, 760, 10), "M8-okc": (198, 12, 339, 14, 759, 11)}
SCENARIOS = ("campus-0ms", "campus-20ms", "campus-80ms")
OWN = [load_named(name) for name in CAMPUS]
#: What a block adds to every time, and what a policy adds in addition, in ms.
_DRIFT, _SPREAD = (0.0, 2.0, 4.0), (0.4, -0.4, 0.0)


def waited(policy: str, scenario: str, connect_ms: float, move_ms: float,
           block: int = 1) -> Record:
    """A good repetition with the times of a connection and of a move."""
    phases = {"scan": (connect_ms / 1e3 - 0.03, 2), "dhcp": (0.01, 4), "first_packet": (0.02, 2)}
    return make(policy, block, scenario=scenario, phases=phases, handoff_s=move_ms / 1e3,
                digests={"policy": load_named(policy).digest()})


def campus(*policies: str, scenarios: tuple[str, ...] = SCENARIOS,
           blocks: int = 3) -> list[Record]:
    """Records of policies of the profile, whose times vary by block."""
    records = []
    for number, policy in enumerate(policies or CAMPUS):
        for scenario in scenarios:
            at = 2 * SCENARIOS.index(scenario)
            for block in range(1, blocks + 1):
                extra = _DRIFT[block - 1] + _SPREAD[(block + number) % 3] * (1 + number)
                connect_ms, move_ms = CAMPUS[policy][at:at + 2]
                records.append(waited(policy, scenario, connect_ms + extra, move_ms + extra, block))
    return records


def results(records: list[Record], **changes: Any) -> Any:
    """A run of these records with the baseline of the profile `campus`."""
    manifest = manifest_of(records, OWN, **{"baseline": {"policy": "M4"}, **changes})
    return results_of(*records, manifest=manifest)


def describe(*records: Record) -> list[str]:
    """Return the sentences on the waits of a run with plain spaces."""
    cells = Cells(results(list(records)))
    lines = waits.describe_waits(cells, basis_from_run(cells), decide_differences(cells))
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def test_waits_table_has_connection_and_move_of_each_scenario_with_dhcp() -> None:
    """A row per policy, two columns per scenario; no table where nobody gets an address by DHCP."""
    cells = Cells(results([
        waited("M5", "campus-0ms", 200, 30), waited("M5", "campus-80ms", 200, 700),
        waited("M8", "campus-80ms", 200, 20), make("P1")], baseline={}))
    [table] = waits.waits_table(cells, basis_from_run(cells))
    assert [column.group for column in table.columns[2:]] == [
        "campus-0ms", "campus-0ms", "campus-80ms", "campus-80ms"]
    values = {row[0].text: [entry.number and round(entry.number.value, 3) for entry in row[2:]]
              for row in table.rows}
    assert values == {"M5": [0.2, 0.03, 0.2, 0.7], "M8": [None, None, 0.2, 0.02]}
    plain = fabricated.cells_of(make("P1"))
    assert list(waits.waits_table(plain, basis_from_run(plain))) == []


def test_describe_waits_compares_with_the_baseline_where_that_waits_longest() -> None:
    """Each full and each resumed policy, with the interval of its difference, the best first."""
    lines = describe(*campus("M4", "M5", "M13", "M13-resumed"))
    assert lines[0] == "No policy is proven to connect or to move more slowly than M4."
    assert [line.partition(" takes ")[0] for line in lines[1:-1]] == [
        "Connecting in campus-80ms", "Moving in campus-80ms"]
    assert lines[1] == (
        "Connecting in campus-80ms takes 915 ± 6 ms with M4; 494 ± 3 ms less with M13-resumed, "
        "238 ± 4 with M13, 155 ± 3 with M5.")
    lines = describe(*campus("M4", "M5", "M13", "M13-resumed", scenarios=("campus-0ms",)))
    assert lines[1].startswith("Connecting in campus-0ms takes 194 ± 6 ms with M4; ")
    assert lines[1].endswith("; not proven: 5 ± 3 ms less with M13-resumed, "
                             "3 ± 3 ms more with M5, 3 ± 4 with M13.")
    assert lines[-2] == (
        "Of those without proven difference, 2 intervals exclude 0 (2 of connection time). But 3 "
        "repetitions cannot prove differences of this size after the correction for 3 comparisons. "
        "About 5 repetitions can.")
    assert lines[-1] == ("Means of all policies and scenarios: TCP goodput 4.61 Mbit/s, "
                         "UDP goodput 5.80 Mbit/s.")


def test_describe_waits_averages_moves_by_their_method() -> None:
    """Fast transition and OKC are one group each; a policy that is alone has its name."""
    *_, moving, _ = describe(*campus())
    assert ("; 739 ± 3 ms less with fast transition (4 policies, on average), 736 ± 3 with OKC (4 "
            "policies, on average), 488 ± 11 with M13-resumed, ") in moving
    *_, moving, _ = describe(*campus("M4", "M13-ft", scenarios=("campus-80ms",)))
    assert moving == "Moving in campus-80ms takes 749 ± 6 ms with M4; 739 ± 3 ms less with M13-ft."


def test_describe_waits_connects_once_for_policies_that_differ_in_the_move_alone() -> None:
    """M13 stands for M13-ft and M13-okc, and M4 itself for its own; M8 is alone with its layers."""
    connecting = describe(*campus("M4", "M4-ft", "M13-okc", "M13", "M8",
                                  scenarios=("campus-80ms",)))[1]
    assert connecting.endswith("; 238 ± 3 ms less with M13, 153 ± 6 with M8.")


def test_describe_waits_says_more_and_what_is_not_proven() -> None:
    """A difference within the spread of the blocks stands apart, and any of one repetition."""
    records = [waited(policy, "campus-0ms", connect_ms + extra, 30.0, block)
               for policy, connect_ms, extras in (
                   ("M4", 200, (0, 2, 4)), ("M5", 230, (1, 2, 4)), ("M13", 200, (3, 0, 4)))
               for block, extra in enumerate(extras, 1)]
    slower, connecting, moving, _ = describe(*records)
    assert slower == "Proven slower than M4: connecting with M5 in campus-0ms by 30 ± 1 ms."
    assert connecting == (
        "Connecting in campus-0ms takes 202 ± 5 ms with M4; 30 ± 1 ms more with M5; "
        "not proven: 0 ± 6 ms more with M13.")
    assert moving == ("Moving in campus-0ms takes 30.0 ± 0.0 ms with M4; not proven: 0.0 ± 0.0 ms "
                      "less with M5, 0.0 ± 0.0 with M13.")
    [_, connecting, *_] = describe(*(waited(policy, "campus-0ms", connect_ms, 30.0)
                                  for policy, connect_ms in (("M4", 200), ("M5", 230))))
    assert connecting.endswith(" takes 200 ms with M4; not proven: 30 ms more "
                               "with M5.")


def test_describe_waits_without_the_baseline_says_nothing() -> None:
    """Neither in a scenario where it has no value, nor in a run without it."""
    assert describe(*campus("M5", "M13")) == []
    lines = describe(*campus("M4", scenarios=("campus-0ms",)), *campus("M5"))
    assert [line.partition(" takes ")[0] for line in lines[1:-1]] == [
        "Connecting in campus-0ms", "Moving in campus-0ms"]


def test_describe_waits_of_an_unfinished_run_leaves_out_what_is_missing() -> None:
    """A planned policy without a repetition, and a failed one, are in the table alone."""
    records = [*campus("M4", "M5", scenarios=("campus-20ms",)),
               fabricated.failed("M13", 1, scenario="campus-20ms",
                                 digests={"policy": load_named("M13").digest()})]
    cells = Cells(results(records, cells=[("M8", "campus-20ms"), ("M4", "campus-80ms")]))
    basis = basis_from_run(cells)
    _, connecting, *_ = waits.describe_waits(cells, basis, decide_differences(cells))
    assert connecting.endswith("ms less with M5.")
    [table] = waits.waits_table(cells, basis)
    assert {row[0].text for row in table.rows} == {"M4", "M5", "M13", "M8"}


def make_report(*records: Record) -> Report:
    """Return the report of a run of these records."""
    return STUDY.report(results(list(records)), {})


def test_report_of_waits_has_their_table_open_below_the_sentences() -> None:
    """The table is not in a section, which would fold it, and is a file as others are."""
    made = make_report(*campus())
    assert made.answering and made.answering.id == "waits" and made.short is None
    assert [table.id for table in made.tables].count("waits") == 1
    page = render_page(made)
    assert page.index('id="summary"') < page.index('<section id="waits"') < page.index(
        'id="answers"')
    assert '<details class="table fold" id="waits"' not in page
    assert page.count("tables/waits.csv") == 1
    assert "Connecting in campus-80ms" in page


def test_report_with_other_scenarios_keeps_its_short_table() -> None:
    """Waits are no answer where some scenarios have no connection time; their table is folded."""
    made = make_report(*campus("M4", "M5"), *(
        make(policy, block, digests={"policy": load_named(policy).digest()})
        for policy in ("M4", "M5") for block in (1, 2, 3)))
    assert made.answering is None and made.short is not None
    assert [table.id for table in made.tables].count("waits") == 1
    assert not any(line.startswith("Connecting") for line in made.summary)
    assert '<section id="waits"' not in render_page(made)


def test_end_of_a_run_has_the_table_of_each_distance(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No range over all distances; with names, within 100 columns and little more than a screen."""
    folder = fabricated.write_all(campus(), tmp_path, OWN, baseline={"policy": "M4"}, repetitions=3)
    report_command.print_run_table(folder, is_short=True, command="./qop run campus")
    lines = capsys.readouterr().out.splitlines()
    [row] = [line for line in lines if line.startswith("M13-resumed ")]
    assert row.split()[:2] == ["M13-resumed", "EAP-TLS-1.2-resumed"]
    assert row.split()[2::3] == ["189", "18", "243", "77", "421", "261"]
    assert max(len(line) for line in lines if "./qop" not in line) <= SCREEN_WIDTH
    assert len(lines) <= SCREEN_LINES + 16
    assert not any("The run in short" in line for line in lines)
    report_command.print_run_table(folder)
    assert "Scenario campus-80ms" in capsys.readouterr().out
    assert "- Names: campus-0ms roaming on a floor" in " ".join(lines)


def test_narrow_terminal_names_the_policies_below_the_table(
        tmp_path: Path, capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns have no room for names in rows. At 100 columns they are in the rows alone."""
    folder = fabricated.write_all(campus(), tmp_path, OWN, baseline={"policy": "M4"}, repetitions=3)
    for width, expected in ((80, True), (100, False)):
        monkeypatch.setenv("COLUMNS", str(width))
        report_command.print_run_table(folder, is_short=True)
        said = " ".join(capsys.readouterr().out.split())
        assert ("M13-okc EAP-TLS-1.2-OKC;" in said) is expected


def test_answer_of_an_unfinished_run_says_so() -> None:
    """It counts the measured cells, and neither claims nor advice stand as if all were measured."""
    records = [make(policy, block) for policy in ("P1", "P6") for block in (1, 2, 3)]
    records += campus("M4", "M5", scenarios=("campus-0ms",))
    planned = [("P12", "N2"), ("M8", "campus-0ms")]
    summary = STUDY.report(results(records, cells=planned, baseline={"policy": "P1"}), {}).summary
    assert any(line.startswith("Measured: 4 of 6 planned cells of ") for line in summary)
    assert ("This is among the policies measured so far; others of the plan may be better."
            in summary)
    assert any(line.endswith("claims. The plan is not measured completely yet.")
               for line in summary)
    whole = STUDY.report(results(records, baseline={"policy": "P1"}), {}).summary
    assert not any("so far" in line or "completely" in line for line in whole)


def test_answer_of_single_repetitions_is_not_for_sure() -> None:
    """A recommendation without intervals says so, and one of three repetitions does not."""
    warned = "One repetition shows no spread, so no limit is met for sure."
    assert warned in make_report(*campus("M4", "M5", blocks=1)).summary
    assert warned not in make_report(*campus("M4", "M5")).summary


def test_run_without_protected_data_says_that_none_was_measured() -> None:
    """P8 protects data by WEP, which counts for nothing, and P1 not at all."""
    records = [make(policy, block) for policy in ("P1", "P8") for block in (1, 2, 3)]
    summary = STUDY.report(results_of(*records), {}).summary
    assert any("no policy that protects data as of 2026 was measured" in line for line in summary)


def test_differences_beside_the_papers_claims_are_those_of_other_policies() -> None:
    """They are decided by `--until-decided`, too. The paper's cells have the claims."""
    records = [make(policy, block) for policy in ("P1", "P8") for block in (1, 2, 3)]
    records += [make("M4", block, digests={"policy": load_named("M4").digest()})
                for block in (1, 2, 3)]
    report = STUDY.report(results(records, baseline={"policy": "P1"}), {})
    assert report.claims and report.differences
    assert all(" of M4 in N2" in verdict.id for verdict in report.differences)
    only = STUDY.report(results(records[:6], baseline={"policy": "P1"}), {})
    assert only.claims and not only.differences


def test_figure_of_another_scenario_has_no_published_time() -> None:
    """The paper printed times for its own five scenarios."""
    records = [make(policy, block, scenario=scenario) for policy in ("P1", "P8")
               for scenario in ("R1", "E1") for block in (1, 2)]
    tables = STUDY.report(results_of(*records), {}).tables
    figure = next(table for table in tables if table.id == "figure-2")
    at = figure.column_index("authentication_time_s")
    published = {(row[0].text, row[3].text): row[at].published for row in figure.rows}
    assert published["P8", "R1"] and published["P8", "E1"] is None

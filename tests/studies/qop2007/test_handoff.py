"""Tests of the handoffs' table and figure, and of `qop report --handoff`."""

from __future__ import annotations

import csv
import io
import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from rich.cells import cell_len

from analysis.cells import Cells
from analysis.present import terminal
from analysis.present.export import to_csv, to_markdown
from fabricated import (
    LEAVING_S,
    P12_PHASES,
    POLICIES,
    STUDY,
    body_of,
    cells_of,
    changed,
    failed,
    handoffs_of,
    make,
    manifest_of,
    paper_run,
    phases_of,
    results_of,
    row_of,
    value_of,
    write_all,
)
from harness.commands import report
from harness.errors import UserError
from measure.checks import phases as measured
from measure.records.record import Record
from studies.qop2007.measurements import FOREIGN, PhaseRecord, handoff_s
from studies.qop2007.report import run_table, waterfall
from studies.qop2007.report.phase_names import phase_names

TOTAL_P12_S = LEAVING_S + sum(duration for duration, _ in P12_PHASES.values())


def moved(policy: str = "P12", repetition: int = 1, scenario: str = "R1") -> Record:
    """A good record of a roaming scenario."""
    return make(policy, repetition, scenario=scenario, phases=phases_of(policy))


def lengthened(record: Record, by_s: float) -> Record:
    """The same with the first phase of the handoff longer, so that the sum is off."""
    first, *others = body_of(record).handoff
    longer = first.model_copy(update={"duration_s": first.duration_s + by_s})
    return changed(record, handoff=[longer, *others])


def table_of(cells: Cells, width: int = 120) -> str:
    """The plain table of the handoffs."""
    return terminal.to_plain_text(handoffs_of(cells), width)


def durations(cells: Cells, policy: str) -> dict[str, float]:
    """Mean seconds of the phases of a policy's handoffs in R1."""
    names = phase_names(cells.results.frame, "handoff_")
    return {name: cells.value(f"handoff_{name}_duration_s", (policy, "R1"), filled=True)
            .estimate.mean for name in names}  # type: ignore[union-attr]


# --- numbers -------------------------------------------------------------------------------------

def test_the_total_is_from_leaving_to_the_first_answered_packet() -> None:
    """It comes from the stay away; the phases of the handoff, which tile it, add up to it."""
    cells = cells_of(moved())
    assert value_of(cells, "handoff_s", "P12", "R1").mean == pytest.approx(TOTAL_P12_S)
    assert value_of(cells, "handoff_sum_s", "P12", "R1").mean == pytest.approx(TOTAL_P12_S)
    assert durations(cells, "P12")["scan"] == pytest.approx(0.0394 + LEAVING_S)
    assert list(run_table.gap_warnings(cells)) == []


def test_without_the_first_packet_the_total_is_what_the_program_saw() -> None:
    """A handoff whose last phase was not captured is not measured short; the gap shows."""
    body = body_of(moved())
    stay, handoff_phases = body.phases[:-1], body.handoff[:-1]
    total = handoff_s(stay, handoff_phases, moved().raw["stamps"])
    assert total == pytest.approx(TOTAL_P12_S + 0.001)
    cells = cells_of(changed(moved(), phases=stay, handoff=handoff_phases, handoff_s=total))
    assert "do not add up" in next(run_table.gap_warnings(cells))


def test_without_stamps_the_total_is_the_sum() -> None:
    """Records of another study need not have this one's raw values."""
    body = body_of(moved())
    assert handoff_s(body.phases, body.handoff, {}) == pytest.approx(TOTAL_P12_S)
    cells = cells_of(changed(moved(), handoff_s=None))
    assert value_of(cells, "handoff_s", "P12", "R1").mean == pytest.approx(TOTAL_P12_S)


def test_a_phase_that_some_repetitions_lack_keeps_the_sum() -> None:
    """Three handoffs, one with a handshake of its own: the means still add up to the mean sum."""
    extra = PhaseRecord(name="four_way_handshake", start_s=0.01, duration_s=0.003, packets=4)
    records = [moved("P8", number) for number in (1, 2, 3)]
    records[0] = changed(records[0], handoff=[extra, *body_of(records[0]).handoff])
    cells = cells_of(*records)
    assert durations(cells, "P8")["four_way_handshake"] == pytest.approx(0.001)
    assert sum(durations(cells, "P8").values()) == pytest.approx(
        value_of(cells, "handoff_sum_s", "P8", "R1").mean)


@pytest.mark.parametrize(("by_s", "warned"), [(0.004, False), (0.006, True), (-0.006, True)])
def test_phases_that_do_not_add_up_are_said(by_s: float, warned: bool) -> None:
    """Within 5 ms is agreement; beyond it, both tables name policy, scenario and repetition."""
    cells = cells_of(moved("P12", 1), lengthened(moved("P12", 2), by_s))
    says = (f"P12 in R1: the phases of 1 handoff do not add up to the measured total within 5 ms; "
            f"the worst, of repetition 2, by {by_s * 1e3:+.1f} ms.")
    table = handoffs_of(cells)
    assert (says in table.warnings) == warned
    assert (says in STUDY.run_table(cells).warnings) == warned
    agree = any("add up to it within 4.0 ms" in note for note in table.notes)
    assert agree == (not warned)


def test_failed_repetitions_are_no_part_of_a_handoff() -> None:
    """Neither of its mean, nor of the check of its sum."""
    bad = lengthened(failed("P12", 3, scenario="R1", phases=P12_PHASES), 9.0)
    cells = cells_of(moved("P12", 1), moved("P12", 2), bad)
    assert value_of(cells, "handoff_s", "P12", "R1").n == 2
    assert list(run_table.gap_warnings(cells)) == []


# --- the table -----------------------------------------------------------------------------------

def test_the_row_of_p12_reads_as_measured() -> None:
    """Phases in their order with packets, their sum, and the total with its interval."""
    text = table_of(cells_of(*(moved("P12", number) for number in (1, 2, 3)), moved("P3", 1)))
    assert re.sub(r" +", " ", row_of(text, "P12")) == (
        "P12 3/3 47.9 (3) 1.1 (4) 21.7 (17) 1.7 (2) 2.0 (2) 17.1 (9) 13.5 (2) 105.0 105 ± 0")
    assert "overhead" not in text


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_fits_its_width(width: int) -> None:
    """From 80 columns on, it is one table a scenario."""
    text = table_of(cells_of(*paper_run(("N2", "R1", "R2"))), width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert sum(line.startswith("P12 ") for line in text.splitlines()) == (2 if width >= 80 else 4)
    assert "Scenario N2" not in text


def test_markdown_and_csv_have_the_same_numbers() -> None:
    """Both hold the roaming scenarios only."""
    table = handoffs_of(cells_of(*paper_run(("N2", "R1"), repetitions=2)))
    row = next(line for line in to_markdown(table).splitlines()
               if line.startswith("| P12 "))
    assert "| 17.1 (9) | 13.5 (2) | 105.0 | 105 ± 0 |" in row
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert {entry["scenario"] for entry in rows} == {"R1"}
    assert float(rows[-1]["handoff_ike_duration_s"]) == pytest.approx(0.0171)
    assert "tcp_goodput_bps" not in rows[0]


# --- the figure ----------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def figure() -> Figure:
    """All twelve policies in R1 and R2, but for one that failed."""
    records = [record for record in paper_run(("N2", "R1", "R2"))
               if record.cell["policy"] != "P7"]
    bad = [failed("P7", number, scenario="R1", phases={}) for number in (1, 2, 3)]
    everything = [*records, *bad]
    planned = [(policy, scenario) for scenario in ("N2", "R1", "R2") for policy in POLICIES]
    manifest = manifest_of(everything, cells=planned)
    drawn = waterfall.draw_figure(Cells(results_of(*everything, manifest=manifest)))
    drawn.draw_without_rendering()
    return drawn


def test_a_panel_for_each_roaming_scenario_and_a_bar_for_each_policy(figure: Figure) -> None:
    """Titles say where; the first policy is on top; the axis has its unit."""
    assert [ax.get_title("left") for ax in figure.axes] == [
        "R1: roaming node to a node in its home subnet",
        "R2: roaming node to a node of the subnet it visits"]
    assert {ax.get_title("right") for ax in figure.axes} == {"means of 3 repetitions"}
    for ax in figure.axes:
        assert [label.get_text() for label in ax.get_yticklabels()] == [
            f"P{number}" for number in range(1, 13)]
        assert ax.yaxis_inverted()
    assert "[ms]" in figure.axes[-1].get_xlabel()


def test_segments_follow_each_other_and_end_at_the_total(figure: Figure) -> None:
    """P12's bar: without gaps from 0 to 105 ms, 802.11 as one segment."""
    bars = sorted((patch.get_x(), patch.get_width()) for patch in figure.axes[0].patches
                  if round(patch.get_y() + patch.get_height() / 2) == 11)
    assert len(bars) == 7
    at = 0.0
    for start, width in bars:
        assert start == pytest.approx(at)
        at += width
    assert at == pytest.approx(TOTAL_P12_S * 1e3)


def test_totals_stand_at_the_end_and_reasons_in_place_of_a_bar(figure: Figure) -> None:
    """Every policy has one text: its total with the interval, or why there is none."""
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert len(texts) == 12
    assert texts[6] == "failed"
    assert texts[11] == "105 ± 0 ms"
    assert [text.get_text() for text in figure.axes[1].texts][6] == "not run"


def test_nothing_is_cut_off_and_the_legend_is_outside(figure: Figure) -> None:
    """Texts stay inside the figure, totals inside their panel, the legend off both panels."""
    renderer = figure._get_renderer()
    page = figure.bbox
    for ax in figure.axes:
        for text in (*ax.texts, *ax.get_yticklabels(), ax.xaxis.label):
            box = text.get_window_extent(renderer)
            assert page.x0 <= box.x0
            assert box.x1 <= page.x1
        assert all(text.get_window_extent(renderer).x1 <= ax.bbox.x1 + 1 for text in ax.texts)
    legend = figure.legends[0].get_window_extent(renderer)
    assert not any(legend.overlaps(ax.bbox) for ax in figure.axes)
    assert page.x0 <= legend.x0
    assert legend.x1 <= page.x1


def test_the_legend_explains_every_segment_once(figure: Figure) -> None:
    """In the order of the phases; the interval is explained last."""
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["Scan", "802.11 authentication, association", "802.1X (EAP, keys)",
                     "Agent discovery", "Mobile IP registration", "IKE", "First answered packet",
                     "95 % interval of the total"]


def _lightness(colour: str) -> float:
    """Relative luminance, roughly."""
    red, green, blue = (channel**2.2 for channel in to_rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_neighbours_differ_in_lightness() -> None:
    """In a grey print, every phase is told from the one after it, whichever policies leave out."""
    order = [name for name in waterfall._COLOURS if name != "first_packet"]  # which is hatched
    left_out = [("authentication", "four_way_handshake"), ("authentication", "agent_discovery"),
                ("dot1x", "agent_discovery")]
    for first, second in [*itertools.pairwise(order), *left_out]:
        lights = [_lightness(waterfall._COLOURS[name]) for name in (first, second)]
        assert abs(lights[0] - lights[1]) > 0.08, (first, second)


def test_unknown_phases_get_colours_of_their_own() -> None:
    """A later study's phases are drawn and explained without a change here."""
    record = moved()
    extra = [PhaseRecord(name=name, start_s=0, duration_s=0.001, packets=1)
             for name in ("fils", "key_transfer")]
    cells = cells_of(changed(record, handoff=[*extra, *body_of(record).handoff]))
    styles = waterfall._label_colours(run_table.bar_labels(run_table.handoff_bars(cells), cells))
    assert {"Fils", "Key transfer"} <= styles.keys()
    assert len(set(styles.values())) == len(styles)


def test_drawing_changes_no_setting_and_is_reproducible(tmp_path: Path) -> None:
    """The same records give the same SVG to the byte, and other figures keep their style."""
    cells = cells_of(moved())
    before = dict(mpl.rcParams)
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        paths = waterfall.save_figure(cells, tmp_path / name)
        assert [path.name for path in paths] == ["handoff.svg", "handoff.png"]
        found.append(paths[0].read_bytes())
    assert found[0] == found[1]
    assert dict(mpl.rcParams) == before
    assert ET.fromstring(found[0]).tag.endswith("svg")
    assert (tmp_path / "one" / "handoff.png").read_bytes().startswith(b"\x89PNG")


def test_one_repetition_has_neither_interval_nor_its_legend() -> None:
    """A quick look is drawn, and says that it is one."""
    drawn = waterfall.draw_figure(cells_of(moved()))
    assert drawn.axes[0].get_title("right") == "one repetition"
    assert all(isinstance(handle, Patch) for handle in drawn.legends[0].legend_handles)
    assert drawn.axes[0].texts[0].get_text() == "105 ms"


# --- the command ---------------------------------------------------------------------------------

@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder with two policies in N2 and R1."""
    cells = [(policy, repetition) for policy in ("P1", "P12") for repetition in (1, 2)]
    return write_all([record for policy, repetition in cells for record in (
        moved(policy, repetition), make(policy, repetition, phases=phases_of(policy)))], tmp_path)


def show_handoff(folder: Path, *arguments: str) -> None:
    """`qop report --handoff FOLDER`, in this process; errors of the user's are raised."""
    report.command.main([str(folder), "--handoff", *arguments], standalone_mode=False)


def test_report_writes_the_figure_and_says_where(folder: Path,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    """The table on standard output, the figure's paths under it."""
    show_handoff(folder)
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == (
        f"Figure: {folder / 'handoff.svg'}, {folder / 'handoff.png'}")
    assert row_of(said.out, "P12").endswith("105 ± 0")
    assert said.err == ""
    assert (folder / "handoff.svg").stat().st_size > 5_000


@pytest.mark.parametrize(("form", "first"), [
    ("csv", "clock,section,policy,name,"), ("markdown", "### Scenario")])
def test_report_in_other_formats_keeps_standard_output_clean(
        folder: Path, form: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What another program reads holds nothing but the table."""
    show_handoff(folder, "--format", form)
    said = capsys.readouterr()
    assert said.out.startswith(first)
    assert "Figure" not in said.out
    assert said.err.startswith("Figure: ")


@pytest.mark.parametrize("records", [
    [make("P1", 1)], [failed("P1", 1, scenario="R1")]], ids=["at home", "all failed"])
def test_a_run_without_handoffs_is_one_clear_line(records: list[Record], tmp_path: Path) -> None:
    """It says which scenarios have a handoff, and nothing is written."""
    write_all(records, tmp_path)
    with pytest.raises(UserError, match="no good repetition with a handoff") as caught:
        show_handoff(tmp_path)
    assert str(caught.value).startswith(str(tmp_path))
    assert "--scenarios R1,R2" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("handoff.*"))


def test_a_figure_that_cannot_be_written_is_one_line(folder: Path) -> None:
    """The error names the file."""
    (folder / "handoff.svg").mkdir()
    with pytest.raises(UserError, match=r"handoff\.svg: the figure cannot be written"):
        show_handoff(folder)


def test_foreign_is_what_measure_calls_it() -> None:
    """Analysis reads records only, so it has the prefix of phases away for itself."""
    assert FOREIGN == measured.FOREIGN

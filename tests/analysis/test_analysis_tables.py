"""Tests of analysis's tables: layouts, columns, notes, digits, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from analysis.present import entries
from analysis.present.export import to_csv, to_markdown
from analysis.table import format_size
from fabricated import (
    POLICIES,
    STUDY,
    cells_of,
    failed,
    lines_of,
    make,
    paper_run,
    row_of,
    text_of,
    value_of,
)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140, 200])
def test_the_terminal_table_fits_its_width(width: int) -> None:
    """No line is longer than the terminal, and every policy has its row."""
    lines = lines_of(cells_of(*paper_run()), width)
    assert max(cell_len(line) for line in lines) <= width
    assert all(any(line.startswith(f"{policy} ") for line in lines) for policy in POLICIES)
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)


@pytest.mark.parametrize(("width", "tables"), [(50, 3), (80, 2), (120, 1), (140, 1), (200, 1)])
@pytest.mark.parametrize("scenario", ["N2", "R1"])
def test_one_table_from_120_columns_on(scenario: str, width: int, tables: int) -> None:
    """Below, authentication and traffic are two tables; on half a screen, phases are a third."""
    lines = lines_of(cells_of(*paper_run((scenario,))), width)
    assert sum(line.startswith("P12 ") for line in lines) == tables
    assert max(cell_len(line) for line in lines) <= width


def test_the_row_of_p12_reads_as_measured() -> None:
    """Authentication time and phases in ms with packets, goodput in Mbit/s, overhead in kbit/s."""
    text = text_of(cells_of(*paper_run()), 165)
    row = re.sub(r" +", " ", row_of(text, "P12"))
    assert row == ("P12 3/3 42.5 ± 0 21.7 (17) 3.7 (4) 17.1 (9) 39.4 (3) 1.1 (4) 1.7 (2) 2.0 (2) "
                   "13.5 (2) 4.451 ± 0.050 5.700 ± 0.050 199.3 ± 1.4 140 ± 0 yes")
    assert re.sub(r" +", " ", row_of(text, "P1")).endswith("baseline baseline yes")


def test_row_names_the_settings_that_no_check_covers() -> None:
    """Verified is `partly` then; screens, pages and files name the settings; others are as ever."""
    paths = ["dot1x.tls.chain", "link.options.hostapd.wpa_group_rekey"]
    records = [record.model_copy(update={"unchecked": paths})
               if record.cell["policy"] == "P12" else record for record in paper_run()]
    cells = cells_of(*records)
    table = STUDY.run_table(cells)
    text = text_of(cells, 165)
    assert row_of(text, "P12").endswith(" partly")
    assert row_of(text, "P11").endswith(" yes")
    said = "P12: no check covers dot1x.tls.chain, hostapd's wpa_group_rekey"
    assert said in text
    assert said.replace("_", r"\_") in to_markdown(table)
    [row] = [row for row in csv.DictReader(io.StringIO(to_csv(table))) if row["policy"] == "P12"]
    assert row["unchecked"] == "dot1x.tls.chain, hostapd's wpa_group_rekey"


def test_components_of_a_row_add_up_to_its_authentication_time() -> None:
    """A component that a policy does not count is a dash, though it took place: P12's away."""
    cells = cells_of(*paper_run(("R1",)))
    text = text_of(cells, 180)
    p3, p12 = (re.sub(r" +", " ", row_of(text, policy)) for policy in ("P3", "P12"))
    assert p3.startswith("P3 3/3 24.5 ± 0 83.3 ± 0 - 3.7 (4) 17.1 (9) 3.7 (4) 39.4 (3) ")
    assert p12.startswith("P12 3/3 42.5 ± 0 105 ± 0 21.7 (17) 3.7 (4) 17.1 (9) - 39.4 (3) ")
    away = value_of(cells, "component_mip_registration_foreign_s", "P12", "R1")
    assert away.mean == pytest.approx(0.0037)


@pytest.mark.parametrize(("scenario", "there"), [("N2", False), ("R1", True)])
def test_only_roaming_scenarios_have_the_columns_of_a_move(scenario: str, there: bool) -> None:
    """At home there is neither a handoff nor anything away, even beside a scenario with both."""
    text = to_markdown(STUDY.run_table(cells_of(*paper_run(("N2", "R1")))))
    table = next(part for part in text.split("### ") if part.startswith(f"Scenario {scenario}"))
    for title in ("| handoff [ms] |", "| MIP away [ms] |"):
        assert (title in table) == there
    assert "foreign" not in table


def test_phases_that_a_component_holds_together_are_shown_apart() -> None:
    """WPA2-Enterprise has EAP and a handshake after it; together they are the component EAP."""
    parts = {"dot1x": (0.02, 13), "four_way_handshake": (0.005, 4), "ike": (0.01, 4)}
    text = to_markdown(STUDY.run_table(cells_of(make("WPA2", phases=parts))))
    assert "| EAP home [ms] | IKE home [ms] | 802.1X [ms] | 4-way [ms] |" in text
    assert "| 25.0 (17) | 10.0 (4) | 20.0 (13) | 5.0 (4) |" in text


def test_the_notes_say_what_the_authentication_time_sums_up() -> None:
    """For each group of scenarios with the same sums, by policies, as the records say."""
    said = STUDY.run_table(cells_of(*paper_run(("N1", "N2", "R1", "R2")))).notes
    lines = [note for note in said if note.startswith("T_A in")]
    assert lines[0] == (
        "T_A in N1, N2 (Table 4 of the 2007 paper): MIP home (P1, P2); MIP home + IKE home "
        "(P3, P4); EAP home + MIP home (P5, P6, P7, P8); EAP home + MIP home + IKE home "
        "(P9, P10, P11, P12).")
    assert lines[1].startswith(
        "T_A in R1, R2 (Table 4 of the 2007 paper): MIP home + MIP away (P1, P2); MIP home + "
        "IKE home + MIP away (P3, P4); EAP home + MIP home (P5,")
    assert len(lines) == 2


def test_packets_that_differ_are_a_range() -> None:
    """A lost and repeated frame shows."""
    cells = cells_of(make(phases={"ike": (0.02, 9)}), make(repetition=2,
                                                            phases={"ike": (0.02, 11)}))
    assert "20.0 (9-11)" in text_of(cells, 200)


def test_scenarios_are_sections_with_their_titles() -> None:
    """Each scenario has its table; a foreign one is no path to be read."""
    records = paper_run(("N2", "X/../y.yml"), repetitions=1)
    lines = lines_of(cells_of(*records), 140)
    assert "Scenario N2: mobile node to its home agent" in lines
    assert "Scenario X/../y.yml" in lines
    medium = "- Medium: 802.11b-long (air: queue). Clock: real."
    assert sum(line.startswith(medium) for line in lines) == 1


def test_long_policy_names_leave_room_for_numbers() -> None:
    """An id of 40 letters is folded, not the numbers."""
    lines = lines_of(cells_of(*(make(policy, number) for policy in ("P1", "W" * 40)
                                for number in (1, 2))), 80)
    assert max(map(len, lines)) <= 80
    assert any("4.61" in line and line.startswith("WWW") for line in lines)


def test_markdown_has_a_row_for_each_policy_and_shows_text_as_it_is() -> None:
    """A pipe or a star in a reason does not break the table."""
    text = to_markdown(STUDY.run_table(cells_of(*paper_run(), failed("P1", 4, "a|b *c*"))))
    rows = [line for line in text.splitlines() if line.startswith("| P")]
    assert len(rows) == 12
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1
    assert "a\\|b \\*c\\*" in text
    assert "authentication time [ms]" in text
    assert "TCP overhead [kbit/s]" in text


def test_csv_has_raw_numbers_with_units_in_the_names() -> None:
    """Nothing is rounded: SI units, intervals and counts beside each value."""
    cells = cells_of(*paper_run())
    rows = list(csv.DictReader(io.StringIO(to_csv(STUDY.run_table(cells)))))
    row = next(row for row in rows if row["policy"] == "P3")
    found = value_of(cells, "tcp_overhead_bps", "P3")
    assert len(rows) == 12
    assert float(row["tcp_overhead_bps"]) == found.mean
    assert float(row["tcp_overhead_low_bps"]) == found.low
    assert row["tcp_overhead_n"] == "3"
    assert row["phase_ike_packets_max"] == "9"
    assert row["phase_dot1x_duration_s"] == ""
    assert row["state"] == "ok"


def test_csv_has_components_their_sum_and_the_handoff() -> None:
    """Every component that was measured, whether the authentication time counts it or not."""
    rows = csv.DictReader(io.StringIO(to_csv(STUDY.run_table(cells_of(*paper_run(("R1",)))))))
    row = next(row for row in rows if row["policy"] == "P12")
    assert row["authentication_sum"] == "eap_home+mip_registration_home+ike_home"
    assert float(row["component_ike_foreign_s"]) == pytest.approx(0.0171)
    assert float(row["phase_foreign_ike_duration_s"]) == pytest.approx(0.0171)
    assert float(row["handoff_s"]) == pytest.approx(float(row["handoff_sum_s"]))
    assert row["handoff_scan_packets_max"] == "3"


@pytest.mark.parametrize(("count", "shown"), [
    (16_000_000, "16 MB"), (999_600, "1 MB"), (984_000, "984 kB"), (12, "12 B"), (2e9, "2 GB")])
def test_sizes_are_for_people(count: float, shown: str) -> None:
    """The size of a stream is one that its reader would write."""
    assert format_size(count) == shown


@pytest.mark.parametrize(("repetitions", "says"), [
    (1, "without interval"), (2, "n = 2"), (2, "wide"), (5, "n = 5")])
def test_the_note_says_what_the_intervals_rest_on(repetitions: int, says: str) -> None:
    """Two repetitions make intervals of 12.7 standard errors; a reader should not wonder."""
    first = STUDY.run_table(cells_of(*paper_run(repetitions=repetitions))).notes[0]
    assert says in first
    assert ("wide" in first) == (repetitions == 2)


@pytest.mark.parametrize(("value", "half", "shown"), [
    (4.6123, 0.0312, ("4.612", "0.031")), (4.61, 0.0996, ("4.61", "0.10")),
    (1734.0, 126.0, ("1730", "130")), (-0.004, 0.31, ("0.00", "0.31")),
    (21.7, 0.00012, ("21.700", "0.001")), (21.7, 0.0, ("21.7", "0")), (21.7, None, ("21.7", "")),
    (4.61, 12.0, ("5", "12")), (0.0, None, ("0", "")), (99.96, None, ("100", ""))])
def test_digits_follow_the_uncertainty(value: Any, half: Any, shown: tuple[str, str]) -> None:
    """Two significant digits of the half interval, the value to the same place."""
    assert entries.round_to_uncertainty(value, half) == shown


@given(st.floats(-1e7, 1e7), st.floats(1e-3, 1e6))
def test_rounding_stays_well_inside_the_interval(value: float, half: float) -> None:
    """What is printed differs from the value by at most a twentieth of the half interval."""
    shown, uncertainty = entries.round_to_uncertainty(value, half)
    assert abs(float(shown) - value) <= half / 19 or half < 0.01
    assert float(uncertainty) == pytest.approx(half, rel=0.051) or half < 0.01
    assert not shown.startswith("-0.0") or float(shown) < 0



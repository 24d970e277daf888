"""Tests of the presenters of tables: digits, marks, LaTeX, CSV, Parquet and terminal."""

from __future__ import annotations

import csv
import io
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from analysis.present import export, latex, terminal
from analysis.present.entries import format_entry, format_interval, marks_of, typeset_minus
from analysis.reporting.table_entries import exact_entry
from analysis.table import Column, Entry, Quantity, Table
from pdflatex import problems
from studies.qop2007.report.basis import basis_from_paper
from studies.qop2007.report.paper_tables import build_paper_tables as tables_of

KBPS = Column("tcp_overhead_N1_bps", "N1", "kbit/s", 1e-3, group="Non-roaming")
NASTY = r"100% & \input{x} $a_b^c$ #1 ~ {<P>} «± 2» | Ünïcödé 漢" "\N{GREEK SMALL LETTER SIGMA}"


def table(*rows: tuple[Entry, ...], columns: tuple[Column, ...] | None = None,
          **more: object) -> Table:
    """A table of a policy column and KBPS, unless said otherwise."""
    return Table("t", "A table", columns or (Column("policy", "Policy"), KBPS), rows,
                 **more)  # type: ignore[arg-type]


ENTRIES = table(
    (Entry("P2"), Entry(number=Quantity(71_130.0, 70_000.0, 72_260.0, 3), published=71_100.0,
                        marks=frozenset({"recommended", "best"}), records=("P2-N1-001",))),
    (Entry("P3"), Entry(number=Quantity(-5_000.0, -9_000.0, -1_000.0, 3),
                        marks=frozenset({"spans-zero"}))),
    (Entry("P4"), Entry("failed", marks=frozenset({"missing"}))),
    sections=((0, "Low"), (2, "High")), caption="What it is.", notes=("A note.",))


@pytest.mark.parametrize(("number", "column", "main", "spread"), [
    (Quantity(71_130.0, 70_000.0, 72_260.0), KBPS, "71.1", "± 1.1"),
    (Quantity(71_130.0), KBPS, "71.1", ""),
    (Quantity(3.0), Column("n", "n"), "3", ""),
    (Quantity(0.5, 0.4, 0.6), Column("x", "x", digits=2), "0.50", "± 0.10"),
    (Quantity(3.0, 3.0, 5.0), Column("rank", "Rank", digits=0), "3", "[3, 5]"),
    (Quantity(2.0, 2.0, 2.0), Column("x", "x"), "2.00", "± 0"),
    (Quantity(float("nan")), Column("x", "x"), "-", "")])
def test_numbers_have_the_digits_of_their_interval(number: Quantity, column: Column, main: str,
                                                   spread: str) -> None:
    """Two digits of the half width, or the column's; a lopsided interval is shown by its ends."""
    shown = format_entry(Entry(number=number), column)
    assert (shown.main, shown.spread) == (main, spread)


def test_what_was_published_is_shown_as_the_column_shows_numbers() -> None:
    """In the same unit; and the interval by its ends has one, too."""
    entry = ENTRIES.rows[0][1]
    assert format_entry(entry, KBPS).published == "71.1"
    assert format_interval(entry.number, KBPS) == "70.0 to 72.3 kbit/s"


def test_best_of_all_needs_no_second_sign() -> None:
    """Best implies recommended; the legend has only signs that occur."""
    assert format_entry(ENTRIES.rows[0][1], KBPS).signs == ("best",)
    assert marks_of(ENTRIES) == ["best", "spans-zero"]


# --- CSV and Parquet -----------------------------------------------------------------------------

def test_csv_has_si_units_and_everything_that_is_known() -> None:
    """Nothing is rounded or scaled; a word stands in a column of its own."""
    rows = list(csv.DictReader(io.StringIO(export.to_csv(ENTRIES))))
    assert rows[0] == {
        "section": "Low", "policy": "P2", "tcp_overhead_N1_bps": "71130.0",
        "tcp_overhead_N1_low_bps": "70000.0", "tcp_overhead_N1_high_bps": "72260.0",
        "tcp_overhead_N1_n": "3", "tcp_overhead_N1_published_bps": "71100.0",
        "tcp_overhead_N1_word": "", "tcp_overhead_N1_marks": "best;recommended"}
    assert (rows[2]["section"], rows[2]["tcp_overhead_N1_word"]) == ("High", "failed")
    assert rows[2]["tcp_overhead_N1_bps"] == ""


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "@sum", "-2+3+cmd|' /C calc'!A0", "\t=1"])
def test_csv_holds_no_formulas(text: str) -> None:
    """A policy may be called what it likes; a spreadsheet must not run its name."""
    rows = list(csv.reader(io.StringIO(export.to_csv(table((Entry(text), Entry("x")))))))
    assert rows[1][0] == f"'{text}".replace("\t", " ")
    head = table((Entry("x"), Entry("y")), columns=(Column(text, "Level"), KBPS))
    assert next(csv.reader(io.StringIO(export.to_csv(head))))[0] == f"'{text}".replace("\t", " ")


def test_parquet_has_types_and_says_what_it_is(tmp_path: Path) -> None:
    """Floats are floats, missing ones null, and the metadata holds title and notes."""
    export.write_parquet(ENTRIES, tmp_path / "t.parquet")
    found = parquet.read_table(tmp_path / "t.parquet")
    assert found.column("tcp_overhead_N1_bps").to_pylist() == [71_130.0, -5_000.0, None]
    assert str(found.schema.field("tcp_overhead_N1_n").type) == "int64"
    assert found.schema.metadata[b"notes"] == b"A note."


# --- terminal ------------------------------------------------------------------------------------

def test_terminal_shows_value_mark_and_published() -> None:
    """All on one line but what was published, which is under its number."""
    lines = terminal.to_plain_text(ENTRIES, 80).splitlines()
    row = next(number for number, line in enumerate(lines) if line.startswith("P2"))
    assert re.match(r"P2 +71\.1 ± 1\.1★", lines[row])
    assert lines[row + 1].strip() == "(71.1)"
    assert any("★ best of all" in line.lower() for line in lines)


def test_terminal_takes_brackets_for_brackets() -> None:
    """Names with what rich takes for markup are shown as they are."""
    assert "[red]x[/red]" in terminal.to_plain_text(table((Entry("[red]x[/red]"), Entry("-"))), 80)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("which", ["published", "wide"])
def test_terminal_fits_its_width_with_every_number_whole(which: str, width: int) -> None:
    """At any width: names go, intervals move below, and parts follow; no number is cut."""
    numbers = [Quantity(1000.5 + n, 1000.0 + n, 1001.0 + n) for n in range(20)]
    wide = table((Entry("P2"), Entry("a name of some length"),
                  *(Entry(number=number) for number in numbers)),
                 columns=(Column("policy", "Policy"), Column("name", "Name"),
                          *(Column(f"c{n}", f"N{n}", "kbit/s", group="All") for n in range(20))))
    tables = [wide] if which == "wide" else tables_of(basis_from_paper())
    for one in tables:
        text = terminal.to_plain_text(one, width)
        assert max(len(line) for line in text.splitlines()) <= width, one.id
        if one is wide:
            assert all(f"{number.value:.2f}" in text for number in numbers)


def test_parts_repeat_all_words_that_say_what_a_row_is() -> None:
    """Two columns of words name a row of numbers that do not fit beside each other."""
    titles = [f"a number that has a long title, {number}" for number in range(4)]
    made = Table("t", "T", (Column("trace", "Trace"), Column("protocol", "Protocol"), *(
        Column(f"n{place}", title, "s") for place, title in enumerate(titles))), tuple(
        (Entry("ALL"), Entry(name), *(exact_entry(1.0) for _ in titles)) for name
        in ("esp", "none")))
    rows = [line.split()[:2] for line in terminal.to_plain_text(made, 90).splitlines() if "ALL"
            in line]
    assert len(rows) > 2
    assert rows == [["ALL", "esp"], ["ALL", "none"]] * (len(rows) // 2)


# --- LaTeX ---------------------------------------------------------------------------------------

@given(st.text(max_size=60))
def test_escaped_text_is_ascii_and_has_no_bare_specials(text: str) -> None:
    """Whatever a policy is called, no character means anything to LaTeX."""
    found = latex.escape_latex(text)
    assert found.isascii()
    bare = re.sub(r"\\[a-zA-Z]+(\{\})?|\\[&%$#_{}]|\\ensuremath\{[^}]*\}|\{<\}|\{>\}", "", found)
    assert not set(bare) & set("&%$#_")


def test_a_long_table_goes_on_on_the_next_page() -> None:
    """A float must not be higher than a page; the number of the table stays."""
    rows = tuple((Entry(f"P{number}"), Entry(number=Quantity(1.0))) for number in range(140))
    text = latex.to_latex(table(*rows))
    assert text.count("\\begin{table}") == text.count("\\end{table}") == 3
    assert text.count("(continued)") == text.count("\\addtocounter{table}{-1}") == 2
    assert [int(name) for name in re.findall(r"^P(\d+) &", text, re.M)] == list(range(140))


def test_a_wide_table_is_set_in_parts_with_its_first_column() -> None:
    """Every number is there once, every policy in each part."""
    columns = (Column("policy", "Policy"), *(Column(f"c{n}", f"N{n}", "kbit/s", group="All")
                                             for n in range(30)))
    row = (Entry("P2"), *(Entry(number=Quantity(1000.5 + n, 1000.0 + n, 1001.0 + n))
                          for n in range(30)))
    text = latex.to_latex(table(row, columns=columns))
    parts = text.count("\\begin{tabular}{@{}l")
    assert parts > 1
    assert text.count("P2 &") == parts
    assert len(set(re.findall(r"10\d\d\.\d+ ", text))) == 30


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX (./qop test installs it)")
def test_latex_compiles_without_anything_sticking_out(tmp_path: Path) -> None:
    """Nasty names, wide and long tables: a PDF, no overfull line, no float that is too large."""
    words = tuple((Entry(NASTY), Entry("word " * 30), Entry("x" * 40, published=1.0),
                   Entry("[in brackets]")) for _ in range(40))
    tables = [ENTRIES, Table("words", NASTY, tuple(
        Column(f"c{n}", f"Confidentiality {n}", group=NASTY[:20]) for n in range(4)), words,
        NASTY, (NASTY,) * 4, ((0, NASTY),))]
    for one in tables:
        (tmp_path / f"{one.id}.tex").write_text(latex.to_latex(one))
    (tmp_path / "tables.tex").write_text(latex.to_latex_document(tables, NASTY))
    assert problems(tmp_path) == []


def test_type_has_minus_signs_and_names_keep_their_hyphens() -> None:
    """A negative number gets one on paper and on the page; WEP-104 and ranges of names do not."""
    entry = Entry(number=Quantity(-5.0, -9.0, -4.0))
    column = Column("x", "x", digits=0)
    assert typeset_minus(format_entry(entry, column)).spread == "[\N{MINUS SIGN}9, \N{MINUS SIGN}4]"
    assert typeset_minus(format_entry(entry, column)).main == "\N{MINUS SIGN}5"
    assert typeset_minus(format_entry(Entry("WEP-104"), column)).main == "WEP-104"


def test_latex_captions_have_one_number() -> None:
    """LaTeX counts tables itself; which one it is in the paper is said behind."""
    found = latex.to_latex(Table("table-5", "Table 5: TCP cryptographic overhead", ENTRIES.columns,
                                 ENTRIES.rows, source="the 2007 paper"))
    assert r"\caption{TCP cryptographic overhead (Table 5 of the 2007 paper)}" in found

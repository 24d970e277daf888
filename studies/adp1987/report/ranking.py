"""Agreement with print: throughputs within 15 %, and the order of latencies.

Only pairs of latencies that the paper decides are judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.cells import Cells, Key, Observation
from analysis.numbers import exact_entry
from analysis.table import Column, Entry, Table
from studies.adp1987 import consistency
from studies.adp1987.body import LATENCY, THROUGHPUT
from studies.adp1987.consistency import RANKED
from studies.adp1987.design import URGENCY
from studies.adp1987.published import PaperValues

#: Largest deviation of a throughput that counts as near.
_NEAR = 0.15
Pair = tuple[Key, Key]
_RULES = ("Pairs of cells of one table that differ in print by more than its clock's millisecond "
          "and the sampling error of Figure 7's deviation. The paper decides those of which no "
          "other figure of its own rules out a cell, by three rules for every cell: its load "
          "exceeds its throughput; it gives an operation another cost than all other cells; it "
          "asks for more shipments than there can be. No measurement enters. Predicted: with a "
          "cell whose latency the traces were not chosen by; those of Tables 2 and 3 they were.")


def build_tables(cells: Cells, paper: PaperValues) -> Iterator[Table]:
    """Yield the throughputs of Tables 3 and 4, and counts of latency pairs in order."""
    rows = [row for table in ("3", "4") for key, value in paper.tables[table].items()
            if key[0] == THROUGHPUT.name and (row := _fit_row(cells, table, key, value))]
    if rows:
        near = sum(row[-1].text == "yes" for row in rows)
        yield Table("table-fit", "Throughput against print, fitted and predicted", (
            Column("cell", "Cell"), Column("kind", "Table 3 is the fit"),
            Column("throughput_bytes_per_s", "throughput", "kB/s", 1e-3, 0),
            Column("deviation_share", "deviation", "%", 100, 1),
            Column("near", "within 15 %")), tuple(rows),
            f"{near} of {len(rows)} cells are within 15 % of print.", clock=cells.results.clock,
            source="the 1987 paper")
    ranked = [row for table in RANKED if (row := _ranking_row(cells, paper, table))]
    if ranked:
        yield Table("table-ranking", "Latencies in the paper's order", (
            Column("table", "Table"), Column("pairs", "pairs that differ in print", digits=0),
            Column("agree", "in its order", digits=0),
            Column("sound", "that the paper decides: of no contradicted cell", digits=0),
            Column("sound_agree", "in its order", digits=0),
            Column("predicted", "of them predicted", digits=0),
            Column("predicted_agree", "in its order", digits=0),
            Column("others", "in another order")), tuple(ranked), _summarize_pairs(cells, paper),
            (_RULES,), clock=cells.results.clock)
        yield Table("table-contradicted", "Latencies that other figures of the paper rule out", (
            Column("table", "Table"), Column("cell", "Cell"), Column("pairs", "pairs with it",
                                                                     digits=0),
            Column("why", "Why")), tuple(
            row for table in RANKED for row in _contradicted_rows(cells, paper, table)),
            "Trace, urgency, encryption, technology and queueing of each. Their pairs say nothing "
            "about who is right.", source="the 1987 paper")
    if any(row[0].text == "6" for row in ranked):
        yield _urgency_table(paper)


def mean_of_cell(cells: Cells, key: Key) -> float | None:
    """Return the mean of a cell, None without one."""
    value = cells.value(key[0], key[1:])
    return value.estimate.mean if isinstance(value, Observation) else None


def _fit_row(cells: Cells, table: str, key: Key, printed: float) -> tuple[Entry, ...] | None:
    measured = mean_of_cell(cells, key)
    if measured is None:
        return None
    deviation = measured / printed - 1
    return (Entry(f"{key[1]} {key[4]} queueing {key[6].lower()}"),
            Entry("fit" if table == "3" else "prediction"), exact_entry(measured, printed),
            exact_entry(deviation), Entry("yes" if abs(deviation) <= _NEAR else "no"))


def _measured_pairs(cells: Cells, paper: PaperValues, table: str) -> list[Pair]:
    """Return a table's pairs that differ in print and whose cells were both measured."""
    return [pair for pair in consistency.decided_pairs(paper, table)
            if all(mean_of_cell(cells, key) is not None for key in pair)]


def _sound_pairs(paper: PaperValues, table: str, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs without a cell that print contradicts."""
    doubtful = consistency.contradicted_cells(paper, table)
    return [pair for pair in pairs if not any(key[1:] in doubtful for key in pair)]


def _predicted_pairs(paper: PaperValues, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs with a cell by whose latency no trace was chosen."""
    known = consistency.fitted_cells(paper)
    return [pair for pair in pairs if any(key[1:] not in known for key in pair)]


def _is_in_paper_order(cells: Cells, paper: PaperValues, table: str, pair: Pair) -> bool:
    printed, (one, other) = paper.tables[table], pair
    return (printed[one] < printed[other]) is ((mean_of_cell(cells, one)
                                                or 0) < (mean_of_cell(cells, other) or 0))


def _summarize_pairs(cells: Cells, paper: PaperValues) -> str:
    sound = [(table, pair) for table in RANKED
             for pair in _sound_pairs(paper, table, _measured_pairs(cells, paper, table))]
    agree = sum(_is_in_paper_order(cells, paper, table, pair) for table, pair in sound)
    return f"{agree} of {len(sound)} pairs that the paper decides are in its order."


def _contradicted_rows(cells: Cells, paper: PaperValues, table: str) -> Iterator[tuple[Entry, ...]]:
    decided = _measured_pairs(cells, paper, table)
    for ids, why in consistency.contradicted_cells(paper, table).items():
        pairs = sum(any(key[1:] == ids for key in pair) for pair in decided)
        if pairs:
            yield Entry(table), Entry(_short_name((LATENCY.name,
                                                   *ids))), exact_entry(pairs), Entry(why)


def _ranking_row(cells: Cells, paper: PaperValues, table: str) -> tuple[Entry, ...] | None:
    pairs = _measured_pairs(cells, paper, table)
    if not pairs:
        return None
    sound = _sound_pairs(paper, table, pairs)
    counts = []
    for chosen in (pairs, sound, _predicted_pairs(paper, sound)):
        agree = sum(_is_in_paper_order(cells, paper, table, pair) for pair in chosen)
        counts += [exact_entry(len(chosen)), exact_entry(agree)]
    others = [pair for pair in pairs if not _is_in_paper_order(cells, paper, table, pair)]
    return (Entry(table), *counts, Entry("; ".join(
        f"{_short_name(one)} and {_short_name(other)}" + " (decided)" * ((one, other) in sound)
        for one, other in others) or "none"))


def _urgency_table(paper: PaperValues) -> Table:
    """Return the table of Table 6's throughputs and what Table 3 allows.

    The limits hold whichever messages are urgent.
    """
    rows = tuple((Entry(f"{urgency} ({URGENCY[urgency]:.2%})"), exact_entry(row.printed),
                  exact_entry(row.least), exact_entry(row.implied_share),
                  exact_entry(row.most_share),
                  Entry("yes" if row.is_contradicted else "no"))
                 for urgency, row in consistency.urgency_rows(paper).items())
    return Table("table-urgency", "Table 6 against Table 3, by print alone", (
        Column("urgency", "Urgent"), Column("printed", "throughput printed", "kB/s", 1e-3, 0),
        Column("least", "least that Table 3 leaves", "kB/s", 1e-3, 0),
        Column("implied", "shipments a message that it takes", digits=3),
        Column("most", "most that there can be", digits=3),
        Column("contradicted", "contradicted")), rows,
        "A sender that never idles ships for an urgent message or a full queue. What a message and "
        "a shipment take follows from Table 3's throughputs with PE, without and with queueing. In "
        "rows with less throughput, latencies are of a sender that ships more often than the "
        "discipline has it.", source="the 1987 paper")


def _short_name(key: Key) -> str:
    return "/".join((key[1], key[2], key[4], key[5], key[6]))

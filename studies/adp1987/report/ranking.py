"""How near print is: throughputs within 15 %, and the order of latencies that the paper decides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from analysis.cells import Cells, Key, Observation
from analysis.numbers import exact
from analysis.table import Column, Entry, Table
from studies.adp1987 import consistency
from studies.adp1987.body import LATENCY, THROUGHPUT
from studies.adp1987.design import URGENCY
from studies.adp1987.published import PaperValues

#: What the issue asks for.
_NEAR = 0.15
_RANKED = ("3", "4", "5", "6")


def tables(cells: Cells, paper: PaperValues) -> Iterator[Table]:
    """Throughputs of Tables 3 and 4 one by one, and how many pairs of latencies are in order."""
    rows = [row for table in ("3", "4") for key, value in paper.tables[table].items()
            if key[0] == THROUGHPUT.name and (row := _near(cells, table, key, value))]
    if rows:
        near = sum(row[-1].text == "yes" for row in rows)
        yield Table("table-fit", "Throughput against print, fitted and predicted", (
            Column("cell", "Cell"), Column("kind", "Table 3 is the fit"),
            Column("throughput_bytes_per_s", "throughput", "kB/s", 1e-3, 0),
            Column("deviation_share", "deviation", "%", 100, 1),
            Column("near", "within 15 %")), tuple(rows),
            f"{near} of {len(rows)} cells are within 15 % of print.", clock=cells.results.clock,
            source="the 1987 paper")
    ranked = [row for table in _RANKED if (row := _ranked(cells, paper, table))]
    if ranked:
        yield Table("table-ranking", "Latencies in the paper's order", (
            Column("table", "Table"), Column("pairs", "pairs that the paper decides", digits=0),
            Column("agree", "in its order", digits=0),
            Column("sound", "of pairs without a contradicted cell", digits=0),
            Column("sound_agree", "in its order", digits=0), Column("others", "in another order")),
            tuple(ranked), "Pairs of cells of one table with different printed latencies. A "
            "contradicted cell is one that other figures of the paper rule out.",
            clock=cells.results.clock)
        yield Table("table-contradicted", "Latencies that other figures of the paper rule out", (
            Column("table", "Table"), Column("cell", "Cell"), Column("pairs", "pairs with it",
                                                                     digits=0),
            Column("why", "Why")), tuple(
            row for table in _RANKED for row in _contradicted(cells, paper, table)),
            "Trace, urgency, encryption, technology and queueing of each. Their pairs say nothing "
            "about who is right.", source="the 1987 paper")
    if any(row[0].text == "6" for row in ranked):
        yield _consistency(paper)


def mean(cells: Cells, key: Key) -> float | None:
    """A cell's mean, None where there is none."""
    value = cells.value(key[0], key[1:])
    return value.estimate.mean if isinstance(value, Observation) else None


def _near(cells: Cells, table: str, key: Key, printed: float) -> tuple[Entry, ...] | None:
    measured = mean(cells, key)
    if measured is None:
        return None
    deviation = measured / printed - 1
    return (Entry(f"{key[1]} {key[4]} queueing {key[6].lower()}"),
            Entry("fit" if table == "3" else "prediction"), exact(measured, printed),
            exact(deviation), Entry("yes" if abs(deviation) <= _NEAR else "no"))


def _decided(cells: Cells, paper: PaperValues, table: str) -> list[tuple[Key, Key]]:
    """Pairs of measured cells of one table with different printed latencies."""
    printed = {key: value for key, value in paper.tables[table].items()
               if key[0] == LATENCY.name and mean(cells, key) is not None}
    return [(one, other) for one, other in itertools.combinations(printed, 2)
            if printed[one] != printed[other]]


def _contradicted(cells: Cells, paper: PaperValues, table: str) -> Iterator[tuple[Entry, ...]]:
    decided = _decided(cells, paper, table)
    for ids, why in consistency.contradicted(paper, table).items():
        pairs = sum(any(key[1:] == ids for key in pair) for pair in decided)
        if pairs:
            yield Entry(table), Entry(_short((LATENCY.name, *ids))), exact(pairs), Entry(why)


def _ranked(cells: Cells, paper: PaperValues, table: str) -> tuple[Entry, ...] | None:
    printed, decided = paper.tables[table], _decided(cells, paper, table)
    if not decided:
        return None

    def agrees(pair: tuple[Key, Key]) -> bool:
        one, other = pair
        return (printed[one] < printed[other]) is (
            (mean(cells, one) or 0) < (mean(cells, other) or 0))

    others = [pair for pair in decided if not agrees(pair)]
    doubtful = consistency.contradicted(paper, table)
    sound = [pair for pair in decided if not any(key[1:] in doubtful for key in pair)]
    return (Entry(table), exact(len(decided)), exact(len(decided) - len(others)),
            exact(len(sound)), exact(sum(map(agrees, sound))), Entry("; ".join(
                f"{_short(one)} and {_short(other)}" for one, other in others) or "none"))


def _consistency(paper: PaperValues) -> Table:
    """Throughputs of Table 6 against what Table 3 allows, whichever messages are urgent."""
    rows = tuple((Entry(f"{urgency} ({URGENCY[urgency]:.2%})"), exact(row.printed),
                  exact(row.least), exact(row.implied_share), exact(row.most_share),
                  Entry("yes" if row.is_contradicted else "no"))
                 for urgency, row in consistency.rows(paper).items())
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


def _short(key: Key) -> str:
    return "/".join((key[1], key[2], key[4], key[5], key[6]))

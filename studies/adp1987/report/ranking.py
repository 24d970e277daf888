"""Build tables that show how well measured values agree with those of the 1987 paper.

`build_tables` compares measured with printed values. A throughput agrees if it is within 15 % of
the printed one. Latencies depend more on details of the messages that the paper does not tell. So
only their order is compared: of two printed latencies, the greater one should also be measured as
the greater one.

Some printed latencies contradict other printed values (`contradicted_cells`), and are not compared.
A cell is one combination of factors. `decided_pairs` yields the pairs of latencies that differ by
more than errors. The paper is the report of Anderson, Ferrari, Rangan and Sartirana (1987) on ADP.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from analysis.cells import Cells, Ids, Key, Observation
from analysis.reporting.table_entries import exact_entry
from analysis.table import Column, Entry, Table
from studies.adp1987.cells import NOMINAL_URGENCY, URGENCY, cell_ids
from studies.adp1987.measurements import ADP_BYTES, LATENCY, THROUGHPUT
from studies.adp1987.published import QUEUES, L, PublishedValues, T, scope_ids
from studies.adp1987.traces import PAGE_BYTES, TRACES

# --- Pairs of latencies that print decides, and printed values that contradict each other ---
# No measured value enters. A pair of cells in one table is decided if its latencies differ by more
# than two limits. One is the resolution of the paper's clock (1 ms). The other is the sampling
# error of the mean: Figure 7's deviation over the number of urgent messages among 10,000. A cell is
# contradicted, and with it all its pairs, if another printed figure rules it out:
#
# 1. Load: the trace offers more (Table 2: size by interarrival time) than the cell's own
# throughput. The queue grows as long as the trace lasts, and the mean latency grows with it.
# 2. One operation has one cost. The throughputs of two cells that differ in nothing else say how
# long the encryption of a trailer takes. Many times the median of all such pairs of Tables 3 and 4
# is a contradiction.
# 3. Shipments: a sender that never idles ships for an urgent message or for a queue that is full or
# would overflow. A full queue takes two messages of more than the bound together. Figure 7 has ADP
# messages of three pages, so the bound is three pages or more; a larger bound leaves fewer
# shipments. Two throughputs of Table 3 give the cost of a message and of a shipment. Without a
# queue, every message is a shipment. With a queue, at least the urgent ones are, which is the
# reading that suits Table 6 best. A throughput below that of the largest number of shipments
# cannot come from this discipline, whichever messages are urgent.

_TRACE = "ALL"
_MESSAGES, _RESOLUTION_S, _NORMAL = 10_000, 0.001, 1.96
#: Factors above which a difference in cost, or in the number of shipments, is more than rounding.
_MANY_TIMES, _ROUNDING = 3.0, 1.05
_PAGES_SEEN = 3
RANKED = ("2", "3", "4", "5", "6")


@dataclass(frozen=True)
class UrgencyRow:
    """A row of Table 6, whose printed throughput is tested for contradictions.

    The fewer messages share a datagram, the lower the throughput. From Table 3 follows how many
    datagrams were sent per message, if the printed throughput is right.

    - `printed`: the printed throughput (bytes/s)
    - `least`: the lowest possible throughput, with the most datagrams (bytes/s)
    - `implied_share`: datagrams per message that follow from the printed throughput
    - `most_share`: the largest possible number of datagrams per message
    """

    printed: float
    least: float
    implied_share: float
    most_share: float

    @property
    def is_contradicted(self) -> bool:
        """Return whether the printed throughput is so low that it cannot be right.

        It would need more datagrams per message than the protocol can send.
        """
        return self.implied_share > self.most_share * _ROUNDING


def decided_pairs(paper: PublishedValues, table: str) -> Iterator[tuple[Key, Key]]:
    """Yield the pairs of latencies in a table of the paper that differ by more than errors.

    The errors are the resolution of the paper's clock (1 ms), and the sampling errors of the means.
    """
    printed = {key: value for key, value in paper.tables[table].items() if key[0] == L}
    for one, other in itertools.combinations(printed, 2):
        counts = (URGENCY[key[2]] * _MESSAGES for key in (one, other))
        error_s = paper.figure_7_ms["deviation"] / 1e3 * sum(1 / count for count in counts) ** 0.5
        if abs(printed[one] - printed[other]) > max(_RESOLUTION_S, _NORMAL * error_s):
            yield one, other


def fitted_cells(paper: PublishedValues) -> frozenset[Ids]:
    """Return the entries of Tables 2 and 3 whose latencies were used to choose the traces."""
    return frozenset(tuple(key[1:]) for table in ("2", "3") for key in paper.tables[table]
                     if key[0] == L)


def contradicted_cells(paper: PublishedValues, table: str) -> Mapping[Ids, str]:
    """Return the entries of a table that other printed values rule out, with the reason."""
    cells = [tuple(key[1:]) for key in paper.tables[table] if key[0] == L]
    by_rule = (_find_overloaded(paper, table), _find_costly(paper),
               _find_impossible_shipments(paper) if table == "6" else {})
    return {cell: "; ".join(rule[cell] for rule in by_rule if cell in rule)
            for cell in cells if any(cell in rule for rule in by_rule)}


def urgency_rows(paper: PublishedValues) -> Mapping[str, UrgencyRow]:
    """Return every row of Table 6 with the limits of its throughput.

    The keys are the fractions of urgent messages.
    """
    mean_bytes = TRACES[_TRACE].mean_bytes
    alone_s = mean_bytes / paper.tables["3"][T, *scope_ids(_TRACE, "PE", "OFF")]
    queued_s = mean_bytes / paper.tables["3"][T, *scope_ids(_TRACE, "PE", "ON")]
    # Without queueing, each message has a shipment of its own. With it, only urgent ones have.
    shipment_s = (alone_s - queued_s) / (1 - URGENCY[NOMINAL_URGENCY])
    message_s = alone_s - shipment_s
    rows_by_urgency = {}
    for urgency, share in URGENCY.items():
        printed = paper.tables["6"][T, *cell_ids(_TRACE, urgency=urgency)]
        most = share + 2 * mean_bytes / (_PAGES_SEEN * PAGE_BYTES)
        rows_by_urgency[urgency] = UrgencyRow(printed, mean_bytes / (message_s + shipment_s * most),
                                              (mean_bytes / printed - message_s) / shipment_s, most)
    return rows_by_urgency


def trailer_costs(paper: PublishedValues) -> Mapping[Ids, float]:
    """Return the time (s) to encrypt a trailer, as printed throughputs imply it.

    Each time follows from two entries that differ only in encryption. The times should be equal.
    """
    costs = {}
    for table, trace in (("3", "ALL"), ("4", "ND")):
        printed, mean_bytes = paper.tables[table], TRACES[trace].mean_bytes
        messages = {"OFF": 1.0,
                    "ON": paper.tables["2"][ADP_BYTES.name, *cell_ids(trace)] / mean_bytes}
        for queue in QUEUES:
            with_it, without = (printed[T, *scope_ids(trace, scope, queue)]
                                for scope in ("PE", "NE"))
            costs[scope_ids(trace, "PE", queue)] = (
                1 / with_it - 1 / without) * mean_bytes * messages[queue]
    return costs


def _find_overloaded(paper: PublishedValues, table: str) -> dict[Ids, str]:
    reasons: dict[Ids, str] = {}
    for (metric, *cell), printed in paper.tables[table].items():
        kind = TRACES[cell[0]]
        offered = kind.mean_bytes / kind.interarrival_s
        if metric == T and printed < offered:
            reasons[tuple(cell)] = (
                f"overloaded: {printed / 1e3:.0f} kB/s where Table 2's rates offer "
                f"{offered / 1e3:.0f}; the mean of a queue that grows is of the trace's length")
    return reasons


def _find_costly(paper: PublishedValues) -> dict[Ids, str]:
    costs = trailer_costs(paper)
    usual_s = median(costs.values())
    return {cell: f"its throughput asks for {cost_s * 1e3:.2f} ms to encrypt a trailer, which "
            f"takes {usual_s * 1e3:.2f} ms by the median of Tables 3 and 4"
            for cell, cost_s in costs.items() if cost_s > _MANY_TIMES * usual_s}


def _find_impossible_shipments(paper: PublishedValues) -> dict[Ids, str]:
    return {cell_ids(_TRACE,
                     urgency=urgency): f"its throughput ({row.printed / 1e3:.0f} kB/s) asks "
            f"for {row.implied_share:.0%} of the messages to be shipments by Table 3, where at "
            f"most {row.most_share:.0%} can be" for urgency, row in urgency_rows(paper).items()
            if row.is_contradicted}


# --- Tables: measured values in the printed order ---

#: Largest deviation of a throughput that counts as near.
_NEAR = 0.15
Pair = tuple[Key, Key]
_RULES = ("Pairs of latencies in one printed table that differ by more than the clock's "
          "millisecond and the sampling error of Figure 7's deviation. The paper decides a pair "
          "if its other numbers do not rule out either latency. They rule one out if the load "
          "exceeds the throughput, if an operation would have another cost than elsewhere, or if "
          "more datagrams (shipments) would be needed than are possible. No measurement is used "
          "for this. Predicted: pairs with a latency that was not used to choose the traces, as "
          "those of Tables 2 and 3 were.")


def build_tables(cells: Cells, paper: PublishedValues) -> Iterator[Table]:
    """Yield tables of the throughputs of Tables 3 and 4, and of latencies in the printed order."""
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
            "Each line has trace, urgency, encryption, technology and queueing. Pairs with such a "
            "latency decide nothing.", source="the 1987 paper")
    if any(row[0].text == "6" for row in ranked):
        yield _urgency_table(paper)


def mean_of_cell(cells: Cells, key: Key) -> float | None:
    """Return the measured mean of an entry, or None without a measurement."""
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


def _measured_pairs(cells: Cells, paper: PublishedValues, table: str) -> list[Pair]:
    """Return a table's pairs of latencies that differ in print, and that were both measured."""
    return [pair for pair in decided_pairs(paper, table)
            if all(mean_of_cell(cells, key) is not None for key in pair)]


def _sound_pairs(paper: PublishedValues, table: str, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of latencies that no other printed value rules out."""
    doubtful = contradicted_cells(paper, table)
    return [pair for pair in pairs if not any(key[1:] in doubtful for key in pair)]


def _predicted_pairs(paper: PublishedValues, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs with at least one latency that was not used to choose the traces."""
    known = fitted_cells(paper)
    return [pair for pair in pairs if any(key[1:] not in known for key in pair)]


def _is_in_paper_order(cells: Cells, paper: PublishedValues, table: str, pair: Pair) -> bool:
    printed, (one, other) = paper.tables[table], pair
    return (printed[one] < printed[other]) is ((mean_of_cell(cells, one)
                                                or 0) < (mean_of_cell(cells, other) or 0))


def _summarize_pairs(cells: Cells, paper: PublishedValues) -> str:
    sound = [(table, pair) for table in RANKED
             for pair in _sound_pairs(paper, table, _measured_pairs(cells, paper, table))]
    agree = sum(_is_in_paper_order(cells, paper, table, pair) for table, pair in sound)
    return f"{agree} of {len(sound)} pairs that the paper decides are in its order."


def _contradicted_rows(cells: Cells, paper: PublishedValues,
                       table: str) -> Iterator[tuple[Entry, ...]]:
    decided = _measured_pairs(cells, paper, table)
    for ids, why in contradicted_cells(paper, table).items():
        pairs = sum(any(key[1:] == ids for key in pair) for pair in decided)
        if pairs:
            yield Entry(table), Entry(_short_name((LATENCY.name,
                                                   *ids))), exact_entry(pairs), Entry(why)


def _ranking_row(cells: Cells, paper: PublishedValues, table: str) -> tuple[Entry, ...] | None:
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


def _urgency_table(paper: PublishedValues) -> Table:
    """Build the table of Table 6's throughputs, with the limits that follow from Table 3.

    The limits hold whichever messages are urgent.
    """
    rows = tuple((Entry(f"{urgency} ({URGENCY[urgency]:.2%})"), exact_entry(row.printed),
                  exact_entry(row.least), exact_entry(row.implied_share),
                  exact_entry(row.most_share),
                  Entry("yes" if row.is_contradicted else "no"))
                 for urgency, row in urgency_rows(paper).items())
    return Table("table-urgency", "Table 6 against Table 3, by print alone", (
        Column("urgency", "Urgent"), Column("printed", "throughput printed", "kB/s", 1e-3, 0),
        Column("least", "least that Table 3 leaves", "kB/s", 1e-3, 0),
        Column("implied", "shipments a message that it takes", digits=3),
        Column("most", "most that there can be", digits=3),
        Column("contradicted", "contradicted")), rows,
        "A sender that never idles sends a datagram (shipment) for an urgent message or a full "
        "queue. The times of a message and of a shipment follow from Table 3's throughputs with "
        "PE, without and with queueing. Rows with less throughput would need a sender that sends "
        "more often than the rules permit.", source="the 1987 paper")


def _short_name(key: Key) -> str:
    return "/".join((key[1], key[2], key[4], key[5], key[6]))

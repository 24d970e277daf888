"""The paper's Tables I to III with measured values, and the model's errors under load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from analysis.cells import Cells, Observation
from analysis.numbers import NOTHING, exact_entry, metric_column, observation_entry
from analysis.table import Column, Entry, Table
from studies.kerberos2002 import model
from studies.kerberos2002.body import BYTES, PACKETS, RESPONSE, THROUGHPUT
from studies.kerberos2002.design import CUSTOMERS, LOADED, cell_ids
from studies.kerberos2002.published import PublishedValues
from studies.kerberos2002.report import phases
from studies.kerberos2002.variants import VARIANTS

_SOURCE = "the 2002 paper"
#: Largest relative error of the model that counts as near.
NEAR_MODEL = 0.03

class LoadPoint(NamedTuple):
    """A load with measured values, and results of exact MVA and of AMVA.

    The inputs of both models come from the record of a single customer.
    """

    protocol: str
    customers: int
    throughput: Observation
    response: Observation
    exact: tuple[float, float]
    approximate: tuple[float, float]
    #: Half of the measured response time's relative 95 % interval, by batch means.
    half_width: float | None

    @property
    def error(self) -> float:
        """Return the larger relative error of the model, in throughput or response time."""
        measured = (self.throughput.estimate.mean, self.response.estimate.mean)
        return max(abs(said / seen - 1) for said, seen in zip(self.exact, measured, strict=True))


def all_tables(cells: Cells, paper: PublishedValues) -> Iterator[Table]:
    """Yield the tables that hold measurements."""
    yield _table_1(cells, paper)
    for table in (_table_2(cells, paper), *phases.phase_tables(cells, paper), _model_table(cells),
                  _demand_table(cells), _price_table(cells)):
        if table.rows:
            yield table


def _table_1(cells: Cells, paper: PublishedValues) -> Table:
    here = {name: model.mean_of(cells, f"here_{name}", cell_ids("pkcross")) for name
            in paper.table_1_s}
    rows = [(Entry(name), exact_entry(seconds), exact_entry(took_s) if (took_s := here[name])
             else NOTHING,
             exact_entry(seconds / took_s) if took_s else NOTHING)
            for name, seconds in paper.table_1_s.items()]
    return Table("table-1", "Table I: operation times on a Celeron of 850 MHz, and here",
                 (Column("operation", "Operation"),
                  Column("operation_s", "published", "ms", 1e3, 4),
                  Column("here_s", "here", "ms", 1e3, 4),
                  Column("times", "times", digits=1)), tuple(rows),
                 "Published is what devices of this study are derived from (celeron-850). Here is "
                 "what one record's judge counted of the processor that it ran on, with OpenSSL; "
                 "nothing follows from it. DES is triple DES of one key there, and what ciphers "
                 "take of 64 bytes is the call from Python.", source=_SOURCE)


def _table_2(cells: Cells, paper: PublishedValues) -> Table:
    rows = []
    for protocol in ("pkcross", "pktapp"):
        for party, legible in paper.legible[protocol].items():
            counts = [cells.find_value(f"{kind}_{party.replace('-', '_')}", cell_ids(protocol))
                      for kind in ("private", "public", "operation")]
            if any(counts):
                rows.append((Entry(VARIANTS[protocol].title), Entry(party),
                             *(observation_entry(count) if count else exact_entry(0) for count
                               in counts[:2]),
                             observation_entry(counts[2], legible),
                             exact_entry(paper.counted[protocol][party])))
    return Table("table-2", "Table II: operations of a transaction with one server",
                 (Column("protocol", "Protocol"), Column("party", "Party"),
                  Column("private", "private", digits=0), Column("public", "public", digits=0),
                  Column("secret", "secret", digits=0),
                  Column("appendix", "secret, by Appendix A", digits=0)), tuple(rows),
                 "Published: the legible figures, read as secret-key operations. Real messages of "
                 "Kerberos encrypt more parts than the paper's essential elements.", source=_SOURCE)


def measured_loads(cells: Cells) -> Iterator[LoadPoint]:
    """Yield each measured load with the model's results."""
    for protocol in LOADED:
        for customers in CUSTOMERS[1:]:
            cell = cell_ids(protocol, customers=customers)
            throughput, response = (cells.find_value(name, cell)
                                    for name in (THROUGHPUT.name, RESPONSE.name))
            alone = model.transaction_of(cells, cell_ids(protocol))
            if throughput and response and alone:
                yield LoadPoint(protocol, customers, throughput, response,
                                alone.mean_performance(customers),
                                alone.mean_performance(customers, "schweitzer"),
                                model.half_width(cells, cell))


def _model_table(cells: Cells) -> Table:
    rows = [(Entry(VARIANTS[load.protocol].title), exact_entry(load.customers),
             observation_entry(load.throughput), exact_entry(load.exact[0]),
             observation_entry(load.response),
             exact_entry(load.exact[1]), exact_entry(load.approximate[1]), exact_entry(load.error),
             exact_entry(max(abs(load.approximate[0] / load.exact[0] - 1),
                             abs(load.approximate[1] / load.exact[1] - 1))),
             exact_entry(load.half_width) if load.half_width is not None else NOTHING)
            for load in measured_loads(cells)]
    near = sum(load.error <= NEAR_MODEL for load in measured_loads(cells))
    return Table("table-model", "Figures 4 and 9: the model against the test bed under load", (
        Column("protocol", "Protocol"), Column("customers", "customers", digits=0),
        Column("throughput_per_s", "measured", "/s", digits=4, group="throughput"),
        Column("throughput_model_per_s", "MVA", "/s", digits=4, group="throughput"),
        Column("response_s", "measured", "s", digits=2, group="response time"),
        Column("response_model_s", "MVA", "s", digits=2, group="response time"),
        Column("response_amva_s", "AMVA", "s", digits=2, group="response time"),
        Column("model_error", "MVA's error", "%", 100, 1),
        Column("amva_error", "AMVA off MVA", "%", 100, 1),
        Column("response_half_width", "interval, ±", "%", 100, 1)), tuple(rows),
        f"{near} of {len(rows)} loads are within 3 % in throughput and response time. The model's "
        "inputs are a lone customer's, whose service times are fixed; under load they are gamma "
        "distributed with these means. The interval (95 %) is that of the measured response time, "
        "from ten batches of successive transactions.", clock=cells.results.clock)


def _demand_table(cells: Cells) -> Table:
    """Build the table of demands by party: the party that saturates first, and its throughput."""
    rows = []
    for protocol in VARIANTS:
        asked = model.transaction_of(cells, cell_ids(protocol))
        if asked:
            demands = [asked.demand_s(party) for party in ("kdc-l", "kdc-r", "proxy", "app1")]
            rows.append((Entry(VARIANTS[protocol].title),
                         *(exact_entry(value) if value else NOTHING for value in demands),
                         exact_entry(asked.delay_s), Entry(asked.bottleneck),
                         exact_entry(asked.capacity_per_s)))
    return Table("table-demands", "The model's inputs: demands of a transaction (s_ir, v_ir)", (
        Column("protocol", "Protocol"), *(Column(f"demand_{party}_s", title, "s", digits=3)
                                          for party, title in (
            ("kdc_l", "local KDC"), ("kdc_r", "remote KDC"), ("proxy", "proxy"),
            ("app1", "server"))),
        Column("delay_s", "wires and client", "s", digits=3), Column("first", "saturates first"),
        Column("capacity_per_s", "at most", "/s", digits=4)), tuple(rows),
        "From a lone customer's record, at the 2002 servers' speed; all else is a delay.",
        clock=cells.results.clock)


def _price_table(cells: Cells) -> Table:
    """Build the table of packets and bytes on the client's wire.

    The paper does not give them.
    """
    rows = []
    for protocol in VARIANTS:
        for suite in ("era", "today"):
            cell = cell_ids(protocol, suite=suite)
            if cells.find_value(RESPONSE.name, cell):
                rows.append((Entry(VARIANTS[protocol].title), Entry(suite), *(
                    observation_entry(cells.find_value(metric.name, cell)) for metric in (
                        PACKETS, BYTES, RESPONSE))))
    return Table("table-prices", "What a transaction puts on the client's wire, one server", (
        Column("protocol", "Protocol"), Column("suite", "Suite"),
        *(metric_column(metric) for metric in (PACKETS, BYTES, RESPONSE))), tuple(rows),
        "Suite today is on celeron-850, the only device with RSA-2048 in print; its times are not "
        "to be compared with those of the era's devices.", clock=cells.results.clock)

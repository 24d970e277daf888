"""Numbers for section 6.4's design questions, and for the combined protocol of section 5.4."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Cells
from analysis.numbers import NOTHING, exact_entry
from analysis.table import Column, Entry, Table
from studies.kerberos2002 import model
from studies.kerberos2002.design import cell_ids
from studies.kerberos2002.model import Transaction
from studies.kerberos2002.variants import MOBILE, VARIANTS

_CUSTOMERS = (1, 4, 16)
#: Counts for each guideline: a column's title and its group.
_GUIDELINES = {
    "private_client": ("private", "1: client's operations"),
    "public_client": ("public", "1: client's operations"),
    "counted_proxy_keys": ("keys told", "2: the proxy"),
    "counted_proxy_parts": ("parts it can read", "2: the proxy"),
    "counted_parts": ("of", "2: the proxy"),
    "counted_own_messages": ("of no standard", "3: KDC and server"),
    "counted_kdc_made": ("made by the KDC", "4: the reply's key"),
    "counted_key_holders": ("parties that know it", "4: the reply's key")}
#: Numbers of customers with PKCROSS and with PKTAPP.
_MIXES = ((8, 1), (8, 4), (8, 8), (1, 8))


def question_tables(cells: Cells) -> Iterator[Table]:
    """Yield the tables for which there are measurements."""
    for table in (_guideline_table(cells), _combined_table(cells), _mixed_table(cells),
                  _figure_b1(cells)):
        if table.rows:
            yield table


def _guideline_table(cells: Cells) -> Table:
    """Build the table of the guidelines, which the paper answers in words."""
    rows = []
    for protocol in MOBILE:
        numbers = [model.mean_of(cells, name, cell_ids(protocol)) for name in _GUIDELINES]
        if numbers[0] is None:
            continue
        rows.append((Entry(VARIANTS[protocol].title),
                     *(NOTHING if number is None else exact_entry(number) for number in numbers)))
    return Table("table-questions", "Section 6.4: what became of the four guidelines", (
        Column("protocol", "Protocol"),
        *(Column(name, title, digits=0, group=group)
          for name, (title, group) in _GUIDELINES.items())), tuple(rows),
        "Operations are counted by the programs and checked against the messages; all else is "
        "counted in the messages by the judge, with the run's keys. What the proxy can read are "
        "encrypted parts that its private key and keys within these open, one after the other. Of "
        "no standard are messages and data at KDC and server without a number of RFC 4120 or "
        "draft 05. The reply's key is known to client and KDC, and to a proxy that can open what "
        "is encrypted with it: so many have to be trusted.", clock=cells.results.clock)


def _combined_table(cells: Cells) -> Table:
    """Build the table of a client that chooses by the number of servers (section 5.4).

    Its regret is the additional time of the chosen protocol.
    """
    rows = []
    for placement in ("one", "each"):
        for servers in (1, 2, 4):
            at = "one" if servers == 1 else placement
            pair = [model.transaction_of(cells, cell_ids(name, servers=servers, placement=at))
                    for name in ("pkcross", "pktapp")]
            if pair[0] and pair[1]:
                rows += [_choice_row(placement, servers, customers, pair[0], pair[1])
                         for customers in _CUSTOMERS]
    return Table("table-combined", "Section 5.4: PKTAPP for one server, PKCROSS for more", (
        Column("placement", "Servers on"), Column("servers", "servers", digits=0),
        Column("customers", "customers", digits=0),
        Column("pkcross_s", "PKCROSS", "s", digits=2), Column("pktapp_s", "PKTAPP", "s", digits=2),
        Column("chosen", "the rule chooses"),
        Column("regret_s", "regret", "s", digits=2)), tuple(rows),
        "Response times, modelled from records. Regret: by how much the chosen protocol takes "
        "longer than the other one.", clock=cells.results.clock)


def _mixed_table(cells: Cells) -> Table:
    """Build the table of users of both protocols in one network, as two chains."""
    pair = [model.transaction_of(cells, cell_ids(name)) for name in ("pkcross", "pktapp")]
    rows = []
    if pair[0] and pair[1]:
        for counts in _MIXES:
            exact_s, approximate_s = (model.mixed_response_times(pair[0], pair[1], counts, method)
                                      for method in ("exact", "schweitzer"))
            rows.append((*map(exact_entry, counts), *map(exact_entry, exact_s),
                         *map(exact_entry, approximate_s)))
    return Table("table-mixed", "Section 5.4: users of both protocols beside each other", (
        Column("pkcross", "with PKCROSS", digits=0, group="customers"),
        Column("pktapp", "with PKTAPP", digits=0, group="customers"),
        *(Column(f"{name}_{method}_s", title, "s", digits=2, group=group)
          for method, group in (("mva", "MVA"), ("amva", "AMVA"))
          for name, title in (("pkcross", "PKCROSS"), ("pktapp", "PKTAPP")))), tuple(rows),
        "Two equivalence classes (B.1 to B.11), one server; response times by model.",
        clock=cells.results.clock)


def _figure_b1(cells: Cells) -> Table:
    """Return the transaction of Figure B.1 as the model's inputs."""
    asked = model.transaction_of(cells, cell_ids("mp-assist", wire="3g", speed=50))
    rows = [(Entry(party), Entry(name), exact_entry(count), exact_entry(each_s))
            for (party, name), (count, each_s) in asked.visits.items()] if asked else []
    if asked:
        rows.append((Entry("wires and client"), Entry("under way"), exact_entry(1),
                     exact_entry(asked.delay_s)))
    return Table("table-b1", "Figure B.1: MP-PKINIT as the model's inputs (3G, speed-up 50)", (
        Column("station", "Station"), Column("class", "Class"),
        Column("visits", "v_ir", digits=0), Column("service_s", "s_ir", "ms", 1e3, 2)),
        tuple(rows), "Proxy assist, from a lone customer's record.", clock=cells.results.clock)


def _choice_row(placement: str, servers: int, customers: int, cross: Transaction,
                direct: Transaction) -> tuple[Entry, ...]:
    cross_s, direct_s = cross.mean_performance(customers)[1], direct.mean_performance(customers)[1]
    chosen = "PKTAPP" if servers == 1 else "PKCROSS"
    chosen_s = direct_s if servers == 1 else cross_s
    return (Entry("one machine" if placement == "one" else "a machine each"), exact_entry(servers),
            exact_entry(customers), exact_entry(cross_s), exact_entry(direct_s), Entry(chosen),
            exact_entry(chosen_s - min(cross_s, direct_s)))

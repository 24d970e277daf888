"""Build Tables I to III of the 2002 paper on Kerberos with measured values, and further tables.

`build_paper_tables` takes the measured values of a run. It yields Tables I to III (Table III by
`build_phase_tables`), errors of the queueing model, CPU times by node, and packets on the client's
wire. `build_question_tables` yields numbers for the paper's design questions (section 6.4), and for
a client that chooses between protocols (section 5.4). The paper is Harbitter and Menascé (2002).
`studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from analysis.cells import Cells, Observation
from analysis.reporting.table_entries import (
    MISSING_ENTRY,
    exact_entry,
    metric_column,
    observation_entry,
)
from analysis.table import Column, Entry, Table
from studies.kerberos2002 import model
from studies.kerberos2002.cells import CUSTOMERS, LOADED, cell_ids
from studies.kerberos2002.measurements import BYTES, PACKETS, PHASES, RESPONSE, THROUGHPUT
from studies.kerberos2002.model import Transaction
from studies.kerberos2002.published import PublishedValues
from studies.kerberos2002.variants import MOBILE, VARIANTS

# --- Table III: phases as measured, as predicted and as printed ---

#: Largest relative difference of a phase from its operations and messages that counts as near.
NEAR_COUNTS = 0.05
_FINDINGS = {
    "m-standard": "Post-auth includes the private operation that draft 05 needs to decrypt the "
                  "KDC's temporary key. The paper's 255 ms do not (I4).",
    "m-client-key": "The KDC does one private operation. The paper's Auth includes two (I4). "
                    "--kdc-signs measures that, too.",
    "mp-standard": "As row 1, with the proxy's messages.",
    "mp-client-key": "As row 2.",
    "mp-trusted": "The proxy's own operations are a prediction: the device was derived from rows 1 "
                  "to 4.",
    "mp-assist": "As row 5. Here the client builds no chain, which saves 81 ms of Pre-auth. In "
                 "print it saves nothing."}
#: Finding that replaces a row's own where an option repeats what the paper's programs did.
_AS_PAPER = "Measured with the operations that the paper's programs evidently did (I4)."


def build_phase_tables(cells: Cells, paper: PublishedValues) -> Iterator[Table]:
    """Yield Table III, and a table of differences of each phase from predictions and print."""
    yield from (_table_3(cells, paper), _prediction_table(cells, paper))


def _run_settings(cells: Cells) -> Mapping[str, Any]:
    """Return the settings of the run, or {} if its plan is missing."""
    return cells.results.manifest.asked if cells.results.manifest else {}


def _find_reasons(cells: Cells) -> dict[str, str]:
    """Return the reason why each row of Table III differs from print."""
    settings = _run_settings(cells)
    options = {"m-standard": "spares_opening", "m-client-key": "kdc_signs"}
    return {row: _AS_PAPER if settings.get(options.get(row, "")) else finding
            for row, finding in _FINDINGS.items()}


def _table_3(cells: Cells, paper: PublishedValues) -> Table:
    rows, findings = [], _find_reasons(cells)
    for protocol in MOBILE:
        cell = cell_ids(protocol)
        if cells.find_value(RESPONSE.name, cell):
            rows.append((Entry(VARIANTS[protocol].title, note=findings[protocol]), *(
                observation_entry(cells.find_value(metric.name, cell),
                                  paper.table_3[(metric.name, *cell)])
                for metric in (*PHASES, RESPONSE))))
    return Table("table-3", "Table III: service times by phase", (
        Column("protocol", "Protocol"), *(metric_column(metric) for metric in PHASES),
        Column(RESPONSE.name, "Total", "ms", 1e3, 0)), tuple(rows),
        "Devices are derived from print's rows 1 to 4, read as its skeleton did its operations; "
        "the protocols do those of their drafts.",
        tuple(f"{VARIANTS[name].title}: {finding}" for name, finding in findings.items()),
        clock=cells.results.clock, source="the 2002 paper")


def _skeleton_changes(cells: Cells, protocol: str) -> dict[str, float]:
    """Return how phases (s) change if operations are done as in the paper's programs."""
    settings = _run_settings(cells)
    devices = cells.results.manifest.devices if cells.results.manifest else {}
    own, server = (devices.get(str(settings.get(f"{role}_device")))
                   for role in ("mobile", "server"))
    if own is None or server is None:
        return {}
    task = {"devices": {"mobile": own, "server": server}, "speed": 1, "suite": "era",
            "chain_length": settings["chain_length"]}
    here, there = (model.predict_phases(VARIANTS[protocol], {**task, **options}) for options
                   in (
        settings, {"kdc_signs": True, "spares_opening": True}))
    return {name: there[name] - here[name] for name in here}


def _prediction_table(cells: Cells, paper: PublishedValues) -> Table:
    """Build a table that compares each measured phase with its operations, and with print."""
    rows = []
    for protocol in MOBILE:
        cell, changes = cell_ids(protocol), _skeleton_changes(cells, protocol)
        for metric in PHASES:
            mean = model.mean_of(cells, metric.name, cell)
            due = model.mean_of(cells, f"predicted_{metric.name}", cell)
            if mean is None or due is None:
                continue
            printed = paper.table_3[(metric.name, *cell)]
            skeleton = due + changes[metric.name] if changes else None
            rows.append((Entry(VARIANTS[protocol].title), Entry(metric.title), exact_entry(mean),
                         exact_entry(due), exact_entry(mean - due), exact_entry(mean / due - 1),
                         exact_entry(printed),
                         exact_entry(mean / printed - 1),
                         *([MISSING_ENTRY] * 2 if skeleton is None else
                           [exact_entry(skeleton), exact_entry(skeleton / printed - 1)])))
    near = sum(abs(row[5].number.value) <= NEAR_COUNTS for row in rows if row[5].number)
    return Table("table-3-predicted", "Table III against operation counts, and against print", (
        Column("protocol", "Protocol"), Column("phase", "Phase"),
        Column("measured_s", "measured", "ms", 1e3, 0),
        Column("counted_s", "counted", "ms", 1e3, 0),
        Column("difference_s", "difference", "ms", 1e3, 1),
        Column("count_error", "", "%", 100, 1),
        Column("printed_s", "print", "ms", 1e3, 0),
        Column("print_error", "off print", "%", 100, 0),
        Column("skeleton_s", "counted", "ms", 1e3, 0, group="as the paper's programs"),
        Column("skeleton_error", "off print", "%", 100, 1, group="as the paper's programs")),
        tuple(rows),
        f"{near} of {len(rows)} phases are within 5 % of what their operations and messages take. "
        "The last two columns count the operations that the paper's programs evidently did (I4): "
        "a KDC signs under a client's key, too, and a client opens its temporary key for nothing "
        "(--kdc-signs, --spares-opening). Rows 5 and 6 are no part of what devices were derived "
        "from.", clock=cells.results.clock)


# --- Tables I and II, and the model under load ---

_SOURCE = "the 2002 paper"
#: Largest relative error of the model that counts as near.
NEAR_MODEL = 0.03

class LoadPoint(NamedTuple):
    """Measured and modelled values for one number of users.

    The models are exact mean value analysis (MVA) and an approximation (AMVA). Their inputs come
    from a single user's login.
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
        return max(abs(value / mean - 1)
                   for value, mean in zip(self.exact, measured, strict=True))


def build_paper_tables(cells: Cells, paper: PublishedValues) -> Iterator[Table]:
    """Yield the tables that have measured values."""
    yield _table_1(cells, paper)
    for table in (_table_2(cells, paper), *build_phase_tables(cells, paper),
                  _model_table(cells),
                  _demand_table(cells), _price_table(cells)):
        if table.rows:
            yield table


def _table_1(cells: Cells, paper: PublishedValues) -> Table:
    here = {name: model.mean_of(cells, f"here_{name}", cell_ids("pkcross")) for name
            in paper.table_1_s}
    rows = [(Entry(name), exact_entry(seconds), exact_entry(took_s) if (took_s := here[name])
             else MISSING_ENTRY,
             exact_entry(seconds / took_s) if took_s else MISSING_ENTRY)
            for name, seconds in paper.table_1_s.items()]
    return Table("table-1", "Table I: operation times on a Celeron of 850 MHz, and here",
                 (Column("operation", "Operation"),
                  Column("operation_s", "published", "ms", 1e3, 4),
                  Column("here_s", "here", "ms", 1e3, 4),
                  Column("times", "times", digits=1)), tuple(rows),
                 "Published: the source of the study's devices (celeron-850). Here: times of "
                 "OpenSSL on the processor that evaluated one repetition. They are not used. DES "
                 "is triple DES with one key there. For 64 bytes, ciphers mostly take the time of "
                 "the call from Python.", source=_SOURCE)


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
    """Yield each measured number of users with the results of the queueing model."""
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
             exact_entry(load.half_width) if load.half_width is not None else MISSING_ENTRY)
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
        "inputs come from a run with one user, where service times are fixed. Under load they are "
        "gamma distributed with these means. The interval (95 %) is that of the measured response "
        "time, from ten batches of successive transactions.", clock=cells.results.clock)


def _demand_table(cells: Cells) -> Table:
    """Build the table of CPU times by node, with the node that saturates first."""
    rows = []
    for protocol in VARIANTS:
        transaction = model.transaction_of(cells, cell_ids(protocol))
        if transaction:
            demands = [transaction.demand_s(party) for party in ("kdc-l", "kdc-r", "proxy", "app1")]
            rows.append((Entry(VARIANTS[protocol].title),
                         *(exact_entry(value) if value else MISSING_ENTRY for value in demands),
                         exact_entry(transaction.delay_s), Entry(transaction.bottleneck),
                         exact_entry(transaction.capacity_per_s)))
    return Table("table-demands", "The model's inputs: demands of a transaction (s_ir, v_ir)", (
        Column("protocol", "Protocol"), *(Column(f"demand_{party}_s", title, "s", digits=3)
                                          for party, title in (
            ("kdc_l", "local KDC"), ("kdc_r", "remote KDC"), ("proxy", "proxy"),
            ("app1", "server"))),
        Column("delay_s", "wires and client", "s", digits=3), Column("first", "saturates first"),
        Column("capacity_per_s", "capacity", "/s", digits=4)), tuple(rows),
        "From the repetition with one user, at the servers' speed of 2002. All other time is a "
        "delay.",
        clock=cells.results.clock)


def _price_table(cells: Cells) -> Table:
    """Build the table of packets and bytes on the client's wire, which the paper does not give."""
    rows = []
    for protocol in VARIANTS:
        for suite in ("era", "today"):
            cell = cell_ids(protocol, suite=suite)
            if cells.find_value(RESPONSE.name, cell):
                rows.append((Entry(VARIANTS[protocol].title), Entry(suite), *(
                    observation_entry(cells.find_value(metric.name, cell)) for metric in (
                        PACKETS, BYTES, RESPONSE))))
    return Table("table-prices", "Packets and bytes of a transaction on the client's wire, one "
                                 "server", (
        Column("protocol", "Protocol"), Column("suite", "Suite"),
        *(metric_column(metric) for metric in (PACKETS, BYTES, RESPONSE))), tuple(rows),
        "Suite today is on celeron-850, the only device with RSA-2048 in print; its times are not "
        "to be compared with those of the era's devices.", clock=cells.results.clock)


# --- Section 6.4's design questions, and the combined protocol of section 5.4 ---

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


def build_question_tables(cells: Cells) -> Iterator[Table]:
    """Yield the tables on design questions for which there are measurements."""
    for table in (_guideline_table(cells), _combined_table(cells), _mixed_table(cells),
                  _figure_b1(cells)):
        if table.rows:
            yield table


def _guideline_table(cells: Cells) -> Table:
    """Build the table of numbers for guidelines that the paper gives in words."""
    rows = []
    for protocol in MOBILE:
        numbers = [model.mean_of(cells, name, cell_ids(protocol)) for name in _GUIDELINES]
        if numbers[0] is None:
            continue
        rows.append((Entry(VARIANTS[protocol].title),
                     *(MISSING_ENTRY if number is None else exact_entry(number) for number
                       in numbers)))
    return Table("table-questions", "Section 6.4: the four guidelines in numbers", (
        Column("protocol", "Protocol"),
        *(Column(name, title, digits=0, group=group)
          for name, (title, group) in _GUIDELINES.items())), tuple(rows),
        "Operations are counted by the programs and checked against the messages. All other "
        "numbers are counted in the messages, with the run's keys. The proxy can read encrypted "
        'parts that its private key decrypts, and parts whose keys it finds in these. "Of no '
        'standard" are messages and data at KDC and server without a number in RFC 4120 or draft '
        "05. The reply's key is known to client and KDC, and to a proxy that can decrypt it. All "
        "of them have to be trusted.", clock=cells.results.clock)


def _combined_table(cells: Cells) -> Table:
    """Build the table of a client that chooses a protocol by the number of servers (section 5.4).

    Its regret is the additional time of the chosen protocol, compared with the better one.
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
        "Response times by the queueing model. Regret: by how much the chosen protocol takes "
        "longer than the other one.", clock=cells.results.clock)


def _mixed_table(cells: Cells) -> Table:
    """Build the table of response times if some users use PKCROSS and others PKTAPP."""
    pair = [model.transaction_of(cells, cell_ids(name)) for name in ("pkcross", "pktapp")]
    rows = []
    if pair[0] and pair[1]:
        for counts in _MIXES:
            exact_s, approximate_s = (model.mixed_response_times(pair[0], pair[1], counts, method)
                                      for method in ("exact", "schweitzer"))
            rows.append((*map(exact_entry, counts), *map(exact_entry, exact_s),
                         *map(exact_entry, approximate_s)))
    return Table("table-mixed", "Section 5.4: users of both protocols at the same time", (
        Column("pkcross", "with PKCROSS", digits=0, group="customers"),
        Column("pktapp", "with PKTAPP", digits=0, group="customers"),
        *(Column(f"{name}_{method}_s", title, "s", digits=2, group=group)
          for method, group in (("mva", "MVA"), ("amva", "AMVA"))
          for name, title in (("pkcross", "PKCROSS"), ("pktapp", "PKTAPP")))), tuple(rows),
        "Two classes of users (B.1 to B.11), one server. Response times by the queueing model.",
        clock=cells.results.clock)


def _figure_b1(cells: Cells) -> Table:
    """Build the table of Figure B.1: the requests of a login, as inputs of the queueing model."""
    transaction = model.transaction_of(cells, cell_ids("mp-assist", wire="3g", speed=50))
    rows = [(Entry(party), Entry(name), exact_entry(count), exact_entry(each_s))
            for (party, name), (count, each_s) in transaction.visits.items()] if transaction else []
    if transaction:
        rows.append((Entry("wires and client"), Entry("under way"), exact_entry(1),
                     exact_entry(transaction.delay_s)))
    return Table("table-b1", "Figure B.1: MP-PKINIT as the model's inputs (3G, speed-up 50)", (
        Column("station", "Station"), Column("class", "Class"),
        Column("visits", "v_ir", digits=0), Column("service_s", "s_ir", "ms", 1e3, 2)),
        tuple(rows), "Proxy assist, from the repetition with one user.", clock=cells.results.clock)


def _choice_row(placement: str, servers: int, customers: int, cross: Transaction,
                direct: Transaction) -> tuple[Entry, ...]:
    cross_s, direct_s = cross.mean_performance(customers)[1], direct.mean_performance(customers)[1]
    chosen = "PKTAPP" if servers == 1 else "PKCROSS"
    chosen_s = direct_s if servers == 1 else cross_s
    return (Entry("one machine" if placement == "one" else "a machine each"), exact_entry(servers),
            exact_entry(customers), exact_entry(cross_s), exact_entry(direct_s), Entry(chosen),
            exact_entry(chosen_s - min(cross_s, direct_s)))

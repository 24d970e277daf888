"""Build the tables of login costs with MIT krb5, by login method.

`build_tables` takes the measured values of a run. It yields tables of packets, bytes and times of a
login, of timers on a slow 2G link, and of the load of a KDC.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.cells import Cells
from analysis.metrics import Metric
from analysis.reporting.table_entries import exact_entry, metric_column, observation_entry
from analysis.table import Column, Entry, Table
from studies.krb5today.cells import TIMED, TRANSPORTS, WIRES, cell_ids
from studies.krb5today.measurements import BYTES, CLIENT, KDC, PACKETS, REPEATED, TIME, TRIPS
from studies.krb5today.mechanisms import LOADED, MECHANISMS
from studies.krb5today.model import measured_demand, measured_loads


def build_tables(cells: Cells) -> Iterator[Table]:
    """Yield the tables that have measured values."""
    for table in (_prices_table(cells), _wires_table(cells), _timers_table(cells),
                  _capacity_table(cells), _loads_table(cells)):
        if table.rows:
            yield table


def _prices_table(cells: Cells) -> Table:
    metrics = (TRIPS, PACKETS, BYTES, KDC, CLIENT, TIME)
    rows = [(Entry(mechanism.title),
             *(observation_entry(cells.find_value(metric.name, cell_ids(name)))
                                       for metric in metrics))
            for name, mechanism in MECHANISMS.items()
            if cells.find_value(TIME.name, cell_ids(name))]
    return Table("table-prices", "Price list of logins, 10 Mbit/s", (
        Column("mechanism", "Mechanism"), *map(metric_column, metrics)), tuple(rows),
        "Round trips are answered requests and opened connections. The armour ticket of FAST is "
        "obtained before. Logins that continue to an application server include its "
        "authentication. For PKTAPP, the processor time is that of KDC and application server, "
        "which share a node. Clients use processor time, but their computing delays nothing.",
        clock=cells.results.clock)


def _wires_table(cells: Cells) -> Table:
    wires = [wire for wire in WIRES if wire != "none"]
    rows = []
    for name, mechanism in MECHANISMS.items():
        values = [cells.find_value(TIME.name, cell_ids(name, wire)) for wire in wires]
        if any(values):
            rows.append((Entry(mechanism.title), *map(observation_entry, values)))
    return Table("table-wires", "Time of a login by the client's wire", (
        Column("mechanism", "Mechanism"),
        *(Column(f"login_{wire}_s", WIRES[wire], "ms", 1e3, 0) for wire in wires)), tuple(rows),
        "From the first packet to the last message of Kerberos.", clock=cells.results.clock)


def _timers_table(cells: Cells) -> Table:
    """Build the table of retransmissions on a 2G link, compared with a LAN."""
    rows = []
    for name in TIMED:
        for transport, title in TRANSPORTS.items():
            near, far = (cells.find_value(BYTES.name, cell_ids(name, wire, transport))
                         for wire in ("lan", "2g"))
            if near and far:
                there = cell_ids(name, "2g", transport)
                rows.append((Entry(MECHANISMS[name].title), Entry(title), observation_entry(near),
                             observation_entry(far),
                             exact_entry(far.estimate.mean / near.estimate.mean - 1),
                             observation_entry(cells.find_value(REPEATED.name, there)),
                             observation_entry(cells.find_value(PACKETS.name, there)),
                             observation_entry(cells.find_value(TIME.name, there))))
    return Table("table-timers", "Effect of MIT krb5's timers at 9600 bit/s, 520 ms", (
        Column("mechanism", "Mechanism"), Column("transport", "Transport"),
        _bytes_column(BYTES, "near", "10 Mbit/s"), _bytes_column(BYTES, "far", "2G"),
        Column("added_share", "added", "%", 100, 0), metric_column(REPEATED),
        metric_column(PACKETS),
        metric_column(TIME)), tuple(rows),
        "The library tries another transport after a second without an answer, and Linux repeats "
        "a SYN after a second. With 520 ms each way, no answer comes sooner.",
        clock=cells.results.clock)


def _bytes_column(metric: Metric, ending: str, title: str) -> Column:
    return Column(f"{metric.name}_{ending}", title, metric.unit, metric.scale, metric.digits,
                  group="bytes of a login")


def _capacity_table(cells: Cells) -> Table:
    rows = []
    for name in LOADED:
        demand = measured_demand(cells, name)
        if demand:
            best = max((load.rate.estimate.mean for load in measured_loads(cells)
                        if load.mechanism == name), default=None)
            rows.append((Entry(MECHANISMS[name].title), exact_entry(demand.kdc_s),
                         exact_entry(demand.capacity_per_s),
                         exact_entry(best) if best else Entry("not loaded")))
    return Table("table-capacity", "Capacity of one KDC process on this machine's processor", (
        Column("mechanism", "Mechanism"), Column("kdc_s", "processor of a login", "ms", 1e3, 2),
        Column("capacity_per_s", "at most, by that", "/s", digits=0),
        Column("measured_per_s", "most that was measured", "/s", digits=0)), tuple(rows),
        "MIT's KDC has one thread. Each further worker (-w) uses another processor.",
        clock=cells.results.clock)


def _loads_table(cells: Cells) -> Table:
    rows = [(Entry(MECHANISMS[load.mechanism].title), exact_entry(load.customers),
             observation_entry(load.rate),
             exact_entry(load.modelled_per_s),
             exact_entry(load.modelled_per_s / load.rate.estimate.mean - 1),
             exact_entry(load.alone.login_rate(load.customers) / load.rate.estimate.mean - 1),
             observation_entry(load.response)) for load in measured_loads(cells)]
    return Table("table-loads", "A restart: all users log in again and again, measured and "
                                "modelled", (
        Column("mechanism", "Mechanism"), Column("customers", "customers", digits=0),
        Column("rate_per_s", "measured", "/s", digits=1, group="logins"),
        Column("rate_model_per_s", "MVA", "/s", digits=1, group="logins"),
        Column("model_error", "MVA's error", "%", 100, 1),
        Column("alone_error", "with the inputs of a single user", "%", 100, 1),
        Column("login_s", "time of a login", "ms", 1e3, 1)), tuple(rows),
        "The model uses the processor time counted under this load, and for the last error that "
        "of a single user. The last error therefore includes what a busy host adds to the "
        "processor clock. The model assumes exponential service times. Those of logins hardly "
        "vary, so with few users the model predicts too low a rate.", clock=cells.results.clock)

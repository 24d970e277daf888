"""Tables of a queueing model: its servers, its transactions, and predictions.

`./qop model` prints them. With `--what-if`, such as `radius.speed=10`, the user asks what would
happen if the modelled servers were changed (a what-if question). The tables then show the queueing
network as it is and with the changes, side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from analysis.queueing import (
    Assessment,
    ComparedValue,
    NetworkEstimate,
    Prediction,
    QueueingNetwork,
)
from analysis.queueing.intervals import Interval
from analysis.table import Column, Entry, Quantity, Table


class _ColumnFormat(TypedDict, total=False):
    """The display settings of a column of numbers: scale, unit and digits."""

    unit: str
    scale: float
    digits: int


_MS: _ColumnFormat = {"unit": "ms", "scale": 1e3}
_PERCENT: _ColumnFormat = {"unit": "%", "scale": 100.0, "digits": 1}
_NOW, _THEN = "as it is", "what if"
_MARKS = ("calibrated: the model was made from this point; extrapolated: beyond what was "
          "measured; saturated: beyond what can be served.")
_CYCLES = ("Demand and residence are a cycle's, over all chains: the work at a station, and with "
           "waiting.")


def make_model_tables(networks: Sequence[QueueingNetwork],
                      answers: Sequence[NetworkEstimate]) -> list[Table]:
    """Return tables of the transactions and the servers of a queueing model.

    Args:
        networks: The queueing network as it is, and optionally with what-if changes.
        answers: The means of each network.
    """
    return [_make_chain_table(networks, answers), _make_station_table(networks, answers)]


def make_prediction_table(assessments: Mapping[str, Assessment]) -> Table:
    """Return the table of predicted and measured values at each load of a queueing model."""
    rows = [(Entry(chain), *_prediction_entries(entry))
            for chain, assessment in assessments.items() for entry in assessment.predictions]
    has_p95 = any(entry.p95_s for each in assessments.values() for entry in each.predictions)
    columns = [
        Column("chain", "chain"), Column("load", "load"), Column("mark", "mark"),
        Column("response_s", "modelled", group="response time", **_MS),
        Column("measured_response_s", "measured", group="response time", **_MS),
        Column("response_error", "error", group="response time", **_PERCENT),
        Column("throughput_per_s", "modelled", unit="1/s", group="throughput"),
        Column("measured_throughput_per_s", "measured", unit="1/s", group="throughput"),
        Column("p95_s", "modelled", group="95th percentile", **_MS),
        Column("measured_p95_s", "measured", group="95th percentile", **_MS),
        Column("p95_error", "error", group="95th percentile", **_PERCENT)]
    table = Table("predictions", "Modelled and measured", tuple(columns), tuple(rows),
                  notes=(_MARKS,))
    return table if has_p95 else table.with_columns(list(range(len(columns) - 3)))


def _prediction_entries(entry: Prediction) -> Sequence[Entry]:
    return (Entry(number=Quantity(entry.load)), Entry(entry.mark),
            *_comparison_entries(entry.response_s),
            *_comparison_entries(entry.throughput_per_s)[:2], *_comparison_entries(entry.p95_s))


def _comparison_entries(value: ComparedValue | None) -> tuple[Entry, Entry, Entry]:
    """Return the table entries of modelled value, measured value and relative error."""
    if value is None:
        return _missing_entry(), _missing_entry(), _missing_entry()
    return (_to_entry(value.modelled),
            _missing_entry() if value.measured is None else Entry(number=Quantity(value.measured)),
            _missing_entry() if value.error is None else Entry(number=Quantity(value.error)))


def _missing_entry() -> Entry:
    return Entry("-", marks=frozenset({"missing"}))


def _to_quantity(interval: Interval) -> Quantity:
    if interval.low == interval.high:
        return Quantity(interval.value)
    return Quantity(interval.value, interval.low, interval.high)


def _to_entry(interval: Interval | None) -> Entry:
    return _missing_entry() if interval is None else Entry(number=_to_quantity(interval))


def _make_chain_table(networks: Sequence[QueueingNetwork],
                      answers: Sequence[NetworkEstimate]) -> Table:
    columns = [Column("chain", "chain")]
    for suffix, group in _network_versions(networks):
        columns += [Column(f"load{suffix}", "load", group=group),
                    Column(f"response_s{suffix}", "response time", group=group, **_MS),
                    Column(f"throughput_per_s{suffix}", "throughput", unit="1/s", group=group)]
    rows = []
    for number, chain in enumerate(networks[0].chains):
        row = [Entry(chain.name)]
        for network, answer in zip(networks, answers, strict=True):
            now, means = network.chains[number], answer.chains[number]
            load = now.rate_per_s if now.is_open else now.population
            row += [Entry(number=Quantity(float(load or 0)),
                          detail="a second" if now.is_open else "customers"),
                    _to_entry(means.response_s), _to_entry(means.throughput_per_s)]
        rows.append(tuple(row))
    return Table("chains", "Chains", tuple(columns), tuple(rows),
                 notes=(f"Means: {_join_methods(answers)}; response times leave think times out.",))


def _make_station_table(networks: Sequence[QueueingNetwork],
                        answers: Sequence[NetworkEstimate]) -> Table:
    columns = [Column("station", "station"), Column("discipline", "discipline")]
    for suffix, group in _network_versions(networks):
        columns += [Column(f"servers{suffix}", "servers", digits=0, group=group),
                    Column(f"demand_s{suffix}", "demand", group=group, **_MS),
                    Column(f"residence_s{suffix}", "residence", group=group, **_MS),
                    Column(f"utilization{suffix}", "in use", group=group, **_PERCENT)]
    rows = []
    for number, station in enumerate(networks[0].stations):
        row = [Entry(station.name), Entry(station.discipline)]
        for network, answer in zip(networks, answers, strict=True):
            now, means = network.stations[number], answer.stations[number]
            is_queue = now.discipline != "delay"
            row += [Entry(number=Quantity(now.servers)) if is_queue else _missing_entry(),
                    Entry(number=Quantity(means.demand_s)), _to_entry(means.residence_s),
                    _to_entry(means.utilization) if is_queue else _missing_entry()]
        rows.append(tuple(row))
    return Table("stations", "Stations", tuple(columns), tuple(rows),
                 notes=(_CYCLES,))


def _network_versions(networks: Sequence[QueueingNetwork]) -> Sequence[tuple[str, str]]:
    """Return the column name ending and group title for each queueing network."""
    return [("", "")] if len(networks) == 1 else [("", _NOW), ("_what_if", _THEN)]


def _join_methods(answers: Sequence[NetworkEstimate]) -> str:
    return " and ".join(dict.fromkeys(
        method for answer in answers for method in answer.methods)) or "none"

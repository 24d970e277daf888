"""Definition of the study, as the engine uses it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from measure.manifest import LevelRecord
from studies import mobile
from studies.kerberos2002 import body, design
from studies.kerberos2002.asked import Asked
from studies.kerberos2002.body import Measured
from studies.kerberos2002.controls import FAULTS
from studies.kerberos2002.variants import CIPHERS, VARIANTS
from studies.study import (
    Cell,
    Clock,
    Expected,
    Factor,
    Fault,
    Judged,
    Level,
    Metric,
    Repetition,
    Study,
    StudyError,
)
from studies.study import TestbedSpec as Spec
from topologies.loader import TopologyError, load_device, to_json
from topologies.model import ROUTER

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results
    from topologies.device import Device

#: Measured processor seconds of a repetition, of a transaction, and of each server in it.
_REPETITION_S, _TRANSACTION_S, _SERVER_S = 1.5, 0.012, 0.006
#: Deadline (s) of a transaction. In virtual time, a transaction at 2G takes 20 s, and one of 32
#: customers takes minutes.
_DEADLINE_S = 600.0
_MIN_TRANSACTIONS = 20


class Kerberos2002(Study):
    """A study of public-key Kerberos for large and mobile networks, with its queueing model."""

    id: ClassVar[str] = "kerberos2002"
    title: ClassVar[str] = "Public-key Kerberos for large and mobile networks"
    paper: ClassVar[str] = ("Harbitter and Menasce, A Methodology for Analyzing the Performance of "
                            "Authentication Protocols, 2002")
    factors: ClassVar[tuple[Factor, ...]] = design.FACTORS
    metrics: ClassVar[tuple[Metric, ...]] = body.METRICS
    distributions: ClassVar[tuple[Metric, ...]] = (body.RESPONSES,)
    faults: ClassVar[Mapping[str, Fault | str]] = FAULTS
    clock: ClassVar[Clock] = "virtual"
    devices_by: ClassVar[Sequence[Clock]] = ("virtual",)
    asked: ClassVar[type[Asked]] = Asked
    measured: ClassVar[type[Measured]] = Measured
    inside: ClassVar[str] = "studies.kerberos2002.inside"
    judged_with: ClassVar[Sequence[str]] = mobile.JUDGED_WITH

    # Imports are local, so that commands that only list studies do not load measuring and reporting
    # code.

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the cells behind tables, figures and claims, and chosen cells on the air."""
        return design.cells(levels)

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Return a level from a results folder.

        Policies and scenarios may be the user's own, so they are built from the stored content.
        """
        level = design.LOGINS.places.level(factor.name, name, entry)
        return level or super().level(factor, name, entry)

    def testbed(self, cell: Cell, asked: Asked) -> Spec:  # type: ignore[override]
        """Return both realms, or on the air a policy in a scenario with them.

        Loads and single transactions are in separate testbeds, so that two processors have work.
        """
        from studies.kerberos2002 import network

        names = _devices(cell, asked)
        for role, name in names.items():
            _device(name, cell.ids["suite"], _setting(cell, role))
        if mobile.is_on_air(cell):
            scenario = network.at_home(cell.value("scenario"))
            mobile.refuse_losses(scenario, "clients of this study send nothing again")
            nodes = {scenario.mobile_node: names["mobile"],
                     **dict.fromkeys(network.HOSTS, names["server"])}
            return Spec(scenario.network, cell.value("policy").lower, mobile.air_of(
                scenario, asked.medium),
                        nodes, packages="asn1")
        made = network.realms()
        devices = {node: name for node in made.nodes if node != ROUTER
                   and (name := names[network.role(node)])}
        return Spec(made, devices=devices, packages="asn1",
                    options={"group": "single" if cell.ids["customers"] == "1" else "loaded"})

    def task(self, cell: Cell, asked: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the cell, its devices and the protocol's options as plain data."""
        from studies.kerberos2002 import network

        ids, is_loaded = cell.ids, cell.ids["customers"] != "1"
        on_air = mobile.is_on_air(cell)
        devices = {role: asdict(device) if (device := _device(
                       name, ids["suite"], _setting(cell, role))) else {}
                   for role, name in _devices(cell, asked).items()}
        return {
            **ids, "protocol": design.LOGINS.chosen(cell),
            "scenario": to_json(network.at_home(cell.value("scenario"))) if on_air else None,
            "has_port": on_air and cell.value("policy").uses_eap,
            "servers": int(ids["servers"]), "speed": int(ids["speed"]),
            "customers": int(ids["customers"]), "devices": devices,
            "transactions": _transactions(cell, asked),
            "variation": "gamma" if is_loaded else "fixed",
            "certificate_bytes": asked.certificate_bytes,
            "chain_length": asked.chain_length, "xtkt_cache": asked.xtkt_cache,
            "kdc_signs": asked.kdc_signs, "own_proxy_key": asked.own_proxy_key,
            "spares_opening": asked.spares_opening,
            "first_seed": asked.first_seed,
            "deadline_s": _DEADLINE_S * _transactions(cell, asked)}

    def unused(self, cell: Cell, asked: Asked) -> Collection[str]:  # type: ignore[override]
        """Return the settings of other roles' devices and of other protocols."""
        variant = VARIANTS[design.LOGINS.chosen(cell)]
        is_mobile = variant.way == "mobile"
        unused = {"workstation_device" if is_mobile else "mobile_device"}
        if variant.way != "pkcross":
            unused.add("xtkt_cache")
        if variant.proxy not in ("trusted", "assist"):
            unused.add("own_proxy_key")
        if variant.initial != "client-key":
            unused.add("kdc_signs")
        if variant.initial != "pkinit":
            unused.add("spares_opening")
        return unused

    def expected(self, cell: Cell, asked: Asked) -> Expected:  # type: ignore[override]
        """Estimate the duration and costs from the number of transactions."""
        count = _transactions(cell, asked)
        took_s = _REPETITION_S + count * (_TRANSACTION_S + _SERVER_S * int(cell.ids["servers"]))
        return Expected(took_s, took_s, 12_000 * count)

    def deadline_s(self, cell: Cell, asked: Asked) -> float:  # type: ignore[override]
        """Return forty times the expected duration, plus a constant."""
        return 120 + 40 * self.expected(cell, asked).duration_s

    def judge(self, repetition: Repetition) -> Judged:
        """Decrypt all messages and measure."""
        from studies.kerberos2002 import judge

        return judge.judge(repetition)

    def required_metrics(self, cell: Cell, asked: Asked,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return all metrics, with the paper's phases for mobile clients' protocols only."""
        from studies.kerberos2002.variants import VARIANTS

        has_phases = VARIANTS[design.LOGINS.chosen(cell)].way == "mobile"
        return [metric for metric in self.metrics if has_phases or metric not in body.PHASES]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the metrics, all demands, and the models' visits and service times."""
        from studies.kerberos2002.model import column

        parties = {visit.party for visit in measured.visits}
        row = {**super().values(measured), **{
            f"demand_{party.replace('-', '_')}_s": measured.demand_s(party) for party in parties}}
        row |= {f"predicted_{name}": value for name, value in measured.predicted.items()}
        row |= {f"counted_{name}": value for name, value in measured.counted.items()}
        row |= {f"here_{name}": value for name, value in measured.operations_here_s.items()}
        for visit in measured.visits:
            row[column("visits", visit.party, visit.name)] = visit.visits
            row[column("service", visit.party, visit.name)] = visit.service_s
            for kind in ("private", "public", "operation"):
                key = f"{kind}_{visit.party.replace('-', '_')}"
                row[key] = row.get(key, 0) + sum(count for name, count in visit.operations.items()
                                                 if name.endswith(f"-{kind}"))
        return row

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Return the paper's tables and figures with measured values, and its claims."""
        from studies.kerberos2002.report import report

        return report(self, results, options)


def _transactions(cell: Cell, asked: Asked) -> int:
    """Return the number of transactions: one of a single customer, otherwise by the servers.

    More servers mean fewer transactions, so that the number of visits to servers stays as set.
    """
    if cell.ids["customers"] == "1":
        return 1
    return max(_MIN_TRANSACTIONS, asked.transactions // int(cell.ids["servers"]))


def _devices(cell: Cell, asked: Asked) -> dict[str, str]:
    """Return the devices' names by role ("": a device that takes no time)."""
    if cell.ids["suite"] == "today":
        return {"mobile": asked.today_device, "server": asked.today_device,
                "workstation": asked.today_device if asked.workstation_device else ""}
    return {"mobile": asked.mobile_device, "workstation": asked.workstation_device,
            "server": asked.server_device}


def _setting(cell: Cell, role: str) -> str:
    """Return the setting that names a role's device."""
    return "today_device" if cell.ids["suite"] == "today" else f"{role}_device"


def _device(name: str, suite: str, setting: str) -> Device | None:
    """Load a device with costs for a suite, or None for "". Raises StudyError with the setting."""
    if not name:
        return None
    try:
        device = load_device(name)
    except TopologyError as error:
        raise StudyError(f"setting {setting}: {error}") from None
    lacking = [kind for kind in CIPHERS[suite]
               if kind not in device.work or device.work[kind].seconds is None]
    if lacking:
        raise StudyError(f"setting {setting}: device {name}: does not say what {lacking[0]} takes; "
                         "choose another, or add it with its source")
    return device


STUDY = Kerberos2002()

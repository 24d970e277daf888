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
        return design.select_cells(levels)

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Return a level from a results folder.

        Policies and scenarios may be the user's own, so they are built from the stored content.
        """
        level = design.LOGINS.places.restore_level(factor.name, name, entry)
        return level or super().level(factor, name, entry)

    def testbed(self, cell: Cell, settings: Asked) -> Spec:  # type: ignore[override]
        """Return both realms, or on the air a policy in a scenario with them.

        Loads and single transactions are in separate testbeds, so that two processors have work.
        """
        from studies.kerberos2002 import network

        names = _device_names(cell, settings)
        for role, name in names.items():
            _load_device(name, cell.ids["suite"], _device_setting(cell, role))
        if mobile.is_on_air(cell):
            scenario = network.with_realms_at_home(cell.value("scenario"))
            mobile.refuse_losses(scenario, "clients of this study send nothing again")
            nodes = {scenario.mobile_node: names["mobile"],
                     **dict.fromkeys(network.HOSTS, names["server"])}
            return Spec(scenario.network, cell.value("policy").without_upper_layers,
                        mobile.medium_for(
                scenario, settings.medium),
                        nodes, packages="asn1")
        made = network.build_realms()
        devices = {node: name for node in made.nodes if node != ROUTER
                   and (name := names[network.role_of(node)])}
        return Spec(made, devices=devices, packages="asn1",
                    options={"group": "single" if cell.ids["customers"] == "1" else "loaded"})

    def task(self, cell: Cell, settings: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the cell, its devices and the protocol's options as plain data."""
        from studies.kerberos2002 import network

        ids, is_loaded = cell.ids, cell.ids["customers"] != "1"
        on_air = mobile.is_on_air(cell)
        devices = {role: asdict(device) if (device := _load_device(
                       name, ids["suite"], _device_setting(cell, role))) else {}
                   for role, name in _device_names(cell, settings).items()}
        return {
            **ids, "protocol": design.LOGINS.chosen_mechanism(cell),
            "scenario": to_json(network.with_realms_at_home(cell.value("scenario"))) if on_air
            else None,
            "has_port": on_air and cell.value("policy").uses_eap,
            "servers": int(ids["servers"]), "speed": int(ids["speed"]),
            "customers": int(ids["customers"]), "devices": devices,
            "transactions": _transaction_count(cell, settings),
            "variation": "gamma" if is_loaded else "fixed",
            "certificate_bytes": settings.certificate_bytes,
            "chain_length": settings.chain_length, "xtkt_cache": settings.xtkt_cache,
            "kdc_signs": settings.kdc_signs, "own_proxy_key": settings.own_proxy_key,
            "spares_opening": settings.spares_opening,
            "first_seed": settings.first_seed,
            "deadline_s": _DEADLINE_S * _transaction_count(cell, settings)}

    def unused_settings(self, cell: Cell, settings: Asked) -> Collection[str]:  # type: ignore[override]
        """Return the settings of other roles' devices and of other protocols."""
        variant = VARIANTS[design.LOGINS.chosen_mechanism(cell)]
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

    def expected_cost(self, cell: Cell, settings: Asked) -> Expected:  # type: ignore[override]
        """Estimate the duration and costs from the number of transactions."""
        count = _transaction_count(cell, settings)
        took_s = _REPETITION_S + count * (_TRANSACTION_S + _SERVER_S * int(cell.ids["servers"]))
        return Expected(took_s, took_s, 12_000 * count)

    def deadline_s(self, cell: Cell, settings: Asked) -> float:  # type: ignore[override]
        """Return forty times the expected duration, plus a constant."""
        return 120 + 40 * self.expected_cost(cell, settings).duration_s

    def judge(self, repetition: Repetition) -> Judged:
        """Decrypt all messages and measure."""
        from studies.kerberos2002 import judge

        return judge.judge_repetition(repetition)

    def required_metrics(self, cell: Cell, settings: Asked,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return all metrics, with the paper's phases for mobile clients' protocols only."""
        from studies.kerberos2002.variants import VARIANTS

        has_phases = VARIANTS[design.LOGINS.chosen_mechanism(cell)].way == "mobile"
        return [metric for metric in self.metrics if has_phases or metric not in body.PHASES]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the metrics, all demands, and the models' visits and service times."""
        from studies.kerberos2002.model import column_name

        parties = {visit.party for visit in measured.visits}
        row = {**super().values(measured), **{
            f"demand_{party.replace('-', '_')}_s": measured.demand_s(party) for party in parties}}
        row |= {f"predicted_{name}": value for name, value in measured.predicted.items()}
        row |= {f"counted_{name}": value for name, value in measured.counted.items()}
        row |= {f"here_{name}": value for name, value in measured.operations_here_s.items()}
        for visit in measured.visits:
            row[column_name("visits", visit.party, visit.name)] = visit.visits
            row[column_name("service", visit.party, visit.name)] = visit.service_s
            for kind in ("private", "public", "operation"):
                key = f"{kind}_{visit.party.replace('-', '_')}"
                row[key] = row.get(key, 0) + sum(count for name, count in visit.operations.items()
                                                 if name.endswith(f"-{kind}"))
        return row

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Return the paper's tables and figures with measured values, and its claims."""
        from studies.kerberos2002.report import build_report

        return build_report(self, results, options)


def _transaction_count(cell: Cell, settings: Asked) -> int:
    """Return the number of transactions: one of a single customer, otherwise by the servers.

    More servers mean fewer transactions, so that the number of visits to servers stays as set.
    """
    if cell.ids["customers"] == "1":
        return 1
    return max(_MIN_TRANSACTIONS, settings.transactions // int(cell.ids["servers"]))


def _device_names(cell: Cell, settings: Asked) -> dict[str, str]:
    """Return the devices' names by role ("": a device that takes no time)."""
    if cell.ids["suite"] == "today":
        return {"mobile": settings.today_device, "server": settings.today_device,
                "workstation": settings.today_device if settings.workstation_device else ""}
    return {"mobile": settings.mobile_device, "workstation": settings.workstation_device,
            "server": settings.server_device}


def _device_setting(cell: Cell, role: str) -> str:
    """Return the setting that names a role's device."""
    return "today_device" if cell.ids["suite"] == "today" else f"{role}_device"


def _load_device(name: str, suite: str, setting: str) -> Device | None:
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

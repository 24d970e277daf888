"""Define the study kerberos2002, which measures Kerberos logins with public keys.

It repeats a paper of Harbitter and Menascé (2002). `Kerberos2002` tells the measuring program what
to vary (factors), what to measure (metrics), which code runs and evaluates a measurement, and how
to report. `studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from measure.records.manifest import LevelRecord
from studies import policy_factors
from studies.kerberos2002 import cells as kerberos2002_cells
from studies.kerberos2002 import measurements
from studies.kerberos2002.faults import FAULTS
from studies.kerberos2002.measurements import Measurements
from studies.kerberos2002.settings import Settings
from studies.kerberos2002.variants import CIPHERS, VARIANTS
from studies.study import (
    Cell,
    Clock,
    ExpectedCost,
    Factor,
    Fault,
    Judgement,
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

#: Measured CPU time of a repetition without logins (s).
_REPETITION_S = 1.5
#: Measured CPU time of a login without servers (s).
_TRANSACTION_S = 0.012
#: Measured CPU time of each server in a login (s).
_SERVER_S = 0.006
#: Deadline of a login (s). In virtual time, a login at 2G takes 20 s, and one of 32 simultaneous
#: users takes minutes.
_DEADLINE_S = 600.0
_MIN_TRANSACTIONS = 20


class Kerberos2002(Study):
    """The study of public-key Kerberos for large and mobile networks, with its queueing model."""

    id: ClassVar[str] = "kerberos2002"
    title: ClassVar[str] = "Public-key Kerberos for large and mobile networks"
    paper: ClassVar[str] = ("Harbitter and Menasce, A Methodology for Analyzing the Performance of "
                            "Authentication Protocols, 2002")
    factors: ClassVar[tuple[Factor, ...]] = kerberos2002_cells.FACTORS
    metrics: ClassVar[tuple[Metric, ...]] = measurements.METRICS
    distributions: ClassVar[tuple[Metric, ...]] = (measurements.RESPONSES,)
    faults: ClassVar[Mapping[str, Fault | str]] = FAULTS
    clock: ClassVar[Clock] = "virtual"
    devices_by: ClassVar[Sequence[Clock]] = ("virtual",)
    settings_type: ClassVar[type[Settings]] = Settings
    measurements_type: ClassVar[type[Measurements]] = Measurements
    workload_module: ClassVar[str] = "studies.kerberos2002.workload"
    judged_with: ClassVar[Sequence[str]] = policy_factors.JUDGED_WITH

    # Imports are local, so that commands that only list studies do not load measuring and reporting
    # code.

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the combinations of factor values that tables, figures and claims need.

        Combinations over the air are added if the user chooses them.
        """
        return kerberos2002_cells.select_cells(levels)

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Restore a value of a factor, such as a policy, from its content in a stored plan.

        The content is needed because the user's own files may be gone.
        """
        level = kerberos2002_cells.LOGINS.places.restore_level(factor.name, name, entry)
        return level or super().level(factor, name, entry)

    def testbed(self, cell: Cell, settings: Settings) -> Spec:  # type: ignore[override]
        """Describe the test network: two Kerberos realms, on Ethernet or behind a wireless link.

        A test network measures one repetition at a time. So repetitions with one user and those
        with many users get a test network each, which can run at the same time.
        """
        names = _device_names(cell, settings)
        for role, name in names.items():
            _load_device(name, cell.ids["suite"], _device_setting(cell, role))
        if policy_factors.is_on_air(cell):
            scenario = kerberos2002_cells.with_realms_at_home(cell.value("scenario"))
            policy_factors.refuse_losses(scenario, "clients of this study send nothing again")
            nodes = {scenario.mobile_node: names["mobile"],
                     **dict.fromkeys(kerberos2002_cells.HOSTS, names["server"])}
            return Spec(scenario.network, cell.value("policy").without_upper_layers,
                        policy_factors.load_scenario_medium(
                scenario, settings.medium, cell.value("policy")),
                        nodes, packages="asn1")
        network = kerberos2002_cells.build_realms()
        devices = {node: name for node in network.nodes if node != ROUTER
                   and (name := names[kerberos2002_cells.role_of(node)])}
        return Spec(network, devices=devices, packages="asn1",
                    options={"group": "single" if cell.ids["customers"] == "1" else "loaded"})

    def task(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the instructions for a repetition: combination of factors, devices and options."""
        ids, is_loaded = cell.ids, cell.ids["customers"] != "1"
        on_air = policy_factors.is_on_air(cell)
        devices = {role: asdict(device) if (device := _load_device(
            name, ids["suite"], _device_setting(cell, role))) else {}
                   for role, name in _device_names(cell, settings).items()}
        return {
            **ids, "protocol": kerberos2002_cells.LOGINS.chosen_mechanism(cell),
            "scenario": to_json(kerberos2002_cells.with_realms_at_home(cell.value("scenario")))
            if on_air else None,
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

    def unused_settings(self, cell: Cell,
                        settings: Settings) -> Collection[str]:  # type: ignore[override]
        """Return the settings that have no effect on this combination of factors."""
        variant = VARIANTS[kerberos2002_cells.LOGINS.chosen_mechanism(cell)]
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

    def expected_cost(self, cell: Cell,
                      settings: Settings) -> ExpectedCost:  # type: ignore[override]
        """Estimate duration, CPU time and capture size of a repetition from its logins."""
        count = _transaction_count(cell, settings)
        took_s = _REPETITION_S + count * (_TRANSACTION_S + _SERVER_S * int(cell.ids["servers"]))
        return ExpectedCost(took_s, took_s, 12_000 * count)

    def deadline_s(self, cell: Cell, settings: Settings) -> float:  # type: ignore[override]
        """Return the longest time (s) that one repetition may take before it is aborted."""
        return 120 + 40 * self.expected_cost(cell, settings).duration_s

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition: decrypt its messages, check them, and compute times."""
        from studies.kerberos2002 import judge

        return judge.judge_repetition(repetition, self.task(
            repetition.cell, repetition.settings))  # type: ignore[arg-type]

    def required_metrics(self, cell: Cell, settings: Settings,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that a repetition must have. Only mobile clients have phases."""
        from studies.kerberos2002.variants import VARIANTS

        has_phases = VARIANTS[kerberos2002_cells.LOGINS.chosen_mechanism(cell)].way == "mobile"
        return [metric for metric in self.metrics if has_phases or metric not
                in measurements.PHASES]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the measured values of a repetition as a row, with inputs of the model."""
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
        """Build the report: the paper's tables and figures with measured values, and its claims."""
        from studies.kerberos2002.report import build_report

        return build_report(self, results, options)


def _transaction_count(cell: Cell, settings: Settings) -> int:
    """Return the number of logins in a repetition: 1 for a single user.

    With several users and more servers there are fewer logins, so that the requests to servers stay
    as many as set.
    """
    if cell.ids["customers"] == "1":
        return 1
    return max(_MIN_TRANSACTIONS, settings.transactions // int(cell.ids["servers"]))


def _device_names(cell: Cell, settings: Settings) -> dict[str, str]:
    """Return the name of each node's device model ("" for one that takes no time), by role."""
    if cell.ids["suite"] == "today":
        return {"mobile": settings.today_device, "server": settings.today_device,
                "workstation": settings.today_device if settings.workstation_device else ""}
    return {"mobile": settings.mobile_device, "workstation": settings.workstation_device,
            "server": settings.server_device}


def _device_setting(cell: Cell, role: str) -> str:
    """Return the name of the setting for the device model of a role."""
    return "today_device" if cell.ids["suite"] == "today" else f"{role}_device"


def _load_device(name: str, suite: str, setting: str) -> Device | None:
    """Load a device model with times for a cipher suite, or return None for "".

    Raises:
        StudyError: there is no such device, or it lacks times. The message names the setting.
    """
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

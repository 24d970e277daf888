"""Define the study krb5today, which measures the cost of logins with unmodified MIT krb5.

`Krb5Today` tells the measuring program what to vary (factors), what to measure (metrics), which
code runs and evaluates a measurement, and how to report. `build_policy` returns the policy of a
combination of factors with the settings of the Kerberos realms. `studies.krb5today` lists the
terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from measure.records.manifest import LevelRecord
from policies import KerberosLayer, Layers, Policy
from studies import policy_factors
from studies.krb5today import cells, measurements
from studies.krb5today import cells as krb5today_cells
from studies.krb5today.faults import FAULTS
from studies.krb5today.measurements import Measurements
from studies.krb5today.mechanisms import CURVES
from studies.krb5today.settings import Settings
from studies.policy_factors import add_layer
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
)
from studies.study import Study as AnyStudy
from studies.study import TestbedSpec as Spec
from topologies.loader import to_json

if TYPE_CHECKING:
    from analysis.present.report import Report
    from analysis.results import Results

#: Observed processor time of a repetition and of each of its logins (s).
_REPETITION_S, _LOGIN_S = 2.0, 0.1
_CAPTURED_BYTES = 12_000


class Krb5Today(AnyStudy):
    """The study of logins with unmodified MIT krb5: costs by login method, and load of a KDC."""

    id: ClassVar[str] = "krb5today"
    title: ClassVar[str] = "Logins by MIT Kerberos, by mechanism"
    factors: ClassVar[tuple[Factor, ...]] = krb5today_cells.FACTORS
    metrics: ClassVar[tuple[Metric, ...]] = measurements.METRICS
    distributions: ClassVar[tuple[Metric, ...]] = (measurements.TIMES,)
    faults: ClassVar[Mapping[str, Fault | str]] = FAULTS
    proof_sets: ClassVar[Mapping[str, str]] = {"logins": "2"}
    clock: ClassVar[Clock] = "processor"
    settings_type: ClassVar[type[Settings]] = Settings
    measurements_type: ClassVar[type[Measurements]] = Measurements
    workload_module: ClassVar[str] = "studies.krb5today.workload"
    judged_with: ClassVar[Sequence[str]] = policy_factors.JUDGED_WITH

    # Imports inside functions: commands that only list studies need neither judge nor report.

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the combinations of factor values that tables and figures need.

        Combinations over the air are added if the user chooses them.
        """
        return krb5today_cells.design_cells(levels)

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Restore a value of a factor, such as a policy, from its content in a stored plan."""
        level = krb5today_cells.LOGINS.places.restore_level(factor.name, name, entry)
        return level or super().level(factor, name, entry)

    def testbed(self, cell: Cell, settings: Settings) -> Spec:  # type: ignore[override]
        """Describe the test network: three realms, or a policy in a scenario with them.

        Settings of MIT krb5 are a layer of the policy. Over the air, CPU time cannot be counted
        (processor clock), so computing takes time with the real clock only.
        """
        if policy_factors.is_on_air(cell):
            scenario = cells.at_home(cell.value("scenario"))
            return Spec(scenario.network, build_policy(cell, settings),
                        policy_factors.load_scenario_medium(scenario, settings.medium,
                                                            cell.value("policy")),
                        packages="krb5",
                        clocks=("virtual", "real"))
        return Spec(cells.build_realms(), build_policy(cell, settings), packages="krb5")

    def task(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the instructions for a repetition: client node, login method and logins."""
        customers, on_air = int(cell.ids["customers"]), policy_factors.is_on_air(cell)
        scenario = cells.at_home(cell.value("scenario")) if on_air else None
        return {"mechanism": krb5today_cells.LOGINS.chosen_mechanism(cell),
                "curve": CURVES[kerberos_layer(cell, settings).group_bits],
                "node": scenario.mobile_node if scenario else cells.CLIENTS[cell.ids["wire"]],
                "scenario": to_json(scenario) if scenario else None,
                "has_port": on_air and cell.value("policy").uses_eap,
                "customers": customers,
                "logins": settings.logins if customers == 1 else settings.logins_each}

    def expected_cost(self, cell: Cell,
                      settings: Settings) -> ExpectedCost:  # type: ignore[override]
        """Estimate duration, CPU time and capture size of a repetition from its logins."""
        task = self.task(cell, settings)
        count = task["customers"] * task["logins"]
        took_s = _REPETITION_S + _LOGIN_S * count
        return ExpectedCost(took_s, took_s, _CAPTURED_BYTES * count)

    def deadline_s(self, cell: Cell, settings: Settings) -> float:  # type: ignore[override]
        """Return the longest time (s) that one repetition may take before it is aborted."""
        return 120 + 10 * self.expected_cost(cell, settings).duration_s

    def required_metrics(self, cell: Cell, settings: Settings,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that a repetition must have.

        Times of logins after a handoff are required only if the scenario has a handoff. CPU times
        are required only with the processor clock, which counts them.
        """
        moves = policy_factors.is_on_air(cell) and cell.value("scenario").roams_to is not None
        absent = [] if moves else [measurements.AWAY]
        absent += [] if clock == "processor" else [measurements.CLIENT, measurements.KDC]
        return [metric for metric in self.metrics if metric not in absent]

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition: check the login method by its packets, and compute the costs."""
        from studies.krb5today import judge

        return judge.judge_repetition(repetition, kerberos_layer(
            repetition.cell, repetition.settings))  # type: ignore[arg-type]

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Build the report on costs of logins, timers and the load of a KDC."""
        from studies.krb5today.report import build_report

        return build_report(self, results, options)


def build_realms_policy(transport: str, settings: Settings) -> Policy:
    """Return a policy that has only the settings of the Kerberos realms."""
    name = f"{transport}-{settings.realm_rsa_bits}-{settings.realm_dh_bits}"
    return Policy(id=name, name=f"MIT Kerberos {name}", layers=Layers(kerberos=KerberosLayer(
        certificate_bits=settings.realm_rsa_bits, group_bits=settings.realm_dh_bits,
        udp_limit_bytes=1 if transport == "tcp" else None)))


def build_policy(cell: Cell, settings: Settings) -> Policy:
    """Return the policy of a combination, with the settings of the Kerberos realms.

    Over Ethernet, it has nothing else. Over the air, the layer `kerberos` is added if it is
    missing.
    """
    usual = build_realms_policy(cell.ids["transport"], settings)
    if not policy_factors.is_on_air(cell):
        return usual
    chosen: Policy = cell.value("policy")
    own = chosen.layers.kerberos
    name = chosen.id if own else f"{chosen.id}-{usual.id}"
    with_layer = add_layer("kerberos", own or usual.layers.kerberos)(chosen.without_upper_layers)
    return with_layer.model_copy(update={"id": name})


def kerberos_layer(cell: Cell, settings: Settings) -> KerberosLayer:
    """Return the layer `kerberos` of a combination's policy."""
    layer = build_policy(cell, settings).layers.kerberos
    assert layer is not None
    return layer


STUDY = Krb5Today()

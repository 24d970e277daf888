"""The study `krb5today` with its factors, metrics and controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from measure.manifest import LevelRecord
from policies import KerberosLayer, Layers, Policy
from studies import mobile
from studies.changes import add_layer
from studies.krb5today import body, design, network
from studies.krb5today.asked import Asked
from studies.krb5today.body import Measured
from studies.krb5today.faults import FAULTS
from studies.krb5today.mechanisms import CURVES
from studies.study import Cell, Clock, Expected, Factor, Fault, Judged, Level, Metric, Repetition
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
    """Study of logins with unmodified MIT krb5: costs by mechanism and KDC load."""

    id: ClassVar[str] = "krb5today"
    title: ClassVar[str] = "Logins by MIT Kerberos, by mechanism"
    factors: ClassVar[tuple[Factor, ...]] = design.FACTORS
    metrics: ClassVar[tuple[Metric, ...]] = body.METRICS
    distributions: ClassVar[tuple[Metric, ...]] = (body.TIMES,)
    faults: ClassVar[Mapping[str, Fault | str]] = FAULTS
    proof_sets: ClassVar[Mapping[str, str]] = {"logins": "2"}
    clock: ClassVar[Clock] = "processor"
    asked: ClassVar[type[Asked]] = Asked
    measured: ClassVar[type[Measured]] = Measured
    inside: ClassVar[str] = "studies.krb5today.inside"
    judged_with: ClassVar[Sequence[str]] = mobile.JUDGED_WITH

    # Imports inside functions: commands that only list studies need neither judge nor report.

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Return the cells behind tables and figures, and those for policies on the air."""
        return design.design_cells(levels)

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Restore a level, a policy or scenario from its content."""
        level = design.LOGINS.places.restore_level(factor.name, name, entry)
        return level or super().level(factor, name, entry)

    def testbed(self, cell: Cell, settings: Asked) -> Spec:  # type: ignore[override]
        """Return the spec of three realms, with a policy of the library's settings.

        On the air, the settings are a further layer of the cell's policy. The processor clock is
        not available there, so computing takes time on the real clock only.
        """
        if mobile.is_on_air(cell):
            scenario = network.at_home(cell.value("scenario"))
            return Spec(scenario.network, policy_of(cell, settings),
                        mobile.medium_for(scenario, settings.medium), packages="krb5",
                        clocks=("virtual", "real"))
        return Spec(network.build_realms(), policy_of(cell, settings), packages="krb5")

    def task(self, cell: Cell, settings: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the task: the client's node, the mechanism and the number of logins."""
        customers, on_air = int(cell.ids["customers"]), mobile.is_on_air(cell)
        scenario = network.at_home(cell.value("scenario")) if on_air else None
        return {"mechanism": design.LOGINS.chosen_mechanism(cell),
                "curve": CURVES[kerberos_layer(cell, settings).group_bits],
                "node": scenario.mobile_node if scenario else network.CLIENTS[cell.ids["wire"]],
                "scenario": to_json(scenario) if scenario else None,
                "has_port": on_air and cell.value("policy").uses_eap,
                "customers": customers,
                "logins": settings.logins if customers == 1 else settings.logins_each}

    def expected_cost(self, cell: Cell, settings: Asked) -> Expected:  # type: ignore[override]
        """Return the expected cost by the number of logins."""
        task = self.task(cell, settings)
        count = task["customers"] * task["logins"]
        took_s = _REPETITION_S + _LOGIN_S * count
        return Expected(took_s, took_s, _CAPTURED_BYTES * count)

    def deadline_s(self, cell: Cell, settings: Asked) -> float:  # type: ignore[override]
        """Return 120 s plus ten times the expected duration."""
        return 120 + 10 * self.expected_cost(cell, settings).duration_s

    def required_metrics(self, cell: Cell, settings: Asked,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return all metrics that the cell and the clock can have.

        Logins after a handoff need a handoff. Processor times need the processor clock.
        """
        moves = mobile.is_on_air(cell) and cell.value("scenario").roams_to is not None
        absent = [] if moves else [body.AWAY]
        absent += [] if clock == "processor" else [body.CLIENT, body.KDC]
        return [metric for metric in self.metrics if metric not in absent]

    def judge(self, repetition: Repetition) -> Judged:
        """Judge the mechanism from packets, and compute the costs."""
        from studies.krb5today import judge

        return judge.judge_repetition(repetition)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Return the report on login costs, timers and the load of a KDC."""
        from studies.krb5today.report import build_report

        return build_report(self, results, options)


def realms_policy(transport: str, settings: Asked) -> Policy:
    """Return a policy with the realms' settings."""
    name = f"{transport}-{settings.realm_rsa_bits}-{settings.realm_dh_bits}"
    return Policy(id=name, name=f"MIT Kerberos {name}", layers=Layers(kerberos=KerberosLayer(
        certificate_bits=settings.realm_rsa_bits, group_bits=settings.realm_dh_bits,
        udp_limit_bytes=1 if transport == "tcp" else None)))


def policy_of(cell: Cell, settings: Asked) -> Policy:
    """Return a cell's policy.

    Over wires, it has the realms' settings. On the air, it is the cell's own policy, with the
    realms' settings if it has no layer `kerberos`.
    """
    usual = realms_policy(cell.ids["transport"], settings)
    if not mobile.is_on_air(cell):
        return usual
    chosen: Policy = cell.value("policy")
    own = chosen.layers.kerberos
    name = chosen.id if own else f"{chosen.id}-{usual.id}"
    with_layer = add_layer("kerberos", own or usual.layers.kerberos)(chosen.without_upper_layers)
    return with_layer.model_copy(update={"id": name})


def kerberos_layer(cell: Cell, settings: Asked) -> KerberosLayer:
    """Return the layer `kerberos` of a cell's policy."""
    found = policy_of(cell, settings).layers.kerberos
    assert found is not None
    return found


STUDY = Krb5Today()

"""The study's parts put together, as the engine is handed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from measure.manifest import LevelRecord
from policies import KerberosLayer, Layers, Policy
from studies import mobile
from studies.changes import added
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

#: Seconds of a processor that a repetition and each of its logins take, as seen.
_REPETITION_S, _LOGIN_S = 2.0, 0.1
_CAPTURED_BYTES = 12_000


class Krb5Today(AnyStudy):
    """Logins by unmodified MIT krb5: what each mechanism costs, and how many a KDC can bear."""

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

    # Imports inside: what measures and what reports is not loaded by a command that lists studies.

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Those behind a table or a figure, and policies on the air that were asked for."""
        return design.cells(levels)

    def level(self, factor: Factor, name: str, entry: LevelRecord) -> Level:
        """Of its content, where it may be the user's: policies and scenarios."""
        level = design.LOGINS.places.level(factor.name, name, entry)
        return level or super().level(factor, name, entry)

    def testbed(self, cell: Cell, asked: Asked) -> Spec:  # type: ignore[override]
        """Three realms; what the library's settings say is a policy of its own.

        On the air it is one layer more of the policy, and computing takes no time but really.
        """
        if mobile.is_on_air(cell):
            scenario = network.at_home(cell.value("scenario"))
            return Spec(scenario.network, in_force(cell, asked),
                        mobile.air_of(scenario, asked.medium), packages="krb5",
                        clocks=("virtual", "real"))
        return Spec(network.realms(), in_force(cell, asked), packages="krb5")

    def task(self, cell: Cell, asked: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """Who logs in from where, how and how often."""
        customers, on_air = int(cell.ids["customers"]), mobile.is_on_air(cell)
        scenario = network.at_home(cell.value("scenario")) if on_air else None
        return {"mechanism": design.LOGINS.chosen(cell),
                "curve": CURVES[layer(cell, asked).group_bits],
                "node": scenario.mobile_node if scenario else network.CLIENTS[cell.ids["wire"]],
                "scenario": to_json(scenario) if scenario else None,
                "has_port": on_air and cell.value("policy").uses_eap,
                "customers": customers,
                "logins": asked.logins if customers == 1 else asked.logins_each}

    def expected(self, cell: Cell, asked: Asked) -> Expected:  # type: ignore[override]
        """By the number of logins."""
        task = self.task(cell, asked)
        count = task["customers"] * task["logins"]
        took_s = _REPETITION_S + _LOGIN_S * count
        return Expected(took_s, took_s, _CAPTURED_BYTES * count)

    def deadline_s(self, cell: Cell, asked: Asked) -> float:  # type: ignore[override]
        """Ten times what it takes, and then some."""
        return 120 + 10 * self.expected(cell, asked).duration_s

    def required_metrics(self, cell: Cell, asked: Asked,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return all but logins elsewhere without a move, and work that a clock does not count."""
        moves = mobile.is_on_air(cell) and cell.value("scenario").roams_to is not None
        absent = [] if moves else [body.AWAY]
        absent += [] if clock == "processor" else [body.CLIENT, body.KDC]
        return [metric for metric in self.metrics if metric not in absent]

    def judge(self, repetition: Repetition) -> Judged:
        """What was used, from packets; and what it took."""
        from studies.krb5today import judge

        return judge.judge(repetition)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """The price list, the timers on a slow wire, and what a KDC can bear."""
        from studies.krb5today.report import report

        return report(self, results, options)


def policy(transport: str, asked: Asked) -> Policy:
    """The realms' settings."""
    name = f"{transport}-{asked.realm_rsa_bits}-{asked.realm_dh_bits}"
    return Policy(id=name, name=f"MIT Kerberos {name}", layers=Layers(kerberos=KerberosLayer(
        certificate_bits=asked.realm_rsa_bits, group_bits=asked.realm_dh_bits,
        udp_limit_bytes=1 if transport == "tcp" else None)))


def in_force(cell: Cell, asked: Asked) -> Policy:
    """A cell's policy: over wires the realms'; on the air its own, with theirs if it has none."""
    usual = policy(cell.ids["transport"], asked)
    if not mobile.is_on_air(cell):
        return usual
    chosen: Policy = cell.value("policy")
    own = chosen.layers.kerberos
    name = chosen.id if own else f"{chosen.id}-{usual.id}"
    with_layer = added("kerberos", own or usual.layers.kerberos)(chosen.without_upper_layers)
    return with_layer.model_copy(update={"id": name})


def layer(cell: Cell, asked: Asked) -> KerberosLayer:
    """What the policy in force in a cell says of Kerberos."""
    found = in_force(cell, asked).layers.kerberos
    assert found is not None
    return found


STUDY = Krb5Today()

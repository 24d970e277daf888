"""Definition of the study, as the engine uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from measure import manifest, record
from measure.body import BodyUpgrades
from studies import mobile
from studies.qop2007.asked import Asked
from studies.qop2007.body import Measured, from_schema_1, with_one_authentication
from studies.qop2007.controls import FAULTS
from studies.qop2007.factors import FACTORS
from studies.qop2007.former_plan import plan_from_schema_1
from studies.qop2007.metrics import AUTHENTICATION, HANDOFF, LOST, METRICS, OUTAGE, STAGES, TCP, UDP
from studies.qop2007.report_options import NO_LAYERS_SHA256, REPORT_OPTIONS
from studies.study import (
    Cell,
    Clock,
    Expected,
    Factor,
    Fault,
    Judged,
    Lab,
    Level,
    Metric,
    Repetition,
    ReportOption,
    Stage,
    Study,
)
from studies.study import TestbedSpec as Spec

if TYPE_CHECKING:
    import numpy as np

    from analysis.cells import Cells
    from analysis.clock_comparison import MetricPart
    from analysis.present.report import Report
    from analysis.results import Results
    from analysis.table import Table


class Qop2007(Study):
    """A study of policies in scenarios: authentication, handoffs and throughput."""

    id: ClassVar[str] = "qop2007"
    title: ClassVar[str] = "Quality of protection in wireless LANs with IP mobility"
    paper: ClassVar[str] = ("Agarwal and Wang, On the Impact of Quality of Protection in Wireless "
                            "Local Area Networks with IP Mobility, 2007")
    #: 2: a TCP stream lasts until all of it is acknowledged. Before, it lasted until its last byte
    #: was sent.
    #: 3: no authentication at home includes the return from abroad. Before, the first one after the
    #: return included it.
    version: ClassVar[int] = 3
    factors: ClassVar[tuple[Factor, ...]] = FACTORS
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    stages: ClassVar[tuple[Stage, ...]] = STAGES
    baseline: ClassVar[Mapping[str, str]] = {"policy": "P1"}
    baseline_digests: ClassVar[Mapping[str, str]] = {"policy": NO_LAYERS_SHA256}
    report_options: ClassVar[tuple[ReportOption, ...]] = REPORT_OPTIONS
    faults: ClassVar[Mapping[str, Fault | str]] = FAULTS
    proof_sets: ClassVar[Mapping[str, str]] = {"stream_bytes": "100k", "authentications": "1"}
    lab: ClassVar[Lab] = Lab({"policy": "P8", "scenario": "N2"}, call="connect",
                             node=lambda cell: str(cell.value("scenario").mobile_node))
    asked: ClassVar[type[Asked]] = Asked
    measured: ClassVar[type[Measured]] = Measured
    upgrades: ClassVar[BodyUpgrades] = {1: with_one_authentication}
    record_upgrades: ClassVar[Mapping[int, record.Upgrade]] = {1: from_schema_1}
    manifest_upgrades: ClassVar[Mapping[int, manifest.Upgrade]] = {1: plan_from_schema_1}
    inside: ClassVar[str] = "studies.qop2007.inside"
    judged_with: ClassVar[Sequence[str]] = (
        *mobile.JUDGED_WITH, "subscriber.key_hex", "subscriber.opc_hex")

    # Imports are local, so that commands that only list studies do not load measuring and reporting
    # code.

    def level(self, factor: Factor, name: str, entry: manifest.LevelRecord) -> Level:
        """Build a level from its stored content: policies and scenarios may be the user's."""
        return mobile.restore_level(factor.name, name, entry)

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield every policy in every scenario. Refuse moves, sessions and wires that cannot be."""
        from studies.qop2007 import matrix

        for cell in super().cells(levels):
            matrix.check_move(cell.value("policy"), cell.value("scenario"))
            matrix.check_sessions(cell.value("policy"), cell.value("scenario"))
            matrix.check_wires(cell.value("policy"), cell.value("scenario"))
            matrix.check_transport_mode(cell.value("policy"), cell.value("scenario"))
            yield cell

    def testbed(self, cell: Cell, settings: Asked) -> Spec:  # type: ignore[override]
        """Return the testbed: the policy on the scenario's network, over the chosen medium."""
        from studies.qop2007 import matrix

        return matrix.testbed_spec(cell, settings)

    def task(self, cell: Cell, settings: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the scenario, and the streams with their rate."""
        from studies.qop2007 import matrix

        return matrix.build_task(cell, settings)

    def warm_up(self, settings: Asked) -> Asked:  # type: ignore[override]
        """Return settings with small streams, which load the same files into memory."""
        return settings.model_copy(update={"stream_bytes": 50_000, "authentications": 1,
                                           "moves": 1})

    def warm_up_cell(self, cells: Sequence[Cell]) -> Cell:
        """Return a cell that goes abroad if there is one, which loads a handoff's files.

        The first move abroad in a testbed took up to an eighth longer than all others.
        """
        from studies.qop2007 import matrix

        return next(filter(matrix.goes_abroad, cells), cells[0])

    def expected_cost(self, cell: Cell, settings: Asked) -> Expected:  # type: ignore[override]
        """Estimate duration and costs by the medium's ceilings, which all policies share."""
        from studies.qop2007 import matrix

        return matrix.estimate_costs(cell, settings)

    def deadline_s(self, cell: Cell, settings: Asked) -> float:  # type: ignore[override]
        """Return the time of the slowest streams that are still accepted."""
        from studies.qop2007 import matrix

        return matrix.deadline_s(cell, settings)

    def judge(self, repetition: Repetition) -> Judged:
        """Dissect, time and verify a repetition."""
        from studies.qop2007 import judge

        return judge.judge_repetition(repetition)

    def required_metrics(self, cell: Cell, settings: Asked,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return times and streams, with handoff and losses where the node moves."""
        moves = cell.value("scenario").roams_to is not None
        return [AUTHENTICATION, TCP, UDP, *([HANDOFF] if moves else []),
                *([OUTAGE, LOST] if moves and settings.move_stream_ms else [])]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return a column for each metric, phase and component of the authentication time."""
        from studies.qop2007 import values

        return values.row_from_body(measured)

    def made_up(self, cell: Cell, generator: np.random.Generator) -> Judged:
        """Return an outcome with durations and rates near those of a quick run."""
        from studies.qop2007 import made_up

        return made_up.make_outcome(cell, generator)

    def impossible_values(self, measured: Any) -> str:
        """Describe a negative number, or an authentication time unequal to its parts' sum."""
        from studies.qop2007 import values

        return values.find_impossible_value(measured)

    def parts(self, cells: Cells) -> Sequence[MetricPart]:
        """Return the components of the authentication time."""
        from studies.qop2007.report import clock_parts

        return clock_parts.component_parts(cells)

    def run_table(self, cells: Cells) -> Table:
        """Return the table of metrics, with components and phases."""
        from studies.qop2007.report import run_notes

        return run_notes.run_table(cells)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Return the paper's tables and claims with figures, advice and throughput bounds."""
        from studies.qop2007.report import report

        return report(results, options)

    def report_alone(self, options: Mapping[str, Any]) -> Report:
        """Return the report of the published values (`--published`)."""
        from studies.qop2007.report import of_paper

        return of_paper(options)


STUDY = Qop2007()

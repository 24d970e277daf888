"""Define the study qop2007: the cost of security policies in wireless LANs with Mobile IP.

It repeats the 2007 paper of Agarwal and Wang with its twelve policies. `Qop2007` tells the
measuring program what to vary (factors), what to measure (metrics), which code runs and evaluates a
measurement, and how to report. It imports the modules that do the work only when they are needed.
`studies.qop2007` lists the terms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from measure.records import manifest
from studies import policy_factors
from studies.qop2007.cells import FACTORS
from studies.qop2007.faults import FAULTS
from studies.qop2007.measurements import (
    AUTHENTICATION,
    CONNECTION,
    HANDOFF,
    LOST,
    METRICS,
    OUTAGE,
    STAGES,
    TCP,
    UDP,
    Measurements,
)
from studies.qop2007.settings import Settings
from studies.study import (
    Cell,
    Clock,
    ExpectedCost,
    Factor,
    Fault,
    Judgement,
    LabDefaults,
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
    from analysis.present.report import Report
    from analysis.reporting.clock_comparison import MetricPart
    from analysis.results import Results
    from analysis.table import Table


# --- Options of `./qop report`, and the digest of the baseline ---

#: `Policy.digest()` of a policy without any layer: the hash of an empty JSON object.
NO_LAYERS_SHA256 = hashlib.sha256(b"{}").hexdigest()

REPORT_OPTIONS = (
    ReportOption("--handoff", "Draw the phases of the handoffs instead, as handoff.svg and "
                 "handoff.png into FOLDER, and print their table.", instead=True,
                 unused=("--weights", "--application")),
    ReportOption("--published", "Report on the values that the 2007 paper printed instead, "
                 "into FOLDER (default: results/published).", instead=True, without_results=True,
                 unused=("--baseline",)),
    ReportOption("--weights", "Weigh protection by this file, such as policies/weights.yml "
                 "(default: the paper's weights).", metavar="FILE", is_file=True),
    ReportOption("--application", "Print which policies qualify for voice, video, "
                 "file-transfer, or limits such as delay=0.2,loss=0.01,sigma=50 (may be "
                 "repeated).", metavar="NAME", multiple=True),
)


class Qop2007(Study):
    """The study of security policies in scenarios: authentication time, handoff and throughput."""

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
    judges_claims: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    stages: ClassVar[tuple[Stage, ...]] = STAGES
    baseline: ClassVar[Mapping[str, str]] = {"policy": "P1"}
    baseline_digests: ClassVar[Mapping[str, str]] = {"policy": NO_LAYERS_SHA256}
    report_options: ClassVar[tuple[ReportOption, ...]] = REPORT_OPTIONS
    faults: ClassVar[Mapping[str, Fault | str]] = FAULTS
    proof_sets: ClassVar[Mapping[str, str]] = {"stream_bytes": "100k", "authentications": "1"}
    lab: ClassVar[LabDefaults] = LabDefaults({"policy": "P8", "scenario": "N2"}, call="connect",
                                             node=lambda cell: str(
                                                 cell.value("scenario").mobile_node))
    settings_type: ClassVar[type[Settings]] = Settings
    measurements_type: ClassVar[type[Measurements]] = Measurements
    workload_module: ClassVar[str] = "studies.qop2007.workload"
    judged_with: ClassVar[Sequence[str]] = (
        *policy_factors.JUDGED_WITH, "network.sae_pk", "subscriber.key_hex", "subscriber.opc_hex")

    # Imports are local, so that commands that only list studies do not load measuring and reporting
    # code.

    def level(self, factor: Factor, name: str, entry: manifest.LevelRecord) -> Level:
        """Restore a policy or scenario from its content in a stored plan.

        The content is needed because the user's own files may be gone.
        """
        return policy_factors.restore_level(factor.name, name, entry)

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield every combination of policy and scenario.

        Raises:
            StudyError: a combination cannot be measured, such as MACsec without a wire to protect.
        """
        from studies.qop2007 import cells

        for cell in super().cells(levels):
            cells.check_move(cell.value("policy"), cell.value("scenario"))
            policy_factors.check_sessions(
                cell.value("policy"), cell.value("scenario"), keeps_keys=cells.keeps_keys(
                    cell.value("policy"), cell.value("scenario")))
            policy_factors.check_wires(cell.value("policy"), cell.value("scenario"))
            cells.check_vlan(cell.value("policy"), cell.value("scenario"))
            cells.check_radius_server(cell.value("policy"), cell.value("scenario"))
            cells.check_realm(cell.value("policy"), cell.value("scenario"))
            cells.check_server_name(cell.value("policy"), cell.value("scenario"))
            cells.check_lease(cell.value("policy"), cell.value("scenario"))
            cells.check_ipv6(cell.value("policy"), cell.value("scenario"))
            cells.check_transport_mode(cell.value("policy"), cell.value("scenario"))
            cells.check_nat(cell.value("policy"), cell.value("scenario"))
            yield cell

    def testbed(self, cell: Cell, settings: Settings) -> Spec:  # type: ignore[override]
        """Describe the test network of a policy and scenario, with medium and devices."""
        from studies.qop2007 import cells

        return cells.testbed_spec(cell, settings)

    def task(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the instructions for a repetition, such as scenario, moves and streams."""
        from studies.qop2007 import cells

        return cells.build_task(cell, settings)

    def warm_up(self, settings: Settings) -> Settings:  # type: ignore[override]
        """Return settings for a first run that is not measured: small streams, one authentication.

        That run loads the program files into memory.
        """
        return settings.model_copy(update={"stream_bytes": 50_000, "authentications": 1,
                                           "moves": 1})

    def warm_up_cell(self, cells: Sequence[Cell]) -> Cell:
        """Choose a combination with a handoff for the first run, which is not measured.

        Without that run, the first handoff to another subnet took up to an eighth longer than all
        others.
        """
        from studies.qop2007 import cells as qop2007_cells

        return next(filter(qop2007_cells.goes_abroad, cells), cells[0])

    def expected_cost(self, cell: Cell,
                      settings: Settings) -> ExpectedCost:  # type: ignore[override]
        """Estimate duration, CPU time and capture size of a repetition from the medium's rates."""
        from studies.qop2007 import cells

        return cells.estimate_costs(cell, settings)

    def deadline_s(self, cell: Cell, settings: Settings) -> float:  # type: ignore[override]
        """Return the longest time (s) that one repetition may take before it is aborted."""
        from studies.qop2007 import cells

        return cells.deadline_s(cell, settings)

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition: dissect its captures, compute times and verify its policy."""
        from studies.qop2007 import judge

        return judge.judge_repetition(repetition)

    def required_metrics(self, cell: Cell, settings: Settings,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that a repetition must have: times, goodputs, perhaps a handoff."""
        scenario = cell.value("scenario")
        moves = scenario.roams_to is not None
        leases = scenario.uses_dhcp or scenario.uses_ipv6
        return [AUTHENTICATION, TCP, UDP, *([CONNECTION] if leases else []),
                *([HANDOFF] if moves else []),
                *([OUTAGE, LOST] if moves and settings.move_stream_ms else [])]

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the measured values of a repetition as a row, a column per metric and phase."""
        from studies.qop2007 import measurements

        return measurements.row_from_body(measured)

    def make_synthetic_outcome(self, cell: Cell, generator: np.random.Generator) -> Judgement:
        """Return invented results for benchmarks of qop, as large as measured ones."""
        from studies.qop2007 import synthetic_outcomes

        return synthetic_outcomes.make_synthetic_outcome(cell, generator)

    def impossible_values(self, measured: Any) -> str:
        """Describe a measured value that cannot be true, or return "" if all can be.

        Such a value is a negative number, or an authentication time that is not the sum of its
        components.
        """
        from studies.qop2007 import measurements

        return measurements.find_impossible_value(measured)

    def parts(self, cells: Cells) -> Sequence[MetricPart]:
        """Return the negotiations that make up the authentication time, as metrics of their own."""
        from studies.qop2007.report import phase_names

        return phase_names.component_parts(cells)

    def run_table(self, cells: Cells) -> Table:
        """Build the table of all measured values of a run, with the phases of authentication."""
        from studies.qop2007.report import run_table

        return run_table.build_run_table(cells)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Build the report of a run: paper tables and claims with figures, advice and limits."""
        from studies.qop2007.report import build_report

        return build_report(results, options)

    def report_alone(self, options: Mapping[str, Any]) -> Report:
        """Build the report of the values that the paper printed (`--published`), without a run."""
        from studies.qop2007.report import build_paper_report

        return build_paper_report(options)


STUDY = Qop2007()

"""Define the study adp1987, which measures throughput and latency of ADP.

ADP is the Authenticated Datagram Protocol between hosts, which Anderson, Ferrari, Rangan and
Sartirana measured in 1987. `Adp1987` tells the measuring program what to vary (factors), what to
measure (metrics), which code runs and evaluates a measurement, and how to report. `studies.adp1987`
lists the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from measure.records import manifest
from studies import policy_factors
from studies.adp1987 import cells as adp1987_cells
from studies.adp1987 import measurements
from studies.adp1987.faults import FAULTS
from studies.adp1987.measurements import Measurements
from studies.adp1987.settings import Settings
from studies.adp1987.traces import TRACES
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
    Stage,
    Study,
)
from studies.study import TestbedSpec as Spec

if TYPE_CHECKING:
    from analysis.cells import Cells
    from analysis.present.report import Report
    from analysis.results import Results
    from analysis.table import Table

# A repetition sends a trace in one phase or in two. In the phase for the throughput, messages are
# sent as fast as possible. In the phase for the latency, they are paced: each message is sent at
# its time in the trace, and a virtual clock skips the pauses.

#: Processor seconds per message of a phase. Measured on two quiet cores: `quick` took 80 s for
#: 184,000 messages, `paper` 273 s for 1,920,000.
_MESSAGE_S = 0.00022
#: Processor seconds of a repetition in addition.
_REPETITION_S = 1.2
#: Processor seconds per message in real time.
_REAL_MESSAGE_S = 0.0006
#: Processor seconds per message over the air.
_AIR_MESSAGE_S = 0.003
#: Processor seconds in addition of a repetition in real time or over the air.
_OTHER_REPETITION_S = 2.0
#: Captured bytes per message if only the headers of its frames are captured.
_HEAD_BYTES = 200
#: Captured bytes per message if whole frames are captured, as with encryption of all fields.
_MESSAGE_BYTES = 2400


class Adp1987(Study):
    """The study of throughput and latency of ADP, the Authenticated Datagram Protocol.

    Traces (lists of messages) are sent through a secure channel. The time to set up the channel is
    measured, too.
    """

    id: ClassVar[str] = "adp1987"
    title: ClassVar[str] = "Host-to-host security and queueing: the Authenticated Datagram Protocol"
    version: ClassVar[int] = 2
    paper: ClassVar[str] = ("Anderson, Ferrari, Rangan and Sartirana, A Protocol for Secure "
                            "Communication in Large Distributed Systems, 1987")
    factors: ClassVar[tuple[Factor, ...]] = adp1987_cells.FACTORS
    judges_claims: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = measurements.METRICS
    stages: ClassVar[tuple[Stage, ...]] = adp1987_cells.STAGES
    distributions: ClassVar[tuple[Metric, ...]] = (measurements.LATENCIES,)
    #: Levels that others are compared with: those of the paper for ALL, the trace with the messages
    #: of all protocols. Traces are not compared with each other.
    baseline: ClassVar[Mapping[str, str]] = dict(
        list(zip(adp1987_cells.NAMES, adp1987_cells.cell_ids("ALL"), strict=True))[1:])
    faults: ClassVar[Mapping[str, Fault | str]] = FAULTS
    clock: ClassVar[Clock] = "virtual"
    devices_by: ClassVar[Sequence[Clock]] = ("virtual",)
    settings_type: ClassVar[type[Settings]] = Settings
    measurements_type: ClassVar[type[Measurements]] = Measurements
    proof_sets: ClassVar[Mapping[str, str]] = {"messages": "200", "paced_messages": "200",
                                               "proof_messages": "50"}
    workload_module: ClassVar[str] = "studies.adp1987.workload"
    judged_with: ClassVar[Sequence[str]] = policy_factors.JUDGED_WITH

    # Imports are inside of methods, so that listing the studies loads no measuring or reporting
    # code.

    def level(self, factor: Factor, name: str, entry: manifest.LevelRecord) -> Level:
        """Restore a value of a factor, such as a policy, from its content in a stored plan.

        The content is needed because the user's own files may be gone. A user's own trace comes
        back without messages, which are in the hosts' logs.
        """
        if factor.name == "trace" and name not in TRACES:
            return Level(name, entry.title, digest=entry.digest)
        return adp1987_cells.PLACES.restore_level(factor.name, name,
                                                  entry) or super().level(factor, name, entry)

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the combinations of factor values to measure, which vary one factor at a time."""
        return adp1987_cells.select_cells(levels)

    def testbed(self, cell: Cell, settings: Settings) -> Spec:  # type: ignore[override]
        """Describe the test network: two hosts on an Ethernet, with a third one for attacks.

        Over the air, it is a scenario with a policy, whose peer sends to its mobile node.
        """
        from studies.adp1987 import cells

        return cells.build_testbed(cell, settings)

    def task(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the instructions for a repetition: settings of the protocol, and the trace."""
        from studies.adp1987 import cells

        return cells.build_task(cell, settings)

    def expected_cost(self, cell: Cell,
                      settings: Settings) -> ExpectedCost:  # type: ignore[override]
        """Estimate duration, CPU time (s) and capture bytes of a repetition."""
        from studies.adp1987 import cells

        phases = 1 if adp1987_cells.is_paced(cell.ids) else 2
        messages = cells.count_messages(cell, settings)
        # A user's own trace has pauses. A clock that skips them still needs some CPU time.
        pauses_s, skipped_s = cells.paced_s(cell, settings), cells.skipped_s(cell, settings)
        if policy_factors.is_on_air(cell):
            count = messages + min(messages, settings.paced_messages)
            work_s = 2 * _OTHER_REPETITION_S + count * _AIR_MESSAGE_S
            return ExpectedCost(work_s + pauses_s, work_s + skipped_s, 900 * count)
        is_real_time = cell.ids["technology"] == adp1987_cells.REAL_TIME
        repetition_s = _OTHER_REPETITION_S if is_real_time else _REPETITION_S
        message_s = _REAL_MESSAGE_S if is_real_time else _MESSAGE_S
        work_s = repetition_s + phases * messages * message_s
        message_bytes = _MESSAGE_BYTES * phases if cell.ids["scope"] == "FE" else _HEAD_BYTES
        return ExpectedCost(work_s + pauses_s, work_s + skipped_s, message_bytes * messages)

    def deadline_s(self, cell: Cell, settings: Settings) -> float:  # type: ignore[override]
        """Return the longest time (s) that one repetition may take before it is aborted.

        It is 120 s plus ten times the expected CPU time. In real time, twice the expected duration
        is added.
        """
        expected = self.expected_cost(cell, settings)
        waits_s = expected.duration_s if cell.ids["technology"] == adp1987_cells.REAL_TIME else 0.0
        return 120 + 10 * expected.processor_s + 2 * waits_s

    def notes(self, cells: Sequence[Cell],
              settings: Settings) -> Sequence[str]:  # type: ignore[override]
        """Return a line that describes each of the user's own traces."""
        from studies.adp1987 import cells as adp1987_cells

        return list(adp1987_cells.describe_traces(cells, settings))

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition: compute its measured values, and check its protection."""
        from studies.adp1987 import judge

        return judge.judge_repetition(repetition)

    def required_metrics(self, cell: Cell, settings: Settings,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that a repetition must have.

        A repetition without urgent messages has no latency.
        """
        from studies.adp1987 import cells

        return cells.required_metrics(cell, settings)

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the measured values of a repetition as a row, by column name."""
        columns = dict(super().values(measured))
        for share, prefix in zip(measurements.SHARES, measured.prefixes, strict=False):
            columns[f"messages_at_{share:g}"] = prefix.messages
            columns[f"throughput_at_{share:g}"] = prefix.throughput_bytes_per_s
            columns[f"latency_at_{share:g}"] = prefix.latency_s
        columns["overloaded"] = float(measured.overloaded)
        return columns

    def run_table(self, cells: Cells) -> Table:
        """Build the table of all measured values, with overloaded combinations marked."""
        from studies.adp1987.report import tables

        return tables.build_run_table(cells)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Build the report: the paper's tables, figures and claims with measured values."""
        from studies.adp1987.report import build_report

        return build_report(self, results, options)


STUDY = Adp1987()

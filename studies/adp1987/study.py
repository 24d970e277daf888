"""Definition of the study adp1987 for the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from measure import manifest
from studies import mobile
from studies.adp1987 import body, design
from studies.adp1987.asked import Asked
from studies.adp1987.body import Measured
from studies.adp1987.controls import FAULTS
from studies.adp1987.traces import TRACES
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
    Stage,
    Study,
)
from studies.study import TestbedSpec as Spec

if TYPE_CHECKING:
    from analysis.cells import Cells
    from analysis.present.report import Report
    from analysis.results import Results
    from analysis.table import Table

#: Processor seconds per message of a phase, and per repetition. Measured on two quiet cores:
#: `quick` took 80 s for 184,000 messages, `paper` 273 s for 1,920,000.
_MESSAGE_S, _REPETITION_S = 0.00022, 1.2
#: Processor seconds per message in real time and on the air, and per repetition of either.
_REAL_MESSAGE_S, _AIR_MESSAGE_S, _OTHER_REPETITION_S = 0.0006, 0.003, 2.0
#: Captured bytes per message: heads of its frames, or whole frames.
_HEAD_BYTES, _MESSAGE_BYTES = 200, 2400


class Adp1987(Study):
    """The study of throughput and latency of the Authenticated Datagram Protocol.

    Traces of user messages are replayed over a channel. The time to establish the channel is
    measured, too.
    """

    id: ClassVar[str] = "adp1987"
    title: ClassVar[str] = "Host-to-host security and queueing: the Authenticated Datagram Protocol"
    version: ClassVar[int] = 2
    paper: ClassVar[str] = ("Anderson, Ferrari, Rangan and Sartirana, A Protocol for Secure "
                            "Communication in Large Distributed Systems, 1987")
    factors: ClassVar[tuple[Factor, ...]] = design.FACTORS
    metrics: ClassVar[tuple[Metric, ...]] = body.METRICS
    stages: ClassVar[tuple[Stage, ...]] = design.STAGES
    distributions: ClassVar[tuple[Metric, ...]] = (body.LATENCIES,)
    #: Levels that others are compared with: the nominal ones of ALL. Traces are not compared.
    baseline: ClassVar[Mapping[str, str]] = dict(
        list(zip(design.NAMES, design.ids("ALL"), strict=True))[1:])
    faults: ClassVar[Mapping[str, Fault | str]] = FAULTS
    clock: ClassVar[Clock] = "virtual"
    devices_by: ClassVar[Sequence[Clock]] = ("virtual",)
    asked: ClassVar[type[Asked]] = Asked
    measured: ClassVar[type[Measured]] = Measured
    proof_sets: ClassVar[Mapping[str, str]] = {"messages": "200", "paced_messages": "200",
                                               "proof_messages": "50"}
    inside: ClassVar[str] = "studies.adp1987.inside"
    judged_with: ClassVar[Sequence[str]] = mobile.JUDGED_WITH

    # Imports are inside of methods, so that listing the studies loads no measuring or reporting
    # code.

    def level(self, factor: Factor, name: str, entry: manifest.LevelRecord) -> Level:
        """Return a level from its stored content, because policies and scenarios may be a user's.

        The level of a user's own trace comes without messages: the judge reads them in the hosts'
        logs.
        """
        if factor.name == "trace" and name not in TRACES:
            return Level(name, entry.title, digest=entry.digest)
        return design.PLACES.restore_level(factor.name, name,
                                           entry) or super().level(factor, name, entry)

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield the cells of the chosen levels, one varied factor at a time."""
        return design.select_cells(levels)

    def testbed(self, cell: Cell, settings: Asked) -> Spec:  # type: ignore[override]
        """Return the testbed: two hosts on an Ethernet, with a third one for attacks.

        On the air, the testbed is a scenario with a policy; its peer sends to its mobile node.
        """
        from studies.adp1987 import matrix

        return matrix.build_testbed(cell, settings)

    def task(self, cell: Cell, settings: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """Return the workload's task: settings of the protocol and the trace."""
        from studies.adp1987 import matrix

        return matrix.build_task(cell, settings)

    def expected_cost(self, cell: Cell, settings: Asked) -> Expected:  # type: ignore[override]
        """Return the expected times (s) and capture bytes, by number and pauses of messages."""
        from studies.adp1987 import own_trace

        phases = 1 if design.is_paced(cell.ids) else 2
        messages, paced_s = own_trace.count_messages(cell,
                                                     settings), own_trace.paced_s(cell, settings)
        skipped_s = own_trace.skipped_s(cell, settings)
        if mobile.is_on_air(cell):
            count = messages + min(messages, settings.paced_messages)
            took_s = 2 * _OTHER_REPETITION_S + count * _AIR_MESSAGE_S
            return Expected(took_s + paced_s, took_s + skipped_s, 900 * count)
        beside_s, each_s = (_OTHER_REPETITION_S, _REAL_MESSAGE_S) if (
            cell.ids["technology"] == design.REAL_TIME) else (_REPETITION_S, _MESSAGE_S)
        took_s = beside_s + phases * messages * each_s
        kept_bytes = _MESSAGE_BYTES * phases if cell.ids["scope"] == "FE" else _HEAD_BYTES
        return Expected(took_s + paced_s, took_s + skipped_s, kept_bytes * messages)

    def deadline_s(self, cell: Cell, settings: Asked) -> float:  # type: ignore[override]
        """Return the time limit of a repetition: 120 s plus ten times its processor time.

        In real time, twice the expected duration is added.
        """
        expected = self.expected_cost(cell, settings)
        waits_s = expected.duration_s if cell.ids["technology"] == design.REAL_TIME else 0.0
        return 120 + 10 * expected.processor_s + 2 * waits_s

    def notes(self, cells: Sequence[Cell], settings: Asked) -> Sequence[str]:  # type: ignore[override]
        """Return a line for each user's own trace that will be measured."""
        from studies.adp1987 import own_trace

        return list(own_trace.describe_traces(cells, settings))

    def judge(self, repetition: Repetition) -> Judged:
        """Return the measured values and the evidence of a repetition."""
        from studies.adp1987 import judge

        return judge.judge_repetition(repetition)

    def required_metrics(self, cell: Cell, settings: Asked,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that a cell must have.

        Latency is required only with urgent messages.
        """
        from studies.adp1987 import matrix

        return matrix.required_metrics(cell, settings)

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the record's numbers and those of the trace's prefixes, by column name."""
        columns = dict(super().values(measured))
        for share, prefix in zip(body.SHARES, measured.prefixes, strict=False):
            columns[f"messages_at_{share:g}"] = prefix.messages
            columns[f"throughput_at_{share:g}"] = prefix.throughput_bytes_per_s
            columns[f"latency_at_{share:g}"] = prefix.latency_s
        columns["overloaded"] = float(measured.overloaded)
        return columns

    def run_table(self, cells: Cells) -> Table:
        """Return the run's table, with overloaded cells marked."""
        from studies.adp1987.report import overloaded

        return overloaded.build_run_table(cells)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Return the report: the paper's tables, figures and claims with measured values."""
        from studies.adp1987.report import build_report

        return build_report(self, results, options)


STUDY = Adp1987()

"""The study's parts put together, as the engine is handed them."""

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

#: Seconds of a processor that a message of a phase takes, and a repetition beside: `quick` and
#: `paper` took 80 and 273 s on two quiet cores, for 184,000 and 1,920,000 messages.
_MESSAGE_S, _REPETITION_S = 0.00022, 1.2
#: The same in real time, and on the air.
_REAL_MESSAGE_S, _AIR_MESSAGE_S, _OTHER_REPETITION_S = 0.0006, 0.003, 2.0
#: What is kept of a message in captures: of its frames' heads, or of whole frames.
_HEAD_BYTES, _MESSAGE_BYTES = 200, 2400


class Adp1987(Study):
    """The Authenticated Datagram Protocol on traces: throughput, latency, establishment."""

    id: ClassVar[str] = "adp1987"
    title: ClassVar[str] = "Host-to-host security and queueing: the Authenticated Datagram Protocol"
    version: ClassVar[int] = 2
    paper: ClassVar[str] = ("Anderson, Ferrari, Rangan and Sartirana, A Protocol for Secure "
                            "Communication in Large Distributed Systems, 1987")
    factors: ClassVar[tuple[Factor, ...]] = design.FACTORS
    metrics: ClassVar[tuple[Metric, ...]] = body.METRICS
    stages: ClassVar[tuple[Stage, ...]] = design.STAGES
    distributions: ClassVar[tuple[Metric, ...]] = (body.LATENCIES,)
    #: Traces are surroundings; all else is compared with the nominal levels of ALL.
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

    # Imports inside: what measures and what reports is not loaded by a command that lists studies.

    def level(self, factor: Factor, name: str, entry: manifest.LevelRecord) -> Level:
        """Policies and scenarios of their content, which may be the user's.

        A trace of the user's own without its messages: the judge asks the hosts' logs.
        """
        if factor.name == "trace" and name not in TRACES:
            return Level(name, entry.title, digest=entry.digest)
        return design.PLACES.level(factor.name, name, entry) or super().level(factor, name, entry)

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """One factor at a time, as the paper has it."""
        return design.cells(levels)

    def testbed(self, cell: Cell, asked: Asked) -> Spec:  # type: ignore[override]
        """Two hosts of the cell's device on an Ethernet, and a third one for attacks.

        On the air, a policy in a scenario: its peer sends to its mobile node.
        """
        from studies.adp1987 import matrix

        return matrix.testbed(cell, asked)

    def task(self, cell: Cell, asked: Asked) -> Mapping[str, Any]:  # type: ignore[override]
        """The protocol's settings and the trace."""
        from studies.adp1987 import matrix

        return matrix.task(cell, asked)

    def expected(self, cell: Cell, asked: Asked) -> Expected:  # type: ignore[override]
        """By the number of messages, and by the pauses of a trace of the user's own."""
        from studies.adp1987 import own_trace

        phases = 1 if design.is_paced(cell.ids) else 2
        messages, paced_s = own_trace.count(cell, asked), own_trace.paced_s(cell, asked)
        skipped_s = own_trace.skipped_s(cell, asked)
        if mobile.is_on_air(cell):
            count = messages + min(messages, asked.paced_messages)
            took_s = 2 * _OTHER_REPETITION_S + count * _AIR_MESSAGE_S
            return Expected(took_s + paced_s, took_s + skipped_s, 900 * count)
        beside_s, each_s = (_OTHER_REPETITION_S, _REAL_MESSAGE_S) if (
            cell.ids["technology"] == design.REAL_TIME) else (_REPETITION_S, _MESSAGE_S)
        took_s = beside_s + phases * messages * each_s
        kept_bytes = _MESSAGE_BYTES * phases if cell.ids["scope"] == "FE" else _HEAD_BYTES
        return Expected(took_s + paced_s, took_s + skipped_s, kept_bytes * messages)

    def deadline_s(self, cell: Cell, asked: Asked) -> float:  # type: ignore[override]
        """Ten times what it takes, and then some; in real time a trace's own time as well."""
        expected = self.expected(cell, asked)
        waits_s = expected.duration_s if cell.ids["technology"] == design.REAL_TIME else 0.0
        return 120 + 10 * expected.processor_s + 2 * waits_s

    def notes(self, cells: Sequence[Cell], asked: Asked) -> Sequence[str]:  # type: ignore[override]
        """What is taken of traces of the user's own."""
        from studies.adp1987 import own_trace

        return list(own_trace.described(cells, asked))

    def judge(self, repetition: Repetition) -> Judged:
        """Decrypt, compare, compute."""
        from studies.adp1987 import judge

        return judge.judge(repetition)

    def required_metrics(self, cell: Cell, asked: Asked,  # type: ignore[override]
                         clock: Clock | None) -> Sequence[Metric]:
        """Return what the cell's place and phases have; latencies where a message is urgent."""
        from studies.adp1987 import matrix

        return matrix.required_metrics(cell, asked)

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Its numbers, and those of the trace's first parts, a column each."""
        columns = dict(super().values(measured))
        for share, prefix in zip(body.SHARES, measured.prefixes, strict=False):
            columns[f"messages_at_{share:g}"] = prefix.messages
            columns[f"throughput_at_{share:g}"] = prefix.throughput_bytes_per_s
            columns[f"latency_at_{share:g}"] = prefix.latency_s
        columns["overloaded"] = float(measured.overloaded)
        return columns

    def run_table(self, cells: Cells) -> Table:
        """With a word where a cell is overloaded."""
        from studies.adp1987.report import overloaded

        return overloaded.table(cells)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """The paper's tables and figures with published beside measured, and its claims."""
        from studies.adp1987.report import report

        return report(self, results, options)


STUDY = Adp1987()

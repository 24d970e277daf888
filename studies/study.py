"""A study is what the engine is handed: factors, metrics, a workload, a judge and a report.

The engine crosses the levels of the factors into cells, builds a testbed for each cell's spec, has
the study's workload measured in it, has what it left behind judged, and keeps one record a
repetition. It knows of a study what stands here and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from analysis.metrics import Metric, Stage
from measure import manifest, record
from measure.body import BodyUpgrades
from studies import load
from studies.parts import (
    USED_FILE,
    Asked,
    Cell,
    Clock,
    Expected,
    Factor,
    Fault,
    Judged,
    Lab,
    Level,
    LevelContentError,
    LevelError,
    LivePage,
    Repetition,
    ReportOption,
    StudyError,
    TestbedSpec,
    chosen_cells,
    fixed,
)
from studies.units import Bytes

if TYPE_CHECKING:
    import numpy as np

    from analysis.cells import Cells
    from analysis.clock_comparison import MetricPart
    from analysis.present.report import Report
    from analysis.queueing import Model
    from analysis.results import Results
    from analysis.table import Table


__all__ = ["USED_FILE", "Asked", "Bytes", "Cell", "Clock", "Expected", "Factor", "Fault", "Judged",
           "Lab", "Level", "LevelContentError", "LevelError", "LivePage", "Metric", "Repetition",
           "ReportOption", "Stage", "Study", "StudyError", "TestbedSpec", "chosen_cells", "fixed"]


class Study:
    """The contract; a study overrides what it needs and is found by its folder's `STUDY`.

    `inside` is the module that runs in the machine: it has a class `Workload` (measure.workload).
    `baseline` is the level of each factor that differences are taken to. `profiles/` in the study's
    folder says how much to measure, by name.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str] = ""
    #: Raised when a repetition would not measure the same any more.
    version: ClassVar[int] = 1
    factors: ClassVar[tuple[Factor, ...]]
    metrics: ClassVar[tuple[Metric, ...]]
    stages: ClassVar[tuple[Stage, ...]] = ()
    baseline: ClassVar[Mapping[str, str]] = {}
    #: Digests of the baseline's levels: an equal level of another name stands in where they lack.
    baseline_digests: ClassVar[Mapping[str, str]] = {}
    #: Lists in the body of a record: values within a repetition, and pairs of seconds and value.
    distributions: ClassVar[tuple[Metric, ...]] = ()
    timelines: ClassVar[tuple[Metric, ...]] = ()
    report_options: ClassVar[tuple[ReportOption, ...]] = ()
    #: Negative controls by name; words alone are those of one that the workload does by itself.
    faults: ClassVar[Mapping[str, Fault | str]] = {}
    #: Settings by which `./qop bench proof` measures controls; as with --set.
    proof_sets: ClassVar[Mapping[str, str]] = {}
    lab: ClassVar[Lab] = Lab()
    #: A page that looks on and speaks in; its folder's name is a command.
    live: ClassVar[LivePage | None] = None
    #: The clock that it is measured by unless the user says otherwise.
    clock: ClassVar[Clock] = "processor"
    #: Clocks by which programs of its own charge their work to their nodes' devices.
    devices_by: ClassVar[Sequence[Clock]] = ()
    asked: ClassVar[type[Asked]] = Asked
    measured: ClassVar[type[BaseModel]]
    #: For bodies of an earlier schema (`measured` has a field with the alias "schema"), by the
    #: schema that each reads; what it makes is of the next.
    upgrades: ClassVar[BodyUpgrades] = {}
    #: The same for whole records and plans of an envelope that knew this study only.
    record_upgrades: ClassVar[Mapping[int, record.Upgrade]] = {}
    manifest_upgrades: ClassVar[Mapping[int, manifest.Upgrade]] = {}
    inside: ClassVar[str]
    #: Secrets of the run that its judge needs, as "place.name"; they are kept with each record.
    judged_with: ClassVar[Sequence[str]] = ()
    #: Why nobody can judge its records anew from what is kept of them; "" where that can be done.
    not_redone: ClassVar[str] = ""

    def __reduce__(self) -> tuple[Callable[[str], Study], tuple[str]]:
        # There is one of each, known by its id: other processes look it up.
        return load, (self.id,)

    def fault(self, name: str | None) -> Fault | None:
        """The negative control of a name; None without one. Raises StudyError."""
        if not name:
            return None
        if name not in self.faults:
            raise StudyError(f"--fault {name}: {self.id} has no such negative control; "
                             + (f"choose from {', '.join(self.faults)}" if self.faults else
                                "it has none"))
        fault = self.faults[name]
        return Fault(fault) if isinstance(fault, str) else fault

    def level(self, factor: Factor, name: str, entry: manifest.LevelRecord) -> Level:
        """A level as a results folder keeps it, with what the judge asks of it. Raises StudyError.

        LevelContentError where its own content is not what its digest says.
        By default the factor's own of that name, which must be the same: a study whose users bring
        levels of their own makes them of their content.
        """
        level = next(iter(factor.read([name], [])))
        if level.digest != entry.digest:
            raise StudyError(f"{factor.name} {name} is another one here than it was then")
        return level

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Every cell to be measured, in the order of the factors; by default all that there are."""
        for row in itertools.product(*levels.values()):
            yield Cell(dict(zip(levels, row, strict=True)))

    def testbed(self, cell: Cell, settings: Asked) -> TestbedSpec:
        """What must stand before a cell can be measured."""
        raise NotImplementedError

    def task(self, cell: Cell, settings: Asked) -> Mapping[str, Any]:
        """What the workload is told of one repetition, as plain data."""
        return {"cell": cell.ids, "asked": settings.model_dump(mode="json")}

    def unused(self, cell: Cell, settings: Asked) -> Collection[str]:
        """Return the settings that change a cell's testbed or task, and nothing that is measured.

        A user's setting that has no effect in any cell is refused.
        """
        return ()

    def warm_up(self, settings: Asked) -> Asked:
        """What an unrecorded first repetition on a testbed is asked for; by default the same."""
        return settings

    def warm_up_cell(self, cells: Sequence[Cell]) -> Cell:
        """Which of a testbed's cells that repetition is of; by default the first."""
        return cells[0]

    def notes(self, cells: Sequence[Cell], settings: Asked) -> Sequence[str]:
        """Return lines on what is measured that a user sees before anything starts."""
        return ()

    def expected(self, cell: Cell, settings: Asked) -> Expected:
        """About what one repetition of a cell takes."""
        return Expected()

    def deadline_s(self, cell: Cell, settings: Asked) -> float:
        """How long a repetition may last at most, beside what its machine may take to answer (s).

        After that, the machine counts as hung.
        """
        return 60.0

    def check_clock(self, clock: Clock, settings: Asked) -> None:
        """Refuse what a clock cannot measure. Raises StudyError."""
        return

    def judge(self, repetition: Repetition) -> Judged:
        """Captures and kernel state to measured values and evidence. Raises MeasureError, OSError.

        Runs in a process of its own, beside what is being measured.
        """
        raise NotImplementedError

    def required_metrics(self, cell: Cell, settings: Asked,
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics without which no repetition of a cell is good; by default all.

        A study whose cells do not have all metrics says here which they have: a handoff only where
        the scenario moves, for one. `clock` is the run's, None where nobody knows it. A repetition
        that lacks one fails, with what `Judged.causes` says of it.
        """
        return self.metrics

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """One row of numbers (SI units, by name) of a record's body: its metrics and further ones.

        `measured` is an instance of the study's `measured`. By default its fields that are numbers.
        """
        return {name: value for name, value in measured
                if isinstance(value, int | float) and not isinstance(value, bool)}

    def made_up(self, cell: Cell, generator: np.random.Generator) -> Judged | None:
        """What a repetition might come to, of the size and shape of a measured one; None: unknown.

        For benchmarks of what reads records. It says nothing about the cell.
        """
        return None

    def impossible(self, measured: Any) -> str:
        """What of a record's body cannot be, in a few words; empty where nothing is amiss.

        A record with impossible numbers is named, and left out of everything.
        """
        return ""

    def samples(self, measured: Any) -> Mapping[str, Sequence[float]]:
        """Values within a repetition, by the names of `distributions`; by default its fields."""
        return {metric.name: getattr(measured, metric.name, None) or ()
                for metric in self.distributions}

    def series(self, measured: Any) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Values over a repetition's time, by the names of `timelines`; by default its fields."""
        return {metric.name: getattr(measured, metric.name, None) or ()
                for metric in self.timelines}

    def parts(self, cells: Cells) -> Sequence[MetricPart]:
        """Parts of metrics that real and virtual time are compared by, too."""
        return ()

    def queueing_model(self, results: Results) -> Model | None:
        """A queueing model of what was measured, and these measurements; None without one.

        Raises QueueingError where it cannot be calibrated by them.
        """
        return None

    def run_table(self, cells: Cells) -> Table:
        """The run's table; by default of the metrics alone."""
        from analysis import run_table

        return run_table.make_run_table(cells)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Tables, figures and claims of a results folder, made of the toolkit's parts.

        `options` are `baseline` and the study's own, by their keys. By default, what every study
        gets. Raises StudyError, with one line for the user, for an option that makes no sense.
        """
        from analysis import standard_report
        from analysis.cells import Cells

        cells = Cells(results, options.get("baseline", ""))
        return standard_report.make_standard_report(cells, self.run_table(cells))

    def report_alone(self, options: Mapping[str, Any]) -> Report:
        """The report of an option that needs no results (`ReportOption.without_results`).

        Raises StudyError as `report` does.
        """
        raise NotImplementedError

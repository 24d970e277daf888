"""The contract between a study and the engine.

A study has factors, metrics, a workload, a judge and a report. The engine combines the levels of
the factors into cells and builds a testbed for each cell's spec. It runs the study's workload in
the testbed, has the results judged, and keeps one record per repetition. The engine uses nothing
else of a study.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from analysis.metrics import Metric, Stage
from measure import manifest, record
from measure.body import BodyUpgrades
from studies import load_study
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
    fixed_levels,
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
           "ReportOption", "Stage", "Study", "StudyError", "TestbedSpec", "chosen_cells",
           "fixed_levels"]


class Study:
    """Base class of studies, found by the instance `STUDY` in a study's folder.

    `inside` is the module that runs in the guest; it has a class `Workload` (measure.workload).
    `baseline` has the levels that differences refer to, by factor. The files in the study's folder
    `profiles/` define how much to measure, by name.
    """

    #: Name of the study's folder.
    id: ClassVar[str]
    #: Title in lists and reports.
    title: ClassVar[str]
    #: Reference of the paper that the study is about; "" if there is none.
    paper: ClassVar[str] = ""
    #: Version of the measurement, increased when results are no longer comparable.
    version: ClassVar[int] = 1
    factors: ClassVar[tuple[Factor, ...]]
    #: Metrics with one value per repetition.
    metrics: ClassVar[tuple[Metric, ...]]
    #: Parts of a repetition with their permitted share of waiting for the processor.
    stages: ClassVar[tuple[Stage, ...]] = ()
    baseline: ClassVar[Mapping[str, str]] = {}
    #: Digests of the baseline's levels. If a results folder lacks these levels, an equal level with
    #: another name is used.
    baseline_digests: ClassVar[Mapping[str, str]] = {}
    #: Lists in the body of a record: values within a repetition, and pairs of time (s) and value.
    distributions: ClassVar[tuple[Metric, ...]] = ()
    timelines: ClassVar[tuple[Metric, ...]] = ()
    #: Further options of `./qop report`.
    report_options: ClassVar[tuple[ReportOption, ...]] = ()
    #: Negative controls by name. A text describes a control that the workload implements.
    faults: ClassVar[Mapping[str, Fault | str]] = {}
    #: Settings of `./qop bench proof` for controls, as with --set.
    proof_sets: ClassVar[Mapping[str, str]] = {}
    #: Defaults of `./qop lab`.
    lab: ClassVar[Lab] = Lab()
    #: Page that shows and controls a running repetition; the name of its folder is a command.
    live: ClassVar[LivePage | None] = None
    #: Default clock of the study.
    clock: ClassVar[Clock] = "processor"
    #: Clocks on which the study's programs charge their work to the devices of their nodes.
    devices_by: ClassVar[Sequence[Clock]] = ()
    #: Class of the workload's settings.
    asked: ClassVar[type[Asked]] = Asked
    #: Class of the body of records (`measured` in a record).
    measured: ClassVar[type[BaseModel]]
    #: Upgrades for bodies of an earlier schema, by the schema that each reads (`measured` has a
    #: field with the alias "schema"). An upgrade returns a body of the next schema.
    upgrades: ClassVar[BodyUpgrades] = {}
    #: Upgrades for whole records and plans, from schemas that knew only this study.
    record_upgrades: ClassVar[Mapping[int, record.Upgrade]] = {}
    manifest_upgrades: ClassVar[Mapping[int, manifest.Upgrade]] = {}
    #: Module of the workload, such as "studies.qop2007.inside".
    inside: ClassVar[str]
    #: Secrets of the run that the judge needs, as "place.name"; they are kept with each record.
    judged_with: ClassVar[Sequence[str]] = ()
    #: Reason why records cannot be judged again from the kept files; "" if they can.
    not_redone: ClassVar[str] = ""

    def __reduce__(self) -> tuple[Callable[[str], Study], tuple[str]]:
        # A study is a singleton with an id; other processes load it by this id.
        return load_study, (self.id,)

    def find_fault(self, name: str | None) -> Fault | None:
        """Return a negative control by name.

        Args:
            name: Name of the control; None or "" for a run without a control.

        Returns:
            The control, or None without a name.

        Raises:
            StudyError: The study has no such control.
        """
        if not name:
            return None
        if name not in self.faults:
            raise StudyError(f"--fault {name}: {self.id} has no such negative control; "
                             + (f"choose from {', '.join(self.faults)}" if self.faults else
                                "it has none"))
        fault = self.faults[name]
        return Fault(fault) if isinstance(fault, str) else fault

    def level(self, factor: Factor, name: str, entry: manifest.LevelRecord) -> Level:
        """Restore a level from a results folder, with the data that the judge needs.

        By default, the factor's own level of this name must be equal. A study whose users supply
        levels restores them from their content.

        Args:
            factor: Factor of the level.
            name: Id of the level.
            entry: The level as stored in the manifest.

        Returns:
            The level with its `value`.

        Raises:
            StudyError: The level differs from the stored one.
            LevelContentError: The stored content does not match its digest.
        """
        level = next(iter(factor.read([name], [])))
        if level.digest != entry.digest:
            raise StudyError(f"{factor.name} {name} is another one here than it was then")
        return level

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Generate all cells to measure, in the order of the factors.

        By default, these are all combinations.

        Args:
            levels: Chosen levels by factor.

        Yields:
            Cells with one level per factor.

        Raises:
            StudyError: No cell has the chosen levels.
        """
        for row in itertools.product(*levels.values()):
            yield Cell(dict(zip(levels, row, strict=True)))

    def testbed(self, cell: Cell, settings: Asked) -> TestbedSpec:
        """Return the spec of a cell's testbed.

        Args:
            cell: The cell to measure.
            settings: Settings of the workload.

        Returns:
            The requirements of the testbed. Cells with equal specs share one.

        Raises:
            StudyError: The cell cannot be measured with these settings.
        """
        raise NotImplementedError

    def task(self, cell: Cell, settings: Asked) -> Mapping[str, Any]:
        """Return the workload's task for one repetition.

        By default, it has the ids of the cell's levels and the settings.

        Args:
            cell: The cell to measure.
            settings: Settings of the workload.

        Returns:
            The task as plain data, which JSON can represent.
        """
        return {"cell": cell.ids, "asked": settings.model_dump(mode="json")}

    def unused_settings(self, cell: Cell, settings: Asked) -> Collection[str]:
        """Return the settings that affect a cell's testbed or task but not its results.

        A user's setting that has no effect in any cell is refused.

        Args:
            cell: The cell to measure.
            settings: Settings of the workload.

        Returns:
            Names of the settings.
        """
        return ()

    def warm_up(self, settings: Asked) -> Asked:
        """Return the settings of the unrecorded first repetition on a testbed.

        By default, they equal the settings of the other repetitions.

        Args:
            settings: Settings of the other repetitions.

        Returns:
            Settings of the study's class `settings`.
        """
        return settings

    def warm_up_cell(self, cells: Sequence[Cell]) -> Cell:
        """Return the cell of the unrecorded first repetition on a testbed.

        By default, this is the first cell.

        Args:
            cells: Cells that share the testbed.

        Returns:
            One of these cells.
        """
        return cells[0]

    def notes(self, cells: Sequence[Cell], settings: Asked) -> Sequence[str]:
        """Return notes on the measurement that the user sees before the run starts.

        Args:
            cells: All cells of the run.
            settings: Settings of the workload.

        Returns:
            The notes, one line each.
        """
        return ()

    def expected_cost(self, cell: Cell, settings: Asked) -> Expected:
        """Return the expected cost of one repetition of a cell.

        Args:
            cell: The cell to measure.
            settings: Settings of the workload.

        Returns:
            Time and processor time in s, and size of the captures in bytes.
        """
        return Expected()

    def deadline_s(self, cell: Cell, settings: Asked) -> float:
        """Return the longest permitted duration of a repetition (s).

        After the deadline, the guest counts as hung.

        Args:
            cell: The cell to measure.
            settings: Settings of the workload.

        Returns:
            The duration in s, without the time that the guest takes to answer.
        """
        return 60.0

    def check_clock(self, clock: Clock, settings: Asked) -> None:
        """Refuse settings that a clock cannot measure.

        Args:
            clock: Clock of the run.
            settings: Settings of the workload.

        Raises:
            StudyError: The clock cannot measure with these settings.
        """
        return

    def judge(self, repetition: Repetition) -> Judged:
        """Compute measured values and checks from captures and kernel state.

        The judge runs in a separate process while other repetitions are measured.

        Args:
            repetition: The cell, its settings and the folder of its files.

        Returns:
            The body of the record, with checks and the reason of a failure.

        Raises:
            MeasureError: The files cannot be interpreted.
            OSError: A file cannot be read.
        """
        raise NotImplementedError

    def required_metrics(self, cell: Cell, settings: Asked,
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that every good repetition of a cell has.

        By default, these are all metrics. A study whose cells have different metrics overrides this
        method. For example, a cell has a handoff time only if its scenario has a handoff. A
        repetition without a required metric fails, with the explanation in `Judged.causes`.

        Args:
            cell: The measured cell.
            settings: Settings of the workload.
            clock: Clock of the run; None if unknown.

        Returns:
            Metrics out of the study's `metrics`.
        """
        return self.metrics

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the values of a record in SI units, by name.

        By default, these are the numeric fields of the body.

        Args:
            measured: Body of the record, an instance of the study's `measured`.

        Returns:
            Values by name: those of all metrics, and possibly further ones.
        """
        return {name: value for name, value in measured
                if isinstance(value, int | float) and not isinstance(value, bool)}

    def made_up(self, cell: Cell, generator: np.random.Generator) -> Judged | None:
        """Return a synthetic result with the size and shape of a measured one.

        It serves benchmarks of programs that read records and says nothing about the cell.

        Args:
            cell: The cell of the result.
            generator: Source of random numbers.

        Returns:
            The result, or None if the study has none.
        """
        return None

    def impossible_values(self, measured: Any) -> str:
        """Describe impossible values in a record, in a few words.

        A record with impossible values is reported and excluded from all results.

        Args:
            measured: Body of the record, an instance of the study's `measured`.

        Returns:
            The description; "" if all values are possible.
        """
        return ""

    def samples(self, measured: Any) -> Mapping[str, Sequence[float]]:
        """Return the values within a repetition, by the names of `distributions`.

        By default, these are the fields with the names of the distributions.

        Args:
            measured: Body of the record, an instance of the study's `measured`.

        Returns:
            Lists of values in SI units, by name.
        """
        return {metric.name: getattr(measured, metric.name, None) or ()
                for metric in self.distributions}

    def series(self, measured: Any) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return the values over the time of a repetition, by the names of `timelines`.

        By default, these are the fields with the names of the timelines.

        Args:
            measured: Body of the record, an instance of the study's `measured`.

        Returns:
            Lists of pairs by name, each with a time (s) and a value in SI units.
        """
        return {metric.name: getattr(measured, metric.name, None) or ()
                for metric in self.timelines}

    def parts(self, cells: Cells) -> Sequence[MetricPart]:
        """Return further parts of metrics for the comparison of real and virtual time.

        Args:
            cells: Cells with their results.

        Returns:
            The parts; by default none.
        """
        return ()

    def queueing_model(self, results: Results) -> Model | None:
        """Return a queueing model of the results, with the measurements.

        Args:
            results: Records of the results folder.

        Returns:
            The model; None if the study has none.

        Raises:
            QueueingError: The results do not suffice for its calibration.
        """
        return None

    def run_table(self, cells: Cells) -> Table:
        """Return the table of the run.

        By default, the table has no further columns of the study.

        Args:
            cells: Cells with their results.

        Returns:
            The table.
        """
        from analysis import run_table

        return run_table.make_run_table(cells)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Return tables, figures and claims for a results folder.

        By default, this is the standard report of all studies.

        Args:
            results: Records of the results folder.
            options: `baseline` and the study's report options, by their keys.

        Returns:
            The report.

        Raises:
            StudyError: An option has an invalid value; the text is one line for the user.
        """
        from analysis import standard_report
        from analysis.cells import Cells

        cells = Cells(results, options.get("baseline", ""))
        return standard_report.make_standard_report(cells, self.run_table(cells))

    def report_alone(self, options: Mapping[str, Any]) -> Report:
        """Return the report of an option that needs no results folder.

        Such an option has `ReportOption.without_results`.

        Args:
            options: The study's report options, by their keys.

        Returns:
            The report.

        Raises:
            StudyError: An option has an invalid value; the text is one line for the user.
        """
        raise NotImplementedError

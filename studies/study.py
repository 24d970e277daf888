"""Define the class `Study`, the interface between a study and the engine that measures it.

A study has factors, metrics, a workload, a judge (evaluation) and a report. The engine combines the
levels (values) of the factors into cells, and starts a testbed (emulated network) for each. It runs
the study's workload there, lets the study evaluate the files, and keeps one record per repetition
(measurement of a cell). The engine uses nothing else of a study. `judge_repetition` evaluates one
repetition with any study.
"""

from __future__ import annotations

import importlib
import itertools
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from analysis.metrics import Metric, Stage
from measure.records import manifest
from measure.records.record import BodyUpgrades
from studies.contract import (
    USED_FILE,
    Bytes,
    Cell,
    Clock,
    DoctorTrial,
    ExpectedCost,
    Factor,
    Fault,
    Judgement,
    LabDefaults,
    Level,
    LevelContentError,
    LevelError,
    LivePage,
    Repetition,
    ReportOption,
    Settings,
    StudyError,
    TestbedSpec,
    build_chosen_cells,
    fixed_levels,
)

if TYPE_CHECKING:
    import numpy as np

    from analysis.cells import Cells
    from analysis.present.report import Report
    from analysis.queueing import Model
    from analysis.reporting.clock_comparison import MetricPart
    from analysis.results import Results
    from analysis.table import Table


__all__ = [
    "USED_FILE",
    "Bytes",
    "Cell",
    "Clock",
    "DoctorTrial",
    "ExpectedCost",
    "Factor",
    "Fault",
    "Judgement",
    "LabDefaults",
    "Level",
    "LevelContentError",
    "LevelError",
    "LivePage",
    "Metric",
    "Repetition",
    "ReportOption",
    "Settings",
    "Stage",
    "Study",
    "StudyError",
    "TestbedSpec",
    "build_chosen_cells",
    "fixed_levels",
]


def _load_study(study_id: str) -> Study:
    """Return the study with an id, in a process that unpickles it."""
    study: Study = importlib.import_module(f"studies.{study_id}.study").STUDY
    return study


class Study:
    """A base class of studies. The instance `STUDY` in a study's `study.py` is used.

    `workload_module` is the module that runs in the guest. It has a class `Workload`
    (measure.agent.workload). `baseline` has the levels that differences refer to, by factor. The
    files in the study's folder `profiles/` define how much to measure, by name.
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
    lab: ClassVar[LabDefaults] = LabDefaults()
    #: Repetition that `./qop doctor` measures, if the study offers one.
    trial: ClassVar[DoctorTrial | None] = None
    #: Page that shows and controls a running repetition; the name of its folder is a command.
    live: ClassVar[LivePage | None] = None
    #: Default clock of the study.
    clock: ClassVar[Clock] = "processor"
    #: Clocks on which the study's programs charge their work to the devices of their nodes.
    devices_by: ClassVar[Sequence[Clock]] = ()
    #: Whether the report has claims that are judged with the looks of a sequential design
    #: (`Results.planned_looks`), so that `--until-decided` can go on until they are decided.
    judges_claims: ClassVar[bool] = False
    #: Class of the workload's settings.
    settings_type: ClassVar[type[Settings]] = Settings
    #: Class of the body of records (`measurements_type` in a record).
    measurements_type: ClassVar[type[BaseModel]]
    #: Upgrades for bodies of an earlier schema, by the schema that each reads (`measurements_type`
    #: has a field with the alias "schema"). An upgrade returns a body of the next schema.
    upgrades: ClassVar[BodyUpgrades] = {}
    #: Module of the workload, such as "studies.qop2007.workload".
    workload_module: ClassVar[str]
    #: Secrets of the run that the judge needs, as "place.name"; they are kept with each record.
    judged_with: ClassVar[Sequence[str]] = ()
    #: Reason why records cannot be judged again from the kept files; "" if they can.
    not_redone: ClassVar[str] = ""

    def __reduce__(self) -> tuple[Callable[[str], Study], tuple[str]]:
        # A study is a singleton with an id; other processes load it by this id.
        return _load_study, (self.id,)

    def find_fault(self, name: str | None) -> Fault | None:
        """Return an injected fault (negative control) by name.

        Args:
            name: name of the fault. None or "" for a run without one.

        Returns:
            The fault, or None without a name.

        Raises:
            StudyError: the study has no such fault.
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
        """Restore a level (value of a factor) from a results folder, with its `value`.

        By default, the factor's own level of this name must be equal. A study whose users supply
        levels restores them from their content.

        Args:
            factor: factor of the level.
            name: id of the level.
            entry: the level as stored in the plan.

        Returns:
            The level with its `value`.

        Raises:
            StudyError: the level differs from the stored one.
            LevelContentError: the stored content does not match its digest.
        """
        level = next(iter(factor.read([name], [])))
        if level.digest != entry.digest:
            raise StudyError(f"{factor.name} {name} is another one here than it was then")
        return level

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Yield all cells (combinations of levels) to measure, in the order of the factors.

        By default, these are all combinations.

        Args:
            levels: chosen levels by factor.

        Yields:
            Cells with one level per factor.

        Raises:
            StudyError: no cell has the chosen levels.
        """
        for row in itertools.product(*levels.values()):
            yield Cell(dict(zip(levels, row, strict=True)))

    def testbed(self, cell: Cell, settings: Settings) -> TestbedSpec:
        """Describe the testbed that a cell needs.

        Args:
            cell: the combination of levels to measure.
            settings: settings of the workload.

        Returns:
            The requirements of the testbed. Cells with equal requirements share one.

        Raises:
            StudyError: the cell cannot be measured with these settings.
        """
        raise NotImplementedError

    def task(self, cell: Cell, settings: Settings) -> Mapping[str, Any]:
        """Return the instructions (task) for one repetition, which the workload gets.

        By default, they have the ids of the cell's levels and the settings.

        Args:
            cell: the combination of levels to measure.
            settings: settings of the workload.

        Returns:
            Plain data, which JSON can represent.
        """
        return {"cell": cell.ids, "asked": settings.model_dump(mode="json")}

    def unused_settings(self, cell: Cell, settings: Settings) -> Collection[str]:
        """Return the settings that do not affect the results of a cell.

        A user's setting that has no effect in any cell is refused.

        Args:
            cell: the combination of levels to measure.
            settings: settings of the workload.

        Returns:
            Names of the settings.
        """
        return ()

    def warm_up(self, settings: Settings) -> Settings:
        """Return the settings of the first repetition on a testbed, which is not recorded.

        By default, they equal the settings of the other repetitions.

        Args:
            settings: settings of the other repetitions.

        Returns:
            Settings of the study's class `settings`.
        """
        return settings

    def warm_up_cell(self, cells: Sequence[Cell]) -> Cell:
        """Return the cell of the first repetition on a testbed, which is not recorded.

        By default, this is the first cell.

        Args:
            cells: cells (combinations of levels) that share the testbed.

        Returns:
            One of these cells.
        """
        return cells[0]

    def notes(self, cells: Sequence[Cell], settings: Settings) -> Sequence[str]:
        """Return notes on the measurement that the user sees before the run starts.

        Args:
            cells: all cells (combinations of levels) of the run.
            settings: settings of the workload.

        Returns:
            The notes, one line each.
        """
        return ()

    def expected_cost(self, cell: Cell, settings: Settings) -> ExpectedCost:
        """Estimate the cost of one repetition of a cell, before it is measured.

        Args:
            cell: the combination of levels to measure.
            settings: settings of the workload.

        Returns:
            Duration and CPU time in s, and size of the captures in bytes.
        """
        return ExpectedCost()

    def deadline_s(self, cell: Cell, settings: Settings) -> float:
        """Return the longest permitted duration of a repetition (s).

        After that time, the guest counts as hung.

        Args:
            cell: the combination of levels to measure.
            settings: settings of the workload.

        Returns:
            The duration in s, without the time that the guest takes to answer.
        """
        return 60.0

    def check_clock(self, clock: Clock, settings: Settings) -> None:
        """Refuse settings that the run's clock (real, virtual or processor) cannot measure.

        Args:
            clock: clock of the run.
            settings: settings of the workload.

        Raises:
            StudyError: the clock cannot measure with these settings.
        """
        return

    def judge(self, repetition: Repetition) -> Judgement:
        """Evaluate one repetition: compute measured values and checks from captures and logs.

        This runs in a separate process while other repetitions are measured.

        Args:
            repetition: the cell, its settings and the folder of its files.

        Returns:
            The measured values, with checks and the reason of a failure.

        Raises:
            MeasureError: the files cannot be interpreted.
            OSError: a file cannot be read.
        """
        raise NotImplementedError

    def required_metrics(self, cell: Cell, settings: Settings,
                         clock: Clock | None) -> Sequence[Metric]:
        """Return the metrics that every repetition of a cell has if its status is `ok`.

        By default, these are all metrics. A study whose cells have different metrics overrides this
        method. For example, a cell has a handoff time only if its scenario has a handoff. A
        repetition without a required metric fails, with the explanation in `Judgement.causes`.

        Args:
            cell: the measured combination of levels.
            settings: settings of the workload.
            clock: clock of the run, or None if unknown.

        Returns:
            Metrics out of the study's `metrics`.
        """
        return self.metrics

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """Return the measured values of a repetition in SI units, by name.

        By default, these are the numeric fields of its record.

        Args:
            measured: the measured values, an instance of the study's `measurements_type`.

        Returns:
            Values by name: those of all metrics, and possibly further ones.
        """
        return {name: value for name, value in measured
                if isinstance(value, int | float) and not isinstance(value, bool)}

    def make_synthetic_outcome(self, cell: Cell,
                               generator: np.random.Generator) -> Judgement | None:
        """Return an invented result with the size and shape of a measured one.

        It is for benchmarks of programs that read records, and says nothing about the cell.

        Args:
            cell: the combination of levels of the result.
            generator: source of random numbers.

        Returns:
            The result, or None if the study has none.
        """
        return None

    def impossible_values(self, measured: Any) -> str:
        """Describe impossible measured values, in a few words.

        A record with impossible values is reported and excluded from all results.

        Args:
            measured: the measured values, an instance of the study's `measurements_type`.

        Returns:
            The description, or "" if all values are possible.
        """
        return ""

    def samples(self, measured: Any) -> Mapping[str, Sequence[float]]:
        """Return lists of values within a repetition, by the names of `distributions`.

        By default, these are the fields with the names of the distributions.

        Args:
            measured: the measured values, an instance of the study's `measurements_type`.

        Returns:
            Lists of values in SI units, by name.
        """
        return {metric.name: getattr(measured, metric.name, None) or ()
                for metric in self.distributions}

    def series(self, measured: Any) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return values over the time of a repetition, by the names of `timelines`.

        By default, these are the fields with the names of the timelines.

        Args:
            measured: the measured values, an instance of the study's `measurements_type`.

        Returns:
            Lists of pairs by name, each with a time (s) and a value in SI units.
        """
        return {metric.name: getattr(measured, metric.name, None) or ()
                for metric in self.timelines}

    def parts(self, cells: Cells) -> Sequence[MetricPart]:
        """Return further parts of metrics, for the comparison of real and virtual time.

        Args:
            cells: cells (combinations of levels) with their results.

        Returns:
            The parts. By default there are none.
        """
        return ()

    def queueing_model(self, results: Results) -> Model | None:
        """Return a queueing model of the results, with the measurements.

        Args:
            results: records of the results folder.

        Returns:
            The model, or None if the study has none.

        Raises:
            QueueingError: measurements that the model needs are missing.
        """
        return None

    def run_table(self, cells: Cells) -> Table:
        """Build the table of a run's results.

        By default, the table has no columns of the study's own.

        Args:
            cells: cells (combinations of levels) with their results.
        """
        from analysis.reporting import run_table

        return run_table.make_run_table(cells)

    def report(self, results: Results, options: Mapping[str, Any]) -> Report:
        """Build the report of a results folder: tables, figures and claims.

        By default, this is the standard report of all studies.

        Args:
            results: records of the results folder.
            options: `baseline` and the study's report options, by their keys.

        Raises:
            StudyError: an option has an invalid value. The text is one line for the user.
        """
        from analysis.cells import Cells
        from analysis.reporting import standard_report

        cells = Cells(results, options.get("baseline", ""))
        return standard_report.make_standard_report(cells, self.run_table(cells))

    def report_alone(self, options: Mapping[str, Any]) -> Report:
        """Build the report of an option that needs no results folder.

        Such an option has `ReportOption.without_results`.

        Args:
            options: the study's report options, by their keys.

        Raises:
            StudyError: an option has an invalid value. The text is one line for the user.
        """
        raise NotImplementedError


# --- Check of required metrics ---
# A repetition that lacks one fails, whatever its judge returns.

#: File in a repetition's folder with the raw values of its workload, written by the worker.
RAW_FILE = "raw.json"
_NO_CAUSE = "nothing that the repetition left has a value for it"


def judge_repetition(study: Study, repetition: Repetition) -> Judgement:
    """Evaluate a repetition, and let it fail by its daemons or if a required metric is missing.

    With an injected fault no metric is required, because the fault may suppress metrics.

    Args:
        study: the study of the repetition.
        repetition: the repetition to evaluate.

    Returns:
        The result of the study's evaluation, "failed" if a required metric is missing.

    Raises:
        Exception: any exception of the study's own code.
    """
    verdict = _add_release_check(study.judge(repetition), repetition)
    if verdict.status != "ok" or repetition.fault:
        return verdict
    return replace(verdict, reason="; ".join(_missing_metrics(study, repetition, verdict)))


def _add_release_check(verdict: Judgement, repetition: Repetition) -> Judgement:
    """Return an evaluation with the check that the daemons are of the chosen release.

    An evaluation without checks, such as that of an aborted repetition, is unchanged.
    """
    from measure.checks.release import check_release
    from measure.records.judgement import failure_reasons

    if not verdict.evidence:
        return verdict
    try:
        raw = json.loads((repetition.out / RAW_FILE).read_text())
    except (OSError, ValueError):
        return verdict
    check = check_release(raw)
    if check is None:
        return verdict
    reasons = [*([verdict.reason] if verdict.reason else []), *failure_reasons([check])]
    return replace(verdict, evidence=[*verdict.evidence, check], reason="; ".join(reasons))


def _missing_metrics(study: Study, repetition: Repetition, verdict: Judgement) -> Iterator[str]:
    """Yield a reason for each required metric that is absent, null or no finite number."""
    try:
        row: Mapping[str, Any] = {} if verdict.measured is None else study.values(verdict.measured)
    except Exception as error:  # noqa: BLE001 - a study's own code may raise anything
        yield f"not measured: the study cannot say what its values are ({error!r})"
        return
    for metric in study.required_metrics(repetition.cell, repetition.settings, repetition.clock):
        if not is_measured(row.get(metric.name)):
            yield f"not measured: {metric.title} ({verdict.causes.get(metric.name, _NO_CAUSE)})"


def is_measured(value: object) -> bool:
    """Return whether a value is a finite number."""
    return (isinstance(value, int | float) and not isinstance(value, bool)
            and math.isfinite(value))

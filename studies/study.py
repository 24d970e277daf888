"""A study is what the engine is handed: factors, metrics, a workload, a judge and a report.

The engine crosses the levels of the factors into cells, builds a testbed for each cell's spec, has
the study's workload measured in it, has what it left behind judged, and keeps one record a
repetition. It knows of a study what stands here and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from analysis.metrics import Metric as Metric  # noqa: PLC0414 # handed on to studies
from analysis.metrics import Stage as Stage  # noqa: PLC0414 # likewise
from measure.record import CheckRecord
from policies import Policy
from studies import load
from studies.units import Bytes
from topologies.model import Medium, Network

if TYPE_CHECKING:
    from analysis.cells import Cells
    from analysis.clock_comparison import Part
    from analysis.present.report import Report
    from analysis.results import Results
    from analysis.table import Table


__all__ = ["Asked", "Bytes", "Cell", "Expected", "Factor", "Judged", "Lab", "Level", "Metric",
           "Repetition", "ReportOption", "Stage", "Study", "StudyError", "TestbedSpec", "fixed"]


class StudyError(ValueError):
    """Something that a user asked of a study and that it does not have; one line for the user."""


@dataclass(frozen=True)
class Level:
    """One value of a factor.

    `id` is part of the names of records; `number` places it on an axis where the factor is numeric.
    `value` is the object that the study works with (a policy, a scenario); it never leaves the
    process. `content` is what a results folder keeps of it, so that a report needs no other source,
    and `digest` says whether two levels of one id are the same.
    """

    id: str
    title: str = ""
    number: float | None = None
    value: Any = None
    content: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True)
class Factor:
    """What a study varies.

    `read` gives the levels of a selection: of names (none: the study's own choice) and of files of
    the user's; it raises StudyError for a level that there is not (`fixed` makes one of a list).
    `option` names the command line's option for the names and `file_option` that for files, both
    beside `--only NAME=LEVELS`.
    """

    name: str
    title: str
    read: Callable[[Sequence[str], Sequence[Path]], Sequence[Level]]
    is_number: bool = False
    unit: str = ""
    plural: str = ""
    option: str = ""
    file_option: str = ""
    help: str = ""
    file_help: str = ""

    def counted(self, count: int) -> str:
        """So many of its levels, in words."""
        one = self.title.lower()
        return f"{count} {one if count == 1 else self.plural or one + 's'}"


def fixed(levels: Sequence[Level]) -> Callable[[Sequence[str], Sequence[Path]], Sequence[Level]]:
    """What reads a factor whose levels are these and no others."""
    def read(names: Sequence[str], files: Sequence[Path]) -> Sequence[Level]:
        known = {level.id: level for level in levels}
        for name in (*names, *map(str, files)):
            if name not in known:
                raise StudyError(f"{name}: no such level; choose from {', '.join(known)}")
        return [known[name] for name in names] or list(levels)
    return read


@dataclass(frozen=True)
class TestbedSpec:
    """What must stand before a cell can be measured; cells of equal specs share a testbed.

    `policy` is rendered by Ansible for every node by its duties; None renders nothing. `options`
    are plain data for the workload, the same for all cells of the testbed. `devices` are ids of
    devices by node. `packages` names one of the variants of the machine that the study's
    packages.yml declares (studies.packages); "" is the machine as all studies have it.
    """

    network: Network
    policy: Policy | None = None
    medium: Medium | None = None
    devices: Mapping[str, str] = field(default_factory=dict)
    packages: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def joined(self, other: TestbedSpec) -> TestbedSpec | None:
        """One spec that serves both, on the union of their networks; None where they differ."""
        if replace(self, network=other.network) != other:
            return None
        network = self.network.joined(other.network)
        return None if network is None else replace(self, network=network)


@dataclass(frozen=True)
class Cell:
    """One level of each factor, by the factor's name, in the study's order of factors."""

    levels: Mapping[str, Level]

    @property
    def ids(self) -> dict[str, str]:
        """The level's id of each factor."""
        return {name: level.id for name, level in self.levels.items()}

    @property
    def name(self) -> str:
        """The ids joined, as in the names of records, folders and logs."""
        return "-".join(self.ids.values())

    def value(self, factor: str) -> Any:
        """The object behind the level of a factor."""
        return self.levels[factor].value


@dataclass(frozen=True)
class ReportOption:
    """An option of `./qop report` that a study brings, as `name`; its report gets it as `key`.

    `metavar` stands for its value in the help; a flag has none. With `instead`, the study's report
    is another one, of which a results folder is no part if it is `without_results`.
    """

    name: str
    help: str
    metavar: str = ""
    is_file: bool = False
    multiple: bool = False
    instead: bool = False
    without_results: bool = False

    @property
    def is_flag(self) -> bool:
        """Whether it is on or off."""
        return not self.metavar

    @property
    def key(self) -> str:
        """What the option is called in Python."""
        return self.name.lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class Expected:
    """What a repetition is expected to take: waiting and computing (s), and its captures (bytes).

    Good for an order and for a word to the user; a run's own progress corrects it.
    """

    duration_s: float = 1.0
    processor_s: float = 1.0
    capture_bytes: float = 0.0


@dataclass(frozen=True)
class Repetition:
    """What is judged: a cell, what was asked of it, and the folder that its workload left behind.

    `secrets` are those of the run, by place and name.
    """

    cell: Cell
    asked: Asked
    out: Path
    secrets: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Judged:
    """What a repetition came to: the body of its record, its evidence, and why it fails if it does.

    A `reason` makes it failed (or `skipped`, where what it needs is not to be had). `captures`
    describes the capture files; `files` names others in the repetition's folder that are kept
    with the record, in `files/NAME/`.
    """

    measured: BaseModel | None
    evidence: Sequence[CheckRecord] = ()
    reason: str = ""
    status: Literal["ok", "failed", "skipped"] = "ok"
    captures: Sequence[Mapping[str, Any]] = ()
    files: Sequence[str] = ()
    elapsed_s: float = 0.0
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Lab:
    """How `qop lab` brings up a testbed of a study, to look around in it.

    `levels` are those that it takes of factors unless others are asked for (the first, if none is
    named here), `node` the name of the node that it opens a shell on; `call` is a command of the
    workload's, given a task, that brings it up.
    """

    levels: Mapping[str, str] = field(default_factory=dict)
    node: Callable[[Cell], str] = field(default=lambda _: "")
    call: str = ""


class Asked(BaseModel):
    """Settings of a workload; a study's own class adds its fields.

    Profiles and `--set KEY=VALUE` are validated against it, and every record keeps it. A field with
    `json_schema_extra={"option": "--name"}` has an option of its own on the command line; its
    description is the option's help.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def kept(self) -> dict[str, Any]:
        """What manifest and records keep of it: nothing that only this machine understands."""
        return self.model_dump(mode="json")


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
    #: Negative controls by name, each with what it spoils, in words for `--help`.
    faults: ClassVar[Mapping[str, str]] = {}
    lab: ClassVar[Lab] = Lab()
    asked: ClassVar[type[Asked]] = Asked
    measured: ClassVar[type[BaseModel]]
    inside: ClassVar[str]

    def __reduce__(self) -> tuple[Callable[[str], Study], tuple[str]]:
        # There is one of each, known by its id: other processes look it up.
        return load, (self.id,)

    def cells(self, levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
        """Every cell to be measured, in the order of the factors; by default all that there are."""
        for row in itertools.product(*levels.values()):
            yield Cell(dict(zip(levels, row, strict=True)))

    def testbed(self, cell: Cell, asked: Asked) -> TestbedSpec:
        """What must stand before a cell can be measured."""
        raise NotImplementedError

    def task(self, cell: Cell, asked: Asked) -> Mapping[str, Any]:
        """What the workload is told of one repetition, as plain data."""
        return {"cell": cell.ids, "asked": asked.model_dump(mode="json")}

    def warm_up(self, asked: Asked) -> Asked:
        """What an unrecorded first repetition on a testbed is asked for; by default the same."""
        return asked

    def expected(self, cell: Cell, asked: Asked) -> Expected:
        """About what one repetition of a cell takes."""
        return Expected()

    def deadline_s(self, cell: Cell, asked: Asked) -> float:
        """How long a repetition may last at most, beside what its machine may take to answer (s).

        After that, the machine counts as hung.
        """
        return 60.0

    def judge(self, repetition: Repetition) -> Judged:
        """Captures and kernel state to measured values and evidence. Raises MeasureError, OSError.

        Runs in a process of its own, beside what is being measured.
        """
        raise NotImplementedError

    def values(self, measured: Any) -> Mapping[str, float | int | str | None]:
        """One row of numbers (SI units, by name) of a record's body: its metrics and further ones.

        `measured` is an instance of the study's `measured`. By default its fields that are numbers.
        """
        return {name: value for name, value in measured
                if isinstance(value, int | float) and not isinstance(value, bool)}

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

    def parts(self, cells: Cells) -> Sequence[Part]:
        """Parts of metrics that real and virtual time are compared by, too."""
        return ()

    def run_table(self, cells: Cells) -> Table:
        """The run's table; by default of the metrics alone."""
        from analysis import run_table

        return run_table.table(cells)

    def report(self, results: Results | None, options: Mapping[str, Any]) -> Report:
        """Tables, figures and claims of a results folder, made of the toolkit's parts.

        `options` are `baseline` and the study's own, by their keys. `results` is None where one of
        them needs none. By default, what every study gets. Raises ValueError, with one line for
        the user, for an option that makes no sense.
        """
        from analysis import standard_report
        from analysis.cells import Cells

        if results is None:
            raise ValueError(f"the study {self.id} has no report without results")
        cells = Cells(results, options.get("baseline", ""))
        return standard_report.report(cells, self.run_table(cells))

"""Data types of a study, from levels and cells to judgements.

Studies import them from studies.study, which also has the contract.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from measure.manifest import Manifest
from measure.record import CheckRecord
from policies import Policy
from topologies.model import Medium, Network

#: Clock of a run.
Clock: TypeAlias = Literal["real", "virtual", "processor"]


class StudyError(ValueError):
    """A request that a study cannot fulfil.

    The text is one line for the user.
    """


class LevelError(StudyError):
    """An unknown level of a factor.

    The caller adds the name of the factor.
    """


class LevelContentError(StudyError):
    """A level in a results folder whose content does not match its digest."""


@dataclass(frozen=True)
class Level:
    """A value of a factor.

    `id` is part of the names of records. `title` is its text in tables. `number` is the position on
    an axis if the factor is numeric. `value` is the object that the study works with (a policy, a
    scenario). It never leaves the process. `content` is stored in the results folder, so that a
    report needs no other source. Two levels with one id are equal if their `digest` is equal.
    """

    id: str
    title: str = ""
    number: float | None = None
    value: Any = None
    content: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True)
class Factor:
    """A factor that a study varies.

    `read` returns the levels for names (none: the study's default) and for files of the user. It
    raises LevelError for an unknown level; `fixed_levels` creates such a function from a list.
    `plural` is the title's plural in counts, by default with an "s". `option` and `file_option` are
    command-line options for names and files, in addition to `--only NAME=LEVELS`. `help` and
    `file_help` are their help texts.
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

    def format_count(self, count: int) -> str:
        """Return a number of levels in words, such as "3 policies"."""
        singular = self.title.lower()
        return f"{count} {singular if count == 1 else self.plural or singular + 's'}"


def fixed_levels(levels: Sequence[Level]) -> Callable[[Sequence[str], Sequence[Path]],
                                                      Sequence[Level]]:
    """Return a reader for a factor with a fixed list of levels.

    The reader raises LevelError for a level that is not in the list.
    """
    def read(names: Sequence[str], files: Sequence[Path]) -> Sequence[Level]:
        known = {level.id: level for level in levels}
        for name in (*names, *map(str, files)):
            if name not in known:
                raise LevelError(f"{name}: no such level; choose from {', '.join(known)}")
        return [known[name] for name in names] or list(levels)
    return read


#: Name for every node of the network, in place of a node's name.
EVERY_NODE = "all"


@dataclass(frozen=True)
class TestbedSpec:
    """Requirements of a cell's testbed.

    Cells with equal specs share a testbed. `policy` is rendered by Ansible for every node according
    to its duties; None renders nothing. `options` are plain data for the workload, equal for all
    cells of the testbed. `devices` maps nodes to ids of devices; EVERY_NODE is the default of all
    other nodes. `packages` names a guest variant from the study's packages.yml (studies.packages);
    "" is the standard guest. `clocks` are the clocks that the testbed supports; if empty, all.
    `memory_mb` is the guest's memory in addition to that of its nodes (MB).
    """

    network: Network
    policy: Policy | None = None
    medium: Medium | None = None
    devices: Mapping[str, str] = field(default_factory=dict)
    packages: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    clocks: tuple[Clock, ...] = ()
    memory_mb: int = 0

    def joined_with(self, other: TestbedSpec) -> TestbedSpec | None:
        """Return one spec for two testbeds, on the union of their networks.

        Args:
            other: Spec of the other testbed.

        Returns:
            The joined spec with the larger `memory_mb`. None if other fields differ, or if the
            networks cannot be joined.
        """
        if replace(self, network=other.network, memory_mb=other.memory_mb) != other:
            return None
        network = self.network.merge_with(other.network)
        return None if network is None else replace(
            self, network=network, memory_mb=max(self.memory_mb, other.memory_mb))


@dataclass(frozen=True)
class Cell:
    """A combination of one level per factor, in the study's order of factors."""

    levels: Mapping[str, Level]

    @property
    def ids(self) -> dict[str, str]:
        """Return the ids of the levels, by factor."""
        return {name: level.id for name, level in self.levels.items()}

    @property
    def name(self) -> str:
        """Return the joined ids.

        They are part of the names of records, folders and logs.
        """
        return "-".join(self.ids.values())

    def value(self, factor: str) -> Any:
        """Return the object of a factor's level, such as the policy (`Level.value`)."""
        return self.levels[factor].value


def chosen_cells(names: Sequence[str], rows: Iterable[tuple[str, ...]],
                 levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Return a design's cells for the chosen levels, without duplicates.

    Args:
        names: Names of the factors, in the order of the ids in `rows`.
        rows: Level ids of the design's cells.
        levels: Chosen levels by factor.
    """
    by_id = {name: {level.id: level for level in levels[name]} for name in names}
    for row in dict.fromkeys(rows):
        if all(level in by_id[name] for name, level in zip(names, row, strict=True)):
            yield Cell({name: by_id[name][level] for name, level in zip(names, row, strict=True)})


@dataclass(frozen=True)
class ReportOption:
    """An option that a study adds to `./qop report`.

    The report gets it as `key`. `metavar` is the placeholder of its value in the help; a flag has
    none. With `instead`, the option selects another report of the study. That report needs no
    results folder if `without_results`. `unused` names the options that have no effect on it.
    """

    name: str
    help: str
    metavar: str = ""
    is_file: bool = False
    multiple: bool = False
    instead: bool = False
    without_results: bool = False
    unused: tuple[str, ...] = ()

    @property
    def is_flag(self) -> bool:
        """Return whether the option takes no value."""
        return not self.metavar

    @property
    def key(self) -> str:
        """Return the option's name in Python."""
        return self.name.lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class Expected:
    """Expected cost of a repetition: time and processor time (s), captures (bytes).

    The values order the work and inform the user. A run corrects them by its own progress.
    """

    duration_s: float = 1.0
    processor_s: float = 1.0
    capture_bytes: float = 0.0


@dataclass(frozen=True)
class Fault:
    """A negative control and its implementation.

    `title` describes it in `--help`. `secrets` replaces secrets of the run (harness.secrets), by
    "place.name"; "" stands for a new random value of equal length. `withhold` names services that
    are not started. `policy` returns the changed policy that the nodes get; the original one is
    used to judge. If all three are missing, the workload implements the control and reads its name
    in `Site.fault`.

    `on` is a cell that shows the control, as levels by factor (an id, or a file of the project).
    `fails` lists the checks that fail there, while all others pass. Without `fails` nothing flows,
    and the repetition is aborted. `./qop bench proof` runs the controls that have a cell, with the
    study's `proof_sets` overridden by `sets`.
    """

    title: str
    secrets: Mapping[str, str] = field(default_factory=dict)
    withhold: Sequence[str] = ()
    policy: Callable[[Policy], Policy] | None = None
    on: Mapping[str, str] = field(default_factory=dict)
    fails: Sequence[str] = ()
    sets: Mapping[str, str] = field(default_factory=dict)


#: File in a repetition's folder with the processor time of its guest, written by the harness.
USED_FILE = "processor.json"


@dataclass(frozen=True)
class Repetition:
    """Input of a judge: cell, settings and the folder with the workload's files.

    `secrets` are those of the run, by place and name. `clock` is the clock of the run (None if
    unknown). `fault` is the name of the negative control, if any.
    """

    cell: Cell
    asked: Asked
    out: Path
    secrets: Mapping[str, Mapping[str, str]]
    clock: Clock | None = None
    fault: str = ""

    def processor_s(self, begins: str, ends: str) -> float | None:
        """Return the host's processor time (s) of the guest between two reports.

        A study whose judge calls this method keeps `USED_FILE` with the record.

        Args:
            begins: Name of the report at the begin.
            ends: Name of the report at the end.

        Returns:
            User and system time (s). None if the harness did not count it or does not know the
            reports.
        """
        try:
            used: dict[str, float] = json.loads((self.out / USED_FILE).read_text())
            return used[ends] - used[begins]
        except (OSError, ValueError, KeyError):
            return None


@dataclass(frozen=True)
class Judged:
    """Result of a judge: body of the record, checks and reason of a failure.

    `measured` is the body (None without results), `evidence` the checks. A `reason` makes the
    repetition failed (or `skipped`, if a requirement is not available). `captures` describes the
    capture files. `files` names other files of the repetition's folder to keep with the record, in
    `files/NAME/`. Only data files are permitted (.json, .csv, .txt, ...), no pages and no programs,
    which would be refused. `flags` are reasons to repeat the measurement without other load: the
    repetition was disturbed, but is not wrong (analysis.contention).
    `elapsed_s` is the duration of the repetition (s). `raw` has values of the workload that the
    record keeps. `causes` explains missing values, by metric.
    """

    measured: BaseModel | None
    evidence: Sequence[CheckRecord] = ()
    reason: str = ""
    status: Literal["ok", "failed", "skipped"] = "ok"
    captures: Sequence[Mapping[str, Any]] = ()
    files: Sequence[str] = ()
    flags: Sequence[str] = ()
    elapsed_s: float = 0.0
    raw: Mapping[str, Any] = field(default_factory=dict)
    causes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Lab:
    """Settings of `qop lab`, which starts a testbed of a study for interactive use.

    `levels` are default levels of factors; factors without one use those of the first cell. `node`
    returns the node to open a shell on. `call` is a command of the workload that sets up the
    testbed; it gets a task.
    """

    levels: Mapping[str, str] = field(default_factory=dict)
    node: Callable[[Cell], str] = field(default=lambda _: "")
    call: str = ""


@dataclass(frozen=True)
class LivePage:
    """A page on this host that shows and controls a running repetition of a study.

    `folder` is a folder of the study with `page.html` and its files. Its name is the name of the
    command. docs/architecture.md describes the messages to the page. `help` is the help in one
    line. `levels` and `sets` are default levels and settings. `stop` is the message that makes the
    workload end a repetition with a complete record. `fleeting` names reports of which a late
    viewer needs only the last minute.

    `about` returns the first message to the page, about a cell (levels by factor). `recorded`
    returns the reports of a recorded repetition, from a results folder and the repetition's name.
    It serves repetitions that could not be watched, and raises StudyError if too little was kept.
    """

    folder: Path
    help: str
    about: Callable[[Manifest, Mapping[str, str]], Mapping[str, Any]]
    recorded: Callable[[Path, str], Sequence[Mapping[str, Any]]]
    levels: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    stop: Mapping[str, Any] = field(default_factory=dict)
    fleeting: frozenset[str] = frozenset()


class Asked(BaseModel):
    """Settings of a workload.

    A study's subclass adds fields. Profiles and `--set KEY=VALUE` are validated against it, and
    every record keeps it. A field with `json_schema_extra={"option": "--name"}` has its own
    command-line option. The field's description is the option's help.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def option_of(cls, setting: str) -> str:
        """Return the command-line option of a setting, or "" if it has none."""
        extra = cls.model_fields[setting].json_schema_extra
        return str(extra.get("option", "")) if isinstance(extra, dict) else ""

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings for manifest and records, without values specific to this host."""
        return self.model_dump(mode="json")

"""What a study is made of and speaks in: levels, factors, cells, testbeds, what is judged.

Studies take these from studies.study, where the contract is.
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

#: How a machine's time may pass.
Clock: TypeAlias = Literal["real", "virtual", "processor"]


class StudyError(ValueError):
    """Something that a user asked of a study and that it does not have; one line for the user."""


class LevelError(StudyError):
    """A level that a factor does not have; whoever asked says of which factor."""


class LevelContentError(StudyError):
    """A level of a results folder whose content is not what its digest says."""


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
    the user's; it raises LevelError for a level that there is not (`fixed` makes one of a list).
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
        singular = self.title.lower()
        return f"{count} {singular if count == 1 else self.plural or singular + 's'}"


def fixed(levels: Sequence[Level]) -> Callable[[Sequence[str], Sequence[Path]], Sequence[Level]]:
    """What reads a factor whose levels are these and no others."""
    def read(names: Sequence[str], files: Sequence[Path]) -> Sequence[Level]:
        known = {level.id: level for level in levels}
        for name in (*names, *map(str, files)):
            if name not in known:
                raise LevelError(f"{name}: no such level; choose from {', '.join(known)}")
        return [known[name] for name in names] or list(levels)
    return read


#: In place of a node's name: every node of the network.
EVERY_NODE = "all"


@dataclass(frozen=True)
class TestbedSpec:
    """What must stand before a cell can be measured; cells of equal specs share a testbed.

    `policy` is rendered by Ansible for every node by its duties; None renders nothing. `options`
    are plain data for the workload, the same for all cells of the testbed. `devices` are ids of
    devices by node, under EVERY_NODE that of all nodes that have none of their own. `packages`
    names one of the variants of the machine that the study's packages.yml declares
    (studies.packages); "" is the machine as all studies have it. `clocks` are those that it can be
    measured by; without any, all. `memory_mb` is what a guest needs beside what its nodes take.
    """

    network: Network
    policy: Policy | None = None
    medium: Medium | None = None
    devices: Mapping[str, str] = field(default_factory=dict)
    packages: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    clocks: tuple[Clock, ...] = ()
    memory_mb: int = 0

    def joined(self, other: TestbedSpec) -> TestbedSpec | None:
        """One spec that serves both, on the union of their networks; None where they differ."""
        if replace(self, network=other.network, memory_mb=other.memory_mb) != other:
            return None
        network = self.network.merge_with(other.network)
        return None if network is None else replace(
            self, network=network, memory_mb=max(self.memory_mb, other.memory_mb))


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


def chosen_cells(names: Sequence[str], rows: Iterable[tuple[str, ...]],
                 levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """A design's cells of the levels that were chosen, each once.

    `rows` have an id for each factor of `names`.
    """
    by_id = {name: {level.id: level for level in levels[name]} for name in names}
    for row in dict.fromkeys(rows):
        if all(level in by_id[name] for name, level in zip(names, row, strict=True)):
            yield Cell({name: by_id[name][level] for name, level in zip(names, row, strict=True)})


@dataclass(frozen=True)
class ReportOption:
    """An option of `./qop report` that a study brings, as `name`; its report gets it as `key`.

    `metavar` stands for its value in the help; a flag has none. With `instead`, the study's report
    is another one, of which a results folder is no part if it is `without_results`. `unused` names
    the options that change nothing of that one.
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
class Fault:
    """A negative control, and what the engine does for it; `title` says so in words for `--help`.

    `secrets` are those of the run (harness.secrets) that become something else: by "place.name",
    each with its new value, or "" for a fresh one of the same length. `withhold` names services
    that are left out. `policy` makes another policy of the cell's, which is in force in its place
    and not judged by. With none of them, the workload does it, which hears of it by `Site.fault`.

    `on` is a cell that shows it, a level by factor (an id, or a file of the project's); `fails` are
    the checks that do not hold there, and all others do. Without any, nothing flows, and the
    repetition breaks off. `./qop bench proof` runs those that have a cell, with the study's
    `proof_sets`, and `sets` before them.
    """

    title: str
    secrets: Mapping[str, str] = field(default_factory=dict)
    withhold: Sequence[str] = ()
    policy: Callable[[Policy], Policy] | None = None
    on: Mapping[str, str] = field(default_factory=dict)
    fails: Sequence[str] = ()
    sets: Mapping[str, str] = field(default_factory=dict)


#: What the harness leaves in a repetition's folder of the processor time that its machine took.
USED_FILE = "processor.json"


@dataclass(frozen=True)
class Repetition:
    """What is judged: a cell, what was asked of it, and the folder that its workload left behind.

    `secrets` are those of the run, by place and name. `clock` is the one that it was measured by
    (None where nobody says), `fault` the negative control that was in force, if any.
    """

    cell: Cell
    asked: Asked
    out: Path
    secrets: Mapping[str, Mapping[str, str]]
    clock: Clock | None = None
    fault: str = ""

    def processor_s(self, begins: str, ends: str) -> float | None:
        """What its machine took of the host's processor (user and system) between two reports.

        None where the harness did not count, or does not know the reports. A study whose judge asks
        keeps `USED_FILE` with the record.
        """
        try:
            used: dict[str, float] = json.loads((self.out / USED_FILE).read_text())
            return used[ends] - used[begins]
        except (OSError, ValueError, KeyError):
            return None


@dataclass(frozen=True)
class Judged:
    """What a repetition came to: the body of its record, its evidence, and why it fails if it does.

    A `reason` makes it failed (or `skipped`, where what it needs is not to be had). `captures`
    describes the capture files; `files` names others in the repetition's folder that are kept
    with the record, in `files/NAME/`: data by their names (.json, .csv, .txt, ...), no pages and no
    programs, which nobody would take in. `flags` are words for why it should be measured once more,
    with nothing beside it: what disturbed it without making it wrong (analysis.contention).
    `causes` say why a metric has no value, by the metric's name.
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
    """How `qop lab` brings up a testbed of a study, to look around in it.

    `levels` are those that it takes of factors unless others are asked for (those of the first
    cell, if none is named here), `node` the name of the node that it opens a shell on; `call` is a
    command of the workload's, given a task, that brings it up.
    """

    levels: Mapping[str, str] = field(default_factory=dict)
    node: Callable[[Cell], str] = field(default=lambda _: "")
    call: str = ""


@dataclass(frozen=True)
class LivePage:
    """A page on this machine that shows a repetition of a study as it goes, and speaks to it.

    `folder`, a folder of the study's own, has `page.html` and what it loads; its name is that of
    the command (docs/architecture.md says what a page is told). `help` says in a line what it is
    for. `levels` and `sets` are what it measures unless the user asks for something else. `stop` is
    the message at which the workload ends a repetition with all that a record needs. `fleeting`
    names reports of which only the newest minute matters to who comes late. `about` is what a page
    is told of a cell (by factor) before anything else; `recorded` makes the reports of a recorded
    repetition, given a results folder and its name, where nobody could look on (StudyError where
    too little is kept).
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
    """Settings of a workload; a study's own class adds its fields.

    Profiles and `--set KEY=VALUE` are validated against it, and every record keeps it. A field with
    `json_schema_extra={"option": "--name"}` has an option of its own on the command line; its
    description is the option's help.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def option_of(cls, setting: str) -> str:
        """The command line's option of a setting; "" if it has none of its own."""
        extra = cls.model_fields[setting].json_schema_extra
        return str(extra.get("option", "")) if isinstance(extra, dict) else ""

    def to_stored_settings(self) -> dict[str, Any]:
        """What manifest and records keep of it: nothing that only this machine understands."""
        return self.model_dump(mode="json")

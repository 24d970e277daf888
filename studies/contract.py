"""Define the data types that every study uses, from factors and their values to results.

A study varies factors, such as the security policy. A level is one value of a factor. A cell is one
combination of levels that is measured, and a repetition is one measurement of it. A `Judgement` is
the result of its evaluation. A `Fault` is injected on purpose, so that checks must fail.

`studies/study.py` has the interface that uses these types. `parse_byte_size` parses sizes with
units, and `describe_refusal` describes wrong settings in one line.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from documents.refusals import describe_refused_value
from measure.records.manifest import Manifest
from measure.records.record import CheckRecord
from policies import Policy
from topologies.model import Medium, Network

#: Clock of a run.
Clock: TypeAlias = Literal["real", "virtual", "processor"]


class StudyError(ValueError):
    """A request that a study cannot fulfil. The text is one line for the user."""


class LevelError(StudyError):
    """An error: a factor has no level of this name.

    The caller adds the name of the factor.
    """


class LevelContentError(StudyError):
    """An error: the plan of a results folder has an altered level, such as a policy.

    A level is one value of a factor. Its content in plan.json does not match its digest there.
    """


@dataclass(frozen=True)
class Level:
    """A level: one value of a factor, such as policy P8.

    - `id`: name, also in file names
    - `title`: text in tables
    - `number`: position on an axis, if the factor is numeric
    - `value`: the object that the study works with, such as a policy. It never leaves the process.
    - `content`: data in the results folder, so that a report needs no other source
    - `digest`: two levels with one id are equal if their digests are equal
    """

    id: str
    title: str = ""
    number: float | None = None
    value: Any = None
    content: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True)
class Factor:
    """A factor that a study varies, such as the policy.

    - `read`: returns levels for names and for files of the user. Without
      names it returns the default levels. It raises LevelError for an unknown level. `fixed_levels`
      creates such a function from a list.
    - `plural`: plural of the title, by default with an "s"
    - `option`, `file_option`: command-line options for names and files, in addition to `--only
      NAME=LEVELS`
    - `help`, `file_help`: help texts of these options
    - `other_names`: further levels that `read` knows, which are not measured by default
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
    other_names: Sequence[str] = ()

    def format_count(self, count: int) -> str:
        """Return a number of levels in words, such as "3 policies"."""
        singular = self.title.lower()
        return f"{count} {singular if count == 1 else self.plural or singular + 's'}"


def fixed_levels(levels: Sequence[Level], default: Sequence[str] = ()
                 ) -> Callable[[Sequence[str], Sequence[Path]], Sequence[Level]]:
    """Return a reader for a factor whose levels are a fixed list.

    The reader raises LevelError for a level that is not in the list.

    Args:
        levels: The levels.
        default: Names of the levels to take if the user names none, all if empty.
    """
    def read(names: Sequence[str], files: Sequence[Path]) -> Sequence[Level]:
        known = {level.id: level for level in levels}
        for name in (*names, *map(str, files)):
            if name not in known:
                raise LevelError(f"{name}: no such level; choose from {', '.join(known)}")
        return [known[name] for name in names or default] or list(levels)
    return read


#: Name for every node of the network, in place of a node's name.
EVERY_NODE = "all"


@dataclass(frozen=True)
class TestbedSpec:
    """Requirements of a testbed, which is the emulated network of a cell.

    Cells with equal requirements share a testbed.

    - `policy`: rendered by Ansible for every node. None renders nothing.
    - `options`: plain data for the workload
    - `devices`: processor models by node. EVERY_NODE is the default of all other nodes.
    - `packages`: name of a guest variant in the study's packages.yml, "" for the standard guest
    - `clocks`: clocks that the testbed supports, all if empty
    - `memory_mb`: memory of the guest in addition to that of its nodes (MB)
    - `release`: suite of the guest's Debian release, "" for the one of the run
    """

    network: Network
    policy: Policy | None = None
    medium: Medium | None = None
    devices: Mapping[str, str] = field(default_factory=dict)
    packages: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    clocks: tuple[Clock, ...] = ()
    memory_mb: int = 0
    release: str = ""

    @property
    def image_name(self) -> str:
        """Return the name of the guest's image in this run: its packages, and its release."""
        return f"{self.packages}@{self.release}" if self.release else self.packages

    def joined_with(self, other: TestbedSpec) -> TestbedSpec | None:
        """Combine the requirements of two testbeds, so that both use the union of their networks.

        Args:
            other: requirements of the other testbed.

        Returns:
            The combined requirements with the larger `memory_mb`. None if other fields differ, or
            if the networks cannot be joined.
        """
        if replace(self, network=other.network, memory_mb=other.memory_mb) != other:
            return None
        link = self.policy.layers.link if self.policy else None
        if link and link.further_vlans and self.network != other.network:
            return None  # stations have them in the order of their own network
        network = self.network.merge_with(other.network)
        return None if network is None else replace(
            self, network=network, memory_mb=max(self.memory_mb, other.memory_mb))


@dataclass(frozen=True)
class Cell:
    """A cell: one level of each factor, in the study's order of factors."""

    levels: Mapping[str, Level]

    @property
    def ids(self) -> dict[str, str]:
        """Return the ids of the levels by factor, such as P8 for the policy."""
        return {name: level.id for name, level in self.levels.items()}

    @functools.cached_property
    def name(self) -> str:
        """Return the joined ids of the levels, such as `P8-N2`, for names of files and logs."""
        return "-".join(self.ids.values())

    def value(self, factor: str) -> Any:
        """Return the object that is the value of a factor in this cell, such as the policy."""
        return self.levels[factor].value


def build_chosen_cells(names: Sequence[str], rows: Iterable[tuple[str, ...]],
                       levels: Mapping[str, Sequence[Level]]) -> Iterator[Cell]:
    """Yield the cells of a study's design whose levels were chosen, each once.

    Args:
        names: names of the factors, in the order of the ids in `rows`.
        rows: ids of levels for each cell of the design.
        levels: chosen levels by factor.
    """
    by_id = {name: {level.id: level for level in levels[name]} for name in names}
    for row in dict.fromkeys(rows):
        if all(level in by_id[name] for name, level in zip(names, row, strict=True)):
            yield Cell({name: by_id[name][level] for name, level in zip(names, row, strict=True)})


@dataclass(frozen=True)
class ReportOption:
    """An option that a study adds to the command `./qop report`.

    The report gets its value as `key`. `metavar` is the placeholder of the value in the help. A
    flag has none. With `instead`, the option selects another report of the study. That report needs
    no results folder if `without_results`. `unused` names the options that have no effect on it.
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
class ExpectedCost:
    """Expected cost of a repetition: duration and CPU time (s), captures (bytes).

    The values order the work and inform the user. A run corrects them by its own progress.
    """

    duration_s: float = 1.0
    processor_s: float = 1.0
    capture_bytes: float = 0.0


@dataclass(frozen=True)
class Fault:
    """A fault that is injected on purpose (negative control), which checks must detect.

    - `title`: description for `--help`
    - `secrets`: secrets of the run to replace, by "place.name". "" stands for a new random value of
      equal length.
    - `withhold`: names of services that are not started
    - `policy`: returns the changed policy for the nodes. Checks use the original one.
    - `daemons`: Debian releases of daemons that are started in place of the guest's, by name
    - `on`: levels of the cell that shows the fault, by factor
    - `fails`: the checks that fail there, while all others pass. Without `fails` no traffic flows,
      and the repetition is aborted.
    - `sets`: settings for `./qop bench proof`, over the study's `proof_sets`

    Without `secrets`, `withhold`, `policy` and `daemons`, the workload injects the fault, by its
    name in `Site.fault`.
    """

    title: str
    secrets: Mapping[str, str] = field(default_factory=dict)
    withhold: Sequence[str] = ()
    policy: Callable[[Policy], Policy] | None = None
    on: Mapping[str, str] = field(default_factory=dict)
    fails: Sequence[str] = ()
    sets: Mapping[str, str] = field(default_factory=dict)
    daemons: Mapping[str, str] = field(default_factory=dict)


#: File in a repetition's folder with the processor time of its guest, written by the harness.
USED_FILE = "processor.json"


@dataclass(frozen=True)
class Repetition:
    """Input for the evaluation of one repetition: its cell, settings and folder of files.

    `secrets` are the run's secrets, by place and name. `clock` is the clock of the run (None if
    unknown). `fault` is the name of the injected fault, if any.
    """

    cell: Cell
    settings: Settings
    out: Path
    secrets: Mapping[str, Mapping[str, str]]
    clock: Clock | None = None
    fault: str = ""

    def processor_s(self, begins: str, ends: str) -> float | None:
        """Return the host's CPU time (s) for the guest between two reports of the workload.

        A study that calls this method keeps `USED_FILE` with the record.

        Args:
            begins: name of the report at the begin.
            ends: name of the report at the end.

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
class Judgement:
    """Result of the evaluation of a repetition: measured values, checks and reason of a failure.

    - `measured`: values that only this study has (None without results)
    - `evidence`: the checks
    - `reason`: why the repetition failed
    - `is_skipped`: the machine lacks a requirement of the repetition
    - `captures`: descriptions of the capture files
    - `files`: other files of the repetition's folder to keep with the record, in `files/NAME/`.
      Only data files are permitted (.json, .csv, .txt, ...), no pages and no programs.
    - `flags`: reasons to repeat the measurement without other load. The repetition was disturbed,
      but is not wrong.
    - `elapsed_s`: duration of the repetition (s)
    - `raw`: values of the workload that the record keeps
    - `causes`: explanations of missing values, by metric
    - `not_made`: checks that could not be made, because nothing captured the air
    """

    measured: BaseModel | None
    evidence: Sequence[CheckRecord] = ()
    reason: str = ""
    is_skipped: bool = False
    captures: Sequence[Mapping[str, Any]] = ()
    files: Sequence[str] = ()
    flags: Sequence[str] = ()
    elapsed_s: float = 0.0
    raw: Mapping[str, Any] = field(default_factory=dict)
    causes: Mapping[str, str] = field(default_factory=dict)
    not_made: Sequence[str] = ()

    @property
    def status(self) -> Literal["ok", "failed", "skipped"]:
        """Return the status of the repetition's record. No other code decides a status."""
        if self.is_skipped:
            return "skipped"
        return "failed" if self.reason else "ok"


@dataclass(frozen=True)
class LabDefaults:
    """Settings of `./qop lab`, which starts a testbed of a study for interactive use.

    `levels` are default values of factors. Factors without one use those of the first cell. `node`
    returns the node to open a shell on. `call` is a command of the workload that sets up the
    testbed, and gets a task.
    """

    levels: Mapping[str, str] = field(default_factory=dict)
    node: Callable[[Cell], str] = field(default=lambda _: "")
    call: str = ""


@dataclass(frozen=True)
class DoctorTrial:
    """A short repetition that `./qop doctor` measures to try this machine.

    `levels` and `settings` choose a small cell. `captures` are files of its folder that must have
    frames.
    """

    levels: Mapping[str, str]
    settings: Mapping[str, str]
    captures: Sequence[str]


@dataclass(frozen=True)
class LivePage:
    """A web page on this host that shows and controls a running repetition of a study.

    - `folder`: folder of the study with `page.html` and its files. Its name is also that of the
      command.
    - `help`: help text of the command, in one line
    - `levels`, `sets`: default levels and settings
    - `stop`: message that makes the workload end a repetition with a complete record
    - `fleeting`: names of reports of which a late viewer needs only the last minute
    - `about`: returns the first message to the page, about a cell
    - `recorded`: returns the reports of a recorded repetition. It raises StudyError if they are
      missing.

    docs/architecture.md describes the messages to the page.
    """

    folder: Path
    help: str
    about: Callable[[Manifest, Mapping[str, str]], Mapping[str, Any]]
    recorded: Callable[[Path, str], Sequence[Mapping[str, Any]]]
    levels: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    stop: Mapping[str, Any] = field(default_factory=dict)
    fleeting: frozenset[str] = frozenset()


class Settings(BaseModel):
    """Settings of a study's workload, such as the size of a stream.

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
        """Return the settings for plans and records, without values specific to this host."""
        return self.model_dump(mode="json")


# --- Values with units as users write them, for fields of a study's settings ---

_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def parse_byte_size(value: Any) -> Any:
    """Convert a size such as 500k, 1M or 16000000 to bytes.

    Units are decimal, as in network rates.

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+)([kmg]?)b?", value.strip().lower())
    if not match:
        raise ValueError(f"{value!r} is not a size; write 500k, 1M or 16M")
    return int(match[1]) * _FACTORS[match[2]]


#: Number of bytes; text such as 500k is converted.
Bytes = Annotated[int, BeforeValidator(parse_byte_size)]


# --- Descriptions of pydantic validation errors in files and settings ---

__all__ = ["describe_refusal", "describe_refused_value"]


def describe_refusal(error: ValidationError) -> str:
    """Describe the first wrong setting and what is wrong with it, in one line."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "[key]") or "top level"
    return f"{place}: {describe_refused_value(first)}"

"""What the worker is handed by a study: services to start, and how one repetition is measured.

Standard library only: this runs inside the machine, where start-up time counts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from measure.errors import MeasureError

if TYPE_CHECKING:  # the builder needs Mininet, which only the machine has
    from topologies.builder import Testbed
    from topologies.model import Network


@dataclass(frozen=True)
class Site:
    """Where a workload measures: the running testbed and what it was started with.

    `tasks` are those of every cell that this testbed serves, by the cell's name. `mount` has the
    rendered files of every node, `logs` takes the logs of daemons. `withhold` names services that
    are left out on purpose. `devices` are documents by node, for programs that charge their work.
    `fault` is the negative control that is asked for, "" without: a study's own are its workload's
    to do.
    """

    testbed: Testbed
    tasks: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, Any]
    secrets: Mapping[str, Mapping[str, str]]
    withhold: frozenset[str]
    mount: Path
    logs: Path
    clock: str = "real"
    devices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fault: str = ""

    @property
    def network(self) -> Network:
        """The network that the testbed was built from."""
        return self.testbed.network

    def having(self, file: str, duty: str = "") -> list[str]:
        """Nodes (of a duty) with a rendered file: a daemon runs where its file is, nowhere else."""
        nodes = self.network.of_duty(duty) if duty else self.network.nodes
        return [name for name in nodes if (self.mount / name / file).exists()]

    def run_folder(self, node: str) -> Path:
        """Where a node's daemons have their sockets; made if it is missing."""
        folder = self.mount / node / "run"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def log(self, program: str, node: str) -> Path:
        """The log of a program on a node."""
        return self.logs / f"{node}-{program}.log"


class Service(Protocol):
    """A daemon or a group of them on the nodes of a testbed.

    Services start in the order that `needs` asks for, all that can side by side; `stop` is called
    in reverse order on every way out, also after a start that failed.
    """

    name: str
    #: Names of services that must be ready before this one starts.
    needs: Sequence[str]

    def start(self) -> None:
        """Start it; return before it is ready where that takes time."""

    def ready(self) -> None:
        """Wait until it serves. Raises MeasureError with the daemon, the event and the log."""

    def stop(self) -> None:
        """End it and all that it started; safe at any time."""


class Session(Protocol):
    """The line to the harness while a repetition runs, and what the repetition leaves behind."""

    #: Becomes `raw.json`, however the repetition ends; plain JSON values only.
    raw: dict[str, Any]

    def stamp(self, name: str) -> None:
        """Note the machine's wall clock, which also stamps captures, in `raw["stamps"]`."""

    def before_timing(self) -> None:
        """Say that something is timed next: by the processor clock, company is divided out anew."""

    def report(self, name: str, **fields: Any) -> None:
        """Say something at once: a line in the repetition's events, with the machine's time."""

    def part(self, name: str) -> Session:
        """A session of its own within this one: what it leaves is in `raw["parts"]` by its name."""

    def shareable(self) -> None:
        """Say that from here on others may use the processor beside this repetition."""

    def commands(self) -> Iterator[Mapping[str, Any]]:
        """Commands that came in so far, without waiting; each is in the events with its time."""


class Workload(Protocol):
    """A study's own part inside the machine; its module has a class of this name.

    It is made with its `Site` once the policy's files are there.
    """

    #: Further commands by name: each takes a task and returns what is answered.
    calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]

    def __init__(self, site: Site) -> None:
        """Make it for one testbed; nothing runs yet."""

    def services(self) -> Sequence[Service]:
        """What must run before anything is measured."""

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """One repetition: leave captures in `out`, raw values in `session`. Raises MeasureError."""


def load(inside: str) -> type[Workload]:
    """A study's workload, by the module that has it; raises MeasureError, whatever it raises."""
    try:
        workload: type[Workload] = importlib.import_module(inside).Workload
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise MeasureError("testbed", f"{inside} cannot be loaded ({what}); correct the study") \
            from error
    return workload

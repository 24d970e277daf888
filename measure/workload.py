"""Interface between the worker and a study: services to start, and how to measure.

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
    """The running testbed of a workload, with everything the testbed was started with.

    - `tasks`: the tasks of all cells that this testbed serves, by the cell's name.
    - `options`, `secrets`: the run's options and keys.
    - `withhold`: names of services that are left out on purpose.
    - `mount`: folder with the rendered files of every node.
    - `logs`: folder for the daemons' logs.
    - `clock`: real, virtual or processor.
    - `devices`: device documents by node, for programs that charge their own work.
    - `fault`: the negative control, "" without one. The workload itself carries out a study's own
      fault.
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
        """Return the network that the testbed was built from."""
        return self.testbed.network

    def nodes_with_file(self, file: str, duty: str = "") -> list[str]:
        """Return the nodes (of a duty) that have a rendered file.

        A daemon runs exactly on the nodes that have its file.
        """
        nodes = self.network.of_duty(duty) if duty else self.network.nodes
        return [name for name in nodes if (self.mount / name / file).exists()]

    def run_folder(self, node: str) -> Path:
        """Return the folder of a node's sockets and create it if it is missing."""
        folder = self.mount / node / "run"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def log_path(self, program: str, node: str) -> Path:
        """Return the path of a program's log on a node."""
        return self.logs / f"{node}-{program}.log"


class Service(Protocol):
    """A daemon or a group of daemons on the nodes of a testbed.

    Services start in the order of `needs`, in parallel where possible. `stop` is called in reverse
    order on every exit, also after a failed start.
    """

    name: str
    #: Names of services that must be ready before this one starts.
    needs: Sequence[str]

    def start(self) -> None:
        """Start the service without waiting until it is ready, if that takes time."""

    def wait_ready(self) -> None:
        """Wait until the service is ready.

        Raises:
            MeasureError: The service is not ready in time; the text names daemon, event and log.
        """

    def stop(self) -> None:
        """End the service and all its processes.

        Safe to call at any time.
        """


class Session(Protocol):
    """A connection to the harness during a repetition, with the repetition's raw values."""

    #: Content of `raw.json`, written however the repetition ends; plain JSON values only.
    raw: dict[str, Any]

    def stamp(self, name: str) -> None:
        """Store the machine's wall-clock time in `raw["stamps"]`.

        Captures are stamped by this clock, too.

        Args:
            name: Key of the stamp.
        """

    def before_timing(self) -> None:
        """Announce that a timed part follows.

        By the processor clock, this measures the host load and scales the nodes' CPU factors.
        """

    def report(self, name: str, **fields: Any) -> None:
        """Send a report at once: a line in the repetition's events, with the machine's time.

        Args:
            name: Name of the report.
            fields: Further JSON values of the report.
        """

    def create_part(self, name: str) -> Session:
        """Return a session for one part of the repetition.

        Args:
            name: Key of the part's raw values in `raw["parts"]`.
        """

    def report_shareable(self) -> None:
        """Announce that other repetitions may use the processor from here on."""

    def take_commands(self) -> Iterator[Mapping[str, Any]]:
        """Yield the commands received so far, without waiting.

        Each command is in the events with its time.
        """


class Workload(Protocol):
    """A study's own part inside the machine.

    The study's module has a class of this name. It is created with its `Site` when the policy's
    files are in place.
    """

    #: Further commands by name. Each takes a task and returns the answer.
    calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]

    def __init__(self, site: Site) -> None:
        """Prepare the workload for one testbed, without starting anything."""

    def services(self) -> Sequence[Service]:
        """Return the services that must run before anything is measured."""

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Measure one repetition.

        Args:
            task: The task of the cell, as the study defined it.
            out: Folder for captures.
            session: Receives raw values, stamps and reports.

        Raises:
            MeasureError: The repetition failed; the record states the reason.
        """


def load_workload(inside: str) -> type[Workload]:
    """Import a study's module and return its `Workload` class.

    Raises:
        MeasureError: The import failed, by any exception.
    """
    try:
        workload: type[Workload] = importlib.import_module(inside).Workload
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise MeasureError("testbed", f"{inside} cannot be loaded ({what}); correct the study") \
            from error
    return workload

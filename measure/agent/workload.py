"""Define the interface by which a study runs daemons and measures inside a guest.

A guest is the virtual machine of an emulated network. Each study implements a `Workload`, which the
worker (`measure.agent.worker`) loads there. The workload gets the running network (`Site`: policy
files, secrets and settings). It lists the daemons to start (`Service`). Its method `measure` is
called once for each repetition (measurement) and stores time stamps and raw values in a `Session`.
Standard library only, because start-up time counts in the guest.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from measure.agent.errors import MeasureError

if TYPE_CHECKING:
    from topologies.builder import Testbed
    from topologies.model import Network


@dataclass(frozen=True)
class Site:
    """The running testbed of a workload, with all settings that it was started with.

    - `tasks`: what to measure in each cell (one policy in one scenario), by the cell's name.
    - `options`, `secrets`: the run's options and keys.
    - `withhold`: names of services that are left out on purpose.
    - `mount`: folder with the rendered files of every node.
    - `logs`: folder for the daemons' logs.
    - `clock`: how time passes: real, virtual (waiting is skipped) or processor (waiting is skipped,
      computing takes the CPU time that it used).
    - `devices`: processor models by node, for programs that add modelled CPU time themselves.
    - `fault`: the negative control (a deliberate fault), "" without one. The workload injects the
      faults of its study. The harness injects all others, by policy, secrets or withheld services.
    - `charge_library`: a library that is preloaded into daemons, and adds the modelled CPU time of
      their public-key operations. It is encoded in base 64, and "" if it could not be compiled.
    - `programs`: paths of the daemons that are started in place of the guest's, by name: those of
      another release, and the user's own.
    - `packages`: names of the Debian packages that the user's own versions replace.
    - `daemon_releases`: Debian release of each daemon that is not of the guest's release. A
      name such as "freeradius/openssl" is that of a daemon's OpenSSL alone.
    - `asked_releases`: the entries of the user's option `--daemon`, without those of a negative
      control.
    - `own_programs`: names of the daemons that the user's own programs replace.
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
    charge_library: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    packages: frozenset[str] = frozenset()
    daemon_releases: Mapping[str, str] = field(default_factory=dict)
    asked_releases: Mapping[str, str] = field(default_factory=dict)
    own_programs: frozenset[str] = frozenset()

    @property
    def network(self) -> Network:
        """Return the nodes and links from which the emulated network was built."""
        return self.testbed.network

    def nodes_with_file(self, file: str) -> list[str]:
        """Return the nodes for which a configuration file was rendered.

        A daemon runs exactly on the nodes that have its file.
        """
        return [name for name in self.network.nodes if (self.mount / name / file).exists()]

    def run_folder(self, node: str) -> Path:
        """Return the folder for the sockets of a node's daemons, created if it is missing."""
        folder = self.mount / node / "run"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def log_path(self, program: str, node: str) -> Path:
        """Return the path of the log file of a program on a node."""
        return self.logs / f"{node}-{program}.log"


class Service(Protocol):
    """A daemon, or a group of daemons, that runs on the nodes of a testbed.

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
    """A workload's connection to the harness during one repetition.

    It also stores the raw values of the repetition.
    """

    #: Content of `raw.json`, written however the repetition ends; plain JSON values only.
    raw: dict[str, Any]

    def stamp(self, name: str) -> None:
        """Store the present wall-clock time under a name, in `raw["stamps"]`.

        Captures are stamped by this clock, too.

        Args:
            name: Key of the stamp.
        """

    def before_timing(self) -> None:
        """Announce that a timed part of the repetition follows.

        By the processor clock, this measures other load on the host, and scales the nodes' CPU
        factors to compensate.
        """

    def report(self, name: str, **fields: Any) -> None:
        """Send a message about the repetition to the harness at once.

        It becomes a line in the repetition's events, with the guest's time.

        Args:
            name: Name of the report.
            fields: Further JSON values of the report.
        """

    def create_part(self, name: str) -> Session:
        """Return a session for one part of the repetition, such as one of several authentications.

        Args:
            name: Key of the part's raw values in `raw["parts"]`.
        """

    def report_shareable(self) -> None:
        """Tell the harness that other repetitions may use the processor from now on."""

    def take_commands(self) -> Iterator[Mapping[str, Any]]:
        """Yield the user's messages (`./qop tell`) received so far, without waiting.

        Each message is in the events with its time.
        """


class Workload(Protocol):
    """The part of a study that runs inside the guest and measures.

    The study's module has a class of this name. It is created with its `Site` when the policy's
    files are in place.
    """

    #: Further commands by name. Each takes a task and returns the answer.
    calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]

    def __init__(self, site: Site) -> None:
        """Prepare the measurements on one testbed, without starting anything."""

    def services(self) -> Sequence[Service]:
        """Return the services that must run before anything is measured."""

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Measure one repetition.

        Args:
            task: What to measure, as the study defined it for this cell.
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


# --- Kinds of handoff to another access point of the same subnet ---
# Further kinds are the values of `link.roaming` in a policy.

#: Full authentication at the new access point.
HANDOFF_FULL = "full"
#: Return to an access point whose PMKSA the mobile node has cached.
HANDOFF_PMKSA = "pmksa"

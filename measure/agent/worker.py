"""Build an emulated network inside a guest, and measure there what the harness commands.

A guest is the virtual machine of a test network. The harness (`./qop run` on the host) starts this
program there as root, by `python3 -m measure.agent.worker JOB_DIR`. JOB_DIR has the network and the
daemons' configuration. `Worker` builds the network, starts the daemons and measures repetitions
(one measurement each).

The harness sends commands (`CommandQueue`), as JSON lines on standard input or as files. The worker
answers with events, as JSON lines on standard output. docs/architecture.md lists both, under "a
machine". At the end of the commands, the worker removes the network and exits.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from measure.agent import kernel_state, running_programs, workload
from measure.agent.errors import MeasureError, describe_error, hide_secrets, secret_values
from measure.agent.running_programs import installed_packages
from measure.agent.workload import Site, Workload
from measure.cpu import clock, device_speeds, host_load
from measure.services import other_releases, replaced_programs
from measure.services.daemons import ServiceStarter
from topologies import builders, model
from topologies.fork_server import TcpdumpForks
from topologies.hwsim import RadioError
from topologies.interfaces import Interfaces
from topologies.kernel_modules import unload_new_modules

if TYPE_CHECKING:
    from measure.cards.testbed_cards import TestbedCards
    from topologies.builder import Testbed

# --- Commands from the harness, and events to it ---
# Commands are JSON lines on standard input. In virtual time they are numbered files: that time
# advances while the machine is idle, so the worker polls instead of waiting. The harness stops the
# whole machine meanwhile, so polling costs the host little.

_CHUNK_BYTES = 1 << 16


def send_event(event: str, **fields: Any) -> None:
    """Send an event to the harness, as a JSON line on standard output."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class CommandSource(Protocol):
    """A source of the harness's commands to the worker."""

    def take_command(self, *, wait: bool) -> dict[str, Any] | None:
        """Return the next command of the harness, or None if there is none.

        Args:
            wait: Wait for a command; None then means that no command will follow.
        """


class StreamCommands:
    """A source of commands that reads JSON lines from a file descriptor."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._pending = b""
        self._has_ended = False

    def take_command(self, *, wait: bool) -> dict[str, Any] | None:
        """Return the next command from the stream, or None if there is none."""
        while b"\n" not in self._pending:
            if self._has_ended or not (wait or self._has_more()):
                return None
            chunk = os.read(self._descriptor, _CHUNK_BYTES)
            self._has_ended = not chunk
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        command: dict[str, Any] = json.loads(line)
        return command

    def _has_more(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])


class FileCommands:
    """A source of commands that reads numbered files (1.json, 2.json, ...) of a folder.

    Each file appears complete.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._next = self._next_path()

    def take_command(self, *, wait: bool) -> dict[str, Any] | None:
        """Return the command in the next numbered file, or None if there is none.

        With `wait`, the file is polled for.
        """
        while not self._next.exists():
            if not wait:
                return None
        command: dict[str, Any] = json.loads(self._next.read_text())
        self._next = self._next_path()
        return command

    def _next_path(self) -> Path:
        return self._folder / f"{next(self._numbers)}.json"


class CommandQueue:
    """A queue of the harness's commands in order of arrival.

    The running repetition can take the messages that are meant for it before earlier commands.
    """

    def __init__(self, source: CommandSource) -> None:
        self._source = source
        self._waiting: deque[dict[str, Any]] = deque()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield every command except messages for a repetition, until the input ends."""
        while True:
            command = self._waiting.popleft() if self._waiting else self._source.take_command(
                wait=True)
            if command is None:
                return
            # A message for a repetition that has ended is dropped.
            if command["do"] != "tell":
                yield command

    def take_messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages for the running repetition so far, without waiting.

        Other commands stay in the queue.
        """
        while (command := self._source.take_command(wait=False)) is not None:
            if command["do"] == "tell":
                yield {key: value for key, value in command.items() if key != "do"}
            else:
                self._waiting.append(command)

    def drop_messages(self) -> None:
        """Drop messages in the queue that were meant for an earlier repetition."""
        for _ in self.take_messages():
            pass


class RepetitionSession:
    """The worker's side of one repetition: raw values, time stamps, messages and commands."""

    def __init__(self, inbox: CommandQueue, compensate: Callable[[], None] | None = None) -> None:
        self.raw: dict[str, Any] = {"stamps": {}}
        self._inbox = inbox
        self._compensate = compensate
        self._has_compensated = False

    def stamp(self, name: str) -> None:
        """Store the present wall-clock time under a name, with the CPU time used by qop itself.

        The first time stamp marks the start of a timed part. Other load on the host is measured
        before it, unless that was done.
        """
        if not self._has_compensated:
            self.before_timing()
        self.raw["stamps"][name] = time.time()
        if work := kernel_state.harness_work():
            self.raw.setdefault("harness_work", {})[name] = work

    def before_timing(self) -> None:
        """Measure other load on the host, and scale the nodes' CPU factors to compensate."""
        self._has_compensated = True
        if self._compensate is not None:
            self._compensate()

    def report(self, name: str, **fields: Any) -> None:
        """Send a message about the repetition to the harness at once, with the guest's time."""
        send_event("report", **fields, name=name, time_s=time.time())

    def create_part(self, name: str) -> RepetitionSession:
        """Return a session for a part of the repetition, such as one of several authentications.

        The part's raw values are stored within those of the repetition.
        """
        part = RepetitionSession(self._inbox, self._compensate)
        self.raw.setdefault("parts", {})[name] = part.raw
        return part

    def report_shareable(self) -> None:
        """Tell the harness that other repetitions may use the processor from now on."""
        self.report("shareable")

    def take_commands(self) -> Iterator[Mapping[str, Any]]:
        """Yield the messages received for this repetition so far, and report each as received."""
        for command in self._inbox.take_messages():
            self.report("told", command=command)
            yield command


# --- Shell commands of the user on a node ---

_PROMPT = r"[{}] \w # "


def run_command(testbed: Testbed, command: Mapping[str, Any]) -> dict[str, Any]:
    """Run a program on a node for `qop lab`, and return its exit status.

    Without a `terminal` the result has its `output`, too.
    """
    node = command["node"]
    if node not in testbed.network.nodes:
        raise MeasureError("testbed", f"no node {node!r}; there are "
                           f"{', '.join(testbed.network.nodes)}")
    argv = testbed.node_command(node, command["argv"])
    if "terminal" not in command:
        done = subprocess.run(argv, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        return {"status": done.returncode, "output": done.stdout + done.stderr}
    # The worker ignores interrupts; a program on a terminal must not inherit that.
    argv = ["setsid", "-w", "-c", "env", "--default-signal=INT,QUIT", *argv]
    with open(command["terminal"], "r+b", buffering=0) as tty:
        status = subprocess.call(argv, stdin=tty, stdout=tty, stderr=tty, env={
            **os.environ, **_shell_environment(testbed, node),
            "TERM": command.get("term", "vt100")})
    return {"status": status}


def _shell_environment(testbed: Testbed, node: str) -> dict[str, str]:
    """Return the environment of a lab's shell: its prompt, and functions to enter other nodes."""
    environment = {"PS1": _PROMPT.format(node)}
    for name in testbed.network.nodes:
        pid = testbed.node(name).pid
        environment[f"BASH_FUNC_{name}%%"] = (
            f'() {{ if [ $# -gt 0 ]; then mnexec -a {pid} "$@"; else '
            f"PS1='{_PROMPT.format(name)}' mnexec -a {pid} bash --norc -i; fi; }}")
    return environment


# --- Versions of the machine's kernel and packages, for every record ---

#: Debian packages of every testbed that may take part.
_DEBIAN = ("hostapd", "wpasupplicant", "freeradius", "strongswan-charon", "iperf3", "tcpdump",
           "mininet", "openssl")


def collect_versions(further: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the versions of the kernel, of every daemon, and of a study's packages.

    `further` lists the study's packages: `debian` and `python` are names, `compiled` are names with
    versions.
    """
    return {"kernel": f"{os.uname().sysname} {os.uname().release}",
            **installed_packages({*_DEBIAN, *further.get("debian", ())}),
            **dict(line.split(" ", 1) for line in further.get("compiled", ())),
            **_python_versions(further.get("python", ()))}


def _python_versions(names: Sequence[str]) -> dict[str, str]:
    """Return the versions of Python packages, by name with a prefix that marks them as Python."""
    if not names:
        return {}
    from importlib import metadata  # loads slowly, and most studies need none

    versions = {}
    for name in names:
        try:
            versions[f"python:{name}"] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform, by its marker in the lock file
    return versions


# --- Execution of the harness's commands ---

class Worker:
    """The emulated network in a guest with the measurements of its study, for the harness.

    It executes the harness's commands.
    """

    def __init__(self, job_dir: Path) -> None:
        self.job_dir = job_dir
        self.job: dict[str, Any] = json.loads((job_dir / "job.json").read_text())
        self.network: model.Network = model.from_json(model.Network, self.job["network"])
        self.builder: str = self.job.get("builder", builders.MININET)
        self.clock: str = self.job.get("clock", "real")
        self.logs = job_dir / "out" / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        is_real = self.clock == "real"
        self._inbox = CommandQueue(StreamCommands() if is_real
                                   else FileCommands(job_dir / "commands"))
        # Before anything is built: a missing workload is reported at once.
        self._workload_class = workload.load_workload(self.job["inside"])
        self._workload: Workload | None = None
        self._stack = ExitStack()
        #: Devices by node, empty under clocks that ignore them.
        self._devices: dict[str, Any] = (
            self.job.get("devices", {}) if self.clock == "processor" else {})
        self._slowed: dict[str, str] = {}
        #: Cards of this machine that are the nodes' radios, None for emulated radios.
        self._cards: TestbedCards | None = None
        #: Paths of the user's own daemons, by the names of those that they replace.
        self._programs: dict[str, str] = {}
        self._machine_speeds: dict[str, float] = {}
        self._host_slowdown: host_load.LoadCompensation | None = None

    def serve(self) -> None:
        """Build the network and execute commands until `stop` or the end of input."""
        with self._stack:
            send_event("hello", pid=os.getpid())
            replaced = self.job.get("programs", {})
            self._programs = {**other_releases.provide_daemons(self.job.get("daemons", {})),
                              **replaced_programs.provide_programs(replaced)}
            if self.job.get("unloads_modules"):
                self._stack.enter_context(unload_new_modules())
            if cards := self.job.get("cards"):
                from measure.cards.testbed_cards import TestbedCards  # others start without it

                self._cards = self._stack.enter_context(
                    TestbedCards.borrow_cards(self.network, cards))
            elif self.network.has_radios:
                _monitor_up()
            self._build_testbed()
            self._prepare()
            send_event("ready", environment={**collect_versions(self.job.get("packages", {})),
                                             **installed_packages(replaced.get("packages", ())),
                                             **builders.builder_versions(self.builder),
                                             **replaced_programs.replaced_versions(replaced)})
            for command in self._inbox:
                if command["do"] == "stop":
                    break
                self._answer_command(command)
        send_event("bye")

    def _build_testbed(self) -> None:
        """Build the job's network, with the borrowed cards as radios if there are any."""
        from topologies.builder import Testbed  # needs Mininet, which only a machine has

        medium = model.from_json(model.Medium, self.job["medium"]) if self.job.get(
            "medium") else None
        if self.clock == "virtual":
            clock.set_read_ticks(are_short=medium is not None and medium.has_long_aggregates)
        self.testbed = Testbed(
            self.network, medium, self.job.get("cipher_bytes", 0), self.builder,
            seed=self.job.get("seed", 0), macsec=self.job.get("macsec", ""),
            vlan=self.job.get("vlan", 0),
            more_group_bytes=self.job.get("more_group_bytes", 0))
        self.testbed.further_vlans = self.job.get("further_vlans", [])
        if suite := self.job.get("macsec_suite"):
            self.testbed.macsec_suite = suite
        if self._cards:
            self.testbed.place_radio = self._cards.place_card
        self._stack.enter_context(self.testbed)
        if self._cards:
            self._stack.callback(self._cards.bring_home)
            self.testbed.air_interfaces = self._cards.start_monitors(self.testbed)

    def _answer_command(self, command: dict[str, Any]) -> None:
        """Execute a command of the harness, and send its result as one event."""
        try:
            send_event(**self._execute(command))
        except MeasureError as error:
            send_event("failed", **self._describe_failure(error))
        except Exception as error:  # noqa: BLE001 - a study's code may raise anything
            traceback.print_exc()
            send_event("failed",
                       **self._describe_failure(MeasureError("testbed", describe_error(error))))

    def _describe_failure(self, error: MeasureError) -> dict[str, str]:
        """Return a failure as data for the harness, without the run's secrets."""
        secrets = [*secret_values(self.job.get("secrets", {}).values())]
        failure = {"stage": error.stage, "reason": hide_secrets(error.reason, secrets)}
        return failure | ({"cause": hide_secrets(error.cause, secrets)} if error.cause else {})

    def _execute(self, command: dict[str, Any]) -> dict[str, Any]:
        does: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "configure": self._configure, "measure": self._measure, "call": self._call_workload,
            "shell": self._run_shell}
        if command["do"] not in does:
            raise MeasureError("testbed", f"unknown command {command['do']!r}")
        return does[command["do"]](command)

    def _prepare(self) -> None:
        """Prepare the emulated network as far as possible without the policy's files."""
        mount = Path(self.job["mount"])
        shutil.rmtree(mount, ignore_errors=True)
        mount.mkdir(parents=True)
        mount.chmod(0o755)
        if self._devices or self.job.get("kinds_library"):
            library = str(device_speeds.write_library(self.job["kinds_library"],
                                                      mount / "kinds.so"))
            self.testbed.for_tools = library
            self.testbed.preloaded = dict.fromkeys(self._devices, library)
        if promptly := self.job.get("captures_library"):
            self.testbed.for_captures = str(
                device_speeds.write_library(promptly, mount / "prompt.so"))
        if copies := self.job.get("copies_library"):
            self.testbed.copies = self._stack.enter_context(
                TcpdumpForks(*(Path(library) for library in (
                device_speeds.write_library(copies, mount / "copies.so"), self.testbed.for_captures)
                if library)))
        if drained := self.job.get("streams_library"):
            self.testbed.for_streams = str(
                device_speeds.write_library(drained, mount / "drained.so"))
        if self.clock == "processor":
            calibration = self._stack.enter_context(host_load.CalibrationWorkload())
            self._machine_speeds = self._machine_speeds_now(calibration)
            self._host_slowdown = host_load.LoadCompensation(
                self.testbed, calibration, host_load.select_least_times(self._machine_speeds), {
                    node: device_speeds.device_permille(device["work"], self._machine_speeds)
                    for node, device in self._devices.items()})

    def _configure(self, command: dict[str, Any]) -> dict[str, Any]:
        """Install a policy's configuration files, if there are any, and start the daemons."""
        if self._workload is not None:
            raise MeasureError("testbed", "configured already; a policy needs a fresh testbed")
        conf, mount = command.get("conf"), Path(self.job["mount"])
        if conf:
            shutil.copytree(self.job_dir / "conf" / conf, mount, dirs_exist_ok=True)
            mount.chmod(0o755)
        site = Site(self.testbed, self.job["tasks"], self.job.get("options", {}),
                    self.job.get("secrets", {}), frozenset(self.job.get("withhold", ())), mount,
                    self.logs, clock=self.clock, devices=self.job.get("devices", {}),
                    fault=self.job.get("fault", ""),
                    charge_library=self.job.get("charge_library", ""), programs=self._programs,
                    packages=frozenset(self.job.get("programs", {}).get("packages", ())),
                    daemon_releases={name: daemon["release"] for name, daemon
                                     in self.job.get("daemons", {}).items()},
                    asked_releases=self._asked_releases,
                    own_programs=frozenset(self.job.get("programs", {}).get("files", ())))
        workload = self._workload_class(site)
        self._stack.enter_context(ServiceStarter(workload.services(), site.withhold))
        # Only now: services must start within deadlines that assume this machine's own speed.
        self._slowed = device_speeds.apply_devices(self.testbed, self._devices,
                                                   self._machine_speeds)
        self._workload = workload
        return {"event": "configured", "speeds": self._machine_speeds}

    def _machine_speeds_now(self, calibration: host_load.CalibrationWorkload) -> dict[str, float]:
        """Return the times that standard operations take on this machine (its speeds).

        The harness may know these times from other testbeds. Known times are not measured again,
        except those of the calibration workloads. Of a measured and a known time, the smaller one
        is returned.
        """
        known: dict[str, float] = self.job.get("speeds") or {}
        least = {name: min(value, known.get(name, value)) for name, value in
                 calibration.least_ns(is_known=bool(host_load.select_least_times(known))).items()}
        is_known = known.keys() > host_load.select_least_times(known).keys()
        return {**(device_speeds.measure_speeds() if self._devices and not is_known else known),
                **least}

    def _measure(self, command: dict[str, Any]) -> dict[str, Any]:
        """Measure one repetition, and write its raw values even if it fails."""
        out = self.job_dir / "out" / command["name"]
        out.mkdir(parents=True, exist_ok=True)
        self._inbox.drop_messages()
        session = RepetitionSession(self._inbox,
                                    self._host_slowdown.apply if self._host_slowdown else None)
        self.testbed.reseed_backoffs("all", command.get("repetition", 0))
        failure: MeasureError | None = None
        started, set_to, used = time.monotonic(), clock.offset_s(), kernel_state.processor_seconds()
        try:
            self._require_workload().measure(command["task"], out, session)
        except MeasureError as error:
            failure = error
        using = kernel_state.processor_seconds()
        raw = {**session.raw, "elapsed_s": time.monotonic() - started,
               "clock_step_s": clock.offset_s() - set_to,
               "processor_clock": {**kernel_state.processor_clock(), **self._slowed,
                                   **self._host_load()},
               "processor_s": {use: round(using[use] - used[use], 2) for use in using},
               "failure": self._describe_failure(failure) if failure else None,
               **self._describe_release(),
               **({"cards": self._cards.read_links(self.testbed),
                   "air_missing": self._cards.air_missing} if self._cards else {})}
        (out / "raw.json").write_text(json.dumps(raw))
        return {"event": "measured", "name": command["name"], "ok": failure is None}

    @property
    def _asked_releases(self) -> dict[str, str]:
        """Return the releases of the user's option `--daemon`, by daemon."""
        return {name: daemon["release"] for name, daemon in self.job.get("daemons", {}).items()
                if daemon["is_asked"]}

    def _describe_release(self) -> dict[str, Any]:
        """Return the Debian release that was asked for, that of the root, and the programs.

        The result is empty on machines without a release.
        """
        asked = self.job.get("release")
        if not asked:
            return {}
        daemons = self._asked_releases
        programs = running_programs.describe_programs(
            {name: other_releases.find_image_root(release) for name, release in daemons.items()},
            [program["path"] for program in
             self.job.get("programs", {}).get("files", {}).values()])
        return {"release": {"asked": asked, "found": running_programs.read_release(),
                            "daemons": daemons, "programs": programs}}

    def _host_load(self) -> dict[str, str]:
        """Return the mean factor by which other load on the host slowed the repetition down.

        The nodes' CPU times were corrected by this factor.
        """
        factor = self._host_slowdown.take_mean_factor() if self._host_slowdown else None
        return {} if factor is None else {"company": f"{factor:.3f}"}

    def _call_workload(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute a further command that the study's workload defines."""
        calls = self._require_workload().calls
        if command["command"] not in calls:
            raise MeasureError("testbed", f"no call {command['command']!r} in this study; there "
                               f"are {', '.join(calls) or 'none'}")
        return {"event": "called", "result": calls[command["command"]](command["task"])}

    def _run_shell(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"event": "shell_ended", **run_command(self.testbed, command)}

    def _require_workload(self) -> Workload:
        if self._workload is None:
            raise MeasureError("testbed", "nothing is configured")
        return self._workload


def _monitor_up() -> None:
    """Set up the monitor interface, on which a capture sees every frame on the air."""
    try:
        with Interfaces() as interfaces:
            interfaces.set_up("hwsim0")
    except OSError:
        raise RadioError("no interface hwsim0: load mac80211_hwsim ('modprobe mac80211_hwsim "
                         "radios=0')") from None


def _exit_on_signal(*_: object) -> None:
    raise SystemExit(143)


def main() -> int:
    """Run the worker for the job folder named on the command line."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        Worker(Path(sys.argv[1])).serve()
    except MeasureError as error:
        traceback.print_exc()
        send_event("failed", stage=error.stage, reason=error.reason)
        return 1
    except (RadioError, RuntimeError, OSError, ImportError, AttributeError,
            subprocess.SubprocessError) as error:
        traceback.print_exc()
        reason = str(error) if isinstance(error, RadioError) else describe_error(error)
        send_event("failed", stage="testbed", reason=reason)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

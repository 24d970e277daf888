"""The process inside a machine that builds the network and executes the harness's commands.

`python3 -m measure.worker JOB_DIR` as root. Commands and events are JSON lines (see `session`);
docs/architecture.md describes them (seam 5). The end of input means: clean up and exit.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure import clock, company, kernel, processors, shell, workload
from measure.causes import describe_error, hide_secrets, secret_values
from measure.errors import MeasureError
from measure.services.starting import Starter
from measure.session import Files, Inbox, Lines, RepetitionSession, send_event
from measure.versions import collect_versions
from measure.workload import Site, Workload
from topologies import builders, model
from topologies.builder import Testbed
from topologies.copies import Copies
from topologies.interfaces import Interfaces
from topologies.radio import RadioError


class Worker:
    """A testbed with its workload, controlled by the harness's commands."""

    def __init__(self, job_dir: Path) -> None:
        self.job_dir = job_dir
        self.job: dict[str, Any] = json.loads((job_dir / "job.json").read_text())
        self.network: model.Network = model.from_json(model.Network, self.job["network"])
        self.builder: str = self.job.get("builder", builders.MININET)
        self.clock: str = self.job.get("clock", "real")
        self.logs = job_dir / "out" / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        is_real = self.clock == "real"
        self._inbox = Inbox(Lines() if is_real else Files(job_dir / "commands"))
        # Before anything is built: a missing workload is reported at once.
        self._workload_class = workload.load_workload(self.job["inside"])
        self._workload: Workload | None = None
        self._stack = ExitStack()
        #: Devices by node, empty under clocks that ignore them.
        self._devices: dict[str, Any] = (
            self.job.get("devices", {}) if self.clock == "processor" else {})
        self._slowed: dict[str, str] = {}
        self._machine_speeds: dict[str, float] = {}
        self._company: company.Company | None = None

    def serve(self) -> None:
        """Build the network and execute commands until `stop` or the end of input."""
        with self._stack:
            send_event("hello", pid=os.getpid())
            if self.network.has_radios:
                _monitor_up()
            medium = self.job.get("medium")
            self.testbed = self._stack.enter_context(Testbed(
                self.network, model.from_json(model.Medium, medium) if medium else None,
                self.job.get("cipher_bytes", 0), self.builder, seed=self.job.get("seed", 0),
                macsec=self.job.get("macsec", "")))
            self._prepare()
            send_event("ready", environment={**collect_versions(self.job.get("packages", {})),
                                             **builders.builder_versions(self.builder)})
            for command in self._inbox:
                if command["do"] == "stop":
                    break
                self._answer_command(command)
        send_event("bye")

    def _answer_command(self, command: dict[str, Any]) -> None:
        """Execute a command and report its result as one event."""
        try:
            send_event(**self._execute(command))
        except MeasureError as error:
            send_event("failed", **self._describe_failure(error))
        except Exception as error:  # noqa: BLE001 - a study's code may raise anything
            traceback.print_exc()
            send_event("failed",
                       **self._describe_failure(MeasureError("testbed", describe_error(error))))

    def _describe_failure(self, error: MeasureError) -> dict[str, str]:
        """Return a failure as the harness receives it, without the run's secrets."""
        secrets = [*secret_values(self.job.get("secrets", {}).values())]
        said = {"stage": error.stage, "reason": hide_secrets(error.reason, secrets)}
        return said | ({"cause": hide_secrets(error.cause, secrets)} if error.cause else {})

    def _execute(self, command: dict[str, Any]) -> dict[str, Any]:
        does: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "configure": self._configure, "measure": self._measure, "call": self._call_workload,
            "shell": self._run_shell}
        if command["do"] not in does:
            raise MeasureError("testbed", f"unknown command {command['do']!r}")
        return does[command["do"]](command)

    def _prepare(self) -> None:
        """Prepare all that needs no policy, which may still be rendered meanwhile."""
        mount = Path(self.job["mount"])
        shutil.rmtree(mount, ignore_errors=True)
        mount.mkdir(parents=True)
        mount.chmod(0o755)
        if self._devices or self.job.get("kinds_library"):
            library = str(processors.write_kinds_library(self.job["kinds_library"], mount))
            self.testbed.for_tools = library
            self.testbed.preloaded = dict.fromkeys(self._devices, library)
        if promptly := self.job.get("captures_library"):
            self.testbed.for_captures = str(processors.write_library(promptly, mount / "prompt.so"))
        if copies := self.job.get("copies_library"):
            self.testbed.copies = self._stack.enter_context(Copies(*(Path(library) for library in (
                processors.write_library(copies, mount / "copies.so"), self.testbed.for_captures)
                if library)))
        if drained := self.job.get("streams_library"):
            self.testbed.for_streams = str(processors.write_library(drained, mount / "drained.so"))
        if self.clock == "processor":
            pieces = self._stack.enter_context(company.Pieces())
            self._machine_speeds = self._machine_speeds_now(pieces)
            self._company = company.Company(
                self.testbed, pieces, company.least_times(self._machine_speeds), {
                    node: processors.device_permille(device["work"], self._machine_speeds)
                    for node, device in self._devices.items()})

    def _configure(self, command: dict[str, Any]) -> dict[str, Any]:
        """Install a policy's files, if there are any, and start the services."""
        if self._workload is not None:
            raise MeasureError("testbed", "configured already; a policy needs a fresh testbed")
        conf, mount = command.get("conf"), Path(self.job["mount"])
        if conf:
            shutil.copytree(self.job_dir / "conf" / conf, mount, dirs_exist_ok=True)
            mount.chmod(0o755)
        site = Site(self.testbed, self.job["tasks"], self.job.get("options", {}),
                    self.job.get("secrets", {}), frozenset(self.job.get("withhold", ())), mount,
                    self.logs, clock=self.clock, devices=self.job.get("devices", {}),
                    fault=self.job.get("fault", ""))
        made = self._workload_class(site)
        self._stack.enter_context(Starter(made.services(), site.withhold))
        # Only now: services must start within deadlines that assume this machine's own speed.
        self._slowed = processors.apply_devices(self.testbed, self._devices, self._machine_speeds)
        self._workload = made
        return {"event": "configured", "speeds": self._machine_speeds}

    def _machine_speeds_now(self, calibration: company.Pieces) -> dict[str, float]:
        """Return this machine's speeds: known values where they exist, else measured ones.

        The least times of the calibration workloads are the minimum of known and measured values.
        """
        known: dict[str, float] = self.job.get("speeds") or {}
        least = {name: min(value, known.get(name, value)) for name, value in
                 calibration.least_ns(is_known=bool(company.least_times(known))).items()}
        is_known = known.keys() > company.least_times(known).keys()
        return {**(processors.measure_speeds() if self._devices and not is_known else known),
                **least}

    def _measure(self, command: dict[str, Any]) -> dict[str, Any]:
        """Measure one repetition and write its raw values, whether it succeeds or not."""
        out = self.job_dir / "out" / command["name"]
        out.mkdir(parents=True, exist_ok=True)
        self._inbox.drop_messages()
        session = RepetitionSession(self._inbox,
                                    self._company.apply if self._company else None)
        self.testbed.reseed_backoffs("all", command.get("repetition", 0))
        failure: MeasureError | None = None
        started, set_to, used = time.monotonic(), clock.offset_s(), kernel.processor_seconds()
        try:
            self._require_workload().measure(command["task"], out, session)
        except MeasureError as error:
            failure = error
        using = kernel.processor_seconds()
        raw = {**session.raw, "elapsed_s": time.monotonic() - started,
               "clock_step_s": clock.offset_s() - set_to,
               "processor_clock": {**kernel.processor_clock(), **self._slowed, **self._host_load()},
               "processor_s": {use: round(using[use] - used[use], 2) for use in using},
               "failure": self._describe_failure(failure) if failure else None}
        (out / "raw.json").write_text(json.dumps(raw))
        return {"event": "measured", "name": command["name"], "ok": failure is None}

    def _host_load(self) -> dict[str, str]:
        """Return the mean host-load factor that was compensated in a repetition."""
        factor = self._company.take_mean_factor() if self._company else None
        return {} if factor is None else {"company": f"{factor:.3f}"}

    def _call_workload(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute a further command of the workload."""
        calls = self._require_workload().calls
        if command["command"] not in calls:
            raise MeasureError("testbed", f"no call {command['command']!r} in this study; there "
                               f"are {', '.join(calls) or 'none'}")
        return {"event": "called", "result": calls[command["command"]](command["task"])}

    def _run_shell(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"event": "shell_ended", **shell.run_command(self.testbed, command)}

    def _require_workload(self) -> Workload:
        if self._workload is None:
            raise MeasureError("testbed", "nothing is configured")
        return self._workload


def _monitor_up() -> None:
    """Set up the common monitor interface, which shows every frame on the air."""
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
        said = str(error) if isinstance(error, RadioError) else describe_error(error)
        send_event("failed", stage="testbed", reason=said)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

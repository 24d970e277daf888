"""The process inside a machine: build the network, then do as the harness says, line by line.

`python3 -m measure.worker JOB_DIR` as root. JSON lines come in on standard input and go out on
standard output; docs/architecture.md describes them (seam 4). The end of input means: clean up.
Where the clock is virtual, commands come as files, see `commands`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure import clock, repetition, services, survival
from measure.errors import MeasureError
from topologies import builders, model
from topologies.builder import Testbed
from topologies.radio import RadioError

_PROMPT = r"[{}] \w # "


class Worker:
    """One testbed and the commands it understands."""

    def __init__(self, job_dir: Path) -> None:
        job = json.loads((job_dir / "job.json").read_text())
        self.job_dir = job_dir
        self.mount = Path(job["mount"])
        self.network: model.Network = model.from_json(model.Network, job["network"])
        self.scenarios: dict[str, model.Scenario] = {
            name: model.from_json(model.Scenario, found)
            for name, found in job["scenarios"].items()}
        self.clock: str = job.get("clock", "real")
        self.builder: str = job.get("builder", builders.MININET)
        medium = job.get("medium")
        self.medium = model.from_json(model.Medium, medium) if medium else None
        self.cipher_bytes: int = job.get("cipher_bytes", 0)
        self.mobile_ip = services.MobileIp(**job["mobile_ip"])
        self.withhold = frozenset(job.get("withhold", []))
        self.logs = job_dir / "out" / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._port_checks: dict[str, dict[str, Any]] = {}
        self._stack = ExitStack()
        self._services: services.Services | None = None

    def serve(self) -> None:
        """Build, announce, and serve commands until `stop` or the end of input."""
        with self._stack:
            say("hello", pid=os.getpid())
            _monitor_up()
            self.testbed = self._stack.enter_context(
                Testbed(self.network, self.medium, self.cipher_bytes, self.builder))
            say("ready", environment={**environment(), **builders.version(self.builder)})
            for command in commands(self.job_dir / "commands" if self.clock == "virtual" else None):
                if command["do"] == "stop":
                    break
                try:
                    say(**self._do(command))
                except MeasureError as error:
                    say("failed", stage=error.stage, reason=error.reason)
                except (subprocess.SubprocessError, OSError, RuntimeError) as error:
                    traceback.print_exc()
                    say("failed", stage="testbed", reason=_one_line(error))
        say("bye")

    def _do(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "configure":
            return self._configure(command["conf"])
        if command["do"] == "shell":
            return self._shell(command)
        does = {"measure": self._measure, "connect": self._connect, "survive": self._survive}
        if command["do"] not in does:
            raise MeasureError("testbed", f"unknown command {command['do']!r}")
        if self._services is None:
            raise MeasureError("testbed", "no policy is configured")
        return does[command["do"]](command, self._services, self.scenarios[command["scenario"]])

    def _configure(self, conf: str) -> dict[str, Any]:
        if self._services is not None:
            raise MeasureError("testbed", "configured already; a policy needs a fresh testbed")
        services.install(self.job_dir / "conf" / conf, self.mount)
        self._services = self._stack.enter_context(services.Services(
            self.testbed, list(self.scenarios.values()), self.mount, self.logs, self.mobile_ip,
            self.withhold))
        return {"event": "configured"}

    def _measure(self, command: dict[str, Any], daemons: services.Services,
                 scenario: model.Scenario) -> dict[str, Any]:
        out = self.job_dir / "out" / command["name"]
        out.mkdir(parents=True, exist_ok=True)
        one = repetition.Repetition(daemons, scenario, out,
                                    repetition.Streams(**command["streams"]))
        failure: MeasureError | None = None
        started, set_to = time.monotonic(), clock.offset_s()
        try:
            if daemons.has_dot1x and not self.withhold:
                self._check_port(one)
            one.run(lambda: say("on_the_network"))
        except MeasureError as error:
            failure = error
        one.raw["port_check"] = self._port_checks.get(scenario.mobile_node)
        one.raw["elapsed_s"] = time.monotonic() - started
        one.raw["clock_step_s"] = clock.offset_s() - set_to
        one.raw["failure"] = {"stage": failure.stage, "reason": failure.reason} if failure else None
        (out / "raw.json").write_text(json.dumps(one.raw))
        return {"event": "measured", "name": command["name"], "ok": failure is None}

    def _check_port(self, one: repetition.Repetition) -> None:
        """Once for every mobile node: what passes an access point that has not authorized it."""
        name = one.scenario.mobile_node
        if name not in self._port_checks:
            self._port_checks[name] = one.check_port_closed()

    def _connect(self, _command: dict[str, Any], daemons: services.Services,
                 scenario: model.Scenario) -> dict[str, Any]:
        """Bring the mobile node up as a repetition does, and leave it so."""
        repetition.Repetition(daemons, scenario, self.logs,
                              repetition.Streams(0, 0, 0, 0, 0)).connect()
        return {"event": "connected"}

    def _survive(self, command: dict[str, Any], daemons: services.Services,
                 scenario: model.Scenario) -> dict[str, Any]:
        """Move while a TCP connection is in use; see `survival`."""
        self._connect(command, daemons, scenario)
        return {"event": "survived", **survival.survive(daemons, scenario)}

    def _shell(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run a command on a node, on a terminal of the machine's where one is named.

        Without a terminal its output comes back in the event.
        """
        node = command["node"]
        if node not in self.network.nodes:
            raise MeasureError("testbed", f"no node {node!r}; there are "
                               f"{', '.join(self.network.nodes)}")
        argv = self.testbed.command(node, command["argv"])
        if "terminal" not in command:
            done = subprocess.run(argv, capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL)
            return {"event": "shell_ended", "status": done.returncode,
                    "output": done.stdout + done.stderr}
        # The worker ignores interrupts; what runs on a terminal must not inherit that.
        argv = ["setsid", "-w", "-c", "env", "--default-signal=INT,QUIT", *argv]
        with open(command["terminal"], "r+b", buffering=0) as tty:
            status = subprocess.call(argv, stdin=tty, stdout=tty, stderr=tty, env={
                **os.environ, **self._shell_environment(node),
                "TERM": command.get("term", "vt100")})
        return {"event": "shell_ended", "status": status}

    def _shell_environment(self, here: str) -> dict[str, str]:
        """A prompt with the node's name, and functions that go to the other nodes by theirs."""
        environment = {"PS1": _PROMPT.format(here)}
        for name in self.network.nodes:
            pid = self.testbed.node(name).pid
            environment[f"BASH_FUNC_{name}%%"] = (
                f'() {{ if [ $# -gt 0 ]; then mnexec -a {pid} "$@"; else '
                f"PS1='{_PROMPT.format(name)}' mnexec -a {pid} bash --norc -i; fi; }}")
        return environment


def commands(folder: Path | None) -> Iterator[dict[str, Any]]:
    """What the harness wants done: from standard input, or from numbered files in `folder`.

    Virtual time runs off whenever the machine has nothing to do, so it must not wait for the
    harness idly: looking for a file over and over takes none of it. (The harness stops the whole
    machine in the meantime, so that it takes little of the processor, either.)
    """
    if folder is None:
        yield from map(json.loads, sys.stdin)
        return
    for number in itertools.count(1):
        path = folder / f"{number}.json"
        while not path.exists():
            pass
        yield json.loads(path.read_text())


def environment() -> dict[str, str]:
    """Versions of the kernel and of every daemon that takes part."""
    packages = ("hostapd", "wpasupplicant", "freeradius", "strongswan-charon", "iperf3", "tcpdump",
                "mininet", "openssl")
    listed = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *packages],
                            capture_output=True, text=True, check=False).stdout
    versions = dict(line.split(" ", 1) for line in listed.splitlines())
    return {"kernel": f"{os.uname().sysname} {os.uname().release}", **versions}


def say(event: str, **fields: Any) -> None:
    """One event to the harness."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def _monitor_up() -> None:
    """The radios' common monitor interface shows every frame once it is up."""
    done = subprocess.run(["ip", "link", "set", "hwsim0", "up"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RadioError("no interface hwsim0: load mac80211_hwsim ('modprobe mac80211_hwsim "
                         "radios=0')")


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def _terminate(*_: object) -> None:
    raise SystemExit(143)


def main() -> int:
    """Run the worker for the job folder named on the command line."""
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        Worker(Path(sys.argv[1])).serve()
    except (RadioError, RuntimeError, OSError, subprocess.SubprocessError) as error:
        traceback.print_exc()
        say("failed", stage="testbed", reason=_one_line(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

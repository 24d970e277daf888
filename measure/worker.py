"""The process inside a machine: build the network, then do as the harness says, line by line.

`python3 -m measure.worker JOB_DIR` as root. JSON lines come in on standard input and go out on
standard output; docs/architecture.md describes them (seam 4). The end of input means: clean up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from measure import repetition, services, survival
from measure.errors import MeasureError
from topologies import model
from topologies.builder import Testbed
from topologies.radio import RadioError

_PROMPT = r"[{}] \w # "


class Worker:
    """One testbed and the commands it understands."""

    def __init__(self, job_dir: Path) -> None:
        job = json.loads((job_dir / "job.json").read_text())
        self.job_dir = job_dir
        self.mount = Path(job["mount"])
        self.scenario: model.Scenario = model.from_json(model.Scenario, job["scenario"])
        medium = job.get("medium")
        self.medium = model.from_json(model.Medium, medium) if medium else None
        self.cipher_bytes: int = job.get("cipher_bytes", 0)
        self.mobile_ip = services.MobileIp(**job["mobile_ip"])
        self.withhold = frozenset(job.get("withhold", []))
        self.logs = job_dir / "out" / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.port_check: dict[str, Any] | None = None
        self._stack = ExitStack()
        self._services: services.Services | None = None

    def serve(self) -> None:
        """Build, announce, and serve commands until `stop` or the end of input."""
        with self._stack:
            say("hello", pid=os.getpid())
            _monitor_up()
            self.testbed = self._stack.enter_context(
                Testbed(self.scenario.network, self.medium, self.cipher_bytes))
            say("ready", environment=environment())
            for line in sys.stdin:
                command = json.loads(line)
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
        if command["do"] == "measure":
            return self._measure(command)
        if command["do"] == "connect":
            return self._connect()
        if command["do"] == "survive":
            return self._survive()
        if command["do"] == "shell":
            return self._shell(command)
        raise MeasureError("testbed", f"unknown command {command['do']!r}")

    def _configure(self, conf: str) -> dict[str, Any]:
        if self._services is not None:
            raise MeasureError("testbed", "configured already; a policy needs a fresh testbed")
        services.install(self.job_dir / "conf" / conf, self.mount)
        self._services = self._stack.enter_context(services.Services(
            self.testbed, self.scenario, self.mount, self.logs, self.mobile_ip, self.withhold))
        return {"event": "configured"}

    def _measure(self, command: dict[str, Any]) -> dict[str, Any]:
        if self._services is None:
            raise MeasureError("testbed", "no policy is configured")
        out = self.job_dir / "out" / command["name"]
        out.mkdir(parents=True, exist_ok=True)
        one = repetition.Repetition(self._services, out,
                                    repetition.Streams(**command["streams"]))
        failure: MeasureError | None = None
        started = time.monotonic()
        try:
            if self._services.has_dot1x and not self.withhold and self.port_check is None:
                self.port_check = one.check_port_closed()
            one.run()
        except MeasureError as error:
            failure = error
        one.raw["port_check"] = self.port_check
        one.raw["elapsed_s"] = time.monotonic() - started
        one.raw["failure"] = {"stage": failure.stage, "reason": failure.reason} if failure else None
        (out / "raw.json").write_text(json.dumps(one.raw))
        return {"event": "measured", "name": command["name"], "ok": failure is None}

    def _connect(self) -> dict[str, Any]:
        """Bring the mobile node up as a repetition does, and leave it so."""
        if self._services is None:
            raise MeasureError("testbed", "no policy is configured")
        repetition.Repetition(self._services, self.logs,
                              repetition.Streams(0, 0, 0, 0, 0)).connect()
        return {"event": "connected"}

    def _survive(self) -> dict[str, Any]:
        """Move while a TCP connection is in use; see `survival`."""
        if self._services is None:
            raise MeasureError("testbed", "no policy is configured")
        self._connect()
        return {"event": "survived", **survival.survive(self._services)}

    def _shell(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run a command on a node, on a terminal of the machine's where one is named.

        Without a terminal its output comes back in the event.
        """
        node = command["node"]
        if node not in self.scenario.network.nodes:
            raise MeasureError("testbed", f"no node {node!r}; there are "
                               f"{', '.join(self.scenario.network.nodes)}")
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
        for name in self.scenario.network.nodes:
            pid = self.testbed.node(name).pid
            environment[f"BASH_FUNC_{name}%%"] = (
                f'() {{ if [ $# -gt 0 ]; then mnexec -a {pid} "$@"; else '
                f"PS1='{_PROMPT.format(name)}' mnexec -a {pid} bash --norc -i; fi; }}")
        return environment


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

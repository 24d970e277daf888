"""Make one known fault in a small network and capture what happens, to test `qop explain`.

`qop bench explain` starts `python3 -m measure.load.blind_trial JOB_DIR` as root, inside a guest,
and then tests whether `qop explain` finds the fault in the captures. JOB_DIR/trial.json has the
network, the capture points and the steps (`bench/explain_faults.py`): start daemons, let stations
join or roam, drop frames. Configuration files of daemons are in JOB_DIR, too. Captures go to
JOB_DIR/captures.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon
from measure.attacks import injection
from measure.capture.tcpdump import WHOLE, CapturePoint, capture_packets
from measure.services.wireguard import (
    WireGuardEnd,
    WireGuardKey,
    WireGuardPeer,
    WireGuardTunnels,
)
from topologies import model
from topologies.builder import Testbed
from topologies.namespaces import mount_in_memory

if TYPE_CHECKING:
    from measure.agent.workload import Site

_READY_S = 20.0
#: Intervals in s at which a log and a filter's counter are read.
_LOG_S, _COUNTER_S = 0.02, 0.05
_COUNTED = re.compile(r"Sent \d+ bytes (\d+) pkt")
_SINK = "sink"
_CHARON = "/usr/lib/ipsec/charon"
#: Name of charon's control socket in /run.
VICI = "charon.vici"


@dataclass
class BlindTrial:
    """A running network with daemons, on which the steps of a trial are carried out."""

    testbed: Testbed
    folder: Path
    stack: ExitStack
    _daemons: dict[str, Daemon] = field(default_factory=dict)
    #: Length in bytes of each daemon's log up to the last line that was waited for.
    _read: dict[str, int] = field(default_factory=dict)
    #: Threads that wait until their filters have dropped frames.
    _drops: list[threading.Thread] = field(default_factory=list)
    #: Node, device and direction of filters that drop frames to the end.
    _lasting: list[tuple[str, str, str]] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def carry_out(self, do: str, **step: Any) -> None:
        """Carry out a step: the name of a method below, with its arguments."""
        getattr(self, f"step_{do}")(**step)

    def end_faults(self) -> None:
        """Stop dropping frames.

        Raises:
            MeasureError: A filter had not enough frames to drop, so the fault was not made.
        """
        is_missing = any(thread.is_alive() for thread in self._drops) or not all(
            self._count_dropped(*place) for place in self._lasting)
        self._is_over.set()
        for thread in self._drops:
            thread.join()
        if is_missing:
            raise MeasureError("testbed", "a fault was not made: too few frames match its filter")

    def step_start(self, name: str, node: str, argv: Sequence[str], ready: str = "") -> None:
        """Start a daemon on a node. Wait for the line of its log that says that it is ready."""
        daemon = Daemon(name, self.testbed.node_command(node, argv),
                        self.folder / "logs" / f"{name}.log", ready, timeout_s=_READY_S)
        self._daemons[name] = self.stack.enter_context(daemon)
        self._read.setdefault(name, 0)
        if ready:
            daemon.wait_ready()

    def step_charon(self, node: str) -> None:
        """Start charon on a node and load its connections, from the folder of its name."""
        mount_in_memory(self.testbed.node(node).pid, "/run")  # for the pid file
        folder = self.folder / node
        settings = ["env", f"STRONGSWAN_CONF={folder}/strongswan.conf", f"SWANCTL_DIR={folder}"]
        self.step_start(f"charon-{node}", node, [*settings, _CHARON], r"spawning \d+ worker")
        self.step_run(node, [*settings, "swanctl", "--load-all", "--noprompt", "--uri",
                             f"unix:///run/{VICI}"])

    def step_wireguard(self, node: str, private: str, public: str, peer: str, address: str,
                       allowed: str) -> None:
        """Make a WireGuard device on a node, with one peer."""
        end = WireGuardEnd(WireGuardKey(private, ""), address,
                           [WireGuardPeer(public, [allowed], peer)])
        WireGuardTunnels(cast("Site", self), {node: end}).start()

    def step_wait(self, name: str, pattern: str, timeout_s: float) -> None:
        """Wait for a line of a daemon's log, at most for some time. Go on in either case."""
        until = time.monotonic() + timeout_s
        log = self._daemons[name].log
        while time.monotonic() < until:
            text = log.read_bytes()
            if found := re.search(pattern.encode(), text[self._read[name]:]):
                self._read[name] += found.end()
                return
            time.sleep(_LOG_S)

    def step_sleep(self, seconds: float) -> None:
        """Wait for some time."""
        time.sleep(seconds)

    def step_run(self, node: str, argv: Sequence[str]) -> None:
        """Run a command on a node, whether it succeeds or not."""
        done = self.testbed.run_unchecked(node, argv, timeout_s=120.0)
        with (self.folder / "logs" / "commands.log").open("a") as log:
            log.write(f"{node}: {' '.join(argv)}: {done.returncode}\n{done.stdout}{done.stderr}")

    def step_drop(self, node: str, device: str, direction: str, match: Sequence[str],
                  protocol: str = "0x888e", count: int = 0) -> None:
        """Drop frames that a node receives or sends: the first `count` that match, or all."""
        # A dummy interface drops what it gets, and needs no further action of the kernel's.
        for argv in (["ip", "link", "add", _SINK, "type", "dummy"],
                     ["ip", "link", "set", _SINK, "up"],
                     ["tc", "qdisc", "add", "dev", device, "clsact"]):
            self.testbed.run_unchecked(node, argv)  # an earlier step may have made them
        self.testbed.run_command(node, [
            "tc", "filter", "add", "dev", device, direction, "prio", "1", "protocol", protocol,
            "u32", *match, "action", "mirred", "egress", "redirect", "dev", _SINK])
        if count:
            thread = threading.Thread(target=self._end_drop, args=(node, device, direction, count),
                                      daemon=True)
            thread.start()
            self._drops.append(thread)
        else:
            self._lasting.append((node, device, direction))

    def _end_drop(self, node: str, device: str, direction: str, count: int) -> None:
        """Remove a filter when it has dropped `count` frames."""
        while not self._is_over.wait(_COUNTER_S):
            if self._count_dropped(node, device, direction) >= count:
                self.step_pass(node, device, direction)
                return

    def _count_dropped(self, node: str, device: str, direction: str) -> int:
        shown = self.testbed.run_unchecked(
            node, ["tc", "-s", "filter", "show", "dev", device, direction]).stdout
        (self.folder / "logs" / "filters.log").write_text(shown)
        return sum(map(int, _COUNTED.findall(shown)))

    def step_pass(self, node: str, device: str, direction: str) -> None:
        """Stop dropping frames."""
        self.testbed.run_unchecked(node, ["tc", "filter", "del", "dev", device, direction])

    def step_delay(self, node: str, device: str, delay_ms: int,
                   match: Sequence[str] = (), protocol: str = "0x888e") -> None:
        """Delay the frames that a node sends: those that match, or all."""
        parent = ["root"]
        if match:
            self.testbed.run_command(node, [
                "tc", "qdisc", "replace", "dev", device, "root", "handle", "1:", "prio", "bands",
                "2", "priomap", *["0"] * 16])
            self.testbed.run_command(node, [
                "tc", "filter", "add", "dev", device, "parent", "1:", "protocol", protocol,
                "prio", "1", "u32", *match, "flowid", "1:2"])
            parent = ["parent", "1:2"]
        self.testbed.run_command(node, ["tc", "qdisc", "replace", "dev", device, *parent,
                                         "netem", "delay", f"{delay_ms}ms"])

    def step_undelay(self, node: str, device: str) -> None:
        """Stop delaying frames."""
        self.testbed.run_unchecked(node, ["tc", "qdisc", "del", "dev", device, "root"])

    def step_inject(self, node: str, frames: Sequence[str], interval_s: float) -> None:
        """Send frames, given in hex with their 802.11 header, by a node's radio."""
        for frame in frames:
            injection.inject_frame(self.testbed, node, self.testbed.network.nodes[node],
                                   bytes.fromhex(frame))
            time.sleep(interval_s)


def run_trial() -> int:
    """Carry out the trial in a job folder."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "trial.json").read_text())
    for name in ("captures", "logs"):
        (folder / name).mkdir(exist_ok=True)
    subprocess.run(["ip", "link", "set", "hwsim0", "up"], check=True)
    testbed = Testbed(model.from_json(model.Network, job["network"]), None)
    points = [CapturePoint(*point) for point in job["captures"]]
    with ExitStack() as stack:
        stack.enter_context(testbed)
        trial = BlindTrial(testbed, folder, stack)
        for step in job["before"]:
            trial.carry_out(**step)
        with capture_packets(testbed, points, WHOLE, part="trial", out=folder / "captures",
                             logs=folder / "logs", summaries=[]):
            for step in job["steps"]:
                trial.carry_out(**step)
        trial.end_faults()
    return 0


if __name__ == "__main__":
    sys.exit(run_trial())

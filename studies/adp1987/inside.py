"""Workload in the guest: two hosts send a trace over a channel.

A repetition has three phases on one channel. A short phase is captured whole and proves the
protection. Then the trace is replayed in its own time (latency), and as fast as the channel takes
it (throughput). Nothing is judged here. The only third-party packages that it loads are those of
the protocol.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.capture import WHOLE, Detail, Point, capturing, settle_captures
from measure.services.program import HostProgram
from measure.workload import Service, Session, Site
from protocols.adp.host import VERSIONS
from protocols.adp.keys import generate_key
from studies.adp1987 import attacks, traces, unprotected
from studies.adp1987.air import ON_AIR
from studies.adp1987.realtime import IN_REAL_TIME

if TYPE_CHECKING:
    from measure.over_air import OverAir
    from studies.adp1987.realtime.tunnels import Tunnels

PROTOCOL = 253
OWNER = "xena"
OWNERS = {"alpha": ("alice", OWNER), "beta": ("bob",), "mid": ("mallory",)}
_PEERS = {"alpha": "beta", "beta": "alpha", "mid": "beta"}
#: Filter for first fragments. They hold the header of an ADP message, which suffices for counting.
FIRST_FRAGMENTS = f"ip proto {PROTOCOL} and ip[6:2] & 0x1fff == 0"
_HEADERS = Detail(snap_bytes=128, buffer_kib=4096, in_blocks=True)
_IN_FULL = Detail(snap_bytes=WHOLE.snap_bytes, buffer_kib=8192, in_blocks=True)
_RETRY_S = 10.0
#: Duration of a phase (s) above which the wait is reported, in real time and where waiting is
#: skipped.
_LONG_S, _LONG_SKIPPED_S = 10.0, 3600.0


class Workload:
    """The workload: messages from one host to another, each host with one kernel session.

    A site with radios uses `air.workload`, a site with the option `real_time` uses
    `realtime.workload`.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._keys: dict[str, Path] = {}
        self._is_still = False
        self._tunnels = _make_tunnels(site)
        self._air = _make_air(site)
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the services of the air, and the IKE daemons of real-time cells.

        Kernel sessions belong to a repetition, so they are not listed.
        """
        return [*(self._air.services() if self._air else ()),
                *([self._tunnels.charon] if self._tunnels else [])]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Measure one repetition: establish and prove the channel, and replay the trace twice.

        Args:
            task: The cell's task.
            out: Folder of the repetition.
            session: Gets time stamps, raw values and progress reports.

        Raises:
            MeasureError: A program or service fails, or the cell has no such negative control.
        """
        session.raw["captures"] = []
        if self._air is not None:
            from studies.adp1987.air import workload as air

            air.measure_repetition(self._air, HostPrograms(
                self._site, task, out, self._key_folder(task["protocol"], out),
                air.host_nodes(task["scenario"])), session)
            return
        if not self._is_still:
            _silence_hosts(self._site)
            self._is_still = True
        hosts = HostPrograms(self._site, task, out, self._key_folder(task["protocol"], out))
        if self._tunnels:
            from studies.adp1987.realtime import workload as realtime

            realtime.measure_repetition(hosts, self._tunnels, session)
            return
        fault = hosts.fault
        if fault and fault not in unprotected.ON_WIRES:
            attacks.run_attack(fault, hosts,
                               lambda part: self._capture_wire(WHOLE, part, out, session), session)
            return
        self._run_phases(hosts, session)

    def _run_phases(self, hosts: HostPrograms, session: Session) -> None:
        """Run the phases: the first one captured whole, later ones by their heads."""
        fault, out = hosts.fault, hosts.out
        with ExitStack() as stack:
            stack.enter_context(unprotected.remove_wire_rate(fault, self._site))
            receiver = stack.enter_context(hosts.start_program("receiver", "beta"))
            sender = stack.enter_context(hosts.start_program("sender", "alpha", fault=fault))
            with self._capture_wire(WHOLE, "proof", out, session):
                session.stamp("establish")
                sender.run_command("establish")
                if fault == unprotected.SECOND_CHANNEL:
                    sender.run_command("crash")
                    sender.run_command("establish")
                session.stamp("proof")
                hosts.report_wait("proof", session)
                sender.run_command("proof")
                if fault == unprotected.BESIDE:
                    sender.run_command("beside")
            # With full encryption no payload may be visible, so whole frames are captured for the
            # search.
            detail = _IN_FULL if hosts.task["scope"] == "all" else _HEADERS
            with self._capture_wire(detail, "traffic", out, session):
                if fault == unprotected.LATER_CHANNEL:
                    sender.run_command("crash")
                    sender.run_command("establish")
                for phase in hosts.phases[1:]:
                    session.stamp(phase)
                    hosts.report_wait(phase, session)
                    sender.run_command(phase)
                settle_captures()
            session.stamp("end")
            sender.finish()
            receiver.finish()

    @contextmanager
    def _capture_wire(self, detail: Detail, part: str, out: Path,
                      session: Session) -> Iterator[None]:
        # A capture of whole frames also shows packets outside of the channel.
        expression = FIRST_FRAGMENTS if detail is _HEADERS else "ip"
        with capturing(self._site.testbed, [Point("alpha", "alpha", "to-beta", expression)], detail,
                       part=part, out=out, logs=self._site.logs,
                       summaries=session.raw["captures"]):
            yield

    def _key_folder(self, version: str, out: Path) -> Path:
        """Return the folder of the run's owner keys, and copy them for the judge.

        The keys are made once per run. A protocol that is no version of ADP needs none.
        """
        if version not in VERSIONS:
            return out
        if version not in self._keys:
            folder = self._site.mount / f"keys-{version}"
            folder.mkdir(parents=True, exist_ok=True)
            for owners in OWNERS.values():
                for owner in owners:
                    generate_key(version, folder, owner)
            self._keys[version] = folder
        for file in self._keys[version].iterdir():
            shutil.copyfile(file, out / file.name)
        return self._keys[version]


class HostPrograms:
    """The configurations, jobs and programs of a repetition's hosts.

    Their files are in the repetition's folder. `nodes` maps hosts to nodes where their names
    differ.
    """

    def __init__(self, site: Site, task: Mapping[str, Any], out: Path, keys: Path,
                 nodes: Mapping[str, str] | None = None) -> None:
        self.site, self.task, self.out, self.keys = site, task, out, keys
        #: The negative control. A task can name its own, because tests run several in one guest.
        self.fault: str = task.get("fault", site.fault).removesuffix(ON_AIR).removesuffix(
            IN_REAL_TIME)
        self.nodes = nodes or {host: host for host in OWNERS}
        #: Seed of the repetition: each repetition has its own trace, the same one in every run.
        number = out.name.rpartition("-")[2]
        self.seed = task["seed"] * 1000 + (int(number) if number.isdigit() else 0)
        self.phases = ["proof", "latency", *(["throughput"] if task["saturated"] else [])]
        for phase in self.phases:
            count = task[{"proof": "proof_messages", "latency": "paced_messages"}.get(
                phase, "messages")]
            (out / f"{phase}.json").write_text(json.dumps({
                "saturated": phase == "throughput",
                "messages": [(message.at_s, message.bytes, message.urgent)
                             for message in trace_messages(task, self.seed)[:count]]}))

    def write_job(self, role: str, host: str, **changes: Any) -> Path:
        """Write the job of a program and return its path."""
        return self._write_job_file(role, {
            "config": str(self.write_config(host)), "owner": OWNER,
            "work": self.site.devices[self.nodes[host]]["work"], "rsa_bits": self.task["rsa_bits"],
            "wire": self.task["wire"], "stamps": self._stamps_path(host), "peer": _PEERS[host],
            "peer_address": self.address_of(_PEERS[host]),
            "peer_stamps": self._stamps_path(_PEERS[host]), **changes})

    def _write_job_file(self, role: str, job: Mapping[str, Any]) -> Path:
        """Write a job with the entries that all jobs have, and return its path."""
        path = self.out / f"{role}-job.json"
        path.write_text(json.dumps({
            "seed": self.seed, "log": str(self.out / f"{role}.json.gz"),
            "phases": {phase: str(self.out / f"{phase}.json") for phase in self.phases}, **job}))
        return path

    def _stamps_path(self, host: str) -> str:
        """Return the path of the file with a host's times of sending."""
        return str(self.out / f"{host}.stamps")

    def write_config(self, host: str) -> Path:
        """Write a host's ADP configuration into the key folder and return its path.

        A negative control can change settings and key pairs.
        """
        task = self.task
        owners = []
        for place, names in OWNERS.items():
            for owner in names if place in self.nodes else ():
                pair = unprotected.signing_owner(self.fault, host, owner, OWNER)
                owners.append({"name": owner, **(
                    {"private_key": f"{pair}.pem"} if place == host else
                    {"public_key": f"{pair}.pub.pem"})})
        path = self.keys / f"{host}.json"
        path.write_text(json.dumps({
            "protocol": task["protocol"], "host": host,
            "network": {"kind": "ip", "protocol": PROTOCOL}, "owners": owners,
            "hosts": [{"name": place, "address": self.address_of(place), "kernel_owner": names[0]}
                      for place, names in OWNERS.items() if place in self.nodes],
            "scope": task["scope"], "trailer": task["trailer"], "queue": task["queue"],
            "timeout_s": task["timeout_s"],
            "bound_bytes": task["bound_bytes"], "retry_s": _RETRY_S,
            **unprotected.changed_settings(self.fault, host, task)}))
        return path

    def report_wait(self, phase: str, session: Session) -> None:
        """Report that a phase takes long in the time of a user's own trace."""
        lasts_s = self.lasts_s(phase)
        long_s = _LONG_S if self.site.clock == "real" else _LONG_SKIPPED_S
        if self.task["own_trace"] and phase != "throughput" and lasts_s > long_s:
            count = len(json.loads((self.out / f"{phase}.json").read_text())["messages"])
            session.report("waits", what=f"{phase}: {count} messages, which take "
                                         f"{lasts_s / 3600:.2g} h in their own time")

    def lasts_s(self, phase: str) -> float:
        """Return the time of a phase's last message in the trace's own time (s)."""
        last_s: float = json.loads((self.out / f"{phase}.json").read_text())["messages"][-1][0]
        return last_s

    def address_of(self, host: str) -> str:
        """Return the address of a host as its peers know it."""
        return self.site.network.nodes[self.nodes[host]].address

    def start_program(self, role: str, host: str, **changes: Any) -> HostProgram:
        """Start a program of the study on a host.

        Raises:
            MeasureError: The program does not report that it is ready.
        """
        return self._start_module(role, host, role, self.write_job(role, host, **changes))

    def start_carrier(self, role: str, host: str, job: Mapping[str, Any]) -> HostProgram:
        """Start the `realtime` program of a host, which sends or receives the messages.

        Raises:
            MeasureError: The program does not report that it is ready.
        """
        return self._start_module(role, host, "realtime.program", self._write_job_file(role, {
            "role": role, "protocol": self.task["protocol"], **job}))

    def _start_module(self, role: str, host: str, module: str, job: Path) -> HostProgram:
        argv = [sys.executable, "-m", f"studies.adp1987.{module}", str(job)]
        return HostProgram(role, self.site.testbed.node_command(self.nodes[host], argv),
                           self.site.log_path(role, host))


def _make_tunnels(site: Site) -> Tunnels | None:
    """Return the tunnels of a real-time site, None for others.

    Their libraries are loaded only for real-time sites.
    """
    if not site.options.get("real_time"):
        return None
    from studies.adp1987.realtime.tunnels import Tunnels

    return Tunnels(site)


def _make_air(site: Site) -> OverAir | None:
    """Return the helper that connects hosts by radio, None for sites without radios."""
    if not site.network.has_radios:
        return None
    from measure.over_air import OverAir

    return OverAir(site)


def _silence_hosts(site: Site) -> None:
    """Keep the two hosts silent: static neighbour entries and no IPv6."""
    testbed, nodes = site.testbed, site.network.nodes
    ends = {"alpha": "to-beta", "beta": "to-alpha"}
    for host, port in ends.items():
        peer = _PEERS[host]
        mac = testbed.run_command(peer, ["cat", f"/sys/class/net/{ends[peer]}/address"]).strip()
        testbed.run_command(host, ["sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1"])
        testbed.run_command(host, ["ip", "neigh", "replace", nodes[peer].address, "lladdr", mac,
                                   "dev", port, "nud", "permanent"])


def trace_messages(task: Mapping[str, Any], seed: int) -> list[traces.TraceMessage]:
    """Return the trace of a repetition at the cell's rate, generated or the user's own."""
    if task["own_trace"]:
        return [traces.TraceMessage(at_s / task["rate"], size, urgent)
                for at_s, size, urgent in task["own_trace"]]
    return traces.generate_trace(task["trace"], task["messages"], seed, urgent=task["urgent"],
                                 load=task["rate"])

"""The study's part inside the machine: two hosts, a channel between them, a trace over it.

A repetition has three phases on one channel: a short one that is captured whole and proves what is
protected, the trace in its own time (latency), and the trace as fast as it is taken (throughput).
Nothing is judged here. Standard library and the protocol only.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.capture import WHOLE, Detail, Point, capturing, settle
from measure.services.program import HostProgram
from measure.workload import Service, Session, Site
from protocols.adp.host import VERSIONS
from protocols.adp.keys import generate
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
#: First fragments, which hold the frame's header: enough to count by.
FIRST_FRAGMENTS = f"ip proto {PROTOCOL} and ip[6:2] & 0x1fff == 0"
_HEADERS = Detail(snap_bytes=128, buffer_kib=4096, in_blocks=True)
_IN_FULL = Detail(snap_bytes=WHOLE.snap_bytes, buffer_kib=8192, in_blocks=True)
_RETRY_S = 10.0
#: From when on a wait for a trace's own time is reported (s): in real time, and where it is
#: skipped.
_LONG_S, _LONG_SKIPPED_S = 10.0, 3600.0


class Workload:
    """Two hosts of a kernel session each, and messages from one to the other."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._keys: dict[str, Path] = {}
        self._is_still = False
        self._tunnels = _tunnels(site)
        self._air = _over_air(site)
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """What the air takes, and the IKE daemons where tunnels are measured beside.

        Kernel sessions are a repetition's.
        """
        return [*(self._air.services() if self._air else ()),
                *([self._tunnels.charon] if self._tunnels else [])]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Establish, prove, replay twice."""
        session.raw["captures"] = []
        if self._air is not None:
            from studies.adp1987.air import workload as air

            air.measure(self._air, HostPrograms(
                self._site, task, out, self._key_folder(task["protocol"], out),
                air.nodes(task["scenario"])), session)
            return
        if not self._is_still:
            _quiet(self._site)
            self._is_still = True
        hosts = HostPrograms(self._site, task, out, self._key_folder(task["protocol"], out))
        if self._tunnels:
            from studies.adp1987.realtime import workload as realtime

            realtime.measure(hosts, self._tunnels, session)
            return
        fault = hosts.fault
        if fault and fault not in unprotected.ON_WIRES:
            attacks.run(fault, hosts,
                        lambda part: self._captured(WHOLE, part, out, session), session)
            return
        self._phases(hosts, session)

    def _phases(self, hosts: HostPrograms, session: Session) -> None:
        """A short phase captured whole, and the others by their heads."""
        fault, out = hosts.fault, hosts.out
        with ExitStack() as stack:
            stack.enter_context(unprotected.wire(fault, self._site))
            receiver = stack.enter_context(hosts.program("receiver", "beta"))
            sender = stack.enter_context(hosts.program("sender", "alpha", fault=fault))
            with self._captured(WHOLE, "proof", out, session):
                session.stamp("establish")
                sender.do("establish")
                if fault == unprotected.SECOND_CHANNEL:
                    sender.do("crash")
                    sender.do("establish")
                session.stamp("proof")
                hosts.say_wait("proof", session)
                sender.do("proof")
                if fault == unprotected.BESIDE:
                    sender.do("beside")
            # Where nothing may show, all of each frame is kept, to be searched.
            detail = _IN_FULL if hosts.task["scope"] == "all" else _HEADERS
            with self._captured(detail, "traffic", out, session):
                if fault == unprotected.LATER_CHANNEL:
                    sender.do("crash")
                    sender.do("establish")
                for phase in hosts.phases[1:]:
                    session.stamp(phase)
                    hosts.say_wait(phase, session)
                    sender.do(phase)
                settle()
            session.stamp("end")
            sender.end()
            receiver.end()

    @contextmanager
    def _captured(self, detail: Detail, part: str, out: Path, session: Session) -> Iterator[None]:
        # What is captured whole shows what goes beside, too.
        expression = FIRST_FRAGMENTS if detail is _HEADERS else "ip"
        with capturing(self._site.testbed, [Point("alpha", "alpha", "to-beta", expression)], detail,
                       part=part, out=out, logs=self._site.logs,
                       summaries=session.raw["captures"]):
            yield

    def _key_folder(self, version: str, out: Path) -> Path:
        """The owners' keys of this run, made once, with a copy for whoever judges.

        What is no version of the protocol needs none.
        """
        if version not in VERSIONS:
            return out
        if version not in self._keys:
            folder = self._site.mount / f"keys-{version}"
            folder.mkdir(parents=True, exist_ok=True)
            for owners in OWNERS.values():
                for owner in owners:
                    generate(version, folder, owner)
            self._keys[version] = folder
        for file in self._keys[version].iterdir():
            shutil.copyfile(file, out / file.name)
        return self._keys[version]


class HostPrograms:
    """Configurations and jobs of a repetition's hosts, as files in its folder.

    `nodes` says which node each host is, where they are not called the same.
    """

    def __init__(self, site: Site, task: Mapping[str, Any], out: Path, keys: Path,
                 nodes: Mapping[str, str] | None = None) -> None:
        self.site, self.task, self.out, self.keys = site, task, out, keys
        #: A task may have a control of its own: tests have several in one machine.
        self.fault: str = task.get("fault", site.fault).removesuffix(ON_AIR).removesuffix(
            IN_REAL_TIME)
        self.nodes = nodes or {host: host for host in OWNERS}
        #: Of the repetition: each has a trace of its own, and the same one each time.
        number = out.name.rpartition("-")[2]
        self.seed = task["seed"] * 1000 + (int(number) if number.isdigit() else 0)
        self.phases = ["proof", "latency", *(["throughput"] if task["saturated"] else [])]
        for phase in self.phases:
            count = task[{"proof": "proof_messages", "latency": "paced_messages"}.get(
                phase, "messages")]
            (out / f"{phase}.json").write_text(json.dumps({
                "saturated": phase == "throughput",
                "messages": [(message.at_s, message.bytes, message.urgent)
                             for message in messages(task, self.seed)[:count]]}))

    def job(self, role: str, host: str, **changes: Any) -> Path:
        """What a program is told."""
        return self._written(role, {
            "config": str(self.config(host)), "owner": OWNER,
            "work": self.site.devices[self.nodes[host]]["work"], "rsa_bits": self.task["rsa_bits"],
            "wire": self.task["wire"], "stamps": self._stamps(host), "peer": _PEERS[host],
            "peer_address": self.address(_PEERS[host]),
            "peer_stamps": self._stamps(_PEERS[host]), **changes})

    def _written(self, role: str, job: Mapping[str, Any]) -> Path:
        """A job, with what all have in it."""
        path = self.out / f"{role}-job.json"
        path.write_text(json.dumps({
            "seed": self.seed, "log": str(self.out / f"{role}.json.gz"),
            "phases": {phase: str(self.out / f"{phase}.json") for phase in self.phases}, **job}))
        return path

    def _stamps(self, host: str) -> str:
        """Where a host says when it sent what."""
        return str(self.out / f"{host}.stamps")

    def config(self, host: str) -> Path:
        """A host's configuration, beside the keys, but for what a control has otherwise."""
        task = self.task
        owners = []
        for place, names in OWNERS.items():
            for owner in names if place in self.nodes else ():
                pair = unprotected.signs_as(self.fault, host, owner, OWNER)
                owners.append({"name": owner, **(
                    {"private_key": f"{pair}.pem"} if place == host else
                    {"public_key": f"{pair}.pub.pem"})})
        path = self.keys / f"{host}.json"
        path.write_text(json.dumps({
            "protocol": task["protocol"], "host": host,
            "network": {"kind": "ip", "protocol": PROTOCOL}, "owners": owners,
            "hosts": [{"name": place, "address": self.address(place), "kernel_owner": names[0]}
                      for place, names in OWNERS.items() if place in self.nodes],
            "scope": task["scope"], "trailer": task["trailer"], "queue": task["queue"],
            "timeout_s": task["timeout_s"],
            "bound_bytes": task["bound_bytes"], "retry_s": _RETRY_S,
            **unprotected.settings(self.fault, host, task)}))
        return path

    def say_wait(self, phase: str, session: Session) -> None:
        """Report that a phase goes in the time of a user's own trace, if that takes long."""
        lasts_s = self.lasts_s(phase)
        long_s = _LONG_S if self.site.clock == "real" else _LONG_SKIPPED_S
        if self.task["own_trace"] and phase != "throughput" and lasts_s > long_s:
            count = len(json.loads((self.out / f"{phase}.json").read_text())["messages"])
            session.report("waits", what=f"{phase}: {count} messages, which take "
                                         f"{lasts_s / 3600:.2g} h in their own time")

    def lasts_s(self, phase: str) -> float:
        """From a phase's first message to its last, in the trace's own time."""
        last_s: float = json.loads((self.out / f"{phase}.json").read_text())["messages"][-1][0]
        return last_s

    def address(self, host: str) -> str:
        """Of a host, as the others know it."""
        return self.site.network.nodes[self.nodes[host]].address

    def program(self, role: str, host: str, **changes: Any) -> HostProgram:
        """A program of the study's on a host."""
        return self._program(role, host, role, self.job(role, host, **changes))

    def carrying(self, role: str, host: str, job: Mapping[str, Any]) -> HostProgram:
        """The program of `realtime` on a host: it hands messages over, or takes them."""
        return self._program(role, host, "realtime.program", self._written(role, {
            "role": role, "protocol": self.task["protocol"], **job}))

    def _program(self, role: str, host: str, module: str, job: Path) -> HostProgram:
        argv = [sys.executable, "-m", f"studies.adp1987.{module}", str(job)]
        return HostProgram(role, self.site.testbed.command(self.nodes[host], argv),
                           self.site.log(role, host))


def _tunnels(site: Site) -> Tunnels | None:
    """What is below the messages in real time; without that, its libraries are not even loaded."""
    if not site.options.get("real_time"):
        return None
    from studies.adp1987.realtime.tunnels import Tunnels

    return Tunnels(site)


def _over_air(site: Site) -> OverAir | None:
    """What gets hosts onto a network with radios, loaded where there are some."""
    if not site.network.has_radios:
        return None
    from measure.over_air import OverAir

    return OverAir(site)


def _quiet(site: Site) -> None:
    """Have the two hosts send nothing of their own: each knows the other, and has no IPv6."""
    testbed, nodes = site.testbed, site.network.nodes
    ends = {"alpha": "to-beta", "beta": "to-alpha"}
    for host, port in ends.items():
        peer = _PEERS[host]
        mac = testbed.run(peer, ["cat", f"/sys/class/net/{ends[peer]}/address"]).strip()
        testbed.run(host, ["sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1"])
        testbed.run(host, ["ip", "neigh", "replace", nodes[peer].address, "lladdr", mac,
                           "dev", port, "nud", "permanent"])


def messages(task: Mapping[str, Any], seed: int) -> list[traces.TraceMessage]:
    """The trace of a repetition: made here, or the user's own, at the cell's rate."""
    if task["own_trace"]:
        return [traces.TraceMessage(at_s / task["rate"], size, urgent)
                for at_s, size, urgent in task["own_trace"]]
    return traces.generate(task["trace"], task["messages"], seed, urgent=task["urgent"],
                           load=task["rate"])

"""Send messages between two hosts through ADP in the guest, and capture the packets.

ADP is the Authenticated Datagram Protocol of 1987. The guest is the virtual machine of the test
network. `Workload.measure` runs one measurement (repetition) with three phases on one channel:

- `proof`: a few messages, which are captured with all bytes, for the checks.
- `latency`: a list of messages (trace), each at its own time.
- `throughput`: the trace as fast as possible. Each message is sent as soon as the one before is
  taken.

Captures and logs are evaluated outside of the guest.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.agent.workload import Service, Session, Site
from measure.capture.tcpdump import (
    WHOLE,
    CaptureDetail,
    CapturePoint,
    capture_packets,
    settle_captures,
)
from measure.services.programs import HostProgram
from protocols.adp.host import VERSIONS
from protocols.adp.keys import generate_key
from studies.adp1987 import fault_injection, traces
from studies.adp1987.fault_injection import AIR_SUFFIX, REALTIME_SUFFIX

if TYPE_CHECKING:
    from measure.mobile_node.attachment import WirelessAccess
    from studies.adp1987.realtime_workload import Tunnels

PROTOCOL = 253
OWNER = "xena"
OWNERS = {"alpha": ("alice", OWNER), "beta": ("bob",), "mid": ("mallory",)}
_PEERS = {"alpha": "beta", "beta": "alpha", "mid": "beta"}
#: Filter for first fragments. They hold the header of an ADP message, which suffices for counting.
FIRST_FRAGMENTS = f"ip proto {PROTOCOL} and ip[6:2] & 0x1fff == 0"
_HEADERS = CaptureDetail(snap_bytes=128, buffer_kib=4096, in_blocks=True)
_IN_FULL = CaptureDetail(snap_bytes=WHOLE.snap_bytes, buffer_kib=8192, in_blocks=True)
_RETRY_S = 10.0
#: Duration of a phase (s) above which the wait is reported, in real time and where waiting is
#: skipped.
_LONG_S, _LONG_SKIPPED_S = 10.0, 3600.0


class Workload:
    """A workload: send messages from one host to another, in one of three ways.

    - over Ethernet, on modelled processors of 1987 (in this module)
    - over the air (`air_workload`)
    - over Ethernet in real time, without models, to compare ADP with other protocols
      (`realtime_workload`)
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._keys: dict[str, Path] = {}
        self._is_still = False
        self._tunnels = _make_tunnels(site)
        self._air = _make_air(site)
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the services to start: the services of the air, and IKE daemons for real-time ESP.

        The ADP hosts are not among them, because each repetition starts its own.
        """
        return [*(self._air.list_services() if self._air else ()),
                *([self._tunnels.charon] if self._tunnels else [])]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Run one repetition: set up the channel, and send messages in three phases.

        Args:
            task: instructions for the repetition, as `Adp1987.task` returns them.
            out: folder of the repetition, which gets captures and logs.
            session: gets time stamps, raw values and progress reports.

        Raises:
            MeasureError: a program or service fails, or the injected fault does not exist here.
        """
        session.raw["captures"] = []
        if self._air is not None:
            from studies.adp1987 import air_workload as air

            air.measure_repetition(self._air, HostPrograms(
                self._site, task, out, self._key_folder(task["protocol"], out),
                air.host_nodes(task["scenario"])), session)
            return
        if not self._is_still:
            _silence_hosts(self._site)
            self._is_still = True
        hosts = HostPrograms(self._site, task, out, self._key_folder(task["protocol"], out))
        if self._tunnels:
            from studies.adp1987 import realtime_workload as realtime

            realtime.measure_repetition(hosts, self._tunnels, session)
            return
        fault = hosts.fault
        if fault and fault not in fault_injection.WIRE_FAULTS:
            fault_injection.run_attack(fault, hosts,
                                       lambda part: self._capture_wire(WHOLE, part, out, session),
                                       session)
            return
        self._run_phases(hosts, session)

    def _run_phases(self, hosts: HostPrograms, session: Session) -> None:
        """Run the phases. The first is captured with all bytes, later ones with headers only."""
        fault, out = hosts.fault, hosts.out
        with ExitStack() as stack:
            stack.enter_context(fault_injection.remove_wire_rate(fault, self._site))
            receiver = stack.enter_context(hosts.start_program("receiver", "beta"))
            sender = stack.enter_context(hosts.start_program("sender", "alpha", fault=fault))
            with self._capture_wire(WHOLE, "proof", out, session):
                session.stamp("establish")
                sender.run_command("establish")
                if fault == fault_injection.SECOND_CHANNEL:
                    sender.run_command("crash")
                    sender.run_command("establish")
                session.stamp("proof")
                hosts.report_wait("proof", session)
                sender.run_command("proof")
                if fault == fault_injection.BESIDE_WIRE:
                    sender.run_command("beside")
            # With full encryption no payload may be visible, so whole frames are captured for the
            # search.
            detail = _IN_FULL if hosts.task["scope"] == "all" else _HEADERS
            with self._capture_wire(detail, "traffic", out, session):
                if fault == fault_injection.LATER_CHANNEL:
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
    def _capture_wire(self, detail: CaptureDetail, part: str, out: Path,
                      session: Session) -> Iterator[None]:
        # A capture of whole frames also shows packets outside of the channel.
        expression = FIRST_FRAGMENTS if detail is _HEADERS else "ip"
        with capture_packets(self._site.testbed,
                             [CapturePoint("alpha", "alpha", "to-beta", expression)], detail,
                             part=part, out=out, logs=self._site.logs,
                             summaries=session.raw["captures"]):
            yield

    def _key_folder(self, version: str, out: Path) -> Path:
        """Return the folder with the users' keys, and copy them to the repetition's folder.

        Keys are created once per run. A protocol other than ADP needs none.
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
    """The programs of a repetition's hosts, with their configuration files.

    The files are in the repetition's folder. `nodes` maps hosts to nodes of the network if their
    names differ.
    """

    def __init__(self, site: Site, task: Mapping[str, Any], out: Path, keys: Path,
                 nodes: Mapping[str, str] | None = None) -> None:
        self.site, self.task, self.out, self.keys = site, task, out, keys
        #: The negative control. A task can name its own, because tests run several in one guest.
        self.fault: str = task.get("fault", site.fault).removesuffix(AIR_SUFFIX).removesuffix(
            REALTIME_SUFFIX)
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
        """Write the configuration file of a program, and return its path."""
        return self._write_job_file(role, {
            "config": str(self.write_config(host)), "owner": OWNER,
            "work": self.site.devices[self.nodes[host]]["work"], "rsa_bits": self.task["rsa_bits"],
            "wire": self.task["wire"], "stamps": self._stamps_path(host), "peer": _PEERS[host],
            "peer_address": self.address_of(_PEERS[host]),
            "peer_stamps": self._stamps_path(_PEERS[host]), **changes})

    def _write_job_file(self, role: str, job: Mapping[str, Any]) -> Path:
        """Write a configuration file with the entries of all programs, and return its path."""
        path = self.out / f"{role}-job.json"
        path.write_text(json.dumps({
            "seed": self.seed, "log": str(self.out / f"{role}.json.gz"),
            "phases": {phase: str(self.out / f"{phase}.json") for phase in self.phases}, **job}))
        return path

    def _stamps_path(self, host: str) -> str:
        """Return the path of the file with the times at which a host sent datagrams."""
        return str(self.out / f"{host}.stamps")

    def write_config(self, host: str) -> Path:
        """Write a host's ADP configuration into the key folder, and return its path.

        An injected fault may change settings and key pairs.
        """
        task = self.task
        owners = []
        for place, names in OWNERS.items():
            for owner in names if place in self.nodes else ():
                pair = fault_injection.signing_owner(self.fault, host, owner, OWNER)
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
            **fault_injection.changed_settings(self.fault, host, task)}))
        return path

    def report_wait(self, phase: str, session: Session) -> None:
        """Report progress if a phase takes long, because a user's own trace has long pauses."""
        lasts_s = self.lasts_s(phase)
        long_s = _LONG_S if self.site.clock == "real" else _LONG_SKIPPED_S
        if self.task["own_trace"] and phase != "throughput" and lasts_s > long_s:
            count = len(json.loads((self.out / f"{phase}.json").read_text())["messages"])
            session.report("waits", what=f"{phase}: {count} messages, which take "
                           f"{lasts_s / 3600:.2g} h in their own time")

    def lasts_s(self, phase: str) -> float:
        """Return the time of a phase's last message (s), in a trace at its own times."""
        last_s: float = json.loads((self.out / f"{phase}.json").read_text())["messages"][-1][0]
        return last_s

    def address_of(self, host: str) -> str:
        """Return the IP address by which other hosts know a host."""
        return self.site.network.nodes[self.nodes[host]].address

    def start_program(self, role: str, host: str, **changes: Any) -> HostProgram:
        """Start a program of the study on a host.

        Raises:
            MeasureError: the program does not report that it is ready.
        """
        return self._start_module(role, host, role, self.write_job(role, host, **changes))

    def start_carrier(self, role: str, host: str, job: Mapping[str, Any]) -> HostProgram:
        """Start the program `realtime` on a host, which sends or receives the messages.

        Raises:
            MeasureError: the program does not report that it is ready.
        """
        return self._start_module(role, host, "realtime", self._write_job_file(role, {
            "role": role, "protocol": self.task["protocol"], **job}))

    def _start_module(self, role: str, host: str, module: str, job: Path) -> HostProgram:
        argv = [sys.executable, "-m", f"studies.adp1987.programs.{module}", str(job)]
        return HostProgram(role, self.site.testbed.node_command(self.nodes[host], argv),
                           self.site.log_path(role, host))


def _make_tunnels(site: Site) -> Tunnels | None:
    """Return the WireGuard, IPsec and MACsec tunnels of real-time measurements, else None.

    Measurements in virtual time have no tunnels. The libraries of the tunnels are loaded only if
    they are needed.
    """
    if not site.options.get("real_time"):
        return None
    from studies.adp1987.realtime_workload import Tunnels

    return Tunnels(site)


def _make_air(site: Site) -> WirelessAccess | None:
    """Return the object that connects hosts by radio, or None for networks without radios."""
    if not site.network.has_radios:
        return None
    from measure.mobile_node.attachment import WirelessAccess

    return WirelessAccess(site)


def _silence_hosts(site: Site) -> None:
    """Keep the two hosts from sending ARP and IPv6 packets, by static neighbour entries."""
    testbed, nodes = site.testbed, site.network.nodes
    ends = {"alpha": "to-beta", "beta": "to-alpha"}
    for host, port in ends.items():
        peer = _PEERS[host]
        mac = testbed.run_command(peer, ["cat", f"/sys/class/net/{ends[peer]}/address"]).strip()
        testbed.run_command(host, ["sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1"])
        testbed.run_command(host, ["ip", "neigh", "replace", nodes[peer].address, "lladdr", mac,
                                   "dev", port, "nud", "permanent"])


def trace_messages(task: Mapping[str, Any], seed: int) -> list[traces.TraceMessage]:
    """Return the messages of a repetition: a generated trace, or the user's own."""
    if task["own_trace"]:
        return [traces.TraceMessage(at_s / task["rate"], size, urgent)
                for at_s, size, urgent in task["own_trace"]]
    return traces.generate_trace(task["trace"], task["messages"], seed, urgent=task["urgent"],
                                 load=task["rate"])

"""Run a server that streams signed video to its clients in the guest, and capture the packets.

The guest is the virtual machine of the test network. `Workload.measure` runs one measurement
(repetition) with the programs of `protocols.authenticast`. Packets are captured at server and
clients, and evaluated outside of the guest. Each test network makes its own keys, and private keys
stay in the guest. Over the air, a scenario's peer is the server and its mobile node the client.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.kernel_state import set_neighbours
from measure.agent.process import Daemon
from measure.agent.workload import Service, Session, Site
from measure.capture import tcpdump
from measure.capture.tcpdump import CaptureDetail, CapturePoint, capture_packets, settle_captures
from measure.mobile_node.attachment import AttachedNode, WirelessAccess
from measure.services.programs import Launcher, program_environment
from protocols.authenticast import crypto
from protocols.authenticast.settings import Algorithm
from studies.authenticast1998 import fault_injection, programs
from studies.authenticast1998.thermostat.readings import StreamReporter
from topologies.model import Scenario, from_json

_READY = r'"event": "ready"'
#: Captures of whole packets at the clients, and of headers at the server, which identify packets
#: and their addresses.
_WHOLE = CaptureDetail(snap_bytes=4096, buffer_kib=2048, in_blocks=True)
_HEADERS = CaptureDetail(snap_bytes=192, buffer_kib=2048, in_blocks=True)
#: A stream on processors of 1998 may take this many times its own length.
_SLOWER = 8.0
#: Time that it may take in addition (s).
_SPARE_S = 60.0
#: Deadline (s) where clients know another server key and wait in vain.
_NO_ANSWER_S = 10.0
_SECOND_NS = 1_000_000_000
#: Time between the starts of two programs, the server first (ns).
_APART_NS = 50_000_000
#: Tick of virtual time (ns).
_TICK_NS = 256
#: Beacon interval of 102.4 ms (ns).
_BEACONS_NS = 102_400_000
#: Time of a start after a beacon (ns). With it, no beacon comes within 0.1 ms of a step of 1 ms.
_AFTER_BEACON_NS = 50_100_000
#: The guest's kernel has a tick every 10 ms. Ticks and beacons are multiples of their periods since
#: its start, so that they coincide regularly.
_COINCIDE_NS = math.lcm(_BEACONS_NS, 10_000_000)
#: Lead (s) with which the captures of a move are started.
_READY_TO_MOVE_S = 0.3
#: Time (s) after which a mobile node has surely arrived in the visited network.
_MOVED_S = 0.25
#: Rules of the program in the middle of the wire, by negative control.
_RULES: Mapping[str, Mapping[str, Any]] = {
    "tampered-packet": {"tampered_one_in": 50}, "replayed-packet": {"replayed_one_in": 50},
    "downgraded-algorithm": {"downgraded_one_in": 50}, "forged-report": {"forges": True}}


class Workload:
    """A workload: run a server and its clients, and an attacker on the wire where requested."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._testbed = site.testbed
        self._folder = site.run_folder("server")
        #: Node that plays each part of a repetition.
        self._nodes: dict[str, str] = {}
        self._launcher = Launcher(site, programs.programs_of(site.fault))
        self._public: dict[str, str] = {}
        #: Live pages and commands take wall-clock time, which virtual time does not have.
        self._is_watched = site.clock == "real"
        #: Keys of the server. A user on a live page can change the algorithm, so it then has two.
        self._signers = ("server", "server-rsa") if self._is_watched else ("server",)
        self._air = WirelessAccess(site, repeatable=site.clock == "virtual") \
            if site.network.has_radios else None
        if self._air is None:
            set_neighbours(self._testbed)
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the services that start programs on nodes, and those that the air needs."""
        return [*(self._air.list_services() if self._air else ()), self._launcher]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Run one repetition: the streams of all clients, from handshake to end.

        Args:
            task: the combination of factors and settings, as `Authenticast1998.task` returns them.
            out: folder of the repetition, which gets captures, logs and lists of packets.
            session: raw values and time stamps of the repetition.

        Raises:
            MeasureError: a program failed, or wrote something else than events.
        """
        names = [f"c{number}" for number in range(1, int(task["clients"]) + 1)]
        self._make_keys([*self._signers, *names])
        scenario: Scenario | None = from_json(Scenario, task["scenario"]) \
            if task["scenario"] else None
        self._nodes = {"server": scenario.peer, names[0]: scenario.mobile_node} if scenario \
            else {name: name for name in ("server", *names)}
        raw = session.raw
        # The folder's name ends in the number of the repetition, which is also its block. The seed
        # is per block, so that cells of one block are paired.
        seed = task["asked"]["first_seed"] + int(out.name.rpartition("-")[2]) - 1
        raw |= {"captures": [], "seed": seed,
                "keys": {"server": "".join(self._public[name] for name in self._signers),
                         **{name: self._public[name] for name in names}},
                "addresses": {name: self._address_of(name) for name in ("server", *names)}}
        session.stamp("start")
        with ExitStack() as stack:
            logs = {name: out / f"{name}.jsonl" for name in ("server", *names)}
            stay = stack.enter_context(self._air.attach_node(
                scenario, out, session, has_port=task["has_port"])) \
                if self._air and scenario else None
            for part, who, detail in (("whole", names, _WHOLE), ("heads", ["server"], _HEADERS)):
                points = [self._capture_point(name) for name in who]
                stack.enter_context(capture_packets(
                    self._testbed, points, detail, part=part, out=out, logs=self._site.logs,
                    summaries=raw["captures"]))
            raw["middle"] = stack.enter_context(self._running_middle(task, seed, out))
            if self._air and scenario and self._site.fault == programs.AROUND_THE_TUNNEL:
                self._air.bypass_tunnel(
                    scenario, ["proto", "udp", "dport", str(programs.DATA_PORT)])
            before = self._kernel_drops(names)
            self._run_streams(task, seed, logs, session, stay)
            raw["kernel_drops"] = {name: count - before[name]
                                   for name, count in self._kernel_drops(names).items()}
            settle_captures()
        session.stamp("end")
        raw["events"] = {name: _read_events(log) for name, log in logs.items()}

    # --- programs ----------------------------------------------------------------------------

    def _capture_point(self, name: str) -> CapturePoint:
        """Return where packets are captured at the server or at a client.

        On the air, packets that the node sends through a tunnel appear as ESP only.
        """
        node = self._testbed.network.nodes[self._nodes[name]]
        shown = f"udp and ({' or '.join(f'port {port}' for port in programs.PORTS)})"
        return CapturePoint(name, self._nodes[name], node.interface_of(node.address),
                            f"({shown}) or (esp and src host {node.address})" if self._air
                            else "udp")

    def _run_streams(self, task: Mapping[str, Any], seed: int, logs: Mapping[str, Path],
                     session: Session, connection: AttachedNode | None) -> None:
        """Start the server and the clients, and wait until the clients end.

        If the scenario has a handoff, the mobile node moves in the middle of the stream.
        """
        clients = [name for name in logs if name != "server"]
        begin_ns = self._begin_ns()
        lines = programs.rotate_trace(
            task["trace"] or programs.TRACE.read_text().split(), task["asked"]["frames"], seed)
        lasts_s = programs.duration_s(task, lines)
        documents = self._build_configurations(task, seed, clients, logs["server"].parent, lines)
        if self._site.clock == "virtual":
            for document in documents.values():
                document["clock"] = programs.virtual_clock(begin_ns)
        is_stranger = self._site.fault == "wrong-server-key"
        deadline_s = _NO_ANSWER_S if is_stranger else (
            _SPARE_S + _SLOWER * lasts_s)
        with ExitStack() as stack:
            for place, (name, document) in enumerate(documents.items()):
                stack.enter_context(self._launcher.run_program(
                    "serve" if name == "server" else "receive", self._nodes[name], document,
                    logs[name], at_ns=begin_ns + place * _APART_NS,
                    listens=self._is_watched and name != "server"))
            if self._air:
                # From here on the seed alone decides the backoffs on the air, however long
                # connecting took.
                time.sleep(max(0.0, (begin_ns - programs.STEP_NS - time.monotonic_ns()) / 1e9))
                self._testbed.reseed_backoffs("stream")
            half_s = begin_ns / 1e9 + lasts_s / 2
            move = None
            if connection is not None and connection.has_pending_move:
                move = connection.move_away
            if self._is_watched:
                StreamReporter(self._launcher, session, logs, {
                    name: documents[name] for name in clients}, self._nodes).report_until_end(
                    deadline_s, half_s, move)
                return
            if move is not None:
                time.sleep(max(0.0, half_s - _READY_TO_MOVE_S - time.monotonic()))
                move(half_s)
                if self._site.clock == "virtual":
                    # Restart the random numbers of the backoffs: the number of frames during the
                    # handoff varies.
                    time.sleep(max(0.0, half_s + _MOVED_S - time.monotonic()))
                    self._testbed.reseed_backoffs("moved")
            for name in clients:
                self._launcher.wait_ended(self._nodes[name], deadline_s)

    def _begin_ns(self) -> int:
        """Return the start time (ns) of the streams, which has a fixed distance from clock ticks.

        Virtual time advances in ticks of the kernel. From a tick on, sleeps are rounded equally in
        every run. On the air, the start also has a fixed distance from a beacon that coincides with
        a tick. The time of that beacon is calculated, because a measured one would vary by some
        microseconds.
        """
        if self._air is None:
            now_ns = time.monotonic_ns()
            begin_ns = (now_ns // _SECOND_NS + 2) * _SECOND_NS
        else:
            beacon_ns, now_ns = tcpdump.wait_beacon_ns(self._site.testbed), time.monotonic_ns()
            if self._site.clock == "virtual":
                beacon_ns = now_ns - now_ns % _COINCIDE_NS + _COINCIDE_NS
            begin_ns = beacon_ns + 20 * _BEACONS_NS + _AFTER_BEACON_NS
        return begin_ns - begin_ns % _TICK_NS + now_ns % _TICK_NS

    def _build_configurations(self, task: Mapping[str, Any], seed: int, clients: list[str],
                              out: Path, lines: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the configurations of all programs by node, the server first."""
        trace = self._folder / "trace.csv"
        trace.write_text("".join(f"{line}\n" for line in lines))
        address = self._address_of("server")
        server = programs.server_configuration(
            task, self._site.devices[self._nodes["server"]], trace=trace, clients=clients,
            address=address, keys=self._folder, seed=seed)
        documents = {"server": server} | {name: programs.client_configuration(
            task, self._site.devices[self._nodes[name]], name=name, address=self._address_of(name),
            server_address=address, keys=self._folder, series=out / f"{name}.csv",
            seed=1000 * seed + place) for place, name in enumerate(clients, 1)}
        programs.set_signing_keys(documents, self._folder, self._signers)
        if self._site.fault == "wrong-server-key":
            self._make_keys(["stranger"])
            server["keys"] = [str(self._folder / "stranger.pem")]
        if self._site.fault == programs.IGNORED_RANGE:
            for name in clients:
                documents[name]["range"] = fault_injection.PERMITTED_RANGE
        return documents

    @contextmanager
    def _running_middle(self, task: Mapping[str, Any], seed: int,
                        out: Path) -> Iterator[dict[str, Any]]:
        """Replace the router by the program that alters packets, if the repetition needs it."""
        rules = {name: task["load"][name] for name in ("loss", "tampered_one_in", "flooded_one_in")
                 if task["load"][name]}
        rules |= _RULES.get(self._site.fault, {})
        if not rules:
            yield {}
            return
        file, log = self._folder / "middle.json", out / "middle.jsonl"
        file.write_text(json.dumps({**rules, "seed": seed}))
        argv = self._testbed.node_command("router", [
            sys.executable, "-m", "studies.authenticast1998.altering_router", str(file)])
        self._set_forwarding(by_kernel=False)
        try:
            with Daemon("middle", argv, log, _READY, env=program_environment()) as daemon:
                daemon.wait_ready()
                yield rules
        finally:
            self._set_forwarding(by_kernel=True)

    def _set_forwarding(self, *, by_kernel: bool) -> None:
        self._testbed.run_command("router",
                                  ["sysctl", "-qw", f"net.ipv4.ip_forward={int(by_kernel)}"])

    # --- helpers -----------------------------------------------------------------------------

    def _make_keys(self, names: Sequence[str]) -> None:
        """Create missing key pairs: DSA or RSA for servers, Ed25519 for clients."""
        for name in names:
            if name in self._public:
                continue
            algorithm = Algorithm.ED25519 if name.startswith("c") else \
                Algorithm.RSA if name.endswith("rsa") else Algorithm.DSA
            key = crypto.generate_key(algorithm)
            (self._folder / f"{name}.pem").write_bytes(key.to_pem())
            (self._folder / f"{name}.pub.pem").write_bytes(key.public.to_pem())
            self._public[name] = key.public.to_pem().decode()

    def _address_of(self, name: str) -> str:
        return self._site.network.nodes[self._nodes[name]].address

    def _kernel_drops(self, names: Sequence[str]) -> dict[str, int]:
        """Return how many datagrams each node's kernel dropped because a buffer was full."""
        return {name: _parse_counter(self._testbed.run_command(self._nodes[name],
                                                               ["cat", "/proc/net/snmp"]),
                                     "RcvbufErrors") for name in names}


def _parse_counter(snmp: str, counter: str) -> int:
    names, values = [line.split() for line in snmp.splitlines() if line.startswith("Udp:")][:2]
    return int(values[names.index(counter)])


def _read_events(log: Path) -> list[dict[str, Any]]:
    """Return the events in the log of a program. A line that is no event is an error message."""
    events = []
    for line in log.read_text().splitlines():
        if not line.startswith("{"):
            raise MeasureError("stream", f"{log.stem} said {line[:200]!r}")
        events.append(json.loads(line))
    return events

"""Let a station authenticate again and again at a loaded RADIUS server, in the guest.

The guest is the virtual machine of the test network. `Workload.measure` runs one measurement
(repetition): it starts the load generator, and lets the station authenticate by EAP-TLS or EAP-AKA.
It leaves captures and the generator's log (journal), which are evaluated outside. `delay_packets`,
`lose_packets` and `delay_requests` disturb the network for injected faults. `copy_frames` copies
frames at the access point's radio for a capture. `studies.eapload2004` lists the terms.
"""

from __future__ import annotations

import json
import platform
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from threading import Timer
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.workload import Service, Session, Site
from measure.capture import tcpdump
from measure.capture.tcpdump import CaptureDetail, CapturePoint, capture_packets
from measure.load.generator import FIRST_PORT
from measure.packets.eap import RADIUS_PORT
from measure.services.programs import HostProgram, program_environment
from measure.services.radius import EapServer, SubscriberGateways, SubscriberServers
from protocols.aka.program import DIAMETER_PORT as HSS_PORT
from studies.eapload2004 import network
from studies.eapload2004.daemons import (
    EmulatedEapServer,
    EmulatedProcessors,
    EmulatedServer,
    EmulatedSupplicant,
    ProxyBypassingHostapd,
    RepeatedStation,
)
from studies.eapload2004.load import (
    BEFORE,
    CALIBRATION,
    PAUSE_S,
    TLS_KEYS,
    ReferenceLoad,
    capacity_per_s,
)
from studies.eapload2004.load_control import LoadProgram, MeasuredProcessor
from topologies import queueing_disciplines

# --- Delay and loss on the wire between the two networks, for negative controls ---
# Only packets to the server are affected. The server's answers are never lost.

def delay_packets(site: Site, by_ms: float) -> None:
    """Delay packets to the server by further `by_ms` milliseconds from now on (injected fault).

    Raises:
        CalledProcessError: a command has failed.
    """
    _change_wire(site, longer_ms=by_ms)


@contextmanager
def lose_packets(site: Site, seconds: float) -> Iterator[None]:
    """Lose every packet to the server for a number of seconds from now on (injected fault)."""
    _change_wire(site, loss_percent=100)
    mended = Timer(seconds, _change_wire, (site,))
    mended.start()
    try:
        yield
    finally:
        mended.join()


def _change_wire(site: Site, longer_ms: float = 0.0, loss_percent: float = 0.0) -> None:
    end = f"{network.ROUTER_NODE}/{network.FAR_WIRE}"
    [link] = [link for link in site.network.links if end in link.ends]
    other = replace(link, delay_ms=link.delay_ms + longer_ms, loss_percent=loss_percent)
    for step in queueing_disciplines.wire_commands(other, network.FAR_WIRE):
        site.testbed.run_command(network.ROUTER_NODE,
                                 step.replace("qdisc add", "qdisc replace").split())


# --- Copies of frames at the access point's side of the air, for a capture ---
# A capture at the access point's radio shows a frame after the air, in either direction: a sent
# frame appears when it has arrived (`topologies.medium`). So sent frames are copied before the air,
# and received frames where the bridge gets them.

#: Device that gets the copies, in the access point's namespace.
DEVICE = "radioside"
_EAPOL = "0x888e"
#: tc filter for EAPOL frames with an EAP request: type 0 (EAP-Packet), code 1.
_REQUESTS = "match u8 0 0xff at 1 match u8 1 0xff at 4 flowid 77:1"
#: The action `continue` lets later filters act on the frame.
_COPY = f"action mirred egress mirror dev {DEVICE} continue"


def delay_requests(site: Site) -> None:
    """Delay every second EAP request, as if the air had lost it once (injected fault).

    No packet follows a request before its answer, so that none is overtaken.

    Raises:
        CalledProcessError: a command has failed.
    """
    of = f"dev {network.AP_RADIO}"
    for line in (f"qdisc replace {of} root handle 77: prio priomap{16 * ' 1'}",
                 # netem sends reordered packets at once. Here no other packets are queued.
                 f"qdisc add {of} parent 77:1 handle 78: netem delay 1ms reorder 50%",
                 f"filter add {of} parent 77: protocol {_EAPOL} prio 1 u32 {_REQUESTS}"):
        site.testbed.run_command(network.AP, ["tc", *line.split()])


def copy_frames(site: Site) -> None:
    """Copy all EAPOL frames at the access point's radio to an interface for captures.

    Raises:
        CalledProcessError: a command has failed.
    """
    radio = network.AP_RADIO
    bridge = site.network.nodes[network.AP].interfaces[radio].bridge
    copied = f"protocol {_EAPOL} prio 1 matchall {_COPY}"
    for line in (f"ip link add {DEVICE} type dummy", f"ip link set {DEVICE} up",
                 f"tc filter add dev {radio} egress {copied}",
                 f"tc qdisc add dev {bridge} clsact",
                 f"tc filter add dev {bridge} ingress {copied}"):
        site.testbed.run_command(network.AP, line.split())


# --- Workload ---

#: Capture of the background: all requests of one socket of the generator.
_SAMPLE = CaptureDetail(snap_bytes=4096, buffer_kib=4096, in_blocks=True)
_SAMPLED = (CapturePoint("load", network.SERVER, network.LOAD_WIRE, f"udp port {FIRST_PORT}"),
            _SAMPLE)
#: Clients that warm the server up before anything is measured.
_WARMING = 16
_PAUSE_S = 0.1
_STOPPED_S, _CUT_S, _LONGER_MS = 1.0, 1.0, 10.0
#: Changes to the generator's schedule, by negative control.
_OFF_SCHEDULE: Mapping[str, Mapping[str, float]] = {
    "half-rate": {"rate": 0.5}, "even-gaps": {"is_even": True}, "late-arrivals": {"late_s": 0.002}}


class Workload:
    """A workload: a station, an access point, a RADIUS server and a load generator."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._processors = EmulatedProcessors(site)
        self._server = EmulatedServer(site, self._processors, tells_keys=any(
            task["tls"] == "1.3" for task in site.tasks.values()))
        self._supplicant = EmulatedSupplicant(site, self._processors)
        self._hostapd = ProxyBypassingHostapd(site)
        self._subscribers = SubscriberServers(site)
        self._station = RepeatedStation(site, self._supplicant, self._hostapd)
        self._processor = MeasuredProcessor(
            site, is_device=self._processors.server.is_slow)
        self._shows_radio_side = False
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the services of both kinds of servers, the access point and the station.

        Each service runs only on nodes that have its configuration files.
        """
        site = self._site
        return [self._server, EmulatedEapServer(site, self._processors), self._subscribers,
                SubscriberGateways(site), self._supplicant, self._hostapd]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Run one repetition: start the load, and authenticate the station again and again.

        Args:
            task: instructions for the repetition, as `EapLoad2004.task` returns them.
            out: folder of the repetition, which gets captures and logs.
            session: gets time stamps and raw values.

        Raises:
            MeasureError: a service fails, or the server refuses the station without overload.
        """
        raw, settings = session.raw, task["asked"]
        self._server.restart_ended()  # The server may have ended in the repetition before.
        repetition = int(out.name.rpartition("-")[2])
        seed = settings["first_seed"] + repetition - 1
        raw |= {"captures": [], "seed": seed, "clock": self._site.clock,
                "debian": platform.freedesktop_os_release().get("VERSION_CODENAME", ""),
                "daemon_releases": dict(self._site.daemon_releases)}
        if self._site.fault == "longer-way":
            delay_packets(self._site, _LONGER_MS)
        raw["ping_s"] = self._measure_round_trips()
        self._start_controls()
        with (self._processor.measurement_conditions(task, out), self._report_ended_server(),
              self._running_generator(out, task) as generator):
            if task["sessions"] == "resumed":
                self._station.authenticate()
                generator.run_command("prime", stations=settings["stations"])
            rate = self._select_rate(generator, task, out, raw)
            with ExitStack() as stack:
                is_late = self._site.fault == "late-sample"
                self._start_captures(stack, out, raw, self._capture_points(with_sample=not is_late))
                charged, known = self._read_charges(), len(self._read_tls_keys())
                session.stamp("begin")
                if rate:
                    generator.start_load(task, seed, rate_per_s=rate,
                                         **_OFF_SCHEDULE.get(self._site.fault, {}))
                    time.sleep(settings["steady_s"])
                if is_late:
                    self._start_captures(stack, out, raw, [_SAMPLED])
                session.stamp("steady")
                loaded = self._read_charges()
                raw["refused"] = self._authenticate_all(
                    task, seed, self._apply_control(generator, repetition))
                raw["charged_under_load"] = _subtract(self._read_charges(), loaded)
                session.stamp("measured")
                if rate:
                    _wait_for_arrivals(rate, settings["arrivals"], raw["stamps"]["begin"])
                    generator.stop_load()
                session.stamp("end")
                raw["charged"] = _subtract(self._read_charges(), charged)
                tcpdump.settle_captures()
            if task["tls"] == "1.3":
                (out / TLS_KEYS).write_text(json.dumps(self._read_tls_keys()[known:]))
            self._run_after_load(generator, task, out, raw)

    @contextmanager
    def _report_ended_server(self) -> Iterator[None]:
        """Replace a client's error by that of the server, if the server has ended."""
        try:
            yield
        except MeasureError:
            self._server.check_alive()
            raise

    def _start_controls(self) -> None:
        """Start the injected faults that must not change the ping."""
        if self._site.fault == "late-frames":
            delay_requests(self._site)
        if self._site.fault == "longer-chain":
            self._station.lengthen_chain()

    def _run_after_load(self, generator: LoadProgram, task: Mapping[str, Any], out: Path,
                        raw: dict[str, Any]) -> None:
        """Run what follows the load: the comparison with `eapol_test`, or a calibration."""
        settings = task["asked"]
        if task["driver"] == "eapol_test":
            self._compare_drivers(generator, settings["saturating"], out, raw)
        elif task["calibrates"]:
            with self._capture_calibration(out, raw):
                self._calibrate_server(generator, settings, raw)
        elif task["share"] and self._processor.is_real:
            generator.calibrate_again(settings, is_device=self._processor.is_device)
            raw["saturated_busy_s"] += [generator.saturated_busy_s]

    def _read_tls_keys(self) -> list[str]:
        """Return the lines that are in the key logs of all FreeRADIUS servers so far."""
        return [line for lines in self._server.read_tls_keys().values() for line in lines]

    def _read_charges(self) -> dict[str, float]:
        """Return the times that the server's modelled processor has been charged so far."""
        return asdict(self._processors.server.read_account())

    def _compare_drivers(self, generator: LoadProgram, count: int, out: Path,
                         raw: dict[str, Any]) -> None:
        """Compare the load generator with `eapol_test`, and capture all of their packets.

        The server is kept busy before, because it takes longer at first.
        """
        generator.keep_busy(customers=_WARMING, count=count)
        load = ReferenceLoad(self._site, self._site.network.nodes[network.SERVER].address)
        point = CapturePoint("reference", network.SERVER, network.LOAD_WIRE,
                             f"udp port {RADIUS_PORT}")
        with capture_packets(self._site.testbed, [point], _SAMPLE, part="auth", out=out,
                             logs=self._site.logs, summaries=raw["captures"]):
            load.compare_drivers(count, lambda each: generator.run_command(
                "closed", "reference", customers=1, count=each, pauses_s=[PAUSE_S],
                reads_anew=True))
            tcpdump.settle_captures()

    def _select_rate(self, generator: LoadProgram, task: Mapping[str, Any], out: Path,
                     raw: dict[str, Any]) -> float:
        """Return the load of the repetition (1/s).

        If it is a fraction of the server's capacity, the capacity is measured first.
        """
        if not task["share"]:
            return float(task["load"])
        with self._capture_calibration(out, raw):
            self._calibrate_server(generator, task["asked"], raw)
        return float(task["share"]) * capacity_per_s(out / BEFORE.saturated)

    def _calibrate_server(self, generator: LoadProgram, settings: Mapping[str, Any],
                          raw: dict[str, Any]) -> None:
        generator.calibrate_server(settings, computes=self._site.clock != "virtual",
                                   is_real=self._processor.is_real,
                                   is_device=self._processor.is_device)
        raw["saturated_busy_s"] = [generator.saturated_busy_s]

    @contextmanager
    def _capture_calibration(self, out: Path, raw: dict[str, Any]) -> Iterator[None]:
        """Capture packets during the calibration in real time.

        Measurements under load are captured too, and capturing takes processor time. The capture
        also shows the duration of each step at the server and the load generator.
        """
        raw["is_ordered"] = self._processor.is_ordered
        if not self._processor.is_real:
            yield
            return
        point = replace(_SAMPLED[0], name=CALIBRATION)
        with capture_packets(self._site.testbed, [point], _SAMPLE, part="auth", out=out,
                             logs=self._site.logs, summaries=raw["captures"]):
            yield
            tcpdump.settle_captures()

    # --- authentications of the supplicant ----------------------------------------------------

    def _authenticate_all(self, task: Mapping[str, Any], seed: int,
                          strike: AbstractContextManager[None]) -> list[str]:
        """Authenticate the station again and again, and return the reasons of refusals.

        Without overload, the first refusal is raised as an error. Under overload, stop after
        `overload_s` seconds.

        Args:
            task: instructions for the repetition.
            seed: seed of the pauses between authentications.
            strike: injects the fault of the run during the authentication in the middle.

        Raises:
            MeasureError: the server refused the station without overload, or has ended.
        """
        rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
        count, refused = task["asked"]["authentications"], []
        count -= self._site.fault == "one-fewer"
        ends_s = time.monotonic() + task["asked"]["overload_s"]
        for number in range(count):
            if task["overloads"] and time.monotonic() >= ends_s:
                break
            time.sleep(rng.uniform(0, _PAUSE_S))
            try:
                with strike if number == count // 2 else nullcontext():
                    self._station.authenticate()
            except MeasureError as error:
                self._server.check_alive()
                if not task["overloads"]:
                    raise
                refused.append(error.reason)
        return refused

    @contextmanager
    def _apply_control(self, generator: LoadProgram, repetition: int) -> Iterator[None]:
        """Inject the fault during the authentication in the middle."""
        fault = self._site.fault
        if fault == "server-stopped":
            with self._server.suspend_daemon([network.SERVER]):
                time.sleep(_STOPPED_S)
        elif (fault, repetition) == ("killed", 1):
            generator.kill()
        elif (fault, repetition) == ("killed", 2):
            self._server.kill_on(network.SERVER)
        down = self._subscribers.list_nodes() if fault == "hss-down" else ()
        is_cut = fault == "request-lost"
        with (self._subscribers.suspend_daemon(down),
              lose_packets(self._site, _CUT_S) if is_cut else nullcontext()):
            yield

    # --- captures, ping and load generator ----------------------------------------------------

    def _start_captures(self, stack: ExitStack, out: Path, raw: dict[str, Any],
                        points: Sequence[tuple[CapturePoint, CaptureDetail]]) -> None:
        if not self._shows_radio_side:
            copy_frames(self._site)
            self._shows_radio_side = True
        for point, detail in points:
            stack.enter_context(capture_packets(self._site.testbed, [point], detail, part="auth",
                                                out=out, logs=self._site.logs,
                                                summaries=raw["captures"]))

    def _capture_points(self, *, with_sample: bool) -> list[tuple[CapturePoint, CaptureDetail]]:
        radius = f"udp port {RADIUS_PORT}"
        return [(CapturePoint("mn", network.STATION_NODE, network.RADIO, "ether proto 0x888e"),
                 tcpdump.WHOLE),
                (CapturePoint("radio", network.AP, DEVICE), tcpdump.WHOLE),
                (CapturePoint("ap", network.AP, network.AP_WIRE, radius), _SAMPLE),
                (CapturePoint("server", network.SERVER, network.SERVER_WIRE, radius), _SAMPLE),
                *((CapturePoint("hss", node, "eth0", f"udp port {HSS_PORT}"), _SAMPLE)
                  for node in self._subscribers.list_nodes()),
                *([_SAMPLED] if with_sample else ())]

    def _measure_round_trips(self) -> list[float]:
        """Return round-trip times from the access point to the other network (s), by pings.

        The target is the server or, for a near server, the gateway of the other network. The first
        packets also resolve the neighbours.
        """
        nodes = self._site.network.nodes
        is_near = "inner" not in nodes[network.GATEWAY_NODE].interfaces
        target = nodes[network.GATEWAY_NODE if is_near else network.SERVER].address
        argv = ["ping", "-n", "-c", "4", "-i", "0.2", "-I", nodes[network.AP].address, target]
        output = self._site.testbed.run_command(network.AP, argv, timeout_s=30)
        for node in self._subscribers.list_nodes():  # resolve this neighbour, too
            self._site.testbed.run_command(network.SERVER,
                                           ["ping", "-n", "-c", "1", nodes[node].address],
                                           timeout_s=30)
        return [float(match) / 1e3 for match in re.findall(r"time=([\d.]+) ms", output)]

    @contextmanager
    def _running_generator(self, out: Path, task: Mapping[str, Any]) -> Iterator[LoadProgram]:
        """Run the load generator inside the context, with the server and credentials to use."""
        site, nodes = self._site, self._site.network.nodes
        target = self._site.run_folder(network.LOAD) / "target.json"
        # hostapd answers from its address nearest to the client, FreeRADIUS from its own address.
        is_hostapd, server = site.nodes_with_file(EapServer.file), nodes[network.SERVER]
        target.write_text(json.dumps({
            "server": (server.interfaces[network.LOAD_WIRE].ip if is_hostapd
                       else server.address),
            "address": nodes[network.LOAD].address,
            "secret": site.secrets["network"]["radius_secret"], "identity": network.LOAD,
            "pki": str(site.mount / network.LOAD / "pki"), "version": task["tls"],
            "goes_first": site.clock == "real"}))
        argv = [sys.executable, "-m", "measure.load", str(target)]
        # By the processor clock the generator's computing takes no time, so that its own processor
        # never limits what the server gets.
        tools = site.testbed.tool_environment
        made = (site.testbed.tool_command if tools else site.testbed.node_command)(
            network.LOAD, argv)
        with HostProgram("load generator", made, site.log_path("generator", network.LOAD),
                         program_environment() | (tools or {})) as program:
            yield LoadProgram(program, out, lambda: self._read_charges()["busy_s"])


def _wait_for_arrivals(rate_per_s: float, count: int, begun_s: float) -> None:
    """Wait until `count` authentications have arrived, with three standard deviations more."""
    ends_s = begun_s + (count + 3 * count ** 0.5) / rate_per_s
    time.sleep(max(0.0, ends_s - time.time()))


def _subtract(later: Mapping[str, float], earlier: Mapping[str, float]) -> dict[str, float]:
    return {name: later[name] - earlier[name] for name in later}

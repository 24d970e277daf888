"""Workload in the guest: a supplicant authenticates repeatedly under load.

It writes captures and the generator's journal. Nothing is judged here.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from measure import capture
from measure.capture import Detail, Point, capturing
from measure.eap_keys import PORT
from measure.errors import MeasureError
from measure.load.generator import FIRST_PORT
from measure.services.eap_server import EapServer, SubscriberGateways, SubscriberServers
from measure.services.launcher import program_environment
from measure.services.program import HostProgram
from measure.workload import Service, Session, Site
from protocols.aka.program import PORT as HSS_PORT
from studies.eapload2004 import far_wire, network, radio_side
from studies.eapload2004.capacity import BEFORE, CALIBRATION, capacity_per_s
from studies.eapload2004.daemons import (
    AskingHostapd,
    EmulatedEapServer,
    EmulatedProcessors,
    EmulatedServer,
    EmulatedSupplicant,
)
from studies.eapload2004.loading import LoadProgram
from studies.eapload2004.processor import MeasuredProcessor
from studies.eapload2004.reference import PAUSE_S, ReferenceLoad
from studies.eapload2004.station import RepeatedStation

#: Capture of the background: all requests of one socket of the generator.
_SAMPLE = Detail(snap_bytes=4096, buffer_kib=4096, in_blocks=True)
_SAMPLED = (Point("load", network.SERVER, network.LOAD_WIRE, f"udp port {FIRST_PORT}"), _SAMPLE)
#: Clients that warm the server up before anything is measured.
_WARMING = 16
_PAUSE_S = 0.1
_STOPPED_S, _CUT_S, _LONGER_MS = 1.0, 1.0, 10.0
#: Changes to the generator's schedule, by negative control.
_OFF_SCHEDULE: Mapping[str, Mapping[str, float]] = {
    "half-rate": {"rate": 0.5}, "even-gaps": {"is_even": True}, "late-arrivals": {"late_s": 0.002}}


class Workload:
    """The workload with a supplicant, an access point, a server and a generator."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._processors = EmulatedProcessors(site)
        self._server = EmulatedServer(site, self._processors)
        self._supplicant = EmulatedSupplicant(site, self._processors)
        self._hostapd = AskingHostapd(site)
        self._subscribers = SubscriberServers(site)
        self._station = RepeatedStation(site, self._supplicant, self._hostapd)
        self._processor = MeasuredProcessor(
            site, is_device=self._processors.server.is_slow)
        self._shows_radio_side = False
        self.calls: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {}

    def services(self) -> Sequence[Service]:
        """Return the services of both kinds of servers, the access point and the supplicant.

        Each service runs only on nodes that have its configuration files.
        """
        site = self._site
        return [self._server, EmulatedEapServer(site, self._processors), self._subscribers,
                SubscriberGateways(site), self._supplicant, self._hostapd]

    def measure(self, task: Mapping[str, Any], out: Path, session: Session) -> None:
        """Measure one repetition: start the load and authenticate repeatedly.

        Args:
            task: The cell's task.
            out: Folder of the repetition.
            session: Gets time stamps and raw values.

        Raises:
            MeasureError: A service fails, or the server refuses the supplicant without overload.
        """
        raw, asked = session.raw, task["asked"]
        self._server.restart_ended()  # The server may have ended in the repetition before.
        repetition = int(out.name.rpartition("-")[2])
        seed = asked["first_seed"] + repetition - 1
        raw |= {"captures": [], "seed": seed, "clock": self._site.clock}
        if self._site.fault == "longer-way":
            far_wire.delay_packets(self._site, _LONGER_MS)
        raw["ping_s"] = self._measure_round_trips()
        self._start_controls()
        with (self._processor.measurement_conditions(task, out), self._report_ended_server(),
              self._running_generator(out, task) as generator):
            if task["sessions"] == "resumed":
                self._station.authenticate()
                generator.run_command("prime", stations=asked["stations"])
            rate = self._select_rate(generator, task, out, raw)
            with ExitStack() as stack:
                is_late = self._site.fault == "late-sample"
                self._start_captures(stack, out, raw, self._capture_points(with_sample=not is_late))
                charged = self._read_charges()
                session.stamp("begin")
                if rate:
                    generator.start_load(task, seed, rate_per_s=rate,
                                         **_OFF_SCHEDULE.get(self._site.fault, {}))
                    time.sleep(asked["steady_s"])
                if is_late:
                    self._start_captures(stack, out, raw, [_SAMPLED])
                session.stamp("steady")
                loaded = self._read_charges()
                raw["refused"] = self._authenticate_all(
                    task, seed, self._apply_control(generator, repetition))
                raw["charged_under_load"] = _subtract(self._read_charges(), loaded)
                session.stamp("measured")
                if rate:
                    _wait_for_arrivals(rate, asked["arrivals"], raw["stamps"]["begin"])
                    generator.stop_load()
                session.stamp("end")
                raw["charged"] = _subtract(self._read_charges(), charged)
                capture.settle_captures()
            self._run_after_load(generator, task, out, raw)

    @contextmanager
    def _report_ended_server(self) -> Iterator[None]:
        """Replace a client's error by that of a server that has ended."""
        try:
            yield
        except MeasureError:
            self._server.check_alive()
            raise

    def _start_controls(self) -> None:
        """Start those negative controls that must not change the ping."""
        if self._site.fault == "late-frames":
            radio_side.delay_requests(self._site)
        if self._site.fault == "longer-chain":
            self._station.lengthen_chain()

    def _run_after_load(self, generator: LoadProgram, task: Mapping[str, Any], out: Path,
                        raw: dict[str, Any]) -> None:
        """Run what the task needs after its load: the reference or a calibration."""
        asked = task["asked"]
        if task["driver"] == "eapol_test":
            self._compare_drivers(generator, asked["saturating"], out, raw)
        elif task["calibrates"]:
            with self._capture_calibration(out, raw):
                self._calibrate_server(generator, asked, raw)
        elif task["share"] and self._processor.is_real:
            generator.calibrate_again(asked, is_device=self._processor.is_device)
            raw["saturated_busy_s"] += [generator.saturated_busy_s]

    def _read_charges(self) -> dict[str, float]:
        """Return what the server's processor has been charged so far."""
        return asdict(self._processors.server.read_account())

    def _compare_drivers(self, generator: LoadProgram, count: int, out: Path,
                         raw: dict[str, Any]) -> None:
        """Compare the generator with eapol_test, and capture all of their packets.

        The server is kept busy before, because it takes longer at first.
        """
        generator.keep_busy(customers=_WARMING, count=count)
        load = ReferenceLoad(self._site, self._site.network.nodes[network.SERVER].address)
        point = Point("reference", network.SERVER, network.LOAD_WIRE, f"udp port {PORT}")
        with capturing(self._site.testbed, [point], _SAMPLE, part="auth", out=out,
                       logs=self._site.logs, summaries=raw["captures"]):
            load.compare_drivers(count, lambda each: generator.run_command(
                "closed", "reference", customers=1, count=each, pauses_s=[PAUSE_S],
                reads_anew=True))
            capture.settle_captures()

    def _select_rate(self, generator: LoadProgram, task: Mapping[str, Any], out: Path,
                     raw: dict[str, Any]) -> float:
        """Return the load of the task (1/s), or its share of the measured capacity."""
        if not task["share"]:
            return float(task["load"])
        with self._capture_calibration(out, raw):
            self._calibrate_server(generator, task["asked"], raw)
        return float(task["share"]) * capacity_per_s(out / BEFORE.saturated)

    def _calibrate_server(self, generator: LoadProgram, settings: Mapping[str, Any],
                          raw: dict[str, Any]) -> None:
        generator.calibrate_server(settings, is_real=self._processor.is_real,
                                   is_device=self._processor.is_device)
        raw["saturated_busy_s"] = [generator.saturated_busy_s]

    @contextmanager
    def _capture_calibration(self, out: Path, raw: dict[str, Any]) -> Iterator[None]:
        """Capture in real time as under load, because capturing costs time.

        The capture also shows what each step takes the server and the generator.
        """
        raw["is_ordered"] = self._processor.is_ordered
        if not self._processor.is_real:
            yield
            return
        point = replace(_SAMPLED[0], name=CALIBRATION)
        with capturing(self._site.testbed, [point], _SAMPLE, part="auth", out=out,
                       logs=self._site.logs, summaries=raw["captures"]):
            yield
            capture.settle_captures()

    # --- authentications of the supplicant ----------------------------------------------------

    def _authenticate_all(self, task: Mapping[str, Any], seed: int,
                          strike: AbstractContextManager[None]) -> list[str]:
        """Authenticate `authentications` times and return the reasons of refusals.

        Under overload, stop after `overload_s` seconds. Only there are refusals possible: otherwise
        the first one is raised as an error.
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
        """Apply the negative control to the authentication in the middle."""
        fault = self._site.fault
        if fault == "server-stopped":
            with self._server.suspended([network.SERVER]):
                time.sleep(_STOPPED_S)
        elif (fault, repetition) == ("killed", 1):
            generator.kill()
        elif (fault, repetition) == ("killed", 2):
            self._server.kill_on(network.SERVER)
        down = self._subscribers.list_nodes() if fault == "hss-down" else ()
        is_cut = fault == "request-lost"
        with (self._subscribers.suspended(down),
              far_wire.lose_packets(self._site, _CUT_S) if is_cut else nullcontext()):
            yield

    # --- captures, ping and load generator ----------------------------------------------------

    def _start_captures(self, stack: ExitStack, out: Path, raw: dict[str, Any],
                        points: Sequence[tuple[Point, Detail]]) -> None:
        if not self._shows_radio_side:
            radio_side.copy_frames(self._site)
            self._shows_radio_side = True
        for point, detail in points:
            stack.enter_context(capturing(self._site.testbed, [point], detail, part="auth",
                                          out=out, logs=self._site.logs,
                                          summaries=raw["captures"]))

    def _capture_points(self, *, with_sample: bool) -> list[tuple[Point, Detail]]:
        radius = f"udp port {PORT}"
        return [(Point("mn", network.STATION_NODE, network.RADIO, "ether proto 0x888e"),
                 capture.WHOLE),
                (Point("radio", network.AP, radio_side.DEVICE), capture.WHOLE),
                (Point("ap", network.AP, network.AP_WIRE, radius), _SAMPLE),
                (Point("server", network.SERVER, network.SERVER_WIRE, radius), _SAMPLE),
                *((Point("hss", node, "eth0", f"udp port {HSS_PORT}"), _SAMPLE)
                  for node in self._subscribers.list_nodes()),
                *([_SAMPLED] if with_sample else ())]

    def _measure_round_trips(self) -> list[float]:
        """Return round trips from the access point to the other network (s).

        The target is the server or, for a near server, the gateway of the other network. The first
        packets also resolve the neighbours.
        """
        nodes = self._site.network.nodes
        is_near = "inner" not in nodes[network.GATEWAY_NODE].interfaces
        asked = nodes[network.GATEWAY_NODE if is_near else network.SERVER].address
        argv = ["ping", "-n", "-c", "4", "-i", "0.2", "-I", nodes[network.AP].address, asked]
        said = self._site.testbed.run_command(network.AP, argv, timeout_s=30)
        for node in self._subscribers.list_nodes():  # resolve this neighbour, too
            self._site.testbed.run_command(network.SERVER,
                                           ["ping", "-n", "-c", "1", nodes[node].address],
                                           timeout_s=30)
        return [float(match) / 1e3 for match in re.findall(r"time=([\d.]+) ms", said)]

    @contextmanager
    def _running_generator(self, out: Path, task: Mapping[str, Any]) -> Iterator[LoadProgram]:
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
        argv = site.testbed.node_command(network.LOAD, [sys.executable, "-m", "measure.load",
                                                        str(target)])
        with HostProgram("load generator", argv, site.log_path("generator", network.LOAD),
                         program_environment()) as program:
            yield LoadProgram(program, out, lambda: self._read_charges()["busy_s"])


def _wait_for_arrivals(rate_per_s: float, count: int, begun_s: float) -> None:
    """Wait until `count` authentications have arrived, with three standard deviations more."""
    ends_s = begun_s + (count + 3 * count ** 0.5) / rate_per_s
    time.sleep(max(0.0, ends_s - time.time()))


def _subtract(later: Mapping[str, float], earlier: Mapping[str, float]) -> dict[str, float]:
    return {name: later[name] - earlier[name] for name in later}

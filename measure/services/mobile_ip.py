"""Run Mobile IP in a test network: agents on wired nodes, clients on mobile nodes.

The programs are those of `topologies.mobile_ip`. `MobileIpAgents` starts the agents, and
`MobileNodePrograms` the clients, with the common settings `MobileIp`. `RegistrationDaemon` controls
one client: it signals that the link is up or down, and waits for the registration. `EventLines`
reads the JSON events of a program. The services take a `Site`: a running network with the settings
of its run.
"""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.agent.process import Daemon, StartTalking, has_ended, wait_at_most
from measure.agent.time_limits import TimeLimits
from measure.agent.workload import Site
from measure.services.daemons import DaemonService
from measure.services.programs import ForkService
from topologies.model import HOME_AGENT, STATION

# --- Control of a mobile node's program: link events in, its events out ---

_READY_S = 30.0
_STOP_S = 2.0
_ENDED = {"event": "failed", "reason": "Mobile IP has ended"}


class EventLines:
    """The events of a Mobile IP program, one JSON object per line, read on demand and logged.

    No thread reads in the background: in virtual time it would delay the measured processes.
    """

    def __init__(self, connection: socket.socket, log: Path) -> None:
        self._said = connection
        self._log = log.open("ab", buffering=0)
        self._half = b""
        self._waiting: list[dict[str, Any]] = []

    def next_event(self, limit_s: float) -> dict[str, Any] | None:
        """Return the program's next event, or None if none comes within `limit_s` seconds.

        After the program's end, every call returns the same "failed" event.
        """
        wait_at_most(self._said, limit_s)
        while not self._waiting:
            try:
                self._parse_data(self._said.recv(65536))
            except BlockingIOError:
                return None
        return self._waiting.pop(0)

    def send_command(self, command: Mapping[str, str]) -> None:
        """Send a command to the program, as one line of JSON.

        Raises:
            OSError: The program has ended.
        """
        self._said.settimeout(0)
        self._said.sendall(json.dumps(command).encode() + b"\n")

    def drop_events(self) -> None:
        """Log the program's events so far, and discard them."""
        self._said.settimeout(0)
        try:
            while data := self._said.recv(65536):
                self._parse_data(data)
        except BlockingIOError:
            pass
        self._waiting = []

    def close(self) -> None:
        """Log the remaining events and close the log file."""
        if not self._log.closed:
            self.drop_events()
        self._said.close()
        self._log.close()

    def _parse_data(self, data: bytes) -> None:
        if not data:
            self._waiting.append(_ENDED)
        self._log.write(data)
        *lines, self._half = (self._half + data).split(b"\n")
        for line in lines:
            try:
                self._waiting.append(json.loads(line))
            except ValueError:
                continue


class RegistrationDaemon:
    """The Mobile IP program of one mobile node. A context manager; leaving it ends the program."""

    def __init__(self, name: str, start: StartTalking, log: Path) -> None:
        self.name = name
        self.history: list[dict[str, Any]] = []
        ours, its = socket.socketpair()
        self._events = EventLines(ours, log)
        with its, log.open("ab") as errors:
            self._process = start(its, errors)

    def __enter__(self) -> RegistrationDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self) -> None:
        """Wait until the mobile node's Mobile IP program runs.

        Raises:
            MeasureError: The program did not start in time.
        """
        self._wait_event({"ready"}, _READY_S, "did not start")

    def register(self, deadline_s: float) -> None:
        """Tell the program that the link is up, and wait until the node is registered.

        Earlier events, such as a renewal on an earlier link, are discarded first.

        Args:
            deadline_s: Time limit in s.

        Raises:
            MeasureError: The node is not registered in time, or the registration failed.
        """
        self.history = []
        self._events.drop_events()
        self._send_command(do="attached")
        self._wait_event({"registered"}, deadline_s, "is not registered")

    def report_link_down(self) -> None:
        """Tell the Mobile IP program that the link is down."""
        self._send_command(do="detached")

    def stop(self) -> None:
        """End the Mobile IP program and wait for its end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            if not has_ended(self._process, _STOP_S):
                self._process.kill()
        self._process.wait()
        self._events.close()

    def _send_command(self, **command: str) -> None:
        try:
            self._events.send_command(command)
        except OSError as error:
            raise MeasureError("registration", f"{self.name}: Mobile IP has ended") from error

    def _wait_event(self, names: set[str], deadline_s: float, goal: str) -> None:
        until = time.monotonic() + deadline_s
        while (left_s := until - time.monotonic()) > 0:
            event = self._events.next_event(left_s)
            if event is None:
                break
            self.history.append(event)
            if event["event"] in names:
                return
            if event["event"] == "failed":
                raise MeasureError("registration", f"{self.name} {goal}: {event['reason']}")
        denied = [event for event in self.history if event["event"] == "denied"]
        clue = f"; denied with code {denied[-1]['code']}" if denied else ""
        raise MeasureError("registration", f"{self.name} {goal} within {deadline_s:.3g} s{clue}")


# --- Settings and services ---

# The first SPI that RFC 5944 does not reserve.
_SPI = 256
_AGENT, _NODE = "topologies.mobile_ip.agent", "topologies.mobile_ip.node"
#: Time the program tries longer than the worker waits for it, in s.
_SPARE_S = 5.0
#: Modules of the programs, imported in advance by the process that programs are forked from.
PROGRAMS = (_AGENT, _NODE)


@dataclass(frozen=True)
class MobileIp:
    """The settings of Mobile IP that all nodes of a testbed (emulated network) share.

    - `key_hex`, `node_key_hex`: keys that agents and mobile nodes use. They are equal except in a
      negative control.
    - `detection`: how a mobile node notices a new link: `event` (link events) or by advertisements
    - `spi`: index of the security association
    - `lifetime_s`, `advertisement_interval_s`: lifetime of registrations, and time between
      advertisements (s; 0: only when solicited)
    - `runner`: module that runs the programs for another negative control
    """

    key_hex: str
    node_key_hex: str
    detection: str = "event"
    spi: int = _SPI
    lifetime_s: int = 600
    advertisement_interval_s: float = 1.0
    runner: str = ""

    def program_arguments(self, module: str, settings: Path) -> list[str]:
        """Return the Python module to run for a Mobile IP program, and its arguments."""
        return [*([self.runner] if self.runner else []), module, str(settings)]


class MobileIpAgents(DaemonService):
    """The service that runs an agent on every home agent node.

    An agent is also the foreign agent for visitors.
    """

    name = "mobile-ip"

    def __init__(self, site: Site, settings: MobileIp, forks: ForkService) -> None:
        super().__init__(site)
        self._shared = settings
        self._forks = forks

    def list_nodes(self) -> Sequence[str]:
        """Return the nodes that are home agents."""
        return self.site.network.of_duty(HOME_AGENT)

    def launch_on(self, node: str) -> Daemon:
        """Start the Mobile IP agent of one subnet."""
        program = self._shared.program_arguments(_AGENT, self._write_settings(node))
        return Daemon(f"{self.name} on {node}", self._forks.program_starter(node, *program),
                      self.site.log_path(self.name, node), r'"event": ?"ready"')

    def _write_settings(self, name: str) -> Path:
        nodes = self.site.network.nodes
        node, shared = nodes[name], self._shared
        own = next(port for port, i in node.interfaces.items()
                   if i.address and i.address.startswith(f"{node.address}/"))
        return _write_json(self.site, name, {
            "interface": self.site.testbed.find_station_port(name, own),
            "address": node.address, "care_of": node.outer_address,
            "wired_interface": node.interface_of(node.outer_address),
            "home": [{"address": nodes[station].address, "spi": shared.spi,
                      "key_hex": shared.key_hex}
                     for station in self.site.network.of_duty(STATION)
                     if nodes[station].agent == name],
            "advertisement_interval_s": shared.advertisement_interval_s,
            "lifetime_s": shared.lifetime_s})


class MobileNodePrograms:
    """The service that runs the mobile node's Mobile IP program on every station."""

    name = "registrations"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, settings: MobileIp, forks: ForkService) -> None:
        self.site = site
        self._shared = settings
        self._forks = forks
        #: Running programs by station, filled by `start`.
        self.programs: dict[str, RegistrationDaemon] = {}

    def start(self) -> None:
        """Start the Mobile IP program on every station."""
        for name in self.site.network.of_duty(STATION):
            program = self._shared.program_arguments(_NODE, self._write_settings(name))
            self.programs[name] = RegistrationDaemon(
                name, self._forks.socket_program_starter(name, *program),
                self.site.log_path("mobile-ip", name))

    def wait_ready(self) -> None:
        """Wait until the Mobile IP program of each station runs.

        Raises:
            MeasureError: A program ended, or was not ready in time.
        """
        for program in self.programs.values():
            program.wait_ready()

    def stop(self) -> None:
        """End the Mobile IP programs, in reverse order of their start."""
        while self.programs:
            _, program = self.programs.popitem()
            program.stop()

    def _write_settings(self, name: str) -> Path:
        node, shared = self.site.network.nodes[name], self._shared
        limits = TimeLimits.for_testbed(self.site.testbed)
        return _write_json(self.site, name, {
            "retry_s": limits.registration_retry_s, "deadline_s": limits.registration_s + _SPARE_S,
            "interface": node.radio_interface, "home_address": node.address,
            "home_agent": self.site.network.nodes[node.agent or ""].address,
            "spi": shared.spi, "key_hex": shared.node_key_hex, "lifetime_s": shared.lifetime_s,
            "detection": shared.detection})


def _write_json(site: Site, node: str, values: dict[str, object]) -> Path:
    path = site.run_folder(node) / "mobile-ip.json"
    path.touch(0o600)  # the file contains a key
    path.write_text(json.dumps(values))
    return path

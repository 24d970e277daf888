"""Services for Mobile IP: agents on the wired nodes, registrations on the mobile nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measure.forks import Forks
from measure.process import Daemon
from measure.registration import RegistrationDaemon
from measure.services.daemons import Daemons
from measure.time_limits import TimeLimits
from measure.workload import Site
from topologies.model import HOME_AGENT, STATION

# The first SPI that RFC 5944 does not reserve.
_SPI = 256
_AGENT, _NODE = "topologies.mobile_ip.agent", "topologies.mobile_ip.node"
#: Time the program tries longer than the worker waits for it, in s.
_SPARE_S = 5.0
#: Modules of the programs, imported in advance by `measure.forks`.
PROGRAMS = (_AGENT, _NODE)


@dataclass(frozen=True)
class MobileIp:
    """Settings of Mobile IP that all nodes of a testbed share.

    Agents use `key_hex`, mobile nodes `node_key_hex`. Both are equal except in a negative control.
    `runner` names a module that runs the programs for another negative control.
    """

    key_hex: str
    node_key_hex: str
    detection: str = "event"
    spi: int = _SPI
    lifetime_s: int = 600
    advertisement_interval_s: float = 1.0
    runner: str = ""

    def program_arguments(self, module: str, settings: Path) -> list[str]:
        """Return the module to run and its arguments."""
        return [*([self.runner] if self.runner else []), module, str(settings)]


class Agents(Daemons):
    """A home agent on every node with that duty, and foreign agent for visitors."""

    name = "mobile-ip"

    def __init__(self, site: Site, settings: MobileIp, forks: Forks) -> None:
        super().__init__(site)
        self._shared = settings
        self._forks = forks

    def list_nodes(self) -> Sequence[str]:
        """Return the home agents."""
        return self.site.network.of_duty(HOME_AGENT)

    def launch_on(self, node: str) -> Daemon:
        """Start the agent of one subnet."""
        program = self._shared.program_arguments(_AGENT, self._write_settings(node))
        return Daemon(f"{self.name} on {node}", self._forks.program_starter(node, *program),
                      self.site.log_path(self.name, node), r'"event": ?"ready"')

    def _write_settings(self, name: str) -> Path:
        nodes = self.site.network.nodes
        node, shared = nodes[name], self._shared
        own = next(port for port, i in node.interfaces.items()
                   if i.address and i.address.startswith(f"{node.address}/"))
        return _write_json(self.site, name, {
            "interface": own, "address": node.address, "care_of": node.outer_address,
            "wired_interface": node.interface_of(node.outer_address),
            "home": [{"address": nodes[station].address, "spi": shared.spi,
                      "key_hex": shared.key_hex}
                     for station in self.site.network.of_duty(STATION)
                     if nodes[station].agent == name],
            "advertisement_interval_s": shared.advertisement_interval_s,
            "lifetime_s": shared.lifetime_s})


class Registrations:
    """The mobile node's Mobile IP program on every station."""

    name = "registrations"
    needs: Sequence[str] = ()

    def __init__(self, site: Site, settings: MobileIp, forks: Forks) -> None:
        self.site = site
        self._shared = settings
        self._forks = forks
        #: Running programs by station, filled by `start`.
        self.programs: dict[str, RegistrationDaemon] = {}

    def start(self) -> None:
        """Start all programs."""
        for name in self.site.network.of_duty(STATION):
            program = self._shared.program_arguments(_NODE, self._write_settings(name))
            self.programs[name] = RegistrationDaemon(
                name, self._forks.socket_program_starter(name, *program),
                self.site.log_path("mobile-ip", name))

    def wait_ready(self) -> None:
        """Wait until each program runs.

        Raises:
            MeasureError: A program ended, or was not ready in time.
        """
        for program in self.programs.values():
            program.wait_ready()

    def stop(self) -> None:
        """End the programs, in reverse order of their start."""
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

"""Steps by which one mobile node gets onto the network, with their raw values.

Times are on the machine's wall clock, which also stamps the captures. Nothing is judged here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import kernel, port
from measure.access import Access
from measure.errors import MeasureError
from measure.moves import BACK
from measure.port import PortCheck
from measure.services import macsec
from measure.workload import Session
from topologies.model import ACCESS_POINT, HOME_AGENT, Scenario


class Arrival:
    """The steps by which one mobile node gets onto the network.

    Raw values and stamps go to a session. Afterwards `raw` has `events`, `kernel` and
    `registration`. Values of a visited network have the prefix `foreign_`. `roams_to` names its
    access point, if the node moves.
    """

    def __init__(self, access: Access, scenario: Scenario, session: Session, *,
                 roaming: str = "") -> None:
        self.access = access
        #: How the node moves within its subnet without disconnecting first: ANEW, or the link
        #: layer's `roaming`. With "" it disconnects and starts from a clean state.
        self._roaming = roaming
        self._has_visited = False
        self.scenario = scenario
        self.station = access.station(scenario.mobile_node)
        self._session = session
        self._testbed = access.site.testbed
        self._nodes = access.site.network.nodes
        self._keys_before: dict[str, int] = {}
        #: Captures of MACsec key agreements by file, with the access point.
        self._agreements: dict[Path, str] = {}
        session.raw.update(events=[], kernel={}, roaming=roaming, roams_to=scenario.roams_to)

    @property
    def _used(self) -> list[str]:
        """Return the access points that the mobile node joins."""
        return [name for name in (self.scenario.home, self.scenario.roams_to) if name]

    @property
    def peer(self) -> str:
        """Return the address of the mobile node's peer."""
        return self._nodes[self.scenario.peer].address

    def begin(self) -> None:
        """Remove earlier state of the mobile node and record what is left of it."""
        self.access.reset(self.scenario)
        if self._roaming:
            self.station.keep_neighbours()
        self._session.raw["left"] = self.access.left(self.scenario)
        self._keys_before = {node: len(keys) for node, keys in self.access.tls_keys().items()}

    def visit(self) -> None:
        """Join the other access point once, if a later move uses its cached keys.

        Raises:
            MeasureError: The mobile node could not join.
        """
        if self._roaming == BACK and self.scenario.roams_to:
            self._join(self.scenario.roams_to, has_moved=False)
            self._has_visited = True

    def get_on(self, access_point: str, prefix: str = "") -> None:
        """Get onto the network at one access point.

        The steps last from the first probe to the first answered packet.

        Raises:
            MeasureError: A step failed; the text includes the daemons' cause.
        """
        try:
            with self.access.explaining():
                self._steps(access_point, prefix)
        finally:
            # After the timed part, when no step waits for it.
            self._session.raw["kernel"][f"{prefix}station"] = self._flags(access_point)

    def _steps(self, access_point: str, prefix: str) -> None:
        raw, station = self._session.raw, self.station
        if not prefix:
            self._session.before_timing()
        self._session.stamp(f"{prefix}start")
        try:
            self._join(access_point, has_moved=bool(prefix))
        finally:
            self._session.stamp(f"{prefix}link")
        is_known = bool(prefix) and self._stays_in_subnet
        if prefix and self.access.follows:
            self.access.follow(self.scenario)
        elif not (is_known and self._roaming):
            station.register()
        if station.registration is not None and not (is_known and self._roaming):
            raw[f"{prefix}registration"] = station.registration.history
        self._session.stamp(f"{prefix}registered")
        if not prefix or self._leaves_tunnel:
            self.access.tunnel(station, self.scenario)
        self._session.stamp(f"{prefix}tunnel")
        limits, scenario = self.access.limits, self.scenario
        limit_s = limits.data_s(scenario)
        answered = station.ping(self.peer, limit_s, limits.echo_again_s(scenario))
        self._session.stamp(f"{prefix}first_packet")
        raw.setdefault("link_keys", []).extend(kernel.link_keys(station.mac))
        if not answered:
            raise MeasureError("data", f"{station.name}: associated, but no packet "
                               f"comes back from {self.peer} within {limit_s:.3g} s")

    def arrive(self) -> None:
        """Get onto the network at home, and then move if the scenario says so."""
        self.get_on(self.scenario.home)
        if self.scenario.roams_to:
            self.move(self.scenario.roams_to)

    def move(self, access_point: str) -> None:
        """Move from home to another access point, with existing keys or from a clean state."""
        self._session.before_timing()
        self._session.stamp("handoff")
        if not self._roaming:
            self.station.leave(keeps_tunnel=not self._leaves_tunnel)
        self.get_on(access_point, "foreign_")

    def _join(self, access_point: str, *, has_moved: bool) -> None:
        """Associate with an access point, either bound to it or free to roam."""
        if not self._roaming:
            self.access.join(self.station, access_point)
            return
        if has_moved or self._has_visited:
            if not has_moved:  # what its home offers must show in this part, too
                self.station.look(self._nodes[access_point])
            self.station.move(self._nodes[access_point])
            if not has_moved and self.scenario.roams_to:
                self.access.expire(self.station, self.scenario.roams_to)
        else:
            others = [self._nodes[name] for name in self._nodes_of(ACCESS_POINT)
                      if name != access_point]
            self.station.join_first(self._nodes[access_point], others)
        self.access.let_in(self.station, access_point)

    @property
    def _stays_in_subnet(self) -> bool:
        """Return whether the mobile node keeps its agent and its tunnel when it moves."""
        return self.scenario.foreign_agent is None

    @property
    def _leaves_tunnel(self) -> bool:
        """Return whether the mobile node negotiates another tunnel after the move.

        The existing tunnel continues if the node keeps its agent, or its own address by Mobile IP.
        """
        return not (self._stays_in_subnet or self._roaming or self.access.follows)

    def check_port(self, out: Path, *, has_port: bool) -> dict[str, Any] | None:
        """Return the check that an unauthorised port passes nothing, done once per mobile node.

        The result is None if no port exists, or if a service is left out that the check needs.
        Every repetition gets both small captures: `port-air.pcap` and `port-wire.pcap`.
        """
        if not has_port or self.access.site.withhold:
            return None
        known = self.access.port_checks
        if self.station.name not in known:
            known[self.station.name] = self._port_closed(out)
        check = known[self.station.name]
        for summary, octets in check.captures:
            (out / summary["file"]).write_bytes(octets)
            self._session.raw["captures"].append(summary)
        return check.raw

    def note_wires(self, out: Path) -> None:
        """Record the set-up of the access points' RadSec connections and MACsec keys.

        Both happen once per testbed. Every repetition gets the captures of those that it uses.
        """
        raw, used = self._session.raw, self._used
        known = [made for name, made in self.access.proxies.items() if name in used]
        for connected in known:
            (out / str(connected.summary["file"])).write_bytes(connected.octets)
            raw["captures"].append(connected.summary)
        if known:
            raw["radsec_keys"] = [line for connected in known for line in connected.keys]
        if self._testbed.macsec:
            self._agreements = {out / f"{macsec.PART}-{name}.pcap": name for name in used}
        for file in self._agreements:
            raw["captures"].append({"point": macsec.PART, "file": file.name, "captured": 0,
                                    "dropped": 0, "one_in": 1})
        self._note_agreements()

    def _note_agreements(self) -> None:
        """Record the MKA messages that have distributed keys so far."""
        raw = self._session.raw
        for file, access_point in self._agreements.items():
            kept = self.access.wire_keys.keep(access_point, file)
            for entry in raw["captures"]:
                if entry["file"] == file.name:
                    entry["captured"] = kept

    def ipsec_state(self, moment: str) -> None:
        """Record the SAs, or WireGuard sessions, of mobile node and agent at both ends."""
        if states := self.access.tunnel_states(self.scenario):
            self._session.raw["kernel"]["wireguard"] = states
        if self.access.has_ipsec:
            self._session.raw["kernel"][moment] = self.access.ipsec_states(self.scenario)

    def rest_of_the_path(self) -> None:
        """Record kernel state of the companions and of the tunnel between the agents."""
        of_nodes, agents = self._session.raw["kernel"], self._nodes_of(HOME_AGENT)
        of_nodes["companions"] = {
            name: {"station": self._flags(self.scenario.home_of(name), name),
                   "sas": self._pair(name, self._nodes[name].agent or "")
                   if self.access.has_ipsec else {}}
            for name in self.scenario.companions}
        self._session.raw["companion_keys"] = [
            key for name in self.scenario.companions
            for key in kernel.link_keys(self.access.station(name).mac)]
        if self.access.has_ipsec:
            kept = self._session.raw.setdefault("esp_keys", [])
            for node in dict.fromkeys((self.scenario.mobile_node, *self.scenario.companions,
                                       *agents)):
                kept += [key for key in kernel.xfrm_keys(self._testbed, node) if key not in kept]
        if self._testbed.macsec:
            of_nodes["wires"] = self.access.wire_keys.states(self._used)
        if self.access.has_ipsec and len(agents) > 1:
            of_nodes["agents"] = self._between(
                agents, {self._nodes[agent].outer_address for agent in agents})

    def _nodes_of(self, duty: str) -> list[str]:
        return self.scenario.network.of_duty(duty)

    def _pair(self, station: str, agent: str) -> dict[str, Any]:
        return self._between((station, agent), {self._nodes[station].address,
                                                self._nodes[agent].address})

    def _between(self, nodes: Sequence[str], ends: set[str]) -> dict[str, Any]:
        """Return the SAs of these nodes between two addresses."""
        return {node: [state for state in kernel.xfrm_states(self._testbed, node)
                       if {state["src"], state["dst"]} == ends] for node in nodes}

    def finish(self) -> None:
        """Record the values that are complete only at the end of the repetition."""
        self._session.raw["events"] = [vars(event) for event in self.station.supplicant.history]
        self._note_agreements()
        self._session.raw["ike_sas"] = self.station.ike_sas
        self._session.raw["tls_keys"] = [
            line for node, keys in self.access.tls_keys().items()
            for line in keys[self._keys_before.get(node, 0):]]

    def _port_closed(self, out: Path) -> PortCheck:
        """Associate while the authentication server is suspended: nothing may pass the port."""
        asked_s = time.time()
        captures: list[tuple[dict[str, Any], bytes]] = []
        self.access.reset(self.scenario)
        supplicant = self.station.supplicant
        with self.access.silent_radius(self.scenario.agent):
            self.station.begin(self._nodes[self.scenario.home])
            associated = supplicant.wait(
                {"Associated"}, time.monotonic() + self.access.limits.link_s) is not None
            flags = self._flags(self.scenario.home)
            if associated:
                captures = port.knock(self.access.site, self.scenario, self.station, out)
        self.access.reset(self.scenario)
        return PortCheck({"at_s": asked_s, "associated": associated,
                          "authorized": flags.get("authorized", "unknown")}, captures)

    def _flags(self, access_point: str, station: str = "") -> dict[str, str]:
        """Return an access point's kernel flags of a station, by default the mobile node."""
        stations = kernel.station_flags(self._testbed, access_point,
                                        self._nodes[access_point].radio_interface)
        return stations.get(self.access.station(station or self.station.name).mac, {})

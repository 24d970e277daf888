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
        self.station = access.get_station(scenario.mobile_node)
        self._session = session
        self._testbed = access.site.testbed
        self._nodes = access.site.network.nodes
        self._keys_before: dict[str, int] = {}
        #: Captures of MACsec key agreements by file, with the access point.
        self._agreements: dict[Path, str] = {}
        session.raw.update(events=[], kernel={}, roaming=roaming, roams_to=scenario.roams_to)

    @property
    def _used_access_points(self) -> list[str]:
        """Return the access points that the mobile node joins."""
        return [name for name in (self.scenario.home, self.scenario.roams_to) if name]

    @property
    def peer(self) -> str:
        """Return the address of the mobile node's peer."""
        return self._nodes[self.scenario.peer].address

    def reset(self) -> None:
        """Remove earlier state of the mobile node and record what is left of it."""
        self.access.reset_mobile_node(self.scenario)
        if self._roaming:
            self.station.keep_neighbours()
        self._session.raw["left"] = self.access.remaining_state(self.scenario)
        self._keys_before = {node: len(keys) for node, keys in self.access.read_tls_keys().items()}

    def visit_first(self) -> None:
        """Join the other access point once, if a later move uses its cached keys.

        Raises:
            MeasureError: The mobile node could not join.
        """
        if self._roaming == BACK and self.scenario.roams_to:
            self._join_access_point(self.scenario.roams_to, has_moved=False)
            self._has_visited = True

    def attach_at(self, access_point: str, prefix: str = "") -> None:
        """Get onto the network at one access point.

        The steps last from the first probe to the first answered packet.

        Raises:
            MeasureError: A step failed; the text includes the daemons' cause.
        """
        try:
            with self.access.explain_failures():
                self._attach_steps(access_point, prefix)
        finally:
            # After the timed part, when no step waits for it.
            self._session.raw["kernel"][f"{prefix}station"] = self._station_flags(access_point)

    def _attach_steps(self, access_point: str, prefix: str) -> None:
        raw, station = self._session.raw, self.station
        if not prefix:
            self._session.before_timing()
        self._session.stamp(f"{prefix}start")
        try:
            self._join_access_point(access_point, has_moved=bool(prefix))
        finally:
            self._session.stamp(f"{prefix}link")
        is_known = bool(prefix) and self._stays_in_subnet
        if prefix and self.access.follows:
            self.access.follow_tunnel(self.scenario)
        elif not (is_known and self._roaming):
            station.register()
        if station.registration is not None and not (is_known and self._roaming):
            raw[f"{prefix}registration"] = station.registration.history
        self._session.stamp(f"{prefix}registered")
        if not prefix or self._leaves_tunnel:
            self.access.negotiate_tunnel(station, self.scenario)
        self._session.stamp(f"{prefix}tunnel")
        limits, scenario = self.access.limits, self.scenario
        limit_s = limits.data_s(scenario)
        answered = station.is_reachable(self.peer, limit_s, limits.echo_again_s(scenario))
        self._session.stamp(f"{prefix}first_packet")
        raw.setdefault("link_keys", []).extend(kernel.link_keys(station.mac))
        if not answered:
            raise MeasureError("data", f"{station.name}: associated, but no packet "
                               f"comes back from {self.peer} within {limit_s:.3g} s")

    def run(self) -> None:
        """Get onto the network at home, and then move if the scenario says so."""
        self.attach_at(self.scenario.home)
        if self.scenario.roams_to:
            self.move_to(self.scenario.roams_to)

    def move_to(self, access_point: str) -> None:
        """Move from home to another access point, with existing keys or from a clean state."""
        self._session.before_timing()
        self._session.stamp("handoff")
        if not self._roaming:
            self.station.leave(keeps_tunnel=not self._leaves_tunnel)
        self.attach_at(access_point, "foreign_")

    def _join_access_point(self, access_point: str, *, has_moved: bool) -> None:
        """Associate with an access point, either bound to it or free to roam."""
        if not self._roaming:
            self.access.join_access_point(self.station, access_point)
            return
        if has_moved or self._has_visited:
            if not has_moved:  # what its home offers must show in this part, too
                self.station.scan_channel(self._nodes[access_point])
            self.station.roam(self._nodes[access_point])
            if not has_moved and self.scenario.roams_to:
                self.access.expire_station(self.station, self.scenario.roams_to)
        else:
            others = [self._nodes[name] for name in self._nodes_of(ACCESS_POINT)
                      if name != access_point]
            self.station.join_first(self._nodes[access_point], others)
        self.access.wait_authorized(self.station, access_point)

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
            known[self.station.name] = self._check_closed_port(out)
        check = known[self.station.name]
        for summary, octets in check.captures:
            (out / summary["file"]).write_bytes(octets)
            self._session.raw["captures"].append(summary)
        return check.raw

    def record_wires(self, out: Path) -> None:
        """Record the set-up of the access points' RadSec connections and MACsec keys.

        Both happen once per testbed. Every repetition gets the captures of those that it uses.
        """
        raw, used = self._session.raw, self._used_access_points
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
        self._record_agreements()

    def _record_agreements(self) -> None:
        """Record the MKA messages that have distributed keys so far."""
        raw = self._session.raw
        for file, access_point in self._agreements.items():
            kept = self.access.wire_keys.save_key_messages(access_point, file)
            for entry in raw["captures"]:
                if entry["file"] == file.name:
                    entry["captured"] = kept

    def record_tunnel_state(self, moment: str) -> None:
        """Record the SAs, or WireGuard sessions, of mobile node and agent at both ends."""
        if states := self.access.tunnel_states(self.scenario):
            self._session.raw["kernel"]["wireguard"] = states
        if self.access.has_ipsec:
            self._session.raw["kernel"][moment] = self.access.ipsec_states(self.scenario)

    def record_path_state(self) -> None:
        """Record kernel state of the companions and of the tunnel between the agents."""
        of_nodes, agents = self._session.raw["kernel"], self._nodes_of(HOME_AGENT)
        of_nodes["companions"] = {
            name: {"station": self._station_flags(self.scenario.home_of(name), name),
                   "sas": self._pair_sas(name, self._nodes[name].agent or "")
                   if self.access.has_ipsec else {}}
            for name in self.scenario.companions}
        self._session.raw["companion_keys"] = [
            key for name in self.scenario.companions
            for key in kernel.link_keys(self.access.get_station(name).mac)]
        if self.access.has_ipsec:
            kept = self._session.raw.setdefault("esp_keys", [])
            for node in dict.fromkeys((self.scenario.mobile_node, *self.scenario.companions,
                                       *agents)):
                kept += [key for key in kernel.xfrm_keys(self._testbed, node) if key not in kept]
        if self._testbed.macsec:
            of_nodes["wires"] = self.access.wire_keys.read_states(self._used_access_points)
        if self.access.has_ipsec and len(agents) > 1:
            of_nodes["agents"] = self._sas_between(
                agents, {self._nodes[agent].outer_address for agent in agents})

    def _nodes_of(self, duty: str) -> list[str]:
        return self.scenario.network.of_duty(duty)

    def _pair_sas(self, station: str, agent: str) -> dict[str, Any]:
        return self._sas_between((station, agent), {self._nodes[station].address,
                                                    self._nodes[agent].address})

    def _sas_between(self, nodes: Sequence[str], ends: set[str]) -> dict[str, Any]:
        """Return the SAs of these nodes between two addresses."""
        return {node: [state for state in kernel.xfrm_states(self._testbed, node)
                       if {state["src"], state["dst"]} == ends] for node in nodes}

    def record_end(self) -> None:
        """Record the values that are complete only at the end of the repetition."""
        self._session.raw["events"] = [vars(event) for event in self.station.supplicant.history]
        self._record_agreements()
        self._session.raw["ike_sas"] = self.station.ike_sas
        self._session.raw["tls_keys"] = [
            line for node, keys in self.access.read_tls_keys().items()
            for line in keys[self._keys_before.get(node, 0):]]

    def _check_closed_port(self, out: Path) -> PortCheck:
        """Associate while the authentication server is suspended: nothing may pass the port."""
        asked_s = time.time()
        captures: list[tuple[dict[str, Any], bytes]] = []
        self.access.reset_mobile_node(self.scenario)
        supplicant = self.station.supplicant
        with self.access.suspended_radius(self.scenario.agent):
            self.station.start_joining(self._nodes[self.scenario.home])
            associated = supplicant.wait_event(
                {"Associated"}, time.monotonic() + self.access.limits.link_s) is not None
            flags = self._station_flags(self.scenario.home)
            if associated:
                captures = port.probe_port(self.access.site, self.scenario, self.station, out)
        self.access.reset_mobile_node(self.scenario)
        return PortCheck({"at_s": asked_s, "associated": associated,
                          "authorized": flags.get("authorized", "unknown")}, captures)

    def _station_flags(self, access_point: str, station: str = "") -> dict[str, str]:
        """Return an access point's kernel flags of a station, by default the mobile node."""
        stations = kernel.station_flags(self._testbed, access_point,
                                        self._nodes[access_point].radio_interface)
        return stations.get(self.access.get_station(station or self.station.name).mac, {})

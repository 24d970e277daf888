"""Access is how mobile nodes get onto the network: the services for it, and each step on the way.

Times are on the wall clock of the machine, which also stamps the captures. Nothing is judged here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure import ike, kernel, port
from measure.errors import MeasureError
from measure.port import PortCheck
from measure.services.charon import Charon, IpsecTunnels
from measure.services.freeradius import FreeRadius
from measure.services.hostapd import Hostapd
from measure.services.mobile_ip import Agents, MobileIp, Registrations
from measure.services.wpa_supplicant import WpaSupplicant
from measure.station import LINK_S, MeasuredStation
from measure.workload import Service, Session, Site
from topologies.model import HOME_AGENT, Scenario

#: How long the first packet may take.
DATA_S = 2
# Child SAs between home agents: for nodes that are away, for visitors, for everything else.
_AGENT_CHILDREN = ("home", "visit", "subnets")


class Access:
    """The services of one policy on a built network, and the stations that use them."""

    def __init__(self, site: Site, settings: MobileIp) -> None:
        self.site = site
        self._freeradius = FreeRadius(site)
        self._hostapd = Hostapd(site)
        self._charon = Charon(site)
        self._supplicants = WpaSupplicant(site)
        self._registrations = Registrations(site, settings)
        self._agents = Agents(site, settings)
        self._stations: dict[str, MeasuredStation] = {}
        self._at_home: set[str] = set()
        self._measured: set[str] = set()
        #: What passed the closed port, by mobile node: looked at once each.
        self.port_checks: dict[str, PortCheck] = {}

    def services(self) -> list[Service]:
        """All that must run; slow starters first."""
        return [self._freeradius, self._charon, self._agents, self._registrations,
                self._supplicants, self._hostapd,
                IpsecTunnels(self.site, self._charon, HOME_AGENT, _AGENT_CHILDREN)]

    @property
    def has_ipsec(self) -> bool:
        """Whether the policy has tunnels between mobile nodes and home agents."""
        return bool(self.site.having(Charon.file, HOME_AGENT))

    def station(self, name: str) -> MeasuredStation:
        """A station as its services have it; they must be ready."""
        if name not in self._stations:
            charon = self._charon.socket(name) if name in self._charon.daemons else None
            self._stations[name] = MeasuredStation(
                self.site.testbed, name, self.site.network.nodes[name],
                self._supplicants.controls[name], self._registrations.programs[name], charon)
        return self._stations[name]

    def enter(self, scenario: Scenario) -> None:
        """Have the scenario's companions at home, and of the other stations none on the air."""
        staying = self._at_home & set(scenario.companions)
        for name in (self._at_home | self._measured) - staying - {scenario.mobile_node}:
            self.take_off(name)
        self._at_home = staying
        self._measured = {scenario.mobile_node}
        for name in set(scenario.companions) - staying:
            # From nothing: an attempt that failed may have left it halfway.
            self.take_off(name)
            self.station(name).connect(self.site.network.nodes[scenario.home_of(name)])
            self._at_home.add(name)

    def take_off(self, name: str) -> None:
        """Off the air, forgotten by every access point, and its earlier events with it."""
        station = self.station(name)
        station.leave()
        self._hostapd.forget(station.mac)
        station.supplicant.forget()

    def reset(self, scenario: Scenario) -> MeasuredStation:
        """The mobile node without what earlier ones left: link, scan results, keys, IPsec SAs.

        Its agent has no SAs with it any more, either.
        """
        self.enter(scenario)
        self.take_off(scenario.mobile_node)
        station = self.station(scenario.mobile_node)
        if scenario.agent in self._charon.daemons:
            # With the link down, the agent did not hear that they are given up.
            with ike.session(self._charon.socket(scenario.agent)) as session:
                ike.terminate(session, station.address)
        if station.left_over():
            raise MeasureError("testbed", f"{station.name}: IPsec SAs are left over")
        self.site.testbed.run(station.name, ["ip", "neigh", "flush", "dev", station.radio])
        station.supplicant.forget()
        return station

    def left(self, scenario: Scenario) -> dict[str, Any]:
        """What is left of the mobile node where it was reset: nothing, by kernels and supplicant.

        `sas`: IPsec SAs by node; `keys`: cached by its supplicant; `associated`: access points that
        have it; `tunnelled`: whether its agent still tunnels to where it was.
        """
        testbed, nodes = self.site.testbed, self.site.network.nodes
        station = self.station(scenario.mobile_node)
        places = dict.fromkeys((scenario.home, scenario.access_point))
        return {
            "sas": {name: len(states) for name, states in self.ipsec_states(scenario).items()},
            "keys": station.cached_keys(),
            "associated": [name for name in places if station.mac in kernel.station_flags(
                testbed, name, nodes[name].radio_interface)],
            "tunnelled": kernel.tunnelled(testbed, scenario.agent, station.address)}

    def ipsec_states(self, scenario: Scenario) -> dict[str, list[dict[str, Any]]]:
        """The IPsec SAs between mobile node and agent, at both ends; none without IPsec."""
        if not self.has_ipsec:
            return {}
        ends = {self.station(scenario.mobile_node).address,
                self.site.network.nodes[scenario.agent].address}
        return {node: [state for state in kernel.xfrm_states(self.site.testbed, node)
                       if {state["src"], state["dst"]} == ends]
                for node in (scenario.mobile_node, scenario.agent)}

    def connect(self, scenario: Scenario) -> MeasuredStation:
        """Authenticate from nothing and stay connected; nothing is captured."""
        station = self.reset(scenario)
        station.connect(self.site.network.nodes[scenario.home])
        return station

    @contextmanager
    def silent_radius(self, agent: str) -> Iterator[None]:
        """Hold an agent's authentication server still, so that it admits nobody."""
        with self._freeradius.silent(agent):
            yield


class Arrival:
    """The steps of one mobile node onto the network; raw values and stamps go to a session.

    `raw` has `events`, `kernel` and `registration` afterwards, those of a visited network with the
    prefix `foreign_`.
    """

    def __init__(self, access: Access, scenario: Scenario, session: Session) -> None:
        self.access = access
        self.scenario = scenario
        self.station = access.station(scenario.mobile_node)
        self._session = session
        self._testbed = access.site.testbed
        self._nodes = access.site.network.nodes
        session.raw.update(events=[], kernel={})

    @property
    def peer(self) -> str:
        """The address of the node that the mobile node talks to."""
        return self._nodes[self.scenario.peer].address

    def begin(self) -> None:
        """From nothing: take off what was there, and note what is left all the same."""
        self.access.reset(self.scenario)
        self._session.raw["left"] = self.access.left(self.scenario)

    def get_on(self, access_point: str, prefix: str = "", *, amid_traffic: bool = False) -> None:
        """Everything from the first probe to the first answered packet, at one access point."""
        raw, station = self._session.raw, self.station
        self._session.stamp(f"{prefix}start")
        try:
            station.join(self._nodes[access_point])
        finally:
            self._session.stamp(f"{prefix}link")
            raw["kernel"][f"{prefix}station"] = self._flags(access_point)
        station.register()
        self._session.stamp(f"{prefix}registered")
        raw[f"{prefix}registration"] = station.registration.history
        station.tunnel(anew=amid_traffic)
        self._session.stamp(f"{prefix}tunnel")
        answered = station.ping(self.peer, DATA_S)
        self._session.stamp(f"{prefix}first_packet")
        # Once more: the access point opens its port a frame later than the station.
        raw["kernel"][f"{prefix}station"] = self._flags(access_point)
        if not answered:
            raise MeasureError("data", f"{station.name}: associated, but no packet "
                               f"comes back from {self.peer} within {DATA_S:g} s")

    def arrive(self) -> None:
        """At home, and where the scenario says so, from there to the visited network."""
        self.get_on(self.scenario.home)
        if self.scenario.roams_to:
            self.move(self.scenario.roams_to)

    def move(self, access_point: str, *, amid_traffic: bool = False) -> None:
        """From home to the visited network: give the link up, and get on from nothing."""
        self._session.stamp("handoff")
        self.station.leave()
        self.get_on(access_point, "foreign_", amid_traffic=amid_traffic)

    def check_port(self, out: Path) -> dict[str, Any]:
        """What passes an access point that has not authorized the mobile node; asked once each.

        Every repetition gets the two small captures of it: `port-air.pcap` and `port-wire.pcap`.
        """
        known = self.access.port_checks
        if self.station.name not in known:
            known[self.station.name] = self._port_closed(out)
        check = known[self.station.name]
        for summary, octets in check.captures:
            (out / summary["file"]).write_bytes(octets)
            self._session.raw["captures"].append(summary)
        return check.raw

    def ipsec_state(self, moment: str) -> None:
        """Note the IPsec SAs between the mobile node and its agent, at both ends."""
        if self.access.has_ipsec:
            self._session.raw["kernel"][moment] = self.access.ipsec_states(self.scenario)

    def rest_of_the_path(self) -> None:
        """Note what the kernels say of the companions, and of the tunnel between the agents."""
        of_nodes, agents = self._session.raw["kernel"], self._nodes_of(HOME_AGENT)
        of_nodes["companions"] = {
            name: {"station": self._flags(self.scenario.home_of(name), name),
                   "sas": self._pair(name, self._nodes[name].agent or "")
                   if self.access.has_ipsec else {}}
            for name in self.scenario.companions}
        if self.access.has_ipsec and len(agents) > 1:
            of_nodes["agents"] = self._between(
                agents, {self._nodes[agent].outer_address for agent in agents})

    def _nodes_of(self, duty: str) -> list[str]:
        return self.scenario.network.of_duty(duty)

    def _pair(self, station: str, agent: str) -> dict[str, Any]:
        return self._between((station, agent), {self._nodes[station].address,
                                                self._nodes[agent].address})

    def _between(self, nodes: Sequence[str], ends: set[str]) -> dict[str, Any]:
        """The SAs of these nodes between two addresses."""
        return {node: [state for state in kernel.xfrm_states(self._testbed, node)
                       if {state["src"], state["dst"]} == ends] for node in nodes}

    def finish(self) -> None:
        """Note what is only complete when the repetition ends."""
        self._session.raw["events"] = [vars(event) for event in self.station.supplicant.history]
        self._session.raw["ike_sas"] = self.station.ike_sas

    def _port_closed(self, out: Path) -> PortCheck:
        """Associate while the authentication server is held still: nothing may pass the port."""
        asked_s = time.time()
        captures: list[tuple[dict[str, Any], bytes]] = []
        self.access.reset(self.scenario)
        supplicant = self.station.supplicant
        with self.access.silent_radius(self.scenario.agent):
            self.station.begin(self._nodes[self.scenario.home])
            associated = supplicant.wait({"Associated"}, time.monotonic() + LINK_S) is not None
            flags = self._flags(self.scenario.home)
            if associated:
                captures = port.knock(self.access.site, self.scenario, self.station, out)
        self.access.reset(self.scenario)
        return PortCheck({"at_s": asked_s, "associated": associated,
                          "authorized": flags.get("authorized", "unknown")}, captures)

    def _flags(self, access_point: str, station: str = "") -> dict[str, str]:
        """What an access point's kernel says of a station, by default the mobile node."""
        stations = kernel.station_flags(self._testbed, access_point,
                                        self._nodes[access_point].radio_interface)
        return stations.get(self.access.station(station or self.station.name).mac, {})

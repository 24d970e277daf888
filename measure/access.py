"""Access is what mobile nodes get onto the network by: the services, and the stations on them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from measure import ike, kernel, routing
from measure.errors import MeasureError
from measure.forks import Forks
from measure.port import PortCheck
from measure.services import evil_twin
from measure.services.charon import Charon, IpsecTunnels
from measure.services.eap_server import EapServer, SubscriberGateways, SubscriberServers
from measure.services.echoes import EchoSockets
from measure.services.explaining import explaining
from measure.services.freeradius import FreeRadius
from measure.services.hostapd import Hostapd
from measure.services.macsec import WireKeys
from measure.services.mobile_ip import PROGRAMS, Agents, MobileIp, Registrations
from measure.services.mobile_wireguard import MobileWireGuard
from measure.services.radius_proxy import Connected, RadiusProxies
from measure.services.wpa_supplicant import WpaSupplicant
from measure.station import POLL_S, MeasuredStation
from measure.time_limits import TimeLimits
from measure.workload import Service, Site
from topologies.model import HOME_AGENT, Scenario

if TYPE_CHECKING:  # it takes more than the standard library, which few policies do
    from measure.card import SoftwareCard

# Child SAs between home agents: for nodes that are away, for visitors, for everything else.
_AGENT_CHILDREN = ("home", "visit", "subnets")


class Access:
    """The services of one policy on a built network, and the stations that use them."""

    def __init__(self, site: Site, settings: MobileIp) -> None:
        self.site = site
        self.limits = TimeLimits.of(site.testbed)
        self._freeradius = FreeRadius(site, tells_keys=True)
        #: Of wires that MACsec protects; none without it.
        self.wire_keys = WireKeys(site)
        self._eap_server = EapServer(site)
        self._proxies = RadiusProxies(site, self._freeradius)
        self._hostapd = Hostapd(site)
        self._charon = Charon(site)
        self._wireguard = MobileWireGuard(site)
        self._supplicants = WpaSupplicant(site)
        self._forks = Forks(site, PROGRAMS)
        self._registrations = Registrations(site, settings, self._forks)
        self._agents = Agents(site, settings, self._forks)
        self._echoes = EchoSockets(site)
        self._stations: dict[str, MeasuredStation] = {}
        self._at_home: set[str] = set()
        self._measured: set[str] = set()
        #: What passed the closed port, by mobile node: looked at once each.
        self.port_checks: dict[str, PortCheck] = {}

    def services(self) -> list[Service]:
        """All that must run; slow starters first."""
        mobile_ip: list[Service] = [] if self.follows else [
            self._forks, self._agents, self._registrations]
        return [self._freeradius, self._eap_server, SubscriberServers(self.site),
                SubscriberGateways(self.site), self.wire_keys, self._charon, *mobile_ip,
                self._supplicants, self._hostapd, self._wireguard, self._proxies, self._echoes,
                IpsecTunnels(self.site, self._charon, HOME_AGENT, _AGENT_CHILDREN)]

    @property
    def has_ipsec(self) -> bool:
        """Whether the policy has tunnels between mobile nodes and home agents."""
        return bool(self.site.having(Charon.file, HOME_AGENT))

    @cached_property  # asked while a move is timed
    def follows(self) -> bool:
        """Whether tunnels follow their nodes to other subnets, where Mobile IP does otherwise."""
        return self._wireguard.roams or self._charon.follows

    def follow(self, scenario: Scenario) -> None:
        """Have the mobile node's tunnel follow it to where it visits. Raises MeasureError."""
        if scenario.visit is not None:
            station = self.station(scenario.mobile_node)
            station.follow(scenario.visit)
            self._wireguard.follow(station.name)

    def tunnel_device(self, node: str) -> str:
        """The device that a node's packets leave WireGuard by; "" without one."""
        return self._wireguard.device(node)

    def tunnel_states(self, scenario: Scenario) -> dict[str, list[dict[str, Any]]]:
        """What the kernels of mobile node and agent have of WireGuard; nothing without it."""
        return {node: states for node in (scenario.mobile_node, scenario.agent)
                if (states := self._wireguard.state(node))}

    def station(self, name: str) -> MeasuredStation:
        """A station as its services have it; they must be ready."""
        if name not in self._stations:
            charon = self._charon.socket(name) if name in self._charon.daemons else None
            self._stations[name] = MeasuredStation(
                self.site.testbed, name,
                self._supplicants.controls[name], self._registrations.programs.get(name), charon,
                self.site.log(Charon.name, name), self._answer_of_card,
                echoes=self._echoes.sockets[name])
        return self._stations[name]

    def _answer_of_card(self, asked: str) -> str:
        """What the subscriber's card says; it is loaded when it is asked first."""
        return self._card.answer(asked)

    @cached_property
    def _card(self) -> SoftwareCard:
        """The subscriber's, which stations have in turn: it counts what it was asked."""
        from measure.card import SoftwareCard

        return SoftwareCard(self.site.secrets["card"])

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
            self.attach(name, scenario.home_of(name))
            self._at_home.add(name)

    def send_away(self, name: str) -> None:
        """Have a companion leave, who comes again for the next repetition."""
        self.take_off(name)
        self._at_home.discard(name)

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
                for address in self._outer(scenario):
                    ike.terminate(session, address)
        self._wireguard.renew()
        # What was said of it is on long wires still, and not to be taken for what is said next.
        time.sleep(self.limits.under_way_s)
        if station.left_over():
            raise MeasureError("testbed", f"{station.name}: IPsec SAs are left over")
        routing.forget_neighbours(self.site.testbed.node(station.name).pid, station.radio)
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
        agent = self.site.network.nodes[scenario.agent].address
        ends = [{address, agent} for address in self._outer(scenario)]
        return {node: [state for state in kernel.xfrm_states(self.site.testbed, node)
                       if {state["src"], state["dst"]} in ends]
                for node in (scenario.mobile_node, scenario.agent)}

    def _outer(self, scenario: Scenario) -> list[str]:
        """The addresses that the mobile node's tunnel goes by, at home and away."""
        away = [scenario.visit.ip] if scenario.visit is not None and self.follows else []
        return [self.station(scenario.mobile_node).address, *away]

    def connect(self, scenario: Scenario) -> MeasuredStation:
        """Authenticate from nothing and stay connected; nothing is captured."""
        station = self.reset(scenario)
        self.attach(station.name, scenario.home)
        return station

    def attach(self, name: str, access_point: str) -> None:
        """All steps of a station onto the network, at one access point. Raises MeasureError."""
        station = self.station(name)
        with self.explaining():
            self.join(station, access_point)
            station.register()
            station.tunnel()

    def explaining(self) -> AbstractContextManager[None]:
        """Add to a MeasureError what daemons have said meanwhile of why it came about."""
        return explaining((self._supplicants, self._hostapd, self._proxies, self._freeradius,
                           self._eap_server, self._charon))

    def join(self, station: MeasuredStation, access_point: str) -> None:
        """Associate and authenticate with one access point, until both sides say so.

        Of an association and of a four-way handshake, the station has seen the end before the
        access point has: what it sends in between is lost. Raises MeasureError.
        """
        station.join(self.site.network.nodes[access_point])
        self.let_in(station, access_point)

    def let_in(self, station: MeasuredStation, access_point: str) -> None:
        """Wait until an access point lets a station pass that is connected. Raises MeasureError."""
        if not self._admitted(station, access_point):
            raise MeasureError("link", f"{station.name}: connected, but {access_point} does not "
                               "let it pass")

    def tunnel(self, station: MeasuredStation, scenario: Scenario) -> None:
        """Have a station's tunnel negotiated, until both ends have it. Raises MeasureError.

        The station has it before the agent has heard its last message: what it sends in between is
        lost.
        """
        station.tunnel()
        if not station.charon or scenario.agent not in self._charon.daemons:
            return
        until = time.monotonic() + self.limits.ike_s
        with ike.session(self._charon.socket(scenario.agent)) as session:
            while not ike.has_tunnel(session, self._outer(scenario)):
                if time.monotonic() > until:
                    raise MeasureError("ike", f"{station.name}: has a tunnel that {scenario.agent} "
                                       "does not have")
                time.sleep(POLL_S)

    def expire(self, station: MeasuredStation, access_point: str) -> None:
        """Have an access point notice that a station has gone on to another one."""
        self._hostapd.expire(access_point, station.mac)

    def _admitted(self, station: MeasuredStation, access_point: str) -> bool:
        """Whether an access point lets a station pass: its daemon says so, and then its kernel."""
        until = time.monotonic() + self.limits.link_s
        if not self._hostapd.admitted(access_point, station.mac, until):
            return False
        radio = self.site.network.nodes[access_point].radio_interface
        while time.monotonic() < until:
            if kernel.is_authorized(self.site.testbed, access_point, radio, station.mac):
                return True
            time.sleep(POLL_S)  # or virtual time would stand still, and the kernel never get there
        return False

    def twin_of(self, access_point: str, mobile_node: str) -> AbstractContextManager[None]:
        """An evil twin in an access point's place while this lasts (an attack)."""
        return evil_twin.in_place_of(self.site, self._hostapd, access_point, mobile_node)

    def tls_keys(self) -> dict[str, list[str]]:
        """What each authentication server used as keys of TLS so far."""
        return self._freeradius.tls_keys()

    @property
    def proxies(self) -> Mapping[str, Connected]:
        """The connections of RadSec as they were made, by access point; none without it."""
        return self._proxies.connections

    @contextmanager
    def silent_radius(self, agent: str) -> Iterator[None]:
        """Hold an agent's authentication server still, so that it admits nobody."""
        with self._freeradius.silent([agent]), self._eap_server.silent([agent]):
            yield

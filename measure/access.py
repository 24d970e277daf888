"""Network access of mobile nodes: the services, and the stations that use them."""

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
from measure.services.explaining import explain_failures
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

if TYPE_CHECKING:  # needs more than the standard library, and only some policies use it
    from measure.card import SoftwareCard

# Child SAs between home agents: for nodes that are away, for visitors, and for all other traffic.
_AGENT_CHILDREN = ("home", "visit", "subnets")


class Access:
    """The services of one policy on a built network, and the stations that use them."""

    def __init__(self, site: Site, settings: MobileIp) -> None:
        self.site = site
        self.limits = TimeLimits.for_testbed(site.testbed)
        self._freeradius = FreeRadius(site, tells_keys=True)
        #: MACsec on protected wires; no daemon runs without MACsec.
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
        #: Captures of the closed port by mobile node; each port is checked once.
        self.port_checks: dict[str, PortCheck] = {}

    def services(self) -> list[Service]:
        """Return all services of the policy, slow starters first."""
        mobile_ip: list[Service] = [] if self.follows else [
            self._forks, self._agents, self._registrations]
        return [self._freeradius, self._eap_server, SubscriberServers(self.site),
                SubscriberGateways(self.site), self.wire_keys, self._charon, *mobile_ip,
                self._supplicants, self._hostapd, self._wireguard, self._proxies, self._echoes,
                IpsecTunnels(self.site, self._charon, HOME_AGENT, _AGENT_CHILDREN)]

    @property
    def has_ipsec(self) -> bool:
        """Return whether the policy has tunnels between mobile nodes and home agents."""
        return bool(self.site.nodes_with_file(Charon.file, HOME_AGENT))

    @cached_property  # read while a handoff is timed
    def follows(self) -> bool:
        """Return whether tunnels follow their nodes to other subnets, in place of Mobile IP."""
        return self._wireguard.roams or self._charon.uses_mobike

    def follow_tunnel(self, scenario: Scenario) -> None:
        """Make the mobile node's tunnel follow it to the visited subnet.

        Raises:
            MeasureError: The tunnel did not follow in time.
        """
        if scenario.visit is not None:
            station = self.get_station(scenario.mobile_node)
            station.follow_visit(scenario.visit)
            self._wireguard.renew_source(station.name)

    def tunnel_device(self, node: str) -> str:
        """Return the name of a node's WireGuard device, or "" without one."""
        return self._wireguard.device_name(node)

    def tunnel_states(self, scenario: Scenario) -> dict[str, list[dict[str, Any]]]:
        """Return the WireGuard state of mobile node and agent by node, if any."""
        return {node: states for node in (scenario.mobile_node, scenario.agent)
                if (states := self._wireguard.read_state(node))}

    def get_station(self, name: str) -> MeasuredStation:
        """Return a station with its services, which must be ready."""
        if name not in self._stations:
            charon = self._charon.socket_path(name) if name in self._charon.daemons else None
            self._stations[name] = MeasuredStation(
                self.site.testbed, name,
                self._supplicants.controls[name], self._registrations.programs.get(name), charon,
                self.site.log_path(Charon.name, name), self._answer_challenge,
                echoes=self._echoes.sockets[name])
        return self._stations[name]

    def _answer_challenge(self, request: str) -> str:
        """Return the answer of the subscriber's card, loaded at the first request."""
        return self._card.answer_challenge(request)

    @cached_property
    def _card(self) -> SoftwareCard:
        """Return the subscriber's card, which all stations use in turn.

        The card counts its challenges.
        """
        from measure.card import SoftwareCard

        return SoftwareCard(self.site.secrets["card"])

    def place_stations(self, scenario: Scenario) -> None:
        """Attach the scenario's companions at home and disconnect stations that take no part."""
        staying = self._at_home & set(scenario.companions)
        for name in (self._at_home | self._measured) - staying - {scenario.mobile_node}:
            self.remove_station(name)
        self._at_home = staying
        self._measured = {scenario.mobile_node}
        for name in set(scenario.companions) - staying:
            # Start from a clean state: a failed attempt may have left the station halfway.
            self.remove_station(name)
            self.attach_station(name, scenario.home_of(name))
            self._at_home.add(name)

    def dismiss_companion(self, name: str) -> None:
        """Disconnect a companion until the next repetition."""
        self.remove_station(name)
        self._at_home.discard(name)

    def remove_station(self, name: str) -> None:
        """Disconnect a station, remove it from every access point and drop its events."""
        station = self.get_station(name)
        station.leave()
        self._hostapd.forget_station(station.mac)
        station.supplicant.drop_events()

    def reset_mobile_node(self, scenario: Scenario) -> MeasuredStation:
        """Remove all earlier state of the mobile node: link, scan results, keys and IPsec SAs.

        The agent's SAs with the node are removed, too.

        Raises:
            MeasureError: IPsec SAs are left over.
        """
        self.place_stations(scenario)
        self.remove_station(scenario.mobile_node)
        station = self.get_station(scenario.mobile_node)
        if scenario.agent in self._charon.daemons:
            # The link was down, so the agent did not receive the node's deletion of the SAs.
            with ike.open_session(self._charon.socket_path(scenario.agent)) as session:
                for address in self._outer_addresses(scenario):
                    ike.delete_sas(session, address)
        self._wireguard.renew_tunnels()
        # Delayed packets about the old state must not be taken for new ones.
        time.sleep(self.limits.under_way_s)
        if station.remaining_sas():
            raise MeasureError("testbed", f"{station.name}: IPsec SAs are left over")
        routing.delete_neighbours(self.site.testbed.node(station.name).pid, station.radio)
        station.supplicant.drop_events()
        return station

    def remaining_state(self, scenario: Scenario) -> dict[str, Any]:
        """Return what is left of the mobile node after `reset_mobile_node`.

        Kernels and the supplicant are asked.

        Returns:
            sas: Number of IPsec SAs by node.
            keys: Number of PMKSAs that its supplicant has cached.
            associated: Access points that list the node.
            tunnelled: Whether its agent still tunnels packets to its earlier care-of address.
        """
        testbed, nodes = self.site.testbed, self.site.network.nodes
        station = self.get_station(scenario.mobile_node)
        places = dict.fromkeys((scenario.home, scenario.access_point))
        return {
            "sas": {name: len(states) for name, states in self.ipsec_states(scenario).items()},
            "keys": station.count_cached_keys(),
            "associated": [name for name in places if station.mac in kernel.station_flags(
                testbed, name, nodes[name].radio_interface)],
            "tunnelled": kernel.is_tunnelled(testbed, scenario.agent, station.address)}

    def ipsec_states(self, scenario: Scenario) -> dict[str, list[dict[str, Any]]]:
        """Return the IPsec SAs between mobile node and agent at both ends, if any."""
        if not self.has_ipsec:
            return {}
        agent = self.site.network.nodes[scenario.agent].address
        ends = [{address, agent} for address in self._outer_addresses(scenario)]
        return {node: [state for state in kernel.xfrm_states(self.site.testbed, node)
                       if {state["src"], state["dst"]} in ends]
                for node in (scenario.mobile_node, scenario.agent)}

    def _outer_addresses(self, scenario: Scenario) -> list[str]:
        """Return the outer addresses of the mobile node's tunnel, at home and away."""
        away = [scenario.visit.ip] if scenario.visit is not None and self.follows else []
        return [self.get_station(scenario.mobile_node).address, *away]

    def connect_mobile_node(self, scenario: Scenario) -> MeasuredStation:
        """Authenticate from a clean state and stay connected, without captures."""
        station = self.reset_mobile_node(scenario)
        self.attach_station(station.name, scenario.home)
        return station

    def attach_station(self, name: str, access_point: str) -> None:
        """Attach a station to the network at one access point, with all steps.

        Raises:
            MeasureError: A step failed; the text includes the daemons' cause.
        """
        station = self.get_station(name)
        with self.explain_failures():
            self.join_access_point(station, access_point)
            station.register()
            station.negotiate_tunnel()

    def explain_failures(self) -> AbstractContextManager[None]:
        """Add the daemons' cause to a MeasureError raised inside the context."""
        return explain_failures((self._supplicants, self._hostapd, self._proxies, self._freeradius,
                                 self._eap_server, self._charon))

    def join_access_point(self, station: MeasuredStation, access_point: str) -> None:
        """Associate and authenticate with one access point, until both sides are ready.

        The station finishes the association and the four-way handshake before the access point
        does. Its frames in between are lost.

        Raises:
            MeasureError: The station or the access point is not ready in time.
        """
        station.join_access_point(self.site.network.nodes[access_point])
        self.wait_authorized(station, access_point)

    def wait_authorized(self, station: MeasuredStation, access_point: str) -> None:
        """Wait until an access point lets a connected station's frames pass.

        Raises:
            MeasureError: The access point does not authorise the station in time.
        """
        if not self._is_authorized(station, access_point):
            raise MeasureError("link", f"{station.name}: connected, but {access_point} does not "
                               "let it pass")

    def negotiate_tunnel(self, station: MeasuredStation, scenario: Scenario) -> None:
        """Negotiate a station's tunnel until both ends have it.

        The station has the tunnel before the agent has received its last message. Its packets in
        between are lost.

        Raises:
            MeasureError: An end does not have the tunnel in time.
        """
        station.negotiate_tunnel()
        if not station.charon or scenario.agent not in self._charon.daemons:
            return
        until = time.monotonic() + self.limits.ike_s
        with ike.open_session(self._charon.socket_path(scenario.agent)) as session:
            while not ike.has_tunnel(session, self._outer_addresses(scenario)):
                if time.monotonic() > until:
                    raise MeasureError("ike", f"{station.name}: has a tunnel that {scenario.agent} "
                                       "does not have")
                time.sleep(POLL_S)

    def expire_station(self, station: MeasuredStation, access_point: str) -> None:
        """Make an access point drop a station that has moved to another one."""
        self._hostapd.expire_station(access_point, station.mac)

    def _is_authorized(self, station: MeasuredStation, access_point: str) -> bool:
        """Return whether an access point authorises a station in time.

        The daemon reports it first, and then the kernel.
        """
        until = time.monotonic() + self.limits.link_s
        if not self._hostapd.wait_authorized(access_point, station.mac, until):
            return False
        radio = self.site.network.nodes[access_point].radio_interface
        while time.monotonic() < until:
            if kernel.is_authorized(self.site.testbed, access_point, radio, station.mac):
                return True
            time.sleep(POLL_S)  # sleeping advances virtual time, so that the kernel gets there
        return False

    def evil_twin_of(self, access_point: str, mobile_node: str) -> AbstractContextManager[None]:
        """Replace an access point by an evil twin inside the context (an attack)."""
        return evil_twin.replace_by_twin(self.site, self._hostapd, access_point, mobile_node)

    def read_tls_keys(self) -> dict[str, list[str]]:
        """Return the TLS keys of each authentication server so far."""
        return self._freeradius.read_tls_keys()

    @property
    def proxies(self) -> Mapping[str, Connected]:
        """Return the TLS connections of RadSec by access point, empty without RadSec."""
        return self._proxies.connections

    @contextmanager
    def suspended_radius(self, agent: str) -> Iterator[None]:
        """Suspend an agent's authentication server, so that it admits no station."""
        with self._freeradius.suspended([agent]), self._eap_server.suspended([agent]):
            yield

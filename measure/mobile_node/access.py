"""Start the daemons that a policy needs, and let mobile nodes join the network.

Studies that measure a Wi-Fi network use it in the guest. `NetworkAccess` takes a running network
with the settings of its run (`Site`). `list_services` returns the daemons to start, such as
hostapd, FreeRADIUS and charon. `get_station` returns the control of one mobile node
(`MeasuredStation`). Further methods let nodes join, and remove their state before the next
measurement. `measure.mobile_node.attachment` calls them in the order of a measurement.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from measure.agent import kernel_state
from measure.agent.errors import MeasureError
from measure.agent.time_limits import TimeLimits
from measure.agent.workload import Service, Site
from measure.attacks import evil_twin
from measure.mobile_node.alternatives import AlternativeTrials
from measure.mobile_node.station import POLL_S, MeasuredStation, PortCheck
from measure.services import charon
from measure.services.charon import Charon, IpsecTunnels
from measure.services.daemons import explain_failures
from measure.services.dhcp import DhcpClients, DhcpServers
from measure.services.hostap import Hostapd, WpaSupplicant
from measure.services.icmp_echo import EchoSockets
from measure.services.macsec import MacsecKeyAgreement
from measure.services.mobile_ip import PROGRAMS, MobileIp, MobileIpAgents, MobileNodePrograms
from measure.services.programs import ForkService
from measure.services.radius import (
    EapServer,
    FreeRadius,
    RadiusProxies,
    RadSecConnection,
    SubscriberGateways,
    SubscriberServers,
)
from measure.services.revocation import OcspResponders
from measure.services.slaac import SlaacClient
from measure.services.tunnels import MobileMptcp, MobileQuic, MobileTunnels
from measure.services.wireguard import MobileWireGuard
from topologies.model import HOME_AGENT, IPV6, Scenario

if TYPE_CHECKING:  # needs more than the standard library, and only some policies use it
    from measure.services.usim import SoftwareUsim

# Child SAs between home agents: for nodes that are away, for visitors, and for all other traffic.
_AGENT_CHILDREN = ("home", "visit", "subnets")


class NetworkAccess:
    """The daemons of one policy on a running network, and the mobile nodes that use them."""

    def __init__(self, site: Site, settings: MobileIp) -> None:
        self.site = site
        self.limits = TimeLimits.for_testbed(site.testbed)
        self.freeradius = FreeRadius(site, tells_keys=True)
        self._responders = OcspResponders(site)
        #: MACsec on protected wires; no daemon runs without MACsec.
        self.wire_keys = MacsecKeyAgreement(site)
        self._eap_server = EapServer(site)
        self._proxies = RadiusProxies(site, self.freeradius)
        self._hostapd = Hostapd(site)
        self._charon = Charon(site)
        self._wireguard = MobileWireGuard(site)
        self._quic = MobileQuic(site)
        self._program_tunnels: Sequence[MobileTunnels] = (self._quic, MobileMptcp(site))
        self._supplicants = WpaSupplicant(site)
        self._forks = ForkService(site, PROGRAMS)
        self._registrations = MobileNodePrograms(site, settings, self._forks)
        self._agents = MobileIpAgents(site, settings, self._forks)
        self._echoes = EchoSockets(site)
        self._dhcp_servers, self._dhcp_clients = DhcpServers(site), DhcpClients(site)
        self._stations: dict[str, MeasuredStation] = {}
        self._at_home: set[str] = set()
        self._measured: set[str] = set()
        #: Captures of the closed port by mobile node; each port is checked once.
        self.port_checks: dict[str, PortCheck] = {}
        #: Attempts with what else an end accepts, by mobile node; each is made once.
        self.alternatives: dict[str, AlternativeTrials] = {}

    def list_services(self) -> list[Service]:
        """Return all daemons of the policy as services, slow starters first."""
        mobile_ip: list[Service] = [
            self._forks, self._agents, self._registrations] if self.has_mobile_ip else []
        return [self.freeradius, self._responders, self._eap_server, SubscriberServers(self.site),
                SubscriberGateways(self.site), self.wire_keys, self._charon, *mobile_ip,
                self._supplicants, self._hostapd, self._wireguard, *self._program_tunnels,
                self._proxies, self._echoes, self._dhcp_servers, self._dhcp_clients,
                IpsecTunnels(self.site, self._charon, self.site.network.tunnel_gateways,
                             _AGENT_CHILDREN)]

    @property
    def has_ipsec(self) -> bool:
        """Return whether the policy has tunnels between mobile nodes and their gateways."""
        return any(name in self.site.network.tunnel_gateways
                   for name in self.site.nodes_with_file(Charon.file))

    @property
    def has_mobile_ip(self) -> bool:
        """Return whether mobile nodes register with home agents."""
        return bool(self.site.network.of_duty(HOME_AGENT)) and not self.has_following_tunnel

    @cached_property  # read while a handoff is timed
    def has_following_tunnel(self) -> bool:
        """Return whether tunnels move with their nodes to other subnets, in place of Mobile IP."""
        return (self._wireguard.roams or self._charon.uses_mobike
                or any(tunnels.is_used for tunnels in self._program_tunnels))

    def follow_tunnel(self, scenario: Scenario) -> None:
        """Move the mobile node's tunnel to its address in the visited subnet.

        Raises:
            MeasureError: The tunnel did not follow in time.
        """
        if scenario.visit is not None:
            station = self.get_station(scenario.mobile_node)
            station.follow_visit(scenario.visit)
            self._wireguard.renew_source(station.name)
            for tunnels in self._program_tunnels:
                tunnels.follow_address(station.name)

    def tunnel_device(self, node: str) -> str:
        """Return the name of the interface of the node's tunnel, or "" without such a tunnel."""
        names = (tunnels.device_name(node) for tunnels in self._program_tunnels)
        return self._wireguard.device_name(node) or next(filter(None, names), "")

    def tunnel_states(self, scenario: Scenario) -> dict[str, list[dict[str, Any]]]:
        """Return the WireGuard state of mobile node and home agent, by node, empty without one."""
        return {node: states for node in (scenario.mobile_node, scenario.agent)
                if (states := self._wireguard.read_state(node))}

    def program_states(self, scenario: Scenario) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the state of a tunnel's programs at mobile node and home agent.

        Returns:
            State by node, by protocol: `quic` or `mptcp`. Empty without such a tunnel.
        """
        return {tunnels.name: states for tunnels in self._program_tunnels
                if (states := {node: state for node in (scenario.mobile_node, scenario.agent)
                               if (state := tunnels.read_state(node))})}

    def get_station(self, name: str) -> MeasuredStation:
        """Return the control object of a mobile node. Its daemons must be ready."""
        if name not in self._stations:
            charon = self._charon.socket_path(name) if name in self._charon.daemons else None
            self._stations[name] = MeasuredStation(
                self.site.testbed, name,
                self._supplicants.controls[name], self._registrations.programs.get(name), charon,
                self.site.log_path(Charon.name, name), self._answer_challenge,
                echoes=self._echoes.sockets[name])
            self._stations[name].address_client = self._dhcp_clients.client_of(
                name) or self._slaac_client(name)
        return self._stations[name]

    def _slaac_client(self, station: str) -> SlaacClient | None:
        """Return what gives a station its IPv6 address, None in a network without IPv6."""
        network = self.site.network
        return SlaacClient(self.site.testbed.node(station).pid,
                           network.nodes[station].radio_interface,
                           network.address_of(station)) if network.ip == IPV6 else None

    def _answer_challenge(self, request: str) -> str:
        """Return the answer of the emulated SIM card to an EAP-AKA challenge."""
        return self._emulated_card.answer_challenge(request)

    @cached_property
    def _emulated_card(self) -> SoftwareUsim:
        """Return the emulated SIM card, which all stations use in turn.

        The card counts its challenges.
        """
        from measure.services.usim import SoftwareUsim

        return SoftwareUsim(self.site.secrets["card"])

    def place_stations(self, scenario: Scenario) -> None:
        """Let the scenario's other mobile nodes join at home, and disconnect all unused ones."""
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
        """Disconnect one of the other mobile nodes until the next repetition."""
        self.remove_station(name)
        self._at_home.discard(name)

    def remove_station(self, name: str) -> None:
        """Disconnect a station, remove it from every access point and discard its events."""
        station = self.get_station(name)
        station.leave()
        self._hostapd.forget_station(station.mac)
        station.supplicant.drop_events()

    def reset_mobile_node(self, scenario: Scenario) -> MeasuredStation:
        """Remove all earlier state of the mobile node: link, scan results, keys and IPsec SAs.

        The home agent's SAs with the node are removed, too.

        Raises:
            MeasureError: IPsec SAs are left over.
        """
        self.place_stations(scenario)
        self.remove_station(scenario.mobile_node)
        for name in dict.fromkeys((scenario.home, scenario.access_point)):
            if scenario.network.fails_over(name) and name in self._hostapd.daemons:
                self._hostapd.restart_on(name)
        station = self.get_station(scenario.mobile_node)
        if scenario.agent in self._charon.daemons:
            # The link was down, so the agent did not receive the node's deletion of the SAs.
            with charon.open_session(self._charon.socket_path(scenario.agent)) as session:
                for address in self._outer_addresses(scenario):
                    charon.delete_sas(session, address)
        self._wireguard.renew_tunnels()
        for tunnels in self._program_tunnels:
            tunnels.forget_connection(scenario.mobile_node)
        # Delayed packets about the old state must not be taken for new ones.
        time.sleep(self.limits.under_way_s)
        if station.remaining_sas():
            raise MeasureError("testbed", f"{station.name}: IPsec SAs are left over")
        kernel_state.delete_neighbours(self.site.testbed.node(station.name).pid, station.radio)
        station.supplicant.drop_events()
        return station

    def remaining_state(self, scenario: Scenario) -> dict[str, Any]:
        """Return the state of the mobile node that `reset_mobile_node` did not remove.

        Kernels and the supplicant are asked.

        Returns:
            sas: Number of IPsec SAs by node.
            keys: Number of PMKSAs that its supplicant has cached.
            associated: Access points that list the node.
            tunnelled: Whether its agent still tunnels packets to its earlier care-of address.
            addressed: Whether its radio has an address; only for a node by DHCP or SLAAC.
        """
        testbed, nodes = self.site.testbed, self.site.network.nodes
        station = self.get_station(scenario.mobile_node)
        places = dict.fromkeys((scenario.home, scenario.access_point))
        return {
            "sas": {name: len(states) for name, states in self.ipsec_states(scenario).items()},
            "keys": station.count_cached_keys(),
            "associated": [name for name in places if station.mac in kernel_state.station_flags(
                testbed, name, nodes[name].radio_interface)],
            "tunnelled": kernel_state.is_tunnelled(testbed, scenario.agent,
                                                   station.node.address),
            **({"addressed": client.has_address} if (client := station.address_client) else {})}

    def ipsec_states(self, scenario: Scenario) -> dict[str, list[dict[str, Any]]]:
        """Return the IPsec SAs of mobile node and home agent, by node, empty without IPsec."""
        if not self.has_ipsec:
            return {}
        agent = self.site.network.address_of(scenario.agent)
        ends = [{address, agent} for address in self._outer_addresses(scenario)]
        return {node: [state for state in kernel_state.xfrm_states(self.site.testbed, node)
                       if {state["src"], state["dst"]} in ends]
                for node in (scenario.mobile_node, scenario.agent)}

    def _outer_addresses(self, scenario: Scenario) -> list[str]:
        """Return the outer addresses of the mobile node's tunnel, at home and away."""
        away = [
            scenario.visit.ip] if scenario.visit is not None and self.has_following_tunnel else []
        return [self.get_station(scenario.mobile_node).address, *away,
                *filter(None, [scenario.translated_address])]

    def agent_endpoints(self, scenario: Scenario) -> list[str]:
        """Return the mobile node's address and port as the home agent's kernel has them.

        The port is 0 if ESP is not in UDP.
        """
        outer, agent = self._outer_addresses(scenario), scenario.agent
        return sorted({
            *(f"{state['dst']}:{state.get('encap_dport', 0)}"
              for state in self.ipsec_states(scenario).get(agent, ()) if state["dst"] in outer),
            *(f"{peer['endpoint']}:{peer['endpoint_port']}"
              for peer in self._wireguard.read_state(agent)
              if peer["handshake_s"] and peer["endpoint"] in outer)})

    def connect_mobile_node(self, scenario: Scenario) -> MeasuredStation:
        """Let the mobile node join the network from a clean state, without captures."""
        station = self.reset_mobile_node(scenario)
        self.attach_station(station.name, scenario.home)
        return station

    def begin_session(self, scenario: Scenario) -> None:
        """Let the mobile node authenticate in full, so that it has a TLS session to resume."""
        self.get_station(scenario.mobile_node).forget_session()
        self.connect_mobile_node(scenario)

    def attach_station(self, name: str, access_point: str) -> None:
        """Let a station join the network at one access point, with all steps.

        Raises:
            MeasureError: A step failed; the text includes the daemons' cause.
        """
        station = self.get_station(name)
        with self.explain_failures():
            self.join_access_point(station, access_point)
            station.obtain_address()
            station.register()
            station.negotiate_tunnel()
            self._open_tunnel(name)

    def _open_tunnel(self, node: str) -> None:
        """Open the connection of a mobile node's tunnel, if it has one without IKE."""
        self._wireguard.start_keepalives(node)
        for tunnels in self._program_tunnels:
            tunnels.open_connection(node)

    def explain_failures(self) -> AbstractContextManager[None]:
        """Add the cause that daemons' logs state to a MeasureError inside the context."""
        return explain_failures((self._supplicants, self._hostapd, self._proxies, self.freeradius,
                                 self._eap_server, self._charon, self._dhcp_clients,
                                 self._dhcp_servers))

    def join_access_point(self, station: MeasuredStation, access_point: str) -> None:
        """Let a station associate and authenticate, until both sides are ready.

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
        """Negotiate a station's IPsec tunnel, until both ends have it.

        The station has the tunnel before the agent has received its last message. Its packets in
        between are lost.

        Raises:
            MeasureError: An end does not have the tunnel in time.
        """
        self._open_tunnel(station.name)
        station.negotiate_tunnel()
        if not station.charon or scenario.agent not in self._charon.daemons:
            return
        until = time.monotonic() + self.limits.ike_s
        with charon.open_session(self._charon.socket_path(scenario.agent)) as session:
            while not charon.has_tunnel(session, self._outer_addresses(scenario)):
                if time.monotonic() > until:
                    raise MeasureError("ike", f"{station.name}: has a tunnel that {scenario.agent} "
                                       "does not have")
                time.sleep(POLL_S)

    def expire_station(self, station: MeasuredStation, access_point: str) -> None:
        """Make an access point forget a station that has moved to another one."""
        self._hostapd.expire_station(access_point, station.mac)

    def _is_authorized(self, station: MeasuredStation, access_point: str) -> bool:
        """Return whether an access point authorises a station in time.

        The daemon hostapd reports that first, and then the kernel.
        """
        until = time.monotonic() + self.limits.link_s
        if not self._hostapd.wait_authorized(access_point, station.mac, until):
            return False
        radio = self.site.network.nodes[access_point].radio_interface
        while time.monotonic() < until:
            if kernel_state.is_authorized(self.site.testbed, access_point, radio, station.mac):
                return True
            time.sleep(POLL_S)  # sleeping advances virtual time, so that the kernel gets there
        return False

    def evil_twin_of(self, access_point: str, mobile_node: str, *,
                     has_wpa2_only: bool = False) -> AbstractContextManager[None]:
        """Replace an access point by a rogue one (evil twin) inside the context."""
        return evil_twin.replace_by_twin(self.site, self._hostapd, access_point, mobile_node,
                                         has_wpa2_only=has_wpa2_only)

    def read_tls_keys(self) -> dict[str, list[str]]:
        """Return the TLS keys that each authentication server has logged so far."""
        return self.freeradius.read_tls_keys()

    def read_quic_keys(self) -> dict[str, list[str]]:
        """Return the TLS secrets of QUIC connections that each end has logged so far."""
        return self._quic.read_tls_keys()

    @property
    def has_ocsp(self) -> bool:
        """Return whether an OCSP responder runs, which RADIUS servers ask."""
        return bool(self.site.nodes_with_file(OcspResponders.file))

    @property
    def radsec_connections(self) -> Mapping[str, RadSecConnection]:
        """Return the RadSec (TLS) connection of each access point, empty without RadSec."""
        return self._proxies.connections

    @contextmanager
    def use_other_certificate(self, access_point: str, name: str) -> Iterator[None]:
        """Let the RADIUS server show a certificate with another name inside the context.

        FreeRADIUS does so for an access point that calls itself by this name (NAS-Identifier).
        """
        self._hostapd.set_name(access_point, name)
        try:
            yield
        finally:
            self._hostapd.set_name(access_point, access_point)

    def replace_access_point_setting(self, access_point: str, setting: str,
                                     value: str) -> AbstractContextManager[None]:
        """Give an access point another value of a setting inside the context."""
        return self._hostapd.replace_setting(access_point, setting, value, self.limits.link_s)

    def forgetting_access_point(self, access_point: str) -> AbstractContextManager[None]:
        """Restart an access point after the context, so that it forgets unfinished stations."""
        return self._hostapd.restart_after(access_point, self.limits.link_s)

    def replace_station_setting(self, station: str, setting: str,
                                value: str) -> AbstractContextManager[None]:
        """Give a mobile node's supplicant another value of a setting inside the context."""
        return self._supplicants.replace_setting(station, setting, value)

    def replace_proposals(self, node: str, setting: str,
                          value: str) -> AbstractContextManager[None]:
        """Give a node's charon one other proposal of IKE or ESP inside the context."""
        return self._charon.replace_proposals(node, setting, value)

    @contextmanager
    def suspend_radius(self, access_point: str) -> Iterator[None]:
        """Stop an access point's RADIUS server inside the context: no station can join then."""
        servers = [self.site.network.radius_server_of(access_point)]
        with self.freeradius.suspend_daemon(servers), self._eap_server.suspend_daemon(servers):
            yield

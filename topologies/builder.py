"""Build and run an emulated network with Mininet, from namespaces and radios to routes.

`Testbed` takes a description of the network (`topologies.model`). It creates the network, and runs
commands and daemons on its nodes until it is closed. A `NodeBuilder` creates nodes and radios:
plain Mininet or Mininet-WiFi (`topologies.builders`). Wires, addresses, the emulated radio channels
and MACsec are configured here for both.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

from mininet.net import Mininet
from mininet.node import Node as MininetNode

from topologies import address_translation, builders, hwsim, model, queueing_disciplines
from topologies.fork_server import TcpdumpForks
from topologies.interfaces import Interfaces, Route, WireEnd, enter_namespace, set_sysctls
from topologies.ipv6 import ipv6_address, ipv6_interface, ipv6_prefix
from topologies.medium import Channel, Transmitters
from topologies.mininet_nodes import MininetNodes, RadioSource

#: Interface of the kernel's emulation of radios, which shows every frame on the air.
EMULATED_AIR = "hwsim0"
# mnexec closes every descriptor that a process may have, so a low limit makes starts fast.
_OPEN_FILES = 256
#: Number in the name of an agent's bridge of all VLANs, which no VLAN has.
_ALL_VLANS = 0
# Descriptors for a node's shell, its terminal and its daemon, in the process that starts them.
_OPEN_FILES_OF_A_NODE = 12
_SYSCTLS = (
    "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.all.accept_redirects=0",
    # Only packets that a policy needs shall be on the air: no router solicitations, no DAD.
    "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1",
    # With an unlimited send queue, iperf3 would end its count while megabytes are still queued.
    "net.ipv4.tcp_notsent_lowat=16384")


class NodeBuilder(Protocol):
    """A creator of a network's nodes and radios, by plain Mininet or Mininet-WiFi.

    They exist as long as the builder does.
    """

    net: Mininet

    def add_nodes(self) -> None:
        """Create a namespace for every node, and a common one for all access points."""

    def add_radios(self) -> None:
        """Create every radio, with its interface in its node's namespace.

        The interfaces are down.
        """


class Testbed:
    """A running emulated network, on whose nodes commands can be run.

    A context manager: leaving it removes everything that it created. `cipher_bytes` are the bytes
    that the link's cipher adds to a frame. `seed` is that of random backoffs and losses.
    """

    def __init__(self, network: model.Network, medium: model.Medium | None,
                 cipher_bytes: int = 0, builder: str = builders.MININET, *,
                 seed: int = 0, macsec: str = "", more_group_bytes: int = 0,
                 vlan: int = 0) -> None:
        self.network = network
        self.medium = medium
        self.cipher_bytes = cipher_bytes
        self._more_group_bytes = more_group_bytes
        self.builder = builder
        self._seed = seed
        #: Gives the nodes radios of this machine; None if radios are emulated.
        self.place_radio: RadioSource | None = None
        #: Where every frame on the air is captured: nodes (None for the machine itself), each with
        #: an interface there. Monitors of real radios hear one channel each. Empty if nothing
        #: captures the air, as with some real radios.
        self.air_interfaces: Sequence[tuple[str | None, str]] = ((None, EMULATED_AIR),)
        #: Protection by MACsec of the wires that support it (see `wires`); "" without MACsec.
        self.macsec = macsec
        #: Cipher suite of MACsec.
        self.macsec_suite = queueing_disciplines.MACSEC_SUITE
        #: VLAN into which access points put stations, 0 for none.
        self.vlan = vlan
        #: VLANs of the stations after the first one, in turn; empty where all have the same.
        self.further_vlans: Sequence[int] = ()
        #: Library that programs of a node preload, by node.
        self.preloaded: dict[str, str] = {}
        #: Library that keeps the work of tools from being charged to a node; "" if nothing is
        #: charged.
        self.for_tools = ""
        #: Library that limits the delay of captures that arrive in blocks; "" if none do.
        self.for_captures = ""
        #: Server that forks captures from a started tcpdump; None if each tcpdump is started.
        self.copies: TcpdumpForks | None = None
        #: Library that makes iperf3 end a TCP stream when all data has arrived; "" if it ends
        #: earlier.
        self.for_streams = ""
        #: Interfaces of agents for the stations' VLAN, by node and port.
        self._vlan_ports: dict[tuple[str, str], str] = {}
        self._airs: dict[int, Channel] = {}
        self._luck = ""
        self._stack = ExitStack()
        self._net: Mininet | None = None

    def __enter__(self) -> Testbed:
        try:
            self._build_network()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def uses_cards(self) -> bool:
        """Return whether the radios are cards of this machine, and not emulated."""
        return self.place_radio is not None

    def node(self, name: str) -> MininetNode:
        """Return the Mininet node with that name."""
        assert self._net is not None
        return self._net[name]

    def node_command(self, name: str, argv: Sequence[str], *, library: str = "") -> list[str]:
        """Return the command line that runs a program on a node.

        It ends with this process.

        Args:
            name: The node.
            argv: Program and arguments.
            library: Library to preload, in addition to the node's.
        """
        library = ":".join(filter(None, (self.preloaded.get(name), library)))
        return ["setpriv", "--pdeathsig", "KILL", "mnexec", "-a", str(self.node(name).pid),
                *(["env", f"LD_PRELOAD={library}"] if library else []), *argv]

    def tool_command(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a tool of qop on a node.

        The tool ends when this process ends. Start it with `tool_environment`. Then its CPU time is
        not charged to the node, even if the node has a slow device (processor model).
        """
        return ["setpriv", "--pdeathsig", "KILL", *self.plain_command(name, argv)]

    @property
    def tool_environment(self) -> dict[str, str] | None:
        """Return environment variables for qop's tools, so that their work is not charged to nodes.

        They are set before the tool enters a node. None means that the environment is unchanged.
        """
        library = self.for_tools
        return {**os.environ, "LD_PRELOAD": library, "QOP_WORK": "nobody"} if library else None

    def run_unchecked(self, name: str, argv: Sequence[str],
                      timeout_s: float = 10.0) -> subprocess.CompletedProcess[str]:
        """Run a short qop command on a node, and return its result even if it fails.

        The command ends by itself, so it need not die with this process. That saves one program
        start, which takes as long in a guest as most commands do.
        """
        return subprocess.run(self.plain_command(name, argv), capture_output=True, text=True,
                              timeout=timeout_s, env=self.tool_environment, check=False)

    def run_command(self, name: str, argv: Sequence[str], timeout_s: float = 10.0) -> str:
        """Run a short qop command on a node, and return its standard output.

        Raises:
            CalledProcessError: The command fails.
        """
        done = self.run_unchecked(name, argv, timeout_s)
        done.check_returncode()
        return done.stdout

    def plain_command(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program on a node, even after this process ends.

        It starts the program `mnexec` before. Other methods start programs without it, which is
        faster.
        """
        return ["mnexec", "-a", str(self.node(name).pid), *argv]

    def reseed_backoffs(self, what: str, repetition: int | None = None) -> None:
        """Restart the random backoffs on the emulated air from a known seed.

        Testbeds with the same seed, repetition and `what` draw the same backoffs. So results that
        are compared within a repetition, such as a stream under two policies, have the same random
        numbers; other repetitions have different ones.

        Args:
            what: Name of the part of the repetition.
            repetition: Number of the repetition; None for the last given number.
        """
        if repetition is not None:
            self._luck = str(repetition)
        octets = hashlib.sha256(f"{self._seed}/{self._luck}/{what}".encode()).digest()
        for air in self._airs.values():
            air.reseed_backoffs(int.from_bytes(octets[:6], "big"))

    def count_frames(self, name: str) -> dict[str, int]:
        """Return a station's counters on the emulated air, over all channels.

        The keys are the fields of `TransmissionCounters`. Stations must contend (DCF).
        """
        mac = self.network.nodes[name].radio_mac
        counters = [air.read_counters(mac) for air in self._airs.values()]
        return {field: sum(getattr(each, field) for each in counters)
                for field in queueing_disciplines.TransmissionCounters._fields}

    def plan_move(self, name: str, position: Sequence[float]) -> Callable[[], None]:
        """Prepare a new position (m) of a node's radio, and return a function that applies it.

        The medium must have a signal, and stations must contend (DCF). All other radios keep the
        positions of the network.
        """
        mac = self.network.nodes[name].radio_mac
        moves = [air.plan_move({mac: position}) for air in self._airs.values()]

        def apply_moves() -> None:
            for each in moves:
                each()
        return apply_moves

    def disable_aggregation(self) -> None:
        """Let stations send every frame alone on all channels, for a negative control."""
        for air in self._airs.values():
            air.disable_aggregation()

    def _build_network(self) -> None:
        _refuse_same_names(self.network)
        if band_ghz := self._upper_band_ghz:
            self._stack.enter_context(hwsim.permit_band(band_ghz))
        maker = self._stack.enter_context(_choose_node_builder(self.builder, self.network,
                                                              self.place_radio))
        self._net = maker.net
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (
            max(_OPEN_FILES, _OPEN_FILES_OF_A_NODE * len(self.network.nodes)), hard))
        self._stack.callback(self._stop_nodes)
        maker.add_nodes()
        maker.add_radios()
        with Interfaces() as interfaces:
            for link in self.network.links:
                self._add_wire(link, interfaces)
        for name, node in self.network.nodes.items():
            self._configure_node(name, node)
            self._add_translation(name, node)
        for name in self.network.of_duty(model.ACCESS_POINT) if self.vlan else ():
            self._add_vlan(name)
        if self.medium is not None and self.network.has_radios:
            self._fill_air(self.medium)

    @property
    def _upper_band_ghz(self) -> float:
        """Return the band of access points that are not tuned to 2.4 GHz, else 0."""
        phy = self.medium.phy if self.medium else None
        has_band = self.network.has_radios and phy is not None and not phy.is_in_2_4_ghz
        return phy.band_ghz if phy is not None and has_band else 0.0

    def _fill_air(self, medium: model.Medium) -> None:
        """Create the emulated air: one medium for each channel, used by its access points."""
        transmitters = Transmitters.from_network(self.network)
        radios: dict[int, list[str]] = {}
        for name in self.network.of_duty("access_point"):
            node = self.network.nodes[name]
            channel = node.channel or 0
            if channel not in radios:
                self._airs[channel] = Channel(self.node(name), channel, medium, self.cipher_bytes,
                                              transmitters, self._seed, self._more_group_bytes)
            radios.setdefault(channel, []).append(node.radio_interface)
        for channel, air in self._airs.items():
            air.attach_radios(radios[channel])

    def _add_wire(self, link: model.Link, interfaces: Interfaces) -> None:
        (left, left_port), (right, right_port) = (end.split("/") for end in link.ends)
        is_protected = bool(self.macsec) and link in self.network.protectable
        own = [queueing_disciplines.physical_name(port) if is_protected else port for port
               in (left_port, right_port)]
        interfaces.add_wire(WireEnd(own[0], self.node(left).pid),
                            WireEnd(own[1], self.node(right).pid), link.mtu_bytes)
        for name, port, end in zip((left, right), own, link.ends, strict=True):
            self._run_steps(name, queueing_disciplines.wire_commands(link, port, end))
        if is_protected:
            for name, port in ((left, left_port), (right, right_port)):
                self._add_macsec(name, port, link)

    def _add_macsec(self, name: str, port: str, link: model.Link) -> None:
        """Configure MACsec at one end of a wire."""
        encrypts = self.macsec == queueing_disciplines.ENCRYPTS
        self._run_steps(name, queueing_disciplines.macsec_commands(port, link.mtu_bytes,
                                                                   encrypts=encrypts,
                                                                   suite=self.macsec_suite))
        node = self.network.nodes[name]
        if node.has_duty(model.ACCESS_POINT):
            self._run_steps(name,
                            [queueing_disciplines.reserve_headroom_command(node.radio_interface)])

    @property
    def station_vlans(self) -> Sequence[int]:
        """Return the VLANs of the stations, in turn, empty without VLANs."""
        return [self.vlan, *self.further_vlans] if self.vlan else []

    def vlan_of(self, station: str) -> int:
        """Return the VLAN of a station, 0 without VLANs."""
        place = self.network.of_duty(model.STATION).index(station)
        return self.station_vlans[place % len(self.station_vlans)] if self.vlan else 0

    def vlan_interfaces(self, port: str) -> list[str]:
        """Return the names of a port's VLAN interfaces, or the port itself if there is no VLAN."""
        return [model.vlan_port(port, vlan) for vlan in dict.fromkeys(self.station_vlans)] or [port]

    def find_station_port(self, node: str, port: str) -> str:
        """Return the interface on which a node gets stations' packets that reach its port."""
        return self._vlan_ports.get((node, port), port)

    def attach_vlan(self, access_point: str) -> None:
        """Redirect frames of the stations' VLANs through the emulated air, as those of the radio.

        The VLANs' interfaces exist as soon as hostapd runs.
        """
        node = self.network.nodes[access_point]
        air = self._airs.get(node.channel or 0)
        if self.vlan and air is not None:
            for port in self.vlan_interfaces(node.radio_interface):
                air.attach_radios([node.radio_interface], port)

    def _add_vlan(self, access_point: str) -> None:
        """Make the wire of an access point carry the stations' VLANs.

        hostapd bridges the radio with the tagged frames. The agent has the VLANs at its end of the
        wire. Several VLANs are in one bridge there, whose ports are isolated from each other.
        """
        network = self.network
        # VLAN interfaces do not pass on a bridge's request for headroom either.
        self._run_steps(access_point, [queueing_disciplines.reserve_headroom_command(
            network.nodes[access_point].radio_interface)])
        _, link = network.link_of(access_point)
        for agent, port in (end.split("/") for end in link.ends):
            if network.nodes[agent].has_duty(model.ACCESS_POINT):
                continue
            own = self.vlan_interfaces(port)
            name = self._vlan_ports[agent, port] = own[0] if len(own) == 1 else model.vlan_port(
                port, _ALL_VLANS)
            with enter_namespace(self.node(agent).pid) as interfaces:
                for vlan_port, vlan in zip(own, dict.fromkeys(self.station_vlans), strict=True):
                    interfaces.add_vlan(port, vlan_port, vlan)
            self._run_steps(agent, queueing_disciplines.isolating_commands(
                name, own if len(own) > 1 else ()))
            with enter_namespace(self.node(agent).pid) as interfaces:
                interfaces.add_address(f"{network.nodes[agent].interfaces[port].ip}/32", name)
                interfaces.set_up(name)
                for station in network.of_duty(model.STATION):
                    if network.nodes[station].agent == agent:
                        interfaces.add_route(Route(f"{network.nodes[station].address}/32",
                                                   device=name))

    def _add_translation(self, name: str, node: model.Node) -> None:
        """Make a gateway translate addresses, if the network says so."""
        if node.nat is not None and shutil.which("nft") is None:
            raise RuntimeError(f"{name}: nat needs the program nft, and this machine has none; "
                               "install Debian's nftables, or choose a network without nat")
        self._run_steps(name, address_translation.setup_commands(node))

    def _run_steps(self, name: str, steps: Sequence[str]) -> None:
        """Run commands on a node that print nothing unless they fail.

        Raises:
            RuntimeError: A command fails or prints something.
        """
        for step in steps:
            done = self.run_unchecked(name, ["sh", "-c", step])
            if done.returncode or done.stdout or done.stderr:
                raise RuntimeError(f"{name}: {step}: {done.stdout}{done.stderr}".strip())

    def _configure_node(self, name: str, node: model.Node) -> None:
        bridges = {i.bridge for i in node.interfaces.values() if i.bridge}
        linked = {end for link in self.network.links for end in link.ends}
        try:
            with enter_namespace(self.node(name).pid) as interfaces:
                for bridge in sorted(bridges):
                    interfaces.add_bridge(bridge, [port for port, i in node.interfaces.items()
                                                   if i.bridge == bridge and not i.radio])
                interfaces.set_up("lo")
                for port, interface in node.interfaces.items():
                    # The wire of an interface may lead to a node that does not take part.
                    if not interface.radio and port not in bridges \
                            and f"{name}/{port}" not in linked:
                        interfaces.add_dummy(port)
                    if interface.address and not interface.dhcp:
                        interfaces.add_address(interface.address, port)
                    # Only the supplicant brings a radio's link up, but a station's routes need the
                    # interface up.
                    if not interface.radio or node.has_duty("station"):
                        interfaces.set_up(port)
                if node.has_duty("access_point"):
                    _add_own_routes(interfaces, node)
                for route in _node_routes(node):
                    interfaces.add_route(route)
                set_sysctls([*_SYSCTLS, *(["net.ipv4.ip_forward=1"] if node.forwarding else [])])
                if self.network.ip == model.IPV6 and not node.has_duty("access_point"):
                    _add_ipv6(interfaces, node)
        except OSError as error:
            raise RuntimeError(f"{name}: {error.strerror}") from None

    def _stop_nodes(self) -> None:
        assert self._net is not None
        for node in self._net.values():
            node.terminate()


def _choose_node_builder(builder: str, network: model.Network, place_radio: RadioSource | None
                         ) -> AbstractContextManager[NodeBuilder]:
    """Return the creator of nodes and radios for a builder's name.

    The import is late, as Mininet-WiFi may be absent.
    """
    if place_radio is not None:
        return MininetNodes(network, place_radio)
    # Without radios, Mininet-WiFi would only do what Mininet does.
    if builder == builders.MININET_WIFI and network.has_radios:
        if lack := builders.unavailable_reason(builder):
            raise RuntimeError(f"builder {builder}: {lack}")
        from topologies.mininet_wifi_nodes import MininetWifiNodes

        return MininetWifiNodes(network)
    return MininetNodes(network)


def _refuse_same_names(network: model.Network) -> None:
    """Raise RuntimeError if two access points have interfaces with the same name."""
    taken: dict[str, str] = {}
    for name in network.of_duty("access_point"):
        for port in network.nodes[name].interfaces:
            if port in taken:
                raise RuntimeError(f"{name} and {taken[port]} both have an interface {port}: "
                                   "access points share a namespace; name them apart")
            taken[port] = name


def _node_routes(node: model.Node) -> list[Route]:
    """Return a node's routes to prefixes beyond its own subnets, for the main table."""
    routes = [Route(prefix, via=hop) for prefix, hop in node.routes.items()]
    if node.uses_dhcp:
        return []  # The DHCP client sets the route together with the address.
    if node.has_duty("station"):
        # Only the supplicant brings the link up, and all traffic goes through the agent.
        port, gateway = node.radio_interface, node.gateway or ""
        return [Route(f"{gateway}/32", device=port),
                Route(via=gateway, device=port, on_link=True), *routes]
    if node.gateway and not node.has_duty("access_point"):
        return [Route(via=node.gateway), *routes]
    return routes


#: Settings of a station's radio for IPv6, which stays off until the link is up (see
#: `measure.services.slaac`). Redirects would lead past the agent.
_STATION_SYSCTLS = ("accept_redirects=0",)
#: Settings of other interfaces: their addresses are those of the network's file, and there at once.
_HOST_SYSCTLS = ("accept_ra=0", "accept_dad=0", "router_solicitations=0", "accept_redirects=0",
                 "disable_ipv6=0")


def _add_ipv6(interfaces: Interfaces, node: model.Node) -> None:
    """Give a node its IPv6 addresses and routes, and prepare a station for SLAAC."""
    is_station = node.has_duty("station")
    set_sysctls(["net.ipv6.conf.lo.disable_ipv6=0"])
    if node.forwarding:
        set_sysctls(["net.ipv6.conf.all.forwarding=1"])
    for port, interface in node.interfaces.items():
        settings = _STATION_SYSCTLS if is_station else _HOST_SYSCTLS
        set_sysctls([f"net/ipv6/conf/{port}/{setting}" for setting in settings])
        if interface.address and not is_station:
            interfaces.add_address(ipv6_interface(interface.address), port)
    subnets = [ipaddress.IPv4Interface(interface.address).network
               for interface in node.interfaces.values() if interface.address]
    for route in [] if is_station else _node_routes(node):
        length = next(net.prefixlen for net in subnets if ipaddress.IPv4Address(route.via) in net)
        hop = ipv6_address(f"{route.via}/{length}")
        interfaces.add_route(Route(ipv6_prefix(route.prefix), via=hop))


def _add_own_routes(interfaces: Interfaces, access_point: model.Node) -> None:
    """Route each access point's own packets over its own wire.

    All access points are in one namespace, so the main table can not do that.
    """
    for port, interface in access_point.interfaces.items():
        if interface.address:
            own = ipaddress.IPv4Interface(interface.address)
            # A routing table of its own; its number is the address, which is unique.
            table = int(own.ip)
            interfaces.add_rule(str(own.ip), table)
            interfaces.add_route(Route(str(own.network), device=port, source=str(own.ip),
                                       table=table))
            if access_point.gateway:
                interfaces.add_route(Route(via=access_point.gateway, device=port, table=table))

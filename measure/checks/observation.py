"""Collect the results of a repetition in one object, the input of all checks.

A repetition is one measurement of a policy. `read_captures` dissects its captures.
`build_observation` takes the packets, the raw values of the measurement (`raw.json`) and the
scenario. It returns an `Observation`: packets by capture, with the addresses of all nodes. All
checks of `measure.checks` take one. An attachment is the time that the mobile node spends at one
access point, at home or visited.

A capture's name has a part of the repetition and a point of the network, such as `auth-air` or
`traffic-wire`. The points are:

- `air`: all frames on the air.
- `mn`: the mobile node's interface.
- `wire`: behind its access point.
- `foreign`: behind the visited access point.
- `macsec` and `macsecforeign`: the protected frames of the last two points, if they use MACsec.
- `core`: between the subnets.
- `radius` and `radiusforeign`: on the wires of RADIUS servers that are nodes of their own.
- `ocsp` and `ocspforeign`: where RADIUS servers ask OCSP responders.
- `peer`: where streams arrive.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Protocol, TypeVar

from measure.agent.errors import MeasureError
from measure.agent.workload import HANDOFF_FULL
from measure.capture import dissection, pcap, tshark
from measure.capture.tcpdump import AUTH, RADIUS_POINTS
from measure.capture.tshark import Packet
from measure.packets.eap import AkaAuthentication, InnerEapFrame
from measure.packets.eap_tls_sizes import EapLogin
from measure.packets.management_frames import ManagementFrame
from topologies.model import ACCESS_POINT, STATION, Link, Medium, Node, Scenario, from_json
from topologies.paths import path_between


class _Timed(Protocol):
    """A packet, a frame or a message with the time of its capture."""

    @property
    def time_s(self) -> float:
        """Return the time of the capture (s)."""


AttachmentT = TypeVar("AttachmentT")
TimedT = TypeVar("TimedT", bound=_Timed)
#: Raw values that exist once per testbed.
_OF_THE_TESTBED = frozenset({"port_check", "wep_key", "radsec_keys", "revocation", "other_name",
                             "alternatives", "cards", "air_missing"})
#: Prefixes of captures that exist once per testbed: a closed port, new RadSec connections, and
#: MACsec keys.
_PORT, RADSEC, MACSEC = "port-", "radsec-", "macsec-"

#: Upper limit of the share of a TCP connection's packets that a queue drops; TCP then slows down.
_BY_QUEUES = 0.05

#: Point behind the access point at home.
WIRE_POINT = "wire"
#: A full packet with its Ethernet header, in bytes.
_FULL_BYTES = 1514

#: The capture of what arrives at the peer: UDP alone, or in transport mode ESP alone.
_ARRIVED = "traffic-peer"


def join_values(values: Sequence[object]) -> str:
    """Join two values for a text: one at home, and one at the visited access point."""
    return " and ".join(map(str, values))


@dataclass(frozen=True)
class Check:
    """The result of a check: the statement, whether it holds, and the counts behind it."""

    check: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class RadiusWire:
    """A RADIUS server as the scenario places it, and the points of its captures.

    - `access_point`: name of the access point
    - `client`, `server`: addresses of access point and server
    - `delay_s`: delay of the wires between them, one way (s)
    - `full_packet_s`: time that a packet of full size takes in addition, by the wires' rates (s)
    - `near`, `far`: capture points at the access point and at the server
    - `jitter_s`: the most by which a packet's delay differs from `delay_s` (s)
    """

    access_point: str
    client: str
    server: str
    delay_s: float
    full_packet_s: float
    near: str
    far: str
    jitter_s: float = 0.0

    @property
    def is_away(self) -> bool:
        """Return whether the mobile node uses the access point after its move only."""
        return self.near != WIRE_POINT


@dataclass(frozen=True)
class Observation:
    """The results of a repetition for checks: raw values, packets and addresses.

    - `raw`: raw values of the workload (`raw.json`)
    - `captures`: packets by the name of their capture
    - `mac`: MAC address of the measured mobile node
    """

    raw: Mapping[str, Any]
    captures: Mapping[str, Sequence[Packet]]
    mac: str
    #: MAC and IP addresses of all mobile nodes, including the measured one.
    macs: frozenset[str]
    addresses: frozenset[str]
    #: Outer addresses of the home agents: the ends of tunnels between subnets.
    agents: frozenset[str] = frozenset()
    #: The mobile node's home address, and the address of its home agent.
    home_address: str = ""
    home_agent: str = ""
    #: Whether the mobile node moves to another access point.
    moves: bool = False
    #: How it moves without disconnecting first (see `AttachmentSteps`); "" if it disconnects and
    #: starts from a clean state.
    roaming: str = ""
    #: Its care-of address after a move: that of its agent or its own, and "" if it keeps its agent.
    care_of: str = ""
    #: Protocol of the tunnel that follows it to another subnet, as in a policy's layers; "" if
    #: Mobile IP forwards its packets.
    follows_by: str = ""
    #: Address that a router with NAT gives to the packets of the node's tunnel, "" without one.
    translated: str = ""
    #: Whether a home agent serves the mobile node.
    has_home_agent: bool = True
    #: Whether the mobile node gets its address by DHCP.
    uses_dhcp: bool = False
    #: IPv6 addresses of the mobile node and its peer; empty if the measured traffic is IPv4.
    ipv6_ends: tuple[str, ...] = ()
    #: RADIUS servers that are nodes of their own, by attachment (see `RadiusWire`).
    radius_wires: tuple[RadiusWire, ...] = ()
    #: Addresses of first RADIUS servers that are down, by access point.
    silent_servers: Mapping[str, str] = field(default_factory=dict)
    #: Addresses of the servers to which RADIUS servers forward, by access point.
    forwards_to: Mapping[str, str] = field(default_factory=dict)
    #: Whether its home agent serves its peer's subnet: nothing is forwarded between agents then.
    peer_is_home: bool = False
    #: MAC addresses of the access points.
    cells: frozenset[str] = frozenset()
    #: Names of the other stations.
    companions: tuple[str, ...] = ()
    #: Whether captures were dissected with all keys of the link layer.
    has_link_keys: bool = False
    #: Keys that decrypt frames on the air, in the syntax of `decryption_keys`; empty if
    #: unknown.
    link_keys: Sequence[str] = ()
    #: Management frames during authentication, if the link layer negotiates by them.
    management: Sequence[ManagementFrame] = ()
    #: The EAP conversation inside TLS, if the server's keys decrypt it.
    inside: Sequence[InnerEapFrame] = ()
    #: EAP-TLS that the tunnel of PEAP carries, by attachment, if the policy has it there.
    nested: Sequence[Sequence[InnerEapFrame]] = ()
    #: EAP authentications that completed: when, and their EAP packets.
    logins: Sequence[tuple[float, Sequence[bytes]]] = ()
    #: Inputs of the policy's EAP authentication at each access point, if it can be computed.
    computed_logins: Sequence[EapLogin] = ()
    #: Authentications with a subscriber's card, recomputed from the capture; only for such methods.
    challenges: Sequence[AkaAuthentication] = ()
    #: The run's key for registrations, and each message with its time, if known.
    registration_key: bytes = b""
    registrations: Sequence[tuple[float, bytes]] = ()
    #: Connectivity association key (CAK) of MACsec on the wires, empty if unknown.
    wires_key: bytes = b""
    #: Shared secret of access points and RADIUS server, b"" if the judge does not have it.
    radius_secret: bytes = b""
    #: Passphrase of the run, "" if the judge does not have it, and names of the networks.
    passphrase: str = ""
    ssids: tuple[str, ...] = ()
    #: Folder of the captures, for reading further data.
    folder: Path = Path()
    #: Name of the part, if it is judged as a repetition of its own; "" otherwise.
    part: str = ""
    #: Wires whose directions have rates of their own, or that lose packets in bursts.
    special_wires: tuple[Link, ...] = ()
    #: Share of packets that the worst wire loses, by its loss setting or by its queue.
    wires_lose: float = 0.0
    #: Capture behind the access point that carries the traffic in the end.
    carried: str = "traffic-wire"
    #: MAC addresses of all stations in the network's order, and of the other ones by name.
    station_macs: tuple[str, ...] = ()
    companion_macs: Mapping[str, str] = field(default_factory=dict)
    #: RADIUS of authentications that were accepted: when, and their messages.
    radius_logins: Sequence[tuple[float, Sequence[bytes]]] = ()
    #: Whether the access points' requests have the attributes of Debian's hostapd.
    has_computed_radius: bool = True
    #: Key pairs of SAE-PK by SSID, in JSON; "" without.
    sae_keys: str = ""

    def capture_path(self, capture: str) -> Path:
        """Return the path of a capture file, given its name such as `auth-air`."""
        called, _, point = capture.rpartition("-")
        return self.folder / f"{self.part if self.part and called == AUTH else called}-{point}.pcap"

    def split_by_attachment(self, items: Sequence[TimedT]) -> list[list[TimedT]]:
        """Return packets or frames at each access point: at home, and visited."""
        moved_s = self.moved_s
        home = [item for item in items if item.time_s < moved_s]
        away = [item for item in items if item.time_s >= moved_s]
        return [home, away] if self.moves else [home]

    def management_by_attachment(self) -> list[list[ManagementFrame]]:
        """Return the management frames at each access point: at home, and visited."""
        return self.split_by_attachment(self.management)

    @property
    def keeps_keys(self) -> bool:
        """Return whether the node moves with its existing keys, or with keys derived from them."""
        return self.roaming not in ("", HANDOFF_FULL)

    def select_full(self, items: Sequence[AttachmentT]) -> Sequence[AttachmentT]:
        """Keep those items that belong to an access point with a full authentication.

        Args:
            items: One item for each access point, home first.
        """
        return items[:1] if self.keeps_keys else items

    def select_registered(self, items: Sequence[AttachmentT]) -> Sequence[AttachmentT]:
        """Keep those items that belong to an access point with a Mobile IP registration.

        There is one registration per subnet.

        Args:
            items: One item for each access point, home first.
        """
        return items[:1] if self.roaming and not self.care_of else items

    @property
    def tunnel_follows(self) -> bool:
        """Return whether the node's tunnel moves with it to other subnets, without Mobile IP."""
        return bool(self.follows_by)

    @property
    def has_mobile_ip(self) -> bool:
        """Return whether the mobile node registers with agents."""
        return self.has_home_agent and not self.tunnel_follows

    @property
    def renews_tunnel(self) -> bool:
        """Return whether the node negotiates a new tunnel after the move, from a clean state."""
        return bool(self.care_of) and not self.roaming and not self.tunnel_follows

    def with_visit(self, address: str, tunnel: str, translated: str = "") -> Observation:
        """Return a copy for a node whose tunnel moves with it to another subnet.

        Args:
            address: The node's address in the visited subnet; "" if it does not move.
            tunnel: Protocol of the tunnel.
            translated: Address that a router with NAT puts in place of `address`, "" without one.
        """
        return replace(self, follows_by=tunnel, care_of=address, translated=translated,
                       addresses=self.addresses | ({address} if address else set()))

    def packets_of(self, name: str) -> Sequence[Packet]:
        """Return the packets of a capture (such as `auth-air`), empty if it was not taken."""
        return self.captures.get(name, ())

    def by_attachment(self, name: str) -> list[list[Packet]]:
        """Return a capture's packets in lists: at the home access point, and at the visited one."""
        return self.split_by_attachment(self.packets_of(name))

    def behind_access_points(self, part: str) -> list[list[Packet]]:
        """Return the packets on the wire behind each access point that the node used."""
        home = [p for p in self.packets_of(f"{part}-wire") if p.time_s < self.moved_s]
        away = [p for p in self.packets_of(f"{part}-foreign") if p.time_s >= self.moved_s]
        return [home, away] if self.moves else [home]

    @property
    def phy_medium(self) -> Medium | None:
        """Return the emulated medium if it has a physical layer of 802.11n, ac or ax, else None.

        Access points on such a medium announce the physical layer in their beacons.
        """
        stored = self.raw.get("medium")
        return None if stored is None else from_json(Medium, stored)

    @property
    def moved_s(self) -> float:
        """Return when the mobile node arrived at the visited access point, infinity if never."""
        return float(self.raw["stamps"].get("foreign_start", float("inf")))

    @property
    def stations(self) -> list[Mapping[str, str]]:
        """Return the flags that access points' kernels have for the stations.

        The mobile node comes first, then each other mobile node.
        """
        kernel = self.raw["kernel"]
        names = ["station", "foreign_station"] if self.moves else ["station"]
        return [*(kernel.get(name, {}) for name in names),
                *(kernel.get("companions", {}).get(name, {}).get("station", {})
                  for name in self.companions)]

    @property
    def air(self) -> list[Packet]:
        """Return the data frames of mobile nodes on the air, without EAPOL frames.

        Frames from access points count, too, including group-addressed ones.
        """
        return [p for name in ("auth-air", "traffic-air") for p in self.packets_of(name)
                if p.is_data and not p.is_eapol
                and (p.transmitter in self.macs or p.transmitter in self.cells
                     or p.receiver in self.macs)]


def read_raw_values(out: Path) -> dict[str, Any]:
    """Read the raw values (raw.json) in a repetition's folder.

    Raises:
        MeasureError: The file is incomplete.
    """
    try:
        values: dict[str, Any] = json.loads((out / "raw.json").read_text())
    except json.JSONDecodeError as error:
        raise MeasureError("testbed", f"raw.json is not whole ({error})") from None
    return values


def read_captures(raw: Mapping[str, Any], out: Path,
                  keys: Sequence[str] = ()) -> dict[str, list[Packet]]:
    """Dissect all captures of a repetition and its parts, and return packets by capture name.

    Captures at the mobile node are dissected first, in a tshark without earlier state. The checks
    of messages in several packets, such as TLS, use these captures. Copies of their packets from
    other points would disturb the reassembly.
    """
    names = sorted((entry["file"].removesuffix(".pcap") for entry in raw["captures"]),
                   key=lambda name: name.rpartition("-")[2] != "mn")
    files = {name: out / f"{name}.pcap" for name in names}
    # Of thousands of datagrams only time and size matter, which need no dissector.
    plain = [name for name in names if name == _ARRIVED and files[name].is_file()
             and not uses_transport_mode(raw)
             and pcap.read_link_type(files[name]) == pcap.ETHERNET]
    dissected = [name for name in names if name not in plain]
    packets = dissection.read_all_packets([files[name] for name in dissected], keys)
    return dict(zip(dissected, packets, strict=True)) | {
        name: tshark.read_datagrams(files[name]) for name in plain}


def uses_transport_mode(raw: Mapping[str, Any]) -> bool:
    """Return whether mobile node and home agent have ESP SAs in transport mode.

    In this mode, captures have only the encrypted packets: the kernel shows no decrypted ones.
    """
    return any(state.get("mode") == "transport"
               for states in raw["kernel"].get("after_traffic", {}).values() for state in states)


def _is_served_by(agent: Node, node: Node) -> bool:
    return agent.serves is not None and ip_address(node.address) in ip_network(agent.serves)


def _find_radius_wires(scenario: Scenario) -> tuple[RadiusWire, ...]:
    """Return the RADIUS servers that are nodes of their own, by access point in use."""
    network, found = scenario.network, scenario.separate_radius_servers
    points = dict(zip(dict.fromkeys(found.values()), RADIUS_POINTS, strict=False))
    wires = []
    for access_point, server in found.items():
        path, node = path_between(network, None, access_point, server), network.nodes[access_point]
        wires.append(RadiusWire(
            access_point, node.interfaces[node.radio_bridge].ip, network.nodes[server].address,
            path.delay_s, path.round_trip_s(_FULL_BYTES, 0) - 2 * path.delay_s,
            WIRE_POINT if access_point == scenario.home else "foreign", points[server],
            path.jitter_s))
    return tuple(wires)


def build_observation(scenario: Scenario, raw: Mapping[str, Any],
                      packets: Mapping[str, Sequence[Packet]]) -> Observation:
    """Return the results of a repetition for checks, with all addresses of its scenario.

    Args:
        scenario: The scenario.
        raw: The raw values.
        packets: Packets by capture name.
    """
    nodes = scenario.network.nodes
    home, peer = nodes[scenario.agent], nodes[scenario.peer]
    stations = [nodes[name] for name in scenario.network.of_duty(STATION)]
    return Observation(
        raw, packets, nodes[scenario.mobile_node].radio_mac,
        macs=frozenset(station.radio_mac for station in stations),
        station_macs=tuple(station.radio_mac for station in stations),
        companion_macs={name: nodes[name].radio_mac for name in scenario.companions},
        addresses=frozenset(address for name in scenario.network.of_duty(STATION) for address
                            in (nodes[name].address, scenario.network.address_of(name))),
        agents=frozenset(map(scenario.network.outer_address_of,
                             scenario.network.tunnel_gateways)),
        home_address=scenario.network.address_of(scenario.mobile_node),
        home_agent=scenario.network.address_of(scenario.agent),
        peer_is_home=_is_served_by(home, peer),
        moves=scenario.roams_to is not None,
        care_of=nodes[scenario.foreign_agent].outer_address if scenario.foreign_agent else "",
        has_home_agent=scenario.has_mobile_ip, uses_dhcp=scenario.uses_dhcp,
        ipv6_ends=tuple(scenario.network.address_of(name)
                        for name in (scenario.mobile_node, scenario.peer))
        if scenario.uses_ipv6 else (),
        radius_wires=_find_radius_wires(scenario),
        forwards_to={name: nodes[further].address
                     for name, further in scenario.realm_servers.items()},
        silent_servers={name: nodes[scenario.network.radius_servers_of(name)[0]].address
                        for name in dict.fromkeys((scenario.home, scenario.access_point))
                        if scenario.network.fails_over(name)},
        cells=frozenset(nodes[name].radio_mac for name
                        in scenario.network.of_duty(ACCESS_POINT)),
        companions=tuple(scenario.companions), special_wires=scenario.network.special_links,
        wires_lose=max((link.loss_percent / 100 + _BY_QUEUES * (link.rate_bps is not None)
                        for link in scenario.network.links), default=0.0))


def build_part_observation(scenario: Scenario, raw: Mapping[str, Any], name: str,
                           packets: Mapping[str, Sequence[Packet]]) -> Observation:
    """Return the results of a part of a repetition, in the form of a whole repetition.

    A part is one of several authentications, for instance. Its captures take the names of the
    authentication's captures, and count as the traffic's, too. Values of the whole testbed come
    from the repetition's own raw values.
    """
    own = {AUTH + capture.removeprefix(name): frames for capture, frames in packets.items()
           if capture.rpartition("-")[0] == name}
    own |= {capture: frames for capture, frames in packets.items()
            if capture.startswith((_PORT, RADSEC, MACSEC))}
    shared = {key: value for key, value in raw.items() if key in _OF_THE_TESTBED}
    taken = [entry for entry in raw["captures"] if entry["file"].rpartition("-")[0] == name
             or entry["file"].startswith((RADSEC, MACSEC))]
    return replace(build_observation(scenario, {**shared, **raw["parts"][name], "captures": taken},
                                     own),
                   part=name, carried=f"{AUTH}-wire")

"""Read the results of a repetition for its judges: raw values, packets and addresses.

A capture's name has the part of the repetition and the point, such as `auth-air` or `traffic-wire`.
A part with its own raw values, such as a further authentication, is named in its captures. The
points are:

- `air`: all frames on the air.
- `mn`: the mobile node's interface.
- `wire`: behind its access point.
- `foreign`: behind the visited access point.
- `macsec` and `macsecforeign`: the last two points below MACsec.
- `core`: between the subnets.
- `peer`: where streams arrive.

An attachment is the time that the mobile node spends at one access point, at home or visited.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, TypeVar

from measure import dissect, pcap
from measure.challenges import Challenged
from measure.dissect import Packet
from measure.errors import MeasureError
from measure.inside import Inside
from measure.management import Management
from measure.moves import ANEW
from measure.points import AUTH
from topologies.model import ACCESS_POINT, HOME_AGENT, STATION, Node, Scenario

Stay = TypeVar("Stay")
#: Raw values that exist once per testbed.
_OF_THE_TESTBED = frozenset({"port_check", "wep_key", "radsec_keys"})
#: Prefixes of captures that exist once per testbed: a closed port, new RadSec connections, and
#: MACsec keys.
_PORT, RADSEC, MACSEC = "port-", "radsec-", "macsec-"

#: Upper limit of the share of a TCP connection's packets that a queue drops; TCP then slows down.
_BY_QUEUES = 0.05

#: The capture of what arrives at the peer: UDP alone, or in transport mode ESP alone.
_ARRIVED = "traffic-peer"


def join_values(values: Sequence[object]) -> str:
    """Join one value per attachment: at home, and at the visited access point."""
    return " and ".join(map(str, values))


@dataclass(frozen=True)
class Check:
    """A result: the statement checked, whether it holds, and the counts behind it."""

    check: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Observed:
    """The results of a repetition to judge: raw values, packets and addresses."""

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
    #: Whether the mobile node moves to another access point. Its care-of address there is its
    #: agent's or its own, and "" if it keeps its agent.
    moves: bool = False
    #: How it moves within its subnet (see Arrival); "" if it disconnects and starts from a clean
    #: state.
    roaming: str = ""
    care_of: str = ""
    #: Protocol of the tunnel that follows it to another subnet, as in a policy's layers; "" if
    #: Mobile IP forwards its packets.
    follows_by: str = ""
    #: Whether its home agent serves its peer's subnet: nothing is forwarded between agents then.
    peer_is_home: bool = False
    #: MAC addresses of the access points.
    cells: frozenset[str] = frozenset()
    #: Names of the other stations.
    companions: tuple[str, ...] = ()
    #: Whether captures were dissected with all keys of the link layer.
    has_link_keys: bool = False
    #: Keys that decrypt frames on the air, in the syntax of `decryption`; empty if unknown.
    link_keys: Sequence[str] = ()
    #: Management frames during authentication, if the link layer negotiates by them.
    management: Sequence[Management] = ()
    #: The EAP conversation inside TLS, if the server's keys decrypt it.
    inside: Sequence[Inside] = ()
    #: Authentications with a subscriber's card, recomputed from the capture; only for such methods.
    challenges: Sequence[Challenged] = ()
    #: The run's key for registrations, and each message with its time, if known.
    registration_key: bytes = b""
    registrations: Sequence[tuple[float, bytes]] = ()
    #: Connectivity association key (CAK) of MACsec on the wires, empty if unknown.
    wires_key: bytes = b""
    #: Folder of the captures, for reading further data.
    folder: Path = Path()
    #: Name of the part, if it is judged as a repetition of its own; "" otherwise.
    part: str = ""
    #: Share of packets that the worst wire loses, by its loss setting or by its queue.
    wires_lose: float = 0.0
    #: Capture behind the access point that carries the traffic in the end.
    carried: str = "traffic-wire"

    def capture_path(self, capture: str) -> Path:
        """Return the path of a capture, such as `auth-air`."""
        called, _, point = capture.rpartition("-")
        return self.folder / f"{self.part if self.part and called == AUTH else called}-{point}.pcap"

    def management_by_attachment(self) -> list[list[Management]]:
        """Return the management frames of each attachment."""
        home = [frame for frame in self.management if frame.time_s < self.moved_s]
        away = [frame for frame in self.management if frame.time_s >= self.moved_s]
        return [home, away] if self.moves else [home]

    @property
    def keeps_keys(self) -> bool:
        """Return whether the node moves with existing keys, or with keys derived from them."""
        return self.roaming not in ("", ANEW)

    def select_full(self, items: Sequence[Stay]) -> Sequence[Stay]:
        """Select the items of attachments with a full authentication.

        Args:
            items: One item per attachment.
        """
        return items[:1] if self.keeps_keys else items

    def select_registered(self, items: Sequence[Stay]) -> Sequence[Stay]:
        """Select the items of attachments with a registration, one per subnet.

        Args:
            items: One item per attachment.
        """
        return items[:1] if self.roaming and not self.care_of else items

    @property
    def tunnel_follows(self) -> bool:
        """Return whether the tunnel follows the node to other subnets, in place of Mobile IP."""
        return bool(self.follows_by)

    @property
    def renews_tunnel(self) -> bool:
        """Return whether another tunnel is negotiated after the move, from a clean state."""
        return bool(self.care_of) and not self.roaming and not self.tunnel_follows

    def with_visit(self, address: str, tunnel: str) -> Observed:
        """Return a copy for a node whose tunnel follows it.

        Args:
            address: The node's address in the visited subnet; "" if it does not move.
            tunnel: Protocol of the tunnel.
        """
        return replace(self, follows_by=tunnel, care_of=address,
                       addresses=self.addresses | ({address} if address else set()))

    def packets_of(self, name: str) -> Sequence[Packet]:
        """Return the packets of a capture such as `auth-air`, empty if it was not taken."""
        return self.captures.get(name, ())

    def by_attachment(self, name: str) -> list[list[Packet]]:
        """Return a capture's packets by attachment: at home, and in a visited network."""
        moved = self.moved_s
        home = [p for p in self.packets_of(name) if p.time_s < moved]
        away = [p for p in self.packets_of(name) if p.time_s >= moved]
        return [home, away] if self.moves else [home]

    def behind_access_points(self, part: str) -> list[list[Packet]]:
        """Return the packets on the wire behind each attachment's access point."""
        home = [p for p in self.packets_of(f"{part}-wire") if p.time_s < self.moved_s]
        away = [p for p in self.packets_of(f"{part}-foreign") if p.time_s >= self.moved_s]
        return [home, away] if self.moves else [home]

    @property
    def moved_s(self) -> float:
        """Return the time of the mobile node's arrival in the visited network, else infinity."""
        return float(self.raw["stamps"].get("foreign_start", float("inf")))

    @property
    def stations(self) -> list[Mapping[str, str]]:
        """Return the access points' kernel flags of the mobile node, then of the companions."""
        kernel = self.raw["kernel"]
        names = ["station", "foreign_station"] if self.moves else ["station"]
        return [*(kernel.get(name, {}) for name in names),
                *(kernel.get("companions", {}).get(name, {}).get("station", {})
                  for name in self.companions)]

    @property
    def air(self) -> list[Packet]:
        """Return the mobile nodes' data frames on the air, without EAPOL.

        Frames from access points count, too, including group-addressed ones.
        """
        return [p for name in ("auth-air", "traffic-air") for p in self.packets_of(name)
                if p.is_data and not p.is_eapol
                and (p.transmitter in self.macs or p.transmitter in self.cells
                     or p.receiver in self.macs)]


def read_raw_values(out: Path) -> dict[str, Any]:
    """Read the raw values in a repetition's folder.

    Raises:
        MeasureError: The file is incomplete.
    """
    try:
        values: dict[str, Any] = json.loads((out / "raw.json").read_text())
    except json.JSONDecodeError as error:
        raise MeasureError("testbed", f"raw.json is not whole ({error})") from None
    return values


def read_captures(raw: Mapping[str, Any], out: Path, keys: Sequence[str] = (),
                  first: str = "mn") -> dict[str, list[Packet]]:
    """Dissect all captures of a repetition and its parts, by capture name.

    Captures of the point `first` are dissected first, in a tshark without earlier state. Messages
    of several packets, such as TLS's, are judged there, and other points carry the same messages.
    """
    names = sorted((entry["file"].removesuffix(".pcap") for entry in raw["captures"]),
                   key=lambda name: name.rpartition("-")[2] != first)
    files = {name: out / f"{name}.pcap" for name in names}
    # Of thousands of datagrams only time and size matter, which need no dissector.
    plain = [name for name in names if name == _ARRIVED and files[name].is_file()
             and not uses_transport_mode(raw)
             and pcap.read_link_type(files[name]) == pcap.ETHERNET]
    rest = [name for name in names if name not in plain]
    packets = dissect.read_all_packets([files[name] for name in rest], keys)
    return dict(zip(rest, packets, strict=True)) | {
        name: dissect.read_datagrams(files[name]) for name in plain}


def uses_transport_mode(raw: Mapping[str, Any]) -> bool:
    """Return whether the mobile node and its agent have ESP SAs in transport mode.

    The kernel shows a capture such packets as they arrive, and not as they are decrypted.
    """
    return any(state.get("mode") == "transport"
               for states in raw["kernel"].get("after_traffic", {}).values() for state in states)


def _is_served_by(agent: Node, node: Node) -> bool:
    return agent.serves is not None and ip_address(node.address) in ip_network(agent.serves)


def observe(scenario: Scenario, raw: Mapping[str, Any],
            packets: Mapping[str, Sequence[Packet]]) -> Observed:
    """Return the results of a repetition of a scenario, with all addresses.

    Args:
        scenario: The scenario.
        raw: The raw values.
        packets: Packets by capture name.
    """
    nodes = scenario.network.nodes
    home, peer = nodes[scenario.agent], nodes[scenario.peer]
    stations = [nodes[name] for name in scenario.network.of_duty(STATION)]
    agents = [nodes[name] for name in scenario.network.of_duty(HOME_AGENT)]
    return Observed(
        raw, packets, _mac_address(nodes[scenario.mobile_node]),
        macs=frozenset(map(_mac_address, stations)),
        addresses=frozenset(s.address for s in stations),
        agents=frozenset(agent.outer_address for agent in agents),
        home_address=nodes[scenario.mobile_node].address,
        home_agent=home.address, peer_is_home=_is_served_by(home, peer),
        moves=scenario.roams_to is not None,
        care_of=nodes[scenario.foreign_agent].outer_address if scenario.foreign_agent else "",
        cells=frozenset(_mac_address(nodes[name]) for name
                        in scenario.network.of_duty(ACCESS_POINT)),
        companions=tuple(scenario.companions),
        wires_lose=max((link.loss_percent / 100 + _BY_QUEUES * (link.rate_bps is not None)
                        for link in scenario.network.links), default=0.0))


def observe_part(scenario: Scenario, raw: Mapping[str, Any], name: str,
                 packets: Mapping[str, Sequence[Packet]]) -> Observed:
    """Return the results of a part of a repetition, as a repetition of its own.

    The part's captures take the names of the authentication's captures, and count as the traffic's,
    too. Values of the whole testbed come from the repetition's own raw values.
    """
    own = {AUTH + capture.removeprefix(name): seen for capture, seen in packets.items()
           if capture.rpartition("-")[0] == name}
    own |= {capture: seen for capture, seen in packets.items()
            if capture.startswith((_PORT, RADSEC, MACSEC))}
    shared = {key: value for key, value in raw.items() if key in _OF_THE_TESTBED}
    taken = [entry for entry in raw["captures"] if entry["file"].rpartition("-")[0] == name
             or entry["file"].startswith((RADSEC, MACSEC))]
    return replace(observe(scenario, {**shared, **raw["parts"][name], "captures": taken}, own),
                   part=name, carried=f"{AUTH}-wire")


def _mac_address(station: Node) -> str:
    return station.interfaces[station.radio_interface].radio or ""

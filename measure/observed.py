"""What a repetition left is read for its judges: raw values, packets by capture, who is who.

Captures are called by the part of the repetition and the point, `auth-air` or `traffic-wire`;
those of a part that has raw values of its own, as another authentication has, by its name. The
points are `air`, `mn` (the mobile node's interface), `wire` (behind its access point), `foreign`
(behind the visited one), `macsec` and `macsecforeign` (the same below MACsec), `core` (between
the subnets) and `peer` (where streams arrive).
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
#: Raw values that are found once a testbed, or are the same for all of it.
_OF_THE_TESTBED = frozenset({"port_check", "wep_key", "radsec_keys"})
#: And so are captures of these parts: of a port that is closed, of connections being made, and of
#: keys that are handed out.
_PORT, RADSEC, MACSEC = "port-", "radsec-", "macsec-"

#: What share of a TCP connection's packets a queue has no room for, at most: it sends less then.
_BY_QUEUES = 0.05

#: The capture of what arrives at the peer: UDP alone, or in transport mode ESP alone.
_ARRIVED = "traffic-peer"


def listed(values: Sequence[object]) -> str:
    """One value a stay: at home, and where the mobile node visits."""
    return " and ".join(map(str, values))


@dataclass(frozen=True)
class Check:
    """One finding: what was checked, whether it holds, and the counts behind it."""

    check: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Observed:
    """What a repetition left to judge: raw values, packets by capture, and who is who."""

    raw: Mapping[str, Any]
    captures: Mapping[str, Sequence[Packet]]
    mac: str
    #: MAC and IP addresses of all mobile nodes that take part, the measured one among them.
    macs: frozenset[str]
    addresses: frozenset[str]
    #: Outer addresses of the home agents: where tunnels between subnets end.
    agents: frozenset[str] = frozenset()
    #: The mobile node's own address, and the home agent's that it registers with.
    home_address: str = ""
    home_agent: str = ""
    #: Whether the mobile node moves to another access point, and the care-of address that it has
    #: there, its agent's or its own; "" where its agent is the same.
    moves: bool = False
    #: How it moves on within its subnet (see Arrival); "" where it leaves and comes from nothing.
    roaming: str = ""
    care_of: str = ""
    #: The tunnel that follows it to another subnet, in the words of a policy's layers; "" where
    #: Mobile IP has packets find it.
    follows_by: str = ""
    #: Whether its peer is where its home agent serves: nothing goes on from there as it is, then.
    peer_is_home: bool = False
    #: MAC addresses of the access points.
    cells: frozenset[str] = frozenset()
    #: The other stations by name, and the home agents.
    companions: tuple[str, ...] = ()
    #: Whether captures were dissected with all keys that the link layer has.
    has_link_keys: bool = False
    #: What opens frames of the air, as `decryption` has it; none where nobody knows.
    link_keys: Sequence[str] = ()
    #: Management frames on the air while it got on, where the link layer is negotiated by them.
    management: Sequence[Management] = ()
    #: What EAP said inside TLS, where keys of the server's show it.
    inside: Sequence[Inside] = ()
    #: What passed of each authentication by a subscriber's card, worked out again; by the policy's
    #: method alone.
    challenges: Sequence[Challenged] = ()
    #: The run's key for registrations, and each message with its time, if they are known.
    registration_key: bytes = b""
    registrations: Sequence[tuple[float, bytes]] = ()
    #: The network's key of its wires (CAK); none where it is not told.
    wires_key: bytes = b""
    #: Where its captures are, for what is read of them besides.
    folder: Path = Path()
    #: The part that this is of, where that is seen as a repetition of its own; "" otherwise.
    part: str = ""
    #: What share of packets the worst wire loses, because it says so or its queue has no room.
    wires_lose: float = 0.0
    #: The capture behind the access point that shows what was sent in the end.
    carried: str = "traffic-wire"

    def file(self, capture: str) -> Path:
        """Where the capture is that is called so here, such as `auth-air`."""
        called, _, point = capture.rpartition("-")
        return self.folder / f"{self.part if self.part and called == AUTH else called}-{point}.pcap"

    def management_by_stay(self) -> list[list[Management]]:
        """Management frames at home and, where the mobile node visits a network, those there."""
        home = [frame for frame in self.management if frame.time_s < self.moved_s]
        away = [frame for frame in self.management if frame.time_s >= self.moved_s]
        return [home, away] if self.moves else [home]

    @property
    def keeps_keys(self) -> bool:
        """Whether it moves on with keys that it has, or that are made of them."""
        return self.roaming not in ("", ANEW)

    def full(self, stays: Sequence[Stay]) -> Sequence[Stay]:
        """Of things by stay those of stays in which all was negotiated from the beginning."""
        return stays[:1] if self.keeps_keys else stays

    def registered(self, stays: Sequence[Stay]) -> Sequence[Stay]:
        """The same of stays that begin with a registration: one for each subnet."""
        return stays[:1] if self.roaming and not self.care_of else stays

    @property
    def tunnel_follows(self) -> bool:
        """Whether its tunnel follows it to other subnets, where Mobile IP does otherwise."""
        return bool(self.follows_by)

    @property
    def renews_tunnel(self) -> bool:
        """Whether another tunnel is negotiated where it moves to: it has left and comes anew."""
        return bool(self.care_of) and not self.roaming and not self.tunnel_follows

    def visiting(self, address: str, tunnel: str) -> Observed:
        """The same of a node whose tunnel follows it; where it moves away, to this address."""
        return replace(self, follows_by=tunnel, care_of=address,
                       addresses=self.addresses | ({address} if address else set()))

    def packets(self, name: str) -> Sequence[Packet]:
        """Packets of a capture such as `auth-air`; none if it was not taken."""
        return self.captures.get(name, ())

    def by_stay(self, name: str) -> list[list[Packet]]:
        """A capture's packets at home and, where the mobile node visits a network, those there."""
        moved = self.moved_s
        home = [p for p in self.packets(name) if p.time_s < moved]
        away = [p for p in self.packets(name) if p.time_s >= moved]
        return [home, away] if self.moves else [home]

    def behind_access_points(self, part: str) -> list[list[Packet]]:
        """What was on the wire behind the access point at home and, away, behind that one."""
        home = [p for p in self.packets(f"{part}-wire") if p.time_s < self.moved_s]
        away = [p for p in self.packets(f"{part}-foreign") if p.time_s >= self.moved_s]
        return [home, away] if self.moves else [home]

    @property
    def moved_s(self) -> float:
        """When the mobile node came to the network that it visits; never is infinity."""
        return float(self.raw["stamps"].get("foreign_start", float("inf")))

    @property
    def stations(self) -> list[Mapping[str, str]]:
        """What access points' kernels said of the mobile node, home and away, and of the others."""
        kernel = self.raw["kernel"]
        names = ["station", "foreign_station"] if self.moves else ["station"]
        return [*(kernel.get(name, {}) for name in names),
                *(kernel.get("companions", {}).get(name, {}).get("station", {})
                  for name in self.companions)]

    @property
    def air(self) -> list[Packet]:
        """Data frames on the air from or to mobile nodes, or to all of them; EAPOL left out."""
        return [p for name in ("auth-air", "traffic-air") for p in self.packets(name)
                if p.is_data and not p.is_eapol
                and (p.transmitter in self.macs or p.transmitter in self.cells
                     or p.receiver in self.macs)]


def raw_values(out: Path) -> dict[str, Any]:
    """The raw values of a repetition's folder. Raises MeasureError where they are not whole."""
    try:
        values: dict[str, Any] = json.loads((out / "raw.json").read_text())
    except json.JSONDecodeError as error:
        raise MeasureError("testbed", f"raw.json is not whole ({error})") from None
    return values


def captures(raw: Mapping[str, Any], out: Path, keys: Sequence[str] = (),
             first: str = "mn") -> dict[str, list[Packet]]:
    """The packets of each capture of a repetition and of its parts, by the capture's name.

    Those of the point `first` are dissected as though nothing else had been: messages of several
    packets, such as TLS's, are judged there, and captures of other points carry the same ones.
    """
    names = sorted((entry["file"].removesuffix(".pcap") for entry in raw["captures"]),
                   key=lambda name: name.rpartition("-")[2] != first)
    files = {name: out / f"{name}.pcap" for name in names}
    # Thousands of datagrams of which time and size count are not worth a dissector's time.
    plain = [name for name in names if name == _ARRIVED and files[name].is_file()
             and not uses_transport_mode(raw)
             and pcap.link_type(files[name]) == pcap.ETHERNET]
    rest = [name for name in names if name not in plain]
    packets = dissect.read_all([files[name] for name in rest], keys)
    return dict(zip(rest, packets, strict=True)) | {
        name: dissect.datagrams(files[name]) for name in plain}


def uses_transport_mode(raw: Mapping[str, Any]) -> bool:
    """Return whether the mobile node and its agent have ESP SAs in transport mode.

    The kernel shows a capture such packets as they arrive, and not as they are decrypted.
    """
    return any(state.get("mode") == "transport"
               for states in raw["kernel"].get("after_traffic", {}).values() for state in states)


def _serves(agent: Node, node: Node) -> bool:
    return agent.serves is not None and ip_address(node.address) in ip_network(agent.serves)


def observe(scenario: Scenario, raw: Mapping[str, Any],
            packets: Mapping[str, Sequence[Packet]]) -> Observed:
    """What a repetition of a scenario left, with everybody's addresses."""
    nodes = scenario.network.nodes
    home, peer = nodes[scenario.agent], nodes[scenario.peer]
    stations = [nodes[name] for name in scenario.network.of_duty(STATION)]
    agents = [nodes[name] for name in scenario.network.of_duty(HOME_AGENT)]
    return Observed(
        raw, packets, _mac(nodes[scenario.mobile_node]),
        macs=frozenset(map(_mac, stations)), addresses=frozenset(s.address for s in stations),
        agents=frozenset(agent.outer_address for agent in agents),
        home_address=nodes[scenario.mobile_node].address,
        home_agent=home.address, peer_is_home=_serves(home, peer),
        moves=scenario.roams_to is not None,
        care_of=nodes[scenario.foreign_agent].outer_address if scenario.foreign_agent else "",
        cells=frozenset(_mac(nodes[name]) for name in scenario.network.of_duty(ACCESS_POINT)),
        companions=tuple(scenario.companions),
        wires_lose=max((link.loss_percent / 100 + _BY_QUEUES * (link.rate_bps is not None)
                        for link in scenario.network.links), default=0.0))


def observe_part(scenario: Scenario, raw: Mapping[str, Any], name: str,
                 packets: Mapping[str, Sequence[Packet]]) -> Observed:
    """What a part of a repetition left, seen as though it were a repetition of its own.

    Its captures become those of getting on, and stand for what was sent in the end, too.
    What holds for the whole testbed, the repetition's own raw values say.
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


def _mac(station: Node) -> str:
    return station.interfaces[station.radio_interface].radio or ""

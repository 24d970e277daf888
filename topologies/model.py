"""Networks, scenarios and media as plain data.

Standard library only: the same classes are read from YAML outside the machine (see `loader`) and
from the job's JSON inside it, where start-up time counts.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import types
import typing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Kind = Literal["station", "access_point", "home_agent", "correspondent", "router"]


class _Strict:
    """What the loader's validation must refuse; nothing else reads it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}


@dataclass(frozen=True)
class Interface(_Strict):
    """One interface of a node; `address` is CIDR, `radio` the MAC address of a hwsim radio."""

    address: str | None = None
    radio: str | None = None
    bridge: str | None = None


@dataclass(frozen=True)
class Node(_Strict):
    """A node and its duties; `agent` names the home agent that serves it.

    `routes` maps further prefixes to next hops; `serves` is the prefix behind a home agent.
    `position` is where it stands, x and y or x, y and z in metres.
    """

    kind: Kind
    interfaces: dict[str, Interface]
    gateway: str | None = None
    routes: dict[str, str] = field(default_factory=dict)
    agent: str | None = None
    forwarding: bool = False
    serves: str | None = None
    ssid: str | None = None
    channel: int | None = None
    position: list[float] | None = None

    @property
    def address(self) -> str:
        """The node's first IPv4 address, without its prefix length."""
        for interface in self.interfaces.values():
            if interface.address:
                return interface.address.partition("/")[0]
        raise ValueError("node has no address")

    def interface_of(self, address: str) -> str:
        """Name of the interface that has an address."""
        return next(name for name, interface in self.interfaces.items()
                    if interface.address and interface.address.startswith(f"{address}/"))

    @property
    def outer_address(self) -> str:
        """A home agent's address towards other subnets: that of the interface to its gateway."""
        gateway = ipaddress.IPv4Address(self.gateway or self.address)
        for interface in self.interfaces.values():
            if interface.address:
                there = ipaddress.IPv4Interface(interface.address)
                if gateway in there.network:
                    return str(there.ip)
        raise ValueError(f"node has no interface to {gateway}")

    @property
    def radio_interface(self) -> str:
        """Name of the node's wireless interface."""
        for name, interface in self.interfaces.items():
            if interface.radio:
                return name
        raise ValueError("node has no radio")


@dataclass(frozen=True)
class Link(_Strict):
    """A wire between two `node/interface` ends; `delay_ms` and `loss_percent` hold each way."""

    ends: list[str]
    mtu_bytes: int = 1500
    delay_ms: float = 0.0
    loss_percent: float = 0.0


@dataclass(frozen=True)
class Network(_Strict):
    """Nodes and the wires between them; radios meet by channel, not by link."""

    name: str
    nodes: dict[str, Node]
    links: list[Link]

    def of_kind(self, kind: Kind) -> list[str]:
        """Names of the nodes of one kind, in file order."""
        return [name for name, node in self.nodes.items() if node.kind == kind]

    def joined(self, other: Network) -> Network | None:
        """Both as one network, so that one testbed serves both; None where they contradict."""
        links = {tuple(link.ends): link for link in self.links}
        same = self.name == other.name and all(
            self.nodes.get(name, node) == node for name, node in other.nodes.items()) and all(
            links.get(tuple(link.ends), link) == link for link in other.links)
        added = {tuple(link.ends): link for link in other.links}
        return dataclasses.replace(self, nodes={**self.nodes, **other.nodes},
                                   links=list({**links, **added}.values())) if same else None


@dataclass(frozen=True)
class Mobility(_Strict):
    """The mobile node's drive: from its position straight to another one (m), from when to when."""

    to: list[float]
    start_s: int
    stop_s: int


@dataclass(frozen=True)
class Scenario(_Strict):
    """Who talks to whom from where; node names refer to the network.

    `network` holds the nodes that take part and no others. `roams_to` is the access point that the
    mobile node moves to before it is measured; without it, it stays at home.
    """

    id: str
    title: str
    network: Network
    mobile_node: str
    peer: str
    roams_to: str | None = None
    mobility: Mobility | None = None

    @property
    def agent(self) -> str:
        """The mobile node's home agent."""
        return self.network.nodes[self.mobile_node].agent or ""

    @property
    def home(self) -> str:
        """The access point of the mobile node's home subnet."""
        return self.home_of(self.mobile_node)

    @property
    def access_point(self) -> str:
        """Where the mobile node is while it is measured."""
        return self.roams_to or self.home

    @property
    def foreign_agent(self) -> str | None:
        """The agent of the subnet that the mobile node visits, if it does."""
        return self.network.nodes[self.roams_to].agent if self.roams_to else None

    @property
    def companions(self) -> list[str]:
        """The other stations; they stay at home."""
        return [name for name in self.network.of_kind("station") if name != self.mobile_node]

    def home_of(self, station: str) -> str:
        """The access point that serves a station's home subnet."""
        nodes = self.network.nodes
        return next(name for name in self.network.of_kind("access_point")
                    if nodes[name].agent == nodes[station].agent)


@dataclass(frozen=True)
class Medium(_Strict):
    """Timing of one physical layer, in microseconds and bits per second.

    `ack_preamble_us` is that of an acknowledgement where it differs (802.11n acknowledges in the
    older format). OFDM sends whole symbols of `symbol_us`, with `service_bits` around the frame and
    silence of `extension_us` after it. `mac_bytes` are MAC header and checksum. Each transmission
    is lost with `loss_percent`, and repeated up to `retries` times.
    """

    name: str
    rate_bps: int
    slot_us: float
    sifs_us: float
    difs_us: float
    cw_min: int
    preamble_us: float
    ack_bytes: int
    ack_rate_bps: int
    ack_preamble_us: float | None = None
    symbol_us: float = 0.0
    service_bits: int = 0
    extension_us: float = 0.0
    mac_bytes: int = 28
    loss_percent: float = 0.0
    retries: int = 0

    def __post_init__(self) -> None:
        """A medium that delivers nothing has no ceiling."""
        if self.loss_percent >= 100:
            raise ValueError("loss_percent must be below 100")

    @property
    def frame_overhead_us(self) -> float:
        """Mean airtime of a frame besides its own bits: DIFS, backoff, preamble, SIFS, ACK."""
        backoff_us = self.cw_min / 2 * self.slot_us
        ack_preamble_us = self.preamble_us if self.ack_preamble_us is None else self.ack_preamble_us
        ack_us = ack_preamble_us + self._bits_us(self.ack_bytes, self.ack_rate_bps)
        return self.difs_us + backoff_us + self.preamble_us + self.sifs_us + ack_us

    @property
    def residual_loss(self) -> float:
        """Share of frames, 0 to 1, that no attempt gets through."""
        return float((self.loss_percent / 100) ** (self.retries + 1))

    def airtime_us(self, msdu_bytes: float) -> float:
        """Mean time that one transmission keeps the air, up to the end of its acknowledgement.

        The MSDU is what the MAC layer carries: an IP packet and 8 bytes of LLC, and what a cipher
        adds. Without losses, collisions and contenders (IEEE 802.11-2007, 9.2; OFDM: 17.4.3, 19.8).
        """
        frame_us = self._bits_us(self.mac_bytes + msdu_bytes, self.rate_bps)
        return self.frame_overhead_us + frame_us

    def delivery_us(self, msdu_bytes: float) -> float:
        """Mean airtime of a delivered frame: with what was spent in vain before or for others.

        Of transmissions that are lost with probability p each, 1 / (1 - p) go to every delivered
        frame, however often a frame is repeated before it is given up.
        """
        return self.airtime_us(msdu_bytes) / (1 - self.loss_percent / 100)

    def ceiling_bps(self, msdu_bytes: int) -> float:
        """Rate of back-to-back MSDUs of one sender (bit/s).

        The theoretical maximum throughput of Jun, Peddabachagari and Sichitiu (2003). They count a
        MAC header with four addresses, `mac_bytes` of 34.
        """
        return msdu_bytes * 8 / self.delivery_us(msdu_bytes) * 1e6

    def udp_ceiling_bps(self, payload_bytes: int, cipher_bytes: int = 0) -> float:
        """Goodput of back-to-back UDP datagrams of one sender (bit/s).

        Their frames add 8 bytes of UDP, 20 of IP, 8 of LLC, and what a cipher adds.
        """
        msdu_bytes = payload_bytes + 8 + 20 + 8 + cipher_bytes
        return payload_bytes * 8 / self.delivery_us(msdu_bytes) * 1e6

    def tcp_ceiling_bps(self, segment_bytes: int = 1448, *, header_bytes: int = 52,
                        segments_per_ack: int = 2, cipher_bytes: int = 0) -> float:
        """Goodput of one TCP connection whose window always suffices (bit/s); an estimate.

        By default as Linux does it: segments of 1448 bytes with timestamps, headers of 52 bytes of
        IP and TCP, an acknowledgement for every second segment. Acknowledgements pay airtime too.
        """
        added_bytes = header_bytes + 8 + cipher_bytes
        turn_us = (segments_per_ack * self.delivery_us(segment_bytes + added_bytes)
                   + self.delivery_us(added_bytes))
        return segments_per_ack * segment_bytes * 8 / turn_us * 1e6

    def _bits_us(self, frame_bytes: float, rate_bps: int) -> float:
        """Time of a frame's own bits: OFDM sends whole symbols, and may have to be silent then."""
        bits = frame_bytes * 8 + self.service_bits
        if not self.symbol_us:
            return bits / rate_bps * 1e6 + self.extension_us
        symbols = math.ceil(bits / round(rate_bps * self.symbol_us / 1e6))
        return symbols * self.symbol_us + self.extension_us


def from_json(cls: Any, value: Any) -> Any:
    """Build a dataclass of this module from plain JSON values, without validating it again."""
    origin = typing.get_origin(cls)
    if origin is types.UnionType:  # of something and None
        return None if value is None else from_json(typing.get_args(cls)[0], value)
    if origin is dict:
        item = typing.get_args(cls)[1]
        return {key: from_json(item, entry) for key, entry in value.items()}
    if origin is list:
        return [from_json(typing.get_args(cls)[0], entry) for entry in value]
    if not dataclasses.is_dataclass(cls):
        return value
    build: Any = cls
    hints = typing.get_type_hints(cls)
    fields = {f.name for f in dataclasses.fields(cls)}
    return build(**{key: from_json(hints[key], entry) for key, entry in value.items()
                    if key in fields})

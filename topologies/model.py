"""Networks, scenarios and media as plain data.

Standard library only: the same classes are read from YAML outside the machine (see `loader`) and
from the job's JSON inside it, where start-up time counts.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Kind = Literal["station", "access_point", "home_agent", "correspondent"]


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
    """A node and its duties; `agent` names the home agent that serves it."""

    kind: Kind
    interfaces: dict[str, Interface]
    gateway: str | None = None
    agent: str | None = None
    forwarding: bool = False
    ssid: str | None = None
    channel: int | None = None

    @property
    def address(self) -> str:
        """The node's first IPv4 address, without its prefix length."""
        for interface in self.interfaces.values():
            if interface.address:
                return interface.address.partition("/")[0]
        raise ValueError("node has no address")

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


@dataclass(frozen=True)
class Scenario(_Strict):
    """Who talks to whom from where; node names refer to the network."""

    id: str
    title: str
    place: Literal["home", "foreign"]
    network: Network
    mobile_node: str
    access_point: str
    agent: str
    peer: str


@dataclass(frozen=True)
class Medium(_Strict):
    """Timing of one physical layer, in microseconds and bits per second."""

    name: str
    rate_bps: int
    slot_us: float
    sifs_us: float
    difs_us: float
    cw_min: int
    preamble_us: float
    ack_bytes: int
    ack_rate_bps: int

    @property
    def frame_overhead_us(self) -> float:
        """Mean airtime of a frame besides its own bits: DIFS, backoff, preamble, SIFS, ACK."""
        backoff_us = self.cw_min / 2 * self.slot_us
        ack_us = self.preamble_us + self.ack_bytes * 8 / self.ack_rate_bps * 1e6
        return self.difs_us + backoff_us + self.preamble_us + self.sifs_us + ack_us

    def udp_ceiling_bps(self, payload_bytes: int) -> float:
        """Goodput of back-to-back UDP datagrams of one sender, nothing lost (bit/s).

        The theoretical maximum of Jun, Peddabachagari and Sichitiu (2003), for a UDP payload: its
        frame adds 8 bytes of UDP, 20 of IP, 8 of LLC and 28 of MAC header and checksum.
        """
        frame_us = (payload_bytes + 8 + 20 + 8 + 28) * 8 / self.rate_bps * 1e6
        return payload_bytes * 8 / ((self.frame_overhead_us + frame_us) * 1e-6)


def from_json(cls: Any, value: Any) -> Any:
    """Build a dataclass of this module from plain JSON values, without validating it again."""
    origin = typing.get_origin(cls)
    if origin is dict:
        item = typing.get_args(cls)[1]
        return {key: from_json(item, entry) for key, entry in value.items()}
    if origin is list:
        return [from_json(typing.get_args(cls)[0], entry) for entry in value]
    if not dataclasses.is_dataclass(cls):
        return value
    hints = typing.get_type_hints(cls)
    fields = {f.name for f in dataclasses.fields(cls)}
    return cls(**{key: from_json(hints[key], entry) for key, entry in value.items()
                  if key in fields})

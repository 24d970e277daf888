"""Apply a scenario's changes to its network: nodes, channels, positions and wires."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topologies.device import Strict
from topologies.errors import TopologyError
from topologies.model import ACCESS_POINT, ROUTER, STATION, Link, Network, Wire, node_of
from topologies.source import Keys, YamlSource


@dataclass(frozen=True)
class LinkChanges(Strict):
    """A scenario's values for links. A field that is left out keeps its value."""

    wire: str | None = None
    mtu_bytes: int | None = None
    rate_bps: float | None = None
    delay_ms: float | None = None
    loss_percent: float | None = None
    overhead_bytes: int | None = None
    queue_packets: int | None = None

    def link_fields(self, preset: Wire | None) -> dict[str, Any]:
        """Return the fields of a link that are set. They take precedence over a preset's."""
        stated = {key: value for key, value in vars(self).items() if value is not None}
        return {**preset.effect, **stated, "wire": preset.name} if preset else stated


@dataclass(frozen=True)
class Adjustments(Strict):
    """The changes that a scenario file may make to its network."""

    nodes: list[str] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=dict)
    positions: dict[str, list[float]] = field(default_factory=dict)
    wire: LinkChanges = field(default_factory=LinkChanges)
    links: dict[str, LinkChanges] = field(default_factory=dict)


def adjust_network(network: Network, plan: Adjustments, presets: Mapping[str, Wire],
                   source: YamlSource) -> Network:
    """Return the part of a network that a scenario uses, with its channels and wires.

    Args:
        network: The whole network.
        plan: The scenario's changes.
        presets: Wires by the names in the changes.
        source: The scenario's file; it learns where parts of the network are written.

    Raises:
        TopologyError: A change does not fit, or would have no effect.
    """
    _refuse_unknown(network, plan, source)
    taking_part = [name for name in network.nodes if not plan.nodes or name in plan.nodes]
    _refuse_without_effect(network, plan, taking_part, source)
    nodes = {name: dataclasses.replace(node, channel=plan.channels.get(name, node.channel),
                                       position=plan.positions.get(name, node.position))
             for name, node in network.nodes.items() if name in taking_part}
    places: dict[Keys, Keys] = {("nodes", name, key): (f"{key}s", name)
                                for key in ("channel", "position")
                                for name in getattr(plan, f"{key}s")}
    links: list[Link] = []
    for number, link in enumerate(network.links):
        if not all(node_of(end) in taking_part for end in link.ends):
            continue
        place: Keys = ("network", "links", number)
        values: dict[str, Any] = {}
        for keys, changes in _changes_of(link, network, plan):
            place, values = keys, {**values, **changes.link_fields(presets.get(changes.wire or ""))}
        places["links", len(links)] = place
        links.append(dataclasses.replace(link, **values))
    _note_places(source, places)
    return dataclasses.replace(network, nodes=nodes, links=links)


def _note_places(source: YamlSource, places: Mapping[Keys, Keys]) -> None:
    """Note where parts of the network are written now: in the scenario or in the network."""
    whole = source.copy()
    for keys, there in places.items():
        source.place_part(("network", *keys), whole, there)


def _changes_of(link: Link, network: Network,
                plan: Adjustments) -> Iterator[tuple[Keys, LinkChanges]]:
    """Yield a scenario's changes of a link with their keys. A later change takes precedence."""
    if plan.wire != LinkChanges() and _leads_to_router(link, network):
        yield ("wire",), plan.wire
    for end in link.ends:
        if end in plan.links:
            yield ("links", end), plan.links[end]


def _leads_to_router(link: Link, network: Network) -> bool:
    nodes = [network.nodes.get(node_of(end)) for end in link.ends]
    return any(node is not None and node.has_duty(ROUTER) for node in nodes)


def _refuse_unknown(network: Network, plan: Adjustments, source: YamlSource) -> None:
    """Refuse names of nodes and ends that the network lacks, or that occur twice."""
    for key in ("nodes", "channels", "positions"):
        names = list(getattr(plan, key))
        for number, name in enumerate(names):
            place = source.at(key, number if key == "nodes" else name, name=key)
            if name not in network.nodes:
                raise TopologyError(f"{place}: no node {name!r} in network {network.name}; "
                                    f"it has {', '.join(network.nodes)}")
            if names.count(name) > 1:
                raise TopologyError(f"{place}: {name} is there twice; leave one out")
    known = {end for link in network.links for end in link.ends}
    for end in plan.links:
        if end not in known:
            raise TopologyError(f"{source.at('links', end, name='links')}: no end {end!r} in "
                                f"network {network.name}; it has {', '.join(sorted(known))}")


def _refuse_without_effect(network: Network, plan: Adjustments, taking_part: Sequence[str],
                           source: YamlSource) -> None:
    """Refuse changes of nodes that take no part, or that lack the changed property."""
    for key, what in (("channels", "channel"), ("positions", "radio")):
        for name in getattr(plan, key):
            place, node = source.at(key, name), network.nodes[name]
            if name not in taking_part:
                raise TopologyError(f"{place}: {name} takes no part; leave it out here, or add it "
                                    "to nodes")
            if not (node.has_duty(ACCESS_POINT) or (key == "positions" and node.has_duty(STATION))):
                raise TopologyError(f"{place}: {name} has no {what}; leave it out")
    links = [link for link in network.links if all(node_of(end) in taking_part
                                                   for end in link.ends)]
    if plan.wire != LinkChanges() and not any(_leads_to_router(link, network) for link in links):
        raise TopologyError(f"{source.at('wire')}: no link leads to a router here, so that it "
                            f"would change nothing; write links: {{{_an_end(links)}: ...}}")
    for end, changes in plan.links.items():
        place = source.at("links", end)
        link = next(link for link in network.links if end in link.ends)
        if link not in links:
            raise TopologyError(f"{place}: not both ends of this link take part; leave it out "
                                "here, or add their nodes to nodes")
        if changes == LinkChanges():
            raise TopologyError(f"{place}: is empty; leave it out, or say what changes")
        if end != next(other for other in plan.links if other in link.ends):
            raise TopologyError(f"{place}: the other end of this link is there, too; leave one out")


def _an_end(links: Sequence[Link]) -> str:
    return links[0].ends[0] if links else "NODE/INTERFACE"

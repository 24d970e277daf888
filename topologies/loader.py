"""The loader reads networks, scenarios, wires, devices and media from YAML, outside the machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topologies import checks, reading
from topologies.checks import TopologyError
from topologies.device import Device, Strict
from topologies.model import ROUTER, Link, Medium, Network, Scenario, Wire, with_duties
from topologies.reading import ROOT, read, resolve, validate

__all__ = ["TopologyError", "device_names", "load_device", "load_medium", "load_network",
           "load_scenario", "load_wire", "medium_names", "network_names", "scenario_ids", "to_json",
           "wire_names"]


@dataclass(frozen=True)
class _Own(Strict):
    """A scenario's own values for the links to routers; what it leaves out stays."""

    wire: str | None = None
    rate_bps: float | None = None
    delay_ms: float | None = None
    loss_percent: float | None = None


@dataclass(frozen=True)
class _Adjustments(Strict):
    """What a scenario file may change of its network."""

    nodes: list[str] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=dict)
    positions: dict[str, list[float]] = field(default_factory=dict)
    wire: _Own = field(default_factory=_Own)
    links: dict[str, _Own] = field(default_factory=dict)


def scenario_ids() -> list[str]:
    """Names of the scenarios that come with the project, sorted."""
    return reading.names("scenarios")


def network_names() -> list[str]:
    """Names of the networks that come with the project, sorted."""
    return reading.names("networks")


def medium_names() -> list[str]:
    """Names of the media that come with the project, sorted."""
    return reading.names("media")


def wire_names() -> list[str]:
    """Names of the wires that come with the project, sorted."""
    return reading.names("wires")


def device_names() -> list[str]:
    """Names of the devices that come with the project, sorted."""
    return reading.names("devices")


def load_network(name: str) -> Network:
    """Load a network by its name, or from a `.yml` file; raises TopologyError."""
    path = resolve(name, "networks")
    network = _network(read(path), path, path)
    checks.network(network, path)
    return network


def load_scenario(name: str) -> Scenario:
    """Load a scenario by its name, or from a `.yml` file; raises TopologyError.

    `network:` is the name of a file in `networks/`, or a path relative to the scenario file.
    `nodes:` keeps only these of the network; `channels:` gives access points other channels,
    `positions:` nodes other places, `wire:` the links between home agents and routers another
    wire, and `links:` single ones, by an end of theirs.
    """
    path = resolve(name, "scenarios")
    document = read(path)
    network, source = document.get("network"), path
    if isinstance(network, str):
        source = path.parent / network if network.endswith(".yml") \
            else ROOT / "networks" / f"{network}.yml"
        network = read(source)
    changes = {key: document.pop(key) for key in ("nodes", "channels", "positions", "wire", "links")
               if key in document}
    if isinstance(changes.get("wire"), str):
        changes["wire"] = {"wire": changes["wire"]}
    plan: _Adjustments = validate(_Adjustments, changes, path)
    whole = _adjusted(_network(network, path, source), plan, path)
    scenario: Scenario = validate(Scenario, {
        **document, "network": to_json(whole), "is_placed": bool(plan.positions)}, path)
    checks.scenario(scenario, path)
    _refuse_taken("id", scenario.id, "scenarios", path, scenario, load_scenario)
    return scenario


def load_medium(name: str) -> Medium:
    """Load a medium by its name, or from a `.yml` file; raises TopologyError."""
    path = resolve(name, "media")
    medium: Medium = reading.load(Medium, path, checks.medium)
    _refuse_taken("name", medium.name, "media", path, medium, load_medium)
    return medium


def load_wire(name: str, beside: Path | None = None) -> Wire:
    """Load a wire by its name, or from a `.yml` file; raises TopologyError."""
    path = resolve(name, "wires", beside)
    wire: Wire = reading.load(Wire, path, checks.wire)
    _refuse_taken("name", wire.name, "wires", path, wire, load_wire)
    return wire


def load_device(name: str, beside: Path | None = None) -> Device:
    """Load a device by its name, or from a `.yml` file; raises TopologyError."""
    path = resolve(name, "devices", beside)
    device: Device = reading.load(Device, path, checks.device)
    _refuse_taken("name", device.name, "devices", path, device, load_device)
    return device


def _refuse_taken(key: str, name: str, folder: str, path: Path, value: object,
                  own: Callable[[str], object]) -> None:
    """Raise TopologyError for a file that says something else under a name of the project's own."""
    if path.is_relative_to(ROOT) or name not in reading.names(folder):
        return
    if value != own(name):
        raise TopologyError(f"{path}: {key}: {name} comes with qop, and is another one there; "
                            "give yours a name of its own")


def to_json(value: Scenario | Network | Medium | Wire | Device) -> Any:
    """The plain JSON value that `model.from_json` reads back."""
    return dataclasses.asdict(value)


def _network(document: Any, path: Path, source: Path) -> Network:
    """A network of a document that stands in `source`: with wires and devices in their place.

    `path` is the file that the user gave, which is what messages name.
    """
    if isinstance(document, dict):
        nodes, links = document.get("nodes"), document.get("links")
        document = dict(document)
        if isinstance(nodes, dict):
            document["nodes"] = {name: _with_device(with_duties(node), source)
                                 for name, node in nodes.items()}
        if isinstance(links, list):
            document["links"] = [_with_wire(link, source) for link in links]
    network: Network = validate(Network, document, path)
    return network


def _with_device(node: Any, source: Path) -> Any:
    """A node's document, with the device in the place of its name."""
    if isinstance(node, dict) and isinstance(node.get("device"), str):
        return {**node, "device": to_json(load_device(node["device"], source.parent))}
    return node


def _with_wire(link: Any, source: Path) -> Any:
    """A link's document, with what the wire that it names does to packets."""
    if isinstance(link, dict) and isinstance(link.get("wire"), str) and link["wire"]:
        wire = load_wire(link["wire"], source.parent)
        return {**wire.effect, **link, "wire": wire.name}  # the link's own values come first
    return link


def _adjusted(network: Network, plan: _Adjustments, path: Path) -> Network:
    """The part of a network that a scenario asks for, with its channels and wires."""
    for key, names in (("nodes", plan.nodes), ("channels", list(plan.channels)),
                       ("positions", list(plan.positions))):
        for name in names:
            if name not in network.nodes:
                raise TopologyError(f"{path}: {key}: no node {name!r} in network {network.name}; "
                                    f"it has {', '.join(network.nodes)}")
    nodes = {name: dataclasses.replace(node, channel=plan.channels.get(name, node.channel),
                                       position=plan.positions.get(name, node.position))
             for name, node in network.nodes.items() if not plan.nodes or name in plan.nodes}
    known = {end for link in network.links for end in link.ends}
    for end in plan.links:
        if end not in known:
            raise TopologyError(f"{path}: links: no end {end!r} in network {network.name}; it has "
                                f"{', '.join(sorted(known))}")
    changes = _changes(plan.wire, path)
    single = {end: _changes(own, path) for end, own in plan.links.items()}
    links = [_single(_wired(link, network, changes), single) for link in network.links
             if all(end.partition("/")[0] in nodes for end in link.ends)]
    return dataclasses.replace(network, nodes=nodes, links=links)


def _changes(own: _Own, path: Path) -> dict[str, Any]:
    """Fields of a link that a scenario sets."""
    stated = {key: value for key, value in vars(own).items() if value is not None}
    if "wire" not in stated:
        return stated
    preset = load_wire(stated["wire"], path.parent)
    return {**preset.effect, **stated, "wire": preset.name}


def _single(link: Link, changes: dict[str, dict[str, Any]]) -> Link:
    """The link with the values that the scenario has for it alone."""
    for end in link.ends:
        link = dataclasses.replace(link, **changes.get(end, {}))
    return link


def _wired(link: Link, network: Network, changes: dict[str, Any]) -> Link:
    """The link with the scenario's values, if a router is at one of its ends."""
    ends = [network.nodes[end.partition("/")[0]] for end in link.ends
            if end.partition("/")[0] in network.nodes]
    if not changes or not any(node.has(ROUTER) for node in ends):
        return link
    return dataclasses.replace(link, **changes)

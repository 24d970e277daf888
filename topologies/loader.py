"""Load networks and scenarios from YAML files, with their wires, devices and radio media.

`load_scenario` takes a name or a file. It first loads the network that the scenario names, then
applies the scenario's changes to it. It returns a checked `Scenario` (`topologies.checks`), or
raises `TopologyError` with one line for the user. This runs outside of the guest (virtual machine),
which gets the result as JSON (`to_json`). `topologies.model` lists the terms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from documents.refusals import did_you_mean
from documents.yaml_reader import KeyPath
from topologies import checks, yaml_reader
from topologies.device import Device, Strict
from topologies.errors import TopologyError
from topologies.model import (
    ACCESS_POINT,
    ROUTER,
    STATION,
    Link,
    Medium,
    Network,
    Node,
    Roaming,
    Scenario,
    Wire,
    node_of,
    with_duties,
)
from topologies.yaml_reader import YamlSource, read_mapping, resolve_path, validate_document

#: Fields of a medium that came with 802.11n, ac and ax. See `to_json`.
_LATER_MEDIUM_FIELDS = ("longest_ppdu_us", "mpdu_spacing_us", "s_mpdu", "queue_frames",
                        "duration_step_us", "phy")

#: Likewise fields of a link, and of a node.
_LATER_LINK_FIELDS = ("jitter_ms", "loss_burst_packets", "rate_back_bps")
_LATER_NODE_FIELDS = ("second_radius_server", "is_down", "roaming", "nat")
_LATER_NETWORK_FIELDS = ("ip",)

# --- A scenario's changes to its network: nodes, channels, positions and wires ---

@dataclass(frozen=True)
class LinkChanges(Strict):
    """A scenario's new values for links. A field that is left out keeps its value."""

    wire: str | None = None
    mtu_bytes: int | None = None
    rate_bps: float | None = None
    delay_ms: float | None = None
    loss_percent: float | None = None
    overhead_bytes: int | None = None
    queue_packets: int | None = None
    jitter_ms: float | None = None
    loss_burst_packets: float | None = None
    rate_back_bps: float | None = None

    def link_fields(self, preset: Wire | None) -> dict[str, Any]:
        """Return the link fields that the scenario sets.

        They take precedence over a named wire's.
        """
        stated = {key: value for key, value in vars(self).items() if value is not None}
        return {**preset.effect, **stated, "wire": preset.name} if preset else stated


@dataclass(frozen=True)
class ScenarioChanges(Strict):
    """The changes that a scenario file may make to its network."""

    nodes: list[str] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=dict)
    positions: dict[str, list[float]] = field(default_factory=dict)
    roaming: dict[str, Roaming] = field(default_factory=dict)
    wire: LinkChanges = field(default_factory=LinkChanges)
    links: dict[str, LinkChanges] = field(default_factory=dict)
    ip: int | None = None


#: A scenario's changes of nodes, by the field of the node.
_NODE_CHANGES = {"channel": "channels", "position": "positions", "roaming": "roaming"}


def apply_scenario_changes(network: Network, plan: ScenarioChanges, presets: Mapping[str, Wire],
                           source: YamlSource) -> Network:
    """Return the part of a network that a scenario uses, with the scenario's changes.

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
                                       position=plan.positions.get(name, node.position),
                                       roaming=plan.roaming.get(name, node.roaming))
             for name, node in network.nodes.items() if name in taking_part}
    places: dict[KeyPath, KeyPath] = {
        ("nodes", name, key): (changes, name) for key, changes in _NODE_CHANGES.items()
        for name in getattr(plan, changes)}
    links: list[Link] = []
    for number, link in enumerate(network.links):
        if not all(node_of(end) in taking_part for end in link.ends):
            continue
        place: KeyPath = ("network", "links", number)
        values: dict[str, Any] = {}
        for keys, changes in _changes_of(link, network, plan):
            place, values = keys, {**values, **changes.link_fields(presets.get(changes.wire or ""))}
        places["links", len(links)] = place
        links.append(dataclasses.replace(link, **values))
    if plan.ip is not None:
        places["ip",] = ("ip",)
    _note_places(source, places)
    return dataclasses.replace(network, nodes=nodes, links=links,
                               ip=network.ip if plan.ip is None else plan.ip)


def _note_places(source: YamlSource, places: Mapping[KeyPath, KeyPath]) -> None:
    """Note in which file each part of the network is written: the scenario's or the network's."""
    whole = source.make_copy()
    for keys, there in places.items():
        source.place_part(("network", *keys), whole, there)


def _changes_of(link: Link, network: Network,
                plan: ScenarioChanges) -> Iterator[tuple[KeyPath, LinkChanges]]:
    """Yield a scenario's changes of a link.

    Yields:
        Keys of the change in the scenario's file, and the change. A later change takes precedence.
    """
    if plan.wire != LinkChanges() and _leads_to_router(link, network):
        yield ("wire",), plan.wire
    for end in link.ends:
        if end in plan.links:
            yield ("links", end), plan.links[end]


def _leads_to_router(link: Link, network: Network) -> bool:
    nodes = [network.nodes.get(node_of(end)) for end in link.ends]
    return any(node is not None and node.has_duty(ROUTER) for node in nodes)


def _refuse_unknown(network: Network, plan: ScenarioChanges, source: YamlSource) -> None:
    """Refuse changes that name nodes or link ends which the network lacks, or names twice."""
    for key in ("nodes", *_NODE_CHANGES.values()):
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


def _refuse_without_effect(network: Network, plan: ScenarioChanges, taking_part: Sequence[str],
                           source: YamlSource) -> None:
    """Refuse changes of nodes that take no part in the scenario, or lack the property."""
    for key, what in (("channels", "channel"), ("positions", "radio"), ("roaming", "supplicant")):
        for name in getattr(plan, key):
            place, node = source.at(key, name), network.nodes[name]
            if name not in taking_part:
                raise TopologyError(f"{place}: {name} takes no part; leave it out here, or add it "
                                    "to nodes")
            if not (node.has_duty(STATION) if key == "roaming" else node.has_duty(ACCESS_POINT)
                    or (key == "positions" and node.has_duty(STATION))):
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


__all__ = ["TopologyError", "device_names", "load_device", "load_medium", "load_network",
           "load_scenario", "load_wire", "medium_names", "network_names", "scenario_ids", "to_json",
           "wire_names"]


# --- Loading of files, by their names or paths ---

#: Keys by which a scenario changes its network.
_CHANGES = tuple(field.name for field in dataclasses.fields(ScenarioChanges))
#: All keys of a scenario file. `is_placed` is computed, not written there.
_SCENARIO_KEYS = (*(field.name for field in dataclasses.fields(Scenario)
                    if field.name != "is_placed"), *_CHANGES)


def scenario_ids() -> list[str]:
    """Return the names of the scenarios that come with the project, sorted."""
    return yaml_reader.builtin_names("scenarios")


def network_names() -> list[str]:
    """Return the names of the networks that come with the project, sorted."""
    return yaml_reader.builtin_names("networks")


def medium_names() -> list[str]:
    """Return the names of the media that come with the project, sorted."""
    return yaml_reader.builtin_names("media")


def wire_names() -> list[str]:
    """Return the names of the wires that come with the project, sorted."""
    return yaml_reader.builtin_names("wires")


def device_names() -> list[str]:
    """Return the names of the devices that come with the project, sorted."""
    return yaml_reader.builtin_names("devices")


def load_network(name: str) -> Network:
    """Load a network by its name or from a `.yml` file.

    Raises:
        TopologyError: The file cannot be used.
    """
    path = resolve_path(name, "networks")
    network = _build_network(read_mapping(path), YamlSource(path), path)
    checks.check_complete_network(network, path)
    return network


def load_scenario(name: str) -> Scenario:
    """Load a scenario by its name or from a `.yml` file.

    `network:` is the name of a file in `networks/`, a path relative to the scenario file, or the
    network itself. These keys change the network:

    - `nodes:` keeps only these nodes.
    - `channels:` sets other channels of access points.
    - `positions:` sets other positions of nodes.
    - `roaming:` sets when stations look for a better access point.
    - `wire:` sets the wire of the links between home agents and routers.
    - `links:` changes single links, each named by one of its ends.
    - `ip:` is the version of IP of the measured traffic.

    Raises:
        TopologyError: The file cannot be used.
    """
    path = resolve_path(name, "scenarios")
    source, document = YamlSource(path), read_mapping(path)
    for key in (key for key in document if key not in _SCENARIO_KEYS):
        raise TopologyError(f"{source.at(key)}: there is no such field; "
                            f"{did_you_mean(str(key), _SCENARIO_KEYS)} (see docs/topologies.md "
                            "for the fields)")
    network = document.get("network")
    if network is None:
        raise TopologyError(f"{source.at('network')}: is missing; name one of "
                            f"{', '.join(network_names())}, a .yml file, or write it here")
    file, there = path, source.part_at("network")
    if isinstance(network, str):
        file = resolve_path(network, "networks", path.parent, source.part_at("network"))
        network, there = read_mapping(file), YamlSource(file)
        source.place_part(("network",), there, ())
    changes = {key: document.pop(key) for key in _CHANGES if key in document}
    for key, value in changes.items():
        if value is None or value in ([], {}):
            raise TopologyError(f"{source.at(key)}: is empty; leave it out, or say what changes")
    if isinstance(changes.get("wire"), str):
        changes["wire"] = {"wire": changes["wire"]}
    plan: ScenarioChanges = validate_document(ScenarioChanges, changes, source)
    presets = {name: load_wire(name, path.parent, place) for name, place in [
        (plan.wire.wire, source.part_at("wire")),
        *((own.wire, source.part_at("links", end, "wire")) for end, own in plan.links.items())]
        if name}
    whole = _build_network(network, there, file)
    checks.check_complete_network(whole, there)
    part = apply_scenario_changes(whole, plan, presets, source)
    scenario: Scenario = validate_document(Scenario, {
        **document, "network": to_json(part), "is_placed": bool(plan.positions)}, source)
    checks.check_scenario(scenario, source)
    _refuse_taken("id", scenario.id, "scenarios", source, scenario, load_scenario)
    return scenario


def load_medium(name: str) -> Medium:
    """Load a medium (802.11 timing) by its name or from a `.yml` file.

    Raises:
        TopologyError: The file cannot be used.
    """
    path = resolve_path(name, "media")
    medium: Medium = yaml_reader.load_file(Medium, path, checks.check_medium)
    _refuse_taken("name", medium.name, "media", YamlSource(path), medium, load_medium)
    return medium


def load_wire(name: str, base_folder: Path | None = None,
              place: YamlSource | None = None) -> Wire:
    """Load a wire (rate, delay and loss of links) by its name or from a `.yml` file.

    Args:
        name: Name or path.
        base_folder: Folder to which a path is relative.
        place: The place of the name, for messages.

    Raises:
        TopologyError: The file cannot be used.
    """
    path = resolve_path(name, "wires", base_folder, place)
    wire: Wire = yaml_reader.load_file(Wire, path, checks.check_wire)
    _refuse_taken("name", wire.name, "wires", YamlSource(path), wire, load_wire)
    return wire


def load_device(name: str, base_folder: Path | None = None,
                place: YamlSource | None = None) -> Device:
    """Load a device (processor model) by its name or from a `.yml` file.

    Args:
        name: Name or path.
        base_folder: Folder to which a path is relative.
        place: The place of the name, for messages.

    Raises:
        TopologyError: The file cannot be used.
    """
    path = resolve_path(name, "devices", base_folder, place)
    device: Device = yaml_reader.load_file(Device, path, checks.check_device)
    _refuse_taken("name", device.name, "devices", YamlSource(path), device, load_device)
    return device


def _refuse_taken(key: str, name: str, folder: str, source: YamlSource, value: object,
                  load_builtin: Callable[[str], object]) -> None:
    """Raise TopologyError for a user's file that has a built-in name but other content."""
    is_own = isinstance(source.file, Path) and source.file.is_relative_to(yaml_reader.ROOT)
    if is_own or name not in yaml_reader.builtin_names(folder):
        return
    if value != load_builtin(name):
        raise TopologyError(f"{source.at(key)}: {name} comes with qop, and is another one there; "
                            "give yours a name of its own")


def to_json(value: Scenario | Network | Medium | Wire | Device) -> Any:
    """Return a network, scenario or part of one as JSON data, which `model.from_json` reads.

    Fields of media, networks, links and nodes that plans of older results lack are left out at
    their defaults, so that these results can be continued.
    """
    document = dataclasses.asdict(value)
    if isinstance(value, Medium):
        _leave_out_defaults(document, Medium, _LATER_MEDIUM_FIELDS)
    if isinstance(value, Scenario | Network):
        part = document["network"] if isinstance(value, Scenario) else document
        _leave_out_defaults(part, Network, _LATER_NETWORK_FIELDS)
        for link in part["links"]:
            _leave_out_defaults(link, Link, _LATER_LINK_FIELDS)
        for node in part["nodes"].values():
            _leave_out_defaults(node, Node, _LATER_NODE_FIELDS)
    return document


def _leave_out_defaults(document: dict[str, Any], cls: type[Medium | Network | Link | Node],
                        names: Sequence[str]) -> None:
    """Remove the named fields that have their default from a document."""
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    for name in names:
        if document[name] == defaults[name]:
            del document[name]


def _build_network(document: Any, place: YamlSource, file: Path) -> Network:
    """Return the network in a YAML document, with its wires and devices loaded."""
    if isinstance(document, dict):
        nodes, links = document.get("nodes"), document.get("links")
        document = dict(document)
        if isinstance(nodes, dict):
            document["nodes"] = {
                name: _with_device(with_duties(node), file.parent, place.part_at("nodes", name))
                for name, node in nodes.items()}
        if isinstance(links, list):
            document["links"] = [_with_wire(link, file.parent, place.part_at("links", number))
                                 for number, link in enumerate(links)]
    network: Network = validate_document(Network, document, place)
    return network


def _with_device(node: Any, folder: Path, place: YamlSource) -> Any:
    """Return a node's YAML data with the device itself in place of the device's name."""
    if isinstance(node, dict) and isinstance(node.get("device"), str):
        device = load_device(node["device"], folder, place.part_at("device"))
        return {**node, "device": to_json(device)}
    return node


def _with_wire(link: Any, folder: Path, place: YamlSource) -> Any:
    """Return a link's YAML data with the values of the wire that it names."""
    if isinstance(link, dict) and isinstance(link.get("wire"), str) and link["wire"]:
        wire = load_wire(link["wire"], folder, place.part_at("wire"))
        return {**wire.effect, **link, "wire": wire.name}  # the link's own values take precedence
    return link

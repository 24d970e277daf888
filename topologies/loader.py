"""Load networks, scenarios and their parts from YAML, outside the machine.

The parts are wires, devices and media.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from topologies import adjustments, checks, reading
from topologies.adjustments import Adjustments
from topologies.device import Device
from topologies.errors import TopologyError
from topologies.model import Medium, Network, Scenario, Wire, with_duties
from topologies.reading import read_mapping, resolve_path, validate_document
from topologies.source import YamlSource
from topologies.wording import did_you_mean

__all__ = ["TopologyError", "device_names", "load_device", "load_medium", "load_network",
           "load_scenario", "load_wire", "medium_names", "network_names", "scenario_ids", "to_json",
           "wire_names"]


#: Keys by which a scenario changes its network.
_CHANGES = tuple(field.name for field in dataclasses.fields(Adjustments))
#: All keys of a scenario file. `is_placed` is computed, not written there.
_SCENARIO_KEYS = (*(field.name for field in dataclasses.fields(Scenario)
                    if field.name != "is_placed"), *_CHANGES)


def scenario_ids() -> list[str]:
    """Return the names of the scenarios that come with the project, sorted."""
    return reading.builtin_names("scenarios")


def network_names() -> list[str]:
    """Return the names of the networks that come with the project, sorted."""
    return reading.builtin_names("networks")


def medium_names() -> list[str]:
    """Return the names of the media that come with the project, sorted."""
    return reading.builtin_names("media")


def wire_names() -> list[str]:
    """Return the names of the wires that come with the project, sorted."""
    return reading.builtin_names("wires")


def device_names() -> list[str]:
    """Return the names of the devices that come with the project, sorted."""
    return reading.builtin_names("devices")


def load_network(name: str) -> Network:
    """Load a network by its name or from a `.yml` file.

    Raises:
        TopologyError: The file cannot be used.
    """
    path = resolve_path(name, "networks")
    network = _build_network(read_mapping(path), YamlSource(path), path)
    checks.check_whole_network(network, path)
    return network


def load_scenario(name: str) -> Scenario:
    """Load a scenario by its name or from a `.yml` file.

    `network:` is the name of a file in `networks/`, a path relative to the scenario file, or the
    network itself. These keys change the network:

    - `nodes:` keeps only these nodes.
    - `channels:` sets other channels of access points.
    - `positions:` sets other positions of nodes.
    - `wire:` sets the wire of the links between home agents and routers.
    - `links:` changes single links, each named by one of its ends.

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
    file, there = path, source.within("network")
    if isinstance(network, str):
        file = resolve_path(network, "networks", path.parent, source.within("network"))
        network, there = read_mapping(file), YamlSource(file)
        source.place_part(("network",), there, ())
    changes = {key: document.pop(key) for key in _CHANGES if key in document}
    for key, value in changes.items():
        if value is None or value in ([], {}):
            raise TopologyError(f"{source.at(key)}: is empty; leave it out, or say what changes")
    if isinstance(changes.get("wire"), str):
        changes["wire"] = {"wire": changes["wire"]}
    plan: Adjustments = validate_document(Adjustments, changes, source)
    presets = {name: load_wire(name, path.parent, place) for name, place in [
        (plan.wire.wire, source.within("wire")),
        *((own.wire, source.within("links", end, "wire")) for end, own in plan.links.items())]
        if name}
    whole = _build_network(network, there, file)
    checks.check_whole_network(whole, there)
    part = adjustments.adjust_network(whole, plan, presets, source)
    scenario: Scenario = validate_document(Scenario, {
        **document, "network": to_json(part), "is_placed": bool(plan.positions)}, source)
    checks.check_scenario(scenario, source)
    _refuse_taken("id", scenario.id, "scenarios", source, scenario, load_scenario)
    return scenario


def load_medium(name: str) -> Medium:
    """Load a medium by its name or from a `.yml` file.

    Raises:
        TopologyError: The file cannot be used.
    """
    path = resolve_path(name, "media")
    medium: Medium = reading.load_file(Medium, path, checks.check_medium)
    _refuse_taken("name", medium.name, "media", YamlSource(path), medium, load_medium)
    return medium


def load_wire(name: str, base_folder: Path | None = None,
              place: YamlSource | None = None) -> Wire:
    """Load a wire by its name or from a `.yml` file.

    Args:
        name: Name or path.
        base_folder: Folder to which a path is relative.
        place: The place of the name, for messages.

    Raises:
        TopologyError: The file cannot be used.
    """
    path = resolve_path(name, "wires", base_folder, place)
    wire: Wire = reading.load_file(Wire, path, checks.check_wire)
    _refuse_taken("name", wire.name, "wires", YamlSource(path), wire, load_wire)
    return wire


def load_device(name: str, base_folder: Path | None = None,
                place: YamlSource | None = None) -> Device:
    """Load a device by its name or from a `.yml` file.

    Args:
        name: Name or path.
        base_folder: Folder to which a path is relative.
        place: The place of the name, for messages.

    Raises:
        TopologyError: The file cannot be used.
    """
    path = resolve_path(name, "devices", base_folder, place)
    device: Device = reading.load_file(Device, path, checks.check_device)
    _refuse_taken("name", device.name, "devices", YamlSource(path), device, load_device)
    return device


def _refuse_taken(key: str, name: str, folder: str, source: YamlSource, value: object,
                  load_builtin: Callable[[str], object]) -> None:
    """Raise TopologyError for a file with a built-in name and different content."""
    is_own = isinstance(source.file, Path) and source.file.is_relative_to(reading.ROOT)
    if is_own or name not in reading.builtin_names(folder):
        return
    if value != load_builtin(name):
        raise TopologyError(f"{source.at(key)}: {name} comes with qop, and is another one there; "
                            "give yours a name of its own")


def to_json(value: Scenario | Network | Medium | Wire | Device) -> Any:
    """Return the plain JSON value that `model.from_json` reads."""
    return dataclasses.asdict(value)


def _build_network(document: Any, place: YamlSource, file: Path) -> Network:
    """Return the network of a document in `file`, with its wires and devices loaded."""
    if isinstance(document, dict):
        nodes, links = document.get("nodes"), document.get("links")
        document = dict(document)
        if isinstance(nodes, dict):
            document["nodes"] = {
                name: _with_device(with_duties(node), file.parent, place.within("nodes", name))
                for name, node in nodes.items()}
        if isinstance(links, list):
            document["links"] = [_with_wire(link, file.parent, place.within("links", number))
                                 for number, link in enumerate(links)]
    network: Network = validate_document(Network, document, place)
    return network


def _with_device(node: Any, folder: Path, place: YamlSource) -> Any:
    """Return a node's document with its device in place of the device's name."""
    if isinstance(node, dict) and isinstance(node.get("device"), str):
        device = load_device(node["device"], folder, place.within("device"))
        return {**node, "device": to_json(device)}
    return node


def _with_wire(link: Any, folder: Path, place: YamlSource) -> Any:
    """Return a link's document with the figures of the wire that it names."""
    if isinstance(link, dict) and isinstance(link.get("wire"), str) and link["wire"]:
        wire = load_wire(link["wire"], folder, place.within("wire"))
        return {**wire.effect, **link, "wire": wire.name}  # the link's own values take precedence
    return link

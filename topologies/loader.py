"""Read networks, scenarios and media from YAML, strictly, outside the machine."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from topologies.model import Medium, Network, Scenario

ROOT = Path(__file__).parent


class TopologyError(ValueError):
    """A topology file that cannot be used; the text is one line for the user."""


def scenario_ids() -> list[str]:
    """Names of the scenarios that come with the project, sorted."""
    return sorted(path.stem for path in (ROOT / "scenarios").glob("*.yml"))


def medium_names() -> list[str]:
    """Names of the media that come with the project, sorted."""
    return sorted(path.stem for path in (ROOT / "media").glob("*.yml"))


def load_scenario(name: str) -> Scenario:
    """Load a scenario by its name, or from a `.yml` file; raises TopologyError.

    `network:` is the name of a file in `networks/`, or a path relative to the scenario file.
    """
    path = _resolve(name, "scenarios", scenario_ids())
    document = _read(path)
    network = document.get("network")
    if isinstance(network, str):
        beside = path.parent / network
        source = beside if network.endswith(".yml") else ROOT / "networks" / f"{network}.yml"
        document["network"] = _read(source)
    scenario: Scenario = _validate(Scenario, document, path)
    _check(scenario, path)
    return scenario


def load_medium(name: str) -> Medium:
    """Load a medium by its name, or from a `.yml` file; raises TopologyError."""
    path = _resolve(name, "media", medium_names())
    medium: Medium = _validate(Medium, _read(path), path)
    return medium


def to_json(value: Scenario | Medium) -> Any:
    """The plain JSON value that `model.from_json` reads back."""
    return TypeAdapter(type(value)).dump_python(value, mode="json")


def _resolve(name: str, folder: str, known: list[str]) -> Path:
    if name.endswith((".yml", ".yaml")):
        return Path(name)
    if name not in known:
        raise TopologyError(f"{name}: no such file in topologies/{folder}; "
                            f"choose one of {', '.join(known)} or give a .yml file")
    return ROOT / folder / f"{name}.yml"


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TopologyError(f"{path}: no such file; check the name") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TopologyError(f"{path}: cannot be read ({error}); give a YAML file") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise TopologyError(f"{path}:{line}: not YAML ({error.problem}); correct that line") \
            from None
    if not isinstance(document, dict):
        raise TopologyError(f"{path}: holds no mapping; see topologies/ for examples")
    return document


def _validate(cls: type[Any], document: dict[str, Any], path: Path) -> Any:
    try:
        return TypeAdapter(cls).validate_json(json.dumps(document))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "top level"
        raise TopologyError(f"{path}: {where}: {first['msg']}; "
                            "see docs/topologies.md for the fields") from None


def _check(scenario: Scenario, path: Path) -> None:
    """Refuse dangling names, impossible links and addresses outside their subnets."""
    network: Network = scenario.network
    for role in ("mobile_node", "access_point", "agent", "peer"):
        if getattr(scenario, role) not in network.nodes:
            raise TopologyError(f"{path}: {role}: no node {getattr(scenario, role)!r} in network "
                                f"{network.name}; it has {', '.join(network.nodes)}")
    ends = [end for link in network.links for end in link.ends]
    for link in network.links:
        if len(link.ends) != 2:
            raise TopologyError(f"{path}: link {link.ends} needs two ends, NODE/INTERFACE")
    for end in ends:
        node, _, interface = end.partition("/")
        if node not in network.nodes or interface not in network.nodes[node].interfaces:
            raise TopologyError(f"{path}: link end {end!r} names no interface; "
                                "write NODE/INTERFACE")
        if ends.count(end) > 1:
            raise TopologyError(f"{path}: link end {end!r} is used twice; give it one link")
    for name, node in network.nodes.items():
        for interface, settings in node.interfaces.items():
            if settings.address:
                try:
                    ipaddress.IPv4Interface(settings.address)
                except ValueError as error:
                    raise TopologyError(f"{path}: {name}/{interface}: {error}; "
                                        "write ADDRESS/PREFIX") from None

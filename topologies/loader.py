"""Read networks, scenarios and media from YAML, strictly, outside the machine."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml

from topologies import checks
from topologies.checks import TopologyError
from topologies.model import Link, Medium, Network, Scenario, from_json

__all__ = ["TopologyError", "load_medium", "load_scenario", "medium_names", "scenario_ids",
           "to_json"]

ROOT = Path(__file__).parent


@dataclass(frozen=True)
class _Wire:
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    delay_ms: float = 0.0
    loss_percent: float = 0.0


@dataclass(frozen=True)
class _Adjustments:
    """What a scenario file may change of its network."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    nodes: list[str] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=dict)
    wire: _Wire = field(default_factory=_Wire)


def scenario_ids() -> list[str]:
    """Names of the scenarios that come with the project, sorted."""
    return sorted(path.stem for path in (ROOT / "scenarios").glob("*.yml"))


def medium_names() -> list[str]:
    """Names of the media that come with the project, sorted."""
    return sorted(path.stem for path in (ROOT / "media").glob("*.yml"))


def load_scenario(name: str) -> Scenario:
    """Load a scenario by its name, or from a `.yml` file; raises TopologyError.

    `network:` is the name of a file in `networks/`, or a path relative to the scenario file.
    `nodes:` keeps only these of the network; `channels:` gives access points other channels, and
    `wire:` delay and loss to the links between home agents and routers.
    """
    path = _resolve(name, "scenarios", scenario_ids())
    document = _read(path)
    network = document.get("network")
    if isinstance(network, str):
        beside = path.parent / network
        source = beside if network.endswith(".yml") else ROOT / "networks" / f"{network}.yml"
        document["network"] = _read(source)
    whole: Network = _validate(Network, document.get("network"), path)
    plan: _Adjustments = _validate(_Adjustments, {
        key: document.pop(key) for key in ("nodes", "channels", "wire") if key in document}, path)
    document["network"] = to_json(_adjusted(whole, plan, path))
    scenario: Scenario = _validate(Scenario, document, path)
    checks.scenario(scenario, path)
    return scenario


def load_medium(name: str) -> Medium:
    """Load a medium by its name, or from a `.yml` file; raises TopologyError."""
    path = _resolve(name, "media", medium_names())
    medium: Medium = _validate(Medium, _read(path), path)
    checks.medium(medium, path)
    return medium


def to_json(value: Scenario | Network | Medium) -> Any:
    """The plain JSON value that `model.from_json` reads back."""
    return dataclasses.asdict(value)


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
    except (yaml.YAMLError, RecursionError) as error:
        raise TopologyError(f"{path}: not YAML ({_one_line(error)}); correct the file") from None
    if not isinstance(document, dict):
        raise TopologyError(f"{path}: holds no mapping; see topologies/ for examples")
    return document


def _validate(cls: type[Any], document: Any, path: Path) -> Any:
    try:
        from pydantic import TypeAdapter, ValidationError
    except ImportError:
        # The scripts of this folder run on machines without it; its own files are valid.
        if path.is_relative_to(ROOT):
            return from_json(cls, document)
        raise TopologyError(f"{path}: no file of your own can be checked without pydantic 2; "
                            "install it") from None
    try:
        text = json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TopologyError(f"{path}: {_one_line(error)}; write plain text and numbers, and dates "
                            "in quotes") from None
    try:
        return TypeAdapter(cls).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "top level"
        raise TopologyError(f"{path}: {_one_line(f'{where}: ' + first['msg'])}; "
                            "see docs/topologies.md for the fields") from None


def _one_line(message: object) -> str:
    return " ".join(str(message).split())[:200]


def _adjusted(network: Network, plan: _Adjustments, path: Path) -> Network:
    """The part of a network that a scenario wants, with its channels and wires."""
    for key, names in (("nodes", plan.nodes), ("channels", list(plan.channels))):
        for name in names:
            if name not in network.nodes:
                raise TopologyError(f"{path}: {key}: no node {name!r} in network {network.name}; "
                                    f"it has {', '.join(network.nodes)}")
    kept = {name: dataclasses.replace(node, channel=plan.channels.get(name, node.channel))
            for name, node in network.nodes.items() if not plan.nodes or name in plan.nodes}
    links = [_wired(link, network, plan.wire) for link in network.links
             if all(end.partition("/")[0] in kept for end in link.ends)]
    return dataclasses.replace(network, nodes=kept, links=links)


def _wired(link: Link, network: Network, wire: _Wire) -> Link:
    """The link with the scenario's delay and loss, if it is one between agents."""
    kinds = {network.nodes[end.partition("/")[0]].kind for end in link.ends
             if end.partition("/")[0] in network.nodes}
    if "router" not in kinds or not (wire.delay_ms or wire.loss_percent):
        return link
    return dataclasses.replace(link, **dataclasses.asdict(wire))

"""The study's factors: policies and scenarios, the paper's own and the user's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure.manifest import LevelRecord
from policies import Policy, PolicyError, load, load_all
from studies.study import Factor, Level, LevelError, StudyError
from topologies.loader import TopologyError, load_scenario, scenario_ids, to_json
from topologies.model import Scenario, from_json

#: What the user's own policies are compared to where no others are asked for.
BASELINE = "P1"


def policies(names: Sequence[str], files: Sequence[Path]) -> list[Level]:
    """The twelve, a choice of them, or the user's own beside the baseline they are compared to."""
    twelve = {policy.id: policy for policy in load_all()}
    for name in names:
        if name not in twelve:
            raise LevelError(f"{name}: no such policy; choose from {', '.join(twelve)}, or give a "
                             "file with --policy")
    try:
        own = [load(path) for path in files]
    except PolicyError as error:
        raise StudyError(str(error)) from None
    for policy in own:
        if policy.layers.kerberos is not None:
            raise StudyError(f"policy {policy.id}: nobody logs in to a realm in this study; leave "
                             "out layers.kerberos")
    if not names and not own:
        return [policy_level(policy) for policy in twelve.values()]
    chosen = [twelve[name] for name in names] or [twelve[BASELINE]]
    for policy in own:
        if policy.id in {other.id for other in chosen}:
            raise StudyError(f"policy {policy.id} is there twice; give your file an id of its own")
        chosen.append(policy)
    return [policy_level(policy) for policy in chosen]


def policy_level(policy: Policy) -> Level:
    """A policy as a level; its name is no part of the digest."""
    return Level(policy.id, policy.name, value=policy, digest=policy.digest(), content={
        "name": policy.name, "layers": policy.layers.model_dump(mode="json")})


def scenarios(names: Sequence[str], files: Sequence[Path]) -> list[Level]:
    """Scenarios by name or file, or all that come with the project."""
    chosen = [*names, *map(str, files)] or scenario_ids()
    for name in chosen:
        if name not in scenario_ids() and not name.endswith((".yml", ".yaml")):
            raise LevelError(f"{name}: no such scenario; choose from {', '.join(scenario_ids())}, "
                             "or give a .yml file")
    try:
        levels = [scenario_level(load_scenario(name)) for name in chosen]
    except TopologyError as error:
        raise StudyError(str(error)) from None
    ids = [level.id for level in levels]
    for level in levels:
        if ids.count(level.id) > 1:
            raise StudyError(f"scenario {level.id} is there twice; give your file an id of its own")
    return levels


def scenario_level(scenario: Scenario) -> Level:
    """A scenario as a level."""
    content = to_json(scenario)
    return Level(scenario.id, scenario.title, value=scenario, content=content,
                 digest=scenario_digest(content))


def level(factor: str, name: str, entry: LevelRecord) -> Level:
    """A level as a results folder keeps it. Raises StudyError."""
    try:
        made = scenario_level(from_json(Scenario, entry.content)) if factor == "scenario" else \
            policy_level(Policy.model_validate_json(json.dumps({"id": name, **entry.content})))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise StudyError(f"{factor} {name}: its content is no {factor}") from None
    if (made.id, made.digest) != (name, entry.digest):
        raise StudyError(f"{factor} {name} is not what its digest says")
    return made


def scenario_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of what of a scenario decides what is measured: not where nodes stand or drive."""
    # Read back first: a field that came later has its default in what was kept before.
    document = asdict(from_json(Scenario, content))
    for part in ("title", "mobility"):
        del document[part]
    for node in document["network"]["nodes"].values():
        del node["position"]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


FACTORS = (
    Factor("policy", "Policy", policies, plural="policies", option="--policies",
           file_option="--policy", help="Comma-separated names out of P1 to P12; default: all.",
           file_help="A policy file of your own, measured beside P1; may be repeated."),
    Factor("scenario", "Scenario", scenarios, option="--scenarios",
           help="Comma-separated names or .yml files; default: all of "
           f"{', '.join(scenario_ids())}."),
)

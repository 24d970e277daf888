"""Factors `policy` and `scenario` for studies: the project's levels and the user's.

The module also has the medium, and restores levels from a results folder. A study states its
default policies and the layers above the network's that its programs run. A study that also
measures over wires has one level of either factor for them (`WiresAndAir`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import policies
from measure.manifest import LevelRecord
from policies import Policy, PolicyError, load_named, load_policy
from studies.changes import remove_layer
from studies.parts import (
    Cell,
    Factor,
    Fault,
    Level,
    LevelContentError,
    LevelError,
    StudyError,
)
from topologies import shapes
from topologies.coverage import out_of_reach
from topologies.loader import TopologyError, load_medium, load_scenario, scenario_ids, to_json
from topologies.model import ACCESS_POINT, STATION, Medium, Scenario, from_json, node_of

NO_MEDIUM = "none"
#: Levels of a study that also measures over wires. `AIR` is the level of its factor `wire` on the
#: air. `OF_POLICY` is the level of its first factor for a mechanism given by the policy's layer.
AIR, OF_POLICY = "air", "of-policy"
#: Level of `policy` for wires.
NO_POLICY = "no-policy"
#: Secrets of the run that prove a policy on the air.
JUDGED_WITH = ("network.wep_key", "network.passphrase", "network.radius_secret",
               "mobile_ip.key_hex", "wires.cak")
_FILES = (".yml", ".yaml")
#: Reason why a study that accounts for every packet permits no losses on the sender's wire.
ACCOUNTED = "what it loses is in no capture, by which every packet is accounted for"


_WIRED = Level(NO_POLICY, "no policy",
               digest=hashlib.sha256(json.dumps({}).encode()).hexdigest())


@dataclass(frozen=True)
class Policies:
    """Reader of a study's levels of `policy`: the project's by name, the user's by file.

    `own` are the default policies. `runs` are the layers above the network's that the study's
    programs run. A policy with other layers is refused, and so is a policy for which `refusal`
    returns a reason. `has_mlkem`: the study provides the strongSwan version for ML-KEM.
    `has_macsec`: it captures wires below MACsec. `has_sessions`: its stations have a session with
    the server before the measurement.
    """

    own: Sequence[str]
    #: Policies that files of the user are compared to if no names are given.
    beside: Sequence[str] = ()
    has_mlkem: bool = False
    has_macsec: bool = False
    has_sessions: bool = False
    runs: Collection[str] = frozenset()
    refusal: Callable[[Policy], str] = lambda _: ""

    def __call__(self, names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        """Return the levels of policies by name and file, in the given order.

        Args:
            names: Names of policies, or paths of .yml files.
            files: Policy files of the user.

        Raises:
            LevelError: There is no policy of a name.
            StudyError: A policy cannot be read, occurs twice or is refused.
        """
        known = policies.policy_ids()
        chosen_names = [*names] or ([*self.beside] if files else [*self.own])
        for name in chosen_names:
            if name not in known and (meant := _find_policy_name(name, known)):
                raise LevelError(f"{name}: no such policy; did you mean {meant}?")
            if name not in known and not name.endswith(_FILES):
                raise LevelError(f"{name}: no such policy; choose from {', '.join(known)}, or give "
                                 "a file with --policy")
        for file in map(str, files):
            if (name := _find_policy_name(file, known)) and not Path(file).exists():
                raise StudyError(f"--policy {file}: takes a file, and {name} comes with qop; write "
                                 f"--policies {name}")
        try:
            chosen = [load_named(name) if name in known else load_policy(name) for name
                      in chosen_names]
            chosen += [load_policy(path) for path in files]
        except PolicyError as error:
            raise StudyError(str(error)) from None
        ids = [policy.id for policy in chosen]
        for policy in chosen:
            if ids.count(policy.id) > 1:
                raise StudyError(f"policy {policy.id} is there twice; give your file an id of its "
                                 "own")
            self._check_policy(policy)
        return [policy_level(policy) for policy in chosen]

    def _check_policy(self, policy: Policy) -> None:
        """Refuse a policy that the study cannot run or prove. Raises StudyError."""
        strange = [name for name in policy.layers.upper_names if name not in self.runs]
        if strange:
            runs = f"it runs {' and '.join(sorted(self.runs))}" if self.runs else "it runs none"
            raise StudyError(f"policy {policy.id}: layers.{strange[0]} is above the network's, and "
                             f"this study does not run it ({runs} of these); leave it out, or "
                             "choose a study that does")
        if policy.needs_mlkem and not self.has_mlkem:
            raise StudyError(f"policy {policy.id}: IKE with ML-KEM takes a strongSwan that this "
                             "study does not bring; leave mlkem768 out of ike_proposal, or choose "
                             "the study qop2007")
        if policy.uses_macsec and not self.has_macsec:
            raise StudyError(f"policy {policy.id}: layers.wire is proven by what is below MACsec, "
                             "which this study does not capture; leave it out, or choose the study "
                             "qop2007")
        if policy.resumes_sessions and not self.has_sessions:
            raise StudyError(f"policy {policy.id}: sessions: resumed takes an authentication "
                             "before the one that is measured, which this study does not make; "
                             "leave it out, or choose the study qop2007")
        if words := self.refusal(policy):
            raise StudyError(f"policy {policy.id}: {words}")


def _find_policy_name(word: str, known: Collection[str]) -> str:
    """Return the policy name that equals a word in any case, or ""."""
    return next((name for name in known if name.casefold() == word.casefold()), "")


@dataclass(frozen=True)
class WiresAndAir:
    """The two factors of a study whose cells are over wires or on the air.

    `wires` is the level of `scenario` for wires. By default, a study measures over wires, and with
    `policies` in `read_scenarios` unless it `waits` for the user to choose both.
    """

    wires: Level
    policies: Policies
    scenarios: Sequence[str]
    waits: bool = False

    def build_factors(self) -> tuple[Factor, Factor]:
        """Return the factors `policy` and `scenario`."""
        own, places = ("" if self.waits else "".join(f",{name}" for name in names)
                       for names in (self.policies.own, self.scenarios))
        return (
            Factor("policy", "Policy", self._read_policies, plural="policies", option="--policies",
                   file_option="--policy", help="What else protects it: "
                   f"{NO_POLICY} (over wires), names out of P1 to P12, or .yml files; default: "
                   f"{NO_POLICY}{own}.",
                   file_help="A policy file of your own; may be repeated."),
            Factor("scenario", "Scenario", self._read_scenarios, option="--scenarios",
                   help=f"Where it goes: {self.wires.id}, or from the peer of a scenario to its "
                   "mobile node: names or .yml files; default: "
                   f"{self.wires.id}{places}."))

    def _read_policies(self, names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        return self._read_levels(_WIRED, self.policies, names, files)

    def _read_scenarios(self, names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        return self._read_levels(self.wires, lambda names, files: read_scenarios(
            names or (() if files else self.scenarios), files), names, files)

    def _read_levels(self, wired: Level,
                     read: Callable[[Sequence[str], Sequence[Path]], list[Level]],
                names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        """Return the level for wires and those on the air, as chosen or by default."""
        of_air = [name for name in names if name != wired.id]
        is_asked = bool(names or files)
        chosen = read(of_air, files) if of_air or files or not (is_asked or self.waits) else []
        return [wired, *chosen] if wired.id in names or not is_asked else chosen

    def restore_level(self, factor: str, name: str, entry: LevelRecord) -> Level | None:
        """Restore a policy or scenario from a results folder.

        Args:
            factor: Name of the factor.
            name: Id of the level.
            entry: The level as stored in the manifest.

        Returns:
            The level; None for the level of wires and for other factors.

        Raises:
            StudyError: The content is not a policy or a scenario.
            LevelContentError: The content does not match its digest, title or number.
        """
        wired = {"policy": NO_POLICY, "scenario": self.wires.id}
        return restore_level(factor, name, entry) if name != wired.get(factor, name) else None


def wires_level(name: str, title: str) -> Level:
    """Return the level of `scenario` for the study's own wires."""
    return Level(name, title, digest=_WIRED.digest)


def is_on_air(cell: Cell) -> bool:
    """Return whether a cell of `WiresAndAir` is on the air."""
    return cell.ids.get("policy", NO_POLICY) != NO_POLICY


def without_wep(title: str, on: Mapping[str, str]) -> Fault:
    """Return a negative control without WEP at both ends of the air."""
    return Fault(title, policy=remove_layer("link"), on=on, fails=[
        "WEP-104 on every data frame", "initialisation vectors differ",
        "frames are as long as the air charges", "static WEP key in use"])


def policy_level(policy: Policy) -> Level:
    """Convert a policy to a level.

    The policy's name is not part of the digest.
    """
    return Level(policy.id, policy.name, value=policy, digest=policy.digest(), content={
        "name": policy.name, "layers": policy.layers.model_dump(mode="json")})


def read_scenarios(names: Sequence[str], files: Sequence[Path]) -> list[Level]:
    """Return the levels of scenarios by name and file.

    Args:
        names: Names of scenarios, or paths of .yml files.
        files: Scenario files of the user.

    Returns:
        The chosen scenarios; without names and files, all scenarios of the project.

    Raises:
        LevelError: There is no scenario of a name.
        StudyError: A scenario cannot be read or occurs twice.
    """
    chosen = [*names, *map(str, files)] or scenario_ids()
    for name in chosen:
        if name not in scenario_ids() and not name.endswith(_FILES):
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


def cells_on_air(levels: Mapping[str, Sequence[Level]], free: str, always: Mapping[str, str],
                 fixed_by_policy: Callable[[Policy], Mapping[str, str]]) -> Iterator[Cell]:
    """Return a study's cells on the air: every chosen policy in every chosen scenario.

    Args:
        levels: Chosen levels by factor.
        free: Name of the factor whose levels are all measured if the policy does not fix it.
        always: Ids of fixed levels by factor. Any further factor has its first chosen level.
        fixed_by_policy: Returns the ids of the levels that a policy fixes, by factor.
    """
    for policy, scenario in itertools.product(levels["policy"], levels["scenario"]):
        if policy.value is None or scenario.value is None:
            continue
        due = {"policy": policy.id, "scenario": scenario.id, "wire": AIR, **always,
               **fixed_by_policy(policy.value)}
        fitting = [[level for level in chosen if level.id == due[name]] if name in due else
                   [level for level in chosen if level.id != OF_POLICY] if name == free else
                   chosen[:1] for name, chosen in levels.items()]
        yield from (Cell(dict(zip(levels, row, strict=True)))
                    for row in itertools.product(*fitting))


def served_at_home(scenario: Scenario, hosts: Mapping[str, Sequence[str]], *, peer: str,
                   duties: Sequence[str] = ()) -> Scenario:
    """Return a scenario with servers of the study behind the mobile node's home agent.

    The other stations are removed.

    Args:
        scenario: The scenario to change.
        hosts: Duties of the study's servers, by name.
        peer: The server that the mobile node communicates with.
        duties: Further duties of the mobile node.

    Raises:
        StudyError: The scenario already has a node of that name.
    """
    try:
        made = shapes.add_hosts_behind(scenario.network, scenario.agent, hosts)
    except ValueError as error:
        raise StudyError(f"scenario {scenario.id}: {error}; rename it") from None
    nodes = {name: node for name, node in made.nodes.items() if name not in scenario.companions}
    node = nodes[scenario.mobile_node]
    nodes[scenario.mobile_node] = replace(node, duties=[*node.duties, *duties])
    return replace(scenario, network=replace(made, nodes=nodes), peer=peer)


def scenario_level(scenario: Scenario) -> Level:
    """Convert a scenario to a level."""
    content = to_json(scenario)
    return Level(scenario.id, scenario.title, value=scenario, content=content,
                 digest=scenario_digest(content))


def restore_level(factor: str, name: str, entry: LevelRecord) -> Level:
    """Restore a level of `policy` or `scenario` from a results folder.

    Args:
        factor: Name of the factor.
        name: Id of the level.
        entry: The level as stored in the manifest.

    Raises:
        StudyError: The content is not a policy or a scenario.
        LevelContentError: The content does not match its digest, title or number.
    """
    try:
        made = scenario_level(from_json(Scenario, entry.content)) if factor == "scenario" else \
            policy_level(Policy.model_validate_json(json.dumps({"id": name, **entry.content})))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise StudyError(f"{factor} {name}: its content is no {factor}") from None
    if (made.id, made.digest) != (name, entry.digest):
        raise LevelContentError(f"{factor} {name} is not what its digest says")
    if (made.title, made.number) != (entry.title, entry.number):
        raise LevelContentError(f"{factor} {name} has another title or number than its content")
    return made


def scenario_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the parts of a scenario that decide the measurement.

    Title and mobility are left out. Positions are left out unless the scenario is about them.
    """
    # Parse the content first, so that fields added later have their defaults in older results.
    document = asdict(from_json(Scenario, content))
    for part in ("title", "mobility"):
        del document[part]
    if not document["moves_on"]:
        del document["moves_on"]
    if not document.pop("is_placed"):
        for node in document["network"]["nodes"].values():
            del node["position"]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


@cache
def read_medium(name: str) -> Medium | None:
    """Return the medium of a name or file.

    Args:
        name: Name of a medium, path of a .yml file, or "none".

    Returns:
        The medium; None for "none". Without a medium, frames take no time.

    Raises:
        StudyError: The medium cannot be read.
    """
    if name == NO_MEDIUM:
        return None
    try:
        return load_medium(name)
    except TopologyError as error:
        raise StudyError(str(error)) from None


def medium_name(name: str) -> str:
    """Return the medium's own name, given a name or file. Raises StudyError."""
    medium = read_medium(name)
    return medium.name if medium else NO_MEDIUM


def medium_for(scenario: Scenario, name: str) -> Medium | None:
    """Return the medium of a name or file for a scenario.

    Args:
        scenario: The scenario to use it in.
        name: Name of a medium, path of a .yml file, or "none".

    Raises:
        StudyError: The scenario's positions have no effect on this medium. Or the medium needs
            positions that nodes lack. Or a station does not reach its access point.
    """
    medium = read_medium(name)
    _check_places(scenario, medium)
    for station, cell in _links_on_air(scenario):
        nodes = scenario.network.nodes
        if why := out_of_reach(medium, nodes[station], nodes[cell]):
            raise StudyError(f"scenario {scenario.id}: {station} does not reach {cell}: {why}; "
                             "give it a position nearby, or take another medium")
    return medium


def _links_on_air(scenario: Scenario) -> list[tuple[str, str]]:
    """Return pairs of a station and an access point that it must reach."""
    pairs = [(name, scenario.home_of(name)) for name in scenario.network.of_duty(STATION)]
    if scenario.roams_to:
        pairs.append((scenario.mobile_node, scenario.roams_to))
    return pairs


def _check_places(scenario: Scenario, medium: Medium | None) -> None:
    """Refuse positions without effect, and a medium with signal without positions.

    Raises StudyError.
    """
    has_signal = medium is not None and medium.signal is not None
    name = medium.name if medium else NO_MEDIUM
    if scenario.is_placed and not has_signal:
        raise StudyError(
            f"scenario {scenario.id}: it is about where nodes stand, and medium {name} has no "
            "signal, so that it changes nothing; add --medium 802.11b-positions, or another with "
            "signal")
    for node, its in scenario.network.nodes.items() if has_signal else ():
        if its.position is None and (its.has_duty(STATION) or its.has_duty(ACCESS_POINT)):
            raise StudyError(
                f"scenario {scenario.id}: {node} has no position, and medium {name} has a signal "
                "that depends on it; give it one in the network, or take a medium without signal")


def refuse_losses(scenario: Scenario, why: str, at: str = "") -> None:
    """Refuse lossy wires in a scenario.

    Args:
        scenario: The scenario to check.
        why: The reason, in words for the user.
        at: Node whose wires are checked; "" for all wires.

    Raises:
        StudyError: A wire loses packets.
    """
    for link in scenario.network.links:
        if link.loss_percent and (not at or at in map(node_of, link.ends)):
            raise StudyError(f"scenario {scenario.id}: the wire at {link.ends[0]} loses packets, "
                             f"and {why}; leave loss_percent out, or choose the study qop2007")

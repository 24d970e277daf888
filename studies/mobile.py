"""The mobile world as studies vary it: policies and scenarios, the project's and the user's.

Two factors, the air, and how a results folder's levels are made again. A study says which policies
it takes by itself, and which layers above the network's its programs run. One that measures over
wires, too, has a level of either factor for them (`WiresAndAir`).
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
from studies.changes import without
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
#: Levels of a study that also goes over wires: of its factor `wire`, for what goes over the air;
#: and of its first factor, for what a policy's layer says.
AIR, OF_POLICY = "air", "of-policy"
#: The level of `policy` that goes with wires.
NO_POLICY = "no-policy"
#: Secrets of a run that a policy on the air is proven with.
JUDGED_WITH = ("network.wep_key", "network.passphrase", "network.radius_secret",
               "mobile_ip.key_hex", "wires.cak")
_FILES = (".yml", ".yaml")
#: Why a study that accounts for every packet cannot bear losses beside who sends.
ACCOUNTED = "what it loses is in no capture, by which every packet is accounted for"


_WIRED = Level(NO_POLICY, "no policy",
               digest=hashlib.sha256(json.dumps({}).encode()).hexdigest())


@dataclass(frozen=True)
class Policies:
    """Reads a study's policies: its own choice of the project's, by name, or the user's files.

    `own` are those that it takes where none are asked for, `beside` the ones that files alone are
    compared to. `runs` are the layers above the network's that its programs run: a policy with
    others is refused, and one for which `refusal` has words. `has_mlkem` says that the study brings
    the strongSwan that takes, `has_macsec` that it captures wires below MACsec, `has_sessions`
    that a station has one with the server before it is measured.
    """

    own: Sequence[str]
    beside: Sequence[str] = ()
    has_mlkem: bool = False
    has_macsec: bool = False
    has_sessions: bool = False
    runs: Collection[str] = frozenset()
    refusal: Callable[[Policy], str] = lambda _: ""

    def __call__(self, names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        """Their levels, in the order that they were asked for. Raises StudyError."""
        known = policies.policy_ids()
        chosen_names = [*names] or ([*self.beside] if files else [*self.own])
        for name in chosen_names:
            if name not in known and (meant := _named(name, known)):
                raise LevelError(f"{name}: no such policy; did you mean {meant}?")
            if name not in known and not name.endswith(_FILES):
                raise LevelError(f"{name}: no such policy; choose from {', '.join(known)}, or give "
                                 "a file with --policy")
        for file in map(str, files):
            if (name := _named(file, known)) and not Path(file).exists():
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
            self._check(policy)
        return [policy_level(policy) for policy in chosen]

    def _check(self, policy: Policy) -> None:
        """Refuse a layer that nothing in the study would run."""
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


def _named(word: str, known: Collection[str]) -> str:
    """Return the project's policy that a word means, whatever its case; "" for none."""
    return next((name for name in known if name.casefold() == word.casefold()), "")


@dataclass(frozen=True)
class WiresAndAir:
    """The two factors of a study whose cells are over wires, or over a policy on the air.

    `wires` is the level of `scenario` that stands for them. Without a word of the user's a study
    has the wires, and `policies` and `scenarios` beside them unless it `waits` to be asked for
    both.
    """

    wires: Level
    policies: Policies
    scenarios: Sequence[str]
    waits: bool = False

    def factors(self) -> tuple[Factor, Factor]:
        """`policy` and `scenario`."""
        own, places = ("" if self.waits else "".join(f",{name}" for name in names)
                       for names in (self.policies.own, self.scenarios))
        return (
            Factor("policy", "Policy", self._policies, plural="policies", option="--policies",
                   file_option="--policy", help="What else protects it: "
                   f"{NO_POLICY} (over wires), names out of P1 to P12, or .yml files; default: "
                   f"{NO_POLICY}{own}.",
                   file_help="A policy file of your own; may be repeated."),
            Factor("scenario", "Scenario", self._scenarios, option="--scenarios",
                   help=f"Where it goes: {self.wires.id}, or from the peer of a scenario to its "
                   "mobile node: names or .yml files; default: "
                   f"{self.wires.id}{places}."))

    def _policies(self, names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        return self._beside(_WIRED, self.policies, names, files)

    def _scenarios(self, names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        return self._beside(self.wires, lambda names, files: scenarios(
            names or (() if files else self.scenarios), files), names, files)

    def _beside(self, wired: Level, read: Callable[[Sequence[str], Sequence[Path]], list[Level]],
                names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        """The level of wires and what is read of the air, each where it is asked for or due."""
        of_air = [name for name in names if name != wired.id]
        is_asked = bool(names or files)
        chosen = read(of_air, files) if of_air or files or not (is_asked or self.waits) else []
        return [wired, *chosen] if wired.id in names or not is_asked else chosen

    def level(self, factor: str, name: str, entry: LevelRecord) -> Level | None:
        """A policy or scenario that a results folder keeps; None for others. Raises StudyError."""
        wired = {"policy": NO_POLICY, "scenario": self.wires.id}
        return level(factor, name, entry) if name != wired.get(factor, name) else None


def wires_level(name: str, title: str) -> Level:
    """The level of `scenario` of what goes over a study's own wires."""
    return Level(name, title, digest=_WIRED.digest)


def is_on_air(cell: Cell) -> bool:
    """Whether a cell of `WiresAndAir` is over a policy on the air."""
    return cell.ids.get("policy", NO_POLICY) != NO_POLICY


def without_wep(title: str, on: Mapping[str, str]) -> Fault:
    """A negative control: neither end of the air has the WEP of a cell's policy."""
    return Fault(title, policy=without("link"), on=on, fails=[
        "WEP-104 on every data frame", "initialisation vectors differ",
        "frames are as long as the air charges", "static WEP key in use"])


def policy_level(policy: Policy) -> Level:
    """A policy as a level; its name is no part of the digest."""
    return Level(policy.id, policy.name, value=policy, digest=policy.digest(), content={
        "name": policy.name, "layers": policy.layers.model_dump(mode="json")})


def scenarios(names: Sequence[str], files: Sequence[Path]) -> list[Level]:
    """Scenarios by name or file, or all that come with the project. Raises StudyError."""
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
                 said: Callable[[Policy], Mapping[str, str]]) -> Iterator[Cell]:
    """A study's cells on the air: every policy in every scenario that was chosen.

    With what is `said` by the policy, or else with each level of the factor `free`; of the other
    factors with the level in `always`, or the first that was chosen.
    """
    for policy, scenario in itertools.product(levels["policy"], levels["scenario"]):
        if policy.value is None or scenario.value is None:
            continue
        due = {"policy": policy.id, "scenario": scenario.id, "wire": AIR, **always,
               **said(policy.value)}
        fitting = [[level for level in chosen if level.id == due[name]] if name in due else
                   [level for level in chosen if level.id != OF_POLICY] if name == free else
                   chosen[:1] for name, chosen in levels.items()]
        yield from (Cell(dict(zip(levels, row, strict=True)))
                    for row in itertools.product(*fitting))


def served_at_home(scenario: Scenario, hosts: Mapping[str, Sequence[str]], *, peer: str,
                   duties: Sequence[str] = ()) -> Scenario:
    """A scenario whose mobile node talks to hosts of a study's own, by their duties, at home.

    They are behind its home agent, and `peer` is one of them; the other stations take no part. The
    mobile node has these further duties. Raises StudyError where names are taken.
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
    """A scenario as a level."""
    content = to_json(scenario)
    return Level(scenario.id, scenario.title, value=scenario, content=content,
                 digest=scenario_digest(content))


def level(factor: str, name: str, entry: LevelRecord) -> Level:
    """A level of `policy` or `scenario` as a results folder keeps it. Raises StudyError."""
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
    """SHA-256 of what of a scenario decides what is measured: not where nodes stand or drive."""
    # Read back first: a field that came later has its default in what was kept before.
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
def air(name: str) -> Medium | None:
    """The air of a name or file; None for none, where frames take no time. Raises StudyError."""
    if name == NO_MEDIUM:
        return None
    try:
        return load_medium(name)
    except TopologyError as error:
        raise StudyError(str(error)) from None


def air_name(name: str) -> str:
    """The air's own name, of a name or file. Raises StudyError."""
    medium = air(name)
    return medium.name if medium else NO_MEDIUM


def air_of(scenario: Scenario, name: str) -> Medium | None:
    """Return the air of a name or file for a scenario, which it has to suit.

    Raises StudyError for places that change nothing, for a signal between nodes without places, and
    for stations that it does not reach.
    """
    medium = air(name)
    _check_places(scenario, medium)
    for station, cell in _links_on_air(scenario):
        nodes = scenario.network.nodes
        if why := out_of_reach(medium, nodes[station], nodes[cell]):
            raise StudyError(f"scenario {scenario.id}: {station} does not reach {cell}: {why}; "
                             "give it a position nearby, or take another medium")
    return medium


def _links_on_air(scenario: Scenario) -> list[tuple[str, str]]:
    """Return each station with the access points that it has to reach."""
    pairs = [(name, scenario.home_of(name)) for name in scenario.network.of_duty(STATION)]
    if scenario.roams_to:
        pairs.append((scenario.mobile_node, scenario.roams_to))
    return pairs


def _check_places(scenario: Scenario, medium: Medium | None) -> None:
    """Refuse places that change nothing, and a signal between nodes without. Raises StudyError."""
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
    """Refuse wires that lose packets, or those of one node, where a study cannot bear it.

    `why` is the reason, in words for the user. Raises StudyError.
    """
    for link in scenario.network.links:
        if link.loss_percent and (not at or at in map(node_of, link.ends)):
            raise StudyError(f"scenario {scenario.id}: the wire at {link.ends[0]} loses packets, "
                             f"and {why}; leave loss_percent out, or choose the study qop2007")

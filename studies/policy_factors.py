"""Supply the factors `policy` and `scenario`, which studies of wireless security have in common.

A factor is what a study varies, and a level is one value of it. `PolicyReader` and `read_scenarios`
turn names or files of the user into levels. `restore_level` restores a level from a results folder.
`WireAirFactors` is for studies that also measure over Ethernet, without a policy.

Further functions load radio media (802.11 timing), and refuse those that do not fit a scenario or
policy. `change_layer`, `add_layer` and `remove_layer` build changed policies for injected faults.
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
from measure.records.manifest import LevelRecord
from policies import Policy, PolicyError, load_named, load_policy
from studies.contract import Cell, Factor, Fault, Level, LevelContentError, LevelError, StudyError
from topologies import shapes
from topologies.loader import TopologyError, load_medium, load_scenario, scenario_ids, to_json
from topologies.model import (
    ACCESS_POINT,
    IPV4,
    STATION,
    Medium,
    Network,
    Scenario,
    from_json,
    node_of,
)
from topologies.paths import explain_unreachable

# --- Changes of a policy for negative controls ---
# The nodes get the changed policy, and the repetition is judged by the original one.

#: Function that returns a changed copy of a policy.
Change = Callable[[Policy], Policy]


def control_cell(policy: str, scenario: str = "N2") -> dict[str, str]:
    """Return the policy and scenario on which an injected fault is tested, by factor."""
    return {"policy": policy, "scenario": scenario}


def change_layer(layer: str, **changes: Any) -> Change:
    """Return a function that copies a policy with other values in one layer.

    Args:
        layer: name of the layer, such as "link".
        changes: new values by field. The function raises StudyError for a policy without the layer.
    """
    def change_policy(policy: Policy) -> Policy:
        present = getattr(policy.layers, layer)
        if present is None:
            raise StudyError(f"policy {policy.id}: has no layer {layer}, which the control "
                             "changes; leave it out with --policies")
        return add_layer(layer, present.model_copy(update=changes))(policy)
    return change_policy


def add_layer(layer: str, value: Any) -> Change:
    """Return a function that copies a policy and adds or replaces a layer."""
    return lambda policy: policy.model_copy(update={"layers": policy.layers.model_copy(
        update={layer: value})})


def remove_layer(layer: str) -> Change:
    """Return a function that copies a policy without a layer."""
    return add_layer(layer, None)


# --- Levels of policies and scenarios ---

NO_MEDIUM = "none"
#: Levels of a study that also measures over wires. `AIR` is the level of its factor `wire` on the
#: air. `OF_POLICY` is the level of its first factor for a mechanism given by the policy's layer.
AIR, OF_POLICY = "air", "of-policy"
#: Level of `policy` for wires.
NO_POLICY = "no-policy"
#: Secrets of the run that prove a policy on the air.
JUDGED_WITH = ("network.wep_key", "network.passphrase", "network.radius_secret",
               "network.eap_identity",
               "mobile_ip.key_hex", "wires.cak")
_FILES = (".yml", ".yaml")
#: Scenarios in which the station roams by itself.
DRIVES = ("D1", "D2")
#: Reason why a study that accounts for every packet permits no losses on the sender's wire.
ACCOUNTED = "what it loses is in no capture, by which every packet is accounted for"


_WIRED = Level(NO_POLICY, "no policy",
               digest=hashlib.sha256(json.dumps({}).encode()).hexdigest())


@dataclass(frozen=True)
class PolicyReader:
    """A reader of policies: the project's by name, the user's by file.

    - `own`: policies of the study, which are the default
    - `runs`: layers that the study's own programs implement. A policy with others is refused.
    - `refusal`: returns why a policy is refused, or ""
    - `has_mlkem`: the study provides the strongSwan version for ML-KEM
    - `has_quic`: the study provides QUIC's library
    - `has_mptcp`: the study captures whole connections of Multipath TCP
    - `has_macsec`: the study captures wires below MACsec
    - `has_sessions`: stations have a TLS session with the server before the measurement
    - `has_server_tests`: the RADIUS server gets requests that only test it
    - `has_vlans`: stations get requests from other VLANs
    """

    own: Sequence[str]
    #: Policies with which files of the user are compared, if no names are given.
    beside: Sequence[str] = ()
    has_mlkem: bool = False
    has_quic: bool = False
    has_mptcp: bool = False
    has_macsec: bool = False
    has_sessions: bool = False
    has_server_tests: bool = False
    has_vlans: bool = False
    runs: Collection[str] = frozenset()
    refusal: Callable[[Policy], str] = lambda _: ""

    def __call__(self, names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        """Return policies by name and file as levels, in the given order.

        Args:
            names: names of policies, or paths of .yml files.
            files: policy files of the user.

        Raises:
            LevelError: there is no policy of a name.
            StudyError: a policy cannot be read, occurs twice or is refused.
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
        """Refuse a policy that the study cannot run or prove.

        Raises:
            StudyError: the policy cannot be run or proven.
        """
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
        if policy.uses_quic and not self.has_quic:
            raise StudyError(f"policy {policy.id}: layers.quic takes a library that this study "
                             "does not bring; leave it out, or choose the study qop2007")
        if policy.uses_mptcp and not self.has_mptcp:
            raise StudyError(f"policy {policy.id}: layers.mptcp is proven by a capture of its "
                             "whole connection, which this study does not take; leave it out, or "
                             "choose the study qop2007")
        if policy.uses_macsec and not self.has_macsec:
            raise StudyError(f"policy {policy.id}: layers.wire is proven by what is below MACsec, "
                             "which this study does not capture; leave it out, or choose the study "
                             "qop2007")
        if policy.resumes_sessions and not self.has_sessions:
            raise StudyError(f"policy {policy.id}: sessions: resumed takes an authentication "
                             "before the one that is measured, which this study does not make; "
                             "leave it out, or choose the study qop2007")
        if policy.station_vlan and not self.has_vlans:
            raise StudyError(f"policy {policy.id}: link.vlan is proven by requests from other "
                             "VLANs, which this study does not send; leave it out, or choose the "
                             "study qop2007")
        if words := self.refusal(policy):
            raise StudyError(f"policy {policy.id}: {words}")
        if not self.has_server_tests:
            _refuse_server_tests(policy)


def _refuse_server_tests(policy: Policy) -> None:
    """Refuse settings of the RADIUS server that only tests of it prove. Raises StudyError."""
    if policy.requires_message_authenticator:
        raise StudyError(f"policy {policy.id}: message_authenticator is proven by requests to the "
                         "server, which this study does not send; leave it out, or choose the "
                         "study qop2007")
    if tls := policy.server_name_tls:
        raise StudyError(f"policy {policy.id}: {tls.name_field} is proven by a server with another "
                         "name, which this study does not show to stations; leave it out, or "
                         "choose the study qop2007")
    if policy.revocation_method:
        raise StudyError(f"policy {policy.id}: revocation is proven by a revoked certificate, "
                         "which this study does not try; leave it out, or choose the study "
                         "qop2007")


def _find_policy_name(word: str, known: Collection[str]) -> str:
    """Return the policy name that equals a word in any case, or ""."""
    return next((name for name in known if name.casefold() == word.casefold()), "")


@dataclass(frozen=True)
class WireAirFactors:
    """The factors `policy` and `scenario` of a study that measures over Ethernet or over the air.

    - `wires`: level of `scenario` for Ethernet, which is the default
    - `policies`: reader of the policies that are measured over the air
    - `scenarios`: names of the scenarios that are measured over the air
    - `waits`: measure over the air only if the user chooses both policies and scenarios
    """

    wires: Level
    policies: PolicyReader
    scenarios: Sequence[str]
    waits: bool = False

    def build_factors(self) -> tuple[Factor, Factor]:
        """Return the factors `policy` and `scenario`."""
        own, places = ("" if self.waits else "".join(f",{name}" for name in names)
                       for names in (self.policies.own, self.scenarios))
        return (
            Factor("policy", "Policy", self._read_policies, plural="policies", option="--policies",
                   file_option="--policy",
                   help="Protect the study's traffic by these policies, too: "
                   f"{NO_POLICY} (over wires), names out of P1 to P12, or .yml files (default: "
                   f"from the profile, else {NO_POLICY}{own}).",
                   file_help="Measure a policy file of your own (may be repeated)."),
            Factor("scenario", "Scenario", self._read_scenarios, option="--scenarios",
                   help=f"Send the study's traffic over {self.wires.id}, or from the peer of a "
                   "scenario to its mobile node: names or .yml files (default: from the "
                   f"profile, else {self.wires.id}{places})."))

    def _read_policies(self, names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        return self._read_levels(_WIRED, self.policies, names, files)

    def _read_scenarios(self, names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        return self._read_levels(self.wires, lambda names, files: read_scenarios(
            names or (() if files else self.scenarios), files), names, files)

    def _read_levels(self, wired: Level,
                     read: Callable[[Sequence[str], Sequence[Path]], list[Level]],
                     names: Sequence[str], files: Sequence[Path]) -> list[Level]:
        """Return the level for Ethernet and those over the air, as chosen or by default."""
        of_air = [name for name in names if name != wired.id]
        is_asked = bool(names or files)
        chosen = read(of_air, files) if of_air or files or not (is_asked or self.waits) else []
        return [wired, *chosen] if wired.id in names or not is_asked else chosen

    def restore_level(self, factor: str, name: str, entry: LevelRecord) -> Level | None:
        """Restore a policy or scenario from a results folder.

        Args:
            factor: name of the factor.
            name: id of the level.
            entry: the level as stored in the plan.

        Returns:
            The level, or None for the level of Ethernet and for other factors.

        Raises:
            StudyError: the content is not a policy or a scenario.
            LevelContentError: the content does not match its digest, title or number.
        """
        wired = {"policy": NO_POLICY, "scenario": self.wires.id}
        return restore_level(factor, name, entry) if name != wired.get(factor, name) else None


def wires_level(name: str, title: str) -> Level:
    """Return the level of the factor `scenario` for a study's own Ethernet."""
    return Level(name, title, digest=_WIRED.digest)


def is_on_air(cell: Cell) -> bool:
    """Return whether a cell (combination of levels) is measured over the air, not on Ethernet."""
    return cell.ids.get("policy", NO_POLICY) != NO_POLICY


def make_wep_fault(title: str, on: Mapping[str, str]) -> Fault:
    """Create an injected fault that switches off WEP at both ends of the air."""
    return Fault(title, policy=remove_layer("link"), on=on, fails=[
        "WEP-104 on every data frame", "initialisation vectors differ",
        "frames are as long as the air charges", "static WEP key in use"])


def policy_level(policy: Policy) -> Level:
    """Convert a policy to a level of the factor `policy`.

    The policy's name is not part of the digest.
    """
    return Level(policy.id, policy.name, value=policy, digest=policy.digest(), content={
        "name": policy.name, "layers": policy.layers.model_dump(mode="json")})


def read_scenarios(names: Sequence[str], files: Sequence[Path], *,
                   drives: bool = False, has_nat: bool = False,
                   has_ipv6: bool = False) -> list[Level]:
    """Return scenarios by name and file as levels.

    Args:
        names: names of scenarios, or paths of .yml files.
        files: scenario files of the user.
        drives: whether the study measures scenarios in which the station roams by itself, and no
            others.
        has_nat: whether the study measures scenarios with address translation, too.
        has_ipv6: whether the study measures scenarios with `ip: 6`.

    Returns:
        The chosen scenarios. Without names and files, all of this kind that come with the project.

    Raises:
        LevelError: there is no scenario of a name.
        StudyError: a scenario cannot be read, occurs twice, or is of another kind.
    """
    chosen = [*names, *map(str, files)] or [name for name in scenario_ids()
                                            if (name in DRIVES) == drives]
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
        if level.value.is_drive != drives:
            raise StudyError(f"scenario {level.id}: " + (
                "its station does not roam by itself, and this study measures drives; add roaming, "
                "or choose the study qop2007" if drives else
                "its station roams by itself, and this study moves it by command; choose the "
                "study drivetest, or leave roaming out"))
        if level.value.visited_nat is not None and not has_nat:
            raise StudyError(f"scenario {level.id}: {level.value.foreign_agent} translates "
                             "addresses, and this study does not measure that; leave out nat, or "
                             "choose the study qop2007")
        if level.value.network.ip != IPV4 and not has_ipv6:
            raise StudyError(f"scenario {level.id}: ip: {level.value.network.ip} is measured by "
                             "the study qop2007 alone; choose it, or leave ip out")
    return levels


def cells_on_air(levels: Mapping[str, Sequence[Level]], free: str, always: Mapping[str, str],
                 fixed_by_policy: Callable[[Policy], Mapping[str, str]]) -> Iterator[Cell]:
    """Yield the cells (combinations) of a study over the air: every policy in every scenario.

    Args:
        levels: chosen levels by factor.
        free: name of the factor whose levels are all measured, unless the policy fixes it.
        always: ids of fixed levels by factor. Any further factor has its first chosen level.
        fixed_by_policy: returns the ids of the levels that a policy fixes, by factor.
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


def add_home_hosts(scenario: Scenario, hosts: Mapping[str, Sequence[str]], *, peer: str,
                   duties: Sequence[str] = ()) -> Scenario:
    """Return a scenario with servers of the study behind the mobile node's home agent.

    The other stations are removed.

    Args:
        scenario: the scenario to change.
        hosts: duties of the study's servers, by name.
        peer: the server that the mobile node communicates with.
        duties: further duties of the mobile node.

    Raises:
        StudyError: the scenario already has a node of that name.
    """
    try:
        network = shapes.add_hosts_behind(scenario.network, scenario.agent, hosts)
    except ValueError as error:
        raise StudyError(f"scenario {scenario.id}: {error}; rename it") from None
    nodes = {name: node for name, node in network.nodes.items() if name not in scenario.companions}
    node = nodes[scenario.mobile_node]
    nodes[scenario.mobile_node] = replace(node, duties=[*node.duties, *duties])
    return replace(scenario, network=replace(network, nodes=nodes), peer=peer)


def scenario_level(scenario: Scenario) -> Level:
    """Convert a scenario to a level of the factor `scenario`."""
    content = to_json(scenario)
    return Level(scenario.id, scenario.title, value=scenario, content=content,
                 digest=scenario_digest(content))


def restore_level(factor: str, name: str, entry: LevelRecord) -> Level:
    """Restore a policy or scenario from a results folder.

    Args:
        factor: name of the factor.
        name: id of the level.
        entry: the level as stored in the plan.

    Raises:
        StudyError: the content is not a policy or a scenario.
        LevelContentError: the content does not match its digest, title or number.
    """
    try:
        level = scenario_level(from_json(Scenario, entry.content)) if factor == "scenario" else \
            policy_level(Policy.model_validate_json(json.dumps({"id": name, **entry.content})))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise StudyError(f"{factor} {name}: its content is no {factor}") from None
    if (level.id, level.digest) != (name, entry.digest):
        raise LevelContentError(f"{factor} {name} is not what its digest says")
    if (level.title, level.number) != (entry.title, entry.number):
        raise LevelContentError(f"{factor} {name} has another title or number than its content")
    return level


def scenario_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the parts of a scenario that affect the measurement.

    The title is left out. Positions are left out unless the scenario is about them, and mobility
    unless the mobile node roams by itself.
    """
    # Parse the content first, so that fields added later have their defaults in older results.
    document = asdict(from_json(Scenario, content))
    del document["title"]
    if not any(node["roaming"] for node in document["network"]["nodes"].values()):
        del document["mobility"]
    if not document["moves_on"]:
        del document["moves_on"]
    if document["network"]["ip"] == IPV4:
        del document["network"]["ip"]
    for node in document["network"]["nodes"].values():
        _drop_default_fields(node)
    for link in document["network"]["links"]:
        for name, default in (("jitter_ms", 0), ("loss_burst_packets", 1),
                              ("rate_back_bps", None)):
            if link[name] == default:  # digests of earlier versions lack it
                del link[name]
    if not document.pop("is_placed") and "mobility" not in document:
        for node in document["network"]["nodes"].values():
            del node["position"]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _drop_default_fields(node: dict[str, Any]) -> None:
    """Remove a node's fields of later versions that have their defaults, in place.

    So scenarios keep the digests of earlier versions.
    """
    for name in ("radius_server", "second_radius_server", "is_down", "roaming", "nat"):
        if not node[name]:
            del node[name]
    for interface in node["interfaces"].values():
        if not interface["dhcp"]:
            del interface["dhcp"]


@cache
def read_medium(name: str) -> Medium | None:
    """Read a radio medium (bit rate and contention on the air) by name or file.

    Args:
        name: name of a medium, path of a .yml file, or "none".

    Returns:
        The medium, or None for "none". Without a medium, frames take no time.

    Raises:
        StudyError: the medium cannot be read.
    """
    if name == NO_MEDIUM:
        return None
    try:
        return load_medium(name)
    except TopologyError as error:
        raise StudyError(str(error)) from None


def medium_name(name: str) -> str:
    """Return the name of a radio medium, given its name or file.

    Raises:
        StudyError: the medium cannot be read.
    """
    medium = read_medium(name)
    return medium.name if medium else NO_MEDIUM


def fit_medium(medium: Medium | None, policy: Policy) -> Medium | None:
    """Return a medium as a policy can use it: WEP and TKIP exclude HT, VHT and HE."""
    link = policy.layers.link
    return medium.without_ht if medium and link and link.excludes_ht else medium


def load_scenario_medium(scenario: Scenario, name: str, policy: Policy) -> Medium | None:
    """Read a radio medium, and check that it fits a scenario and a policy.

    Args:
        scenario: the scenario to use it in.
        name: name of a medium, path of a .yml file, or "none".
        policy: the policy, which decides the rates (`fit_medium`).

    Raises:
        StudyError: the scenario's positions have no effect on this medium. Or the medium needs
            positions that nodes lack. Or a station does not reach its access point. Or the scenario
            has more channels than the medium. Or the policy is not allowed in the medium's band.
    """
    chosen = read_medium(name)
    _check_band(policy, chosen)
    medium = fit_medium(chosen, policy)
    _check_places(scenario, medium)
    if medium is not None:
        _check_channels(scenario.network, medium)
    for station, cell in _links_on_air(scenario):
        nodes = scenario.network.nodes
        if why := explain_unreachable(medium, nodes[station], nodes[cell]):
            raise StudyError(f"scenario {scenario.id}: {station} does not reach {cell}: {why}; "
                             "give it a position nearby, or take another medium")
    return medium


def _check_band(policy: Policy, medium: Medium | None) -> None:
    """Refuse policies that the 6 GHz band excludes (IEEE 802.11ax-2021, 12.12.2).

    Raises:
        StudyError: the medium is in 6 GHz, and the policy has neither WPA3 nor OWE with protected
            management frames.
    """
    if medium is None or medium.phy is None or not medium.phy.is_in_6_ghz:
        return
    link = policy.layers.link
    why = ("is open" if link is None else "has pmf below 2" if link.pmf != 2
           else f"has keys: {link.keys}" if link.keys in ("static", "psk")
           else "has SAE without sae: h2e" if link.keys == "sae" and link.sae != "h2e" else "")
    if why:
        raise StudyError(f"policy {policy.id}: medium {medium.name} is in 6 GHz, and the policy "
                         f"{why}; write pmf: 2 with keys: eap, owe, or sae with sae: h2e, or take "
                         "another medium")


def _check_channels(network: Network, medium: Medium) -> None:
    """Refuse a medium in 5 GHz with too few channels. Raises StudyError."""
    try:
        for channel in network.access_point_channels:
            medium.tuned_channel(channel, network.access_point_channels)
    except ValueError as error:
        raise StudyError(f"medium {medium.name}: {error}; give access points fewer channels, or "
                         "take a medium with narrower ones") from None


def _links_on_air(scenario: Scenario) -> list[tuple[str, str]]:
    """Return pairs of a station and an access point that it must reach."""
    pairs = [(name, scenario.home_of(name)) for name in scenario.network.of_duty(STATION)]
    if scenario.roams_to:
        pairs.append((scenario.mobile_node, scenario.roams_to))
    return pairs


def _check_places(scenario: Scenario, medium: Medium | None) -> None:
    """Refuse positions without effect, and a medium that needs positions which are missing.

    Raises:
        StudyError: positions and medium do not fit.
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
    """Refuse a scenario whose wires lose packets.

    Args:
        scenario: the scenario to check.
        why: the reason, in words for the user.
        at: node whose wires are checked, or "" for all wires.

    Raises:
        StudyError: a wire loses packets.
    """
    for link in scenario.network.links:
        if link.loss_percent and (not at or at in map(node_of, link.ends)):
            raise StudyError(f"scenario {scenario.id}: the wire at {link.ends[0]} loses packets, "
                             f"and {why}; leave loss_percent out, or choose the study qop2007")


# --- Combinations of policy and scenario that cannot be measured ---


def check_sessions(policy: Policy, scenario: Scenario, *, keeps_keys: bool = False) -> None:
    """Refuse TLS session resumption if no server could resume the session after a move.

    Args:
        policy: the policy.
        scenario: the scenario.
        keeps_keys: whether the mobile node moves with its keys, without authenticating again.

    Raises:
        StudyError: the policy resumes sessions, and each access point has another server. Or the
            server resumes a session only once, and the mobile node authenticates twice.
    """
    if policy.resumes_once and scenario.roams_to and not keeps_keys:
        raise StudyError(
            f"policy {policy.id} in scenario {scenario.id}: with TLS 1.3 FreeRADIUS resumes a "
            "session once, and the mobile node authenticates again where it moves; leave out "
            "version, add roaming, or choose a scenario without a move")
    servers = [scenario.network.radius_server_of(name)
               for name in (scenario.home, scenario.access_point)]
    if policy.resumes_sessions and servers[0] != servers[1]:
        raise StudyError(
            f"policy {policy.id} in scenario {scenario.id}: sessions: resumed goes on with what "
            f"one server keeps, and {scenario.home} and {scenario.access_point} have a RADIUS "
            "server each; leave out sessions, or choose a scenario with one server")


def check_wires(policy: Policy, scenario: Scenario) -> None:
    """Refuse MACsec if an access point has no Ethernet link that MACsec can protect.

    Raises:
        StudyError: the policy uses MACsec, and the scenario has no such link.
    """
    for name in (scenario.home, scenario.access_point) if policy.uses_macsec else ():
        wires = [link for link in scenario.network.links
                 if any(end.startswith(f"{name}/") for end in link.ends)]
        if not wires or wires[0] not in scenario.network.protectable:
            raise StudyError(
                f"policy {policy.id} in scenario {scenario.id}: wire: MACsec is between an access "
                f"point and its agent, or another access point, and {name} has no such wire; leave "
                "out wire, or choose another scenario")

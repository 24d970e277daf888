"""Define the plan of a run: what to measure, on which emulated networks, and in which order.

A `Plan` is made from a study and the user's options, and stored as plan.json. A study has factors,
such as the policy and the scenario. A level is one value of a factor, such as one policy. A cell is
one combination of levels, such as one policy in one scenario, and is measured several times
(repetitions). `Plan.all_steps` returns all repetitions in order: block by block, where a block is
one repetition of every cell in random order. `Plan.testbeds` returns the networks to start. A
testbed is a started network, which serves all cells that need it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from guest import kernel, releases
from guest.boot import Clock
from measure.records import manifest
from measure.records.manifest import FactorRecord, LevelRecord, Manifest
from measure.records.record import StudyRecord, record_name
from measure.services.other_releases import OPENSSL, find_release
from policies import Policy
from studies.contract import EVERY_NODE
from studies.study import Cell, ExpectedCost, Factor, Level, Settings, Study, TestbedSpec
from topologies import builders, loader
from topologies.model import ACCESS_POINT, STATION

#: Name of a testbed in a plan, in logs and in the scheduler; unique in its plan.
TestbedKey = str


@dataclass(frozen=True)
class RunSettings:
    """Settings of the measurement engine, equal for every repetition of a run.

    `seed` decides the order of repetitions. `fault` names a negative control (a deliberate fault
    that must be detected), None for none. `on` is "guest", "vm" or "host". `warm_up` is the number
    of unrecorded repetitions that every testbed starts with. `release` is the suite of the guests'
    Debian release. `looks` are the numbers of repetitions after which claims are judged
    (`--until-decided`). `programs` are the user's own daemons, as `harness.engine.programs`
    describes them. They are in `programs_folder`, which is not stored. `cards` are the interfaces
    of this machine's 802.11 cards that are radios (`--card`), by node. `daemons` are the Debian
    releases of the daemons that are not of the guest's release (`--daemon`), by daemon.
    """

    repetitions: int = 3
    seed: int = 1
    fault: str | None = None
    on: str = "guest"
    clock: Clock = "real"
    warm_up: int = 1
    builder: str = builders.MININET
    release: str = releases.DEFAULT.suite
    looks: tuple[int, ...] = ()
    programs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    programs_folder: str = ""
    cards: Mapping[str, str] = field(default_factory=dict)
    daemons: Mapping[str, str] = field(default_factory=dict)

    def to_stored(self) -> dict[str, Any]:
        """Return the settings as stored in plan.json.

        `looks` (numbers of repetitions after which claims are judged), `programs`, `cards` and
        `daemons` are left out if they are empty, and the Debian release if it is the default one.
        """
        left_out = {name for name in ("looks", "programs", "cards", "daemons")
                    if not getattr(self, name)}
        if self.release == releases.DEFAULT.suite:
            left_out.add("release")
        return {name: list(value) if name == "looks" else value
                for name, value in asdict(self).items()
                if name != "programs_folder" and name not in left_out}

    @property
    def is_real_time(self) -> bool:
        """Return whether waiting takes wall-clock time, as it does with the real clock only."""
        return self.clock == "real"

    @property
    def needs_idle_burners(self) -> bool:
        """Return whether the processors of guests must be kept from idling.

        That is the case for guests with the real clock.
        """
        return self.is_real_time and self.on == "guest"


@dataclass(frozen=True)
class Step:
    """A repetition to be measured: a cell and a number."""

    cell: Cell
    repetition: int

    @property
    def name(self) -> str:
        """Return the name of the repetition, which its record, captures and folder have."""
        return record_name(self.cell.ids.values(), self.repetition)


@dataclass(frozen=True)
class PlannedTestbed:
    """An emulated network to start, and the cells measured on it."""

    key: TestbedKey
    spec: TestbedSpec
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Plan:
    """A complete description of a run. Runs of plans with equal digests are comparable.

    - `levels`: chosen levels of each factor, such as policies and scenarios
    - `asked`: settings of the study's workload
    - `settings`: settings of the engine, such as clock and number of repetitions
    - `baseline`: level of a factor that differences refer to, where the profile names one
    """

    study: Study
    levels: Mapping[str, Sequence[Level]]
    asked: Settings
    settings: RunSettings = field(default_factory=RunSettings)
    baseline: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Return the combinations that the run measures."""
        return tuple(self.study.cells(self.levels))

    def all_steps(self) -> list[Step]:
        """Return all repetitions of the run, block by block."""
        return [step for repetition in range(1, self.settings.repetitions + 1)
                for step in self.block_steps(repetition)]

    def block_steps(self, repetition: int, cells: Iterable[Cell] | None = None) -> list[Step]:
        """Return one repetition of every cell (a block), in an order that the seed decides.

        A cell is one policy in one scenario, for instance. Cells with the longest repetitions come
        first. Cells of equal duration are ordered by the levels of all factors but the first and
        the Debian release. The levels of these two have a random order in each block. So a drift
        during a run affects each policy and each release equally.

        Args:
            repetition: Number of the block.
            cells: Cells to include, by default all.
        """
        # The order must be repeatable, and is not a secret.
        rng = random.Random(f"{self.settings.seed}/{repetition}")  # noqa: S311
        mixed = sorted(self.cells, key=self._later_levels)
        rng.shuffle(mixed)
        mixed.sort(key=lambda cell: (-self.expected_cost(cell).duration_s,
                                     self._later_levels(cell)))
        chosen = None if cells is None else {cell.name for cell in cells}
        return [Step(cell, repetition) for cell in mixed if chosen is None or cell.name in chosen]

    def _later_levels(self, cell: Cell) -> tuple[int, ...]:
        """Return the positions of a cell's levels, in all factors after the first factor.

        The factor "release" does not count. If the factors are policy and scenario, the result has
        the position of the scenario.
        """
        return self._level_positions[cell.name]

    @cached_property
    def _level_positions(self) -> dict[str, tuple[int, ...]]:
        given = {name: {level.id: number for number, level in enumerate(levels)}
                 for name, levels in self.levels.items()}
        others = [name for name in self.levels if name != manifest.RELEASE][1:]
        return {cell.name: tuple(given[name][cell.ids[name]] for name in others)
                for cell in self.cells}

    def expected_cost(self, cell: Cell) -> ExpectedCost:
        """Return the time and disk space that one repetition will probably take.

        It depends on the cell.
        """
        return self._expected_costs[cell.name]

    @cached_property
    def _expected_costs(self) -> dict[str, ExpectedCost]:
        return {cell.name: self.study.expected_cost(cell, self.asked) for cell in self.cells}

    @cached_property
    def testbeds(self) -> dict[TestbedKey, PlannedTestbed]:
        """Return the emulated networks (testbeds) on which a run measures, as few as possible."""
        groups: list[tuple[TestbedSpec, list[Cell]]] = []
        for cell in self.cells:
            spec = _adapt_spec(self.settings, self.study.testbed(cell, self.asked))
            for number, (other, sharing) in enumerate(groups):
                joined = other.joined_with(spec)
                if joined is not None:
                    groups[number] = (joined, [*sharing, cell])
                    break
            else:
                groups.append((spec, [cell]))
        keys = _testbed_keys([cells for _, cells in groups])
        return {key: PlannedTestbed(key, spec, tuple(cells))
                for key, (spec, cells) in zip(keys, groups, strict=True)}

    @cached_property
    def _key_of(self) -> dict[str, TestbedKey]:
        return {cell.name: key for key, testbed in self.testbeds.items() for cell in testbed.cells}

    def testbed_of(self, cell: Cell) -> TestbedKey:
        """Return the key of the testbed on which a cell is measured."""
        return self._key_of[cell.name]

    @property
    def shape(self) -> str:
        """Return the size of the plan in words, such as "2 policies x 5 scenarios x 3 times"."""
        factors = [factor.format_count(len(self.levels[factor.name])) for factor
                   in self.study.factors]
        product = 1
        for levels in self.levels.values():
            product *= len(levels)
        some = "" if len(self.cells) == product else f" ({len(self.cells)} of {product} cells)"
        number = self.settings.repetitions
        return f"{' x '.join(factors)}{some} x {number} repetition{'s' if number != 1 else ''}"

    @cached_property
    def other_releases(self) -> tuple[str, ...]:
        """Return the suites of the Debian releases in use, without the default release."""
        suites = {*(testbed.spec.release for testbed in self.testbeds.values()),
                  *self.daemon_releases.values()}
        return tuple(sorted(suites - {"", releases.DEFAULT.suite}))

    @cached_property
    def daemon_releases(self) -> dict[str, str]:
        """Return the release of each daemon that is of another one than the guest's, by name.

        The user asks for them, or a negative control starts them.
        """
        fault = self.study.find_fault(self.settings.fault)
        return {**self.settings.daemons, **(fault.daemons if fault else {})}

    def find_lack(self, cell: Cell) -> str:
        """Return what the daemons of a cell's testbed lack, so that the cell is skipped, or ""."""
        return self._missing_features[self.testbed_of(cell)]

    @cached_property
    def _missing_features(self) -> dict[TestbedKey, str]:
        return {key: find_missing_feature(testbed.spec, self.settings.daemons)
                for key, testbed in self.testbeds.items()}

    def apply_fault(self, policy: Policy | None) -> Policy | None:
        """Return the policy that nodes get: a negative control may change the one of the cell.

        Raises:
            StudyError: The policy has nothing that the control could change.
        """
        fault = self.study.find_fault(self.settings.fault)
        return fault.policy(policy) if policy and fault and fault.policy else policy

    @cached_property
    def digest(self) -> str:
        """Return a hash of everything that decides what is measured.

        A run continues a results folder only if the digests agree.
        """
        return self.manifest.digest

    @cached_property
    def manifest(self) -> Manifest:
        """Return the plan in the form in which it is stored as plan.json."""
        specs = [testbed.spec for testbed in self.testbeds.values()]
        document: dict[str, Any] = {
            "study": {"id": self.study.id, "version": self.study.version},
            "levels": {name: {level.id: None for level in levels}
                       for name, levels in self.levels.items()},
            "cells": [list(cell.ids.values()) for cell in self.cells],
            "asked": self.asked.to_stored_settings(), "settings": self.settings.to_stored(),
            "media": {spec.medium.name: loader.to_json(spec.medium)
                      for spec in specs if spec.medium},
            "devices": {document["name"]: document for spec in specs
                        for document in node_devices(spec).values()}}
        return Manifest(
            schema=manifest.SCHEMA, digest=manifest.plan_digest(document),
            factors=[factor_record(factor) for factor in self.study.factors],
            wires=sorted({link.limits for spec in specs for link in spec.network.links} - {""}),
            baseline=dict(self.baseline),
            **{**document, "study": StudyRecord(**document["study"]),
               "levels": {name: {level.id: level_record(level) for level in levels}
                          for name, levels in self.levels.items()}})


def _adapt_spec(settings: RunSettings, spec: TestbedSpec) -> TestbedSpec:
    """Return a testbed's specification, with the run's release and what the machine can provide.

    On a host without the kernel module for the medium, stations on the air take turns instead of
    contending for it. Real radios have no emulated medium.
    """
    release = spec.release or settings.release
    spec = replace(spec, release="" if release == releases.DEFAULT.suite else release)
    if settings.cards:
        return replace(spec, medium=None)
    if settings.on != "host" or spec.medium is None or not kernel.describe_missing_module():
        return spec
    return replace(spec, medium=spec.medium.without_contention)


#: Releases with hostapd and wpa_supplicant 2.11, which have SAE-PK, GCM-AES-256 of MACsec, and the
#: key of protected beacons after fast transition.
_WITH_HOSTAP_2_11 = frozenset({releases.FORKY.suite})


def find_missing_feature(spec: TestbedSpec, daemons: Mapping[str, str] | None = None) -> str:
    """Return what a testbed's policy needs and its daemons lack, "" for nothing.

    Args:
        spec: The testbed.
        daemons: Debian releases of the daemons that are not of the guest's release (`--daemon`).
    """
    if spec.policy is None:
        return ""
    return next(_list_missing_features(spec, spec.policy, _DaemonReleases(
        spec.release or releases.DEFAULT.suite, daemons or {})), "")


@dataclass(frozen=True)
class _DaemonReleases:
    """The Debian release of each daemon of a testbed: the guest's, or the one of `--daemon`."""

    guest: str
    single: Mapping[str, str]

    def find_release(self, daemon: str) -> releases.Release:
        """Return the release of a daemon. With the ending "/openssl", it is its OpenSSL's."""
        return releases.RELEASES[find_release(self.single, daemon, self.guest)]

    def describe_owner(self, daemon: str) -> str:
        """Return the release that lacks a feature, and the daemon if single ones were chosen."""
        title = self.find_release(daemon).title
        return f"{daemon} of {title}" if self.single else title

    def describe_remedy(self, daemon: str, suite: str) -> str:
        """Return which option gives a daemon the release that has a feature."""
        return f"add --daemon {daemon}={suite}" if self.single else f"add --release {suite}"


def _list_missing_features(spec: TestbedSpec, policy: Policy,
                           daemons: _DaemonReleases) -> Iterator[str]:
    """Yield each feature that the policy needs and the release of its daemon lacks."""
    dot1x, ipsec = policy.layers.dot1x, policy.layers.ipsec
    if dot1x and dot1x.tls and dot1x.tls.is_post_quantum:
        for daemon in ("freeradius", "wpa_supplicant"):
            if daemons.find_release(f"{daemon}{OPENSSL}") == releases.BOOKWORM:
                yield (f"{daemons.describe_owner(daemon)} has OpenSSL 3.0, without ML-KEM and "
                       f"ML-DSA; {daemons.describe_remedy(daemon, releases.TRIXIE.suite)}")
    charon = daemons.find_release("charon")
    if ipsec and ipsec.ike == 1 and not charon.has_ikev1:
        option = "--daemon charon" if "charon" in daemons.single else "--release"
        yield (f"{daemons.describe_owner('charon')} has strongSwan 6.1 without IKEv1; choose "
               f"another {option}, or a policy with IKEv2")
    if policy.needs_mlkem and not charon.has_mlkem and not {
            "charon", f"charon{OPENSSL}"}.isdisjoint(daemons.single):
        yield (f"{daemons.describe_owner('charon')} has a strongSwan without ML-KEM; leave out "
               "--daemon charon, or choose forky there")
    yield from _list_missing_hostap_features(spec, policy, daemons)


def _list_missing_hostap_features(spec: TestbedSpec, policy: Policy,
                                  daemons: _DaemonReleases) -> Iterator[str]:
    """Yield each feature that the policy needs and hostapd or wpa_supplicant lacks."""
    link = policy.layers.link
    is_older = daemons.find_release("wpa_supplicant").suite not in _WITH_HOSTAP_2_11
    owner = daemons.describe_owner("wpa_supplicant")
    remedy = daemons.describe_remedy("wpa_supplicant", releases.FORKY.suite)
    if policy.layers.wire and policy.layers.wire.macsec == "GCM-AES-256" and is_older:
        yield f"{owner} has wpa_supplicant 2.10, whose MACsec has GCM-AES-128 alone; {remedy}"
    if link and link.sae == "pk":
        for daemon in ("hostapd", "wpa_supplicant"):
            if daemons.find_release(daemon).suite not in _WITH_HOSTAP_2_11:
                yield (f"{daemons.describe_owner(daemon)} has {daemon} 2.10 without SAE-PK; "
                       f"{daemons.describe_remedy(daemon, releases.FORKY.suite)}")
    if link and link.moves_fast and link.beacon_protection and is_older \
            and any(node.roaming for node in spec.network.nodes.values()):
        yield (f"{owner} has wpa_supplicant 2.10, which refuses the next access point's protected "
               "beacons after fast transition, so that it does not see its signal fall; "
               f"{remedy}, or leave out beacon_protection or roaming")


def list_used_daemons(spec: TestbedSpec) -> frozenset[str]:
    """Return the daemons of `other_releases.DAEMONS` that a testbed may start."""
    policy = spec.policy
    if policy is None:  # a study may start IKE for its own tunnels
        return frozenset({"charon"})
    is_used = {"hostapd": bool(spec.network.of_duty(ACCESS_POINT)),
               "wpa_supplicant": bool(spec.network.of_duty(STATION)) or policy.uses_macsec,
               "freeradius": policy.uses_eap or policy.layers.aaa is not None,
               "charon": policy.uses_ipsec}
    return frozenset(name for name, used in is_used.items() if used)


def node_devices(spec: TestbedSpec) -> dict[str, Any]:
    """Return the device (processor model) of each node of a testbed, as plain data."""
    of_network = {name: loader.to_json(node.device) for name, node in spec.network.nodes.items()
                  if node.device is not None}
    usual = spec.devices.get(EVERY_NODE)
    names = ({node: usual for node in spec.network.nodes if node not in of_network} if usual
             else {}) | dict(spec.devices)
    return of_network | {node: loader.to_json(loader.load_device(name))
                         for node, name in names.items() if node in spec.network.nodes}


def factor_record(factor: Factor) -> FactorRecord:
    """Return the entry of a factor (such as "policy") in plan.json."""
    return FactorRecord(name=factor.name, title=factor.title, is_number=factor.is_number,
                        unit=factor.unit)


def level_record(level: Level) -> LevelRecord:
    """Return the entry of a level (such as one policy) in plan.json."""
    return LevelRecord(title=level.title, number=level.number, digest=level.digest,
                       content=dict(level.content))


def _testbed_keys(groups: Sequence[Sequence[Cell]]) -> list[TestbedKey]:
    """Return a name for each testbed (emulated network), from the levels in which they differ.

    Args:
        groups: The cells of each testbed.
    """
    used = [{factor: "+".join(dict.fromkeys(cell.ids[factor] for cell in cells))
             for factor in cells[0].ids} for cells in groups]
    factors = list(used[0]) if used else []
    telling = [factor for factor in factors if len({levels[factor] for levels in used}) > 1]
    return ["-".join(levels[factor] for factor in telling or factors[:1]) for levels in used]

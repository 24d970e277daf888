"""What a run is to measure: cells, repetitions, and their seeded, blocked order."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import estimate
from measure.record import record_name
from policies import Policy
from topologies import builders
from topologies.model import Medium, Network, Scenario

PLAN_SCHEMA = 1
#: What everybody who reads a plan counts on.
_PARTS = frozenset({"digest", "policies", "scenarios", "settings"})
#: Settings that say how much is measured and not how: another run may ask for more of the same.
_HOW_MUCH = ("repetitions",)
#: What captures of streams keep of the packets that are as they should be: one in so many.
STREAM_CAPTURES = {"whole": 1, "sampled": 16}


@dataclass(frozen=True)
class Streams:
    """Sizes of a repetition's streams, in bytes."""

    tcp_bytes: int
    udp_bytes: int
    udp_payload_bytes: int
    #: Of the packets that a stream should consist of, its captures keep one in so many.
    one_in: int = 1


@dataclass(frozen=True)
class Settings:
    """What is the same for every repetition of a run; sizes in bytes."""

    repetitions: int = 3
    tcp_bytes: int = 1_000_000
    udp_bytes: int = 1_000_000
    udp_payload_bytes: int = 1400
    seed: int = 1
    fault: str | None = None
    on: str = "guest"
    detection: str = "event"
    clock: str = "real"
    warm_up: int = 1
    stream_captures: str = "whole"
    builder: str = builders.MININET

    @property
    def streams(self) -> Streams:
        """The sizes of what is streamed."""
        return Streams(self.tcp_bytes, self.udp_bytes, self.udp_payload_bytes,
                       STREAM_CAPTURES[self.stream_captures])


@dataclass(frozen=True)
class Cell:
    """One policy in one scenario."""

    policy: Policy
    scenario: Scenario

    @property
    def name(self) -> str:
        """POLICY-SCENARIO, as in the names of folders and logs."""
        return f"{self.policy.id}-{self.scenario.id}"


@dataclass(frozen=True)
class Step:
    """One repetition of one cell."""

    cell: Cell
    repetition: int

    @property
    def name(self) -> str:
        """What the repetition's record, captures and folder are called."""
        return record_name(self.cell.policy.id, self.cell.scenario.id, self.repetition)


@dataclass(frozen=True)
class Site:
    """Scenarios that one built network serves; `name` is "" where a plan needs only one."""

    name: str
    network: Network
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True)
class Plan:
    """Everything a run measures. Two plans with one digest measure the same."""

    policies: Sequence[Policy]
    scenarios: Sequence[Scenario]
    medium: Medium | None
    settings: Settings = field(default_factory=Settings)

    def cells(self) -> list[Cell]:
        """Every policy in every scenario."""
        return [Cell(policy, scenario) for scenario in self.scenarios for policy in self.policies]

    def steps(self) -> list[Step]:
        """All repetitions, block by block."""
        return [step for repetition in range(1, self.settings.repetitions + 1)
                for step in self.block(repetition)]

    def block(self, repetition: int, cells: Iterable[Cell] | None = None) -> list[Step]:
        """One repetition of every cell (or of `cells`) in an order that the seed decides.

        Scenario by scenario, those that take longest first; in each, the policies in an order of
        this block's own. Whatever drifts during a run then touches every policy alike.
        """
        # Repeatable on purpose; nothing secret depends on it.
        dice = random.Random(f"{self.settings.seed}/{repetition}")  # noqa: S311
        mixed = self.cells()
        dice.shuffle(mixed)
        given = {scenario.id: number for number, scenario in enumerate(self.scenarios)}
        mixed.sort(key=lambda cell: (-self.expected_s(cell), given[cell.scenario.id]))
        wanted = None if cells is None else {cell.name for cell in cells}
        return [Step(cell, repetition) for cell in mixed
                if wanted is None or cell.name in wanted]

    def expected_s(self, cell: Cell) -> float:
        """About how long one repetition of a cell takes on the air, in seconds.

        The same for all policies of a scenario: only scenarios are put in an order by it.
        """
        streams = self.settings.streams
        return estimate.repetition_s(cell.scenario, self.medium, streams.tcp_bytes,
                                     streams.udp_bytes, streams.udp_payload_bytes)

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """The networks to build for the scenarios, as few as can be."""
        found: list[tuple[Network, list[Scenario]]] = []
        for scenario in self.scenarios:
            for number, (network, sharing) in enumerate(found):
                joined = network.joined(scenario.network)
                if joined is not None:
                    found[number] = (joined, [*sharing, scenario])
                    break
            else:
                found.append((scenario.network, [scenario]))
        return tuple(Site("" if len(found) == 1 else "+".join(s.id for s in sharing), network,
                          tuple(sharing)) for network, sharing in found)

    def site_of(self, scenario: Scenario) -> Site:
        """Where a scenario is measured."""
        return next(site for site in self.sites
                    if any(other.id == scenario.id for other in site.scenarios))

    def describe(self) -> dict[str, Any]:
        """The plan as it is kept beside its results."""
        return {"schema": PLAN_SCHEMA, "policies": {p.id: p.digest() for p in self.policies},
                "names": {p.id: p.name for p in self.policies},
                "layers": {p.id: p.layers.model_dump(mode="json") for p in self.policies},
                "scenarios": [s.id for s in self.scenarios],
                "medium": self.medium.name if self.medium else None,
                "settings": asdict(self.settings), "digest": self.digest()}

    def digest(self) -> str:
        """Hash of all that decides what is measured; a run goes on only where this agrees.

        The number of repetitions is left out: asking for more adds to what is there. So is what the
        policies say: the records of an edited one are measured again, and no others.
        """
        settings = {key: value for key, value in asdict(self.settings).items()
                    if key not in _HOW_MUCH}
        what = [p.id for p in self.policies]
        where = [_measured(s) for s in self.scenarios]
        medium = asdict(self.medium) if self.medium else None
        text = json.dumps([what, where, medium, settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _measured(scenario: Scenario) -> dict[str, Any]:
    """What of a scenario decides what is measured: not where its nodes stand or drive."""
    whole = asdict(scenario)
    del whole["mobility"]
    for node in whole["network"]["nodes"].values():
        del node["position"]
    return whole


def read_description(folder: Path) -> dict[str, Any] | None:
    """The plan kept in a results folder, or None where there is none to be read."""
    try:
        found = json.loads((folder / "plan.json").read_text())
    except (OSError, ValueError):
        return None
    is_plan = isinstance(found, dict) and found.get("schema") == PLAN_SCHEMA
    return found if is_plan and found.keys() >= _PARTS else None

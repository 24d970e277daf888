"""What a run is to measure: cells, repetitions, and their seeded, blocked order."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from measure.record import record_name
from policies import Policy
from topologies.model import Medium, Scenario

PLAN_SCHEMA = 1


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
        """All repetitions in blocks: a block holds every cell once, in an order of its own.

        Whatever drifts during a run then touches every policy alike.
        """
        ordered = []
        for repetition in range(1, self.settings.repetitions + 1):
            block = [Step(cell, repetition) for cell in self.cells()]
            # Repeatable on purpose; nothing secret depends on it.
            random.Random(f"{self.settings.seed}/{repetition}").shuffle(block)  # noqa: S311
            ordered += block
        return ordered

    def describe(self) -> dict[str, Any]:
        """The plan as it is kept beside its results."""
        return {"schema": PLAN_SCHEMA, "policies": {p.id: p.digest() for p in self.policies},
                "names": {p.id: p.name for p in self.policies},
                "scenarios": [s.id for s in self.scenarios],
                "medium": self.medium.name if self.medium else None,
                "settings": asdict(self.settings), "digest": self.digest()}

    def digest(self) -> str:
        """Hash of all that decides what is measured; a run goes on only where this agrees.

        The number of repetitions is left out: asking for more adds to what is there.
        """
        settings = {key: value for key, value in asdict(self.settings).items()
                    if key != "repetitions"}
        what = [[p.id, p.digest()] for p in self.policies]
        where = [asdict(s) for s in self.scenarios]
        medium = asdict(self.medium) if self.medium else None
        text = json.dumps([what, where, medium, settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def read_description(folder: Path) -> dict[str, Any] | None:
    """The plan kept in a results folder, or None where there is none to be read."""
    try:
        found = json.loads((folder / "plan.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("schema") == PLAN_SCHEMA else None

"""Plans of the 2007 study for tests, by the names of policies and scenarios."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import studies
from harness.engine.plan import Plan, RunSettings
from harness.engine.request import RunRequest, build_plan
from measure.records.record import Record
from studies.qop2007.measurements import Measurements
from studies.study import Level

STUDY = studies.load_study("qop2007")


def plan_of(policies: str | Sequence[str] = "P1,P2", scenarios: str = "N2", *,
            asked: Mapping[str, str] | None = None, **settings: Any) -> Plan:
    """A plan of policies and scenarios, by names separated by commas; `asked` as with --set."""
    names = policies.split(",") if isinstance(policies, str) else list(policies)
    made = build_plan(RunRequest(STUDY, levels={"policy": names, "scenario": scenarios.split(",")},
                                 sets=asked or {}), {"clock": settings.get("clock", "real")})
    return dataclasses.replace(made, settings=RunSettings(**settings))


def policies(count: int) -> list[str]:
    """The first so many policies of the paper's."""
    return [f"P{number}" for number in range(1, count + 1)]


def with_levels(made: Plan, **levels: Sequence[Level]) -> Plan:
    """A plan with other levels of some factors."""
    return dataclasses.replace(made, levels={**made.levels, **levels})


def body(entry: Record) -> Measurements:
    """What the study measured, of its record; there must be something."""
    assert entry.measured is not None, entry.reason
    return Measurements.model_validate(entry.measured)

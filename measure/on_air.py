"""What a repetition over the air left is read for any study: its handoff, its keys, its evidence.

For repetitions whose programs ran over a policy by `over_air`; raw values are the repetition's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import in_force, judging, points
from measure.observed import Observed
from measure.record import CheckRecord
from policies import Policy
from topologies.model import Scenario


def part(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Raw values of getting on, staying and moving; empty where there was no air."""
    made: dict[str, Any] = raw.get("parts", {}).get(points.PART, {})
    return made


def captures(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The study's own, and those of the air."""
    return [*raw.get("captures", ()), *part(raw).get("captures", ())]


def handoff(raw: Mapping[str, Any]) -> tuple[float, float]:
    """When the mobile node left home, and when a packet was answered again; never, if it stayed."""
    stamps = part(raw).get("stamps", {})
    never = (math.inf, math.inf)
    return (stamps["handoff"], stamps["foreign_first_packet"]) if "handoff" in stamps else never


def handoff_took_s(raw: Mapping[str, Any]) -> float | None:
    """How long the handoff took, to 10 us; None if there was none.

    A reading of a machine's clock takes 5 us in virtual time, and is written to a quarter of one:
    what is less says nothing, and would tell two runs of a seed apart.
    """
    left, answered = handoff(raw)
    return None if math.isinf(left) else round(answered - left, 5)


def esp_keys(raw: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    """Of the IPsec SAs at both ends, if there are any."""
    keys: Sequence[Mapping[str, str]] = part(raw).get("esp_keys", ())
    return keys


def observed(policy: Policy, scenario: Scenario, out: Path, raw: Mapping[str, Any],
             secrets: Mapping[str, Mapping[str, str]]) -> Observed:
    """The air, wires and kernels of a repetition. Raises MeasureError, OSError."""
    return in_force.dissected(policy, scenario, out, part(raw), secrets).last()


def proven(policy: Policy, seen: Observed) -> list[CheckRecord]:
    """Every check of the network's layers and of Mobile IP."""
    return judging.recorded(in_force.verify(policy, seen))


def below(policy: Policy, scenario: Scenario, out: Path, raw: Mapping[str, Any],
          secrets: Mapping[str, Mapping[str, str]]) -> list[CheckRecord]:
    """Every such check of a repetition. Raises MeasureError, OSError."""
    return proven(policy, observed(policy, scenario, out, raw, secrets))

"""Evaluate a repetition on the air for any study: its handoff, keys and checks.

For repetitions whose programs ran over a policy by `over_air`. Raw values are the repetition's.
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
    """Return the raw values of the air part, empty if there was no air."""
    made: dict[str, Any] = raw.get("parts", {}).get(points.PART, {})
    return made


def captures(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the summaries of the study's own captures and of the air part's."""
    return [*raw.get("captures", ()), *part(raw).get("captures", ())]


def handoff(raw: Mapping[str, Any]) -> tuple[float, float]:
    """Return the times of the handoff's start and of the first answered packet.

    Both are infinity without a handoff.
    """
    stamps = part(raw).get("stamps", {})
    never = (math.inf, math.inf)
    return (stamps["handoff"], stamps["foreign_first_packet"]) if "handoff" in stamps else never


def handoff_took_s(raw: Mapping[str, Any]) -> float | None:
    """Return the duration of the handoff in s, or None if there was none.

    The duration is rounded to 10 us. Reading the clock takes 5 us in virtual time, and times are
    written to a quarter of a microsecond. Smaller differences mean nothing, and would make two runs
    of a seed differ.
    """
    left, answered = handoff(raw)
    return None if math.isinf(left) else round(answered - left, 5)


def esp_keys(raw: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    """Return the keys of the IPsec SAs at both ends, if there are any."""
    keys: Sequence[Mapping[str, str]] = part(raw).get("esp_keys", ())
    return keys


def observed(policy: Policy, scenario: Scenario, out: Path, raw: Mapping[str, Any],
             secrets: Mapping[str, Mapping[str, str]]) -> Observed:
    """Return the results of a repetition: air, wires and kernels.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file is missing.
    """
    return in_force.dissected(policy, scenario, out, part(raw), secrets).last()


def proven(policy: Policy, seen: Observed) -> list[CheckRecord]:
    """Return all checks of the network's layers and of Mobile IP."""
    return judging.recorded(in_force.verify(policy, seen))


def below(policy: Policy, scenario: Scenario, out: Path, raw: Mapping[str, Any],
          secrets: Mapping[str, Mapping[str, str]]) -> list[CheckRecord]:
    """Return all checks of a repetition's network layers and of Mobile IP.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file is missing.
    """
    return proven(policy, observed(policy, scenario, out, raw, secrets))

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


def air_part(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the raw values of the air part, empty if there was no air."""
    made: dict[str, Any] = raw.get("parts", {}).get(points.PART, {})
    return made


def list_captures(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the summaries of the study's own captures and of the air part's."""
    return [*raw.get("captures", ()), *air_part(raw).get("captures", ())]


def handoff_times(raw: Mapping[str, Any]) -> tuple[float, float]:
    """Return the times of the handoff's start and of the first answered packet.

    Both are infinity without a handoff.
    """
    stamps = air_part(raw).get("stamps", {})
    never = (math.inf, math.inf)
    return (stamps["handoff"], stamps["foreign_first_packet"]) if "handoff" in stamps else never


def handoff_took_s(raw: Mapping[str, Any]) -> float | None:
    """Return the duration of the handoff in s, or None if there was none.

    The duration is rounded to 10 us. Reading the clock takes 5 us in virtual time, and times are
    written to a quarter of a microsecond. Smaller differences mean nothing, and would make two runs
    of a seed differ.
    """
    left, answered = handoff_times(raw)
    return None if math.isinf(left) else round(answered - left, 5)


def esp_keys(raw: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    """Return the keys of the IPsec SAs at both ends, if there are any."""
    keys: Sequence[Mapping[str, str]] = air_part(raw).get("esp_keys", ())
    return keys


def observe_air(policy: Policy, scenario: Scenario, out: Path, raw: Mapping[str, Any],
                secrets: Mapping[str, Mapping[str, str]]) -> Observed:
    """Return the results of a repetition: air, wires and kernels.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file is missing.
    """
    return in_force.dissect_repetition(policy, scenario, out, air_part(raw),
                                       secrets).last_authentication()


def verify_observed(policy: Policy, repetition: Observed) -> list[CheckRecord]:
    """Return all checks of the network's layers and of Mobile IP."""
    return judging.to_records(in_force.verify(policy, repetition))


def verify_repetition(policy: Policy, scenario: Scenario, out: Path, raw: Mapping[str, Any],
                      secrets: Mapping[str, Mapping[str, str]]) -> list[CheckRecord]:
    """Return all checks of a repetition's network layers and of Mobile IP.

    Raises:
        MeasureError: A capture cannot be read.
        OSError: A file is missing.
    """
    return verify_observed(policy, observe_air(policy, scenario, out, raw, secrets))

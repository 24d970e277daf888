"""Compare policies at equal utilization of the server: measurements and the model.

The model of a policy is calibrated like that of the study. The calibration uses the policy's cell
before any load: one client alone, and saturation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from analysis.cells import Cells, Ids
from analysis.numbers import to_quantity
from analysis.table import Quantity
from studies.eapload2004.design import NAMES, NOMINAL
from studies.eapload2004.metrics import BACKGROUND, CAPACITY, UTILIZATION
from studies.eapload2004.samples import service_times

#: Factors that do not belong to a policy: load, place, distance and driver.
_BESIDE = ("load", "share", "place", "rtt", "driver")
_WORDS: Mapping[str, Mapping[str, str]] = {
    "key": {"rsa-1024": "RSA-1024", "rsa-2048": "RSA-2048", "p-256": "P-256"},
    "sessions": {"resumed": "resumed"}, "path": {"proxied": "through a proxy", "near": "near"},
    "identity": {"p-tmsi": "temporary identity"}, "server": {"hostapd": "hostapd"},
    "method": {"aka": "EAP-AKA"}}
_UTILIZATIONS = np.linspace(0, 0.85, 10)

Points = list[tuple[float, Quantity]]


@dataclass
class PolicyCurves:
    """Times by utilization of the server: the supplicant's, the background's and the model's."""

    title: str
    service_s: Points = field(default_factory=list)
    background_s: Points = field(default_factory=list)
    modelled_s: Points = field(default_factory=list)


def policy_curves(cells: Cells) -> list[PolicyCurves]:
    """Return the curves of all policies with measured cells at the paper's place and distance."""
    by_policy: dict[tuple[str, ...], PolicyCurves] = {}
    for row in cells.results.cells:
        ids = dict(zip(NAMES, row, strict=True))
        if not cells.good_rows(row) or any(ids[name] != NOMINAL[name]
                                           for name in ("place", "rtt", "driver")):
            continue
        policy = tuple(ids[name] for name in NAMES if name not in _BESIDE)
        made = by_policy.setdefault(policy, PolicyCurves(_policy_title(ids)))
        _add_cell(made, cells, row)
    return [by_policy[policy] for policy in sorted(by_policy, key=lambda each: (
        by_policy[each].title != _policy_title(NOMINAL), by_policy[each].title))]


def _add_cell(curves: PolicyCurves, cells: Cells, row: Ids) -> None:
    """Add the values of a cell to the curves of its policy."""
    busy, service = cells.mean_of_any(UTILIZATION.name, row), service_times(cells, row)
    background = cells.mean_of_any(BACKGROUND.name, row)
    if busy is None or cells.mean_of_any("growth", row) is not None:  # overloaded: no steady state
        return
    if service is not None:
        curves.service_s.append((busy.estimate.mean, to_quantity(service.estimate)))
    if background is not None:
        curves.background_s.append((busy.estimate.mean, to_quantity(background.estimate)))
    capacity, alone = (cells.mean_of_any(name, row) for name in (CAPACITY.name, "alone_s"))
    if capacity is not None and alone is not None and not curves.modelled_s:
        demand_s = 1 / capacity.estimate.mean
        rest_s = max(0.0, alone.estimate.mean - demand_s)
        curves.modelled_s = [(float(used), Quantity(rest_s + demand_s / (1 - float(used))))
                             for used in _UTILIZATIONS]


def _policy_title(ids: Mapping[str, str]) -> str:
    """Return the levels that differ from the paper's own policy, as text."""
    if ids["method"] == "aka":
        return f"EAP-AKA, HSS at {ids['hss']} ms"
    differing = {name: level for name, level in ids.items()
                 if name not in _BESIDE and level != NOMINAL[name]}
    words = [_WORDS.get(name, {}).get(level) or {
        "chain": f"chain of {level}", "tls": f"TLS {level}",
        "fragment": f"pieces of {level} bytes"}.get(name, level)
        for name, level in differing.items()]
    return ", ".join(words) or "RSA-1024, TLS 1.2"

"""Load the values, claims and policies that the 2007 paper printed.

`load_values` returns the numbers of its tables in SI units. `load_claims` returns its conclusions,
and `load_policies` its twelve security policies. The report compares them with measurements. The
paper is Agarwal and Wang (2007) on the cost of security in wireless LANs.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from analysis.claims import Claim
from documents.yaml_reader import load_own
from policies import Layers, Policy
from policies.weights import Feature

_FOLDER = Path(__file__).parent
_FEATURES: Mapping[str, Feature] = {
    "A": "authentication", "M": "mutual_authentication", "C": "confidentiality",
    "I": "data_integrity", "N": "non_repudiation"}
#: Metrics of the CSV file, with their name in the study and the factor to bit/s.
_METRICS = {"tcp_crypto_overhead_kbps": ("tcp_overhead_bps", 1e3),
            "udp_crypto_overhead_kbps": ("udp_overhead_bps", 1e3),
            "tcp_throughput_mbps": ("tcp_goodput_bps", 1e6),
            "udp_throughput_mbps": ("udp_goodput_bps", 1e6)}
#: Columns of Table 9, with the factor to SI units. A variance of 1000 (kbit/s)^2 is 1e9 (bit/s)^2.
_ROBUSTNESS = {"overhead_mean": 1e3, "overhead_var": 1e9,
               "throughput_mean": 1e6, "throughput_var": 1e12}


@dataclass(frozen=True)
class PublishedValues:
    """The numbers that the 2007 paper printed, in SI units (s, bit/s).

    `scenarios` has the titles of the scenarios. The other mappings have these keys:

    - `cells`: metric, policy and scenario (Tables 5 to 8)
    - `authentication_time_s`: policy and kind of scenario (at home or roaming)
    - `robustness`: column of Table 9 and policy
    - `sums`: class of policy and kind of scenario (Table 4)
    - `recommended`: metric, then kind of scenario and security group, as in values.yml
    """

    scenarios: Mapping[str, str]
    features: Mapping[str, frozenset[Feature]]
    weights: Mapping[str, Mapping[Feature, float]]
    sigma: Mapping[str, float]
    sigma_normalized: Mapping[str, float]
    groups: Mapping[str, tuple[str, ...]]
    sums: Mapping[tuple[str, str], tuple[str, ...]]
    authentication_time_s: Mapping[tuple[str, str], float]
    cells: Mapping[tuple[str, str, str], float]
    robustness: Mapping[tuple[str, str], float]
    recommended: Mapping[str, Any]


@cache
def load_values() -> PublishedValues:
    """Return all numbers that the 2007 paper printed. Its claims are in `load_claims`."""
    raw = load_own(_FOLDER / "values.yml")
    return PublishedValues(
        scenarios=raw["scenarios"],
        features={policy: frozenset(_FEATURES[letter] for letter in letters)
                  for policy, letters in raw["features"].items()},
        weights={key: {_FEATURES[letter]: float(weight) for letter, weight in row.items()}
                 for key, row in raw["weights"].items()},
        sigma=raw["sigma"], sigma_normalized=raw["sigma_normalized"],
        groups={group: tuple(members) for group, members in raw["groups"].items()},
        sums={(kind_of_policy, kind): tuple(parts)
              for kind_of_policy, row in raw["sums"].items() for kind, parts in row.items()},
        authentication_time_s={(policy, kind): float(value)
                               for kind, row in raw["authentication_time_s"].items()
                               for policy, value in row.items()},
        cells=_read_cells(),
        robustness={(column, policy): value * _ROBUSTNESS[column]
                    for column, row in raw["robustness_tcp"].items()
                    for policy, value in row.items()},
        recommended=raw["recommended"])


@cache
def load_claims() -> tuple[Claim, ...]:
    """Return the conclusions (claims Q1 to Q16) of the 2007 paper, in order of their numbers."""
    return tuple(Claim(key, str(row["says"]), str(row["where"]), tuple(row["rests_on"]))
                 for key, row in load_own(_FOLDER / "claims.yml").items())


@cache
def load_policies() -> tuple[Policy, ...]:
    """Return the twelve security policies P1 to P12 of the 2007 paper, in order of number."""
    return tuple(Policy(id=key, name=row["name"], layers=Layers.model_validate(row["layers"]))
                 for key, row in load_own(_FOLDER / "policies.yml").items())


def _read_cells() -> dict[tuple[str, str, str], float]:
    """Return the printed values by metric, policy and scenario."""
    with (_FOLDER / "tables_5_to_8.csv").open(encoding="utf-8", newline="") as file:
        cells = {}
        for row in csv.DictReader(file):
            metric, factor = _METRICS[row["metric"]]
            cells[metric, row["policy"], row["scenario"]] = float(row["value"]) * factor
        return cells

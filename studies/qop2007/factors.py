"""The study's factors: policies and scenarios, the paper's own and the user's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from policies import named
from policies.loader import PAPER_IDS
from studies import mobile
from studies.study import Factor, Level
from topologies.loader import scenario_ids

#: What is measured unless others are asked for: the scenarios of the paper.
PAPER_SCENARIOS = ("N1", "N2", "N3", "R1", "R2")
#: What the user's own policies are compared to where no others are asked for.
BASELINE = "P1"


def _scenarios(names: Sequence[str], files: Sequence[Path]) -> Sequence[Level]:
    """Scenarios by name or file, or the paper's five."""
    return mobile.scenarios(names or (() if files else PAPER_SCENARIOS), files)


FACTORS = (
    Factor("policy", "Policy",
           mobile.Policies(PAPER_IDS, beside=[BASELINE], has_mlkem=True, has_macsec=True),
           plural="policies", option="--policies", file_option="--policy",
           help="Comma-separated names out of P1 to P12 and today's "
           f"{', '.join(name for name in named() if name not in PAPER_IDS)}; default: P1 to P12.",
           file_help="A policy file of your own, measured beside P1; may be repeated."),
    Factor("scenario", "Scenario", _scenarios, option="--scenarios",
           help=f"Comma-separated names out of {', '.join(scenario_ids())}, "
           f"or .yml files; default: {', '.join(PAPER_SCENARIOS)}."),
)

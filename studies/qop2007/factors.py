"""The study's factors: policies and scenarios, the paper's own and the user's."""

from __future__ import annotations

from policies.loader import PAPER_IDS
from studies import mobile
from studies.study import Factor
from topologies.loader import scenario_ids

#: What the user's own policies are compared to where no others are asked for.
BASELINE = "P1"
FACTORS = (
    Factor("policy", "Policy", mobile.Policies(PAPER_IDS, beside=[BASELINE]), plural="policies",
           option="--policies", file_option="--policy",
           help="Comma-separated names out of P1 to P12; default: all.",
           file_help="A policy file of your own, measured beside P1; may be repeated."),
    Factor("scenario", "Scenario", mobile.scenarios, option="--scenarios",
           help="Comma-separated names or .yml files; default: all of "
           f"{', '.join(scenario_ids())}."),
)

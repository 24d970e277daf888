"""Factors of the study: policies and scenarios, the paper's own and the user's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from policies import AaaLayer, Policy, policy_ids
from policies.dot1x import BY_CARD
from policies.loader import PAPER_IDS
from studies import mobile
from studies.study import Factor, Level
from topologies.loader import scenario_ids

#: Scenarios of the paper, which are measured by default.
PAPER_SCENARIOS = ("N1", "N2", "N3", "R1", "R2")
#: Policy that a user's own policies are compared with by default.
BASELINE = "P1"


def _find_refusal(policy: Policy) -> str:
    """Return why a policy's way to authenticate is refused, or "" if it is not."""
    aaa, dot1x = policy.layers.aaa, policy.layers.dot1x
    if dot1x is None:
        return ""
    tls = dot1x.tls
    if policy.resumes_sessions and tls is not None and tls.version == "1.3":
        return ("sessions: resumed with TLS 1.3 would resume every second time only, as FreeRADIUS "
                "3.2.1 gives no new ticket with a resumed session; leave out version, or sessions")
    if aaa is None or (dot1x.eap in BY_CARD and tls is None
                       and aaa == AaaLayer(server="hostapd")):
        return ""
    return ("layers.aaa is for a card here, asked by its own network: with eap: AKA or AKA', and "
            "server: hostapd alone; leave out the rest, or choose the study eapload2004")


def _read_scenarios(names: Sequence[str], files: Sequence[Path]) -> Sequence[Level]:
    """Return scenarios by name or file, by default the paper's five."""
    return mobile.read_scenarios(names or (() if files else PAPER_SCENARIOS), files)


FACTORS = (
    Factor("policy", "Policy",
           mobile.Policies(PAPER_IDS, beside=[BASELINE], has_mlkem=True, has_macsec=True,
                           has_sessions=True, runs=["aaa"], refusal=_find_refusal),
           plural="policies", option="--policies", file_option="--policy",
           help="Comma-separated names out of P1 to P12 and today's "
           f"{', '.join(name for name in policy_ids() if name not in PAPER_IDS)}; default: P1 to "
           "P12.",
           file_help="A policy file of your own, measured beside P1; may be repeated."),
    Factor("scenario", "Scenario", _read_scenarios, option="--scenarios",
           help=f"Comma-separated names out of {', '.join(scenario_ids())}, "
           f"or .yml files; default: {', '.join(PAPER_SCENARIOS)}."),
)

"""The study's evidence: every layer of the policy and Mobile IP, and why a repetition failed."""

from __future__ import annotations

from collections.abc import Mapping

from measure import evidence, mobility
from measure.observed import Check, Observed
from policies import Policy


def verify(policy: Policy, seen: Observed) -> list[Check]:
    """Every check that a policy calls for, at home and away."""
    return [*evidence.layers(policy, seen),
            *mobility.verify(policy.layers.ipsec is not None, seen)]


def explain(failure: Mapping[str, str], seen: Observed) -> str:
    """The reason of a failed repetition, sharpened by what the packets show."""
    reason = failure["reason"]
    # RADIUS stays behind the access point: the visited one's, once the mobile node is there.
    radius = seen.packets("auth-foreign") if "foreign_start" in seen.raw["stamps"] \
        else seen.packets("auth-wire")
    requests = sum(p.radius_code == 1 for p in radius)
    replies = sum(p.radius_code in (2, 3, 11) for p in radius)
    if failure["stage"] == "dot1x" and requests and not replies:
        return f"{reason}: the RADIUS server answered none of {requests} Access-Requests"
    if any(p.radius_code == 3 for p in radius):
        return f"{reason}: the RADIUS server rejected the mobile node (Access-Reject)"
    sent = [p for p in seen.packets("auth-air")
            if p.is_data and p.transmitter == seen.mac and p.protected]
    unreadable = [p for p in sent if p.is_decryptable and not p.has_llc]
    if failure["stage"] in ("registration", "data") and unreadable and "wep_key" in seen.raw:
        return (f"{reason}: {len(unreadable)} of its {len(sent)} frames do not decrypt with the "
                "access point's WEP key")
    return reason

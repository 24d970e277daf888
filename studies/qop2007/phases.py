"""Sum of the authentication time: the phases that Table 4 of the paper names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from measure.phases import FOREIGN, Phase
from policies import Policy
from policies.layers import MOBILE_IP

#: Phases of the key exchange on the link before a handshake, by `keys` of the link layer. The paper
#: has no such exchange. A component of each has its name.
EXCHANGES: Mapping[str, tuple[str, ...]] = {"sae": ("authentication",), "owe": ("association",)}
#: Suffix of the names of components at home.
HOME = "_home"


def find_components(phases: Sequence[Phase], exchange: str = "") -> dict[str, float]:
    """Return the parts of authentication times in seconds, by Table 4's names.

    A registration lasts from the first solicitation or request to the accepted reply. `exchange`
    names the exchange that gives the link its keys (`exchange_of`).
    """
    on_the_link = {exchange: EXCHANGES[exchange]} if exchange in EXCHANGES else {}
    by_name = {phase.name: phase for phase in phases}
    parts = {}
    for place, prefix in (("home", ""), ("foreign", FOREIGN)):
        for name, phase_names in (*on_the_link.items(), ("eap", ("dot1x", "four_way_handshake")),
                                  ("wireguard", ("wireguard",)), ("ike", ("ike",))):
            durations = [by_name[prefix + n].duration_s for n in phase_names
                         if prefix + n in by_name]
            if durations:
                parts[f"{name}_{place}"] = sum(durations)
        registration = by_name.get(f"{prefix}registration")
        if registration:
            first = by_name.get(f"{prefix}agent_discovery", registration)
            parts[f"mip_registration_{place}"] = registration.end_s - first.start_s
    return parts


def summed_components(policy: Policy, *, roaming: bool) -> tuple[str, ...]:
    """Return the components of the authentication time, by Table 4 of the paper.

    The table has no row for policies without any negotiation. They count Mobile IP alone, which
    explains the shortest time in the text (0.11 s).
    """
    exchange = exchange_of(policy)
    # Where the node's tunnel roams, there is no registration.
    has_mobile_ip = policy.layers.mobility == MOBILE_IP
    summed = ["mip_registration_home"] if has_mobile_ip else []
    if exchange:
        summed.append(f"{exchange}_home")
    if policy.has_handshake:
        summed.append("eap_home")
    if policy.uses_wireguard:
        summed.append("wireguard_home")
    if policy.uses_ipsec:
        summed.append("ike_home")
    if roaming and has_mobile_ip and not policy.has_handshake:
        summed.append("mip_registration_foreign")
    return tuple(summed)


def exchange_of(policy: Policy) -> str:
    """Return the exchange before a handshake that gives the link its keys, or ""."""
    keys = policy.layers.link.keys if policy.layers.link else ""
    return keys if keys in EXCHANGES else ""


def missing_components(parts: Mapping[str, float], summed: Sequence[str]) -> list[str]:
    """Return the components of a sum that did not take place."""
    return [name for name in summed if name not in parts]


def authentication_time_s(parts: Mapping[str, float], summed: Sequence[str]) -> float | None:
    """Return the sum of these components (s), or None if one is missing."""
    return None if missing_components(parts, summed) else sum(parts[name] for name in summed)

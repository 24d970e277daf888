"""Compute the authentication time by Table 4 of the 2007 paper: a sum of durations.

Table 4 names, for each kind of policy, which negotiations count (Mobile IP, EAP, IKE).
`find_components` takes the phases that were found in captures, and returns the duration (s) of each
negotiation. `summed_components` returns which of them count, and `authentication_time_s` adds them
up. The paper is Agarwal and Wang (2007), on the cost of security policies in wireless LANs.
`studies.qop2007` lists the terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from measure.checks.phases import FOREIGN, Phase
from policies import Policy
from policies.layers import MOBILE_IP

#: Phases of the key exchange on the link before a handshake, by `keys` of the link layer. The paper
#: has no such exchange. A component of each has its name.
EXCHANGES: Mapping[str, tuple[str, ...]] = {"sae": ("authentication",), "owe": ("association",)}
#: Suffix of the names of components at home.
HOME = "_home"


def find_components(phases: Sequence[Phase], exchange: str = "") -> dict[str, float]:
    """Return the duration (s) of each negotiation that may count as authentication time.

    Args:
        phases: phases of one authentication, at home and in the visited network.
        exchange: key exchange of the link before its handshake, such as SAE (see `exchange_of`).

    Returns:
        Seconds by name and network, such as `ike_home`. A Mobile IP registration lasts from the
        first solicitation or request to the accepted reply.
    """
    on_the_link = {exchange: EXCHANGES[exchange]} if exchange in EXCHANGES else {}
    by_name = {phase.name: phase for phase in phases}
    parts = {}
    for place, prefix in (("home", ""), ("foreign", FOREIGN)):
        for name, phase_names in (*on_the_link.items(), ("eap", ("dot1x", "four_way_handshake")),
                                  ("wireguard", ("wireguard",)), ("quic", ("quic",)),
                                  ("mptcp", ("mptcp",)), ("ike", ("ike",))):
            durations = [by_name[prefix + n].duration_s for n in phase_names
                         if prefix + n in by_name]
            if durations:
                parts[f"{name}_{place}"] = sum(durations)
        registration = by_name.get(f"{prefix}registration")
        if registration:
            first = by_name.get(f"{prefix}agent_discovery", registration)
            parts[f"mip_registration_{place}"] = registration.end_s - first.start_s
    return parts


def summed_components(policy: Policy, *, roaming: bool,
                      has_home_agent: bool = True) -> tuple[str, ...]:
    """Return the negotiations that add up to the authentication time, by Table 4 of the 2007 paper.

    The table has no row for a policy without protection. For such a policy only the Mobile IP
    registration counts, as in the shortest time of the paper's text (0.11 s). Without a home agent
    there is no registration, and such a policy has no component.

    Args:
        policy: the security policy.
        roaming: whether the mobile node moves to another subnet.
        has_home_agent: whether a home agent serves the mobile node.

    Returns:
        Names as `find_components` has them, such as `eap_home`.
    """
    exchange = exchange_of(policy)
    # Where the node's tunnel roams, there is no registration.
    has_mobile_ip = has_home_agent and policy.layers.mobility == MOBILE_IP
    summed = ["mip_registration_home"] if has_mobile_ip else []
    if exchange:
        summed.append(f"{exchange}_home")
    if policy.has_handshake:
        summed.append("eap_home")
    if policy.uses_wireguard:
        summed.append("wireguard_home")
    if policy.uses_quic:
        summed.append("quic_home")
    if policy.uses_mptcp:
        summed.append("mptcp_home")
    if policy.uses_ipsec:
        summed.append("ike_home")
    if roaming and has_mobile_ip and not policy.has_handshake:
        summed.append("mip_registration_foreign")
    return tuple(summed)


def exchange_of(policy: Policy) -> str:
    """Return the key exchange before the four-way handshake (such as SAE or OWE), or "" if none."""
    keys = policy.layers.link.keys if policy.layers.link else ""
    return keys if keys in EXCHANGES else ""


def missing_components(parts: Mapping[str, float], summed: Sequence[str]) -> list[str]:
    """Return the negotiations that should count, but did not take place."""
    return [name for name in summed if name not in parts]


def authentication_time_s(parts: Mapping[str, float], summed: Sequence[str]) -> float | None:
    """Return the sum (s) of the named negotiations, or None if one of them did not take place."""
    return None if missing_components(parts, summed) else float(
        sum(parts[name] for name in summed))

"""Table 4 of the paper says which phases make up the authentication time; they are summed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from measure.phases import FOREIGN, Phase
from policies import Policy
from policies.layers import MOBILE_IP

#: Where keys come of an exchange on the link before any handshake: the phases that it takes. The
#: paper has none of these; a component of each bears its name.
EXCHANGES: Mapping[str, tuple[str, ...]] = {"sae": ("authentication",), "owe": ("association",)}
#: What the names of components at home end with.
HOME = "_home"


def components(phases: Sequence[Phase], exchange: str = "") -> dict[str, float]:
    """What authentication times are sums of, in seconds, by Table 4's names.

    A registration counts from the first solicitation or request to the accepted reply. `exchange`
    is what the link's keys come of (`exchange_of`).
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


def table_4(policy: Policy, *, roaming: bool) -> tuple[str, ...]:
    """Which components make up the authentication time: Table 4 of the paper.

    The table has no row for policies without any negotiation; theirs is Mobile IP alone, which is
    how the text's shortest time (0.11 s) comes about.
    """
    exchange = exchange_of(policy)
    # Where a tunnel follows its node, nobody registers.
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
    """The exchange that the link's keys come of, "" where there is none before the handshake."""
    keys = policy.layers.link.keys if policy.layers.link else ""
    return keys if keys in EXCHANGES else ""


def missing(parts: Mapping[str, float], summed: Sequence[str]) -> list[str]:
    """The components of a sum that did not take place."""
    return [name for name in summed if name not in parts]


def authentication_time_s(parts: Mapping[str, float], summed: Sequence[str]) -> float | None:
    """The sum of these components, in seconds; None where one of them did not take place."""
    return None if missing(parts, summed) else sum(parts[name] for name in summed)

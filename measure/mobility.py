"""Mobility is proven from packets: registrations, and tunnels between the agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure import dissect
from measure.dissect import Packet
from measure.observed import Check, Observed


def verify(has_ipsec: bool, seen: Observed) -> Iterator[Check]:  # noqa: FBT001 - one of two kinds
    """Checks that hold for every policy, at home and away."""
    for name, stay, care_of in zip(
            ("registered at home", "registered with the foreign agent"),
            seen.by_stay("auth-mn"), ("", seen.care_of), strict=False):
        yield _registered(name, stay, care_of)
    yield _by_the_agent(seen)
    if "traffic-core" in seen.captures:
        yield _between_agents(has_ipsec, seen)


def _registered(name: str, stay: Sequence[Packet], expected: str) -> Check:
    """A request that was accepted, as the mobile node's interface saw it.

    `expected` is the care-of address to be registered, "" at home.
    """
    requests = [p for p in stay if p.mip_type == dissect.REGISTRATION_REQUEST]
    replies = [p for p in stay if p.mip_type == dissect.REGISTRATION_REPLY]
    care_of = requests[-1].mip_care_of if requests else "none"
    codes = [p.mip_code for p in replies]
    return Check(name, bool(codes) and codes[-1] in dissect.REGISTRATION_ACCEPTED
                 and expected in ("", care_of),
                 f"{len(requests)} requests, last with care-of address {care_of}; "
                 f"reply codes {codes}")


def _by_the_agent(seen: Observed) -> Check:
    """No frame goes from one mobile node to another without passing an agent."""
    direct = [p for p in seen.air if p.transmitter in seen.macs and p.receiver in seen.macs]
    sent = sum(p.transmitter in seen.macs for p in seen.air)
    return Check("all traffic passes the agent", sent > 0 and not direct,
                 f"{len(direct)} of {sent} frames of mobile nodes are addressed to one of them")


def _between_agents(has_ipsec: bool, seen: Observed) -> Check:  # noqa: FBT001 - as above
    """What crosses the wire between the subnets: tunnelled as place and policy want it."""
    crossing = [p for p in seen.packets("traffic-core") if p.ip_src]
    protocol, kind = ((dissect.ESP, "ESP") if has_ipsec else (dissect.IP_IN_IP, "IP-in-IP"))
    if not has_ipsec and not seen.care_of:
        inner = [p for p in crossing if seen.addresses & {p.ip_src, p.ip_dst}]
        return Check("traffic crosses the wire between the subnets", bool(inner),
                     f"{len(inner)} packets of the mobile nodes between the agents")
    tunnelled = [p for p in crossing if _is_tunnelled(p, protocol, seen)]
    both_ways = len({p.ip_src for p in tunnelled}) == 2  # there and back
    stray = [p for p in crossing if not _is_tunnelled(p, protocol, seen)
             and (seen.addresses & {p.ip_src, p.ip_dst} or p.ip_proto == dissect.IP_IN_IP)]
    return Check(f"{kind} between the agents", both_ways and not (has_ipsec and stray),
                 f"{len(tunnelled)} packets, {'both ways' if both_ways else 'not both ways'}, "
                 f"{len(stray)} of the mobile nodes outside")


def _is_tunnelled(packet: Packet, protocol: int, seen: Observed) -> bool:
    """From agent to agent; tshark's first IP header is the outer one.

    Mobile IP's tunnel has the home agent's own address at its other end, IPsec's the wired ones.
    """
    ends = seen.agents if protocol == dissect.ESP else {seen.home_agent, seen.care_of}
    return packet.ip_proto == protocol and {packet.ip_src, packet.ip_dst} == ends

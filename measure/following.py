"""Check from packets and kernels that a tunnel follows its node to another subnet."""

from __future__ import annotations

from collections.abc import Iterator

from measure import dissect, mobility, wireguard
from measure.dissect import Packet
from measure.observed import Check, Observed
from policies.layers import MOBIKE

#: Exchange type of messages within an IKEv2 SA (RFC 7296, 3.1).
_INFORMATIONAL = 37


def verify(observed: Observed) -> Iterator[Check]:
    """Yield the checks for a network without Mobile IP, at home and away."""
    told = [p for name in ("auth-mn", "traffic-air") for p in observed.packets_of(name)
            if p.is_mobile_ip]
    yield Check("no Mobile IP", not told, f"{len(told)} of its messages")
    yield mobility.check_forwarding(observed)
    if not observed.care_of:
        return
    yield _check_new_address(observed)
    yield _check_kernels(observed)
    if observed.follows_by == MOBIKE:
        yield _check_mobike(observed)


def _is_tunnel_packet(packet: Packet, observed: Observed) -> bool:
    """Return whether a packet belongs to the tunnel."""
    return packet.ip_proto == dissect.ESP if observed.follows_by == MOBIKE else \
        wireguard.PORT in (packet.udp_src, packet.udp_dst)


def _check_new_address(observed: Observed) -> Check:
    """Check that the tunnel uses the new address in both directions.

    The packets are those behind the visited access point and between the subnets. Earlier
    authentications have no traffic captures; use the capture behind the visited access point.
    """
    ends = {observed.care_of, observed.home_agent}
    names = ["auth-foreign"] if observed.part else [
        name for name in ("traffic-foreign", "traffic-core", "traffic-wire")
        if name in observed.captures]
    of_node = [p for name in names for p in observed.packets_of(name) if observed.care_of in (
        p.ip_src, p.ip_dst)]
    inside = [p for p in of_node if _is_tunnel_packet(p, observed) and {p.ip_src, p.ip_dst} == ends]
    # Liveness probes and other IKE messages are not packets of the node's programs.
    beside = [p for p in of_node if not _is_tunnel_packet(p, observed) and not p.is_isakmp]
    ways = {p.ip_src for p in inside}
    return Check("tunnel goes by the new address", ways == ends and not beside,
                 f"{len(inside)} packets of the tunnel between {observed.care_of} and "
                 f"{observed.home_agent}, {len(ways)} ways; {len(beside)} others of that address")


def _check_kernels(observed: Observed) -> Check:
    """Check that both kernels have only the node's present address for the tunnel."""
    kernel = observed.raw["kernel"]
    if observed.follows_by == MOBIKE:
        ends = [{state["src"], state["dst"]} - {observed.home_agent} for states in kernel.get(
            "after_traffic", {}).values() for state in states]
    else:
        ends = [{peer["endpoint"]} for peers in kernel.get("wireguard", {}).values()
                for peer in peers if peer["endpoint"] and peer["handshake_s"]
                and peer["endpoint"] != observed.home_agent
                and peer["endpoint"] not in _companion_addresses(observed)]
    return Check("kernels have the new address", bool(ends) and all(
        addresses == {observed.care_of} for addresses in ends),
        f"{sum(addresses == {observed.care_of} for addresses in ends)} of {len(ends)} say "
        f"{observed.care_of}")


def _companion_addresses(observed: Observed) -> set[str]:
    """Return the other mobile nodes' home addresses, which are their tunnel endpoints."""
    return set(observed.addresses) - {observed.care_of} - {observed.home_address}


def _check_mobike(observed: Observed) -> Check:
    """Check that MOBIKE signalled the move inside the existing IKE SA."""
    away = [p for p in observed.by_attachment("auth-mn")[-1] if p.is_isakmp]
    others = [p for p in away if p.isakmp_exchange != _INFORMATIONAL]
    ways = {p.ip_src for p in away if {p.ip_src, p.ip_dst}
            == {observed.care_of, observed.home_agent}}
    return Check("MOBIKE", len(ways) == 2 and not others,
                 f"{len(away)} ISAKMP packets after the move, {len(away) - len(others)} "
                 "informational; "
                 f"{'both ways' if len(ways) == 2 else 'not both ways'} with {observed.care_of}")

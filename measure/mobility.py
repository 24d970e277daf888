"""Check mobility from packets: Mobile IP registrations, and tunnels between the agents."""

from __future__ import annotations

import hmac
import math
from collections.abc import Iterator, Sequence

from measure import counting, dissect
from measure.dissect import Packet
from measure.observed import Check, Observed

#: UDP port of registrations.
PORT = 434
_REQUEST, _REPLY = dissect.REGISTRATION_REQUEST, dissect.REGISTRATION_REPLY
#: Bytes before the extensions (RFC 5944, 3.3 and 3.4); type, length and SPI of an extension.
_FIXED_BYTES = {_REQUEST: 24, _REPLY: 20}
_MOBILE_HOME, _BEFORE_DIGEST = 32, 6


def verify(has_ipsec: bool, observed: Observed) -> Iterator[Check]:  # noqa: FBT001 - one of two kinds
    """Yield the checks of Mobile IP for every policy, at home and away.

    Args:
        has_ipsec: Whether the policy has IPsec tunnels.
        observed: The results of the repetition.
    """
    away = "registered with the foreign agent" if observed.care_of else "registered after the move"
    for name, stay, care_of in zip(("registered at home", away),
                                   observed.select_registered(observed.by_attachment("auth-mn")),
                                   ("", observed.care_of),
                                   strict=False):
        yield _check_registration(name, stay, care_of)
    if observed.registration_key:
        yield _check_authenticators(observed)
    yield check_forwarding(observed)
    if "traffic-core" in observed.captures:
        yield _check_core(has_ipsec, observed)


def _check_registration(name: str, packets: Sequence[Packet], expected: str) -> Check:
    """Check for an accepted registration at the mobile node's interface.

    `expected` is the care-of address to be registered, "" at home.
    """
    requests = [p for p in packets if p.mip_type == dissect.REGISTRATION_REQUEST]
    replies = [p for p in packets if p.mip_type == dissect.REGISTRATION_REPLY]
    care_of = requests[-1].mip_care_of if requests else "none"
    codes = [p.mip_code for p in replies]
    return Check(name, bool(codes) and codes[-1] in dissect.REGISTRATION_ACCEPTED
                 and expected in ("", care_of),
                 f"{len(requests)} requests, last with care-of address {care_of}; "
                 f"reply codes {codes}")


def _check_authenticators(observed: Observed) -> Check:
    """Check the authenticators of every request and of each attachment's last reply.

    The check uses the run's key and none of qop's daemons. A foreign agent's own denials have no
    authenticator: the home agent never received the request.
    """
    right = {_REQUEST: 0, _REPLY: 0}
    last: dict[bool, bool] = {}
    for time_s, message in observed.registrations:
        kind, is_right = message[0], is_authentic(message, observed.registration_key)
        right[kind] = right.get(kind, 0) + is_right
        if kind == _REPLY:
            last[time_s >= observed.moved_s] = is_right
    requests = sum(message[0] == _REQUEST for _, message in observed.registrations)
    stays = len(observed.select_registered([0, 1])) if observed.moves else 1
    return Check("registration is authentic", 0 < requests == right[_REQUEST]
                 and list(last.values()) == [True] * stays,
                 f"{right[_REQUEST]} of {requests} requests and {right[_REPLY]} replies bear the "
                 "run's key")


def is_authentic(message: bytes, key: bytes) -> bool:
    """Return whether a message has one valid mobile-home authentication extension (RFC 5944, 3.5).

    The authenticator is HMAC-MD5 over all bytes before it, including its own type, length and SPI.
    It is computed from the bytes alone, without the daemons' code.
    """
    at, places = _FIXED_BYTES.get(message[0], len(message)), []
    while at + 2 <= len(message):
        if message[at] == _MOBILE_HOME:
            places.append(at)
        at += 2 + message[at + 1]
    if len(places) != 1 or at != len(message):
        return False
    [place] = places
    covered, digest = message[:place + _BEFORE_DIGEST], \
        message[place + _BEFORE_DIGEST:place + 2 + message[place + 1]]
    return hmac.compare_digest(digest, hmac.digest(key, covered, "md5"))


def check_forwarding(observed: Observed) -> Check:
    """Check that no frame goes between mobile nodes without passing an agent."""
    direct = [p for p in observed.air if p.transmitter in observed.macs and p.receiver
              in observed.macs]
    sent = sum(p.transmitter in observed.macs for p in observed.air)
    return Check("all traffic passes the agent", sent > 0 and not direct,
                 f"{len(direct)} of {sent} frames of mobile nodes are addressed to one of them")


def _check_core(has_ipsec: bool, observed: Observed) -> Check:  # noqa: FBT001 - as above
    """Check that packets between the subnets are tunnelled as scenario and policy require."""
    crossing = [p for p in observed.packets_of("traffic-core") if p.ip_src]
    protocol, kind = ((dissect.ESP, "ESP") if has_ipsec else (dissect.IP_IN_IP, "IP-in-IP"))
    if not has_ipsec and not observed.care_of:
        inner = [p for p in crossing if observed.addresses & {p.ip_src, p.ip_dst}]
        return Check("traffic crosses the wire between the subnets", bool(inner),
                     f"{len(inner)} packets of the mobile nodes between the agents")
    tunnelled = [p for p in crossing if _is_tunnelled(p, protocol, observed)]
    both_ways = len({p.ip_src for p in tunnelled}) == 2  # both directions
    stray = [p for p in crossing if not _is_tunnelled(p, protocol, observed)
             and (observed.addresses & {p.ip_src, p.ip_dst} or p.ip_proto == dissect.IP_IN_IP)]
    allowed = 0 if has_ipsec or observed.peer_is_home else _allowed_outside(tunnelled, observed)
    return Check(f"{kind} between the agents", both_ways and len(stray) <= allowed,
                 f"{len(tunnelled)} packets, {'both ways' if both_ways else 'not both ways'}, "
                 f"{len(stray)} of the mobile nodes outside")


def _allowed_outside(tunnelled: Sequence[Packet], observed: Observed) -> float:
    """Return how many packets may pass outside the tunnel.

    A packet to a peer elsewhere is forwarded once after the tunnel. With sampling, both counts are
    of different packets. On a wire with losses, a packet may be captured after the tunnel and lost
    inside.
    """
    stray = math.sqrt(2 * len(tunnelled)) if counting.sampling_ratio(observed,
                                                                     "traffic-core") > 1 else 0.0
    lost = len(tunnelled) * observed.wires_lose / max(1 - observed.wires_lose, observed.wires_lose)
    return len(tunnelled) + lost + counting.DEVIATIONS * (stray + math.sqrt(lost))


def _is_tunnelled(packet: Packet, protocol: int, observed: Observed) -> bool:
    """Return whether a packet goes from agent to agent, by the outer IP header.

    Mobile IP's tunnel ends at the home agent's own address, IPsec's at the wired addresses.
    """
    ends = observed.agents if protocol == dissect.ESP else {observed.home_agent, observed.care_of}
    return packet.ip_proto == protocol and {packet.ip_src, packet.ip_dst} == ends

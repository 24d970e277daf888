"""Mobility is proven from packets: registrations, and tunnels between the agents."""

from __future__ import annotations

import hmac
import math
from collections.abc import Iterator, Sequence

from measure import counting, dissect
from measure.dissect import Packet
from measure.observed import Check, Observed

#: UDP's port of registrations.
PORT = 434
_REQUEST, _REPLY = dissect.REGISTRATION_REQUEST, dissect.REGISTRATION_REPLY
#: What stands before extensions (RFC 5944, 3.3 and 3.4), and type, length and index of one.
_FIXED_BYTES = {_REQUEST: 24, _REPLY: 20}
_MOBILE_HOME, _BEFORE_DIGEST = 32, 6


def verify(has_ipsec: bool, seen: Observed) -> Iterator[Check]:  # noqa: FBT001 - one of two kinds
    """Checks that hold for every policy, at home and away."""
    away = "registered with the foreign agent" if seen.care_of else "registered after the move"
    for name, stay, care_of in zip(("registered at home", away),
                                   seen.registered(seen.by_stay("auth-mn")), ("", seen.care_of),
                                   strict=False):
        yield _registered(name, stay, care_of)
    if seen.registration_key:
        yield _authentic(seen)
    yield by_the_agent(seen)
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


def _authentic(seen: Observed) -> Check:
    """Every request, and the last reply of each stay, under the run's key and not by our daemons.

    A foreign agent's own denials bear no authenticator: the home agent never saw the request.
    """
    right = {_REQUEST: 0, _REPLY: 0}
    last: dict[bool, bool] = {}
    for time_s, message in seen.registrations:
        kind, is_right = message[0], is_authentic(message, seen.registration_key)
        right[kind] = right.get(kind, 0) + is_right
        if kind == _REPLY:
            last[time_s >= seen.moved_s] = is_right
    requests = sum(message[0] == _REQUEST for _, message in seen.registrations)
    stays = len(seen.registered([0, 1])) if seen.moves else 1
    return Check("registration is authentic", 0 < requests == right[_REQUEST]
                 and list(last.values()) == [True] * stays,
                 f"{right[_REQUEST]} of {requests} requests and {right[_REPLY]} replies bear the "
                 "run's key")


def is_authentic(message: bytes, key: bytes) -> bool:
    """Whether one mobile-home authentication extension is there and right (RFC 5944, 3.5).

    HMAC-MD5 over all that precedes it, its own type, length and index. Of the octets alone, so that
    nothing of what the daemons run decides it.
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


def by_the_agent(seen: Observed) -> Check:
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
    allowed = 0 if has_ipsec or seen.peer_is_home else _going_on(tunnelled, seen)
    return Check(f"{kind} between the agents", both_ways and len(stray) <= allowed,
                 f"{len(tunnelled)} packets, {'both ways' if both_ways else 'not both ways'}, "
                 f"{len(stray)} of the mobile nodes outside")


def _going_on(tunnelled: Sequence[Packet], seen: Observed) -> float:
    """How many packets there may be beside the tunnel: to a peer elsewhere, each goes on once.

    Where 1 in so many is captured, both counts are of different ones. Where a wire loses packets, a
    packet's way on may be captured and its way in the tunnel lost.
    """
    stray = math.sqrt(2 * len(tunnelled)) if counting.one_in(seen, "traffic-core") > 1 else 0.0
    lost = len(tunnelled) * seen.wires_lose / max(1 - seen.wires_lose, seen.wires_lose)
    return len(tunnelled) + lost + counting.DEVIATIONS * (stray + math.sqrt(lost))


def _is_tunnelled(packet: Packet, protocol: int, seen: Observed) -> bool:
    """From agent to agent; tshark's first IP header is the outer one.

    Mobile IP's tunnel has the home agent's own address at its other end, IPsec's the wired ones.
    """
    ends = seen.agents if protocol == dissect.ESP else {seen.home_agent, seen.care_of}
    return packet.ip_proto == protocol and {packet.ip_src, packet.ip_dst} == ends

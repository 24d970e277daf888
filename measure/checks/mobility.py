"""Check from packets how a mobile node stays reachable: Mobile IP, or a tunnel that moves with it.

Each function takes the packets and kernel state of a repetition (one measurement of a policy), and
returns or yields checks. `check_mobility` checks Mobile IP registrations, and the tunnels between
home agents. `check_no_mobile_ip` is for networks without Mobile IP, and for IPsec (MOBIKE),
WireGuard, QUIC or MPTCP tunnels that move with their node. `check_wireguard` checks a WireGuard
tunnel: handshakes, sessions, and that no packet bypasses it. `check_forwarding` checks that no
frame goes past the agents. `measure.checks.proof` calls these functions.
"""

from __future__ import annotations

import hmac
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from measure.capture import pcap, tshark
from measure.capture.pcap import CapturedFrame
from measure.capture.tcpdump import AUTH, MOVE, TRAFFIC
from measure.capture.tshark import Packet
from measure.checks import packet_counts
from measure.checks.observation import Check, Observation
from measure.packets import quic, wireguard
from measure.packets.mptcp import TCP
from measure.services import iperf
from policies.layers import MOBIKE, MPTCP, QUIC, WIREGUARD, WireGuardLayer

#: UDP port of registrations.
MOBILE_IP_PORT = 434
_REQUEST, _REPLY = tshark.REGISTRATION_REQUEST, tshark.REGISTRATION_REPLY
#: Bytes before the extensions (RFC 5944, 3.3 and 3.4); type, length and SPI of an extension.
_FIXED_BYTES = {_REQUEST: 24, _REPLY: 20}
_MOBILE_HOME, _BEFORE_DIGEST = 32, 6


def check_mobility(has_ipsec: bool,  # noqa: FBT001 - one of two kinds
                   observed: Observation) -> Iterator[Check]:
    """Yield the checks of Mobile IP for a mobile node at home and away.

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
    """Check that a Mobile IP registration was accepted, at the mobile node's interface.

    `expected` is the care-of address to be registered, "" at home.
    """
    requests = [p for p in packets if p.mip_type == tshark.REGISTRATION_REQUEST]
    replies = [p for p in packets if p.mip_type == tshark.REGISTRATION_REPLY]
    care_of = requests[-1].mip_care_of if requests else "none"
    codes = [p.mip_code for p in replies]
    return Check(name, bool(codes) and codes[-1] in tshark.REGISTRATION_ACCEPTED
                 and expected in ("", care_of),
                 f"{len(requests)} requests, last with care-of address {care_of}; "
                 f"reply codes {codes}")


def _check_authenticators(observed: Observation) -> Check:
    """Check the authenticators of Mobile IP registration requests and last replies.

    The check uses the run's key and none of qop's daemons. A foreign agent's own denials have no
    authenticator: the home agent never received the request.
    """
    right = {_REQUEST: 0, _REPLY: 0}
    last: dict[bool, bool] = {}
    for time_s, message in observed.registrations:
        kind, is_right = message[0], is_authentic_registration(message, observed.registration_key)
        right[kind] = right.get(kind, 0) + is_right
        if kind == _REPLY:
            last[time_s >= observed.moved_s] = is_right
    requests = sum(message[0] == _REQUEST for _, message in observed.registrations)
    stays = len(observed.select_registered([0, 1])) if observed.moves else 1
    return Check("registration is authentic", 0 < requests == right[_REQUEST]
                 and list(last.values()) == [True] * stays,
                 f"{right[_REQUEST]} of {requests} requests and {right[_REPLY]} replies bear the "
                 "run's key")


def is_authentic_registration(message: bytes, key: bytes) -> bool:
    """Return whether a registration message has one valid mobile-home authenticator.

    The authenticator (RFC 5944, 3.5) is HMAC-MD5 over all bytes before it, including its own type,
    length and SPI. It is computed from the bytes alone, without the daemons' code.
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


def check_forwarding(observed: Observation) -> Check:
    """Check that no frame goes directly from one mobile node to another, past the agents."""
    direct = [p for p in observed.air if p.transmitter in observed.macs and p.receiver
              in observed.macs]
    sent = sum(p.transmitter in observed.macs for p in observed.air)
    return Check("all traffic passes the agent", sent > 0 and not direct,
                 f"{len(direct)} of {sent} frames of mobile nodes are addressed to one of them")


def _check_core(has_ipsec: bool, observed: Observation) -> Check:  # noqa: FBT001 - as above
    """Check that packets between the subnets are in the tunnels that the policy requires."""
    crossing = [p for p in observed.packets_of("traffic-core") if p.ip_src]
    protocol, kind = ((tshark.ESP, "ESP") if has_ipsec else (tshark.IP_IN_IP, "IP-in-IP"))
    if not has_ipsec and not observed.care_of:
        inner = [p for p in crossing if observed.addresses & {p.ip_src, p.ip_dst}]
        return Check("traffic crosses the wire between the subnets", bool(inner),
                     f"{len(inner)} packets of the mobile nodes between the agents")
    tunnelled = [p for p in crossing if _is_tunnelled(p, protocol, observed)]
    both_ways = len({p.ip_src for p in tunnelled}) == 2  # both directions
    stray = [p for p in crossing if not _is_tunnelled(p, protocol, observed)
             and (observed.addresses & {p.ip_src, p.ip_dst} or p.ip_proto == tshark.IP_IN_IP)]
    allowed = 0 if has_ipsec or observed.peer_is_home else _allowed_outside(tunnelled, observed)
    return Check(f"{kind} between the agents", both_ways and len(stray) <= allowed,
                 f"{len(tunnelled)} packets, {'both ways' if both_ways else 'not both ways'}, "
                 f"{len(stray)} of the mobile nodes outside")


def _allowed_outside(tunnelled: Sequence[Packet], observed: Observation) -> float:
    """Return how many packets between the subnets may be outside of the tunnel.

    A packet to a peer elsewhere is forwarded once after the tunnel. With sampling, both counts are
    of different packets. On a wire with losses, a packet may be captured after the tunnel and lost
    inside.
    """
    is_sampled = packet_counts.sampling_ratio(observed, "traffic-core") > 1
    stray = math.sqrt(2 * len(tunnelled)) if is_sampled else 0.0
    lost = len(tunnelled) * observed.wires_lose / max(1 - observed.wires_lose, observed.wires_lose)
    return len(tunnelled) + lost + packet_counts.DEVIATIONS * (stray + math.sqrt(lost))


def _is_tunnelled(packet: Packet, protocol: int, observed: Observation) -> bool:
    """Return whether a packet's outer IP header leads from one home agent to the other.

    Mobile IP's tunnel ends at the home agent's own address, IPsec's at the wired addresses.
    """
    ends = observed.agents if protocol == tshark.ESP else {observed.home_agent, observed.care_of}
    return packet.ip_proto == protocol and {packet.ip_src, packet.ip_dst} == ends


# --- Tunnels that follow their node to another subnet ---

#: Exchange type of messages within an IKEv2 SA (RFC 7296, 3.1).
_INFORMATIONAL = 37


def check_no_mobile_ip(observed: Observation) -> Iterator[Check]:
    """Yield the checks for a node without Mobile IP, at home and away."""
    messages = [p for name in ("auth-mn", "traffic-air") for p in observed.packets_of(name)
                if p.is_mobile_ip]
    yield Check("no Mobile IP", not messages, f"{len(messages)} of its messages")
    yield check_forwarding(observed)
    if not observed.care_of:
        return
    yield _check_new_address(observed)
    if observed.follows_by != QUIC:  # a program has its addresses, and not the kernel
        yield _check_kernels(observed)
    if observed.follows_by == MOBIKE:
        yield _check_mobike(observed)


def _is_tunnel_packet(packet: Packet, observed: Observation) -> bool:
    """Return whether a packet belongs to the mobile node's tunnel."""
    if observed.follows_by == MOBIKE:
        return packet.is_esp
    if observed.follows_by == MPTCP:
        return packet.ip_proto == TCP
    port = quic.QUIC_PORT if observed.follows_by == QUIC else wireguard.WIREGUARD_PORT
    return port in (packet.udp_src, packet.udp_dst)


def _check_new_address(observed: Observation) -> Check:
    """Check that after a move the tunnel uses the node's new address in both directions.

    Packets behind the visited access point and between the subnets are checked. If an
    authentication has no traffic, only the capture behind the visited access point exists.
    """
    ends = {observed.care_of, observed.home_agent}
    names = ["auth-foreign"] if observed.part else [
        name for name in ("traffic-foreign", "traffic-core", "traffic-wire")
        if name in observed.captures]
    of_node = [p for name in names for p in observed.packets_of(name) if observed.care_of in (
        p.ip_src, p.ip_dst)]
    inside = [p for p in of_node if _is_tunnel_packet(p, observed) and {p.ip_src, p.ip_dst} == ends]
    # Liveness probes and other IKE messages are not packets of the node's programs.
    outside = [p for p in of_node if not _is_tunnel_packet(p, observed) and not p.is_isakmp]
    ways = {p.ip_src for p in inside}
    return Check("tunnel goes by the new address", ways == ends and not outside,
                 f"{len(inside)} packets of the tunnel between {observed.care_of} and "
                 f"{observed.home_agent}, {len(ways)} ways; {len(outside)} others of that address")


def _check_kernels(observed: Observation) -> Check:
    """Check that both kernels have only the node's present address for the tunnel.

    Behind a router with NAT, the agent's kernel has the router's address.
    """
    kernel = observed.raw["kernel"]
    if observed.follows_by == MOBIKE:
        ends = [{state["src"], state["dst"]} - {observed.home_agent} for states in kernel.get(
            "after_traffic", {}).values() for state in states]
    elif observed.follows_by == MPTCP:
        ends = [{address} for state in observed.raw.get("mptcp", {}).values()
                for subflow in state["subflows"] for address in subflow
                if address not in (observed.home_agent, *_companion_addresses(observed))]
    else:
        ends = [{peer["endpoint"]} for peers in kernel.get("wireguard", {}).values()
                for peer in peers if peer["endpoint"] and peer["handshake_s"]
                and peer["endpoint"] != observed.home_agent
                and peer["endpoint"] not in _companion_addresses(observed)]
    expected = {observed.care_of} if not observed.translated else {
        observed.translated} if observed.follows_by == WIREGUARD else {
        observed.care_of, observed.translated}
    good = [addresses for addresses in ends if len(addresses) == 1 and addresses <= expected]
    return Check("kernels have the new address", bool(ends) and len(good) == len(ends)
                 and set().union(*good) == expected,
                 f"{len(good)} of {len(ends)} say {' or '.join(sorted(expected))}")


def _companion_addresses(observed: Observation) -> set[str]:
    """Return the home addresses of the other mobile nodes, at which their tunnels end."""
    return set(observed.addresses) - {observed.care_of} - {observed.home_address}


def _check_mobike(observed: Observation) -> Check:
    """Check that MOBIKE signalled the move inside the existing IKE SA."""
    away = [p for p in observed.by_attachment("auth-mn")[-1] if p.is_isakmp]
    others = [p for p in away if p.isakmp_exchange != _INFORMATIONAL]
    ways = {p.ip_src for p in away if {p.ip_src, p.ip_dst}
            == {observed.care_of, observed.home_agent}}
    return Check("MOBIKE", len(ways) == 2 and not others,
                 f"{len(away)} ISAKMP packets after the move, {len(away) - len(others)} "
                 f"informational; {'both ways' if len(ways) == 2 else 'not both ways'} with "
                 f"{observed.care_of}")


# --- WireGuard between a mobile node and its agent ---

_UDP, _ICMP = 17, 1


def check_wireguard(layer: WireGuardLayer, observed: Observation) -> Iterator[Check]:
    """Check WireGuard's handshake and sessions, and that no packet bypasses the tunnel."""
    traffic = wireguard.classify_traffic(tunnel_frames(observed), {wireguard.WIREGUARD_PORT})
    for check in wireguard.check_wireguard_traffic(traffic, streamed_bytes(observed)):
        yield replace(check, check=f"WireGuard: {check.check}")
    states = observed.raw["kernel"].get("wireguard", {})
    begun_s = observed.raw["stamps"].get("start", float("inf"))
    fresh = [any(peer["handshake_s"] and peer["handshake_s"] >= begun_s - 1 for peer in peers)
             for peers in states.values()]
    yield Check("WireGuard: sessions in the kernels", len(fresh) > 1 and all(fresh),
                f"{sum(fresh)} of {len(fresh)} ends have had a handshake since it began")
    if layer.mtu and "iperf_tcp" in observed.raw:
        # A full TCP segment is as long as the tunnel allows, and gets no padding beyond it.
        yield Check("WireGuard: MTU", traffic.longest_bytes == layer.mtu,
                    f"the longest packet inside has {traffic.longest_bytes} bytes, {layer.mtu} "
                    "expected")
    peers = [peer for ends in states.values() for peer in ends]
    if layer.preshared_key:
        keyed = sum(bool(peer.get("has_preshared_key")) for peer in peers)
        yield Check("WireGuard: pre-shared key", len(peers) > 1 and keyed == len(peers),
                    f"{keyed} of {len(peers)} peers in the kernels have one")
    if layer.keepalive:
        intervals = sorted({peer.get("keepalive_s", 0) for peer in peers} - {0})
        yield Check("WireGuard: keepalive", intervals == [layer.keepalive],
                    f"kernels say {intervals or 'none'} s, {layer.keepalive} expected")


def streamed_bytes(observed: Observation) -> int:
    """Return how many bytes the streams carried, or 1 for an authentication without a stream."""
    sizes = [iperf.summarize_report(observed.raw[name])["bytes"] for name
             in ("iperf_tcp", "iperf_udp")
             if name in observed.raw]
    return max(1, round(sum(sizes)))


def tunnel_frames(observed: Observation) -> list[CapturedFrame]:
    """Return the mobile node's packets behind its access point, without Mobile IP and DHCP."""
    moved = observed.moved_s
    taken: list[CapturedFrame] = []
    # Captures of the traffic that saw the move have the packets of its own captures, too.
    saw_move = observed.capture_path(f"{TRAFFIC}-foreign").exists()
    for part in (AUTH,) if observed.part else (AUTH, TRAFFIC) if saw_move else (
            AUTH, MOVE, TRAFFIC):
        home, away = (observed.capture_path(f"{part}-{point}") for point in ("wire", "foreign"))
        # A part that begins after the handoff has one capture, behind the access point in use.
        has_both = away.exists()
        taken += [frame for frame in _read_ip_frames(home) if frame.at_s < moved or not has_both]
        taken += [frame for frame in _read_ip_frames(away) if frame.at_s >= moved]
    mac = bytes.fromhex(observed.mac.replace(":", ""))
    return sorted((frame for frame in taken
                   if mac in (frame.data[:6], frame.data[6:12]) and not _is_signalling(frame)),
                  key=lambda frame: frame.at_s)


@dataclass
class TunnelTraffic:
    """The mobile node's packets behind access points: those of its tunnel, and others.

    - `packets`, `inner_bytes`: packets of the tunnel, and bytes inside them
    - `strangers`: other packets, by description
    """

    packets: int = 0
    inner_bytes: int = 0
    strangers: Counter[str] = field(default_factory=Counter)


def count_tunnel_traffic(frames: Iterable[CapturedFrame],
                         count_inner: Callable[[CapturedFrame], int | None]) -> TunnelTraffic:
    """Count every IPv4 packet as one of the tunnel or as another one. Frames may be truncated.

    Args:
        frames: The mobile node's packets (`tunnel_frames`).
        count_inner: Function that returns the bytes inside a packet of the tunnel, None for others.
    """
    traffic = TunnelTraffic()
    for frame in frames:
        if frame.kind != pcap.IPV4:
            continue
        inner_bytes = count_inner(frame)
        if inner_bytes is None:
            traffic.strangers[f"of protocol {frame.payload[9]}"] += 1
        else:
            traffic.packets += 1
            traffic.inner_bytes += inner_bytes
    return traffic


def check_tunnelled(name: str, traffic: TunnelTraffic, owner: str) -> Check:
    """Check that no IPv4 packet of the mobile node bypasses its tunnel.

    Packets of Mobile IP and DHCP are not in `traffic`. The check also fails without the tunnel's
    packets.

    Args:
        name: Name of the check.
        traffic: The mobile node's packets.
        owner: Words for the tunnel's packets, such as "QUIC's".
    """
    shown = ", ".join(f"{count} {what}" for what, count in traffic.strangers.most_common(3))
    return Check(name, traffic.packets > 0 and not traffic.strangers,
                 f"{traffic.packets} packets are {owner}, {traffic.strangers.total()} are not"
                 + (f" ({shown})" if shown else ""))


def _read_ip_frames(file: Path) -> Sequence[CapturedFrame]:
    return list(pcap.read_frames(file)) if file.exists() else ()


def _is_signalling(frame: CapturedFrame) -> bool:
    """Return whether a frame belongs to agent discovery, registration or DHCP."""
    packet = frame.payload
    if len(packet) < 28:
        return False
    start = (packet[0] & 15) * 4
    if packet[9] == _ICMP:
        return packet[start] in (tshark.AGENT_ADVERTISEMENT, tshark.AGENT_SOLICITATION)
    ports = {int.from_bytes(packet[start + at:start + at + 2], "big") for at in (0, 2)}
    return packet[9] == _UDP and bool(({MOBILE_IP_PORT} | tshark.DHCP_PORTS) & ports)

"""Check a tunnel behind a router that translates addresses and ports (NAT).

The mobile node idles behind the router, then the router deletes its mappings, and the node idles
again (`AttachmentSteps.probe_translation`). Captures on both sides of the router have the tunnel's
packets. `check_translation` takes them with the kernels' state, and yields checks. The router
translates, ESP is in UDP, the peer reaches the idle node, and the tunnel goes on at another port.
`measure.checks.proof` calls it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from measure.capture.pcap import IPSEC_NAT_PORT
from measure.capture.tcpdump import NAT
from measure.capture.tshark import Packet
from measure.checks.observation import Check, Observation
from policies import Layers
from policies.layers import MOBIKE, IpsecLayer

_INSIDE, _OUTSIDE = f"{NAT}-inside", f"{NAT}-outside"
#: Length of an IPv4 packet with a NAT keepalive: one byte in UDP (RFC 3948, 2.3).
_KEEPALIVE_BYTES = 29
#: Deviation of charon's timers, which count whole seconds (s).
_TIMER_S = 1.5


def check_translation(layers: Layers, observed: Observation) -> Iterator[Check]:
    """Yield the checks of the mobile node's tunnel behind a router with NAT.

    Args:
        layers: The layers of the policy.
        observed: The results of the repetition.
    """
    yield _check_addresses(observed)
    if observed.follows_by == MOBIKE:
        yield _check_encapsulation(observed)
    yield _check_idle_node(observed)
    yield _check_ports(observed)
    yield _check_new_port(observed)
    if layers.ipsec is not None:
        yield from _check_timers(layers.ipsec, observed)


def _udp_packets(packets: Iterable[Packet], source: str, target: str, begin: float = 0.0,
            end: float = float("inf")) -> list[Packet]:
    """Return the UDP packets from one address to another, in a time.

    An ICMP error has the ports of the packet that it is about.
    """
    return [p for p in packets if (p.ip_src, p.ip_dst) == (source, target)
            and p.udp_src is not None and p.icmp_type is None and begin <= p.time_s < end]


def _probe_stamps(observed: Observation, *names: str) -> list[float]:
    """Return stamps of the probes behind NAT, infinity for those that are absent."""
    return [float(observed.raw["stamps"].get(f"{NAT}_{name}", float("inf"))) for name in names]


def _show_ports(packets: Sequence[Packet]) -> str:
    """Return address and ports of the packets' senders as text."""
    ports = sorted({p.udp_src for p in packets if p.udp_src is not None})
    return f"{packets[0].ip_src}:{','.join(map(str, ports))}" if packets else "nobody"


def _check_addresses(observed: Observation) -> Check:
    """Check that no packet outside of the router has the node's address or port."""
    agent, outside = observed.home_agent, observed.packets_of(_OUTSIDE)
    sent = [_udp_packets(observed.packets_of(_INSIDE), observed.care_of, agent),
            _udp_packets(outside, observed.translated, agent)]
    back = [_udp_packets(outside, agent, observed.translated),
            _udp_packets(observed.packets_of(_INSIDE), agent, observed.care_of)]
    left = [p for p in outside if observed.care_of in (p.ip_src, p.ip_dst)]
    ports = [{p.udp_src for p in packets} for packets in sent]
    return Check("router translates addresses and ports",
                 all([*sent, *back]) and not left and ports[0].isdisjoint(ports[1]),
                 f"{len(sent[0])} packets from {_show_ports(sent[0])} inside, {len(sent[1])} from "
                 f"{_show_ports(sent[1])} outside; back {len(back[0])} outside, {len(back[1])} "
                 f"inside; {len(left)} with the node's address outside")


def _check_encapsulation(observed: Observation) -> Check:
    """Check that ESP is in UDP after the move, in packets and in both kernels."""
    esp = [p for name in ("traffic-foreign", "traffic-wire", _INSIDE)
           for p in observed.packets_of(name)
           if p.is_esp and observed.care_of in (p.ip_src, p.ip_dst)]
    in_udp = sum(IPSEC_NAT_PORT in (p.udp_src, p.udp_dst) for p in esp)
    states = [state for of_node in observed.raw["kernel"].get("after_traffic", {}).values()
              for state in of_node]
    encapsulated = sum("encap_dport" in state for state in states)
    return Check("ESP in UDP", 0 < in_udp == len(esp) and 0 < encapsulated == len(states),
                 f"{in_udp} of {len(esp)} packets, {encapsulated} of {len(states)} SAs in the "
                 "kernels")


def _check_idle_node(observed: Observation) -> Check:
    """Check that the peer reaches the mobile node after idle time, by packets and by the echo."""
    began, ended = _probe_stamps(observed, "kept", "restarted_idle")
    nat, agent = observed.raw.get("nat", {}), observed.home_agent
    is_answered = nat.get("kept", {}).get("from_peer", False)
    sent = _udp_packets(observed.packets_of(_OUTSIDE), agent, observed.translated, began, ended)
    passed = _udp_packets(observed.packets_of(_INSIDE), agent, observed.care_of, began, ended)
    is_first = bool(sent and passed) and passed[0].time_s - sent[0].time_s < _TIMER_S
    return Check("peer reaches the idle node", is_answered and is_first,
                 f"after {nat.get('idle_s', 0):g} s: echo request "
                 f"{'answered' if is_answered else 'not answered'}; {len(sent)} packets to the "
                 f"router, {len(passed)} to the node")


def _check_ports(observed: Observation) -> Check:
    """Check that the router gives the tunnel another port when it has deleted its mappings."""
    [restarted] = _probe_stamps(observed, "restarted_idle")
    sent = [_udp_packets(observed.packets_of(_OUTSIDE), observed.translated, observed.home_agent,
                         *times) for times in ((0.0, restarted), (restarted,))]
    ports = [{p.udp_src for p in packets} for packets in sent]
    return Check("router changes the port", all(ports) and ports[0].isdisjoint(ports[1]),
                 f"{_show_ports(sent[0])} before, {_show_ports(sent[1])} after")


def _check_new_port(observed: Observation) -> Check:
    """Check that the agent uses the node's new port before a program of the node sends.

    The packets and the agent's kernel have the port, and the peer's echo request is answered.
    """
    [restarted] = _probe_stamps(observed, "restarted_idle")
    nat, outside = observed.raw.get("nat", {}), observed.packets_of(_OUTSIDE)
    router, agent = observed.translated, observed.home_agent
    new = {p.udp_src for p in _udp_packets(outside, router, agent, restarted)}
    to_new = [p for p in _udp_packets(outside, agent, router, restarted)
              if p.udp_dst in new and not p.is_isakmp]
    known = nat.get("endpoints", [[]])[-1]
    is_known = bool(known) and set(known) <= {f"{router}:{port}" for port in new}
    of_peer, of_node = (nat.get("restarted", {}).get(f"from_{end}") for end in ("peer", "node"))
    return Check("tunnel goes on at the new port", bool(of_peer and to_new) and is_known,
                 f"echo request of the peer {'answered' if of_peer else 'not answered'}, "
                 f"of the node after it {'answered' if of_node else 'not answered'}; "
                 f"{len(to_new)} packets of the tunnel to port "
                 f"{', '.join(map(str, sorted(port for port in new if port)))}; the agent's kernel "
                 f"says {', '.join(known) or 'nothing'}")


def _check_timers(layer: IpsecLayer, observed: Observation) -> Iterator[Check]:
    """Check the intervals of NAT keepalives and of dead peer detection while the node idles."""
    began, ended = _probe_stamps(observed, "kept_idle", "kept")
    sent = _udp_packets(observed.packets_of(_INSIDE), observed.care_of, observed.home_agent, began,
                        ended)
    if layer.keepalive:
        gaps = [later.time_s - earlier.time_s for earlier, later in itertools.pairwise(sent)
                if later.ip_bytes == _KEEPALIVE_BYTES]
        yield Check("NAT keepalives", *_compare_intervals(gaps, layer.keepalive))
    if layer.dpd:
        # Where the router's mapping has ended, the node updates its address right after a request.
        gaps = [gap_s for earlier, later in itertools.pairwise(p for p in sent if p.is_isakmp)
                if (gap_s := later.time_s - earlier.time_s) > _TIMER_S]
        yield Check("dead peer detection", *_compare_intervals(gaps, layer.dpd))


def _compare_intervals(gaps: Sequence[float], expected_s: int) -> tuple[bool, str]:
    """Return whether intervals are as long as a timer of the policy, and a text with them."""
    text = ", ".join(f"{gap:.1f}" for gap in gaps) or "no"
    return (bool(gaps) and all(abs(gap - expected_s) <= _TIMER_S for gap in gaps),
            f"{len(gaps)} after {text} s; {expected_s} s expected")

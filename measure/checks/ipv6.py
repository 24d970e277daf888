"""Check from packets that a mobile node used IPv6: its address by SLAAC, and its traffic.

`check_ipv6` takes the packets of a repetition (one measurement of a policy) in a network with
`ip: 6`, and yields checks. The address must come from a router advertisement, after a search for
duplicates (RFC 4861 and RFC 4862). The first packet and the streams must be IPv6 packets between
the ends, and no IPv4 packet of the mobile node may pass except those of Mobile IP.
`measure.checks.proof` calls it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from measure.capture import pcap, tshark
from measure.capture.tcpdump import AUTH
from measure.checks.observation import Check, Observation

#: Types of ICMPv6 messages (RFC 4861).
SOLICITATION, ADVERTISEMENT, NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT = \
    tshark.NEIGHBOUR_DISCOVERY
_ICMPV6 = 58
_TCP = 6
_UNSPECIFIED = bytes(16)
#: Offsets in an IPv6 packet: next header, source, message, its target, and a router's options.
_NEXT_HEADER, _SOURCE, _MESSAGE, _TARGET, _OPTIONS = 6, 8, 40, 48, 56
#: Option with a prefix (RFC 4861, 4.6.2): kind, offset of flags and prefix, autonomous flag.
_PREFIX, _FLAGS, _PREFIX_AT, _AUTONOMOUS = 3, 3, 16, 0x40
_SUBNET_BYTES = 8


@dataclass(frozen=True)
class NeighbourMessage:
    """A message of neighbour discovery.

    `prefixes` are those from which stations may make addresses, in a router advertisement.
    """

    at_s: float
    kind: int
    sender: str
    source: bytes
    target: bytes
    prefixes: tuple[bytes, ...] = ()


def read_neighbour_messages(file: Path) -> list[NeighbourMessage]:
    """Return the messages of neighbour discovery in an Ethernet capture, in order of time.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    found = []
    for frame in pcap.read_frames(file):
        packet = frame.payload
        if frame.kind != pcap.IPV6 or len(packet) < _TARGET or packet[_NEXT_HEADER] != _ICMPV6 or (
                packet[_MESSAGE] not in tshark.NEIGHBOUR_DISCOVERY):
            continue
        kind = packet[_MESSAGE]
        found.append(NeighbourMessage(
            frame.at_s, kind, frame.data[6:12].hex(":"), packet[_SOURCE:_SOURCE + 16],
            packet[_TARGET:_TARGET + 16] if kind > ADVERTISEMENT else b"",
            tuple(_read_prefixes(packet)) if kind == ADVERTISEMENT else ()))
    return found


def _read_prefixes(packet: bytes) -> Iterator[bytes]:
    place = _OPTIONS
    while place + 2 <= len(packet) and packet[place + 1]:
        option = packet[place:place + packet[place + 1] * 8]
        if option[0] == _PREFIX and len(option) > _PREFIX_AT and option[_FLAGS] & _AUTONOMOUS:
            yield option[_PREFIX_AT:_PREFIX_AT + _SUBNET_BYTES]
        place += len(option)


def check_ipv6(observed: Observation) -> Iterator[Check]:
    """Yield the checks of the mobile node's IPv6 address and of its traffic."""
    yield _check_slaac(observed)
    yield _check_traffic(observed)


def _check_slaac(observed: Observation) -> Check:
    """Check that the node had no address, and made one from a router advertisement."""
    own = IPv6Address(observed.ipv6_ends[0]).packed
    file = observed.capture_path(f"{AUTH}-mn")
    messages = read_neighbour_messages(file) if file.exists() else []
    begun_s = float(observed.raw["stamps"].get("start", 0.0))
    advertised_s = _first_time([m for m in messages if own[:_SUBNET_BYTES] in m.prefixes
                           and m.at_s >= begun_s])
    searched_s = _first_time([m for m in messages if m.kind == NEIGHBOUR_SOLICITATION
                         and m.sender == observed.mac and m.source == _UNSPECIFIED
                         and m.target == own])
    early = [p for p in observed.packets_of(f"{AUTH}-mn")
             if p.ip_src == observed.ipv6_ends[0] and p.time_s < searched_s]
    had_none = (observed.raw.get("left") or {}).get("addressed") is False
    kinds = Counter(message.kind for message in messages)
    return Check("address by SLAAC", begun_s <= advertised_s < searched_s < float("inf")
                 and not early and had_none,
                 f"{kinds[SOLICITATION]} router solicitations, {kinds[ADVERTISEMENT]} "
                 f"advertisements, {kinds[NEIGHBOUR_SOLICITATION]} neighbour solicitations, "
                 f"{kinds[NEIGHBOUR_ADVERTISEMENT]} advertisements; "
                 f"{'its' if searched_s < float('inf') else 'no'} search for duplicates of "
                 f"{observed.ipv6_ends[0]}; {len(early)} packets from it before; "
                 f"{'no address' if had_none else 'an address'} when it began")


def _first_time(messages: Sequence[NeighbourMessage]) -> float:
    return min((message.at_s for message in messages), default=float("inf"))


def _check_traffic(observed: Observation) -> Check:
    """Check that the answered packet and the streams are IPv6, and nothing else is IPv4.

    In IPsec's tunnel, the outer packets are read here, and the inner ones by the check *no clear
    inner packet*. The mobile node's interface shows its answered packet without the tunnel.
    """
    packets = [p for name in ("auth-mn", "auth-wire", "auth-foreign", "traffic-wire")
               for p in observed.packets_of(name)]
    own, peer = observed.ipv6_ends
    between = [p for p in packets if {p.ip_src, p.ip_dst} == {own, peer} or (
        p.ip_proto == tshark.ESP and {p.ip_src, p.ip_dst} == {own, observed.home_agent})]
    answers = sum(p.icmp_type == tshark.ECHO_REPLY_6 and p.ip_src == peer for p in between)
    streams = {name: {p.ip_src for p in between if p.ip_proto in (protocol, tshark.ESP)}
               for name, protocol in (("tcp", _TCP), ("udp", pcap.UDP))}
    complete = all(len(streams[name]) == len(observed.ipv6_ends) if name == "tcp"
                   else own in streams[name]
                   for name in streams if f"iperf_{name}" in observed.raw)
    old = [p for p in packets if p.ip_src and not p.is_ipv6 and not p.is_mobile_ip
           and observed.addresses & {p.ip_src, p.ip_dst}]
    return Check("traffic goes over IPv6", answers > 0 and complete and not old,
                 f"{len(between)} packets between {' and '.join(observed.ipv6_ends)}, {answers} "
                 f"answers among them; {len(old)} IPv4 packets of the mobile node but those "
                 "of Mobile IP")

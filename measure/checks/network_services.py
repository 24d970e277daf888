"""Check the services behind the access points from packets: DHCP and RADIUS servers.

Each function takes the packets of a repetition (one measurement of a policy), and returns or yields
checks. `check_services` checks that the DHCP lease was negotiated by the four messages of RFC 2131.
It also checks, by the delay of packets, that a RADIUS server is as far away as the scenario says,
and by the kernels' queues the rates and bursts of losses of wires.
Further functions check the Message-Authenticator of RADIUS messages, accounting, and the forwarding
of requests to another realm. `measure.checks.proof` calls them. A service that the scenario lacks
has no checks.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from measure.capture import pcap, tshark
from measure.capture.tcpdump import AUTH
from measure.checks.observation import Check, Observation, RadiusWire, join_values
from measure.packets import eap
from measure.records.judgement import AUTHENTICATOR_CHECK, FORWARDING_CHECK
from topologies import queueing_disciplines


def check_services(has_dot1x: bool,  # noqa: FBT001 - one of two kinds
                   observed: Observation) -> Iterator[Check]:
    """Yield the checks of the mobile node's lease, and of the RADIUS servers in use.

    Args:
        has_dot1x: Whether the policy has 802.1X.
        observed: The results of the repetition.
    """
    if observed.uses_dhcp:
        yield _check_lease(observed)
    if has_dot1x and observed.radius_wires:
        yield _check_distance(observed)
        if any(wire.jitter_s for wire in observed.radius_wires):
            yield _check_jitter(observed)
    if has_dot1x and observed.silent_servers:
        yield _check_failover(observed)
    if not observed.part:  # the kernels' queues are read after the streams
        yield from _check_wires(observed)


# --- Message-Authenticator of RADIUS (RFC 3579, and BlastRADIUS) ---

#: Capture of requests with and without the attribute.
_PROBE = "port-radius"
#: Code, number, length and authenticator of a RADIUS message.
_RADIUS_BYTES = 20


def check_message_authenticator(observed: Observation) -> Check:
    """Check that every RADIUS message has a right Message-Authenticator, and the server insists.

    The server must answer the second of two requests, which has the attribute, and not the first.
    """
    messages = [message for name in ("wire", "foreign")
                for message in _read_radius(observed, f"{AUTH}-{name}")]
    authentic = sum(is_authentic for _, _, is_authentic in messages)
    probes = _read_radius(observed, _PROBE, eap.PROBE_USER)
    asked = {number: is_authentic for is_request, number, is_authentic in probes if is_request}
    answered = {number for is_request, number, _ in probes if not is_request}
    signed = [number for number, has_one in asked.items() if has_one]
    bare = [number for number, has_one in asked.items() if not has_one]
    return Check(AUTHENTICATOR_CHECK, bool(messages) and authentic == len(messages)
                 and bool(signed) and bool(bare) and {*signed} == answered,
                 f"{authentic} of {len(messages)} RADIUS messages have a right one; once in this "
                 f"testbed, the server answered {len(answered.intersection(bare))} of {len(bare)} "
                 f"requests without it, and {len(answered.intersection(signed))} of {len(signed)} "
                 "with it")


def check_accounting(observed: Observation) -> Check:
    """Check that the access point reports the mobile node's session, and the server takes it."""
    found = []
    for name in ("wire", "foreign"):
        file = observed.capture_path(f"{AUTH}-{name}")
        if file.exists():
            messages = (message for _, message in pcap.udp_payloads(file, eap.ACCOUNTING_PORT))
            found.append(dict(eap.find_started_sessions(
                messages, observed.radius_secret)).get(observed.mac))
    taken = sum(each is True for each in found)
    return Check("session is accounted", bool(found) and taken == len(found),
                 f"{sum(each is not None for each in found)} of {len(found)} access points report "
                 f"the mobile node's session, and {taken} reports are taken by the server")


def _read_radius(observed: Observation, capture: str,
                 user: bytes = b"") -> list[tuple[bool, int, bool]]:
    """Read the RADIUS messages in a capture.

    Args:
        observed: The repetition.
        capture: Name of the capture.
        user: Return only requests for this user and their answers; b"" for all.

    Returns:
        For each message, whether it is a request, its identifier, and whether it is authentic.
    """
    file = observed.capture_path(capture)
    requests: dict[tuple[int, int], bytes] = {}
    found = []
    for datagram in pcap.udp_datagrams(file) if file.exists() else ():
        message, secret = datagram.payload, observed.radius_secret
        is_request = datagram.target_port == eap.RADIUS_PORT
        if len(message) < _RADIUS_BYTES or eap.RADIUS_PORT not in (
                datagram.source_port, datagram.target_port):
            continue
        key = (datagram.source_port if is_request else datagram.target_port, message[1])
        if is_request and (not user or eap.read_user_name(message) == user):
            requests[key] = message[4:_RADIUS_BYTES]
        if key in requests:
            found.append((is_request, message[1], bool(secret) and eap.is_authentic(
                message, secret, requests[key])))
    return found


# --- Proxies: a server forwards requests of a realm to that realm's own server ---

def check_forwarding(realm: str, observed: Observation) -> Check:
    """Check that requests of a realm are forwarded, and that the realm's server accepts the user.

    The proxy's wire has both the requests to it and those that it forwards.
    """
    holds, texts = [], []
    for wire in observed.radius_wires:
        home = observed.forwards_to.get(wire.access_point)
        file = observed.capture_path(f"{AUTH}-{wire.far}")
        if home is None or not file.exists() or (wire.is_away and observed.keeps_keys):
            continue
        messages = [datagram for datagram in pcap.udp_datagrams(file)
                    if len(datagram.payload) >= _RADIUS_BYTES]
        asked, forwarded = ([each.payload for each in messages if each.source == source
                             and each.target_port == eap.RADIUS_PORT]
                            for source in (wire.client, wire.server))
        requests = {message[1]: message[4:_RADIUS_BYTES] for message in forwarded}
        accepts = [each.payload for each in messages if each.source == home
                   and each.payload[0] == eap.ACCESS_ACCEPT and each.payload[1] in requests]
        authentic = sum(eap.is_authentic(message, observed.radius_secret, requests[message[1]])
                        for message in accepts)
        of_realm = [message for message in forwarded
                    if eap.read_user_name(message).endswith(f"@{realm}".encode())]
        holds.append(len(of_realm) == len(forwarded) >= len(asked) > 0 and bool(accepts)
                     and authentic == len(accepts))
        texts.append(f"{wire.access_point}: {len(of_realm)} of {len(asked)} requests are forwarded "
                     f"for {realm}; its server {home} accepts {authentic} times")
    return Check(FORWARDING_CHECK, bool(holds) and all(holds), join_values(texts))


# --- DHCP (RFC 2131 and RFC 2132) ---

_DISCOVER, _OFFER, _REQUEST, _ACK = 1, 2, 3, 5
_EXCHANGE = (_DISCOVER, _OFFER, _REQUEST, _ACK)
_NAMES = {1: "DISCOVER", 2: "OFFER", 3: "REQUEST", 4: "DECLINE", 5: "ACK", 6: "NAK", 7: "RELEASE",
          8: "INFORM"}
#: Offsets of the transaction, the assigned address, the client's MAC address, and the options.
_TRANSACTION, _YOUR_ADDRESS, _CLIENT, _OPTIONS = 4, 16, 28, 240
_MAC_BYTES = 6
_COOKIE = bytes((99, 130, 83, 99))
_PAD, _END, _MESSAGE_TYPE = 0, 255, 53


@dataclass(frozen=True)
class DhcpMessage:
    """A DHCP message. `address` is the assigned one, `client` the client's MAC address."""

    at_s: float
    kind: int
    transaction: int
    address: str
    client: str


def read_dhcp_messages(file: Path) -> list[DhcpMessage]:
    """Return the DHCP messages of a capture, in order of time.

    Raises:
        MeasureError: The file is no Ethernet capture.
    """
    return [message for datagram in pcap.udp_datagrams(file)
            if {datagram.source_port, datagram.target_port} & tshark.DHCP_PORTS
            and (message := parse_dhcp_message(datagram.at_s, datagram.payload))]


def parse_dhcp_message(at_s: float, data: bytes) -> DhcpMessage | None:
    """Parse a DHCP message, or return None for other contents, such as BOOTP."""
    if len(data) < _OPTIONS or data[_OPTIONS - len(_COOKIE):_OPTIONS] != _COOKIE:
        return None
    options, place = dict[int, bytes](), _OPTIONS
    while place < len(data) and data[place] != _END:
        if data[place] == _PAD:
            place += 1
            continue
        size = data[place + 1] if place + 1 < len(data) else 0
        options.setdefault(data[place], data[place + 2:place + 2 + size])
        place += 2 + size
    if len(options.get(_MESSAGE_TYPE, b"")) != 1:
        return None
    (transaction,) = struct.unpack_from("!I", data, _TRANSACTION)
    return DhcpMessage(at_s, options[_MESSAGE_TYPE][0], transaction,
                       str(IPv4Address(data[_YOUR_ADDRESS:_YOUR_ADDRESS + 4])),
                       data[_CLIENT:_CLIENT + _MAC_BYTES].hex(":"))


def _check_lease(observed: Observation) -> Check:
    """Check that the mobile node had no address, and got its address by four messages."""
    file = observed.capture_path(f"{AUTH}-mn")
    messages = [message for message in read_dhcp_messages(file)
                if message.client == observed.mac] if file.exists() else []
    leased_s = _find_lease(messages, observed.home_address)
    early = [p for p in observed.packets_of(f"{AUTH}-mn")
             if p.ip_src == observed.home_address and p.time_s < leased_s]
    had_none = (observed.raw.get("left") or {}).get("addressed") is False
    names = ", ".join(_NAMES.get(message.kind, str(message.kind)) for message in messages)
    return Check("address by DHCP", leased_s < float("inf") and not early and had_none,
                 f"{names or 'no message'}; {len(early)} packets from {observed.home_address} "
                 f"before; {'no address' if had_none else 'an address'} when it began")


def _find_lease(messages: Sequence[DhcpMessage], address: str) -> float:
    """Return the time of the ACK that ends a whole exchange for an address, else infinity."""
    for end in messages:
        if end.kind != _ACK or end.address != address:
            continue
        kinds = [message.kind for message in messages
                 if message.transaction == end.transaction and message.at_s <= end.at_s]
        # Lost messages are sent again, so that one may be there several times.
        if tuple(dict.fromkeys(kinds)) == _EXCHANGE:
            return end.at_s
    return float("inf")


# --- Failover to a second RADIUS server ---

def _check_failover(observed: Observation) -> Check:
    """Check that the first RADIUS server was asked in vain, and then the second one answered."""
    holds, texts = [], []
    for wire in observed.radius_wires:
        first = observed.silent_servers.get(wire.access_point)
        if first is None or (wire.is_away and observed.keeps_keys):
            continue
        # The kernel of a server that is down may answer by ICMP.
        vain, answered = ([packet for packet in _read_server_packets(
            observed, replace(wire, server=server), wire.near) if packet.protocol == pcap.UDP]
            for server in (first, wire.server))
        asked = [packet.at_s for packet in vain if packet.is_request]
        replies = sum(not packet.is_request for packet in vain)
        begun = min((packet.at_s for packet in answered if packet.is_request), default=math.inf)
        holds.append(bool(asked) and not replies and asked[0] < begun < math.inf
                     and any(not packet.is_request for packet in answered))
        texts.append(f"{wire.access_point}: {len(asked)} requests to {first} and {replies} "
                     f"answers; {wire.server} is asked {begun - min(asked, default=begun):.2f} s "
                     "after the first of them")
    return Check("second RADIUS server takes over", bool(holds) and all(holds), join_values(texts))


# --- Place of a RADIUS server that is a node of its own ---

#: How much earlier than the wires' delay a packet may arrive, by the rounding of time stamps, and
#: how much later the quickest packet may arrive, by queues and computing on the way (s).
_EARLY_S, _LATE_S = 0.0001, 0.005
#: Least spread of a few delays, as a share of the jitter. Four delays at random have less in one
#: case of 2000.
_LEAST_SPREAD = 0.1
_TCP = 6
#: Header bytes of UDP, and offset of TCP's header length.
_UDP_BYTES, _TCP_LENGTH = 8, 12


@dataclass(frozen=True)
class _ServerPacket:
    """An IP packet between access point and server: time, direction, protocol and IP payload."""

    at_s: float
    is_request: bool
    protocol: int
    content: bytes


def _check_distance(observed: Observation) -> Check:
    """Check that RADIUS packets pass the server's wire, and take the delay of the wires on the way.

    Every packet to the server is found at both ends by its content, whether it is RADIUS by UDP or
    inside TLS. A packet from the server is captured behind its wire's delay, so answers are timed
    at the access point, from their requests.
    """
    stays = [wire for wire in observed.radius_wires if not (wire.is_away and observed.keeps_keys)]
    holds, texts = [], []
    for wire in stays:
        near, far = (_read_server_packets(observed, wire, point) for point in (wire.near, wire.far))
        one_way, answers_s = _delays_to_server(near, far), _answer_times(near)
        holds.append(_fits_delay(wire, one_way, answers_s))
        texts.append(f"{wire.access_point}: {_describe_times(one_way)} to {wire.server}, the "
                     f"server; answers after {_describe_times(answers_s)}; "
                     f"{wire.delay_s * 1e3:g} ms each way expected")
    return Check("RADIUS server has its delay", bool(holds) and all(holds), join_values(texts))


def _fits_delay(wire: RadiusWire, one_way: Sequence[float], answers_s: Sequence[float]) -> bool:
    """Return whether no packet came too early, and the quickest one not too late."""
    least_s = wire.delay_s - wire.jitter_s
    return bool(one_way and answers_s) and min(one_way) >= least_s - _EARLY_S \
        and min(answers_s) >= 2 * least_s - _EARLY_S \
        and min(one_way) <= wire.delay_s + wire.jitter_s + wire.full_packet_s + _LATE_S


def _check_jitter(observed: Observation) -> Check:
    """Check that the delays of packets to a RADIUS server differ, as the wires' jitter says."""
    spreads, holds = [], []
    for wire in observed.radius_wires:
        if wire.is_away and observed.keeps_keys:
            continue
        near, far = (_read_server_packets(observed, wire, point) for point in (wire.near, wire.far))
        one_way = _delays_to_server(near, far)
        spread_s = max(one_way) - min(one_way) if one_way else 0.0
        holds.append(wire.jitter_s * _LEAST_SPREAD <= spread_s
                     <= 2 * wire.jitter_s + wire.full_packet_s + _LATE_S)
        spreads.append(f"{wire.access_point}: delays of {len(one_way)} packets differ by "
                       f"{spread_s * 1e3:.2f} ms, up to {2 * wire.jitter_s * 1e3:g} ms expected")
    return Check("RADIUS server has its jitter", bool(holds) and all(holds), join_values(spreads))


def _check_wires(observed: Observation) -> Iterator[Check]:
    """Yield the checks of wires with a rate for each direction, or with losses in bursts."""
    if any(link.rate_back_bps is not None for link in observed.special_wires):
        yield _check_rates(observed)
    if any(link.loss_burst_packets > 1 for link in observed.special_wires):
        yield _check_bursts(observed)


#: Relative difference of a probability that `tc` shows with fewer digits.
_ROUNDED = 1e-3


def _check_rates(observed: Observation) -> Check:
    """Check that the kernels at both ends of wires have the rate of each direction."""
    wires = [link for link in observed.special_wires if link.rate_back_bps is not None]
    texts, holds = [], []
    for end, wire in ((end, link) for link in wires for end in link.ends):
        rates = [8 * each["rate"]["rate"] for each in _queues_of(observed, end)
                 if each.get("rate", {}).get("rate")]
        due = wire.rate_from(end) or 0
        holds.append(rates == [round(due)])
        texts.append(f"{end} sends at {', '.join(f'{rate / 1e6:g}' for rate in rates) or 'any'} "
                     f"Mbit/s, {due / 1e6:g} expected")
    return Check("wires have a rate for each direction", bool(holds) and all(holds),
                 "; ".join(texts))


def _check_bursts(observed: Observation) -> Check:
    """Check that the kernels at both ends of wires lose packets in bursts, by Gilbert's model."""
    wires = [link for link in observed.special_wires if link.loss_burst_packets > 1]
    texts, holds = [], []
    for end, wire in ((end, link) for link in wires for end in link.ends):
        models = [each["loss-gemodel"] for each in _queues_of(observed, end)
                  if "loss-gemodel" in each]
        due = queueing_disciplines.burst_chances(wire)
        holds.append(len(models) == 1 and all(
            math.isclose(models[0][name], chance, rel_tol=_ROUNDED)
            for name, chance in zip(("p", "r"), due, strict=True)))
        texts.append(f"{end}: " + (f"bursts begin with {models[0]['p']:.4%} of packets, and end "
                                   f"with {models[0]['r']:.4%}" if models else "no bursts")
                     + f", {due[0]:.4%} and {due[1]:.4%} expected")
    return Check("wires lose packets in bursts", bool(holds) and all(holds), "; ".join(texts))


def _queues_of(observed: Observation, end: str) -> Sequence[Mapping[str, Any]]:
    """Return the queueing disciplines that the kernel has at one end of a wire."""
    queues: Sequence[Mapping[str, Any]] = observed.raw["kernel"].get("queues", {}).get(end, ())
    return queues


def _describe_times(times_s: Sequence[float]) -> str:
    if not times_s:
        return "no packet"
    return f"{min(times_s) * 1e3:.2f} to {max(times_s) * 1e3:.2f} ms ({len(times_s)} packets)"


def _read_server_packets(observed: Observation, wire: RadiusWire,
                         point: str) -> list[_ServerPacket]:
    """Return the packets between access point and server at a point, during one attachment."""
    file = observed.capture_path(f"{AUTH}-{point}")
    ends = [IPv4Address(address).packed for address in (wire.client, wire.server)]
    return [_ServerPacket(frame.at_s, packet[12:16] == ends[0], packet[9],
                          packet[(packet[0] & 15) * 4:int.from_bytes(packet[2:4], "big")])
            for frame in (pcap.read_frames(file) if file.exists() else ())
            if frame.kind == pcap.IPV4 and (packet := frame.payload)
            and {packet[12:16], packet[16:20]} == set(ends)
            and (frame.at_s >= observed.moved_s) == wire.is_away]


def _delays_to_server(near: Sequence[_ServerPacket],
                      far: Sequence[_ServerPacket]) -> list[float]:
    """Return the delay (s) of each packet to the server that both ends captured."""
    arrived: dict[bytes, list[float]] = defaultdict(list)
    for packet in far:
        arrived[packet.content].append(packet.at_s)
    return [arrived[packet.content].pop(0) - packet.at_s for packet in near
            if packet.is_request and arrived[packet.content]]


def _answer_times(near: Sequence[_ServerPacket]) -> list[float]:
    """Return the time (s) from each packet to the server to its answer, at the access point.

    A RADIUS answer has its request's identifier and port. In TCP the answer is the first packet
    that acknowledges the bytes.
    """
    times, waiting = list[float](), dict[bytes, float]()
    unacknowledged: list[tuple[int, float]] = []
    for packet in near:
        if packet.protocol == pcap.UDP and len(packet.content) > _UDP_BYTES + 1:
            port = packet.content[0:2] if packet.is_request else packet.content[2:4]
            key = port + packet.content[_UDP_BYTES + 1:_UDP_BYTES + 2]
            if packet.is_request:
                waiting.setdefault(key, packet.at_s)
            elif key in waiting:
                times.append(packet.at_s - waiting.pop(key))
        elif packet.protocol == _TCP:
            number, acknowledged = struct.unpack_from("!II", packet.content, 4)
            size = len(packet.content) - (packet.content[_TCP_LENGTH] >> 4) * 4
            if packet.is_request and size:
                unacknowledged.append(((number + size) & 0xFFFFFFFF, packet.at_s))
            elif not packet.is_request:
                covered = [entry for entry in unacknowledged
                           if (acknowledged - entry[0]) & 0xFFFFFFFF < 1 << 31]
                times += [packet.at_s - at_s for _, at_s in covered]
                unacknowledged = [entry for entry in unacknowledged if entry not in covered]
    return times

"""Check that captures are complete, and find where a UDP stream lost datagrams.

A capture that started late, ended early or was truncated has fewer packets than passed the kernel.
No check on the captured packets would notice that. So `check_packet_counts` compares captures with
counts of tcpdump, of the IPsec SAs and of iperf3. Its input is the `Observation` of a repetition
(packets and raw values of one measurement), its output a check. `describe_loss` returns a text on a
UDP stream: how many datagrams arrived, and the last capture on the path that has any. It also names
a link with a too small MTU. `stream_arrivals_s` returns the arrival times of the stream.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure.capture.pcap import UDP
from measure.capture.tshark import ESP, IP_IN_IP, Packet
from measure.checks.observation import Check, Observation
from measure.cpu import clock
from measure.services import iperf
from policies.layers import MPTCP, QUIC
from topologies.model import IPV4, IPV6, ROUTER, STATION, Scenario

#: A sampled count this many standard deviations below its mean occurs once in 30,000 cases.
DEVIATIONS = 4
#: A frame with stream data is longer than this, whatever headers the layers add (bytes).
_LEAST_SEGMENT_BYTES = 300
#: Least length of a datagram's fragment, or of its tunnel packet; iperf3's control packets are
#: shorter.
_LEAST_FRAGMENT_BYTES = 300
#: Headers and tags around the data of a tunnel on the air, without a cipher's: 802.11 and LLC,
#: IPv4, then TCP with timestamps and a mapping, or UDP and QUIC with a connection ID and the
#: shortest packet number (bytes).
_TUNNEL_HEADER_BYTES = {MPTCP: 24 + 8 + 20 + 20 + 12 + 28, QUIC: 24 + 8 + 20 + 8 + 1 + 8 + 1 + 16}
#: Headers around an IP packet of a stream on the air: 802.11 and LLC, and all that radiotap,
#: ciphers and tunnels add at most (bytes).
_LEAST_HEADER_BYTES, _MOST_HEADER_BYTES = 24 + 8, 200
#: Headers of a fragment and of a datagram in IPv4; with IPv6, streams have no fragments (bytes).
_IP_HEADER_BYTES, _UDP_HEADER_BYTES = 20, 8


@dataclass(frozen=True)
class PacketCount:
    """The number of packets in a capture, and how many it must contain at least."""

    what: str
    captured: int
    least: int

    def __str__(self) -> str:
        return f"{self.captured} {self.what} of at least {self.least}"


def check_packet_counts(observed: Observation) -> Iterator[Check]:
    """Check that captures contain all packets that were counted elsewhere."""
    counts = [*_count_files(observed), *_count_segments(observed), *_count_datagrams(observed),
              *_count_esp(observed)]
    short = [count for count in counts if count.captured < count.least]
    yield Check("captures hold what was counted", bool(counts) and not short,
                "; ".join(map(str, short or counts[len(observed.raw["captures"]):]))
                or f"{len(counts)} files have the packets that tcpdump counted")


def _count_files(observed: Observation) -> Iterator[PacketCount]:
    """Yield, for each capture, the packets in its file and the number that tcpdump reported."""
    for entry in observed.raw["captures"]:
        name = str(entry["file"]).removesuffix(".pcap")
        packets = observed.packets_of(name) or observed.packets_of(
            f"auth-{name.rpartition('-')[2]}")
        yield PacketCount(f"packets in {name}", len(packets), entry["captured"])


def _count_segments(observed: Observation) -> Iterator[PacketCount]:
    """Yield the TCP data frames on the air, and the number that iperf3's server must have received.

    The least count assumes that every segment is as large as possible. Frames with acknowledgements
    alone, which are small in every layer, do not count. Retransmissions come on top. Frames count
    for the duration that the server states, from the first full segment on, so that the server
    cannot understate it.
    """
    if "iperf_tcp" not in observed.raw:
        return
    stamps = observed.raw["stamps"]
    segment_bytes, received, lasted_s = iperf.tcp_totals(observed.raw["iperf_tcp"])
    sent = [p for p in observed.packets_of("traffic-air") if p.is_data and p.transmitter
            == observed.mac
            and p.length >= _LEAST_SEGMENT_BYTES
            and stamps["tcp_start"] <= p.time_s < stamps.get("udp_start", math.inf)]
    begun_s = next((p.time_s for p in sent if p.length >= segment_bytes), math.inf)
    in_time = [p for p in sent if p.time_s <= begun_s + lasted_s + clock.TOLERATED_S]
    yield PacketCount("frames with TCP's data on the air in iperf3's time",
                      _count_carried(observed, in_time, segment_bytes),
                      least_sampled(received // segment_bytes,
                                    sampling_ratio(observed, "traffic-air")))


def _count_datagrams(observed: Observation) -> Iterator[PacketCount]:
    """Yield the captured datagrams of the UDP stream, and the number that iperf3 received."""
    if "iperf_udp" not in observed.raw:
        return
    size_bytes, received = iperf.udp_totals(observed.raw["iperf_udp"])
    begun_s = observed.raw["stamps"]["udp_start"]
    at_peer = [p for p in observed.packets_of("traffic-peer") if p.time_s >= begun_s]
    arrived = [p for p in at_peer if p.udp_dst == iperf.PORT] + _esp_datagrams(observed, at_peer,
                                                                               size_bytes)
    yield PacketCount("datagrams at the peer", len(arrived), received)
    sent = [p for p in observed.packets_of("traffic-air") if p.is_data and p.transmitter
            == observed.mac
            and p.time_s >= begun_s]
    yield PacketCount("frames of a datagram's size on the air",
                      _count_sent_datagrams(observed, sent, size_bytes, arrived),
                      least_sampled(received, sampling_ratio(observed, "traffic-air")))


def _count_carried(observed: Observation, frames: Sequence[Packet], size_bytes: int,
                   least_bytes: int = 0) -> int:
    """Return how many packets of a size the frames on the air may carry.

    Each frame of at least `least_bytes` may carry one packet. A tunnel in one TCP connection cuts
    packets and joins them, and QUIC joins them. So with these tunnels the bytes count.
    """
    carried = sum(p.length >= least_bytes for p in frames)
    header_bytes = _TUNNEL_HEADER_BYTES.get(observed.follows_by)
    if header_bytes is not None:
        content_bytes = sum(max(0, p.length - header_bytes) for p in frames)
        carried = max(carried, content_bytes // size_bytes)
    return carried


def _count_sent_datagrams(observed: Observation, frames: Sequence[Packet], size_bytes: int,
                          arrived: Sequence[Packet]) -> int:
    """Return how many datagrams the frames on the air may carry, whole or in IP fragments.

    A tunnel or a link with a small MTU makes the mobile node cut datagrams. All fragments but the
    last one have equal lengths, and so have their frames. The peer's capture shows the length of
    the first packet of a datagram.
    """
    lengths = Counter(packet.ip_bytes for packet in arrived).most_common(1)
    first_bytes = lengths[0][0] if lengths else 0
    if first_bytes <= _IP_HEADER_BYTES:
        return _count_carried(observed, frames, size_bytes, least_bytes=size_bytes)
    if observed.follows_by == QUIC:
        header_bytes = _TUNNEL_HEADER_BYTES[QUIC]
        packets = sum(max(0, frame.length - frame.radiotap_bytes - header_bytes) // first_bytes
                      for frame in frames)
        return packets // _full_fragments(size_bytes, first_bytes)
    whole = _count_carried(observed, frames, size_bytes, least_bytes=size_bytes)
    of_length = Counter(frame.length for frame in frames
                        if first_bytes <= frame.length < size_bytes).most_common(1)
    if not of_length:
        return whole
    length, count = of_length[0]
    # A router after the air may have cut the fragments once more.
    is_cut_again = length > first_bytes + _MOST_HEADER_BYTES
    return whole + count // _full_fragments(
        size_bytes, length - _LEAST_HEADER_BYTES if is_cut_again else first_bytes)


def _full_fragments(size_bytes: int, first_bytes: int) -> int:
    """Return how many IP packets of a datagram are as long as its first packet."""
    return max(1, (size_bytes + _UDP_HEADER_BYTES) // (first_bytes - _IP_HEADER_BYTES))


def _esp_datagrams(observed: Observation, packets: Sequence[Packet],
                   size_bytes: int) -> list[Packet]:
    """Return the ESP packets of a stream from the mobile node, which all have one length.

    A datagram that is too long for one packet has a first fragment with the SPI, and others
    without it.
    """
    long = [p for p in packets if p.esp_spi and p.ip_src == observed.home_address
            and p.ip_bytes >= min(size_bytes, _LEAST_FRAGMENT_BYTES)]
    lengths = Counter(p.ip_bytes for p in long).most_common(1)
    return [p for p in long if p.ip_bytes == lengths[0][0]]


def least_sampled(total: int, one_in: int) -> int:
    """Return how many of `total` packets a random sample of 1 in `one_in` has at least.

    This is the mean of a binomial distribution, less DEVIATIONS standard deviations.
    """
    share = 1 / one_in
    return max(0, math.ceil(total * share - DEVIATIONS * math.sqrt(total * share * (1 - share))))


def _count_esp(observed: Observation) -> Iterator[PacketCount]:
    """Yield the captured ESP packets of each SA, and the number that its receiver counted.

    The kernel counts packets from the start of the SA. So the packets captured before the traffic
    (while the node joined the network) are added to the packets during the traffic.
    """
    # A new tunnel has packets at the last access point only. SAs that survive the move, even with
    # other addresses, have packets at both.
    name, packets_before, stream = "traffic-wire", observed.packets_of("auth-wire"), \
        observed.packets_of("traffic-wire")
    if "traffic-foreign" in observed.captures:  # The node moved during the traffic.
        name = "traffic-foreign"
        if observed.renews_tunnel:
            packets_before, stream = [], observed.packets_of(name)
        else:
            stream = _packets_of_both(observed, "traffic")
    elif observed.moves:
        packets_before = observed.behind_access_points("auth")[-1] if observed.renews_tunnel \
            else _packets_of_both(observed, "auth")
    states = observed.raw["kernel"].get("after_traffic", {})
    if observed.translated:
        states = {node: [_translate_back(state, observed) for state in of_node]
                  for node, of_node in states.items()}
    for ends, counted in _received_packets(states).items():
        before, during = (sum(bool(p.esp_spi) and _current_ends(p, observed) == ends for p
                              in packets)
                          for packets in (packets_before, stream))
        after = least_sampled(max(0, counted - before), sampling_ratio(observed, name))
        yield PacketCount(f"ESP packets from {ends[0]} behind the access point", before + during,
                          min(before, counted) + after)


def _translate_back(state: Mapping[str, Any], observed: Observation) -> dict[str, Any]:
    """Return an IPsec SA with the node's address in place of the one that a router gave it."""
    return {**state, **{end: observed.care_of for end in ("src", "dst")
                        if state[end] == observed.translated}}


def _packets_of_both(observed: Observation, part: str) -> Sequence[Packet]:
    """Return the packets behind the first and the second access point in one part's captures.

    - After a move to another subnet: all packets of both captures. Each access point has a wire of
      its own. During a stream, some packets still pass the first one after the command to move.
    - Within a subnet, both captures may show the same wire. Then each packet must count only once.
      So the result is the longer list: the first capture alone, or the packets of each attachment.
    """
    wire, foreign = observed.packets_of(f"{part}-wire"), observed.packets_of(f"{part}-foreign")
    if observed.care_of:
        return [*wire, *foreign]
    attachments = observed.behind_access_points(part)
    return max(wire, [p for packets in attachments for p in packets], key=len)


def _current_ends(packet: Packet, observed: Observation) -> tuple[str, str]:
    """Return source and destination of a packet, with the node's new address after a move."""
    if not (observed.tunnel_follows and observed.care_of):
        return packet.ip_src, packet.ip_dst
    source, target = (observed.care_of if address == observed.home_address else address
                      for address in (packet.ip_src, packet.ip_dst))
    return source, target


def _received_packets(states: Mapping[str,
                                      Sequence[Mapping[str, Any]]]) -> dict[tuple[str, str], int]:
    """Return how many packets the receiving end of each IPsec SA counted, by address pair.

    The receiving end is the one that counted fewer packets.
    """
    totals: dict[tuple[str, str], list[int]] = defaultdict(list)
    for of_node in states.values():
        sums: dict[tuple[str, str], int] = defaultdict(int)
        for state in of_node:
            sums[state["src"], state["dst"]] += state.get("packets", 0)
        for pair, packets in sums.items():
            totals[pair].append(packets)
    return {pair: min(counts) for pair, counts in totals.items()}


def sampling_ratio(observed: Observation, name: str) -> int:
    """Return n if a capture keeps only 1 in n of the stream's packets."""
    return max((entry.get("one_in", 1) for entry in observed.raw["captures"]
                if entry["file"] == f"{name}.pcap"), default=1)


# --- Arrivals and losses of a UDP stream ---

#: Headers of IP and UDP, by the version of IP.
_IP_UDP_BYTES = {IPV4: 28, IPV6: 48}
#: Largest packet on Ethernet.
_ETHERNET_BYTES = 1500
#: If arrivals cover less than this share of the sending time, they do not represent the stream.
_COVERED_SHARE = 0.9


def stream_arrivals_s(raw: Mapping[str, Any], arrived: Sequence[Packet]) -> list[float]:
    """Return when the datagrams of a UDP stream (or their first fragments) arrived, in s.

    iperf3's first datagram of four bytes does not count. Older captures have tunnel packets before
    and after decapsulation. If only tunnel packets were captured, the most common size is the
    stream's.
    """
    stamps, (size_bytes, _) = raw["stamps"], iperf.udp_totals(raw["iperf_udp"])
    least_bytes = min(size_bytes + _IP_UDP_BYTES[IPV4], _LEAST_FRAGMENT_BYTES)
    during = [p for p in arrived if stamps["udp_start"] <= p.time_s <= stamps["udp_end"]
              and p.ip_bytes >= least_bytes]
    during = [p for p in during if p.udp_dst == iperf.PORT] or during
    size = Counter(p.length for p in during).most_common(1)
    return [p.time_s for p in during if p.length == size[0][0]]


def stream_duration_s(raw: Mapping[str, Any], times_s: Sequence[float]) -> float | None:
    """Return how long a UDP stream lasted in s, or None if nothing arrived.

    If datagrams arrived during nearly all of the sending time (`_COVERED_SHARE`), the duration
    follows from the arrivals: from the first to the last of n datagrams there are n - 1 intervals,
    and the stream has n. If they arrived during a part only (such as 2 of 70 datagrams, or until a
    wire broke), the result is the sending time.

    Args:
        raw: Raw values of the repetition, with iperf3's report.
        times_s: When the datagrams arrived (`stream_arrivals_s`), in s.
    """
    if not times_s:
        return None
    sent_s = float(iperf.summarize_report(raw["iperf_udp"])["sent_duration_s"])
    span_s = times_s[-1] - times_s[0]
    timed_s = span_s * len(times_s) / (len(times_s) - 1) if len(times_s) > 1 else 0.0
    return (timed_s if timed_s >= _COVERED_SHARE * sent_s else sent_s) or None


def describe_loss(observed: Observation, scenario: Scenario) -> str:
    """Describe a UDP stream's losses: how many datagrams arrived, and where others were last seen.

    A link whose MTU is too small for the datagrams is named, too.
    """
    datagrams, (size_bytes,
                received) = iperf.summarize_report(observed.raw["iperf_udp"]), iperf.udp_totals(
                    observed.raw["iperf_udp"])
    sent = round(datagrams["sent_bytes"] / size_bytes) if size_bytes else 0
    arrived = len(stream_arrivals_s(observed.raw, observed.packets_of("traffic-peer")))
    packet_bytes = size_bytes + _IP_UDP_BYTES[scenario.network.ip]
    last = [place for name, place in _capture_path(scenario)
            if _count_stream_packets(observed, name, packet_bytes)]
    counted = "" if arrived == received else f", iperf3's server counted {received}"
    text = (f"{arrived} of {sent} datagrams arrived{counted}: "
            f"{f'last captured {last[-1]}' if last else 'captured nowhere'}")
    # A tunnel packet is at least as long as its inner datagram.
    narrow = describe_narrow_link(scenario, packet_bytes)
    return f"{text}; {narrow}, datagrams have {packet_bytes}" if narrow else text


def describe_narrow_link(scenario: Scenario, size_bytes: int = _ETHERNET_BYTES) -> str:
    """Describe a link whose MTU is below this size, or return "" if there is none."""
    return next((f"the link {' to '.join(link.ends)} takes {link.mtu_bytes} bytes"
                 for link in scenario.network.links if link.mtu_bytes < size_bytes), "")


def _capture_path(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the captures along the stream's path in order.

    Yields:
        Name of the capture, and a description of its point, such as "at host".
    """
    network, cell = scenario.network, scenario.access_point
    yield "traffic-air", f"on the air from {scenario.mobile_node}"
    yield "traffic-wire", f"on {cell}'s wire ({cell}/{network.link_of(cell)[0]})"
    for router in network.of_duty(ROUTER)[:1]:
        yield "traffic-core", f"on {router}'s wire ({router}/{network.link_of(router)[0]})"
    if network.nodes[scenario.peer].has_duty(STATION):
        far = scenario.home_of(scenario.peer)
        yield "traffic-far", f"on {far}'s wire ({far}/{network.link_of(far)[0]})"
    yield "traffic-peer", f"at {scenario.peer}"


def _count_stream_packets(observed: Observation, name: str, size_bytes: int) -> int:
    """Return how many packets of a capture carry the stream's datagrams, whole or fragmented."""
    stamps = observed.raw["stamps"]
    during = [p for p in observed.packets_of(name)
              if stamps["udp_start"] <= p.time_s <= stamps["udp_end"]]
    if name.endswith("-air"):
        return sum(p.is_data and p.transmitter == observed.mac and p.length >= size_bytes
                   for p in during)
    carrying = [p for p in during if p.ip_proto in (UDP, ESP, IP_IN_IP)]
    return (sum(p.ip_bytes >= size_bytes for p in carrying)
            or sum(p.ip_bytes >= _LEAST_FRAGMENT_BYTES for p in carrying))

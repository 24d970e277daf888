"""Compare captures with independent counts: tcpdump's, the IPsec SAs' and iperf3's.

A capture that started late, ended early or was truncated has fewer packets than passed the kernel.
No check on the captured packets would notice that.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measure import clock, iperf
from measure.dissect import Packet
from measure.observed import Check, Observed

#: A sampled count this many standard deviations below its mean occurs once in 30,000 cases.
DEVIATIONS = 4
#: A frame with stream data is longer than this, whatever headers the layers add (bytes).
_LEAST_SEGMENT_BYTES = 300


@dataclass(frozen=True)
class PacketCount:
    """A capture's count of packets, and the least that it must contain."""

    what: str
    captured: int
    least: int

    def __str__(self) -> str:
        return f"{self.captured} {self.what} of at least {self.least}"


def verify(observed: Observed) -> Iterator[Check]:
    """Check that the captures of a repetition or part have all packets counted elsewhere."""
    counts = [*_count_files(observed), *_count_segments(observed), *_count_datagrams(observed),
              *_count_esp(observed)]
    short = [count for count in counts if count.captured < count.least]
    yield Check("captures hold what was counted", bool(counts) and not short,
                "; ".join(map(str, short or counts[len(observed.raw["captures"]):]))
                or f"{len(counts)} files have the packets that tcpdump counted")


def _count_files(observed: Observed) -> Iterator[PacketCount]:
    """Yield each file's packets, compared with the count that tcpdump reported."""
    for entry in observed.raw["captures"]:
        name = str(entry["file"]).removesuffix(".pcap")
        packets = observed.packets_of(name) or observed.packets_of(
            f"auth-{name.rpartition('-')[2]}")
        yield PacketCount(f"packets in {name}", len(packets), entry["captured"])


def _count_segments(observed: Observed) -> Iterator[PacketCount]:
    """Yield the TCP data frames on the air, compared with what iperf3's server received.

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
    yield PacketCount("frames with TCP's data on the air in iperf3's time", len(in_time),
                      least_sampled(received // segment_bytes,
                                    sampling_ratio(observed, "traffic-air")))


def _count_datagrams(observed: Observed) -> Iterator[PacketCount]:
    """Yield the stream's datagrams, compared with what iperf3's server received."""
    if "iperf_udp" not in observed.raw:
        return
    size_bytes, received = iperf.udp_totals(observed.raw["iperf_udp"])
    begun_s = observed.raw["stamps"]["udp_start"]
    arrived = [p for p in observed.packets_of("traffic-peer") if p.time_s >= begun_s
               and (p.udp_dst == iperf.PORT or _is_esp_of(observed, p, size_bytes))]
    yield PacketCount("datagrams at the peer", len(arrived), received)
    sent = [p for p in observed.packets_of("traffic-air") if p.is_data and p.transmitter
            == observed.mac
            and p.length >= size_bytes and p.time_s >= begun_s]
    yield PacketCount("frames of a datagram's size on the air", len(sent),
                least_sampled(received, sampling_ratio(observed, "traffic-air")))


def _is_esp_of(observed: Observed, packet: Packet, size_bytes: int) -> bool:
    """Return whether a packet is ESP from the mobile node with room for a datagram."""
    return (bool(packet.esp_spi) and packet.ip_src == observed.home_address
            and packet.ip_bytes >= size_bytes)


def least_sampled(total: int, one_in: int) -> int:
    """Return the least count of `total` packets if 1 in `sampling_ratio` is sampled at random."""
    share = 1 / one_in
    return max(0, math.ceil(total * share - DEVIATIONS * math.sqrt(total * share * (1 - share))))


def _count_esp(observed: Observed) -> Iterator[PacketCount]:
    """Yield the ESP packets behind the access point, compared with the receiving SA's count."""
    # If the mobile node moved during the traffic, the tunnel's packets begin behind the second
    # access point.
    name = "traffic-foreign" if "traffic-foreign" in observed.captures else "traffic-wire"
    stays, stream = observed.behind_access_points("auth"), observed.packets_of(name)
    # SAs belong to the last network, unless they survive the move, even with other addresses.
    getting_on = stays[-1] if observed.renews_tunnel else _packets_of_both(observed, stays)
    for ends, counted in _received_packets(observed.raw["kernel"].get("after_traffic", {})).items():
        before, during = (sum(bool(p.esp_spi) and _current_ends(p, observed) == ends for p
                              in packets)
                          for packets in (getting_on, stream))
        rest = least_sampled(max(0, counted - before), sampling_ratio(observed, name))
        yield PacketCount(f"ESP packets from {ends[0]} behind the access point", before + during,
                    min(before, counted) + rest)


def _packets_of_both(observed: Observed, stays: Sequence[Sequence[Packet]]) -> Sequence[Packet]:
    """Return the packets behind both access points during the authentication.

    During a stream, some packets pass the first access point after the command to move. Two subnets
    have two wires. Within a subnet, the first wire may lie behind the second access point, too.
    """
    wire, foreign = observed.packets_of("auth-wire"), observed.packets_of("auth-foreign")
    if observed.care_of:
        return [*wire, *foreign]
    return max(wire, [p for stay in stays for p in stay], key=len)


def _current_ends(packet: Packet, observed: Observed) -> tuple[str, str]:
    """Return a packet's addresses, with the present one of a node whose tunnel follows it."""
    if not (observed.tunnel_follows and observed.care_of):
        return packet.ip_src, packet.ip_dst
    source, target = (observed.care_of if address == observed.home_address else address
                      for address in (packet.ip_src, packet.ip_dst))
    return source, target


def _received_packets(states: Mapping[str,
                                      Sequence[Mapping[str, Any]]]) -> dict[tuple[str, str], int]:
    """Return packet counts by address pair, as counted by the receiving end.

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


def sampling_ratio(observed: Observed, name: str) -> int:
    """Return n if a capture keeps 1 in n of the expected packets."""
    return max((entry.get("one_in", 1) for entry in observed.raw["captures"]
                if entry["file"] == f"{name}.pcap"), default=1)

"""Captures are held to what others counted: tcpdump's own count, IPsec's associations, iperf3.

A capture that started late, ended early or was cut has fewer packets than went through the kernel,
and no check on the packets that are there would notice.
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

#: A sampled count this many standard deviations below its mean comes once in thirty thousand.
DEVIATIONS = 4
#: A frame is longer that holds more of a stream than a header, whatever layers it has.
_LEAST_SEGMENT_BYTES = 300


@dataclass(frozen=True)
class PacketCount:
    """What a capture has of something, and the least that it must have."""

    what: str
    captured: int
    least: int

    def __str__(self) -> str:
        return f"{self.captured} {self.what} of at least {self.least}"


def verify(seen: Observed) -> Iterator[Check]:
    """The captures of a repetition, or of a part of it, have all that was counted elsewhere."""
    counts = [*_files(seen), *_segments(seen), *_datagrams(seen), *_esp(seen)]
    short = [count for count in counts if count.captured < count.least]
    yield Check("captures hold what was counted", bool(counts) and not short,
                "; ".join(map(str, short or counts[len(seen.raw["captures"]):]))
                or f"{len(counts)} files have the packets that tcpdump counted")


def _files(seen: Observed) -> Iterator[PacketCount]:
    """Each file has the packets that tcpdump says it wrote."""
    for entry in seen.raw["captures"]:
        name = str(entry["file"]).removesuffix(".pcap")
        packets = seen.packets(name) or seen.packets(f"auth-{name.rpartition('-')[2]}")
        yield PacketCount(f"packets in {name}", len(packets), entry["captured"])


def _segments(seen: Observed) -> Iterator[PacketCount]:
    """TCP's frames on the air, as many as what iperf3's server has received takes at the fewest.

    No segment holds more than the connection's largest; frames with acknowledgements alone, which
    are small under every layer, are none. What is sent again comes on top. They count for as long
    as the server says that it took, from the first full one on, so that it cannot say less.
    """
    if "iperf_tcp" not in seen.raw:
        return
    stamps = seen.raw["stamps"]
    segment_bytes, received, lasted_s = iperf.segments(seen.raw["iperf_tcp"])
    sent = [p for p in seen.packets("traffic-air") if p.is_data and p.transmitter == seen.mac
            and p.length >= _LEAST_SEGMENT_BYTES
            and stamps["tcp_start"] <= p.time_s < stamps.get("udp_start", math.inf)]
    begun_s = next((p.time_s for p in sent if p.length >= segment_bytes), math.inf)
    in_time = [p for p in sent if p.time_s <= begun_s + lasted_s + clock.TOLERATED_S]
    yield PacketCount("frames with TCP's data on the air in iperf3's time", len(in_time),
                      sampled_at_least(received // segment_bytes, one_in(seen, "traffic-air")))


def _datagrams(seen: Observed) -> Iterator[PacketCount]:
    """The stream's datagrams, as many as iperf3's server has received."""
    if "iperf_udp" not in seen.raw:
        return
    size_bytes, received = iperf.datagrams(seen.raw["iperf_udp"])
    begun_s = seen.raw["stamps"]["udp_start"]
    arrived = [p for p in seen.packets("traffic-peer") if p.time_s >= begun_s
               and (p.udp_dst == iperf.PORT or _is_esp_of(seen, p, size_bytes))]
    yield PacketCount("datagrams at the peer", len(arrived), received)
    sent = [p for p in seen.packets("traffic-air") if p.is_data and p.transmitter == seen.mac
            and p.length >= size_bytes and p.time_s >= begun_s]
    yield PacketCount("frames of a datagram's size on the air", len(sent),
                sampled_at_least(received, one_in(seen, "traffic-air")))


def _is_esp_of(seen: Observed, packet: Packet, size_bytes: int) -> bool:
    """Return whether a packet is ESP from the mobile node with room for a datagram."""
    return (bool(packet.esp_spi) and packet.ip_src == seen.home_address
            and packet.ip_bytes >= size_bytes)


def sampled_at_least(total: int, one_in: int) -> int:
    """How many of `total` there are at the very least where 1 in so many is taken, by chance."""
    share = 1 / one_in
    return max(0, math.ceil(total * share - DEVIATIONS * math.sqrt(total * share * (1 - share))))


def _esp(seen: Observed) -> Iterator[PacketCount]:
    """Packets of ESP behind the access point, as many as the receiving end has counted."""
    # Where the mobile node moved amid the traffic, its tunnel of then begins behind the second.
    name = "traffic-foreign" if "traffic-foreign" in seen.captures else "traffic-wire"
    stays, stream = seen.behind_access_points("auth"), seen.packets(name)
    # Associations are of the last network, unless they outlive the move, at other addresses even.
    getting_on = stays[-1] if seen.renews_tunnel else _of_both(seen, stays)
    for ends, counted in _received(seen.raw["kernel"].get("after_traffic", {})).items():
        before, during = (sum(bool(p.esp_spi) and _ends(p, seen) == ends for p in packets)
                          for packets in (getting_on, stream))
        rest = sampled_at_least(max(0, counted - before), one_in(seen, name))
        yield PacketCount(f"ESP packets from {ends[0]} behind the access point", before + during,
                    min(before, counted) + rest)


def _of_both(seen: Observed, stays: Sequence[Sequence[Packet]]) -> Sequence[Packet]:
    """What went behind both access points while it got on; amid a stream, some after the order.

    To another subnet, by two wires; within one, the first wire may lie behind the second, too.
    """
    wire, foreign = seen.packets("auth-wire"), seen.packets("auth-foreign")
    if seen.care_of:
        return [*wire, *foreign]
    return max(wire, [p for stay in stays for p in stay], key=len)


def _ends(packet: Packet, seen: Observed) -> tuple[str, str]:
    """A packet's addresses; of a tunnel that has followed its node since, those of now."""
    if not (seen.tunnel_follows and seen.care_of):
        return packet.ip_src, packet.ip_dst
    source, target = (seen.care_of if address == seen.home_address else address
                      for address in (packet.ip_src, packet.ip_dst))
    return source, target


def _received(states: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[tuple[str, str], int]:
    """Packets from one address to another by the end that has counted fewer: the receiving one."""
    totals: dict[tuple[str, str], list[int]] = defaultdict(list)
    for of_node in states.values():
        sums: dict[tuple[str, str], int] = defaultdict(int)
        for state in of_node:
            sums[state["src"], state["dst"]] += state.get("packets", 0)
        for pair, packets in sums.items():
            totals[pair].append(packets)
    return {pair: min(counts) for pair, counts in totals.items()}


def one_in(seen: Observed, name: str) -> int:
    """Of how many expected packets a capture keeps one."""
    return max((entry.get("one_in", 1) for entry in seen.raw["captures"]
                if entry["file"] == f"{name}.pcap"), default=1)

"""Time the arrivals of a UDP stream, and find where its datagrams were last captured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from measure import iperf
from measure.dissect import ESP, IP_IN_IP, Packet
from measure.observed import Observed
from measure.pcap import UDP
from topologies.model import ROUTER, STATION, Scenario

#: Headers of IPv4 and UDP.
_IP_UDP_BYTES = 28
#: Largest packet on Ethernet.
_ETHERNET_BYTES = 1500
#: If arrivals cover less than this share of the sending time, they do not represent the stream.
_COVERED_SHARE = 0.9
#: Least length of a datagram's fragment, or of its tunnel packet; iperf3's control packets are
#: shorter.
_LEAST_FRAGMENT_BYTES = 300


def arrivals_s(raw: Mapping[str, Any], arrived: Sequence[Packet]) -> list[float]:
    """Return the arrival times of the stream's datagrams, or of their first fragments.

    iperf3's first datagram of four bytes does not count. Older captures have tunnel packets before
    and after decapsulation. If only tunnel packets were captured, the most common size is the
    stream's.
    """
    stamps, (size_bytes, _) = raw["stamps"], iperf.udp_totals(raw["iperf_udp"])
    least_bytes = min(size_bytes + _IP_UDP_BYTES, _LEAST_FRAGMENT_BYTES)
    during = [p for p in arrived if stamps["udp_start"] <= p.time_s <= stamps["udp_end"]
              and p.ip_bytes >= least_bytes]
    during = [p for p in during if p.udp_dst == iperf.PORT] or during
    size = Counter(p.length for p in during).most_common(1)
    return [p.time_s for p in during if p.length == size[0][0]]


def lasted_s(raw: Mapping[str, Any], times_s: Sequence[float]) -> float | None:
    """Return how long the stream lasted in s, or None if nothing arrived.

    If arrivals cover the whole stream, n of them last n/(n-1) of the time from first to last.
    iperf3's closing messages do not count. If arrivals cover only a part (two of seventy, or none
    after a wire broke), the sending time counts. A mean over the part alone would describe the
    arrivals and not the stream.
    """
    if not times_s:
        return None
    sent_s = float(iperf.summarize(raw["iperf_udp"])["sent_duration_s"])
    span_s = times_s[-1] - times_s[0]
    timed_s = span_s * len(times_s) / (len(times_s) - 1) if len(times_s) > 1 else 0.0
    return (timed_s if timed_s >= _COVERED_SHARE * sent_s else sent_s) or None


def describe_loss(observed: Observed, scenario: Scenario) -> str:
    """Return the arrived share, the last capture of the datagrams, and a too small MTU."""
    said, (size_bytes, received) = iperf.summarize(observed.raw["iperf_udp"]), iperf.udp_totals(
        observed.raw["iperf_udp"])
    sent = round(said["sent_bytes"] / size_bytes) if size_bytes else 0
    arrived = len(arrivals_s(observed.raw, observed.packets_of("traffic-peer")))
    last = [place for name, place in _capture_path(scenario)
            if _count_stream_packets(observed, name, size_bytes + _IP_UDP_BYTES)]
    counted = "" if arrived == received else f", iperf3's server counted {received}"
    text = (f"{arrived} of {sent} datagrams arrived{counted}: "
            f"{f'last captured {last[-1]}' if last else 'captured nowhere'}")
    # A tunnel packet is at least as long as its inner datagram.
    narrow = describe_narrow(scenario, size_bytes + _IP_UDP_BYTES)
    return f"{text}; {narrow}, datagrams have {size_bytes + _IP_UDP_BYTES}" if narrow else text


def describe_narrow(scenario: Scenario, size_bytes: int = _ETHERNET_BYTES) -> str:
    """Return a description of a link with an MTU below this size, or ""."""
    return next((f"the link {' to '.join(link.ends)} takes {link.mtu_bytes} bytes"
                 for link in scenario.network.links if link.mtu_bytes < size_bytes), "")


def _capture_path(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the captures on the stream's path in order, with a description of the place."""
    network, cell = scenario.network, scenario.access_point
    yield "traffic-air", f"on the air from {scenario.mobile_node}"
    yield "traffic-wire", f"on {cell}'s wire ({cell}/{network.link_of(cell)[0]})"
    for router in network.of_duty(ROUTER)[:1]:
        yield "traffic-core", f"on {router}'s wire ({router}/{network.link_of(router)[0]})"
    if network.nodes[scenario.peer].has_duty(STATION):
        far = scenario.home_of(scenario.peer)
        yield "traffic-far", f"on {far}'s wire ({far}/{network.link_of(far)[0]})"
    yield "traffic-peer", f"at {scenario.peer}"


def _count_stream_packets(observed: Observed, name: str, size_bytes: int) -> int:
    """Count the packets of a capture that carry the stream's datagrams, whole or in fragments."""
    stamps = observed.raw["stamps"]
    during = [p for p in observed.packets_of(name)
              if stamps["udp_start"] <= p.time_s <= stamps["udp_end"]]
    if name.endswith("-air"):
        return sum(p.is_data and p.transmitter == observed.mac and p.length >= size_bytes
                   for p in during)
    carrying = [p for p in during if p.ip_proto in (UDP, ESP, IP_IN_IP)]
    return (sum(p.ip_bytes >= size_bytes for p in carrying)
            or sum(p.ip_bytes >= _LEAST_FRAGMENT_BYTES for p in carrying))

"""Table of header bytes: additions of a policy to a packet and to its airtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analysis.bounds.ceilings import LLC_BYTES
from analysis.bounds.packets import IPV4_BYTES, UDP_BYTES
from analysis.table import Column, Entry, Quantity, Table
from policies import Policy
from studies.qop2007 import published
from studies.qop2007.report.paths import headers_between_agents, stream_path
from topologies.model import Medium, Scenario

_COLUMNS = (
    Column("policy", "policy"),
    Column("cipher_bytes", "cipher", "bytes", digits=0, group="added to a datagram"),
    Column("esp_bytes", "ESP", "bytes", digits=0, group="added to a datagram"),
    Column("packet_bytes", "IP packet", "bytes", digits=0, group="on the air"),
    Column("frame_bytes", "frame", "bytes", digits=0, group="on the air"),
    Column("airtime_s", "airtime", "\N{MICRO SIGN}s", 1e6, digits=1, group="on the air"),
    Column("udp_ceiling_bps", "UDP", "Mbit/s", 1e-6, digits=3, group="ceiling"),
    Column("tcp_segment_bytes", "segment", "bytes", digits=0, group="ceiling"),
    Column("tcp_ceiling_bps", "TCP", "Mbit/s", 1e-6, digits=3, group="ceiling"),
    Column("wire_bytes", "IP packet", "bytes", digits=0, group="between agents"))


def arithmetic_table(medium: Medium, payload_bytes: int, paths: tuple[Scenario, Scenario],
                     policies: Iterable[Policy] | None = None) -> Table:
    """Build the table of header bytes and airtime of policies for one UDP datagram.

    The policies are by default P1 to P12. `paths` are a scenario with one crossing of the air, such
    as N2, and one with Mobile IP's tunnel, such as R1. Ceilings are those of the first. A path with
    two crossings has half of them.
    """
    rows = tuple(tuple(_policy_entries(policy, medium, payload_bytes, paths))
                 for policy in (published.policies() if policies is None else policies))
    return Table(
        f"arithmetic-{medium.name}", "Headers and airtime", _COLUMNS, rows,
        caption=f"A UDP datagram of {payload_bytes} bytes on {medium.name}.",
        notes=(
            (f"An IP packet has {UDP_BYTES} bytes of UDP and {IPV4_BYTES} of IP beside the "
             f"payload; a frame has {medium.mac_bytes} of MAC header and checksum and {LLC_BYTES} "
             "of LLC beside the packet. ESP's bytes include its padding."),
            ("Airtime: waiting, preamble, frame and acknowledgement, in the mean; with what the "
             "medium's losses cost. Ceilings: one crossing of the air."),
            ("Between agents: the same datagram of a node that is away, in IP-in-IP, and in the "
             "agents' own ESP where the policy has IPsec. Split datagrams count with all their "
             "parts.")))


def _policy_entries(policy: Policy, medium: Medium, payload_bytes: int,
                    paths: tuple[Scenario, Scenario]) -> Iterator[Entry]:
    once, scenario = stream_path(policy, paths[0]), paths[1]
    datagram = payload_bytes + UDP_BYTES + IPV4_BYTES
    udp, tcp = once.udp_ceiling(medium, payload_bytes), once.tcp_ceiling(medium)
    packets = [once.hops[0].packet_bytes(part) for part in once.split_packet(datagram)]
    frames = [packet + medium.mac_bytes + LLC_BYTES + once.cipher_bytes for packet in packets]
    away, between = stream_path(policy, scenario), headers_between_agents(policy, scenario)
    wire = sum(between.packet_bytes(away.hops[0].packet_bytes(part)) if between else part
               for part in away.split_packet(datagram))
    yield Entry(policy.id, note=policy.name)
    for value in (once.cipher_bytes * len(packets), sum(packets) - datagram, sum(packets),
                  sum(frames), udp.airtime_us / 1e6, udp.bps, tcp.payload_bytes, tcp.bps, wire):
        yield Entry(number=Quantity(float(value)))

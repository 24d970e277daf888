"""Check from captured packets that a Multipath TCP tunnel carries all traffic of a moving node.

`check_mptcp` takes the results of a repetition (one measurement of a policy). The keys of the
connection are read from its handshake (RFC 8684, 3.1), which is not encrypted. After a move to
another subnet, the checks compute the token and HMACs of the subflow that joined from there. They
state that the data sequence numbers continue without a gap, and that both kernels still have the
same connection. `measure.checks.proof` calls this module.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from measure.capture.pcap import CapturedFrame
from measure.checks import mobility
from measure.checks.observation import Check, Observation
from measure.packets import mptcp
from measure.packets.mptcp import MPTCP_PORT, DataStream, MptcpConnection, MptcpSegment

_WAYS = 2
_ADDRESS_BYTES = 4
_SHORTEST_IPV4 = 20


def check_mptcp(observed: Observation) -> Iterator[Check]:
    """Yield the checks of an MPTCP tunnel: handshake, traffic, and the move to another address."""
    file = observed.capture_path("auth-mn")
    segments = mptcp.read_segments(file) if file.exists() else []
    home, *away = observed.split_by_attachment(segments)
    opened = mptcp.find_connections(home)
    yield _check_handshake(home, opened, observed)
    streams = _reassemble_streams(segments, opened[0], observed) if len(opened) == 1 else []
    yield _check_packets(streams, observed)
    traffic = mobility.count_tunnel_traffic(mobility.tunnel_frames(observed), _count_inner)
    yield mobility.check_tunnelled("MPTCP: tunnelled", traffic, "the tunnel's")
    carried_bytes = mobility.streamed_bytes(observed)
    yield Check("MPTCP: carried", traffic.inner_bytes >= carried_bytes > 0,
                f"{traffic.inner_bytes} bytes of data, {carried_bytes} of the stream")
    yield _check_kernels(opened, observed)
    if observed.care_of:
        yield _check_join(away[0], opened, observed)
        yield _check_continuation(away[0], streams, observed)


def _check_handshake(segments: Sequence[MptcpSegment], opened: Sequence[MptcpConnection],
                     observed: Observation) -> Check:
    """Check that one connection was opened at home, and that both ends have exchanged keys."""
    requests = {(each.source, each.target) for each in segments if each.is_syn}
    right = [each for each in opened if each.opener[0] == observed.home_address
             and each.listener == (observed.home_agent, MPTCP_PORT)]
    return Check("MPTCP: handshake", len(requests) == len(opened) == len(right) == 1,
                 f"{len(requests)} TCP connections requested at home, {len(right)} of them with "
                 "keys of both ends in MP_CAPABLE")


def _reassemble_streams(segments: Sequence[MptcpSegment], connection: MptcpConnection,
                        observed: Observation) -> list[DataStream]:
    """Return the data from the mobile node and from its agent, over all subflows."""
    subflows = [(connection.opener, connection.listener),
                *((each.opener, each.listener) for each in mptcp.find_joins(segments, connection)
                  if each.is_authentic and each.listener[0] == observed.home_agent)]
    return [mptcp.reassemble_data(segments, subflows, connection.opener_key),
            mptcp.reassemble_data(segments, [(there, here) for here, there in subflows],
                                  connection.listener_key)]


def _check_packets(streams: Sequence[DataStream], observed: Observation) -> Check:
    """Check that the data are complete in both directions, and are packets of the mobile node."""
    inner = [pair for stream in streams for pair in _split_packets(stream, observed)]
    strange = [pair for pair in inner if observed.home_address not in pair]
    lacking = sum(each.missing + each.unmapped + each.differing for each in streams)
    return Check("MPTCP: data are packets", len(streams) == _WAYS and bool(inner) and not strange
                 and not lacking,
                 f"{sum(len(each.data) for each in streams)} bytes of data, {lacking} of them "
                 f"missing, unmapped or different; {len(inner)} packets, {len(strange)} of them "
                 f"not of {observed.home_address}")


def _split_packets(stream: DataStream, observed: Observation) -> Iterator[tuple[str, str]]:
    """Yield source and destination of each IPv4 packet in a stream, ("", "") of anything else.

    The stream begins with the mobile node's address. The last packet may be incomplete.
    """
    data = stream.data
    if data[:_ADDRESS_BYTES] != ipaddress.IPv4Address(observed.home_address).packed:
        yield "", ""
        return
    at = _ADDRESS_BYTES
    while at + _SHORTEST_IPV4 <= len(data):
        size = int.from_bytes(data[at + 2:at + 4], "big")
        if data[at] >> 4 != 4 or size < _SHORTEST_IPV4:
            yield "", ""
            return
        source, target = (str(ipaddress.IPv4Address(data[at + place:at + place + 4]))
                          for place in (12, 16))
        yield source, target
        at += size


def _count_inner(frame: CapturedFrame) -> int | None:
    """Return the bytes of data in a segment of the tunnel, None for another packet."""
    segment = mptcp.parse_segment(frame)
    if segment is None or MPTCP_PORT not in (segment.source[1], segment.target[1]):
        return None
    return segment.payload_bytes


def _check_kernels(opened: Sequence[MptcpConnection], observed: Observation) -> Check:
    """Check that both kernels have the connection that was opened at home.

    Each end's token follows from its own key in the handshake.
    """
    expected = {mptcp.token_of(key) for each in opened
                for key in (each.opener_key, each.listener_key)}
    states = [each for state in observed.raw.get("mptcp", {}).values()
              for each in state["connections"] if each["user"] == observed.home_address]
    tokens = {each["token"] for each in states if each["token"] == each["opened_token"]}
    return Check("MPTCP: kernels have the connection", len(states) == _WAYS
                 and len(expected) == _WAYS and tokens == expected,
                 f"{len(tokens & expected)} of {len(states)} kernels have the token of the keys at "
                 "home" + (f" ({', '.join(f'{token:08x}' for token in sorted(expected))})"
                           if expected else ""))


def _check_join(moved: Sequence[MptcpSegment], opened: Sequence[MptcpConnection],
                observed: Observation) -> Check:
    """Check that a subflow from the new address joined the connection that was opened at home."""
    joins = [each for connection in opened for each in mptcp.find_joins(moved, connection)]
    right = [each for each in joins if each.is_authentic and each.opener[0] == observed.care_of
             and each.listener == (observed.home_agent, MPTCP_PORT)]
    return Check("MPTCP: new address joins the connection", len(right) == 1,
                 f"{len(joins)} MP_JOIN after the move: {sum(j.has_token for j in joins)} with the "
                 f"token of the connection, {sum(j.has_listener_hmac for j in joins)} and "
                 f"{sum(j.has_opener_hmac for j in joins)} with the HMAC of its keys from agent "
                 f"and node, {sum(j.is_accepted for j in joins)} accepted; {len(right)} of all "
                 f"from {observed.care_of}")


def _check_continuation(moved: Sequence[MptcpSegment], streams: Sequence[DataStream],
                        observed: Observation) -> Check:
    """Check that the data continue at the new address where they ended at home, both ways."""
    opened = [each for each in moved if each.is_syn and not each.join]
    going_on = 0
    for stream in streams:
        there = [ends for subflow, ends in stream.ends.items()
                 if observed.care_of in {address for address, _ in subflow}]
        before = [ends for subflow, ends in stream.ends.items()
                  if observed.home_address in {address for address, _ in subflow}]
        going_on += bool(there and before) and not stream.missing and all(
            first <= before[0][1] < last for first, last in there)
    return Check("MPTCP: data sequence goes on", going_on == _WAYS and not opened,
                 f"{going_on} of {_WAYS} ways go on at {observed.care_of} without a gap; "
                 f"{len(opened)} other connections requested there")

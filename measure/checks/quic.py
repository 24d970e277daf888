"""Check from captured packets that a QUIC tunnel carries all traffic of a moving node.

`check_quic` takes a policy's layer `quic` and the results of a repetition (one measurement of a
policy). Packets are decrypted with the TLS secrets that both ends logged, by tshark and not by the
library that made them. After a move to another subnet, the checks state that the new path was
validated (RFC 9000, 8.2). The connection must continue there with new connection IDs.
`measure.checks.proof` calls this module.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence

from measure.capture import pcap
from measure.capture.pcap import CapturedFrame
from measure.checks import mobility
from measure.checks.observation import Check, Observation
from measure.packets import quic
from measure.packets.quic import QUIC_PORT, QuicDatagram
from policies.layers import QuicLayer

_WAYS = 2
_UDP_HEAD_BYTES = 8


def check_quic(layer: QuicLayer, observed: Observation) -> Iterator[Check]:
    """Yield the checks of a QUIC tunnel: handshake, traffic, and the move to another address."""
    file = observed.capture_path("auth-mn")
    datagrams = quic.read_datagrams(file, observed.raw.get("quic_keys", ())) \
        if file.exists() else []
    home, *away = observed.split_by_attachment(datagrams)
    yield _check_handshake(home, observed)
    yield _check_decryption(datagrams, observed)
    traffic = mobility.count_tunnel_traffic(mobility.tunnel_frames(observed), _count_inner)
    yield mobility.check_tunnelled("QUIC: tunnelled", traffic, "QUIC's")
    carried_bytes = mobility.streamed_bytes(observed)
    yield Check("QUIC: carried", traffic.inner_bytes >= carried_bytes > 0,
                f"{traffic.inner_bytes} bytes inside packets, {carried_bytes} of the stream")
    if not observed.care_of:
        return
    moved = [each for each in away[0] if observed.care_of in (each.source, each.target)]
    yield from _check_migration(home, moved, observed) if layer.migrates else \
        [_check_reconnection(home, moved)]


def _check_handshake(datagrams: Sequence[QuicDatagram], observed: Observation) -> Check:
    """Check that one handshake took place at home, under the agent's certificate."""
    by_node = [each for each in datagrams if each.source == observed.home_address]
    by_agent = [each for each in datagrams if each.source == observed.home_agent]
    # Before the connection has other IDs, the node's first Initial has one that it chose.
    first = {each.connection_ids[0] for each in by_node if quic.INITIAL in each.long_types
             and 1 in each.handshakes}
    shown = Counter(kind for each in by_agent for kind in each.handshakes)
    suites = {quic.SUITES.get(number, hex(number)) for each in by_agent for number in each.suites}
    ended = any(quic.FINISHED in each.handshakes for each in by_node)
    return Check("QUIC: handshake", len(first) == 1 and shown[quic.CERTIFICATE] == 1 and ended
                 and suites == {"AES-256-GCM"},
                 f"{len(first)} connections opened at home, {shown[quic.CERTIFICATE]} certificates "
                 f"of the agent's, {'' if ended else 'not '}finished; cipher "
                 f"{', '.join(sorted(suites)) or 'none'}")


def _check_decryption(datagrams: Sequence[QuicDatagram], observed: Observation) -> Check:
    """Check that all packets decrypt with the run's secrets, to packets of the mobile node."""
    whole = [each for each in datagrams if each.is_whole]
    closed = [each for each in whole if not each.is_open]
    inner = [pair for each in whole for pair in each.inner]
    strange = [pair for pair in inner if observed.home_address not in pair]
    return Check("QUIC: packets open", bool(inner) and not closed and not strange,
                 f"{len(whole) - len(closed)} of {len(whole)} datagrams decrypt with the run's "
                 f"secrets, to {len(inner)} packets, {len(strange)} of them not of "
                 f"{observed.home_address}")


def _count_inner(frame: CapturedFrame) -> int | None:
    """Return the bytes inside a QUIC packet with one DATAGRAM frame, None for another packet."""
    udp = pcap.parse_udp_header(frame)
    if udp is None or QUIC_PORT not in (udp.source_port, udp.target_port):
        return None
    start = (frame.payload[0] & 15) * 4
    [length] = struct.unpack_from("!H", frame.payload, start + 4)
    return max(0, int(length) - _UDP_HEAD_BYTES - quic.ADDED_BYTES)


def _check_migration(home: Sequence[QuicDatagram], moved: Sequence[QuicDatagram],
                     observed: Observation) -> Iterator[Check]:
    """Check that the QUIC connection continues at the mobile node's new address."""
    challenges = {data for each in moved if each.source == observed.home_agent
                  for data in each.challenges}
    responses = {data for each in moved if each.source == observed.care_of
                 for data in each.responses}
    proven = challenges & responses
    yield Check("QUIC: new path is validated", bool(proven),
                f"{len(challenges)} PATH_CHALLENGE of the agent to {observed.care_of}, "
                f"{len(responses)} PATH_RESPONSE from there, {len(proven)} with equal data"
                + (f" ({', '.join(sorted(proven))})" if proven else ""))
    ways = [(observed.home_agent, observed.care_of), (observed.care_of, observed.home_agent)]
    opened = [each for each in moved if each.long_types]
    used = [{name for each in moved if (each.source, each.target) == way
             for name in each.connection_ids} for way in ways]
    issued = {name for each in home for name in each.issued}
    before = {name for each in home for name in each.connection_ids}
    fresh = [names & issued - before for names in used]
    yield Check("QUIC: connection goes on", not opened and all(
        names and names == known for names, known in zip(used, fresh, strict=True)),
        f"{len(opened)} packets of a handshake at {observed.care_of}; connection IDs there: "
        f"{sum(map(len, used))}, {sum(map(len, fresh))} of them issued in the connection before, "
        "and not used at home")


def _check_reconnection(home: Sequence[QuicDatagram], moved: Sequence[QuicDatagram]) -> Check:
    """Check that the node opened another connection at its new address."""
    opened = [each for each in moved if quic.INITIAL in each.long_types]
    ways = {each.source for each in opened}
    issued = {name for each in home for name in each.issued}
    reused = {name for each in moved for name in each.connection_ids} & issued
    challenged = sum(len(each.challenges) for each in moved)
    return Check("QUIC: new connection after the move", len(ways) == _WAYS and not reused
                 and not challenged,
                 f"{len(opened)} Initial packets, {len(ways)} ways; {len(reused)} connection IDs "
                 f"of the connection before, {challenged} PATH_CHALLENGE")

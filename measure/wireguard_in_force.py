"""Check WireGuard between a mobile node and its agent, from packets and both kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from measure import dissect, iperf, mobility, pcap, wireguard
from measure.observed import Check, Observed
from measure.pcap import CapturedFrame
from measure.points import AUTH, MOVE, TRAFFIC

_UDP, _ICMP = 17, 1


def verify(observed: Observed) -> Iterator[Check]:
    """Check handshake and sessions, and that no packet of the mobile node bypasses the tunnel."""
    traffic = wireguard.classify_traffic(_tunnel_frames(observed), {wireguard.PORT})
    for check in wireguard.verify_traffic(traffic, _streamed_bytes(observed)):
        yield replace(check, check=f"WireGuard: {check.check}")
    states = observed.raw["kernel"].get("wireguard", {})
    begun_s = observed.raw["stamps"].get("start", float("inf"))
    fresh = [any(peer["handshake_s"] and peer["handshake_s"] >= begun_s - 1 for peer in peers)
             for peers in states.values()]
    yield Check("WireGuard: sessions in the kernels", len(fresh) > 1 and all(fresh),
                f"{sum(fresh)} of {len(fresh)} ends have had a handshake since it began")


def _streamed_bytes(observed: Observed) -> int:
    """Return the bytes that streams carried, or 1 for an authentication without a stream."""
    said = [iperf.summarize(observed.raw[name])["bytes"] for name in ("iperf_tcp", "iperf_udp")
            if name in observed.raw]
    return max(1, round(sum(said)))


def _tunnel_frames(observed: Observed) -> list[CapturedFrame]:
    """Return the mobile node's packets behind the access point in use, without Mobile IP."""
    moved = observed.moved_s
    taken: list[CapturedFrame] = []
    for part in (AUTH,) if observed.part else (AUTH, MOVE, TRAFFIC):
        home, away = (observed.capture_path(f"{part}-{point}") for point in ("wire", "foreign"))
        # A part that begins after the handoff has one capture, behind the access point in use.
        has_both = away.exists()
        taken += [frame for frame in _read_frames(home) if frame.at_s < moved or not has_both]
        taken += [frame for frame in _read_frames(away) if frame.at_s >= moved]
    mac = bytes.fromhex(observed.mac.replace(":", ""))
    return sorted((frame for frame in taken
                   if mac in (frame.data[:6], frame.data[6:12]) and not _is_mobile_ip(frame)),
                  key=lambda frame: frame.at_s)


def _read_frames(file: Path) -> Sequence[CapturedFrame]:
    return list(pcap.read_frames(file)) if file.exists() else ()


def _is_mobile_ip(frame: CapturedFrame) -> bool:
    """Return whether a packet belongs to agent discovery or registration."""
    packet = frame.payload
    if len(packet) < 28:
        return False
    start = (packet[0] & 15) * 4
    if packet[9] == _ICMP:
        return packet[start] in (dissect.AGENT_ADVERTISEMENT, dissect.AGENT_SOLICITATION)
    ports = {int.from_bytes(packet[start + at:start + at + 2], "big") for at in (0, 2)}
    return packet[9] == _UDP and mobility.PORT in ports

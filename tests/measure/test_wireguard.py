"""WireGuard's packets are told from others, its sessions and handshake are read off a capture."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

import made_up_captures
import recorded
from measure.capture.pcap import CapturedFrame
from measure.checks import mobility
from measure.checks.observation import Observation
from measure.packets import wireguard
from policies.layers import WireGuardLayer

ONE, OTHER = 0x11111111, 0x22222222
SIZES = {wireguard.INITIATION: 148, wireguard.RESPONSE: 92}


def frame(at_s: float, payload: bytes, *, port: int = wireguard.WIREGUARD_PORT) -> CapturedFrame:
    """An Ethernet frame with a UDP datagram from a tunnel's end to the other."""
    udp = struct.pack("!HHHH", wireguard.WIREGUARD_PORT, port, 8 + len(payload), 0) + payload
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes((10, 0, 0, 1)),
                     bytes((10, 0, 0, 2))) + udp
    data = bytes(12) + b"\x08\x00" + ip
    return CapturedFrame(at_s, data, len(data))


def shake(at_s: float, kind: int, index: int) -> CapturedFrame:
    """A message of a handshake."""
    return frame(at_s, struct.pack("<B3xI", kind, index).ljust(SIZES[kind], b"\x77"))


def transport(index: int, counter: int, inner: int = 64) -> CapturedFrame:
    """A packet inside the tunnel."""
    return frame(3.0, struct.pack("<B3xIQ", wireguard.TRANSPORT, index, counter)
                 + bytes(inner + 16))


LIFE = [shake(1.0, wireguard.INITIATION, ONE), shake(1.25, wireguard.RESPONSE, OTHER),
        transport(OTHER, 0), transport(OTHER, 1), transport(ONE, 0)]


def failing(frames: list[CapturedFrame], carried: int = 100) -> set[str]:
    """The checks that do not hold of a capture."""
    seen = wireguard.classify_traffic(frames, {wireguard.WIREGUARD_PORT})
    return {check.check for check in wireguard.check_wireguard_traffic(seen, carried)
            if not check.ok}


def test_a_tunnels_life_is_read_and_proven() -> None:
    """Handshake's time, sessions of both directions, and what was carried."""
    seen = wireguard.classify_traffic(LIFE, {wireguard.WIREGUARD_PORT})
    assert seen.handshake_s == pytest.approx(0.25)
    assert (seen.sessions, seen.inner_bytes) == ({ONE, OTHER}, 3 * 64)
    assert failing(LIFE) == set()


@pytest.mark.parametrize(("more", "check"), [
    (frame(4.0, b"a message in clear, long enough to be anything"), "tunnelled"),
    (frame(4.0, struct.pack("<B3xIQ", 4, OTHER, 9) + bytes(80), port=53), "tunnelled"),
    (frame(4.0, struct.pack("<B3xI", wireguard.RESPONSE, ONE).ljust(90)), "tunnelled"),
    (transport(0x33333333, 7), "sessions"),
    (transport(OTHER, 1), "sessions")])
def test_what_does_not_belong_fails_its_check(more: CapturedFrame, check: str) -> None:
    """A datagram in clear or beside the port, a wrong length, a stranger's session, a replay."""
    assert failing([*LIFE, more]) == {check}


def test_a_tunnel_that_carries_nothing_is_no_proof() -> None:
    """The traffic flowed elsewhere, or there was no handshake at all."""
    assert failing(LIFE, carried=1000) == {"carried"}
    assert failing(LIFE[2:]) == {"handshake", "sessions"}
    assert failing([]) == {"handshake", "tunnelled", "sessions", "carried"}


@pytest.mark.parametrize(("part", "holds"), [("", True), ("auth1", False)])
def test_each_authentication_is_judged_by_its_own_capture(part: str, holds: bool,
                                                          tmp_path: Path) -> None:
    """What the last one's has is no evidence of one before it, which built no tunnel."""
    mac = recorded.MAC
    life = [(each.at_s, bytes.fromhex(mac.replace(":", "")) + each.data[6:]) for each in LIFE]
    for name, frames in (("auth-wire", life), ("auth1-wire", life[2:])):
        made_up_captures.written(tmp_path / f"{name}.pcap", frames, made_up_captures.ETHERNET)
    raw = {"stamps": {}, "kernel": {}}
    seen = Observation(raw, {"auth-wire": ()}, mac, frozenset({mac}), frozenset(), folder=tmp_path,
                       part=part)
    held = {check.check: check.ok for check in mobility.check_wireguard(WireGuardLayer(), seen)}
    assert held["WireGuard: handshake"] == holds


def failing_settings(layer: WireGuardLayer, tmp_path: Path, *, inner_bytes: int,
                     peers: Sequence[dict[str, object]]) -> set[str]:
    """The checks of WireGuard's settings that do not hold, of a stream and two kernels."""
    mac = bytes.fromhex(recorded.MAC.replace(":", ""))
    full = [frame(3.0, struct.pack("<B3xIQ", wireguard.TRANSPORT, OTHER, 9) + bytes(size + 16))
            for size in (64, inner_bytes)]
    frames = [(each.at_s, mac + each.data[6:]) for each in (*LIFE, *full)]
    made_up_captures.written(tmp_path / "auth-wire.pcap", frames, made_up_captures.ETHERNET)
    total = {"bytes": 1, "seconds": 1}
    tcp = {"end": {"sum_received": total, "sum_sent": total}}
    raw = {"stamps": {}, "iperf_tcp": tcp, "kernel": {"wireguard": {
        name: [{"handshake_s": 1.0, **peer}] for name, peer in zip("ab", peers, strict=True)}}}
    seen = Observation(raw, {"auth-wire": ()}, recorded.MAC, frozenset({recorded.MAC}),
                       frozenset(), folder=tmp_path)
    return {check.check for check in mobility.check_wireguard(layer, seen)
            if not check.ok and check.check in (
                "WireGuard: MTU", "WireGuard: keepalive", "WireGuard: pre-shared key")}


ALL_SETTINGS = WireGuardLayer(mtu=1280, keepalive=25, preshared_key=1)
KEYED = {"keepalive_s": 0, "has_preshared_key": True}


@pytest.mark.parametrize(("inner_bytes", "peers", "expected"), [
    (1280, [KEYED | {"keepalive_s": 25}, KEYED], set()),
    (1440, [KEYED | {"keepalive_s": 25}, KEYED], {"WireGuard: MTU"}),
    (1000, [KEYED | {"keepalive_s": 25}, KEYED], {"WireGuard: MTU"}),
    (1280, [KEYED, KEYED], {"WireGuard: keepalive"}),
    (1280, [KEYED | {"keepalive_s": 20}, KEYED], {"WireGuard: keepalive"}),
    (1280, [{"keepalive_s": 25}, KEYED], {"WireGuard: pre-shared key"})])
def test_each_setting_has_a_check(inner_bytes: int, peers: list[dict[str, object]],
                                  expected: set[str], tmp_path: Path) -> None:
    """The longest packet, the kernels' intervals and the kernels' keys decide."""
    assert failing_settings(ALL_SETTINGS, tmp_path, inner_bytes=inner_bytes,
                            peers=peers) == expected
    assert failing_settings(WireGuardLayer(), tmp_path, inner_bytes=inner_bytes,
                            peers=peers) == set()

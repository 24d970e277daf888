"""MACsec's frames are opened outside of kernels, and what is no proof is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from measure.capture import pcap
from measure.capture.tcpdump import auth_points
from measure.checks import macsec
from measure.checks.macsec import ProtectedFrame
from measure.checks.observation import Observation
from measure.services.macsec import is_secured
from policies.layers import WireLayer
from topologies.loader import load_scenario

RECORDED = Path(__file__).parents[1] / "recorded" / "macsec"
SCI, KEY = bytes.fromhex("0200000000a00001"), bytes(range(16))
ADDRESSES = bytes.fromhex("0200000000010200000000a0")
PACKET = b"\x08\x00" + bytes((0x45, 0)) + (60).to_bytes(2, "big") + bytes(56)
LAYER = WireLayer(macsec="GCM-AES-128")


def frame(number: int = 1, inside: bytes = PACKET, *, encrypted: bool = True,
          key: bytes = KEY) -> ProtectedFrame:
    """A frame as IEEE 802.1AE has it."""
    tag = b"\x88\xe5" + bytes((0x2C if encrypted else 0x20, 0)) + number.to_bytes(4, "big") + SCI
    nonce, head = SCI + number.to_bytes(4, "big"), ADDRESSES + tag
    sealed = AESGCM(key).encrypt(nonce, inside, head) if encrypted else \
        inside + AESGCM(key).encrypt(nonce, b"", head + inside)
    return ProtectedFrame(0.0, head + sealed, len(head + sealed))


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_frame_opens_with_its_key_alone(encrypted: bool) -> None:
    """Encrypted or only authenticated; no other key, and no frame with one bit changed."""
    made = frame(encrypted=encrypted)
    assert made.decrypt(KEY) == ADDRESSES + PACKET
    assert (made.is_encrypted, made.number, made.channel, made.association) == (
        encrypted, 1, SCI, 0)
    assert made.decrypt(bytes(16)) is None
    for place in range(len(made.data)):
        changed = bytearray(made.data)
        changed[place] ^= 0x80
        if place not in (12, 13):  # what makes it MACsec's
            assert ProtectedFrame(0.0, bytes(changed), made.wire_bytes).decrypt(KEY) is None


@pytest.mark.parametrize("encrypted", [True, False])
def test_the_head_of_a_frame_tells_its_key(encrypted: bool) -> None:
    """Of a packet that is as long as the frame says; with another key it is encrypted noise."""
    made = frame(encrypted=encrypted)
    head = ProtectedFrame(0.0, made.data[:60], made.wire_bytes)
    assert head.has_plausible_start(KEY)
    assert not ProtectedFrame(0.0, made.data[:60], made.wire_bytes + 1).has_plausible_start(KEY)
    assert head.has_plausible_start(bytes(16)) is not encrypted
    question = frame(inside=b"\x08\x06" + bytes(28), encrypted=encrypted)
    assert question.has_plausible_start(KEY)


def test_wires_are_captured_below_what_they_carry() -> None:
    """Those captures come first: they begin before the others, and end after them."""
    points = auth_points(load_scenario("E1"), has_macsec=True)
    assert [(point.name, point.node, point.interface) for point in points[:2]] == [
        ("macsec", "ap-a", "eth-a-sec"), ("macsecforeign", "ap-c", "eth-c-sec")]
    assert [point.name for point in points[2:]] == [
        point.name for point in auth_points(load_scenario("E1"))]


def test_a_wire_has_keys_once_both_ways_have() -> None:
    """As its kernel says: one to send by, and one for each channel that it receives."""
    for state in raw_values()["kernel"]["wires"].values():
        assert is_secured(state)
        [channel] = state["rx_sc"]
        for lacking in ({**state, "sa_list": []}, {**state, "rx_sc": []},
                        {**state, "rx_sc": [{**channel, "sa_list": []}]},
                        {**state, "rx_sc": [channel, {**channel, "sa_list": [{"active": False}]}]}):
            assert not is_secured(lacking)


# Of a repetition ------------------------------------------------------------------------------

EVERYWHERE, ENCRYPTS, OPEN, CARRIED, NUMBERED, IN_KERNELS = NAMES = [
    "MACsec on every frame of the wire", "MACsec encrypts", "MACsec frames open",
    "MACsec carries what is captured above it", "MACsec packet numbers", "MACsec in the kernels"]


def raw_values() -> dict[str, Any]:
    """What raw.json has of the recorded repetition, with the run's key."""
    said: dict[str, Any] = json.loads((RECORDED / "raw.json").read_text())
    return said


def observed(folder: Path, raw: dict[str, Any]) -> Observation:
    """A repetition at home, of M5-macsec in N2, by its files."""
    return Observation(raw, {}, "02:00:00:00:a2:00", frozenset(), frozenset(), folder=folder,
                       wires_key=bytes.fromhex(raw["cak"]))


def failing(folder: Path, raw: dict[str, Any], layer: WireLayer = LAYER) -> set[str]:
    """The checks that do not hold."""
    return {check.check for check in macsec.check_macsec(layer, observed(folder, raw))
            if not check.ok}


def test_a_protected_wire_is_proven() -> None:
    """By what a real wire, real kernels and real daemons left."""
    checks = list(macsec.check_macsec(LAYER, observed(RECORDED, raw_values())))
    assert [check.check for check in checks] == NAMES
    assert all(check.ok for check in checks), [c for c in checks if not c.ok]


@pytest.mark.parametrize(("windows", "holds"), [
    ((32, 32), True), ((32, 0), False), ((0, 0), False), ((32, 64), False), ((32,), False)])
def test_window_is_that_of_both_ends(windows: tuple[int, ...], holds: bool) -> None:
    """One end with another window is found, and an end that nothing is known of."""
    raw = raw_values()
    wires = raw["kernel"]["wires"]
    raw["kernel"]["wires"] = {end: {**wires[end], "window": window}
                              for end, window in zip(sorted(wires), windows, strict=False)}
    layer = LAYER.model_copy(update={"replay_window": 32})
    made = {check.check: check for check in macsec.check_macsec(layer, observed(RECORDED, raw))}
    assert made["MACsec replay window"].ok is holds
    assert "0 frames were dropped as late" in made["MACsec replay window"].detail


def copied(folder: Path) -> Path:
    """The recorded files, to be changed."""
    for file in RECORDED.glob("*.pcap"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def spoil(name: str, change: Callable[[list[pcap.CapturedFrame]], object]) -> Callable[
        [Path, dict[str, Any]], None]:
    """What changes the frames of a capture."""
    def spoiling(folder: Path, _: dict[str, Any]) -> None:
        frames = list(pcap.read_frames(folder / name))
        change(frames)
        pcap.write_frames(folder / name, frames)
    return spoiling


def in_clear(frames: list[pcap.CapturedFrame]) -> None:
    """One more frame, which nothing protects."""
    frames.append(pcap.CapturedFrame(frames[-1].at_s, ADDRESSES + PACKET, 12 + len(PACKET)))


def altered(frames: list[pcap.CapturedFrame]) -> None:
    """Another byte at the end of a frame of MACsec's."""
    place = next(i for i, each in enumerate(frames) if each.kind == 0x88E5)
    data = frames[place].data
    frames[place] = pcap.CapturedFrame(frames[place].at_s, data[:-1] + bytes((data[-1] ^ 1,)),
                                       len(data))


def kernels(**said: Any) -> Callable[[Path, dict[str, Any]], None]:
    """One end's kernel says something else."""
    def spoiling(_: Path, raw: dict[str, Any]) -> None:
        next(iter(raw["kernel"]["wires"].values())).update(said)
    return spoiling


@pytest.mark.parametrize(("spoil_it", "fails"), [
    (spoil("traffic-macsec.pcap", in_clear), {EVERYWHERE}),
    (spoil("auth-macsec.pcap", lambda frames: frames.pop(next(
        i for i, each in enumerate(frames) if i > 2 and each.kind == 0x88E5))),
     {NUMBERED, CARRIED}),
    (spoil("auth-macsec.pcap", altered), {OPEN, CARRIED}),
    (spoil("auth-macsec.pcap", list.clear), {EVERYWHERE, CARRIED, OPEN}),
    (spoil("auth-wire.pcap", in_clear), {CARRIED}),
    (spoil("macsec-ap-a.pcap", list.clear), {OPEN, CARRIED, IN_KERNELS}),
    (lambda _, raw: raw.update(cak="00" * 16), {OPEN, CARRIED, IN_KERNELS}),
    (lambda _, raw: raw["captures"].clear(), set(NAMES)),
    (kernels(cipher_suite="GCM-AES-256"), {IN_KERNELS}),
    (kernels(encrypt=False), {IN_KERNELS}),
    (kernels(sa_list=[]), {IN_KERNELS}),
    (lambda _, raw: raw["kernel"].pop("wires"), {IN_KERNELS}),
])
def test_what_is_no_proof_fails_its_check(
        tmp_path: Path, spoil_it: Callable[[Path, dict[str, Any]], object],
        fails: set[str]) -> None:
    """A frame in clear, lost, altered or not inside; keys of nobody's; kernels that differ."""
    raw = raw_values()
    spoil_it(copied(tmp_path), raw)
    assert failing(tmp_path, raw) == fails


def without_some(frames: list[pcap.CapturedFrame]) -> None:
    """Two frames of one sender's are lost on the way."""
    places = [i for i, each in enumerate(frames) if each.kind == 0x88E5]
    del frames[places[4]], frames[places[2]]


def one_again(frames: list[pcap.CapturedFrame]) -> None:
    """A frame comes once more, behind others."""
    frames.append(next(each for each in frames if each.kind == 0x88E5))


@pytest.mark.parametrize(("change", "lose", "fails"), [
    (without_some, 0.0, {NUMBERED}), (without_some, 0.1, set()),
    (one_again, 0.0, {NUMBERED}), (one_again, 0.1, {NUMBERED})])
def test_wire_that_loses_packets_leaves_numbers_out(
        tmp_path: Path, change: Callable[[list[pcap.CapturedFrame]], object], lose: float,
        fails: set[str]) -> None:
    """Numbers may be missing on such a wire only, and on none may one come again."""
    raw = raw_values()
    spoil("auth-macsec.pcap", change)(copied(tmp_path), raw)
    seen = replace(observed(tmp_path, raw), wires_lose=lose)
    assert {check.check for check in macsec.check_macsec(LAYER, seen)
            if not check.ok} - {CARRIED} == fails


def test_encrypted_frames_are_not_what_authenticated_ones_should_be() -> None:
    """A policy that leaves them in clear is judged by that."""
    assert failing(RECORDED, raw_values(), WireLayer(macsec="GCM-AES-128", encrypts=0)) == {
        "MACsec leaves frames in clear", IN_KERNELS}

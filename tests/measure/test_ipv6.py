"""IPv6 of a mobile node, judged from recorded packets of a repetition of P1 in N2-ipv6."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import PROJECT
from harness import wireshark
from measure.agent import kernel_state
from measure.capture import dissection, pcap, tshark
from measure.checks import ipv6, observation, phases
from measure.checks.observation import Check, Observation
from measure.packets import truncated_frames
from measure.services import iperf
from topologies.loader import load_scenario

RECORDED = Path(__file__).parents[1] / "recorded" / "ipv6"
STATION, OWN, PEER = "02:00:00:00:a2:00", "fd71:6f70:a01::ff:fe00:a200", "fd71:6f70:a01::1"
#: When the address could be used, after the first packet (s).
ADDRESSED_S = 3.0237


def observed(folder: Path, change: Callable[[bytes], bytes] = bytes, **raw: Any) -> Observation:
    """What was seen, with frames at the station changed, or left out where that gives b""."""
    frames = list(pcap.read_frames(RECORDED / "auth-mn.pcap"))
    pcap.write_frames(folder / "auth-mn.pcap", [
        replace(frame, data=data) for frame in frames if (data := change(frame.data))])
    shutil.copy(RECORDED / "auth-wire.pcap", folder)
    start_s = frames[0].at_s
    values = {"stamps": {"start": start_s, "addressed": start_s + ADDRESSED_S},
              "left": {"addressed": False}, "kernel": {}, "events": [], **raw}
    packets = {name: tshark.read_uncorrected([folder / f"{name}.pcap"])[0]
               for name in ("auth-mn", "auth-wire")}
    scenario = load_scenario(str(PROJECT / "examples/scenarios/N2-ipv6.yml"))
    return replace(observation.build_observation(scenario, values, packets), folder=folder)


def checks(seen: Observation) -> dict[str, Check]:
    """The checks by name."""
    return {check.check: check for check in ipv6.check_ipv6(seen)}


def kind_of(data: bytes) -> int:
    """The type of an ICMPv6 message, 0 of other frames."""
    return data[54] if data[12:14] == b"\x86\xdd" and data[20] == 58 else 0


def test_address_by_slaac_and_first_packet_are_proven_and_a_phase(tmp_path: Path) -> None:
    seen = observed(tmp_path)
    found = checks(seen)
    assert found["address by SLAAC"].ok, found["address by SLAAC"].detail
    assert found["traffic goes over IPv6"].ok, found["traffic goes over IPv6"].detail
    took_place = {phase.name: phase for phase in phases.find_phases(
        seen.raw, [], seen.packets_of("auth-mn"), STATION)}
    assert took_place["slaac"].packets == 3
    assert took_place["slaac"].end_s == pytest.approx(ADDRESSED_S, abs=1e-4)
    assert took_place["first_packet"].duration_s < 0.01


def test_missing_advertisement_fails_the_check(tmp_path: Path) -> None:
    seen = observed(tmp_path, lambda data: b"" if kind_of(data) == ipv6.ADVERTISEMENT else data)
    assert not checks(seen)["address by SLAAC"].ok


def test_prefix_without_the_autonomous_flag_fails_the_check(tmp_path: Path) -> None:
    def change(data: bytes) -> bytes:
        at = data.find(bytes((3, 4, 64)), 70)
        return data if kind_of(data) != ipv6.ADVERTISEMENT else \
            data[:at + 3] + bytes((data[at + 3] & ~0x40,)) + data[at + 4:]
    assert not checks(observed(tmp_path, change))["address by SLAAC"].ok


def test_missing_search_for_duplicates_fails_the_check(tmp_path: Path) -> None:
    seen = observed(tmp_path, lambda data: b"" if kind_of(data) == ipv6.NEIGHBOUR_SOLICITATION
                    and data[22:38] == bytes(16) else data)
    assert not checks(seen)["address by SLAAC"].ok


def test_address_that_was_there_fails_the_check(tmp_path: Path) -> None:
    assert not checks(observed(tmp_path, left={"addressed": True}))["address by SLAAC"].ok
    assert not checks(observed(tmp_path, left={}))["address by SLAAC"].ok


@pytest.mark.parametrize(("source", "target", "protocol", "is_ok"), [
    (OWN, PEER, 6, True), ("10.1.0.12", "10.1.0.1", 6, False)])
def test_streams_over_the_other_version_fail_the_check(tmp_path: Path, source: str, target: str,
                                                       protocol: int, is_ok: bool) -> None:
    """The packets of a stream decide, and not iperf3's report."""
    seen = observed(tmp_path, iperf_tcp={})
    assert not checks(seen)["traffic goes over IPv6"].ok  # no packet of the stream
    blank = next(p for p in seen.packets_of("auth-wire"))
    stream = []
    for one, other in ((source, target), (target, source)):
        packet = dataclasses.replace(blank, ip_src=one, ip_dst=other, ip_proto=protocol,
                                     icmp_type=None)
        stream.append(packet)
    with_stream = replace(seen, captures={**seen.captures, "traffic-wire": stream})
    assert checks(with_stream)["traffic goes over IPv6"].ok is is_ok


def test_datagrams_over_ipv6_are_what_tshark_says() -> None:
    capture = RECORDED / "traffic-peer.pcap"
    plain, told = tshark.read_datagrams(capture), dissection.read_packets(capture)
    assert {(p.udp_dst, p.ip_src, p.ip_dst, p.ip_proto) for p in plain} == {
        (iperf.PORT, OWN, PEER, pcap.UDP)}
    assert {p.ip_bytes for p in plain} == {44 + 8, 40 + 8 + 1400} or len(
        {p.ip_bytes for p in plain}) == 2
    assert [dataclasses.replace(packet, time_s=0) for packet in plain] == [
        dataclasses.replace(packet, time_s=0) for packet in told]


@pytest.mark.parametrize(("text", "is_open"), [
    (bytes.fromhex("aaaa0300000086dd60000000") + (960).to_bytes(2, "big") + b"\x11\x40"
     + bytes.fromhex("fd716f700a010000000000fffe00a200fd716f700a0100000000000000000001"), True),
    (bytes.fromhex("aaaa0300000086dd60000000") + (961).to_bytes(2, "big") + b"\x11\x40"
     + bytes.fromhex("fd716f700a010000000000fffe00a200fd716f700a0100000000000000000001"), False),
    (bytes.fromhex("aaaa0300000086dd60000000") + (960).to_bytes(2, "big") + b"\x11\x40"
     + bytes.fromhex("fd716f700a0100000000000000000009fd716f700a0100000000000000000001"), False),
    (bytes.fromhex("aaaa0300000086dd40000000") + (960).to_bytes(2, "big") + b"\x11\x40"
     + bytes.fromhex("fd716f700a010000000000fffe00a200fd716f700a0100000000000000000001"), False)],
    ids=["right", "length", "address", "version"])
def test_head_of_an_ipv6_packet_has_length_and_address(text: bytes, is_open: bool) -> None:
    known = {bytes.fromhex("fd716f700a010000000000fffe00a200")}
    assert truncated_frames._is_packet(text, 1008, known) is is_open


_IN_A_NAMESPACE = """
import os, subprocess
from measure.services.icmp_echo import EchoSocket
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["ip", "-6", "address", "add", "fd71:6f70::1/64", "dev", "lo", "nodad"], check=True)
echoes = EchoSocket(os.getpid(), 6)
for address, seconds in (("::1", 5), ("fd71:6f70::1", 5), ("fd71:6f71::1", 0.3)):
    print(echoes.is_answered(address, seconds))
"""


def test_echoes_of_icmpv6_are_heard_and_silence_is_none() -> None:
    apart = ["unshare", "-Urn"]
    if shutil.which("ip") is None or shutil.which("unshare") is None or subprocess.run(
            [*apart, "sh", "-c", "ip link set lo up && ip -6 address add fd71::1 dev lo nodad"],
            check=False, capture_output=True).returncode:
        pytest.skip("needs ip, of iproute2, and network namespaces with IPv6")
    said = subprocess.run([*apart, sys.executable, "-c", _IN_A_NAMESPACE], cwd=PROJECT, check=True,
                          capture_output=True, text=True).stdout.split()
    assert said == ["True", "True", "False"]


def test_keys_of_esp_between_ipv6_addresses_are_named_so() -> None:
    """Wireshark's table of ESP SAs has the version of IP."""
    text = ("src {} dst {}\n\tproto esp spi 0xc0ffee00 reqid 1 mode tunnel\n"
            "\tauth-trunc hmac(sha1) 0x{} 96\n\tenc cbc(des3_ede) 0x{}\n")
    for ends, version in (((OWN, PEER), "IPv6"), (("10.1.0.12", "10.1.0.1"), "IPv4")):
        [key] = kernel_state.parse_xfrm_keys(text.format(*ends, "00" * 20, "11" * 24))
        [line] = wireshark._esp_lines([key])
        assert line.startswith(f'"{version}","*","*","0xc0ffee00"')

"""Tests of what proves a tunnel behind a router that translates addresses (NAT)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from conftest import PROJECT
from measure.agent.kernel_state import parse_xfrm_state
from measure.capture import pcap, tshark
from measure.capture.tshark import Packet
from measure.checks import address_translation, mobility
from measure.checks.observation import Observation, build_observation
from measure.packets.wireguard import WIREGUARD_PORT
from policies import Layers, load_policy
from policies.layers import MOBIKE, WIREGUARD
from topologies.loader import load_scenario

SCENARIO = load_scenario(str(PROJECT / "examples/scenarios/nat.yml"))
IKE = load_policy(PROJECT / "examples/ikev2-nat.yml").layers
NODE, ROUTER, AGENT = "10.2.0.140", "10.0.2.1", "10.1.0.1"
BEFORE, AFTER = 31000, 42000
BLANK = replace(tshark.parse_packets("9\t60\n")[0], ip_proto=17, ip_bytes=120)
STAMPS = {"foreign_start": 5.0, "nat_kept_idle": 100.0, "nat_kept": 150.0,
          "nat_restarted_idle": 151.0, "nat_restarted": 201.0, "nat_end": 202.0}
SAS = [{"src": NODE, "dst": AGENT, "encap_sport": 4500, "encap_dport": 4500},
       {"src": AGENT, "dst": NODE, "encap_sport": 4500, "encap_dport": 4500}]
ANSWERED = {"from_peer": True, "from_node": True}
PROBED: dict[str, Any] = {"idle_s": 50.0, "kept": ANSWERED, "restarted": ANSWERED, "endpoints": [
    [f"{ROUTER}:{BEFORE}"], [f"{ROUTER}:{BEFORE}"], [f"{ROUTER}:{AFTER}"]]}


def up(at_s: float, port: int, own: int = 4500, **more: Any) -> list[tuple[str, Packet]]:
    """A packet of the tunnel from the node, inside and outside of the router."""
    sent = replace(BLANK, time_s=at_s, udp_dst=own, esp_spi="0x1", **more)
    return [("nat-inside", replace(sent, ip_src=NODE, ip_dst=AGENT, udp_src=own)),
            ("nat-outside", replace(sent, ip_src=ROUTER, ip_dst=AGENT, udp_src=port))]


def down(at_s: float, port: int, own: int = 4500) -> list[tuple[str, Packet]]:
    """A packet of the tunnel to the node, outside and inside of the router."""
    sent = replace(BLANK, time_s=at_s, udp_src=own, esp_spi="0x2")
    return [("nat-outside", replace(sent, ip_src=AGENT, ip_dst=ROUTER, udp_dst=port)),
            ("nat-inside", replace(sent, ip_src=AGENT, ip_dst=NODE, udp_dst=own))]


def alive(at_s: float, port: int) -> list[tuple[str, Packet]]:
    """A message of dead peer detection."""
    return up(at_s, port, isakmp_exchange=37)


TRAFFIC = [*up(99.0, BEFORE), *down(99.1, BEFORE), *alive(100.0, BEFORE), *alive(130.0, BEFORE),
           *up(150.0 - 1e-3, BEFORE, ip_bytes=29), *down(150.1, BEFORE), *up(150.2, BEFORE),
           *up(201.0, AFTER), *down(201.1, AFTER)]


def judged(traffic: Sequence[tuple[str, Packet]] = TRAFFIC, *, tunnel: str = MOBIKE,
           layers: Layers = IKE, nat: dict[str, Any] | None = None,
           sas: Sequence[dict[str, Any]] = SAS) -> set[str]:
    """The names of the checks that do not hold."""
    raw = {"stamps": STAMPS, "nat": nat or PROBED, "kernel": {"after_traffic": {"laptop": sas}}}
    captures = {point: [packet for at, packet in traffic if at == point]
                for point in ("nat-inside", "nat-outside")}
    seen = build_observation(SCENARIO, raw, captures).with_visit(NODE, tunnel, ROUTER)
    return {check.check for check in address_translation.check_translation(layers, seen)
            if not check.ok}


def test_tunnel_behind_nat_is_proven() -> None:
    """The router translates, the peer reaches the node, and the tunnel goes on at another port."""
    assert judged() == set()


@pytest.mark.parametrize(("change", "fails"), [
    (lambda traffic: [*traffic, ("nat-outside", replace(BLANK, time_s=99.0, ip_src=NODE,
                                                        ip_dst=AGENT))],
     {"router translates addresses and ports"}),
    (lambda traffic: [(at, replace(packet, udp_src=4500) if packet.ip_src == ROUTER else packet)
                      for at, packet in traffic],
     {"router translates addresses and ports", "router changes the port",
      "tunnel goes on at the new port"}),
    (lambda traffic: [(at, replace(packet, ip_proto=50, udp_src=None, udp_dst=None)
                       if at == "nat-inside" and packet.time_s == 150.2 else packet)
                      for at, packet in traffic],
     {"ESP in UDP"}),
    (lambda traffic: [(at, packet) for at, packet in traffic
                      if not (at == "nat-inside" and packet.time_s == 150.1)],
     {"peer reaches the idle node"}),
    (lambda traffic: [(at, packet) for at, packet in traffic if packet.time_s != 201.1],
     {"tunnel goes on at the new port"}),
    (lambda traffic: [(at, packet) for at, packet in traffic if packet.ip_bytes != 29],
     {"NAT keepalives"}),
    (lambda traffic: [(at, packet) for at, packet in traffic if packet.time_s != 100.0],
     {"dead peer detection"}),
    # The node updates its address right after a request.
    (lambda traffic: sorted([*traffic, *alive(130.02, BEFORE)], key=lambda each: each[1].time_s),
     set()),
    (lambda traffic: [(at, replace(packet, time_s=126.0) if packet.time_s == 130.0 else packet)
                      for at, packet in traffic], {"dead peer detection", "NAT keepalives"}),
])
def test_each_check_of_nat_fails_for_its_cause(change: Any, fails: set[str]) -> None:
    """An address left, a port kept, ESP in IP, a lost packet, no timer, or another interval."""
    assert judged(change(TRAFFIC)) == fails


@pytest.mark.parametrize(("nat", "fails"), [
    ({"kept": {"from_peer": False, "from_node": True}}, {"peer reaches the idle node"}),
    ({"restarted": {"from_peer": False, "from_node": True}}, {"tunnel goes on at the new port"}),
    ({"endpoints": [[f"{ROUTER}:{BEFORE}"]]}, {"tunnel goes on at the new port"}),
    ({"endpoints": []}, {"tunnel goes on at the new port"})])
def test_unanswered_echo_or_stale_port_fails(nat: dict[str, Any], fails: set[str]) -> None:
    """Packets alone are no proof: programs get answers, and the kernel has the port."""
    values = {**PROBED, **nat}
    values["endpoints"] = values["endpoints"] or [[]]
    assert judged(nat=values) == fails


def test_kernels_without_encapsulation_fail() -> None:
    """One SA with ESP in IP is enough."""
    assert judged(sas=[SAS[0], {"src": AGENT, "dst": NODE}]) == {"ESP in UDP"}
    assert judged(sas=[]) == {"ESP in UDP"}


def test_wireguard_behind_nat_is_proven_without_checks_of_ipsec() -> None:
    """Its packets are UDP anyway."""
    traffic = [*up(99.0, BEFORE, WIREGUARD_PORT), *down(150.1, BEFORE, WIREGUARD_PORT),
               *up(201.0, AFTER, WIREGUARD_PORT), *down(201.1, AFTER, WIREGUARD_PORT)]
    layers = load_policy(PROJECT / "examples/wireguard-nat.yml").layers
    assert judged(traffic, tunnel=WIREGUARD, layers=layers) == set()


def kernels(tunnel: str, kernel: dict[str, Any]) -> bool:
    """Whether the check of the kernels' addresses holds."""
    frame = replace(BLANK, subtype=0x20)
    seen: Observation = build_observation(
        SCENARIO, {"stamps": STAMPS, "kernel": kernel}, {"traffic-air": [frame]}).with_visit(
            NODE, tunnel, ROUTER)
    return next(check.ok for check in mobility.check_no_mobile_ip(seen)
                if check.check == "kernels have the new address")


def test_agents_kernel_has_the_routers_address() -> None:
    """The node's own kernel has the node's."""
    of_node, of_agent = {"src": NODE, "dst": AGENT}, {"src": ROUTER, "dst": AGENT}
    assert kernels(MOBIKE, {"after_traffic": {"laptop": [of_node], "office": [of_agent]}})
    assert not kernels(MOBIKE, {"after_traffic": {"laptop": [of_node], "office": [of_node]}})
    peers = [[{"endpoint": address, "handshake_s": 1.0}] for address in (AGENT, ROUTER, NODE)]
    assert kernels(WIREGUARD, {"wireguard": {"laptop": peers[0], "office": peers[1]}})
    assert not kernels(WIREGUARD, {"wireguard": {"laptop": peers[0], "office": peers[2]}})


def packet_of(protocol: int, body: bytes) -> bytes:
    """An IPv4 packet with a header of 20 bytes."""
    length = (20 + len(body)).to_bytes(2, "big")
    return b"\x45\0" + length + bytes(5) + bytes((protocol,)) + bytes(10) + body


UDP = (4500).to_bytes(2, "big") + (31000).to_bytes(2, "big") + bytes(4)
ESP = bytes.fromhex("0102030400000001") + bytes(range(32))


def test_esp_in_udp_is_unwrapped() -> None:
    """ESP alone: a message of IKE, a keepalive, and other ports stay as they are."""
    assert pcap.unwrap_esp(packet_of(17, UDP + ESP)) == packet_of(50, ESP)
    for packet in (packet_of(17, UDP + bytes(4) + ESP), packet_of(17, UDP + b"\xff"),
                   packet_of(17, b"\0\1\0\2" + UDP[4:] + ESP), packet_of(50, ESP), b""):
        assert pcap.unwrap_esp(packet) == packet


def test_ports_of_an_encapsulated_sa_are_read() -> None:
    """XFRMA_ENCAP has the ports in network byte order; an SA without it has none."""
    plain = bytearray(224)
    plain[76], plain[212] = 50, 2
    encapsulation = bytes.fromhex("0200") + (4500).to_bytes(2, "big") + (31000).to_bytes(
        2, "big") + bytes(18)
    attribute = (4 + len(encapsulation)).to_bytes(2, "little") + b"\4\0" + encapsulation
    state = parse_xfrm_state(bytes(plain) + attribute)
    assert (state["encap_sport"], state["encap_dport"]) == (4500, 31000)
    assert "encap_sport" not in parse_xfrm_state(bytes(plain))

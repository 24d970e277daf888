"""Tests of what proves that a tunnel has followed its node, and of the address that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from measure.capture import tshark
from measure.capture.tshark import Packet
from measure.checks import mobility
from measure.checks.observation import Check, Observation, build_observation
from measure.packets import wireguard
from policies.layers import MOBIKE, WIREGUARD
from topologies.loader import load_scenario

SCENARIO = load_scenario("R3")
HERE, AGENT, MAC = "10.2.0.140", "10.1.0.1", "02:00:00:00:a2:00"
BLANK = tshark.parse_packets("9\t60\n")[0]
ESP = replace(BLANK, ip_src=HERE, ip_dst=AGENT, ip_proto=tshark.ESP)
WG = replace(BLANK, ip_src=HERE, ip_dst=AGENT, ip_proto=17, udp_src=wireguard.WIREGUARD_PORT,
             udp_dst=wireguard.WIREGUARD_PORT)
TOLD = replace(BLANK, ip_src=HERE, ip_dst=AGENT, isakmp_exchange=37)
FRAME = replace(BLANK, subtype=0x20, transmitter=MAC, receiver="02:00:00:00:b0:00")
SAS = {"after_traffic": {"a2": [{"src": HERE, "dst": AGENT}],
                         "ha-a": [{"src": AGENT, "dst": HERE}]}}
OLD_SAS = {"after_traffic": {"a2": [{"src": "10.1.0.12", "dst": AGENT}]}}
PEERS = {"wireguard": {"a2": [{"endpoint": AGENT, "handshake_s": 1.0}],
                       "ha-a": [{"endpoint": HERE, "handshake_s": 1.0}]}}


def back(packet: Packet) -> Packet:
    """The same the other way."""
    return replace(packet, ip_src=packet.ip_dst, ip_dst=packet.ip_src)


def judged(tunnel: str, traffic: Sequence[Packet], told: Sequence[Packet] = (),
           kernel: dict[str, Any] = SAS) -> dict[str, Check]:
    """The checks of a move from A to B, by name."""
    raw = {"stamps": {"foreign_start": 5.0}, "kernel": kernel}
    seen = build_observation(SCENARIO, raw, {"traffic-foreign": traffic, "auth-mn": told,
                                             "traffic-air": [FRAME]})
    return {check.check: check for check
            in mobility.check_no_mobile_ip(seen.with_visit(HERE, tunnel))}


def failing(checks: dict[str, Check]) -> set[str]:
    """The names of those that do not hold."""
    return {name for name, check in checks.items() if not check.ok}


def test_a_tunnel_that_has_followed_its_node_is_proven() -> None:
    """Packets both ways, the agent told within the association, kernels with the new address."""
    assert not failing(judged(MOBIKE, [ESP, back(ESP)], [TOLD, back(TOLD)]))
    assert not failing(judged(WIREGUARD, [WG, back(WG)], kernel=PEERS))


@pytest.mark.parametrize(("traffic", "told", "kernel", "fails"), [
    ([ESP], [TOLD, back(TOLD)], SAS, "tunnel goes by the new address"),
    ([ESP, back(ESP), replace(ESP, ip_proto=6)], [TOLD, back(TOLD)], SAS,
     "tunnel goes by the new address"),
    ([ESP, back(ESP)], [TOLD], SAS, "MOBIKE"),
    ([ESP, back(ESP)], [TOLD, back(TOLD), replace(TOLD, isakmp_exchange=34)], SAS, "MOBIKE"),
    ([ESP, back(ESP)], [TOLD, back(TOLD)], OLD_SAS, "kernels have the new address"),
    ([ESP, back(ESP)], [TOLD, back(TOLD), replace(BLANK, mip_type=1)], SAS, "no Mobile IP"),
])
def test_each_check_fails_for_what_it_is_about(traffic: list[Packet], told: list[Packet],
                                               kernel: dict[str, Any], fails: str) -> None:
    """One way only, in clear beside it, unanswered, begun anew, the old address, Mobile IP."""
    assert failing(judged(MOBIKE, traffic, told, kernel)) == {fails}


def test_an_agent_that_sends_elsewhere_has_not_followed() -> None:
    """The agent's kernel still has the home address."""
    stale = {"wireguard": {"ha-a": [{"endpoint": "10.1.0.12", "handshake_s": 1.0}]}}
    assert failing(judged(WIREGUARD, [WG, back(WG)], kernel=stale)) == {
        "kernels have the new address"}


def test_a_node_at_home_has_nothing_to_prove_but_that_no_mobile_ip_runs() -> None:
    """Without a move, two checks are left."""
    at_home = replace(SCENARIO, roams_to=None)
    seen = build_observation(at_home, {"stamps": {}, "kernel": {}}, {"traffic-air": [FRAME]})
    names = [check.check for check in mobility.check_no_mobile_ip(seen.with_visit("", MOBIKE))]
    assert names == ["no Mobile IP", "all traffic passes the agent"]


def test_a_visitor_has_an_address_of_the_subnet() -> None:
    """Of B's prefix and with its own last bits; it knows the way out and where its agent is."""
    visit = SCENARIO.visit
    assert visit is not None
    assert (visit.address, visit.gateway) == ("10.2.0.140/24", "10.2.0.1")
    assert AGENT in visit.agent
    assert load_scenario("E1").visit is None
    assert load_scenario("N2").visit is None


def test_a_tunnel_is_negotiated_anew_only_by_who_left() -> None:
    """Not by a node that moves on, nor by one whose tunnel follows it."""
    seen: Observation = replace(build_observation(SCENARIO, {"stamps": {}, "kernel": {}}, {}))
    assert seen.renews_tunnel
    assert not replace(seen, roaming="full").renews_tunnel
    assert not seen.with_visit(HERE, MOBIKE).renews_tunnel

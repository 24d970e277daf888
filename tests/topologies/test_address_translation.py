"""Tests of address translation in networks: what is refused, and how a gateway is set up."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from conftest import PROJECT
from policies import Policy, load_policy
from policies.errors import PolicyError
from studies import policy_factors
from studies.qop2007 import cells
from studies.study import StudyError
from topologies import address_translation
from topologies.errors import TopologyError
from topologies.loader import load_scenario, to_json
from topologies.model import Scenario, from_json

EXAMPLE = PROJECT / "examples/scenarios/nat.yml"
IKE, WIREGUARD = "examples/ikev2-nat.yml", "examples/wireguard-nat.yml"


def changed(tmp_path: Path, *path: str, value: object) -> Path:
    """The example with one value changed."""
    content = yaml.safe_load(EXAMPLE.read_text())
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file = tmp_path / "nat.yml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def test_gateway_with_nat_has_an_outer_address() -> None:
    """It is what others see; tunnels between gateways do not end there."""
    scenario = load_scenario(str(EXAMPLE))
    assert scenario.translated_address == "10.0.2.1"
    assert scenario.network.tunnel_gateways == ["office"]
    assert from_json(Scenario, to_json(scenario)).visited_nat == scenario.visited_nat
    assert load_scenario("R3").translated_address == ""


def test_rules_translate_packets_from_inside_alone() -> None:
    """The gateway's own packets have its outer address already."""
    nodes = load_scenario(str(EXAMPLE)).network.nodes
    rules, *timeouts = address_translation.setup_commands(nodes["cafe"])
    assert 'oifname "wan0" ip saddr 10.2.0.1/24 ip saddr != 10.2.0.1 masquerade random' in rules
    assert [text.rpartition("=")[2] for text in timeouts] == ["30", "30"]
    assert address_translation.setup_commands(nodes["office"]) == []


@pytest.mark.parametrize(("path", "value", "message"), [
    (("network", "nodes", "cafe", "nat", "outside"), "wan1",
     "cafe has no interface 'wan1' with an address; name the one towards other networks"),
    (("network", "nodes", "cafe", "nat", "outside"), "lan0",
     "the gateway of cafe is not behind lan0"),
    (("network", "nodes", "cafe", "nat", "udp_timeout_s"), 4, "4; write seconds, 5 to 3600"),
    (("network", "nodes", "cafe", "forwarding"), False, "has an effect on a gateway"),
    (("network", "nodes", "internet", "nat"), {"outside": "core-a"}, "has an effect on a gateway"),
    (("network", "nodes", "office", "nat"), {"outside": "core0"},
     "office: nat.*: has an effect on the subnet that the mobile node moves to"),
    (("moves_on",), False, "cafe: nat.*: has an effect on the subnet that the mobile node moves"),
])
def test_nat_without_effect_is_refused(tmp_path: Path, path: tuple[str, ...], value: object,
                                       message: str) -> None:
    """The message has the place and what to write."""
    with pytest.raises(TopologyError, match=message):
        load_scenario(str(changed(tmp_path, *path, value=value)))


def policy(name: str) -> Policy:
    """A policy by its file."""
    return load_policy(PROJECT / name)


@pytest.mark.parametrize("name", ["policies/M2.yml", "policies/M10-mip.yml", "policies/M15.yml",
                                  "examples/ikev2-psk.yml"])
def test_policy_without_a_tunnel_for_nat_is_refused(name: str) -> None:
    """Mobile IP and QUIC are not measured there."""
    with pytest.raises(StudyError, match=r"cafe translates addresses.*write ipsec\.mobike: 1"):
        cells.check_nat(policy(name), load_scenario(str(EXAMPLE)))


def test_timers_without_nat_are_refused() -> None:
    """They would not expire, so that nothing would prove them."""
    for name in (IKE, WIREGUARD, "policies/M11.yml"):
        cells.check_nat(policy(name), load_scenario(str(EXAMPLE)))
    with pytest.raises(StudyError, match=r"ipsec\.dpd is measured behind a router with NAT"):
        cells.check_nat(policy(IKE), load_scenario("R3"))
    cells.check_nat(policy(WIREGUARD), load_scenario("R3"))


def test_idle_time_outlasts_router_and_timers() -> None:
    """Each timer of the policy expires twice."""
    scenario = load_scenario(str(EXAMPLE))
    assert cells.idle_behind_nat_s(policy("policies/M11.yml"), scenario) == 45
    assert cells.idle_behind_nat_s(policy(IKE), scenario) == 75
    assert cells.idle_behind_nat_s(policy(WIREGUARD), scenario) == 62.5
    assert cells.idle_behind_nat_s(policy(WIREGUARD), load_scenario("R3")) == 0


def test_other_studies_refuse_nat() -> None:
    """They have no checks of it."""
    with pytest.raises(StudyError, match="cafe translates addresses, and this study does not"):
        policy_factors.read_scenarios((), [EXAMPLE])
    assert policy_factors.read_scenarios((), [EXAMPLE], has_nat=True)


@pytest.mark.parametrize(("fields", "message"), [
    ("dpd: 20", "dpd is measured behind a router.*mobike: 1"),
    ("keepalive: 20", "keepalive is measured behind a router.*mobike: 1"),
    ("mobike: 1, keepalive: 20, dpd: 20", "dpd: 20 sends before keepalive: 20 is over"),
    ("mobike: 1, dpd: 4", "dpd: 4 is too small")])
def test_timers_without_effect_are_refused(tmp_path: Path, fields: str, message: str) -> None:
    """Without MOBIKE no tunnel gets behind NAT here, and DPD replaces later keepalives."""
    file = tmp_path / "p.yml"
    file.write_text("id: X\nname: X\nlayers:\n  ipsec: {ike: 2, ike_proposal: "
                    "aes256-sha256-modp2048, esp_proposal: aes256-sha256, "
                    f"{fields}}}\n")
    with pytest.raises(PolicyError, match=message):
        load_policy(file)

"""Networks with `ip: 6`: addresses, what is rendered for them, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import PROJECT
from harness.render import make_inventory
from policies.loader import load_named
from studies import policy_factors
from studies.contract import StudyError
from studies.qop2007 import cells
from studies.qop2007.settings import Settings
from studies.study import Cell, Level
from topologies import ipv6
from topologies.loader import TopologyError, load_network, load_scenario, to_json
from topologies.model import IPV6, Network, Scenario, from_json

EXAMPLE = PROJECT / "examples/scenarios/N2-ipv6.yml"
TRANSPORT = """\
id: TRANSPORT
name: IPsec in transport mode
layers:
  ipsec: {ike: 2, ike_proposal: aes256-sha256-ecp256, esp_proposal: aes256gcm16, mode: transport}
"""
DRIVE = """\
mobility: {to: [130, 45], start_s: 2, stop_s: 57}
roaming: {laptop: {bgscan: simple, threshold_dbm: -70, short_s: 2, long_s: 300}}
"""
SCENARIO = """\
id: mine
title: over IPv6
network: {network}
mobile_node: {node}
peer: {peer}
ip: 6
"""


@pytest.mark.parametrize(("address", "expected"), [
    ("10.1.0.1/24", "fd71:6f70:a01::1/64"), ("10.1.1.20/24", "fd71:6f70:a01:100::14/64"),
    ("10.1.0.130/25", "fd71:6f70:a01:80::2/64"), ("192.0.2.7/32", "fd71:6f70:c000:207::207/64")])
def test_ipv6_interface_has_the_bits_of_its_ipv4_subnet(address: str, expected: str) -> None:
    assert ipv6.ipv6_interface(address) == expected


@pytest.mark.parametrize(("prefix", "expected"), [
    ("0.0.0.0/0", "::/0"), ("10.1.0.0/16", "fd71:6f70:a01::/48"),
    ("10.1.2.0/24", "fd71:6f70:a01:200::/56")])
def test_ipv6_prefix_contains_the_subnets_of_its_ipv4_prefix(prefix: str, expected: str) -> None:
    assert ipv6.ipv6_prefix(prefix) == expected


def test_slaac_address_has_the_modified_eui_64_of_the_radio() -> None:
    """RFC 4291, appendix A."""
    assert ipv6.slaac_address("34:56:78:9a:bc:de", "10.1.0.1/24") == \
        "fd71:6f70:a01:0:3656:78ff:fe9a:bcde"


def test_network_with_ipv6_names_the_ends_of_streams_by_it() -> None:
    scenario = load_scenario(str(EXAMPLE))
    network = scenario.network
    assert network.address_of(scenario.mobile_node) == "fd71:6f70:a01::ff:fe00:a200"
    assert network.address_of(scenario.peer) == "fd71:6f70:a01::1"
    assert network.advertised_ports("ha-a") == ["air0"]
    before = load_scenario("N2").network
    assert before.address_of("ha-a") == "10.1.0.1"
    assert before.advertised_ports("ha-a") == []
    assert before.merge_with(network) is None


def test_plan_of_a_network_with_ipv4_has_no_field_of_ipv6() -> None:
    """Older results can be continued, and their digests are the same."""
    assert "ip" not in to_json(load_scenario("N2"))["network"]
    again: Scenario = from_json(Scenario, json.loads(json.dumps(to_json(load_scenario(
        str(EXAMPLE))))))
    assert again.network.ip == IPV6


def test_gateway_of_stations_advertises_their_prefix() -> None:
    inventory = make_inventory(load_scenario(str(EXAMPLE)).network)["all"]
    assert inventory["children"]["dhcp_server"]["hosts"] == {"ha-a": {}}
    assert inventory["hosts"]["ha-a"]["node"]["dhcp_server"]["advertised"] == [
        {"name": "air0", "subnet": "fd71:6f70:a01::"}]
    assert not make_inventory(load_scenario("N2").network)["all"]["children"]["dhcp_server"][
        "hosts"]


@pytest.mark.parametrize(("network", "node", "peer", "more", "message"), [
    ("two-subnets", "a2", "cn-a", "roams_to: ap-b\n",
     "ip: Mobile IPv4 cannot forward IPv6 packets to another subnet, that of ap-b"),
    ("campus", "laptop", "intranet", "", "ip: laptop gets its address by DHCP for IPv4"),
    ("corridor", "laptop", "intranet", DRIVE,
     "ip: a drive is measured by IPv4"),
    ("one-subnet", "a2", "cn-a", "links: {ha-a/wire0: {mtu_bytes: 1200}}\n",
     "ip: the link ha-a/wire0 to cn-a/eth0 takes 1200 bytes, and IPv6 needs 1280")])
def test_scenario_with_ipv6_refuses_what_needs_ipv4(
        tmp_path: Path, network: str, node: str, peer: str, more: str, message: str) -> None:
    """In one line that names file, line and field."""
    file = tmp_path / "mine.yml"
    text = SCENARIO.format(network=network, node=node, peer=peer) + more
    file.write_text(text)
    with pytest.raises(TopologyError) as error:
        load_scenario(str(file))
    assert str(error.value).startswith(f"{file}:6: {message}")
    assert "\n" not in str(error.value)
    file.write_text(text.replace("ip: 6\n", ""))
    assert load_scenario(str(file)).network.ip != IPV6


@pytest.mark.parametrize(("value", "message"), [("5", "5; write 4 or 6"), ("null", "is empty")])
def test_unknown_version_of_ip_is_refused(tmp_path: Path, value: str, message: str) -> None:
    file = tmp_path / "mine.yml"
    file.write_text(SCENARIO.format(network="one-subnet", node="a2", peer="cn-a").replace(
        "ip: 6", f"ip: {value}"))
    with pytest.raises(TopologyError, match=rf"mine\.yml:6: ip: {message}"):
        load_scenario(str(file))


@pytest.mark.parametrize(("policy", "layer"), [
    ("M11", "ipsec.mobike"), ("transport", "ipsec.mode: transport"), ("M10", "wireguard"),
    ("M15", "quic"), ("M16", "mptcp"),
    (str(PROJECT / "examples/wpa2-psk-vlan.yml"), "link.vlan")])
def test_policy_with_a_tunnel_or_vlan_is_refused_with_ipv6(tmp_path: Path, policy: str,
                                                           layer: str) -> None:
    scenario = load_scenario(str(EXAMPLE))
    read = cells.FACTORS[0].read
    if policy == "transport":
        policy = str(tmp_path / "transport.yml")
        Path(policy).write_text(TRANSPORT)
    [level] = [each for each in (read([], [Path(policy)]) if policy.endswith(".yml")
                                 else read([policy], [])) if each.id != "P1"]
    with pytest.raises(StudyError, match=rf"layers\.{layer} is for IPv4 here, .* ip: 6"):
        cells.check_ipv6(level.value, scenario)
    cells.check_ipv6(level.value, load_scenario("N2"))
    for known in ("M2", "P3", "M12"):
        cells.check_ipv6(load_named(known), scenario)


def test_other_studies_and_longer_datagrams_are_refused() -> None:
    with pytest.raises(StudyError, match="N2-ipv6: ip: 6 is measured by the study qop2007 alone"):
        policy_factors.read_scenarios([], [EXAMPLE])
    [level] = policy_factors.read_scenarios([], [EXAMPLE], has_ipv6=True)
    cell = Cell({"policy": Level("M2", value=load_named("M2")), "scenario": level})
    assert cells.testbed_spec(cell, Settings(udp_payload_bytes=1452)).network.ip == IPV6
    with pytest.raises(StudyError, match=r"1453 bytes are fragments in IPv6; .*1452 or less"):
        cells.testbed_spec(cell, Settings(udp_payload_bytes=1453))
    tunnel = replace(cell, levels={**cell.levels, "policy": Level("P3", value=load_named("P3"))})
    with pytest.raises(StudyError, match=r"P3 in scenario N2-ipv6: .*--udp-payload 1382 or less"):
        cells.testbed_spec(tunnel, Settings())


def test_network_file_may_have_ipv6_itself(tmp_path: Path) -> None:
    text = (PROJECT / "topologies/networks/one-subnet.yml").read_text()
    (tmp_path / "net.yml").write_text(text.replace("name: one-subnet", "name: net\nip: 6"))
    network: Network = load_network(str(tmp_path / "net.yml"))
    assert network.address_of("cn-a") == "fd71:6f70:a01:100::14"
    assert replace(network, ip=4).address_of("cn-a") == "10.1.1.20"

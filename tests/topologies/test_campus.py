"""Networks whose RADIUS server is a node of its own, with DHCP and without Mobile IP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import PROJECT
from measure.agent.time_limits import TimeLimits
from measure.capture.tcpdump import auth_points
from studies import policy_factors
from topologies import loader
from topologies.loader import TopologyError, load_scenario
from topologies.model import Scenario, from_json
from topologies.paths import path_between

CAMPUS = (PROJECT / "topologies/networks/campus.yml").read_text()
SCENARIO = """\
id: mine
title: a floor
network: net.yml
mobile_node: laptop
peer: intranet
roams_to: ap-2
"""


@pytest.mark.parametrize(("name", "delay_s"), [
    ("campus-0ms", 0.0), ("campus-20ms", 0.010), ("campus-80ms", 0.040)])
def test_delay_is_on_the_way_to_the_server_alone(name: str, delay_s: float) -> None:
    """The name has the round trip. Data between station and peer takes none of it."""
    scenario = load_scenario(name)
    for access_point in ("ap-1", "ap-2"):
        way = path_between(scenario.network, None, access_point, "radius")
        assert way.delay_s == delay_s
        assert path_between(scenario.network, None, access_point, "intranet").delay_s == 0
    assert scenario.separate_radius_servers == {"ap-1": "radius", "ap-2": "radius"}
    assert TimeLimits(scenario.network, None).to_peer(scenario).delay_s == 0
    assert ("radius", "radius", "eth0") in [
        (point.name, point.node, point.interface) for point in auth_points(scenario)]


def test_ocsp_is_captured_where_the_responder_is() -> None:
    """On its wire, or inside each RADIUS server that has one; time limits have its delay."""
    far = load_scenario(str(PROJECT / "examples/scenarios/ocsp-20ms.yml"))
    for scenario, places in ((far, [("ocsp", "responder", "eth0")]),
                             (load_scenario("N2"), [("ocsp", "ha-a", "lo")]),
                             (load_scenario("campus-20ms"), [("ocsp", "radius", "lo")]),
                             (load_scenario("R1"), [("ocsp", "ha-a", "lo"),
                                                    ("ocspforeign", "ha-b", "lo")])):
        found = [(point.name, point.node, point.interface)
                 for point in auth_points(scenario, has_ocsp=True)]
        assert [place for place in found if place[0].startswith("ocsp")] == places
        assert found[:-len(places)] == [(point.name, point.node, point.interface)
                                        for point in auth_points(scenario)]
    near = load_scenario(str(PROJECT / "examples/scenarios/ocsp-0ms.yml"))
    limits = [TimeLimits(scenario.network, None).link_s for scenario in (near, far)]
    assert limits[1] - limits[0] > 3 * 0.020


def test_distance_is_the_only_difference() -> None:
    """One link of the three scenarios differs."""
    near, *others = (load_scenario(f"campus-{far}ms").network for far in (0, 20, 80))
    for other in others:
        assert near.nodes == other.nodes
        changed = [(a, b) for a, b in zip(near.links, other.links, strict=True) if a != b]
        assert [b.ends for _, b in changed] == [["gw/wan0", "radius/eth0"]]


def test_second_server_answers_for_one_that_is_down() -> None:
    """Its wire is captured and its distance judged; limits allow for the first one's silence."""
    scenario = load_scenario(str(PROJECT / "examples/scenarios/radius-failover.yml"))
    network = scenario.network
    assert network.radius_servers_of("ap") == ["radius-1", "radius-2"]
    assert scenario.separate_radius_servers == {"ap": "radius-2"}
    nodes = {**network.nodes, "radius-1": replace(network.nodes["radius-1"], is_down=False)}
    running = replace(network, nodes=nodes)
    assert (network.fails_over("ap"), running.fails_over("ap")) == (True, False)
    assert running.radius_server_of("ap") == "radius-1"
    limits = [TimeLimits(each, None).link_s for each in (network, running)]
    assert limits[0] - limits[1] == 3 + 6 + 12 + 24


def test_limits_follow_the_server() -> None:
    """Authentication may take as long as the distance makes it; a lease has its own limit."""
    near, far = (load_scenario(f"campus-{away}ms") for away in (0, 80))
    of_near, of_far = (TimeLimits(each.network, None) for each in (near, far))
    assert of_far.link_s - of_near.link_s == pytest.approx(40 * 0.080)
    assert of_far.lease_s == of_near.lease_s > 0
    assert of_far.data_s(far) == of_near.data_s(near)
    assert of_far.under_way_s == pytest.approx(0.080)


def test_scenarios_without_the_new_fields_keep_their_digests() -> None:
    """Records of earlier versions still belong to them; a lease and a server make another one."""
    for name in ("N2", "R1", "E2"):
        content = loader.to_json(load_scenario(name))
        earlier = {**content, "network": {**content["network"], "nodes": {
            node: {key: value for key, value in its.items()
                   if key not in ("radius_server", "second_radius_server", "is_down")}
            for node, its in content["network"]["nodes"].items()}}}
        assert policy_factors.scenario_digest(earlier) == policy_factors.scenario_digest(content)
    scenario = load_scenario("campus-0ms")
    nodes = dict(scenario.network.nodes)
    radio = replace(nodes["laptop"].interfaces["wlan0"], dhcp=False)
    nodes["laptop"] = replace(nodes["laptop"], interfaces={"wlan0": radio})
    other = replace(scenario, network=replace(scenario.network, nodes=nodes))
    assert policy_factors.scenario_level(other).digest != policy_factors.scenario_level(
        scenario).digest


@pytest.mark.parametrize("field", [{"jitter_ms": 5.0}, {"loss_burst_packets": 4.0}], ids=str)
def test_jitter_and_bursts_make_another_digest(field: dict[str, float]) -> None:
    """A digest leaves them out only where a link has none."""
    scenario = load_scenario("campus-0ms")
    links = [replace(scenario.network.links[0], **field), *scenario.network.links[1:]]
    other = replace(scenario, network=replace(scenario.network, links=links))
    assert policy_factors.scenario_level(other).digest != policy_factors.scenario_level(
        scenario).digest


def test_home_agents_are_servers_by_themselves() -> None:
    """Where nothing is said, as ever; a gateway alone is none."""
    network = load_scenario("R1").network
    assert network.radius_server_of("ap-b") == "ha-b"
    assert load_scenario("R1").separate_radius_servers == {}
    campus = load_scenario("campus-0ms").network
    nodes = {**campus.nodes, "ap-1": replace(campus.nodes["ap-1"], radius_server=None)}
    assert replace(campus, nodes=nodes).radius_server_of("ap-1") == ""


def refused(folder: Path, network: str, scenario: str = SCENARIO) -> str:
    """What is said of a scenario in a network."""
    (folder / "net.yml").write_text(network)
    (folder / "mine.yml").write_text(scenario)
    with pytest.raises(TopologyError) as caught:
        load_scenario(str(folder / "mine.yml"))
    return str(caught.value).removeprefix(f"{folder}/")


LEASED = "address: 10.1.0.12/24, dhcp: true}"


@pytest.mark.parametrize(("old", "new", "said"), [
    (LEASED, "address: 10.1.0.12/24}",
     "gw: duties: dhcp_server: no station gets its address by DHCP; leave it out, or add dhcp"),
    ("[gateway, dhcp_server]", "[gateway]",
     "laptop/wlan0: dhcp: 0 nodes of duty dhcp_server on the wire behind ap-1; give one node"),
    ("duties: [correspondent]", "duties: [correspondent, dhcp_server]", ""),
    (LEASED, "address: 10.7.0.12/24, dhcp: true}",
     "laptop/wlan0: dhcp: the address 10.7.0.12 is outside of 10.1.0.0/24, the subnet of the DHCP"),
    (LEASED, "dhcp: true}",
     "laptop.interfaces.wlan0: a station's radio has no address; give it one, which the DHCP"),
    ("eth0: {address: 10.1.1.20/24}", "eth0: {address: 10.1.1.20/24, dhcp: true}",
     "intranet/eth0: has an effect on a station's radio alone; leave it out"),
    ("    gateway: 10.1.0.1\n    agent: gw\n    position: [40, 50]",
     "    gateway: 10.1.0.1\n    agent: gw\n    routes: {10.8.0.0/16: 10.1.0.1}",
     "laptop: routes: the DHCP server leases an address and the gateway alone; leave routes out"),
    ("radius_server: radius\n    position: [50", "radius_server: radio\n    position: [50",
     "ap-1: radius_server: no node 'radio' here; name one that takes part"),
    ("radius_server: radius\n    position: [50", "radius_server: intranet\n    position: [50",
     "ap-1: radius_server: intranet has no duty radius_server; add it there, or name another node"),
    ("    gateway: 10.1.0.1\n    agent: gw\n    radius_server: radius\n    position: [50",
     "    agent: gw\n    radius_server: radius\n    position: [50",
     "ap-1: radius_server: radius is in another subnet, and ap-1 has no gateway; give ap-1 one"),
    ("    duties: [correspondent]\n", "    duties: [correspondent]\n    radius_server: radius\n",
     "intranet: radius_server: has an effect on nodes of the duty access_point alone; leave it"),
    ("radius_server: radius\n    position: [50",
     "radius_server: radius\n    second_radius_server: radius\n    position: [50",
     "ap-1: second_radius_server: is the first one, too; name another node"),
    ("radius_server: radius\n    position: [50", "second_radius_server: radius\n    position: [50",
     "ap-1: second_radius_server: there is no radius_server before it; add one"),
    ("radius_server: radius\n    position: [50",
     "radius_server: radius\n    second_radius_server: intranet\n    position: [50",
     "ap-1: second_radius_server: intranet has no duty radius_server; add it there, or name"),
    ("    duties: [radius_server]\n", "    duties: [radius_server]\n    is_down: true\n",
     "ap-1: none of its RADIUS servers runs; leave is_down out of one, or add second_radius_"),
    ("    duties: [correspondent]\n", "    duties: [correspondent]\n    is_down: true\n",
     "intranet: is_down: has an effect on nodes of the duty radius_server alone; leave it out"),
    ("[gateway, dhcp_server]", "[gateway, home_agent, dhcp_server]",
     "gw: duties: a home_agent is the gateway of its subnet; leave gateway out"),
    ("[gateway, dhcp_server]", "[router, dhcp_server]",
     "laptop: agent: gw is neither home_agent nor gateway; name one that is"),
    ("  - {ends: [gw/wan0, radius/eth0]}\n", "",
     "radius: gateway: no neighbour of radius has the address 10.9.0.1; write a neighbour's"),
])
def test_services_that_cannot_work(old: str, new: str, said: str, tmp_path: Path) -> None:
    """Each is refused in a line with its place; another server elsewhere is no fault."""
    assert CAMPUS.count(old) == 1
    network = CAMPUS.replace(old, new)
    if not said:
        (tmp_path / "net.yml").write_text(network)
        (tmp_path / "mine.yml").write_text(SCENARIO)
        assert load_scenario(str(tmp_path / "mine.yml")).uses_dhcp
        return
    line = refused(tmp_path, network)
    assert said in line
    assert "\n" not in line


def test_a_server_that_no_link_leads_to(tmp_path: Path) -> None:
    """It takes part, or not: either way no request would arrive."""
    alone = CAMPUS.replace("    gateway: 10.9.0.1\n", "").replace(
        "  - {ends: [gw/wan0, radius/eth0]}\n", "")
    assert refused(tmp_path, alone).endswith(
        "ap-1: radius_server: no link leads to radius; add one")
    assert "ap-1: radius_server: no node 'radius' here; name one that takes part" in refused(
        tmp_path, CAMPUS, f"{SCENARIO}nodes: [laptop, ap-1, ap-2, gw, intranet]\n")


def test_nobody_moves_to_another_subnet_without_mobile_ip(tmp_path: Path) -> None:
    """No home agent forwards there; and with one, a lease does not follow."""
    text = (PROJECT / "topologies/networks/two-subnets.yml").read_text()
    visit = ("id: mine\ntitle: a visit\nnetwork: net.yml\nmobile_node: a2\npeer: cn-a\n"
             "roams_to: ap-b\n")
    gateway = text.replace("  ha-b:\n    duties: [home_agent]", "  ha-b:\n    duties: [gateway]"
                           ).replace("    serves: 10.2.0.0/16\n", "")
    assert "ha-b is no home_agent, so that no packet would follow the mobile node" in refused(
        tmp_path, gateway, visit)
    leased = text.replace("address: 10.1.0.12/32}", "address: 10.1.0.12/32, dhcp: true}").replace(
        "  ha-a:\n    duties: [home_agent]", "  ha-a:\n    duties: [home_agent, dhcp_server]")
    assert "the address of a2 is leased in its own" in refused(tmp_path, leased, visit)


def test_later_fields_of_nodes_stand_in_content_only_where_they_are_set() -> None:
    """Else the plans of earlier results would not be what they are made to be (`verify --redo`)."""
    scenario = load_scenario("N2")
    for node in loader.to_json(scenario)["network"]["nodes"].values():
        assert not {"is_down", "second_radius_server"} & node.keys()
    nodes = scenario.network.nodes
    down = replace(scenario, network=replace(scenario.network, nodes={
        **nodes, "ha-a": replace(nodes["ha-a"], is_down=True)}))
    content = loader.to_json(down)
    assert content["network"]["nodes"]["ha-a"]["is_down"] is True
    assert from_json(Scenario, content) == down

"""The audit of fields: each of a topology file's changes what is built, or has a reason not to.

Other fields than those here fail: who adds one says what it changes.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

from conftest import PROJECT
from harness.render import make_inventory
from policies import load_named
from studies.qop2007 import cells
from topologies import address_translation, loader, medium, queueing_disciplines
from topologies.device import Device, Work
from topologies.loader import load_medium, load_scenario, to_json
from topologies.medium import Transmitters
from topologies.medium_model import QUEUE, Signal
from topologies.model import Interface, Link, Medium, Mobility, Network, Node, Scenario, Wire

Document = dict[str, Any]
PLACED = load_medium("802.11g-positions")
#: For tables and messages alone.
WORDS = {"name", "title", "source", "notes", "id"}
WIRE = {"name": "w", "title": "t", "source": "mine", "rate_bps": 1e6}
ROAMING = {"bgscan": "simple", "threshold_dbm": -70, "short_s": 2, "long_s": 20}
DEVICE = {"name": "slow", "title": "t", "work": {"sha256-in-c": {"seconds": 1, "source": "mine"}}}


def scenario_document() -> Document:
    """R3 with its network inside, every optional field given."""
    folder = PROJECT / "topologies"
    document: Document = yaml.safe_load((folder / "scenarios/R3.yml").read_text())
    document["network"] = yaml.safe_load((folder / "networks/two-subnets.yml").read_text())
    document["network"]["links"][4] |= {"rate_bps": 1e7}
    document["nodes"].append("a1")
    document["id"] = "mine"
    return document


def loaded(folder: Path, document: Document) -> Scenario:
    """The scenario of a document."""
    (folder / "mine.yml").write_text(yaml.safe_dump(document))
    return load_scenario(str(folder / "mine.yml"))


def blueprint(scenario: Scenario) -> str:
    """What is built of a scenario and told to who measures in it, as one text."""
    network = scenario.network
    return json.dumps([
        make_inventory(network),
        [network.fails_over(name) for name in network.of_duty("access_point")],
        [(link.ends, link.mtu_bytes, [
            queueing_disciplines.wire_commands(link, end.partition("/")[2], end)
            for end in link.ends])
            for link in network.links],
        {name: [{port: to_json(interface) for port, interface in node.interfaces.items()},
                node.gateway, node.routes, node.forwarding,
                address_translation.setup_commands(node)]
         for name, node in network.nodes.items()},
        {name: to_json(device) for name, device in network.devices.items()},
        [scenario.mobile_node, scenario.peer, scenario.home, scenario.access_point,
         scenario.foreign_agent, cells.roaming_mode(load_named("M2"), scenario),
         scenario.is_placed],
        channel_of(network, PLACED)], sort_keys=True)


def channel_of(network: Network, its: Medium) -> str:
    """What the kernel is told of the channels of a network, as text."""
    air = Transmitters.from_network(network)
    return " ".join(queueing_disciplines.build_dcf_request(1, 1, queueing_disciplines.DcfChannel(
        its, max((*air.stations.values(), *air.access_points.values())),
        air.access_points_on(number), 0, 1,
        number, air.received_dbm(its, number), air.radio_links(its, number),
        air.addresses if its.management else {})).body.hex()
        for number in sorted(set(air.channels.values())))


def changes(*names: type) -> set[str]:
    """The fields of dataclasses, but for words."""
    return {field.name for each in names for field in dataclasses.fields(each)} - WORDS


def at_home_over_ipv6(document: Document, place: Document) -> None:
    """IPv6 in a scenario that stays at home, as Mobile IPv4 forwards none of it."""
    for name in ("roams_to", "moves_on"):
        document.pop(name)
    place["ip"] = 6


def put(*path: str | int, value: Any) -> Any:
    """Set a value somewhere in a document."""
    def apply(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
    return apply


def with_host(document: Document, link: list[str]) -> None:
    """Add a host, perhaps on a wire to the router."""
    network = document["network"]
    network["nodes"]["x1"] = {"duties": ["correspondent"],
                              "interfaces": {"eth0": {"address": "10.8.0.1/24"}}}
    network["nodes"]["router"]["interfaces"]["spare"] = {"address": "10.8.0.2/24"}
    network["links"] += [{"ends": link}] if link else []
    document["nodes"].append("x1")


def with_lease(document: Document) -> None:
    """Let another station than the mobile node get its address by DHCP, from its home agent."""
    nodes = document["network"]["nodes"]
    nodes["a1"]["interfaces"]["wlan0"]["dhcp"] = True
    nodes["ha-a"]["duties"].append("dhcp_server")


def with_radius_server(document: Document) -> None:
    """Let the correspondent be the RADIUS server of an access point."""
    nodes = document["network"]["nodes"]
    nodes["cn-a"]["duties"].append("radius_server")
    nodes["ap-a"] |= {"radius_server": "cn-a", "gateway": "10.1.0.1"}


def with_second_server(document: Document, *, is_down: bool = False) -> None:
    """Let the access point ask a home agent's server after the correspondent's."""
    with_radius_server(document)
    nodes = document["network"]["nodes"]
    nodes["ha-b"]["duties"].append("radius_server")
    nodes["ap-a"] |= {"second_radius_server": "ha-b"}
    nodes["cn-a"] |= {"is_down": is_down}


A2, ROUTER = ("network", "nodes", "a2"), ("network", "nodes", "router")
AP_A, HA_A = ("network", "nodes", "ap-a"), ("network", "nodes", "ha-a")
LINK, CORE = ("network", "links", 0), ("network", "links", 4)
#: By class and field: what is changed in the document.
IN_NETWORK: dict[tuple[type, str], Any] = {
    (Link, "ends"): put(*LINK, "ends", value=["ha-a/air0", "ap-a/eth-a"]),
    (Link, "mtu_bytes"): put(*LINK, "mtu_bytes", value=1400),
    (Link, "wire"): put(*LINK, "wire", value="gprs-2g"),
    (Link, "rate_bps"): put(*LINK, "rate_bps", value=1e6),
    (Link, "delay_ms"): put(*LINK, "delay_ms", value=20),
    (Link, "loss_percent"): put(*LINK, "loss_percent", value=5),
    (Link, "overhead_bytes"): put(*CORE, "overhead_bytes", value=24),
    (Link, "queue_packets"): put(*CORE, "queue_packets", value=7),
    (Link, "rate_back_bps"): put(*CORE, "rate_back_bps", value=5e6),
    (Link, "jitter_ms"): lambda document: document["network"]["links"][4].update(
        delay_ms=5, jitter_ms=2),
    (Link, "loss_burst_packets"): lambda document: document["network"]["links"][4].update(
        loss_percent=1, loss_burst_packets=3),
    (Interface, "address"): put(*AP_A, "interfaces", "br-a", "address", value="10.1.0.9/24"),
    (Interface, "radio"): put(*A2, "interfaces", "wlan0", "radio", value="02:00:00:00:a9:00"),
    (Interface, "bridge"): put(*AP_A, "interfaces", value={
        "wlan-a": {"radio": "02:00:00:00:a0:00", "bridge": "br-x"}, "eth-a": {"bridge": "br-x"},
        "br-x": {"address": "10.1.0.2/24"}}),
    (Interface, "dhcp"): with_lease,
    (Node, "radius_server"): with_radius_server,
    (Node, "second_radius_server"): with_second_server,
    (Node, "is_down"): lambda document: with_second_server(document, is_down=True),
    (Node, "duties"): put(*ROUTER, "duties", value=["router", "radius_client"]),
    (Node, "interfaces"): put(*ROUTER, "interfaces", "spare", value={"address": "10.7.0.1/24"}),
    (Node, "gateway"): put(*ROUTER, "gateway", value="10.0.1.1"),
    (Node, "routes"): put(*ROUTER, "routes", value={"10.1.0.0/16": "10.0.1.1"}),
    (Node, "agent"): put(*ROUTER, "agent", value="ha-a"),
    (Node, "forwarding"): put("network", "nodes", "cn-a", "forwarding", value=True),
    (Node, "serves"): put(*HA_A, "serves", value="10.1.0.0/17"),
    (Node, "ssid"): lambda document: [put("network", "nodes", name, "ssid", value="lab")(document)
                                      for name in ("ap-a", "ap-b")],
    (Node, "channel"): put(*AP_A, "channel", value=11),
    (Node, "position"): put(*A2, "position", value=[45, 45]),
    (Node, "device"): put(*A2, "device", value=DEVICE),
    (Node, "roaming"): put("network", "nodes", "a1", "roaming", value=ROAMING),
    (Node, "nat"): put("network", "nodes", "ha-b", "nat", value={"outside": "core0"}),
    (Network, "nodes"): lambda document: with_host(document, []),
    (Network, "ip"): lambda document: at_home_over_ipv6(document, document["network"]),
    (loader.ScenarioChanges, "ip"): lambda document: at_home_over_ipv6(document, document),
    (Network, "links"): lambda document: with_host(document, ["x1/eth0", "router/spare"]),
    (Scenario, "network"): put(*LINK, "delay_ms", value=1),
    (Scenario, "mobile_node"): put("mobile_node", value="a1"),
    (Scenario, "peer"): put("peer", value="ha-a"),
    (Scenario, "roams_to"): lambda document: [document.pop("roams_to"), document.pop("moves_on")],
    (Scenario, "moves_on"): lambda document: document.pop("moves_on"),
    (loader.ScenarioChanges, "nodes"): put("nodes", value=[
        "a2", "ap-a", "ap-b", "ha-a", "ha-b", "cn-a", "router"]),
    (loader.ScenarioChanges, "channels"): put("channels", value={"ap-a": 11}),
    (loader.ScenarioChanges, "roaming"): put("roaming", value={"a1": ROAMING}),
    (loader.ScenarioChanges, "positions"): put("positions", value={"a2": [45, 45]}),
    (loader.ScenarioChanges, "wire"): put("wire", value={"delay_ms": 60}),
    (loader.ScenarioChanges, "links"): put("links", value={"ha-a/air0": {"delay_ms": 60}}),
    (loader.LinkChanges, "jitter_ms"): put("links", value={
        "ha-a/core0": {"delay_ms": 5, "jitter_ms": 2}}),
    (loader.LinkChanges, "loss_burst_packets"): put("links", value={
        "ha-a/core0": {"loss_percent": 1, "loss_burst_packets": 3}}),
    **{(loader.LinkChanges, field): put("links", value={"ha-a/core0": {
        "rate_bps": 2e6, field: value}}) for field, value in {
        "wire": "gprs-2g", "mtu_bytes": 1500, "rate_bps": 3e6, "delay_ms": 5, "loss_percent": 1,
        "overhead_bytes": 24, "queue_packets": 7, "rate_back_bps": 4e6}.items()}}
#: What has no effect on measurements, and why.
ELSEWHERE = {(Scenario, "mobility"): "the drive of the scripts in topologies/examples",
             (Scenario, "is_placed"): "said of a scenario with positions, not by it"}


def test_every_field_of_a_network_is_audited() -> None:
    """No field is left out."""
    for kind in (Link, Interface, Node, Network, Scenario, loader.ScenarioChanges,
                 loader.LinkChanges):
        known = {field for its, field in (*IN_NETWORK, *ELSEWHERE) if its is kind}
        assert known == changes(kind), kind
    assert changes(Mobility) == {"to", "start_s", "stop_s"}
    # What a wire has goes into links whole.
    assert set(Wire("w", "t", "s").effect) == changes(Wire) | {"wire"}


@pytest.mark.parametrize(("kind", "field"), IN_NETWORK, ids=lambda part: getattr(
    part, "__name__", part))
def test_fields_of_networks_and_scenarios_change_what_is_built(
        kind: type, field: str, tmp_path: Path) -> None:
    """Each by itself."""
    document = scenario_document()
    # The scenario's own part of its network, so that taking one part more makes a difference.
    before = blueprint(loaded(tmp_path, copy.deepcopy(document)))
    IN_NETWORK[kind, field](document)
    assert blueprint(loaded(tmp_path, document)) != before


#: By field of a medium: other values, with what they go with.
IN_MEDIUM: Document = {
    "rate_bps": 36_000_000, "slot_us": 20.0, "sifs_us": 11.0, "difs_us": 40.0, "cw_min": 31,
    "preamble_us": 30.0, "ack_bytes": 90, "ack_rate_bps": 12_000_000, "ack_preamble_us": 30.0,
    "symbol_us": 3.6, "service_bits": 30, "extension_us": 7.0, "mac_bytes": 34,
    "loss_percent": 5.0, "retries": 3, "air": QUEUE, "cw_max": 511, "basic_rate_bps": 12_000_000,
    "eifs": True, "wait_difs": True, "cca_us": 5.0, "aggregate": 4, "aggregate_bytes": 4000,
    "longest_ppdu_us": 300.0, "mpdu_spacing_us": 8.0, "s_mpdu": True, "queue_frames": 40,
    "duration_step_us": 8.0, "phy": load_medium("802.11n-ht20").phy,
    "beacon_bytes": 200, "beacon_interval_ms": 50.0, "management": False,
    "signal": dataclasses.replace(PLACED.signal, exponent=3.0) if PLACED.signal else None}
IN_SIGNAL: Document = {"rates_bps": [6_000_000], "transmit_dbm": 20.0, "gains_db": 5.0,
                       "exponent": 3.0, "noise_dbm": -80.0, "sense_dbm": -80.0, "capture_db": 5.0}


def air_of(its: Medium) -> str:
    """What is made of a medium: the kernel's channel, or the size table of queues."""
    if its.air == QUEUE:
        return str(medium.frame_airtimes(its, 0))
    return channel_of(load_scenario("N2").network, its) + str(its.management)


def test_every_field_of_a_medium_changes_the_air() -> None:
    """No field of a medium or of its signal is left out, or without effect."""
    assert set(IN_MEDIUM) == changes(Medium)
    assert set(IN_SIGNAL) == changes(Signal)
    aggregates = dataclasses.replace(PLACED, aggregate=8)
    bases = {**dict.fromkeys(("aggregate_bytes", "longest_ppdu_us", "mpdu_spacing_us"), aggregates),
             "phy": dataclasses.replace(load_medium("802.11n-ht20"), phy=None)}
    for field, value in IN_MEDIUM.items():
        base = bases.get(field, PLACED)
        other = PLACED.without_contention if field == "air" else dataclasses.replace(
            base, **{field: value})
        assert air_of(other) != air_of(base), field
    assert PLACED.signal is not None
    for field, value in IN_SIGNAL.items():
        signal = dataclasses.replace(PLACED.signal, **{field: value})
        assert air_of(dataclasses.replace(PLACED, signal=signal)) != air_of(PLACED), field


def test_every_field_of_a_device_is_known() -> None:
    """What processors are slowed by: `measure/cpu/device_speeds.py` reads each figure."""
    assert changes(Device) == {"work", "processors"}
    assert changes(Work) == {"seconds", "bytes_per_s", "factor"}

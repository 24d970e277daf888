"""Tests of topologies.model and loader: shipped files, each kind of error, what travels as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]
from hypothesis import given
from hypothesis import strategies as st

from conftest import PROJECT
from topologies import loader, model
from topologies.device import Device, Work
from topologies.loader import (
    TopologyError,
    load_device,
    load_medium,
    load_network,
    load_scenario,
    load_wire,
)
from topologies.model import Interface, Link, Medium, Network, Node, Scenario, Wire

FOLDER = PROJECT / "topologies"
Document = dict[str, Any]

# A user's own scenario: two cells, a wire between their agents. Station a2 visits cell b.
OWN = """
id: mine
title: a visit
mobile_node: a2
peer: ha-a
roams_to: ap-b
network:
  name: own
  nodes:
    a2:
      kind: station
      interfaces: {wlan0: {radio: "02:00:00:00:a2:00", address: 10.1.0.12/32}}
      gateway: 10.1.0.1
      agent: ha-a
    ap-a:
      kind: access_point
      ssid: own
      channel: 1
      interfaces:
        wlan-a: {radio: "02:00:00:00:a0:00", bridge: br-a}
        eth-a: {bridge: br-a}
        br-a: {address: 10.1.0.2/24}
      agent: ha-a
    ap-b:
      kind: access_point
      ssid: own
      channel: 1
      interfaces:
        wlan-b: {radio: "02:00:00:00:b0:00", bridge: br-b}
        eth-b: {bridge: br-b}
        br-b: {address: 10.2.0.2/24}
      agent: ha-b
    ha-a:
      kind: home_agent
      forwarding: true
      interfaces: {air0: {address: 10.1.0.1/24}, core0: {address: 10.0.1.1/24}}
      gateway: 10.0.1.254
    ha-b:
      kind: home_agent
      forwarding: true
      interfaces: {air0: {address: 10.2.0.1/24}, core0: {address: 10.0.2.1/24}}
      gateway: 10.0.2.254
    router:
      kind: router
      forwarding: true
      interfaces: {core-a: {address: 10.0.1.254/24}, core-b: {address: 10.0.2.254/24}}
      routes: {10.1.0.0/16: 10.0.1.1, 10.2.0.0/16: 10.0.2.1}
  links:
    - {ends: [ap-a/eth-a, ha-a/air0]}
    - {ends: [ap-b/eth-b, ha-b/air0]}
    - {ends: [ha-a/core0, router/core-a]}
    - {ends: [ha-b/core0, router/core-b]}
"""
words = st.text(max_size=10)
names = st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True)
times = st.floats(0, 1e4, allow_nan=False)
rates = st.integers(1, 10**10)
interfaces = st.builds(Interface, address=st.none() | words, radio=st.none() | words,
                       bridge=st.none() | words)
works = st.builds(Work, source=words, seconds=st.none() | times, bytes_per_s=st.none() | times,
                  factor=st.none() | times)
devices = st.builds(Device, name=words, title=words, work=st.dictionaries(names, works, max_size=2),
                    processors=st.integers(1, 4), notes=st.lists(words, max_size=2))
nodes = st.builds(Node, duties=st.lists(names, max_size=3), device=st.none() | devices,
                  interfaces=st.dictionaries(names, interfaces, max_size=3),
                  gateway=st.none() | words, routes=st.dictionaries(words, words, max_size=2),
                  agent=st.none() | words, forwarding=st.booleans(),
                  ssid=st.none() | words, channel=st.none() | st.integers(1, 14))
links = st.builds(Link, ends=st.lists(words, max_size=3), delay_ms=times, loss_percent=times,
                  wire=words, rate_bps=st.none() | times)
networks = st.builds(Network, name=words, nodes=st.dictionaries(names, nodes, max_size=4),
                     links=st.lists(links, max_size=3))
scenarios = st.builds(Scenario, id=names, title=words, network=networks, mobile_node=names,
                      peer=names, roams_to=st.none() | names)
media = st.builds(Medium, name=words, rate_bps=rates, slot_us=times, sifs_us=times, difs_us=times,
                  cw_min=st.integers(0, 1023), preamble_us=times, ack_bytes=st.integers(0, 100),
                  ack_rate_bps=rates)


def shipped(folder: str, name: str) -> Document:
    """A shipped file as plain data."""
    document: Document = yaml.safe_load((FOLDER / folder / f"{name}.yml").read_text())
    return document


def whole_scenario() -> Document:
    """A roaming scenario with its network inside, so that a test can spoil either."""
    document: Document = yaml.safe_load(OWN)
    return document


def written(folder: Path, document: Any, name: str = "mine.yml") -> Path:
    """A file with this document."""
    file = folder / name
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return file


def refusal(load: Callable[[str], Any], file: Path) -> str:
    """The one line with which a file is refused: it begins with the file and gives advice."""
    with pytest.raises(TopologyError) as caught:
        load(str(file))
    line = str(caught.value)
    assert line.startswith(str(file)), line
    assert len(line.splitlines()) == 1, line
    assert ";" in line, line
    return line


# Shipped files -------------------------------------------------------------------------------


def test_shipped_scenarios_and_media_load() -> None:
    """Every file that comes with the project is valid, and named after what it holds."""
    assert "N2" in loader.scenario_ids()
    assert {"802.11b-long", "802.11b-short"} <= set(loader.medium_names())
    for name in loader.scenario_ids():
        assert load_scenario(name).id == name
    for name in loader.medium_names():
        assert load_medium(name).name == name


def test_every_network_is_used() -> None:
    """No network lies about that no scenario has validated."""
    used = {shipped("scenarios", name)["network"] for name in loader.scenario_ids()}
    assert used == {path.stem for path in (FOLDER / "networks").glob("*.yml")}


def test_n2_is_the_papers() -> None:
    """N2: the mobile node at home asks its home agent, over one access point (Fig. 1b)."""
    scenario = load_scenario("N2")
    assert scenario.peer == scenario.agent
    assert scenario.roams_to is None
    network = scenario.network
    assert network.of_duty("station") == [scenario.mobile_node] == ["a2"]
    assert network.of_duty("access_point") == [scenario.access_point]
    assert network.nodes["a2"].address == "10.1.0.12"
    assert network.nodes["a2"].radio_interface == "wlan0"
    assert network.nodes["a2"].gateway == network.nodes[scenario.agent].address


def test_addresses_and_radios_of_shipped_networks_are_consistent() -> None:
    """No address or radio twice; radios in the form in which tshark prints them; known names."""
    for name in loader.scenario_ids():
        network = load_scenario(name).network
        every = [i for node in network.nodes.values() for i in node.interfaces.values()]
        for values in ([i.address for i in every if i.address],
                       [i.radio for i in every if i.radio]):
            assert len(set(values)) == len(values)
        assert all(i.radio == i.radio.lower() and len(i.radio) == 17 for i in every if i.radio)
        assert all("/" in i.address for i in every if i.address)
        for node in network.nodes.values():
            assert node.agent is None or node.agent in network.subnet_gateways


def test_own_files_are_loaded_from_anywhere(tmp_path: Path) -> None:
    """A user's scenario may bring its network along, inside or in a file beside it."""
    inside = written(tmp_path, whole_scenario())
    written(tmp_path, whole_scenario()["network"], "net.yml")
    beside = written(tmp_path, {**whole_scenario(), "network": "net.yml"}, "beside.yml")
    assert load_scenario(str(inside)) == load_scenario(str(beside))


def test_roles_follow_from_the_network(tmp_path: Path) -> None:
    """Agents and access points are those of the mobile node's home, and of where it roams to."""
    scenario = load_scenario(str(written(tmp_path, whole_scenario())))
    assert (scenario.agent, scenario.home) == ("ha-a", "ap-a")
    assert (scenario.access_point, scenario.foreign_agent) == ("ap-b", "ha-b")
    at_home = load_scenario(str(written(tmp_path, {**whole_scenario(), "roams_to": None})))
    assert (at_home.access_point, at_home.foreign_agent) == ("ap-a", None)


def test_nodes_keeps_those_and_the_links_between_them(tmp_path: Path) -> None:
    """A scenario may leave out what takes no part; wires to it go with it."""
    document = {**whole_scenario(), "roams_to": None, "nodes": ["a2", "ap-a", "ha-a"]}
    network = load_scenario(str(written(tmp_path, document))).network
    assert list(network.nodes) == ["a2", "ap-a", "ha-a"]
    assert [link.ends for link in network.links] == [["ap-a/eth-a", "ha-a/air0"]]


def test_channels_and_wire_are_the_scenarios(tmp_path: Path) -> None:
    """Channels change access point by access point; delay and loss go to the router's wires."""
    document = {**whole_scenario(), "channels": {"ap-b": 6},
                "wire": {"delay_ms": 60, "loss_percent": 0.5}}
    network = load_scenario(str(written(tmp_path, document))).network
    assert (network.nodes["ap-a"].channel, network.nodes["ap-b"].channel) == (1, 6)
    assert [(link.delay_ms, link.loss_percent) for link in network.links] == [
        (0, 0), (0, 0), (60, 0.5), (60, 0.5)]


def test_own_medium_is_loaded(tmp_path: Path) -> None:
    """A medium may be a user's file as well, `.yaml` included."""
    file = written(tmp_path, {**shipped("media", "802.11b-long"), "name": "slow",
                             "rate_bps": 2_000_000}, "m.yaml")
    assert load_medium(str(file)).rate_bps == 2_000_000


# Errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_scenario, load_medium])
def test_unknown_name_lists_the_known_ones(load: Callable[[str], Any]) -> None:
    """A misspelt name is answered with what there is, and how to give a file."""
    with pytest.raises(TopologyError, match=r"N9: no such file in topologies/(scenarios|media); "
                       r"choose one of .*(N2|802\.11b-long).* or give a \.yml file"):
        load("N9")


@pytest.mark.parametrize("load", [load_scenario, load_network, load_medium, load_wire, load_device])
@pytest.mark.parametrize(("content", "expected"), [
    ("a: [1", ":1: this is not valid YAML"),
    ("a: 1\nb: {\n", ":3: this is not valid YAML"),
    ("id: x\n\tname: y\n", ":2: this is not valid YAML"),
    ("- a\n- b\n", "the file holds a list"),
    ("", "the file is empty"),
    ("just words\n", "the file holds plain text"),
    ("!!python/object/apply:os.system [ls]\n", ":1: the tag"),
])
def test_files_that_are_no_mapping(
    load: Callable[[str], Any], content: str, expected: str, tmp_path: Path,
) -> None:
    """What is no YAML mapping is refused with file and line; nothing in it is run."""
    assert expected in refusal(load, written(tmp_path, content))


@pytest.mark.parametrize("load", [load_scenario, load_network, load_medium, load_wire, load_device])
def test_unreadable_files(load: Callable[[str], Any], tmp_path: Path) -> None:
    """A file that is not there, a folder, and bytes that are no text."""
    assert "no such file; check the path" in refusal(load, tmp_path / "none.yml")
    (tmp_path / "folder.yml").mkdir()
    assert "is a folder" in refusal(load, tmp_path / "folder.yml")
    (tmp_path / "bytes.yml").write_bytes(b"\xff\xfe\xfa")
    assert "is not UTF-8 text" in refusal(load, tmp_path / "bytes.yml")


def test_missing_network_is_named(tmp_path: Path) -> None:
    """A scenario that refers to a network that is not there names that network's file."""
    for network, expected in (
            ("nowhere", ("nowhere: no such file in topologies/networks; choose one of campus, "
             "corridor, one-subnet, two-subnets or give a .yml file")),
            ("beside.yml", f"{tmp_path / 'beside.yml'}: no such file; check the name")):
        file = written(tmp_path, {**whole_scenario(), "network": network})
        assert refusal(load_scenario, file) == f"{file}:3: network: {expected}"


def put(*path: str | int, value: Any) -> Callable[[Document], None]:
    """Set a value somewhere in a scenario's document."""
    def apply(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
    return apply


def without(*path: str) -> Callable[[Document], None]:
    """Take a key out of a scenario's document."""
    def apply(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]
    return apply


NODES = ("network", "nodes")
LINKS = ("network", "links")


@pytest.mark.parametrize(("spoil", "expected"), [
    (put("colour", value="red"), "colour: there is no such field; write one of id, title,"),
    (without("peer"), "peer: is missing; add it"),
    (without("network"), ": "),
    (put("network", value=17), ": "),
    (put("id", value=[7]), "id: is not text; write one text"),
    (put(*NODES, "a2", "kind", value="sation"),
     "a2: a radio, and 0 of the duties"),
    (put(*NODES, "a2", "kind", value=7), "nodes.a2.duties.0: 7 is not text"),
    (put(*NODES, "a2", "duties", value="station"), "nodes.a2."),
    (put(*NODES, "ap-b", "kind", value="acess_point"), "ap-b: a radio, and 0 of the duties"),
    (put(*NODES, "ha-b", "interfaces", "air0", "radio", value="02:00:00:00:b1:00"),
     "ha-b: a radio, and 0 of the duties station and access_point"),
    (put(*NODES, "ha-a", "kind", value="Home Agent"), "ha-a: duties: 'Home Agent'; write lower"),
    (put(*NODES, "router", "interfaces", "core to b", value={}), "router/core to b: no name"),
    (put(*NODES, "router", "interfaces", "a234567890123456", value={}), "no name that Linux takes"),
    (put(*LINKS, 0, "rate_bps", value=0), "link ap-a/eth-a: rate_bps: 0"),
    (put(*LINKS, 0, "loss_percent", value=101), "loss_percent: 101"),
    (put(*LINKS, 0, "delay_ms", value=-1), "delay_ms: -1"),
    (put(*LINKS, 0, "queue_packets", value=0), "queue_packets: 0; write 1 to 1000000"),
    (put(*NODES, "a2", "gatway", value="10.1.0.1"), "nodes.a2.gatway: "),
    (put(*NODES, "ha-a", "forwarding", value=2), "nodes.ha-a.forwarding: "),
    (put(*NODES, "ap-a", "channel", value="1"), "nodes.ap-a.channel: "),
    (put(*NODES, "router", "routes", value=[]), "nodes.router.routes: "),
    (put(*NODES, "a2", value=None), "nodes.a2: "),
    (put(*LINKS, 0, "delay_ms", value="5 ms"), "links.0.delay_ms: "),
    (put("mobile_node", value="a3"), "mobile_node: no node 'a3' in network"),
    (put("mobile_node", value="ha-b"), "mobile_node: ha-b is not a station"),
    (put("peer", value="cn-b"), "peer: no node 'cn-b'"),
    (put("roams_to", value="ap-c"), "roams_to: no node 'ap-c'"),
    (put("roams_to", value="ha-b"), "roams_to: ha-b is not an access point"),
    (put("roams_to", value="ap-a"), "roams_to: ap-a is at home"),
    (put("nodes", value=["a2", "ap-z"]), "nodes: no node 'ap-z'"),
    (put("nodes", value="a2"), "nodes: "),
    (put("channels", value={"ap-z": 6}), "channels: no node 'ap-z'"),
    (put("channels", value={"ap-a": "6"}), "channels.ap-a: "),
    (put("wire", value={"delay": 60}), "wire.delay: "),
    (put(*NODES, "a2", "agent", value="ha-z"), "a2: agent: no node 'ha-z'"),
    (put(*NODES, "a2", "agent", value="router"), "no access point has agent 'router'"),
    (put(*NODES, "ap-a", "agent", value="ha-b"), "no access point has agent 'ha-a'"),
    (put(*LINKS, 0, "ends", value=["ap-a/eth-a"]), "needs two ends; write NODE/INTERFACE"),
    (put(*LINKS, 0, "ends", value=["ap-a/eth9", "ha-a/air0"]),
     "link end 'ap-a/eth9' names no interface; write NODE/INTERFACE"),
    (put(*LINKS, 1, "ends", value=["ap-b/eth-b", "ha-a/air0"]),
     "link end 'ha-a/air0' is used twice; give it one link"),
    (put(*NODES, "a2", "interfaces", "wlan0", "address", value="10.1.0.300/24"), "a2/wlan0: "),
    (put(*NODES, "a2", "interfaces", "wlan0", "address", value="10.1.0.12/33"), "a2/wlan0: "),
    (put(*NODES, "a2", "interfaces", "wlan0", "address", value="fe80::1/64"), "a2/wlan0: "),
])
def test_each_kind_of_error(
    spoil: Callable[[Document], None], expected: str, tmp_path: Path,
) -> None:
    """One thing wrong in a scenario or its network: one line that says where."""
    document = deepcopy(whole_scenario())
    spoil(document)
    assert expected in refusal(load_scenario, written(tmp_path, document))


@pytest.mark.parametrize(("field", "value"), [
    ("rate_bps", "11M"), ("rate_bps", 11e6 + 0.5), ("slot_us", True), ("cw_min", None),
    ("colour", "red")])
def test_errors_of_a_medium(field: str, value: Any, tmp_path: Path) -> None:
    """A medium's fields are as strict, and named."""
    document = {**shipped("media", "802.11b-long"), field: value}
    assert f": {field}: " in refusal(load_medium, written(tmp_path, document))


def test_errors_point_to_the_page_that_lists_fields(tmp_path: Path) -> None:
    """The page that an error refers to exists, and lists every field there is."""
    line = refusal(load_scenario, written(tmp_path, {**whole_scenario(), "colour": "red"}))
    assert "docs/topologies.md" in line
    text = (PROJECT / "docs" / "topologies.md").read_text()
    for part in (Interface, Node, Link, Network, Scenario, Medium, Wire, Device, Work):
        for field in dataclasses.fields(part):
            assert f"`{field.name}`" in text, f"{part.__name__}.{field.name}"


LATER: list[tuple[str, Callable[[str], Any], Any]] = [
    ("a date", load_scenario, put("mobile_node", value="DATE")),
    ("control character", load_scenario, "id: \x01\n"),
    ("recursion", load_scenario, OWN.replace("a visit", "&a [*a]")),
    ("id that is a path", load_scenario, put("id", value="../N2")),
    ("radio in capitals", load_scenario,
     put(*NODES, "a2", "interfaces", "wlan0", "radio", value="02:00:00:00:A2:00")),
    ("radio that is none", load_scenario,
     put(*NODES, "a2", "interfaces", "wlan0", "radio", value="radio 1")),
    ("radio twice", load_scenario,
     put(*NODES, "a2", "interfaces", "wlan0", "radio", value="02:00:00:00:b0:00")),
    ("station without radio", load_scenario,
     put(*NODES, "a2", "interfaces", "wlan0", "radio", value=None)),
    ("address without prefix", load_scenario,
     put(*NODES, "ha-a", "interfaces", "air0", "address", value="10.1.0.1")),
    ("gateway elsewhere", load_scenario, put(*NODES, "ha-a", "gateway", value="10.9.0.1")),
    ("gateway that is no address", load_scenario, put(*NODES, "a2", "gateway", value="ha-a")),
    ("peer without address", load_scenario,
     put(*NODES, "ha-a", "interfaces", value={"air0": {}, "core0": {}})),
    ("delay that is not a number", load_scenario, put(*LINKS, 0, "delay_ms", value=float("nan"))),
    ("rate of nothing", load_medium, put("ack_rate_bps", value=0)),
    ("negative slot", load_medium, put("slot_us", value=-20)),
    ("key with a line break", load_medium, put("a\nb", value=1)),
]


@pytest.mark.parametrize(("what", "load", "spoil"), LATER, ids=[what for what, *_ in LATER])
def test_errors_that_would_show_only_later(
    what: str, load: Callable[[str], Any], spoil: Any, tmp_path: Path,
) -> None:
    """What would only fail later, or as a traceback, is refused by the loader in one line."""
    if isinstance(spoil, str):
        refusal(load, written(tmp_path, spoil))
        return
    document = whole_scenario() if load is load_scenario else shipped("media", "802.11b-long")
    spoil(document)
    text = yaml.safe_dump(document).replace("DATE", "2007-03-11")
    assert what
    refusal(load, written(tmp_path, text))


# Wires, devices, networks without radios -------------------------------------------------------

WIRED = """
name: realm
nodes:
  alice: {duties: [client], interfaces: {eth0: {address: 10.0.1.2/24}}, gateway: 10.0.1.1}
  gate:
    duties: [router]
    forwarding: true
    interfaces: {left: {address: 10.0.1.1/24}, right: {address: 10.0.2.1/24}}
  keys: {duties: [kdc, store], interfaces: {eth0: {address: 10.0.2.2/24}}, gateway: 10.0.2.1}
links:
  - {ends: [alice/eth0, gate/left], wire: umts-3g}
  - {ends: [gate/right, keys/eth0], rate_bps: 1000000}
"""
SLOW = {"name": "slow", "title": "a slow one", "work": {
    "rsa-1024-private": {"seconds": 0.1, "source": "a datasheet"},
    "cipher": {"factor": 30, "source": "a benchmark"}}}


def wired() -> Document:
    """A network without any radio, in words of its own."""
    document: Document = yaml.safe_load(WIRED)
    return document


def test_shipped_wires_and_devices_load() -> None:
    """Every preset is valid, named after its file, and says where its figures are from."""
    assert {"lan-10m", "slow-internet", "wide-area", "gprs-2g", "umts-3g"} <= set(
        loader.wire_names())
    for name in loader.wire_names():
        assert load_wire(name).name == name
        assert len(load_wire(name).source) > 20
    assert {"today", "pentium-pro-200"} <= set(loader.device_names())
    for name in loader.device_names():
        assert load_device(name).name == name
    assert load_device("today").is_neutral
    assert not load_device("pentium-pro-200").is_neutral


def test_a_network_needs_no_radio(tmp_path: Path) -> None:
    """Clients, a router and a key server load as they are; nobody asks for an agent."""
    network = load_network(str(written(tmp_path, WIRED)))
    assert network.of_duty("kdc") == network.of_duty("store") == ["keys"]
    assert not network.has_radios
    assert network.devices == {}
    first, second = network.links
    assert (first.wire, first.rate_bps, first.delay_ms) == ("umts-3g", 384_000, 100)
    assert (second.wire, second.rate_bps, second.delay_ms) == ("", 1_000_000, 0)


def test_shipped_networks_load_by_name() -> None:
    """Networks are to be had without a scenario."""
    for name in loader.network_names():
        assert load_network(name).name == name


def test_a_links_own_values_come_before_its_wires(tmp_path: Path) -> None:
    """A preset is a start: what the link says itself holds."""
    document = wired()
    document["links"][0]["delay_ms"] = 7
    network = load_network(str(written(tmp_path, document)))
    assert (network.links[0].delay_ms, network.links[0].rate_bps) == (7, 384_000)


def test_own_wires_and_devices_lie_beside_the_network(tmp_path: Path) -> None:
    """Paths in a network start at its file; what they hold travels with the network."""
    (tmp_path / "parts").mkdir()
    written(tmp_path / "parts", SLOW, "slow.yml")
    written(tmp_path / "parts", {"name": "thin", "title": "t", "source": "mine", "rate_bps": 5e3},
            "thin.yml")
    document = wired()
    document["links"][1] = {"ends": ["gate/right", "keys/eth0"], "wire": "parts/thin.yml"}
    document["nodes"]["keys"]["device"] = "parts/slow.yml"
    document["nodes"]["alice"]["device"] = "pentium-pro-200"
    network = load_network(str(written(tmp_path, document)))
    assert (network.links[1].wire, network.links[1].rate_bps) == ("thin", 5000)
    assert network.devices["keys"].work["cipher"].factor == 30
    assert network.devices["alice"].title.startswith("Pentium Pro")
    assert model.from_json(Network, json.loads(json.dumps(loader.to_json(network)))) == network


def test_a_scenario_may_name_a_wire(tmp_path: Path) -> None:
    """The wire between agents is a preset, or one with values of the scenario's own."""
    def rate_and_delay(wire: Any) -> set[tuple[str, float | None, float]]:
        file = written(tmp_path, {**whole_scenario(), "wire": wire})
        return {(link.wire, link.rate_bps, link.delay_ms) for link in
                load_scenario(str(file)).network.links if "router" in "".join(link.ends)}
    assert rate_and_delay("wide-area") == {("wide-area", 1_020_000, 44.5)}
    assert rate_and_delay({"wire": "wide-area", "delay_ms": 60}) == {("wide-area", 1_020_000, 60)}
    assert rate_and_delay({"rate_bps": 5000}) == {("", 5000, 0)}


def test_files_that_say_kind_mean_one_duty() -> None:
    """Networks written before nodes had several duties, in files and in results, stay readable."""
    old = {"kind": "station", "interfaces": {}}
    assert model.from_json(Node, old).duties == ["station"]
    assert model.with_duties({"duties": ["a", "b"]}) == {"duties": ["a", "b"]}


@pytest.mark.parametrize(("spoil", "expected"), [
    (put("work", "cipher", "factor", value=0), "work.cipher: factor: 0; write a number above 0"),
    (put("work", "cipher", "factor", value=-2), "work.cipher: factor: -2"),
    (put("work", "rsa-1024-private", "seconds", value=0), "work.rsa-1024-private: seconds: 0"),
    (put("work", "cipher", "source", value=" "), "work.cipher: source: nothing"),
    (without("work", "cipher", "source"), "work.cipher.source: is missing; add it"),
    (put("work", "cipher", value={"source": "x"}), "work.cipher: no value; write one of seconds"),
    (put("work", "cipher", "seconds", value=1.0), "work.cipher: seconds and factor; write one of"),
    (put("work", "rsa", value={"factor": 3, "source": "x"}), "work.rsa: factor: not for an oper"),
    (put("work", "RSA sign", value={"seconds": 3, "source": "x"}), "work.RSA sign: no name for"),
    (put("work", value={}), "work: nothing; state at least one"),
    (put("processors", value=0), "processors: 0; write 1 or more"),
    (put("name", value="../slow"), "name: '../slow'; write up to 40"),
    (put("speed", value=3), "speed: "),
])
def test_errors_of_a_device(spoil: Callable[[Document], None], expected: str,
                            tmp_path: Path) -> None:
    """A device without source or with a factor that is none is refused in one line."""
    document = deepcopy(SLOW)
    spoil(document)
    file = written(tmp_path, document)
    assert expected in refusal(load_device, file)
    network = wired()
    network["nodes"]["keys"]["device"] = "mine.yml"
    with pytest.raises(TopologyError) as caught:
        load_network(str(written(tmp_path, network, "net.yml")))
    assert expected in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(("values", "expected"), [
    ({"source": ""}, "source: nothing; say where"), ({"rate_bps": 0}, "rate_bps: 0"),
    ({"rate_bps": "10M"}, "rate_bps: "), ({"delay_ms": -1}, "delay_ms: -1"),
    ({"loss_percent": 101}, "loss_percent: 101; write 0 to below 100"),
    ({"queue_packets": 0}, "queue_packets: 0; write 1 to 1000000"), ({"colour": "red"}, "colour: "),
])
def test_errors_of_a_wire(values: Document, expected: str, tmp_path: Path) -> None:
    """A preset's fields are strict, and it has a source."""
    document = {**shipped("wires", "umts-3g"), **values}
    assert expected in refusal(load_wire, written(tmp_path, document))


def test_unknown_wires_and_devices_list_the_known_ones(tmp_path: Path) -> None:
    """A misspelt preset is answered with what there is."""
    for change, known in (
            (put("links", 0, "wire", value="isdn"), "wires; choose one of gprs-2g"),
            (put("nodes", "keys", "device", value="pdp11"), "devices; choose one of")):
        document = wired()
        change(document)
        with pytest.raises(TopologyError, match=f"no such file in topologies/{known}"):
            load_network(str(written(tmp_path, document)))


# JSON ----------------------------------------------------------------------------------------


@given(scenarios)
def test_scenarios_survive_json(scenario: Scenario) -> None:
    """What goes into a job's JSON comes out of it inside the machine, value for value."""
    carried = json.loads(json.dumps(loader.to_json(scenario)))
    assert model.from_json(Scenario, carried) == scenario


@given(networks)
def test_networks_survive_json(network: Network) -> None:
    """The same for networks alone, whatever devices and wires they have."""
    assert model.from_json(Network, json.loads(json.dumps(loader.to_json(network)))) == network


@given(media)
def test_media_survive_json(medium: Medium) -> None:
    """The same for media."""
    assert model.from_json(Medium, json.loads(json.dumps(loader.to_json(medium)))) == medium


def test_shipped_files_survive_json() -> None:
    """Every shipped scenario and medium reaches the machine as it was loaded."""
    for name in loader.scenario_ids():
        scenario = load_scenario(name)
        assert model.from_json(Scenario, loader.to_json(scenario)) == scenario
    for name in loader.medium_names():
        medium = load_medium(name)
        assert model.from_json(Medium, loader.to_json(medium)) == medium


def test_from_json_passes_over_what_it_does_not_know() -> None:
    """A field of a newer harness does not break a worker."""
    value = {**loader.to_json(load_medium("802.11b-long")), "colour": "red"}
    assert model.from_json(Medium, value) == load_medium("802.11b-long")


# The model -----------------------------------------------------------------------------------


def test_node_without_address_or_radio() -> None:
    """Asking for what a node does not have is an error, not an empty string."""
    node = Node("correspondent", {"eth0": Interface()})
    with pytest.raises(ValueError, match="no address"):
        _ = node.address
    with pytest.raises(ValueError, match="no radio"):
        _ = node.radio_interface


def test_first_address_counts() -> None:
    """A node with several addresses is known by its first, in file order."""
    node = Node("home_agent", {"a": Interface(), "b": Interface(address="10.1.0.1/24"),
                               "c": Interface(address="10.1.1.1/24")})
    assert node.address == "10.1.0.1"


# The medium ----------------------------------------------------------------------------------


def test_overhead_of_80211b_with_the_long_preamble() -> None:
    """DIFS 50, mean backoff 310, preamble 192, SIFS 10, ACK 192 + 112: 866 us a frame."""
    assert load_medium("802.11b-long").frame_overhead_us == pytest.approx(
        50 + 310 + 192 + 10 + (192 + 112)) == pytest.approx(866)


def test_overhead_of_80211b_with_the_short_preamble() -> None:
    """DIFS 50, mean backoff 310, preamble 96, SIFS 10, ACK 96 + 56: 618 us a frame."""
    assert load_medium("802.11b-short").frame_overhead_us == pytest.approx(
        50 + 310 + 96 + 10 + (96 + 56)) == pytest.approx(618)


def test_published_maximum_of_80211b() -> None:
    """Jun, Peddabachagari and Sichitiu (2003): 6.06 Mbit/s for MSDUs of 1500 bytes.

    At 11 Mbit/s with the long preamble; MAC header and checksum are 34 bytes there.
    """
    frame_us = load_medium("802.11b-long").frame_overhead_us + (1500 + 34) * 8 / 11
    assert 1500 * 8 / frame_us == pytest.approx(6.06, abs=0.005)


def test_udp_ceiling_by_hand() -> None:
    """1400 bytes of payload in a frame of 1464 bytes: 866 us + 1064.7 us, 5.80 Mbit/s."""
    ceiling = load_medium("802.11b-long").udp_ceiling_bps(1400)
    assert ceiling == pytest.approx(1400 * 8 / (866e-6 + 1464 * 8 / 11e6))
    assert ceiling == pytest.approx(5.80e6, rel=1e-3)


@given(media, st.integers(1, 1400))
def test_ceiling_grows_with_the_payload_and_stays_below_the_rate(
    medium: Medium, payload: int,
) -> None:
    """Longer frames carry their overhead better, and none beats the PHY."""
    assert 0 < medium.udp_ceiling_bps(payload) < medium.udp_ceiling_bps(payload + 100)
    assert medium.udp_ceiling_bps(payload) < medium.rate_bps


@given(media)
def test_overhead_is_a_sum_of_its_parts(medium: Medium) -> None:
    """Every timing counts, and none for less than nothing."""
    parts = medium.difs_us + medium.sifs_us + 2 * medium.preamble_us
    assert medium.frame_overhead_us >= parts * (1 - 1e-9)
    longer = dataclasses.replace(medium, cw_min=medium.cw_min + 2)
    assert longer.frame_overhead_us == pytest.approx(medium.frame_overhead_us + medium.slot_us)

"""Topology files that cannot work are refused before anything starts: file, line, what, advice."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]
from pydantic import TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

from conftest import PROJECT
from documents import refusals
from topologies.checks import MEDIA_IN_5_GHZ, MEDIA_IN_6_GHZ
from topologies.loader import (
    TopologyError,
    load_device,
    load_medium,
    load_network,
    load_scenario,
    load_wire,
    medium_names,
    network_names,
    scenario_ids,
    wire_names,
)

SCENARIO = """\
id: mine
title: a visit
network: net.yml
mobile_node: a2
peer: cn-a
"""
NETWORK = """\
name: net
nodes:
  a2:
    duties: [station]
    interfaces:
      wlan0: {radio: "02:00:00:00:a2:00", address: 10.1.0.12/32}
    gateway: 10.1.0.1
    agent: ha-a
  ap-a:
    duties: [access_point]
    ssid: lab
    channel: 1
    interfaces:
      wlan-a: {radio: "02:00:00:00:a0:00", bridge: br-a}
      eth-a: {bridge: br-a}
      lan-a: {bridge: br-a}
      br-a: {address: 10.1.0.2/24}
    agent: ha-a
  ap-c:
    duties: [access_point]
    ssid: lab
    channel: 6
    interfaces:
      wlan-c: {radio: "02:00:00:00:c0:00", bridge: br-c}
      eth-c: {bridge: br-c}
      lan-c: {bridge: br-c}
      br-c: {address: 10.1.0.3/24}
    agent: ha-a
  ha-a:
    duties: [home_agent]
    forwarding: true
    serves: 10.1.0.0/16
    interfaces:
      air0: {address: 10.1.0.1/24}
      wire0: {address: 10.1.1.1/24}
  cn-a:
    duties: [correspondent]
    interfaces:
      eth0: {address: 10.1.1.20/24}
    gateway: 10.1.1.1
links:
  - {ends: [ap-a/eth-a, ha-a/air0]}
  - {ends: [ap-a/lan-a, ap-c/eth-c]}
  - {ends: [ha-a/wire0, cn-a/eth0]}
"""
WIRE = """\
name: mine
title: mine
source: measured by hand
rate_bps: 1000000
delay_ms: 20
loss_percent: 1
overhead_bytes: 24
queue_packets: 50
"""
CELL_2_4_GHZ = "is no channel of the 2.4 GHz band that an access point may open; write 1 to 13"
IN_5_GHZ, IN_6_GHZ = (
    f": a network has channels of 2.4 GHz, and a medium of {band} GHz replaces them by its own "
    f"(--medium {media})" for band, media in (
        (5, "802.11n-ht40, 802.11ac or 802.11ax"), (6, "802.11ax-6ghz")))


def changed(text: str, old: str, new: str) -> str:
    """A text with one change; what is to be changed is there once."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def refused(folder: Path, scenario: str, network: str = NETWORK) -> str:
    """What is said of a scenario on a network, without the folder."""
    (folder / "net.yml").write_text(network, encoding="utf-8")
    (folder / "mine.yml").write_text(scenario, encoding="utf-8")
    with pytest.raises(TopologyError) as caught:
        load_scenario(str(folder / "mine.yml"))
    line = str(caught.value).replace(f"{folder}/", "")
    assert len(line.splitlines()) == 1
    return line


def test_the_network_of_these_tests_loads(tmp_path: Path) -> None:
    """Nothing else is wrong with it."""
    (tmp_path / "net.yml").write_text(NETWORK)
    (tmp_path / "mine.yml").write_text(SCENARIO)
    assert load_scenario(str(tmp_path / "mine.yml")).peer == "cn-a"


@pytest.mark.parametrize(("old", "new", "said"), [
    *(("channel: 6", f"channel: {number}", f"net.yml:22: ap-c: channel: {number} {CELL_2_4_GHZ}")
      for number in (0, 14, 200, -1)),
    ("channel: 6", "channel: 36", f"net.yml:22: ap-c: channel: 36 {CELL_2_4_GHZ}{IN_5_GHZ}"),
    ("channel: 6", "channel: 149", f"net.yml:22: ap-c: channel: 149 {CELL_2_4_GHZ}{IN_5_GHZ}"),
    ("channel: 6", "channel: 37", f"net.yml:22: ap-c: channel: 37 {CELL_2_4_GHZ}{IN_6_GHZ}"),
    ("    channel: 6\n", "", "net.yml:19: ap-c: channel: is missing; write 1 to 13"),
    ("channel: 6", 'channel: "6"', ("net.yml:22: nodes.ap-c.channel: '6' is not a whole number; "
     "write 6 (see docs/topologies.md for the fields)")),
    ("channel: 6", "channel: 011", ("net.yml:22: nodes.ap-c.channel: YAML reads 011 as an octal "
     "number, which is 9; write the decimal number (see docs/topologies.md for the fields)")),
    ("channel: 6", "channel: 1:30", ("net.yml:22: nodes.ap-c.channel: YAML reads 1:30 as a "
     "sexagesimal number (base "
     "60), which is 90; write the decimal number (see docs/topologies.md for the fields)")),
])
def test_channels_that_no_access_point_opens(old: str, new: str, said: str,
                                             tmp_path: Path) -> None:
    """An access point's channel is one of the 2.4 GHz band."""
    assert refused(tmp_path, SCENARIO, changed(NETWORK, old, new)) == said


@pytest.mark.parametrize(("old", "new"), [
    ("channel: 6", "channel: 06"), ("channel: 6", "channel: 6.0"), ("channel: 6", "channel: +6"),
    ("channel: 6", "channel: 08"),
    ("title: a visit", "title: 2007-03-11"), ("title: a visit", "title: 1.20"),
    ("title: a visit", "title: on"), ("title: a visit", "title: 010"), ("id: mine", "id: no"),
    ("id: mine", "id: 7")])
def test_unquoted_value_is_read_as_its_field_wants_it(old: str, new: str, tmp_path: Path) -> None:
    """YAML 1.1 reads numbers, booleans and dates where text belongs, and octal numbers."""
    for name, text in (("net", NETWORK), ("mine", SCENARIO)):
        (tmp_path / f"{name}.yml").write_text(text.replace(old, new, 1))
    scenario = load_scenario(str(tmp_path / "mine.yml"))
    written = new.partition(": ")[2]
    if old.startswith("channel"):
        assert scenario.network.nodes["ap-c"].channel == float(written)
    else:
        assert written in (scenario.id, scenario.title)


@pytest.mark.parametrize(("ssid", "said"), [
    ("x" * 33, "33 bytes; write 1 to 32"), ("é" * 17, "34 bytes; write 1 to 32"),
    ('""', "0 bytes; write 1 to 32"),
    (r'"a\nssid=evil"', ("'a\\nssid=evil' has a character that cannot be shown; write letters, "
     "digits, signs and spaces")),
    ('"lab "', "'lab ' begins or ends with a space; leave the space out"),
])
def test_ssids_that_no_network_has(ssid: str, said: str, tmp_path: Path) -> None:
    """An SSID is 1 to 32 bytes of UTF-8 that a configuration file can hold."""
    network = changed(NETWORK, "ssid: lab\n    channel: 6", f"ssid: {ssid}\n    channel: 6")
    assert refused(tmp_path, SCENARIO, network) == f"net.yml:21: ap-c: ssid: {said}"


def test_ssids_of_other_alphabets_are_taken(tmp_path: Path) -> None:
    """Up to 32 bytes of any letters and signs."""
    for ssid in ('Café "5G" #1', "größe ✓", "x" * 32, "é" * 16):
        document = yaml.safe_load(NETWORK)
        for cell in ("ap-a", "ap-c"):
            document["nodes"][cell]["ssid"] = ssid
        (tmp_path / "net.yml").write_text(yaml.safe_dump(document))
        assert load_network(str(tmp_path / "net.yml")).nodes["ap-a"].ssid == ssid


HOST = "write a host's, as 10.1.0.1"


@pytest.mark.parametrize(("old", "new", "said"), [
    # Addresses of interfaces.
    ("10.1.1.20/24", "10.1.1.1/24", ("net.yml:40: cn-a: gateway: 10.1.1.1 is an address of the "
     "node itself; write another node's")),
    ("10.1.0.3/24", "10.1.0.2/24", ("net.yml:27: ap-c/br-c: ap-a/br-a has the address 10.1.0.2, "
     "too; give each another")),
    ("10.1.1.20/24", "10.1.1.255/24", ("net.yml:39: cn-a/eth0: 10.1.1.255 is the broadcast "
     "address of 10.1.1.0/24; write a host's")),
    ("10.1.1.20/24", "10.1.1.0/24", ("net.yml:39: cn-a/eth0: 10.1.1.0 is the network address of "
     "10.1.1.0/24; write a host's")),
    ("10.1.1.20/24", "127.0.0.1/8", (f"net.yml:39: cn-a/eth0: 127.0.0.1 is a loopback address; "
                                    f"{HOST}")),
    ("10.1.1.20/24", "0.0.0.0/24", f"net.yml:39: cn-a/eth0: 0.0.0.0 is no host's; {HOST}"),
    ("10.1.1.20/24", "224.0.0.5/24", ("net.yml:39: cn-a/eth0: 224.0.0.5 is a multicast address; "
     f"{HOST}")),
    ("10.1.1.20/24", "255.255.255.255/32", ("net.yml:39: cn-a/eth0: 255.255.255.255 is the "
     f"broadcast address; {HOST}")),
    ("10.1.1.20/24", "240.0.0.1/24", (f"net.yml:39: cn-a/eth0: 240.0.0.1 is a reserved address; "
     f"{HOST}")),
    ("10.1.1.20/24", "10.1.1.300/24", ("net.yml:39: cn-a/eth0: 10.1.1.300/24 is no IPv4 address "
     "with its prefix length; write ADDRESS/PREFIX, as 10.1.0.1/24")),
    ("10.1.1.20/24", "10.1.1.20/0", ("net.yml:39: cn-a/eth0: 10.1.1.20/0 has every address in its "
     "subnet; write a longer prefix")),
    ("10.1.0.3/24", "10.9.0.3/24", ("net.yml:27: ap-c/br-c: 10.9.0.3/24 is in another subnet than "
     "ap-a/br-a on the same wire (10.1.0.0/24); write an address in one subnet")),
    # Gateways, routes, prefixes.
    ("gateway: 10.1.1.1", "gateway: 10.9.9.9", ("net.yml:40: cn-a: gateway: 10.9.9.9 is in no "
     "subnet of the node; write an address that is")),
    ("gateway: 10.1.1.1", "gateway: 10.1.1.99", ("net.yml:40: cn-a: gateway: no neighbour of cn-a "
     "has the address 10.1.1.99; write a neighbour's, or add the link to it")),
    ("gateway: 10.1.0.1", "gateway: 10.1.1.1", ("net.yml:7: a2: gateway: no neighbour of a2 has "
     "the address 10.1.1.1; write a neighbour's, or add the link to it")),
    ("    gateway: 10.1.0.1\n", "", ("net.yml:3: a2: gateway: is missing; a station reaches all "
     "others by it")),
    ("gateway: 10.1.1.1", "gateway: ha-a", ("net.yml:40: cn-a: gateway: 'ha-a' is no IPv4 address; "
     "write one, as 10.1.0.1")),
    ("gateway: 10.1.1.1", "gateway: 10.1.1.1\n    routes: {10.2.0.1/16: 10.1.1.1}",
     ("net.yml:41: cn-a: routes: 10.2.0.1/16: '10.2.0.1/16' is no IPv4 prefix; write its first "
     "address and its length, as 10.1.0.0/16")),
    ("gateway: 10.1.1.1", "gateway: 10.1.1.1\n    routes: {10.2.0.0/16: 10.3.0.1}",
     ("net.yml:41: cn-a: routes: 10.2.0.0/16: 10.3.0.1 is in no subnet of the node; write an "
     "address that is")),
    ("serves: 10.1.0.0/16", "serves: 10.1.0.0", ("net.yml:32: ha-a: serves: '10.1.0.0' is no IPv4 "
     "prefix; write its first address and its length, as 10.1.0.0/16")),
    # Addresses of radios.
    ("02:00:00:00:c0:00", "03:00:00:00:c0:00", ("net.yml:24: ap-c/wlan-c: 03:00:00:00:c0:00 is a "
     "group's address, which no radio has; write one with an even first octet, as "
     "02:00:00:00:a2:00")),
    ("02:00:00:00:c0:00", "ff:ff:ff:ff:ff:ff", ("net.yml:24: ap-c/wlan-c: ff:ff:ff:ff:ff:ff is a "
     "group's address, which no radio has; write one with an even first octet, as "
     "02:00:00:00:a2:00")),
    ("02:00:00:00:c0:00", "00:00:00:00:00:00", ("net.yml:24: ap-c/wlan-c: 00:00:00:00:00:00 is no "
     "address, which no radio has; write one with an even first octet, as 02:00:00:00:a2:00")),
    ("02:00:00:00:c0:00", "02:00:00:00:a0:00", ("net.yml:14: ap-a/wlan-a: radio 02:00:00:00:a0:00 "
     "is there 2 times; give each another")),
    ("02:00:00:00:c0:00", "02:00:00:00:C0:00", ("net.yml:24: ap-c/wlan-c: '02:00:00:00:C0:00'; "
     "write a radio's MAC address in lower case, 02:00:00:00:00:00")),
])
def test_addresses_that_no_host_has(old: str, new: str, said: str, tmp_path: Path) -> None:
    """Addresses are hosts' of their subnets, each there once; gateways are neighbours'."""
    assert refused(tmp_path, SCENARIO, changed(NETWORK, old, new)) == said


@pytest.mark.parametrize(("old", "new", "said"), [
    ("  - {ends: [ha-a/wire0, cn-a/eth0]}\n",
     "  - {ends: [ha-a/wire0, cn-a/eth0]}\n  - {ends: [ap-c/lan-c, ap-a/lan-b]}\n",
     "net.yml:45: link end 'ap-a/lan-b' names no interface; write NODE/INTERFACE"),
    ("[ha-a/wire0, cn-a/eth0]", "[ha-a/wire0, ha-a/wire1]",
     "net.yml:44: link end 'ha-a/wire1' names no interface; write NODE/INTERFACE"),
    ("[ha-a/wire0, cn-a/eth0]", "[ha-a/wire0, ha-a/wire0]",
     "net.yml:44: link end 'ha-a/wire0' is used twice; give it one link"),
    ("[ap-a/lan-a, ap-c/eth-c]", "[ap-a/lan-a, ap-c/wlan-c]",
     "net.yml:43: link end 'ap-c/wlan-c' is a radio; write an interface without"),
    ("[ap-a/lan-a, ap-c/eth-c]", "[ap-a/lan-a, ap-c/br-c]",
     "net.yml:43: link end 'ap-c/br-c' is a bridge; write one of its ports"),
    ("  - {ends: [ha-a/wire0, cn-a/eth0]}\n", "", ("net.yml:40: cn-a: gateway: no neighbour of "
     "cn-a has the address 10.1.1.1; write a neighbour's, or add the link to it")),
    ("      eth-c: {bridge: br-c}\n", "      eth-c: {bridge: br-x}\n", ("net.yml:25: ap-c/eth-c: "
     "bridge: ap-c has no interface 'br-x'; add it, with the bridge's address")),
    ("      eth-c: {bridge: br-c}\n", "      eth-c: {bridge: br-c, address: 10.1.0.9/24}\n",
     ("net.yml:25: ap-c/eth-c: bridge: a port of a bridge has no address of its own; give it to "
     "br-c")),
    ("      eth-c: {bridge: br-c}\n", "      eth-c: {bridge: lan-c}\n", ("net.yml:25: ap-c/eth-c: "
     "bridge: lan-c is a port or a radio itself; name an interface that is the bridge alone")),
    ("      lan-c: {bridge: br-c}\n", "      lan-a: {bridge: br-c}\n", ("net.yml:26: ap-c/lan-a: "
     "ap-a has an interface of that name, too, and access points share a namespace; name "
     "them apart")),
    ("  cn-a:\n", "  my server:\n", ("net.yml:36: nodes.my server: no name for a node; write up "
     "to 40 letters, digits, ., - and _, and not 'all'")),
    ("      eth0: {address: 10.1.1.20/24}\n", "      lo: {address: 10.1.1.20/24}\n", ("net.yml:39: "
     "cn-a/lo: Linux has an interface or a setting of that name; write another")),
    ("      eth0: {address: 10.1.1.20/24}\n",
     "      eth0: {address: 10.1.1.20/24}\n      eth1: {}\n",
     ("net.yml:40: nodes.cn-a.interfaces.eth1: has neither address, radio, bridge nor link; leave "
     "it out")),
])
def test_graphs_that_cannot_be_built(old: str, new: str, said: str, tmp_path: Path) -> None:
    """Links join interfaces of two nodes, bridges have ports, names are Linux's."""
    assert refused(tmp_path, SCENARIO, changed(NETWORK, old, new)) == said


def test_loops_of_bridges(tmp_path: Path) -> None:
    """Three access points in a circle, and two with two wires between them."""
    wires = changed(NETWORK, "      br-a: ", "      mesh-a: {bridge: br-a}\n      br-a: ")
    wires += "  - {ends: [ap-c/lan-c, ap-a/mesh-a]}\n"
    assert refused(tmp_path, SCENARIO, wires) == (
        "net.yml:46: link ['ap-c/lan-c', 'ap-a/mesh-a']: closes a loop of bridges, in which "
        "broadcasts would go round for ever; leave one of its links out")


@pytest.mark.parametrize(("field", "values", "said"), [
    ("mtu_bytes", (68, 575, 65_504, 1_000_000), "write 576 to 65503"),
    ("rate_bps", (1, 7, 0, -5, 999, 1e18), "write 1000 to 1000000000000"),
    ("delay_ms", (-1, 10_001, 1e9), "write 0 to 10000"),
    ("loss_percent", (-1, 100, 101), "write 0 to below 100"),
])
def test_figures_that_no_wire_has(field: str, values: tuple[float, ...], said: str,
                                  tmp_path: Path) -> None:
    """What the kernel would not take, or take for something else."""
    for value in values:
        link = changed(NETWORK, "[ha-a/wire0, cn-a/eth0]", f"[ha-a/wire0, cn-a/eth0], {field}: "
                       + repr(value).replace("e+", ".0e+"))
        assert refused(tmp_path, SCENARIO, link) == (
            f"net.yml:44: link ha-a/wire0: {field}: {value:g}; {said}")


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_numbers_that_are_none(value: str, tmp_path: Path) -> None:
    """Wherever they stand."""
    word = value.replace(".", "")
    link = changed(NETWORK, "[ha-a/wire0, cn-a/eth0]", f"[ha-a/wire0, cn-a/eth0], delay_ms: "
                                                       f"{value}")
    assert refused(tmp_path, SCENARIO, link) == (
        f"net.yml:44: links.2.delay_ms: {word} is not a finite number; write a number")


MEDIA = PROJECT / "topologies" / "media"


# What would have no effect --------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "said"), [
    ("wire: {delay_ms: 20}", ("mine.yml:6: wire: no link leads to a router here, so that it would "
     "change nothing; write links: {ap-a/eth-a: ...}")),
    ("wire: wide-area", ("mine.yml:6: wire: no link leads to a router here, so that it would "
     "change nothing; write links: {ap-a/eth-a: ...}")),
    ("wire: {}", "mine.yml:6: wire: is empty; leave it out, or say what changes"),
    ("links:", "mine.yml:6: links: is empty; leave it out, or say what changes"),
    ("nodes: []", "mine.yml:6: nodes: is empty; leave it out, or say what changes"),
    ("links: {ha-a/wire0: {}}", ("mine.yml:6: links.ha-a/wire0: is empty; leave it out, or say "
     "what changes")),
    ("links: {ha-a/wire0: {delay_ms: 1}, cn-a/eth0: {delay_ms: 2}}", ("mine.yml:6: "
     "links.cn-a/eth0: the other end of this link is there, too; leave one out")),
    ("nodes: [a2, ap-a, ha-a, cn-a]\nlinks: {ap-c/eth-c: {delay_ms: 1}}", ("mine.yml:7: "
     "links.ap-c/eth-c: not both ends of this link take part; leave it out here, or add their "
     "nodes to nodes")),
    ("links: {ha-a/wire0: {queue_packets: 7}}", ("mine.yml:6: link ha-a/wire0: queue_packets: has "
     "an effect with rate_bps alone; leave it out, or add rate_bps")),
    ("links: {ha-a/wire0: {overhead_bytes: 7}}", ("mine.yml:6: link ha-a/wire0: overhead_bytes: "
     "has an effect with rate_bps alone; leave it out, or add rate_bps")),
    ("nodes: [a2, ap-a, ha-a, cn-a]\nchannels: {ap-c: 11}", ("mine.yml:7: channels.ap-c: ap-c "
     "takes no part; leave it out here, or add it to nodes")),
    ("channels: {a2: 6}", "mine.yml:6: channels.a2: a2 has no channel; leave it out"),
    ("positions: {ha-a: [1, 2]}", "mine.yml:6: positions.ha-a: ha-a has no radio; leave it out"),
    ("nodes: [a2, ap-a, ha-a, cn-a]\npositions: {ap-c: [1, 2]}", ("mine.yml:7: positions.ap-c: "
     "ap-c takes no part; leave it out here, or add it to nodes")),
    ("nodes: [a2, a2, ap-a, ha-a, cn-a]", "mine.yml:6: nodes: a2 is there twice; leave one out"),
    ("moves_on: true", ("mine.yml:6: moves_on: the mobile node does not move, so that it would "
     "change nothing; leave it out, or add roams_to")),
    ("moves_on: true\nroams_to: ap-c", ("mine.yml:6: moves_on: ap-c is in the mobile node's own "
     "subnet, where it moves on in any case; leave it out")),
    ("is_placed: true", "mine.yml:6: is_placed: there is no such field; did you mean positions?"),
    ("peer: ha-a", "mine.yml:6: 'peer' was given on line 5; keep one of them"),
])
def test_what_would_change_nothing(lines: str, said: str, tmp_path: Path) -> None:
    """A scenario's word has an effect, or is refused."""
    line = refused(tmp_path, f"{SCENARIO}{lines}\n".replace("peer: cn-a\npeer", "peer: cn-a\npeer"))
    assert line.removesuffix(" (see docs/topologies.md for the fields)").startswith(
        said.replace("did you mean positions?", ""))


@pytest.mark.parametrize(("old", "new", "said"), [
    ("    duties: [correspondent]\n", "    duties: [correspondent]\n    ssid: lab\n",
     "net.yml:38: cn-a: ssid: has an effect on nodes of the duty access_point alone; leave it out"),
    ("    duties: [correspondent]\n", "    duties: [correspondent]\n    channel: 6\n",
     ("net.yml:38: cn-a: channel: has an effect on nodes of the duty access_point "
      "alone; leave it out")),
    ("    duties: [correspondent]\n", "    duties: [correspondent]\n    serves: 10.3.0.0/16\n",
     "net.yml:38: cn-a: serves: has an effect on nodes of the duty home_agent alone; leave it out"),
    ("    duties: [correspondent]\n", "    duties: [correspondent]\n    position: [1, 2]\n",
     "net.yml:38: cn-a: position: has an effect on nodes with a radio alone; leave it out"),
    ("address: 10.1.0.12/32}", "address: 10.1.0.12/32, bridge: br0}\n      br0: {}",
     "net.yml:6: a2/wlan0: bridge: a port of a bridge has no address of its own; give it to br0"),
    ("address: 10.1.0.12/32}", 'address: 10.1.0.12/32}\n      wlan1: {radio: "02:00:00:00:a3:00"}',
     "net.yml:7: a2/wlan1: a second radio beside wlan0, which nothing uses; leave it out"),
])
def test_fields_of_other_duties(old: str, new: str, said: str, tmp_path: Path) -> None:
    """A field that a node's duties do not have is refused."""
    assert refused(tmp_path, SCENARIO, changed(NETWORK, old, new)) == said


# Roles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new", "said"), [
    ("peer: cn-a", "peer: a2", "mine.yml:5: peer: a2 is the mobile node itself; name another node"),
    ("peer: cn-a", "peer: ap-x", ("mine.yml:5: peer: no node 'ap-x' in network net; it has a2, "
     "ap-a, ap-c, ha-a, cn-a")),
    ("mobile_node: a2", "mobile_node: cn-a", ("mine.yml:4: mobile_node: cn-a is not a station; "
     "name one that is")),
    ("peer: cn-a\n", "peer: cn-a\nnodes: [a2, ap-a, cn-a]\n", ("net.yml:8: a2: agent: no node "
     "'ha-a' here; name a home agent or gateway that takes part")),
    ("network: net.yml", "network: nowhere.yml", ("mine.yml:3: network: nowhere.yml: no such file; "
     "check the name")),
    ("title: a visit\n", "", ("mine.yml:1: title: is missing; add it (see docs/topologies.md for "
     "the fields)")),
    ("network: net.yml\n", "", ("mine.yml:1: network: is missing; name one of campus, corridor, "
     "one-subnet, two-subnets, a .yml file, or write it here")),
    ("mobile_node: a2", "mobil_node: a2", ("mine.yml:4: mobil_node: there is no such field; did "
     "you mean mobile_node? (see docs/topologies.md for the fields)")),
])
def test_roles_that_cannot_be_played(old: str, new: str, said: str, tmp_path: Path) -> None:
    """The scenario's own fields."""
    assert refused(tmp_path, changed(SCENARIO, old, new)) == said


def test_a_peer_that_no_link_leads_to(tmp_path: Path) -> None:
    """Its network knows it, and no packet would find it."""
    alone = changed(changed(NETWORK, "    gateway: 10.1.1.1\n", ""),
                    "  - {ends: [ha-a/wire0, cn-a/eth0]}\n", "")
    assert refused(tmp_path, SCENARIO, alone) == (
        "mine.yml:5: peer: no link leads to cn-a from ap-a; add one, or the nodes between")


def test_a_move_to_another_network_name(tmp_path: Path) -> None:
    """A station stays within its network."""
    other = changed(NETWORK, "ssid: lab\n    channel: 6", "ssid: guests\n    channel: 6")
    assert refused(tmp_path, SCENARIO + "roams_to: ap-c\n", other) == (
        "mine.yml:6: roams_to: ap-c has another ssid than ap-a, so that a station does not move "
        "there; give both one")


def test_media_in_upper_bands_are_those_that_a_message_names() -> None:
    """A message on a channel of 5 or 6 GHz names each medium there, and no other."""
    found = {name: load_medium(name).phy for name in medium_names()}
    bands = {band: {name for name, phy in found.items() if phy and phy.band_ghz == band}
             for band in (5, 6)}
    assert bands == {5: {*MEDIA_IN_5_GHZ}, 6: {*MEDIA_IN_6_GHZ}}


def test_lines_are_those_of_the_file_that_says_it(tmp_path: Path) -> None:
    """A channel that the scenario gives is at fault there, and not in its network."""
    line = refused(tmp_path, SCENARIO + "channels:\n  ap-c: 36\n")
    assert line == f"mine.yml:7: ap-c: channel: 36 {CELL_2_4_GHZ}{IN_5_GHZ}"
    line = refused(tmp_path, SCENARIO + "links:\n  ha-a/wire0:\n    mtu_bytes: 68\n")
    assert line == "mine.yml:8: link ha-a/wire0: mtu_bytes: 68; write 576 to 65503"


def test_links_of_a_scenario_take_every_field_of_a_wire(tmp_path: Path) -> None:
    """Each of them changes what is built."""
    (tmp_path / "net.yml").write_text(NETWORK)
    plain = load_network(str(tmp_path / "net.yml")).links[2]
    values = {"mtu_bytes": 1400, "rate_bps": 5e6, "delay_ms": 3, "loss_percent": 1,
              "overhead_bytes": 24, "queue_packets": 7, "wire": "gprs-2g"}
    for field, value in values.items():
        own = {field: value, **({"rate_bps": 1e6} if field in ("overhead_bytes", "queue_packets")
                                else {})}
        document = {**yaml.safe_load(SCENARIO), "links": {"cn-a/eth0": own}}
        (tmp_path / "mine.yml").write_text(yaml.safe_dump(document))
        changed_link = load_scenario(str(tmp_path / "mine.yml")).network.links[2]
        assert changed_link != plain
        assert getattr(changed_link, field) == value


# Other files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("lines", "said"), [
    ("aggregate_bytes: 4000", "aggregate_bytes: has an effect with aggregate above 1 alone"),
    ("beacon_interval_ms: 50", "beacon_interval_ms: has an effect with beacon_bytes alone"),
    ("air: queue", "retries: has an effect with loss_percent alone"),
])
def test_fields_of_a_medium_that_would_change_nothing(lines: str, said: str,
                                                      tmp_path: Path) -> None:
    """Fields of the other air, and those that belong to others."""
    document = yaml.safe_load((MEDIA / "802.11b-long.yml").read_text())
    document |= {**yaml.safe_load(lines), "cw_max": 511}
    file = tmp_path / "m.yml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(TopologyError, match=said):
        load_medium(str(file))


def test_a_wire_without_rate_has_neither_queue_nor_overhead(tmp_path: Path) -> None:
    """Both are about waiting for a turn at the rate."""
    file = tmp_path / "w.yml"
    file.write_text(changed(WIRE, "rate_bps: 1000000\n", ""))
    with pytest.raises(TopologyError) as caught:
        load_wire(str(file))
    assert str(caught.value) == (f"{file}:6: overhead_bytes: has an effect with rate_bps alone; "
                                 "leave it out, or add rate_bps")


def test_shipped_files_pass() -> None:
    """None of the above is true of what comes with the project."""
    for name in network_names():
        load_network(name)
    for name in scenario_ids():
        load_scenario(name)
    for name in medium_names():
        load_medium(name)
    for name in wire_names():
        load_wire(name)
    load_device("today")


# Words ----------------------------------------------------------------------------------------


def test_no_word_of_pydantic_reaches_a_user() -> None:
    """Every error that pydantic knows has words of ours."""
    assert len(get_args(ErrorType)) > 90
    for kind in get_args(ErrorType):
        context = dict.fromkeys(("gt", "ge", "lt", "le", "expected", "error"), "3")
        said = refusals.describe_refused_value({"type": kind, "loc": ("x",), "input": 1,
                                              "ctx": context,
                                              "msg": "Input should be 3"})
        assert "nput should" not in said, kind
        assert len(said) > 0, kind
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("54M", strict=True)
    first = caught.value.errors()[0]
    assert (refusals.describe_refused_value(first),
            refusals.advise_fix(first)) == ("is not a whole number",
                                                                                  "write 54000000")

"""Tests of rendering by duty: the inventory, negative controls."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import PROJECT
from harness import secrets
from harness.ansible_process import AnsibleProcess
from harness.errors import UserError
from harness.render import make_inventory, render_policy
from measure.services import radius
from policies import TlsSettings, load_all, load_named
from rendering import ANSIBLE, Job, render, settings
from studies.policy_factors import change_layer
from studies.qop2007 import attacks, fault_injection
from studies.qop2007.faults import FAULTS
from studies.study import Fault, StudyError
from topologies import shapes
from topologies.loader import load_medium, load_network, load_scenario
from topologies.model import Interface, Medium, Network, Node


@pytest.fixture(scope="module")
def player() -> Iterator[AnsibleProcess]:
    """One Ansible that has loaded; test_playing.py shows that it renders what another renders."""
    player = AnsibleProcess()
    yield player
    player.kill_process()


P1 = next(policy for policy in load_all() if policy.id == "P1")


def realm() -> Network:
    """A client and a key server, which keeps a store as well."""
    chain = shapes.make_chain(1, last="kdc")
    chain.nodes["kdc"].duties.append("store")
    return chain


def test_groups_are_the_nodes_duties() -> None:
    """Every duty is a group, a node is in all of its own, and is described once."""
    hosts = make_inventory(realm())["all"]
    groups = {duty: list(group["hosts"]) for duty, group in hosts["children"].items()}
    assert groups == {"station": [], "access_point": [], "home_agent": [], "gateway": [],
                      "radius_server": [], "dhcp_server": [], "ocsp_responder": [],
                      "radius_client": [], "kerberos_kdc": [], "kerberos_client": [],
                      "kerberos_server": [], "client": ["client"], "kdc": ["kdc"], "store": ["kdc"]}
    assert hosts["hosts"]["kdc"]["node"] == {
        "name": "kdc", "duties": ["kdc", "store"], "address": "10.0.1.2"}


def test_a_node_is_described_by_each_of_its_duties() -> None:
    """What a role takes stands under its duty, so that two duties do not mix."""
    hosts = make_inventory(load_network("two-subnets"))["all"]["hosts"]
    assert hosts["a2"]["node"]["station"]["frequencies_mhz"] == [2412]
    assert hosts["a2"]["node"]["agent_address"] == "10.1.0.1"
    assert "home_agent" not in hosts["a2"]["node"]
    assert [peer["name"] for peer in hosts["ha-a"]["node"]["home_agent"]["peer_agents"]] == ["ha-b"]
    assert hosts["router"]["node"] == {"name": "router", "duties": ["router"],
                                       "address": "10.0.1.254"}


def with_medium(name: str) -> Medium:
    """A medium, or the same without HT, as WEP has it."""
    medium = load_medium(name.removesuffix("-non-ht"))
    return medium if medium.name == name else medium.without_ht


@pytest.mark.parametrize(("name", "first", "second"), [
    ("802.11b-short", (1, "b", 2412), (6, "b", 2437)),
    ("802.11n-ht20", (1, "g", 2412), (6, "g", 2437)),
    ("802.11n-ht40", (36, "a", 5180), (44, "a", 5220)),
    ("802.11ac", (36, "a", 5180), (149, "a", 5745)),
    ("802.11ac-non-ht", (36, "a", 5180), (149, "a", 5745))])
def test_radios_are_tuned_to_the_mediums_band(name: str, first: tuple[int, str, int],
                                              second: tuple[int, str, int]) -> None:
    """Channels 1 and 6 of a network stand for the first two channels of a medium in 5 GHz."""
    network = load_scenario("R1c6").network
    hosts = make_inventory(network, with_medium(name))["all"]["hosts"]
    for cell, (channel, mode, _) in (("ap-a", first), ("ap-b", second)):
        described = hosts[cell]["node"]["access_point"]
        assert (described["channel"], described["hw_mode"]) == (channel, mode)
    assert hosts["a2"]["node"]["station"]["frequencies_mhz"] == [first[2], second[2]]


_QOS = {"wmm_enabled": "1", "wmm_ac_be_aifs": "3", "wmm_ac_be_cwmin": "4", "wmm_ac_be_cwmax": "10",
        "wmm_ac_be_txop_limit": "0", "basic_rates": "60 120 240",
        "supported_rates": "60 90 120 180 240 360 480 540"}
_VHT_80 = {"ieee80211n": "1", "ht_capab": "[SHORT-GI-20][HT40+][SHORT-GI-40]", "ieee80211ac": "1",
           "vht_capab": "[SHORT-GI-80][MAX-A-MPDU-LEN-EXP7]", "vht_oper_chwidth": "1",
           "vht_oper_centr_freq_seg0_idx": "42"}
_HE_80 = {"ieee80211ax": "1", "he_oper_chwidth": "1", "he_oper_centr_freq_seg0_idx": "42"}
_HT = {"ieee80211n": "1", "ht_capab": "[SHORT-GI-20]"}
#: What hostapd is told of each medium's physical layer, and of nothing else.
OFFERS: dict[str, dict[str, str]] = {
    "802.11g": {}, "802.11n": {}, "802.11n-ht20": _QOS | _HT,
    "802.11n-ht40": _QOS | _HT | {"ht_capab": "[SHORT-GI-20][HT40+][SHORT-GI-40]"},
    "802.11ac": _QOS | _VHT_80, "802.11ac-non-ht": _QOS, "802.11ax": _QOS | _VHT_80 | _HE_80,
    "802.11ax-20": _QOS | _HT | {"ieee80211ax": "1", "he_oper_chwidth": "0",
                                 "he_oper_centr_freq_seg0_idx": "0"},
    "802.11ax-6ghz": _QOS | _HE_80 | {"he_oper_centr_freq_seg0_idx": "7"}}


def test_hostapd_offers_the_mediums_physical_layer(tmp_path: Path) -> None:
    """All media at once: 802.11g has no such setting, and WEP's medium has QoS without HT."""
    def access_point(name: str) -> dict[str, dict[str, Any]]:
        described = make_inventory(load_network("two-subnets"), with_medium(name))
        node = described["all"]["hosts"]["ap-a"]["node"]
        return {"access_point": {"ap-a": {"address": node["address"], **node["access_point"]}}}

    layers = load_named("M2").layers.model_dump(mode="json")
    render(tmp_path / "scratch", [
        Job(layers, tmp_path / name, tmp_path / "pki", nodes=access_point(name))
        for name in OFFERS])
    for name, offers in OFFERS.items():
        written = settings(tmp_path / name / "ap-a" / "hostapd.conf")
        told = {key: value for key, value in written.items() if key.startswith(
            ("ieee80211n", "ieee80211a", "ht_", "vht_", "he_", "wmm_", "basic_", "supported_"))}
        assert told.pop("wmm_ac_be_acm", "0") == "0"
        assert told == offers, name
        assert written.get("op_class") == ("133" if name == "802.11ax-6ghz" else None)


@pytest.mark.parametrize(("changes", "timers"), [
    ({}, {}), ({"delay_ms": 600.0}, {"ike_retry_s": 2.4}),
    ({"loss_percent": 10.0}, {"radius_cleanup_s": 30}),
    ({"delay_ms": 2000.0}, {"ike_retry_s": 8.0, "radius_cleanup_s": 30})])
def test_daemons_timers_follow_the_wire(changes: dict[str, float],
                                        timers: dict[str, float]) -> None:
    """IKE asks again after two round trips, and RADIUS answers again while it is asked."""
    network = load_network("two-subnets")
    links = [replace(network.links[0], **changes), *network.links[1:]]
    hosts = make_inventory(replace(network, links=links))["all"]["hosts"]
    for name in ("a2", "ha-a"):
        node = hosts[name]["node"]
        assert {key: node[key] for key in ("ike_retry_s", "radius_cleanup_s")
                if key in node} == timers


def test_realms_are_described_to_all_who_need_them() -> None:
    """A KDC is told of the other realms and of every server; a client where each KDC is."""
    def duties(name: str) -> list[str]:
        return {"client": ["kerberos_client"], "app": ["kerberos_kdc", "kerberos_server"]}.get(
            name, ["kerberos_kdc"])

    hosts = make_inventory(shapes.make_star("realms", dict.fromkeys(("client", "local", "app")),
                                            duties)
                           )["all"]["hosts"]
    assert hosts["local"]["node"]["kerberos_kdc"] == {
        "name": "local", "realm": "LOCAL.TEST", "peers": ["APP.TEST"],
        "servers": [{"node": "app", "host": "app.local.test"}]}
    assert hosts["client"]["node"]["kerberos_client"]["kdcs"] == [
        {"realm": "LOCAL.TEST", "address": "10.0.2.2"},
        {"realm": "APP.TEST", "address": "10.0.3.2"}]


def test_nodes_without_duty_or_address() -> None:
    """A node that nobody configures is left out; one without an address is described without."""
    network = Network("n", {"idle": Node([], {}), "tap": Node(["tap"], {"eth0": Interface()})}, [])
    hosts = make_inventory(network)["all"]["hosts"]
    assert hosts.keys() == {"tap"}
    assert hosts["tap"]["node"] == {"name": "tap", "duties": ["tap"]}


def test_radius_server_asks_the_node_with_the_duty_of_an_ocsp_responder() -> None:
    """Where no node has it, the server asks a responder on its own node."""
    network = load_network(str(PROJECT / "examples/scenarios/one-cell-ocsp.yml"))
    inventory = make_inventory(network)["all"]
    assert [*inventory["children"]["ocsp_responder"]["hosts"]] == ["responder"]
    hosts = inventory["hosts"]
    assert hosts["radius"]["node"]["radius_server"]["ocsp_address"] == "10.9.2.2"
    assert hosts["responder"]["node"]["ocsp_responder"]["address"] == "10.9.2.2"
    campus = make_inventory(load_network("campus"))["all"]["hosts"]
    assert "ocsp_address" not in campus["radius"]["node"]["radius_server"]


def test_a_radius_server_of_its_own_has_the_access_points_as_clients() -> None:
    """They ask it, and not their gateway; the gateway has the station's tunnels and leases."""
    hosts = make_inventory(load_network("campus"))["all"]["hosts"]
    assert [client["name"] for client in hosts["radius"]["node"]["radius_server"][
        "radius_clients"]] == ["ap-1", "ap-2"]
    assert hosts["ap-2"]["node"]["access_point"]["radius_address"] == "10.9.0.2"
    gateway = hosts["gw"]["node"]
    assert "home_agent" not in gateway and "radius_clients" not in gateway["gateway"]
    assert gateway["gateway"]["mobile_nodes"] == [{"name": "laptop", "address": "10.1.0.12"}]
    assert gateway["dhcp_server"]["interfaces"] == [{
        "name": "lan0", "subnet": "10.1.0.0", "mask": "255.255.255.0", "leases": [{
            "name": "laptop", "mac": "02:00:00:00:1a:00", "address": "10.1.0.12",
            "gateway": "10.1.0.1"}]}]


def test_each_daemon_is_on_the_node_of_its_duty(tmp_path: Path, player: AnsibleProcess) -> None:
    """With a tunnel, RadSec and MACsec: RADIUS far away, all else on the gateway."""
    conf = asyncio.run(render_policy(load_named("M12"), load_network("campus"),
                                     secrets.make_secrets(), work=tmp_path, name="M12",
                                     mount="/mount", player=player))
    of_node = {folder.name: {file.name for file in folder.iterdir()} for folder in conf.iterdir()}
    assert of_node["radius"] == {"freeradius", "radsec", "run"}
    assert of_node["gw"] == {"dnsmasq.conf", "macsec.conf", "run", "strongswan.conf", "swanctl"}
    assert "pass-leases" in (conf / "gw/swanctl/swanctl.conf").read_text()
    assert "src_ipaddr = 10.1.0.2\n" in (conf / "ap-1/radius_proxy/proxy.conf").read_text()
    assert "intranet" not in of_node


@pytest.mark.parametrize(("group", "curve", "offered"), [
    ("x25519mlkem768", "X25519MLKEM768", ""), ("mlkem768", "MLKEM768", "MLKEM768"),
    ("secp384r1mlkem1024", "SecP384r1MLKEM1024", "SecP384r1MLKEM1024")])
def test_each_end_of_tls_has_the_group(tmp_path: Path, player: AnsibleProcess, group: str,
                                       curve: str, offered: str) -> None:
    """Both TLS connections of the server have it, and a station is told what it offers not."""
    policy = change_layer("dot1x", tls=TlsSettings(version="1.3", group=group))(  # type: ignore[arg-type]
        load_named("M5-radsec"))
    conf = asyncio.run(render_policy(policy, load_network("campus"), secrets.make_secrets(),
                                     work=tmp_path, name="group", mount="/mount", player=player,
                                     release="trixie"))
    server = (conf / "radius/freeradius/radiusd.conf").read_text()
    proxy = (conf / "ap-1/radius_proxy/proxy.conf").read_text()
    assert (server + proxy).count(f'ecdh_curve = "{curve}"') == 3
    settings = conf / "laptop/openssl.cnf"
    assert settings.exists() is bool(offered)
    assert not offered or f"Groups = {offered}\n" in settings.read_text()


def test_a_home_agent_may_have_its_radius_server_elsewhere(tmp_path: Path,
                                                           player: AnsibleProcess) -> None:
    """Then it runs none of its own; where it is a gateway too, one node has both."""
    network = load_network("two-subnets")
    nodes = dict(network.nodes)
    nodes["cn-a"] = replace(nodes["cn-a"], duties=["correspondent", "radius_server"])
    nodes["ap-a"] = replace(nodes["ap-a"], radius_server="cn-a", gateway="10.1.0.1")
    conf = asyncio.run(render_policy(
        load_named("M5"), replace(network, nodes=nodes),
        secrets.make_secrets(), work=tmp_path, name="M5", mount="/mount", player=player))
    assert {folder.name for folder in conf.iterdir() if (folder / "freeradius").exists()} == {
        "cn-a", "ha-b"}
    campus = load_network("campus")
    office = {name: replace(node, radius_server="gw") if name.startswith("ap-") else node
              for name, node in campus.nodes.items()}
    office["gw"] = replace(office["gw"], duties=["gateway", "dhcp_server", "radius_server"])
    conf = asyncio.run(render_policy(
        load_named("M12"), replace(campus, nodes=office),
        secrets.make_secrets(), work=tmp_path, name="M12", mount="/mount", player=player))
    assert {"freeradius", "radsec", "swanctl", "dnsmasq.conf"} <= {
        file.name for file in (conf / "gw").iterdir()}
    assert (conf / "gw/freeradius/pki/cert.pem").exists()
    assert not (conf / "radius").exists()


@pytest.mark.parametrize(("policy", "network"), [
    ("P1", "two-subnets"), ("P12", "two-subnets"), ("M12", "campus")])
def test_what_a_run_renders_fits_what_roles_specify(policy: str, network: str,
                                                    tmp_path: Path, player: AnsibleProcess) -> None:
    """A run leaves that out; asked for, it finds nothing, and every file is as it was."""
    conf = asyncio.run(render_policy(load_named(policy), load_network(network),
                                     secrets.make_secrets(),
                                     work=tmp_path, name="first", mount="/mount", player=player))
    log = tmp_path / "again.log"
    assert asyncio.run(player.run_playbook(
        ["-i", str(tmp_path / "ansible" / "first.inventory.json"), str(ANSIBLE / "policy.yml"),
         "-e", f"@{tmp_path / 'ansible' / 'first.vars.json'}", "-e", '{"qop_checks_roles": true}'],
        log=log, temporary=tmp_path / "tmp")) == 0
    said = log.read_text()
    assert "Validating arguments" in said and any(conf.iterdir())
    assert not (changed := [line for line in said.splitlines() if "changed=0" not in line
                            and "changed=" in line]), changed


def test_what_ansible_refuses_is_one_line(tmp_path: Path) -> None:
    """Its own complaint, with the policy and the log."""
    made = secrets.make_secrets(Fault("", {"gateway.peers": "strangers"}))
    with pytest.raises(UserError) as caught:
        asyncio.run(render_policy(P1, realm(), made, work=tmp_path, name="P1-0", mount="/mount"))
    said = str(caught.value)
    assert said.startswith("policy P1: ansible-playbook failed: ") and "strangers" in said
    assert len(said.splitlines()) == 1 and (tmp_path / "ansible" / "P1-0.log").exists()


def test_interrupted_ansible_leaves_nothing_behind(tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """What it ran has ended, too; its pipe is closed."""
    begun = tmp_path / "begun"
    (tmp_path / "strategy_plugins").symlink_to(ANSIBLE / "strategy_plugins")
    (tmp_path / "policy.yml").write_text(json.dumps([{
        "hosts": "all", "gather_facts": False, "strategy": "in_process",
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "tasks": [{"ansible.builtin.shell": f"touch {begun}; sleep 600 {tmp_path}"}]}]))
    monkeypatch.setattr("harness.render.ANSIBLE", tmp_path)

    async def interrupted() -> None:
        rendering = asyncio.ensure_future(
            render_policy(P1, realm(), secrets.make_secrets(None), work=tmp_path / "work",
                          name="P1-0",
                          mount="/mount"))
        while not begun.exists() and not rendering.done():  # noqa: ASYNC110 - a file tells
            await asyncio.sleep(0.02)
        rendering.cancel()
        await asyncio.gather(rendering, return_exceptions=True)

    asyncio.run(interrupted())
    gc.collect()  # a pipe that is still open would say so now
    assert begun.exists() and _processes_naming(tmp_path) == []


def _processes_naming(folder: Path) -> list[Path]:
    """The processes whose command line names a folder."""
    naming = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if os.fsencode(folder) in line.read_bytes():
                naming.append(line.parent)
    return naming


def test_each_control_takes_exactly_one_thing_away() -> None:
    """One secret, service or policy, or what the workload does; an attack takes none."""
    for name, fault in FAULTS.items():
        made = secrets.make_secrets(fault)
        own = {"trust": "ca", "certificate": "valid", "server_name": "checked"}
        station = {key: value for key, value in made["station"].items() if key not in own}
        spoilt = [key for key in station if station[key] != made["network"][key]]
        spoilt += [key for key, value in own.items() if made["station"][key] != value]
        spoilt += [key for key in ("peers", "proxies") if made["gateway"][key] != "known"]
        spoilt += ["revocation"] * (made["gateway"]["revocation"] != "checked")
        spoilt += ["certificate"] * (made["gateway"]["certificate"] != "valid")
        spoilt += ["vlans"] * (made["gateway"]["vlans"] != "used")
        spoilt += ["radsec_group"] * (made["gateway"]["radsec_group"] != "policy")
        spoilt += ["key"] * (len(set(made["mobile_ip"].values())) > 1)
        spoilt += ["subscriber"] * (made["hss"] != made["subscriber"])
        spoilt += ["cak"] * (made["gateway"]["cak"] != made["wires"]["cak"])
        in_the_machine = {*fault_injection._CONTROLS, *attacks.ATTACKS, "second-in-clear",
                          attacks.GUESSING, fault_injection.UNREGISTERED, fault_injection.DENIED,
                          fault_injection.LOSSY, fault_injection.LEAVES,
                          fault_injection.FEWER, fault_injection.LEFT_OVER,
                          # STATIC_ADDRESS withholds the DHCP client, and gives the address.
                          fault_injection.NEAR_SERVER,
                          fault_injection.STATIC_IPV6, fault_injection.OVER_IPV4,
                          fault_injection.FRAGMENTS, fault_injection.STEADY_SERVER,
                          fault_injection.EQUAL_RATES, fault_injection.SINGLE_LOSSES,
                          fault_injection.OVER_THE_AIR,
                          fault_injection.UNTRANSLATED, fault_injection.KEPT_MAPPING,
                          fault_injection.STRIPPED, fault_injection.NO_JOIN,
                          radius.FIRST_SERVER_RUNS}
        others = (fault.policy is not None) + (name in in_the_machine)
        assert len(spoilt) + len(fault.withhold) + others == 1, name
    assert fault_injection._CONTROLS.keys() < FAULTS.keys()


def test_without_a_control_nothing_is_spoilt() -> None:
    """Both ends agree, also under a control that is the workload's to do."""
    for fault in (None, Fault("a study's own")):
        made = secrets.make_secrets(fault)
        assert made["station"] == {**made["network"], "trust": "ca", "certificate": "valid",
                                   "server_name": "checked"}
        assert made["gateway"] == {"peers": "known", "cross": "known", "proxies": "known",
                                   "revocation": "checked", "vlans": "used",
                                   "radsec_group": "policy", "certificate": "valid",
                                   **made["wires"]}
        assert len(set(made["mobile_ip"].values())) == 1


def test_a_study_says_what_its_control_spoils() -> None:
    """A fresh value is as long as the right one, a given one is taken, an unknown one refused."""
    made = secrets.make_secrets(Fault("", {"station.radius_secret": "",
                                           "network.eap_identity": "mallory"}))
    assert made["station"]["radius_secret"] != made["network"]["radius_secret"]
    assert len(made["station"]["radius_secret"]) == len(made["network"]["radius_secret"])
    assert made["network"]["eap_identity"] == "mallory"
    for lacking in ("station.pasword", "statoin.trust", "trust"):
        with pytest.raises(StudyError, match=f"{lacking}.*which there is not; choose from"):
            secrets.make_secrets(Fault("", {lacking: ""}))

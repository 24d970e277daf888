"""Tests of rendering by duty: the inventory, negative controls."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness import secrets
from harness.errors import UserError
from harness.render import make_inventory, render_policy
from policies import load_all
from rendering import ANSIBLE, PLAYBOOK
from studies.qop2007 import attacking, attempts, unprotected
from studies.qop2007.controls import FAULTS
from studies.study import Fault, StudyError
from topologies import shapes
from topologies.loader import load_network
from topologies.model import Interface, Network, Node

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
    assert groups == {"station": [], "access_point": [], "home_agent": [],
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


@pytest.mark.parametrize("policy", ["P1", "P12"])
def test_what_a_run_renders_fits_what_roles_specify(policy: str, tmp_path: Path) -> None:
    """A run leaves that out; asked for, it finds nothing, and every file is as it was."""
    known = {entry.id: entry for entry in load_all()}
    conf = asyncio.run(render_policy(known[policy], load_network("two-subnets"),
                                     secrets.make_secrets(),
                                     work=tmp_path, name="first", mount="/mount"))
    said = subprocess.run(
        [PLAYBOOK, "-i", tmp_path / "ansible" / "first.inventory.json", ANSIBLE / "policy.yml",
         "-e", f"@{tmp_path / 'ansible' / 'first.vars.json'}", "-e", '{"qop_checks_roles": true}'],
        env={**os.environ, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
             "ANSIBLE_LOCAL_TEMP": str(tmp_path), "ANSIBLE_REMOTE_TEMP": str(tmp_path)},
        capture_output=True, text=True, check=True).stdout
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
        own = {"trust": "ca", "certificate": "valid"}
        station = {key: value for key, value in made["station"].items() if key not in own}
        spoilt = [key for key in station if station[key] != made["network"][key]]
        spoilt += [key for key, value in own.items() if made["station"][key] != value]
        spoilt += [key for key in ("peers", "proxies") if made["gateway"][key] != "known"]
        spoilt += ["key"] * (len(set(made["mobile_ip"].values())) > 1)
        spoilt += ["subscriber"] * (made["hss"] != made["subscriber"])
        spoilt += ["cak"] * (made["gateway"]["cak"] != made["wires"]["cak"])
        in_the_machine = {*unprotected._CONTROLS, *attacking.ATTACKS, "second-in-clear",
                          attempts.GUESSING, unprotected.UNREGISTERED, unprotected.DENIED,
                          unprotected.LOSSY, unprotected.LEAVES,
                          unprotected.FEWER, unprotected.LEFT_OVER}
        others = (fault.policy is not None) + (name in in_the_machine)
        assert len(spoilt) + len(fault.withhold) + others == 1, name
    assert unprotected._CONTROLS.keys() < FAULTS.keys()


def test_without_a_control_nothing_is_spoilt() -> None:
    """Both ends agree, also under a control that is the workload's to do."""
    for fault in (None, Fault("a study's own")):
        made = secrets.make_secrets(fault)
        assert made["station"] == {**made["network"], "trust": "ca", "certificate": "valid"}
        assert made["gateway"] == {"peers": "known", "cross": "known", "proxies": "known",
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

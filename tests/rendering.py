"""Helpers of test_ansible.py: run the real ansible-playbook on small networks, read the result."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ANSIBLE = Path(__file__).parent.parent / "ansible"
#: A play of many hosts takes minutes where others keep the machine busy.
PATIENCE_S = 900.0
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
MOUNT = "/mount"

NETWORK_SECRETS = {
    "wep_key": "0102030405060708090a0b0c0d",
    "passphrase": "correct horse",
    "eap_identity": "mobile-node",
    "eap_password": "battery staple",
    "ike_secret": "another battery",
    "radius_secret": "shared secret",
    "imsi": "001010123456789",
    "p_tmsi": "c0ffee00",
    "denied": "001010000000000",
}
NODES: dict[str, dict[str, dict[str, Any]]] = {
    "station": {
        "a2": {
            "interface": "wlan0",
            "address": "10.1.0.12",
            "agent": "ha-a",
            "agent_address": "10.1.0.1",
            "mac": "02:00:00:00:a2:00",
            "ssid": "qop",
            "frequencies_mhz": [2412],
        },
    },
    "access_point": {
        "ap-a": {
            "interface": "wlan1",
            "bridge": "br0",
            "wire": "eth-a",
            "address": "10.1.0.2",
            "ssid": "qop",
            "stations": ["02:00:00:00:a2:00"],
            "radius_address": "10.1.0.1",
            "channel": 1,
            "hw_mode": "b",
        },
    },
    "home_agent": {
        "ha-a": {
            "address": "10.1.0.1",
            "stations": ["02:00:00:00:a2:00"],
            "radius_clients": [{"name": "ap-a", "address": "10.1.0.2"}],
            "mobile_nodes": [{"name": "a2", "address": "10.1.0.12"}],
            "peer_agents": [],
        },
    },
}

_REALMS = [{"realm": "LOCAL.TEST", "address": "10.0.2.2"},
           {"realm": "APP.TEST", "address": "10.0.3.2"}]
#: Nodes of realms, for the layer kerberos.
REALM_NODES: dict[str, dict[str, dict[str, Any]]] = {
    "kerberos_kdc": {"local": {"address": "10.0.2.2", "realm": "LOCAL.TEST", "peers": ["APP.TEST"],
                               "servers": [{"node": "app", "host": "app.local.test"}]}},
    "kerberos_client": {"client": {"address": "10.0.1.2", "home_realm": "LOCAL.TEST",
                                   "kdcs": _REALMS}},
    "kerberos_server": {"app": {"address": "10.0.3.2", "home_realm": "LOCAL.TEST",
                                "kdcs": _REALMS}},
}


def secrets() -> dict[str, dict[str, Any]]:
    """What a run makes; tests spoil a copy."""
    return {
        "network": dict(NETWORK_SECRETS),
        "station": {**NETWORK_SECRETS, "trust": "ca"},
        "gateway": {"peers": "known", "cak": "ca" * 16},
        "kerberos": {"user": "alice", "user_password": "aa", "service_password": "bb",
                     "cross_realm_password": "cc"},
    }


@dataclass(frozen=True)
class Job:
    """One policy's layers for one network, to be rendered into `output`."""

    layers: dict[str, Any]
    output: Path
    pki: Path
    secrets: dict[str, dict[str, Any]] | None = None
    nodes: dict[str, dict[str, dict[str, Any]]] | None = None
    #: Of every host, beside its inputs.
    variables: dict[str, Any] = field(default_factory=dict)

    def qop(self) -> dict[str, Any]:
        """The variable of policy.yml."""
        return {
            "policy": {"id": "T", "layers": self.layers},
            "secrets": self.secrets or secrets(),
            "output": str(self.output),
            "pki": str(self.pki),
            "mount": MOUNT,
        }


@dataclass(frozen=True)
class Outcome:
    """How ansible-playbook ended."""

    status: int
    text: str

    @property
    def changed(self) -> int:
        """The sum of changed tasks over all hosts."""
        return sum(self.changed_in.values())

    @property
    def changed_in(self) -> dict[int, int]:
        """The changed tasks of each job, by its number."""
        changes: dict[int, int] = {}
        for number, count in re.findall(r"^[\w-]+\.(\d+) .*changed=(\d+)", self.text, re.M):
            changes[int(number)] = changes.get(int(number), 0) + int(count)
        return changes


def inventory(jobs: list[Job]) -> dict[str, Any]:
    """One inventory for all jobs: each has hosts, and a `qop`, of its own."""
    groups: dict[str, dict[str, Any]] = {"station": {}, "access_point": {}, "home_agent": {},
                                         **{group: {} for group in REALM_NODES}}
    for number, job in enumerate(jobs):
        for group, nodes in (job.nodes or NODES).items():
            for name, node in nodes.items():
                groups[group][f"{name}.{number}"] = {
                    "ansible_connection": "local",
                    "qop": job.qop(),
                    "node": {
                        "name": name,
                        "duties": [group],
                        "address": node["address"],
                        group: {"name": name, **node} if group not in REALM_NODES else {
                            "name": name, **{key: node[key] for key in node if key != "address"}},
                    },
                    **job.variables,
                }
    return {"all": {"children": {group: {"hosts": hosts} for group, hosts in groups.items()}}}


def start(folder: Path, jobs: list[Job], *arguments: str) -> subprocess.Popen[str]:
    """Start policy.yml for `jobs`; scratch files go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "inventory.json"
    path.write_text(json.dumps(inventory(jobs)))
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "tmp"),
    }
    return subprocess.Popen(
        [str(PLAYBOOK), "-i", str(path), str(ANSIBLE / "policy.yml"), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> Outcome:
    """Wait for what `start` started."""
    text, _ = process.communicate(timeout=PATIENCE_S)
    return Outcome(process.returncode, text)


def render(folder: Path, jobs: list[Job], *arguments: str) -> Outcome:
    """Run policy.yml for `jobs` to its end; a failure fails the test with Ansible's own words."""
    outcome = finish(start(folder, jobs, *arguments))
    assert outcome.status == 0, outcome.text
    return outcome


def refuse(folder: Path, job: Job) -> str:
    """Run policy.yml for a `job` that must fail; what Ansible says, on one line."""
    outcome = finish(start(folder, [job]))
    assert outcome.status != 0, outcome.text
    return " ".join(outcome.text.split())


def failures(text: str) -> dict[int, str]:
    """What Ansible says of the hosts that failed, by the number of their job, on one line each."""
    said: dict[int, str] = {}
    for number, reason in re.findall(r"^fatal: \[[\w-]+\.(\d+)\]: FAILED! => (.*?)$(?=\n\S|\n\n)",
                                     text, re.S | re.M):
        said[int(number)] = said.get(int(number), "") + " ".join(reason.split())
    return said


def tree(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Everything below `folder`: path -> (mode, content; None for a folder)."""
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.stat().st_mode),
            None if path.is_dir() else path.read_bytes(),
        )
        for path in sorted(folder.rglob("*"))
    }


def settings(path: Path) -> dict[str, str]:
    """The KEY=VALUE lines of a rendered file, whatever block they stand in."""
    pairs = (line.strip().partition("=") for line in path.read_text().splitlines())
    return {key.strip(): value.strip() for key, sign, value in pairs if sign and key[0] != "#"}


def openssl(*arguments: str | Path) -> str:
    """What openssl prints, also on failure."""
    done = subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr

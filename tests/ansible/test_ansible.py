"""Tests of ansible/policy.yml and its roles, with the real ansible-playbook and openssl."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cryptography import x509

import policies
import shared
from measure.packets.decryption_keys import device_passphrase
from rendering import (
    ANSIBLE,
    MOUNT,
    NETWORK_SECRETS,
    NODES,
    PATIENCE_S,
    REALM_NODES,
    Job,
    failures,
    finish,
    openssl,
    refuse,
    render,
    secrets,
    settings,
    start,
    tree,
)

POLICIES = {policy.id: policy for policy in policies.load_all()}
LAYERS = {name: policy.layers.model_dump(mode="json") for name, policy in POLICIES.items()}
IDS = list(LAYERS)
#: The script that makes keys, as the role runs it.
PKI = ANSIBLE / "roles" / "pki" / "files" / "pki.py"


def example(name: str) -> dict[str, Any]:
    """The layers of a policy in examples/."""
    path = ANSIBLE.parent / "examples" / f"{name}.yml"
    return policies.load_policy(path).layers.model_dump(mode="json")


def whole(layers: dict[str, Any]) -> dict[str, Any]:
    """Layers with all that they do not say, as a policy's are."""
    return policies.Layers.model_validate(layers).model_dump(mode="json")


#: Policies that are none of the twelve.
OWN: dict[str, dict[str, Any]] = {
    "wpa2-psk": example("wpa2-psk"),
    "wpa3-sae": example("wpa3-sae"),
    "mixed-psk": example("wpa2-wpa3-psk"),
    "mixed-sae": example("wpa2-wpa3-sae"),
    "owe-transition": example("owe-transition"),
    "by-device": example("wpa2-psk-by-device"),
    "vlan": example("wpa2-eap-vlan"),
    "vlan-psk": example("wpa2-psk-vlan"), "vlans": example("wpa2-eap-vlans"),
    "vlans-psk": example("wpa2-psk-vlans"),
    "over-ds": example("wpa3-sae-ft-over-ds"),
    "fast-192-bit": example("wpa3-eap-192-bit-ft"),
    "sae-groups": example("wpa3-sae-groups"),
    "peap-first": whole({"link": {"cipher": "CCMP", "keys": "eap"},
                         "dot1x": {"eap": "TLS", "first_offer": "PEAP"}}),
    "hints": example("wpa3-sae-802.11kv"),
    "tkip-group": example("wpa2-tkip-group"),
    "accounted": example("wpa2-eap-accounting"),
    "authentic": example("wpa2-eap-message-authenticator"),
    "nested": example("wpa2-peap-eap-tls"),
    "ike-lists": example("ikev2-proposals"),
    "esp-lists": example("ikev2-esp-proposals"),
    "ike-password": example("ikev2-eap-mschapv2"),
    "listed": example("wpa2-eap-tls-crl"),
    "asked": example("wpa2-eap-tls-ocsp"),
    "named": example("wpa2-peap-server-name"),
    "in-domain": example("wpa2-eap-tls-server-domain"),
    "tkip": {"link": {"cipher": "TKIP", "keys": "psk"}},
    "wep-40": {"link": {"cipher": "WEP-40", "keys": "static"}},
    "wpa2-enterprise": {
        "link": {
            "cipher": "GCMP-256", "keys": "eap", "pmf": 1,
            "options": {
                "hostapd": {"group_mgmt_cipher": "BIP-GMAC-256", "ignore_broadcast_ssid": 1},
                "wpa_supplicant": {"group_mgmt": "BIP-GMAC-256", "sae_pwe": 2},
            },
        },
        "dot1x": {
            "eap": "TLS",
            "options": {
                "hostapd": {"eap_reauth_period": 60},
                "wpa_supplicant": {"phase1": "tls_disable_session_ticket=1"},
            },
        },
    },
    "ikev2-transport": {"ipsec": {
        "ike": 2, "ike_proposal": "aes128gcm16-prfsha256-ecp256", "esp_proposal": "aes128gcm16",
        "mode": "transport"}},
    "aka": whole({"link": {"cipher": "CCMP", "keys": "eap"},
                  "dot1x": {"eap": "AKA", "tls": {"key": "p-256"}},
                  "aaa": {"server": "hostapd"}}),
    "aka-prime": example("wpa3-eap-aka-prime"),
    "wired": {**policies.load_named("M5-radsec").layers.model_dump(mode="json"),
              "wire": {"macsec": "GCM-AES-128"}},
    "temporary": whole({"link": {"cipher": "CCMP", "keys": "eap"},
                        "dot1x": {"eap": "TLS", "tls": {"key": "p-256", "realm": "home.example"}},
                        "aaa": {"authority": "visited", "identity": "temporary"}}),
}
WRONG = "d" * 26
#: Negative controls: of which policy, and what is spoilt.
SPOILT: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "rogue-anchor": ("P8", lambda secrets: secrets["station"].update(trust="rogue")),
    "unknown-peer": ("P3", lambda secrets: secrets["gateway"].update(peers="unknown")),
    "wrong-password": ("P5", lambda secrets: secrets["station"].update(eap_password=WRONG)),
    "nameless-proxy": ("wired", lambda secrets: secrets["gateway"].update(proxies="unknown")),
    "vlan-ignored": ("vlan", lambda secrets: secrets["gateway"].update(vlans="ignored")),
    "unasked": ("asked", lambda secrets: secrets["gateway"].update(revocation="unchecked")),
    "unnamed": ("named", lambda secrets: secrets["station"].update(server_name="unchecked")),
    "wrong-wep-key": ("P2", lambda secrets: secrets["station"].update(wep_key=WRONG)),
}
#: What is not there where roles are told to leave nothing, while others of the same nodes stay.
GONE = {
    ("hostapd", "wpa_supplicant", "freeradius"): {
        "ap-a/hostapd.conf", "a2/wpa_supplicant.conf",
        *(f"ha-a/freeradius/{name}" for name in ("radiusd.conf", "clients.conf", "users"))},
    ("strongswan",): {f"{node}/{name}" for node in ("a2", "ha-a")
                      for name in ("strongswan.conf", "swanctl/swanctl.conf")},
}
#: Jobs of which only some nodes are looked at have no others: each takes its time.
SOME_NODES = {**dict.fromkeys(["wpa3-sae", "mixed-psk", "mixed-sae", "by-device", "over-ds",
                               "fast-192-bit", "sae-groups",
                               "vlan-psk", "vlans-psk", "hints",
                               "tkip-group", "owe-transition", "tkip", "wep-40"],
                              ("station", "access_point")),
              **dict.fromkeys(["ikev2-transport", "aka", "temporary", "nested", "ike-lists",
                               "esp-lists", "ike-password",
                               "listed", "asked"], ("station", "home_agent")),
              "unasked": ("home_agent",), "vlan-ignored": ("access_point", "home_agent"),
               "vlans": ("home_agent",), "peap-first": ("home_agent",),
               "many-nodes": ("home_agent",), "long-names": ("access_point",),
               "nameless-proxy": ("access_point", "home_agent")}
#: Jobs with a store of their own, and what is made there.
STORES = {"P2": set(), "ikev2-transport": {"ipsec-a2", "ipsec-ha-a"},
          "P6": {"authority", "server-ha-a", "client-a2"}}


#: Realms, and where there are none any more.
REALMS: dict[str, dict[str, Any]] = {
    "realms": {"kerberos": policies.KerberosLayer(udp_limit_bytes=1).model_dump(mode="json")},
    "no-realms": {}}
REALM_FILES = {
    *(f"local/kdc/{name}" for name in ("krb5.conf", "kdc.conf", "principals")),
    *(f"{node}/krb5/{name}" for node in ("client", "app") for name in ("krb5.conf", "kdcs.conf")),
    *(f"local/pkinit/{name}" for name in ("ca.pem", "kdc.pem", "kdc.key")),
    *(f"client/pkinit/{name}" for name in ("ca.pem", "rogue-ca.pem")),
    *(f"client/pkinit/{name}.{end}" for end in ("pem", "key")
      for name in ("user", "another-user", "no-purpose", "expired", "rogue"))}


Nodes = dict[str, dict[str, dict[str, Any]]]


def long_names() -> dict[str, dict[str, dict[str, Any]]]:
    """An access point whose interface and network have names that are as long as allowed."""
    nodes = deepcopy(NODES)
    nodes["access_point"]["ap-a"] |= {"interface": "wlan-of-cell-a1", "ssid": "x" + "ü" * 15}
    return nodes


def many_nodes() -> Nodes:
    """The home agent of a second station and a second access point, too."""
    nodes = deepcopy(NODES)
    gateway = nodes["home_agent"]["ha-a"]
    gateway["mobile_nodes"].append({"name": "a1", "address": "10.1.0.11"})
    gateway["radius_clients"].append({"name": "ap-b", "address": "10.1.0.3"})
    return nodes


#: What stands in every file before a policy is rendered.
LEFT_OVER = b"another policy's\n"


class Rendered:
    """All twelve policies and what else is only looked at, each in a folder, over one store.

    Before, each folder holds every file that any of the twelve makes. One start of
    ansible-playbook, as that takes longer than to render.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.pki = root, root / "pki"

    def make(self) -> None:
        """Render everything."""
        layers = {**LAYERS, **OWN, "many-nodes": LAYERS["P12"],
                  "long-names": OWN["owe-transition"],
                  **{name: {**LAYERS, **OWN}[policy] for name, (policy, _) in SPOILT.items()},
                  **{without(roles): LAYERS["P9"] for roles in GONE}}
        jobs = {name: self.job(name, layers[name]) for name in layers}
        jobs |= {name: Job(layers, self.path(name), self.pki, nodes=REALM_NODES)
                 for name, layers in REALMS.items()}
        for name, (_, spoil) in SPOILT.items():
            spoil(spoilt := secrets())
            jobs[name] = replace(jobs[name], secrets=spoilt)
        for roles in GONE:
            jobs[without(roles)] = replace(
                jobs[without(roles)], variables={f"{role}_state": "absent" for role in roles})
        for path in {path for layers in LAYERS.values() for path in expected_files(layers)}:
            for job in jobs.values():
                make_private(job.output / path)
        for path in REALM_FILES:
            make_private(self.path("no-realms", path))
        render(self.root / "scratch", list(jobs.values()))

    def job(self, name: str, layers: dict[str, Any]) -> Job:
        """What renders a policy into its folder."""
        nodes = {"many-nodes": many_nodes, "long-names": long_names}.get(name, lambda: NODES)()
        return Job(layers, self.path(name), self.store(name) if name in STORES else self.pki,
                   nodes={group: nodes[group] for group in SOME_NODES.get(name, NODES)})

    def path(self, policy: str, *parts: str) -> Path:
        """A file or folder of a rendered policy."""
        return self.root.joinpath("conf", policy, *parts)

    def store(self, policy: str) -> Path:
        """The store that is this policy's alone."""
        return self.root / f"pki-{policy}"


def without(roles: tuple[str, ...]) -> str:
    """What a job is called that renders P9 without some roles."""
    return f"without-{'-'.join(roles)}"


def make_private(file: Path) -> None:
    """A file with folders around it as roles make them, open to nobody else."""
    for folder in reversed([parent for parent in file.parents if not parent.exists()]):
        folder.mkdir(mode=0o700)
    file.write_bytes(LEFT_OVER)
    file.chmod(0o600)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """For all tests that only look; once a test run, as it is dear."""
    def make() -> Path:
        made = Rendered(tmp_path_factory.mktemp("rendered"))
        made.make()
        return made.root

    return Rendered(shared.once("rendered", make))


def expected_files(layers: dict[str, Any]) -> set[str]:
    """The files that docs/ansible.md promises for a policy."""
    files = {"a2/wpa_supplicant.conf", "ap-a/hostapd.conf"}
    if layers["dot1x"]:
        files |= {f"ha-a/freeradius/{name}" for name in ("radiusd.conf", "clients.conf", "users")}
        if layers["dot1x"]["eap"] == "TLS":
            files |= {
                f"{folder}/pki/{name}.pem"
                for folder in ("a2", "ha-a/freeradius")
                for name in ("ca", "cert", "key")
            }
    if layers["ipsec"]:
        for node in ("a2", "ha-a"):
            files |= {
                f"{node}/strongswan.conf",
                f"{node}/swanctl/swanctl.conf",
                f"{node}/swanctl/private/{node}.pem",
                f"{node}/swanctl/pubkey/a2.pem",
                f"{node}/swanctl/pubkey/ha-a.pem",
            }
    return files


# --- the twelve policies -----------------------------------------------------------------------


@pytest.mark.parametrize("policy", IDS)
def test_files_are_private(rendered: Rendered, policy: str) -> None:
    """What a layer makes is closed to other users, and daemons have a place for their sockets."""
    found = tree(rendered.path(policy))
    files = {path for path, (_, content) in found.items() if content is not None}
    assert {mode for mode, content in found.values() if content is not None} == {0o600}
    assert {mode for mode, content in found.values() if content is None} == {0o700}
    nodes_with_daemons = {Path(path).parts[0] for path in files}
    assert {path for path, (_, content) in found.items() if content is None and "run" in path} == {
        f"{node}/run" for node in nodes_with_daemons
    }


@pytest.mark.parametrize("policy", IDS)
def test_access_point_and_station_agree_with_the_policy(rendered: Rendered, policy: str) -> None:
    """Both ends carry the settings that platform tests found to work for these layers."""
    link, dot1x = LAYERS[policy]["link"], LAYERS[policy]["dot1x"]
    ap = settings(rendered.path(policy, "ap-a", "hostapd.conf"))
    station = settings(rendered.path(policy, "a2", "wpa_supplicant.conf"))
    assert ap["driver_params"] == station["driver_param"] == "control_port=0"
    assert ap["ctrl_interface"] == f"{MOUNT}/ap-a/run/hostapd"
    assert station["ctrl_interface"] == f"DIR={MOUNT}/a2/run/wpa_supplicant"
    assert (ap["interface"], ap["bridge"], ap["ssid"], ap["channel"], ap["hw_mode"]) == (
        "wlan1",
        "br0",
        "qop",
        "1",
        "b",
    )
    assert (station["ssid"], station["scan_freq"], station["disabled"]) == ('"qop"', "2412", "1")
    assert station["key_mgmt"] == ("IEEE8021X" if dot1x else "NONE")
    assert "wpa" not in ap
    assert "proto" not in station

    static = bool(link) and link["keys"] == "static"
    assert (ap.get("wep_key0"), station.get("wep_key0")) == (
        (secrets()["network"]["wep_key"],) * 2 if static else (None, None)
    )
    assert ap.get("wep_default_key") == ("0" if static else None)
    dynamic = bool(link) and link["keys"] == "eap"
    assert ap.get("wep_key_len_unicast") == ("13" if dynamic else None)
    assert station.get("eapol_flags") == (None if not dot1x else "3" if dynamic else "0")

    assert ap.get("ieee8021x") == ("1" if dot1x else None)
    assert ap.get("auth_server_addr") == ("10.1.0.1" if dot1x else None)
    assert station.get("eap") == (dot1x["eap"] if dot1x else None)
    tls = bool(dot1x) and dot1x["eap"] == "TLS"
    assert station.get("private_key") == (f'"{MOUNT}/a2/pki/key.pem"' if tls else None)
    assert ("password" in station) == (bool(dot1x) and not tls)


@pytest.mark.parametrize("policy", [p for p in IDS if LAYERS[p]["dot1x"]])
def test_radius_server_offers_and_accepts_what_the_policy_says(
    rendered: Rendered, policy: str
) -> None:
    """The first offer is the policy's; with EAP-TLS nobody has a password to log in with by MD5."""
    dot1x = LAYERS[policy]["dot1x"]
    folder = rendered.path(policy, "ha-a", "freeradius")
    radiusd = (folder / "radiusd.conf").read_text()
    assert f"default_eap_type = {dot1x['first_offer'].lower()}\n" in radiusd
    assert ("\t\tmd5 {\n" in radiusd) == ("MD5" in dot1x.values())
    assert ("\t\ttls {\n" in radiusd) == (dot1x["eap"] == "TLS")
    assert "ipaddr = 10.1.0.1\n" in radiusd
    assert "user =" not in radiusd
    users = (folder / "users").read_text()
    assert ("Cleartext-Password" in users) == (dot1x["eap"] == "MD5")
    clients = (folder / "clients.conf").read_text()
    assert "ipaddr = 10.1.0.2\n" in clients
    assert "secret = 'shared secret'\n" in clients


@pytest.mark.parametrize("policy", [p for p in IDS if LAYERS[p]["ipsec"]])
def test_both_ends_of_the_tunnel_match(rendered: Rendered, policy: str) -> None:
    """Proposals are the policy's, selectors and keys mirror each other, nothing adds packets."""
    ipsec = LAYERS[policy]["ipsec"]
    mobile = rendered.path(policy, "a2", "swanctl", "swanctl.conf").read_text()
    gateway = rendered.path(policy, "ha-a", "swanctl", "swanctl.conf").read_text()
    for text in (mobile, gateway):
        assert f"proposals = {ipsec['ike_proposal']}\n" in text
        assert f"esp_proposals = {ipsec['esp_proposal']}\n" in text
        for quiet in ("mobike = no", "dpd_delay = 0", "rekey_time = 0", "reauth_time = 0"):
            assert quiet in text
    assert "\tqop {\n\t\tversion = 1\n" in mobile
    assert "\tqop-a2 {\n" in gateway
    assert "local_ts = 10.1.0.12/32\n\t\t\t\tremote_ts = 0.0.0.0/0\n" in mobile
    assert "local_ts = 0.0.0.0/0\n\t\t\t\tremote_ts = 10.1.0.12/32\n" in gateway
    # Between two tunnels of a node that moves nothing goes to it or from it in clear; and its own
    # packets begin no negotiation, which would come on top of the one that is asked for.
    assert ("\t\t\thold-a2 {\n\t\t\t\tmode = drop\n\t\t\t\tstart_action = trap\n\t\t\t\tlocal_ts = "
            "0.0.0.0/0\n\t\t\t\tremote_ts = 10.1.0.12/32\n") in gateway
    assert ("\t\t\thold-ha-a {\n\t\t\t\tmode = drop\n\t\t\t\tstart_action = trap\n"
            "\t\t\t\tlocal_ts = 10.1.0.12/32\n\t\t\t\tremote_ts = 0.0.0.0/0\n") in mobile
    assert mobile.count("start_action = trap") == 1
    charon = rendered.path(policy, "a2", "strongswan.conf").read_text()
    assert f"socket = unix://{MOUNT}/a2/run/charon.vici\n" in charon
    for node, peer in (("a2", "ha-a"), ("ha-a", "a2")):
        key = rendered.path(policy, node, "swanctl", "private", f"{node}.pem")
        public = openssl("rsa", "-in", key, "-pubout").replace("writing RSA key\n", "")
        assert public == rendered.path(policy, peer, "swanctl", "pubkey", f"{node}.pem").read_text()


# --- rendering again ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", IDS)
def test_no_policy_leaves_anything_over_for_another(rendered: Rendered, policy: str) -> None:
    """A folder that held all files of all policies has this one's, and nothing of the others.

    That is more than a switch from any one of them can leave.
    """
    files = {path: content for path, (_, content) in tree(rendered.path(policy)).items()
             if content is not None}
    assert files.keys() == expected_files(LAYERS[policy])
    assert not [path for path, content in files.items() if LEFT_OVER in content]


def test_second_run_puts_right_what_is_not(rendered: Rendered, tmp_path: Path) -> None:
    """Rendering again changes what was made readable or changed, and what was not, in nothing.

    In folders and store alike. What does not validate replaces nothing, and hinders no other.
    """
    # Between them they have every layer, and both of what can stand in each.
    names = ("P2", "P7", "P12")
    damaged, refused = (copy(rendered, "P2", tmp_path / name) for name in ("damaged", "refused"))
    short = secrets()
    short["network"]["wep_key"] = short["station"]["wep_key"] = "0102"
    jobs = [*(rendered.job(name, LAYERS[name]) for name in names), damaged,
            replace(refused, secrets=short)]
    (damaged.output / "ap-a/hostapd.conf").chmod(0o644)
    (damaged.output / "a2/wpa_supplicant.conf").write_text("gone\n")

    def times() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns
                for folder in (rendered.pki, *map(rendered.path, names))
                for path in folder.rglob("*") if ".locks" not in path.parts}

    before = times()
    outcome = finish(start(tmp_path / "scratch", jobs))
    assert times() == before
    assert tree(damaged.output) == tree(refused.output) == tree(rendered.path("P2"))
    assert outcome.changed_in == {number: 2 * (job is damaged) for number, job in enumerate(jobs)}
    [(number, said)] = failures(outcome.text).items()
    assert jobs[number].output == refused.output
    assert "wep_key0 must be 10 or 26 hexadecimal digits" in said


def test_check_mode_writes_nothing(rendered: Rendered, tmp_path: Path) -> None:
    """--check tells of changes and makes none, also where no folder exists."""
    job = Job(LAYERS["P12"], tmp_path / "conf", tmp_path / "pki")
    assert render(tmp_path / "scratch", [job], "--check").changed > 0
    assert not job.output.exists()
    assert not job.pki.exists()


@pytest.mark.parametrize("roles", GONE, ids=without)
def test_an_absent_role_removes_what_it_makes(rendered: Rendered, roles: tuple[str, ...]) -> None:
    """Any role can be told to leave nothing, and leaves the others' files alone."""
    whole, rest = tree(rendered.path("P9")), tree(rendered.path(without(roles)))
    missing = {path for path in whole.keys() - rest.keys() if whole[path][1] is not None
               and "/private/" not in path and "/pubkey/" not in path}
    assert missing == GONE[roles]
    assert not rest.keys() - whole.keys()


def realm_files(rendered: Rendered, name: str) -> set[str]:
    """What a job made of the nodes of realms."""
    return {path for path, (_, content) in tree(rendered.path(name)).items()
            if content is not None and path.partition("/")[0] in ("local", "client", "app")}


def test_realms_are_rendered_and_removed(rendered: Rendered) -> None:
    """A KDC, a client and a server get their files; without the layer none of them is left."""
    assert realm_files(rendered, "realms") == REALM_FILES
    assert realm_files(rendered, "no-realms") == set()


def test_only_who_reads_kdcs_conf_knows_a_kdc(rendered: Rendered) -> None:
    """A client behind a proxy leaves that file out, and has everything else."""
    settings_of, kdcs = (rendered.path("realms", "client", "krb5", name).read_text()
                         for name in ("krb5.conf", "kdcs.conf"))
    assert "10.0.2.2" not in settings_of
    assert "kdc = 10.0.2.2" in kdcs
    assert "udp_preference_limit = 1" in settings_of
    assert "permitted_enctypes = aes256-cts-hmac-sha384-192" in settings_of


def test_certificates_for_pkinit_say_whose_they_are(rendered: Rendered) -> None:
    """The anchor verifies the user's, not the rogue one; a KDC's is for a KDC, by RFC 4556."""
    place = rendered.path("realms", "client", "pkinit")
    for name, expected in (("user", "OK"), ("rogue", "error"), ("expired", "expired")):
        assert expected in openssl("verify", "-CAfile", place / "ca.pem", place / f"{name}.pem")
    for node, name, purpose in (("local", "kdc", "1.3.6.1.5.2.3.5"),
                                ("client", "user", "1.3.6.1.5.2.3.4")):
        text = openssl("x509", "-noout", "-text", "-in",
                       rendered.path("realms", node, "pkinit", f"{name}.pem"))
        assert purpose in text or {"1.3.6.1.5.2.3.5": "Signing KDC Response",
                                   "1.3.6.1.5.2.3.4": "PKINIT Client Auth"}[purpose] in text


def copy(rendered: Rendered, policy: str, folder: Path) -> Job:
    """What renders a policy into a copy of its folder, of which a test may change anything."""
    shutil.copytree(rendered.path(policy), folder)
    return replace(rendered.job(policy, LAYERS[policy]), output=folder)


# --- key material ------------------------------------------------------------------------------


def test_certificates_hold_through_the_intermediate(rendered: Rendered) -> None:
    """Each side verifies the other by root and sent chain alone, for its purpose, as of today."""
    server = rendered.path("P8", "ha-a", "freeradius", "pki")
    client = rendered.path("P8", "a2", "pki")
    for own, other, purpose in ((client, server, "sslserver"), (server, client, "sslclient")):
        roots = openssl("storeutl", "-noout", "-certs", own / "ca.pem")
        assert "Total found: 1" in roots
        assert "Total found: 2" in openssl("storeutl", "-noout", "-certs", other / "cert.pem")
        verdict = openssl(
            "verify",
            "-no-CApath",
            "-no-CAstore",
            "-CAfile",
            own / "ca.pem",
            "-untrusted",
            other / "cert.pem",
            "-purpose",
            purpose,
            other / "cert.pem",
        )
        assert verdict.endswith("cert.pem: OK\n"), verdict
        # Without the intermediate there is no way from root to leaf.
        alone = openssl(
            "verify", "-no-CApath", "-no-CAstore", "-CAfile", own / "ca.pem", other / "cert.pem"
        )
        assert "unable to get local issuer certificate" in alone
    text = openssl("x509", "-in", server / "cert.pem", "-noout", "-text")
    assert "DNS:ha-a" in text
    assert "TLS Web Server Authentication" in text
    assert "Public-Key: (2048 bit)" in text
    start_date = openssl("x509", "-in", server / "cert.pem", "-noout", "-startdate")
    started = dt.datetime.strptime(
        start_date.strip().replace("GMT", "+0000"), "notBefore=%b %d %H:%M:%S %Y %z"
    )
    assert dt.timedelta(hours=1) < dt.datetime.now(dt.UTC) - started < dt.timedelta(days=1)


def test_servers_flight_fits_two_fragments(rendered: Rendered) -> None:
    """Certificates leave room for the rest of the handshake in two EAP fragments of 1024 bytes.

    ServerHello, key exchange (RSA-2048 signature), certificate request and their headers took 499
    bytes with OpenSSL 3.0; two fragments hold 2032 bytes. A third would add two frames to the 17.
    """
    pem = rendered.path("P8", "ha-a", "freeradius", "pki", "cert.pem").read_text()
    parts = [
        part + "-----END CERTIFICATE-----\n"
        for part in pem.split("-----END CERTIFICATE-----\n")
        if part.strip()
    ]
    assert sum(len(ssl.PEM_cert_to_DER_cert(part)) for part in parts) < 2032 - 499


@pytest.mark.parametrize("policy", STORES)
def test_only_what_a_policy_needs_is_made(rendered: Rendered, policy: str) -> None:
    """P2 needs no store at all, an IPsec policy no certificates, an EAP-TLS policy no raw keys."""
    store = rendered.store(policy)
    assert {path.name for path in store.glob("[!.]*")} == STORES[policy]
    assert store.exists() == bool(STORES[policy])


def test_scripts_side_by_side_share_one_store(tmp_path: Path) -> None:
    """Runs that need the same new keys at once all succeed and hold the same.

    A dead maker's half work is cleared away, not used.
    """
    pki = tmp_path / "pki"
    (pki / ".authority.dead").mkdir(parents=True)
    parts = {"a2": ["--eap", "client", "--peer", "ha-a"],
             "ha-a": ["--eap", "server", "--peer", "a2"]}
    runs = [subprocess.Popen([sys.executable, str(PKI), "--store", str(pki), "--output",
                              str(tmp_path / run / node), "--name", node, *arguments])
            for run in ("one", "two") for node, arguments in parts.items()]
    assert [run.wait(PATIENCE_S) for run in runs] == [0] * len(runs)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert {path.name for path in pki.iterdir()} == {
        ".locks",
        "authority",
        "server-ha-a",
        "client-a2",
        "ipsec-a2",
        "ipsec-ha-a",
    }


@pytest.mark.parametrize(("chain", "key"), [(2, "rsa2048"), (3, "p384")])
def test_topmost_intermediate_has_expired_and_nothing_else(chain: int, key: str,
                                                           tmp_path: Path) -> None:
    """The root has signed it, as it signed the valid one."""
    for name, more in (("usual", []), ("late", ["--issuer-expired"])):
        subprocess.run([sys.executable, str(PKI), "--store", str(tmp_path / "pki"), "--output",
                        str(tmp_path / name), "--name", name, "--eap", "server", "--key", key,
                        "--chain", str(chain), *more], check=True, timeout=PATIENCE_S)
    usual, late = (x509.load_pem_x509_certificates(
        (tmp_path / name / "pki/cert.pem").read_bytes()) for name in ("usual", "late"))
    now = dt.datetime.now(dt.UTC)
    assert [each.not_valid_after_utc < now for each in late] == [False] * (chain - 1) + [True]
    root = x509.load_pem_x509_certificate((tmp_path / "late/pki/ca.pem").read_bytes())
    late[-1].verify_directly_issued_by(root)
    late[-2].verify_directly_issued_by(late[-1])
    assert late[-1].public_key() == usual[-1].public_key()
    assert [each.value for each in late[-1].extensions] == [
        each.value for each in usual[-1].extensions]


def test_keys_are_of_one_form_with_and_without_cryptography(tmp_path: Path) -> None:
    """Where the package lacks, as in a container image, openssl makes keys that serve as well."""
    without = ("import runpy, sys; sys.modules['cryptography'] = None; sys.argv = sys.argv[1:]; "
               "runpy.run_path(sys.argv[0], run_name='__main__')")
    for run, begin in (("with", []), ("without", ["-c", without])):
        subprocess.run([sys.executable, *begin, str(PKI), "--store", str(tmp_path / "store" / run),
                        "--output", str(tmp_path / run), "--name", "a2", "--eap", "client",
                        "--peer", "ha-a"], check=True)
    made = [tree(tmp_path / run) for run in ("with", "without")]
    assert made[0].keys() == made[1].keys()
    for run in ("with", "without"):
        for key, certificate in (("pki/key.pem", "pki/cert.pem"), ("swanctl/private/a2.pem", "")):
            file = tmp_path / run / key
            assert file.stat().st_mode & 0o777 == 0o600
            assert file.read_text().startswith("-----BEGIN PRIVATE KEY-----\n")
            assert "2048 bit" in openssl("pkey", "-noout", "-text", "-in", file)
            known = (openssl("x509", "-noout", "-pubkey", "-in", tmp_path / run / certificate)
                     if certificate else (tmp_path / run / "swanctl/pubkey/a2.pem").read_text())
            assert openssl("pkey", "-pubout", "-in", file) == known


def differing(rendered: Rendered, policy: str, spoilt: str) -> list[str]:
    """The files of a policy that a spoilt secret changes."""
    real, wrong = tree(rendered.path(policy)), tree(rendered.path(spoilt))
    assert real.keys() == wrong.keys()
    return [path for path in real if real[path] != wrong[path]]


def test_rogue_trust_anchor_refuses_the_real_server(rendered: Rendered) -> None:
    """Negative control: only the station's anchor differs, and the server does not verify by it."""
    assert differing(rendered, "P8", "rogue-anchor") == ["a2/pki/ca.pem"]
    cert = rendered.path("rogue-anchor", "ha-a/freeradius/pki/cert.pem")
    assert "verification failed" in openssl(
        "verify",
        "-no-CApath",
        "-no-CAstore",
        "-CAfile",
        rendered.path("rogue-anchor", "a2/pki/ca.pem"),
        "-untrusted",
        cert,
        cert,
    )


def test_unknown_peers_key_is_another_one(rendered: Rendered) -> None:
    """Negative control: only the key that the gateway holds for the mobile node differs."""
    path = "ha-a/swanctl/pubkey/a2.pem"
    assert differing(rendered, "P3", "unknown-peer") == [path]
    assert "BEGIN PUBLIC KEY" in rendered.path("unknown-peer", path).read_text()


@pytest.mark.parametrize(("policy", "spoilt", "key"), [
    ("P5", "wrong-password", "password"), ("P2", "wrong-wep-key", "wep_key0")])
def test_stations_own_secrets_reach_only_the_station(
    rendered: Rendered, policy: str, spoilt: str, key: str
) -> None:
    """Negative controls: a wrong password or WEP key differs in the station's file alone."""
    assert differing(rendered, policy, spoilt) == ["a2/wpa_supplicant.conf"]
    assert WRONG in settings(rendered.path(spoilt, "a2/wpa_supplicant.conf"))[key]


# --- policies of one's own ---------------------------------------------------------------------


def both(rendered: Rendered, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of hostapd and of wpa_supplicant under a policy."""
    return (settings(rendered.path(name, "ap-a/hostapd.conf")),
            settings(rendered.path(name, "a2/wpa_supplicant.conf")))


def test_wpa2_psk(rendered: Rendered) -> None:
    """The modern example: RSN with CCMP and one passphrase at both ends, and no other file."""
    ap, station = both(rendered, "wpa2-psk")
    assert {
        "wpa": "2",
        "wpa_key_mgmt": "WPA-PSK",
        "rsn_pairwise": "CCMP",
        "ieee80211w": "0",
        "wpa_passphrase": "correct horse",
    }.items() <= ap.items()
    assert {
        "key_mgmt": "WPA-PSK",
        "proto": "RSN",
        "pairwise": "CCMP",
        "group": "CCMP",
        "ieee80211w": "0",
        "psk": '"correct horse"',
    }.items() <= station.items()
    made = tree(rendered.path("wpa2-psk"))
    assert {path for path, (_, content) in made.items() if content} == (
        expected_files(OWN["wpa2-psk"])
    )


def test_wpa3_sae(rendered: Rendered) -> None:
    """SAE with management frames protected, as both daemons call it."""
    ap, station = both(rendered, "wpa3-sae")
    assert {"wpa": "2", "wpa_key_mgmt": "SAE", "ieee80211w": "2"}.items() <= ap.items()
    assert {"key_mgmt": "SAE", "ieee80211w": "2", "psk": '"correct horse"'}.items() <= (
        station.items()
    )


def test_wpa2_enterprise_with_daemon_options(rendered: Rendered) -> None:
    """WPA2 with EAP-TLS; options of both layers come last, quoted where the parser wants it."""
    ap, station = both(rendered, "wpa2-enterprise")
    assert {
        "wpa_key_mgmt": "WPA-EAP",
        "rsn_pairwise": "GCMP-256",
        "ieee8021x": "1",
        "eap_reauth_period": "60",
    }.items() <= ap.items()
    assert {
        "key_mgmt": "WPA-EAP",
        "eap": "TLS",
        "phase1": '"tls_disable_session_ticket=1"',
        "group_mgmt": "BIP-GMAC-256",
    }.items() <= station.items()
    lines = rendered.path("wpa2-enterprise", "a2/wpa_supplicant.conf").read_text().splitlines()
    assert lines.index("sae_pwe=2") < lines.index("network={")  # a global option of the daemon
    radiusd = rendered.path("wpa2-enterprise", "ha-a/freeradius/radiusd.conf").read_text()
    assert "default_eap_type = tls\n" in radiusd


def test_mixed_network_offers_both_and_station_has_its_own(rendered: Rendered) -> None:
    """The access point is the same for both stations; the older one has WPA2 without PMF."""
    for name, key_mgmt, pmf in (("mixed-psk", "WPA-PSK", "0"), ("mixed-sae", "WPA-PSK SAE", "1")):
        ap, station = both(rendered, name)
        assert (ap["wpa_key_mgmt"], ap["ieee80211w"], ap["sae_require_mfp"]) == (
            "WPA-PSK SAE", "1", "1")
        assert (station["key_mgmt"], station["ieee80211w"]) == (key_mgmt, pmf)
        assert station["psk"].strip('"') == ap["wpa_passphrase"]


def test_open_network_points_at_the_hidden_one_with_owe(rendered: Rendered) -> None:
    """Stations know the open network's name; both networks are on the same bridge."""
    text = rendered.path("owe-transition", "ap-a/hostapd.conf").read_text()
    ap, beside = (dict(line.split("=", 1) for line in part.splitlines()
                       if "=" in line and not line.startswith("#"))
                  for part in text.replace("\nbss=", "\0bss=").split("\0"))
    assert (ap["ssid"], ap["ignore_broadcast_ssid"], ap["wpa_key_mgmt"]) == ("qop-owe", "1", "OWE")
    assert (ap["owe_transition_ifname"], beside["owe_transition_ifname"]) == (
        beside["bss"], ap["interface"])
    assert beside["bridge"] == ap["bridge"] and "wpa" not in beside
    station = rendered.path("owe-transition", "a2/wpa_supplicant.conf").read_text()
    assert f'ssid="{beside["ssid"]}"' in station


def test_names_of_transition_mode_are_as_long_as_allowed(rendered: Rendered) -> None:
    """Interfaces have 15 characters at most, and networks 32 bytes."""
    text = rendered.path("long-names", "ap-a/hostapd.conf").read_text()
    assert "\nssid=x" + "ü" * 13 + "-owe\n" in text
    assert "\nssid=x" + "ü" * 15 + "\n" in text
    assert text.count("wlan-of-ce-open\n") == 2


def test_server_knows_revoked_certificates_by_list_or_responder(rendered: Rendered) -> None:
    """The station has a valid certificate and a revoked one; a list or a responder tells which."""
    serials = {}
    for name in ("pki", "revoked_pki"):
        cert = x509.load_pem_x509_certificate(rendered.path("listed", "a2", name, "cert.pem")
                                              .read_bytes())
        serials[name] = cert.serial_number
    server = rendered.path("listed", "ha-a/freeradius")
    authorities = (server / "pki/ca.pem").read_bytes()
    crl = x509.load_pem_x509_crl(authorities[authorities.index(b"-----BEGIN X509 CRL"):])
    assert [entry.serial_number for entry in crl] == [serials["revoked_pki"]]
    assert len(x509.load_pem_x509_certificates(authorities)) == 2
    assert "check_crl = yes" in (server / "radiusd.conf").read_text()
    assert not rendered.path("listed", "ha-a/ocsp").exists()
    responder = rendered.path("asked", "ha-a/ocsp")
    states = [line.split("\t") for line in (responder / "index").read_text().splitlines()]
    assert {state[0]: int(state[3], 16) for state in states} == {
        "V": serials["pki"], "R": serials["revoked_pki"]}
    assert {file.name for file in responder.iterdir()} == {
        "index", "issuer.pem", "responder.pem", "responder.key"}
    asks = 'url = "http://10.1.0.1:80/"'
    for name, is_asking in (("asked", True), ("unasked", False), ("listed", False)):
        text = rendered.path(name, "ha-a/freeradius/radiusd.conf").read_text()
        assert (asks in text) is is_asking
    assert not rendered.path("P8", "a2/revoked_pki").exists()


def test_server_has_its_name_and_another_one_for_the_proof(rendered: Rendered) -> None:
    """The station has wpa_supplicant's option for it, but not under the control."""
    asks = 'if (&NAS-Identifier == "{}") {{'
    for policy, option, names in (
            ("named", 'domain_match="radius.campus.example"',
             ("radius.campus.example", "not.radius.campus.example")),
            ("in-domain", 'domain_suffix_match="campus.example"',
             ("radius.campus.example", "radius.not-campus.example"))):
        server = rendered.path(policy, "ha-a/freeradius")
        for folder, name in zip(("pki", "other_pki"), names, strict=True):
            cert = x509.load_pem_x509_certificate((server / folder / "cert.pem").read_bytes())
            known = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            assert known.value.get_values_for_type(x509.DNSName) == [name]
        assert {file.name for file in (server / "other_pki").iterdir()} == {"cert.pem", "key.pem"}
        assert asks.format(names[1]) in (server / "radiusd.conf").read_text()
        text = rendered.path(policy, "a2/wpa_supplicant.conf").read_text()
        assert f"\t{option}\n" in text
        assert text.count("domain_") == 1
    assert "domain_" not in rendered.path("unnamed", "a2/wpa_supplicant.conf").read_text()
    assert not rendered.path("P8", "ha-a/freeradius/other_pki").exists()


def test_each_end_has_its_own_list_of_ike_proposals(rendered: Rendered) -> None:
    """The mobile node what it offers, and the gateway what it accepts."""
    layer = OWN["ike-lists"]["ipsec"]
    for node, field in (("a2", "ike_offered"), ("ha-a", "ike_accepted")):
        text = rendered.path("ike-lists", node, "swanctl/swanctl.conf").read_text()
        assert text.count(f"\t\tproposals = {','.join(layer[field])}\n") == 1


def test_each_end_has_its_own_list_of_esp_proposals(rendered: Rendered) -> None:
    """The same for what the tunnel itself has."""
    layer = OWN["esp-lists"]["ipsec"]
    for node, field in (("a2", "esp_offered"), ("ha-a", "esp_accepted")):
        text = rendered.path("esp-lists", node, "swanctl/swanctl.conf").read_text()
        assert text.count(f"\t\t\t\tesp_proposals = {','.join(layer[field])}\n") == 1


def test_password_of_ike_is_the_nodes_and_the_certificate_the_gateways(
        rendered: Rendered) -> None:
    """Both ends find the password by the node's identity, and the node trusts the authority."""
    node, gateway = (rendered.path("ike-password", name, "swanctl/swanctl.conf").read_text()
                     for name in ("a2", "ha-a"))
    for text in (node, gateway):
        assert "eap-a2 {\n\t\tid = fqdn:a2\n\t\tsecret = " in text
        assert text.count("auth = eap-mschapv2") == 1
    assert "cacerts = root.pem" in node and "certs = a2.pem" not in node
    assert "certs = ha-a.pem" in gateway
    assert "eap-mschapv2" in rendered.path("ike-password", "a2/strongswan.conf").read_text()


def test_certificates_inside_a_tunnel_are_the_stations_own(rendered: Rendered) -> None:
    """The station of PEAP has no password then, and the server a method for it."""
    station = settings(rendered.path("nested", "a2/wpa_supplicant.conf"))
    assert (station["phase2"], "password" in station) == ('"auth=TLS"', False)
    for name, file in (("ca_cert2", "ca"), ("client_cert2", "cert"), ("private_key2", "key")):
        assert station[name] == f'"{MOUNT}/a2/pki/{file}.pem"'
        assert rendered.path("nested", f"a2/pki/{file}.pem").exists()
    server = rendered.path("nested", "ha-a/freeradius/radiusd.conf").read_text()
    assert "default_eap_type = tls" in server and "mschapv2 {" not in server


def test_server_insists_and_takes_reports_where_the_policy_says(rendered: Rendered) -> None:
    """A Message-Authenticator in the one, accounting in the other, and neither elsewhere."""
    for name, insists, reports in (("authentic", "yes", False), ("accounted", "no", True)):
        clients = rendered.path(name, "ha-a/freeradius/clients.conf").read_text()
        server = rendered.path(name, "ha-a/freeradius/radiusd.conf").read_text()
        ap = settings(rendered.path(name, "ap-a/hostapd.conf"))
        assert f"require_message_authenticator = {insists}" in clients
        assert ("port = 1813" in server, ap.get("acct_server_port") == "1813") == (
            reports, reports)


def test_each_device_has_a_passphrase_of_its_own(rendered: Rendered) -> None:
    """The access point's list has the station's, by its address, and no other one."""
    ap, station = both(rendered, "by-device")
    assert "wpa_passphrase" not in ap and ap["wpa_psk_file"].endswith("/hostapd.psk")
    [line] = [line for line in rendered.path("by-device", "ap-a/hostapd.psk").read_text(
        ).splitlines() if not line.startswith("#")]
    own = device_passphrase(NETWORK_SECRETS["passphrase"], "02:00:00:00:a2:00")
    assert line == f"02:00:00:00:a2:00 {own}"
    assert station["psk"] == f'"{own}"'


def test_stations_get_a_vlan_by_radius_or_by_their_passphrase(rendered: Rendered) -> None:
    """The server names it, hostapd bridges it with the wire, and a control leaves it to nobody."""
    for name in ("vlan", "vlan-psk"):
        ap = settings(rendered.path(name, "ap-a/hostapd.conf"))
        assert (ap["dynamic_vlan"], ap["vlan_tagged_interface"], ap["vlan_bridge"]) == (
            "2", "eth-a", "br0.")
        assert rendered.path(name, "ap-a/hostapd.vlan").read_text().splitlines()[-1] == \
            "20 wlan1.20"
    server = rendered.path("vlan", "ha-a/freeradius/radiusd.conf").read_text()
    assert 'Tunnel-Private-Group-Id := "20"' in server
    assert rendered.path("vlan-psk", "ap-a/hostapd.psk").read_text().splitlines()[-1].startswith(
        "vlanid=20 02:00:00:00:a2:00 ")
    assert rendered.path("vlans-psk", "ap-a/hostapd.vlan").read_text().splitlines()[1:] == [
        "20 wlan1.20", "30 wlan1.30"]
    several = rendered.path("vlans", "ha-a/freeradius/radiusd.conf").read_text()
    assert 'if (&Calling-Station-Id == "02-00-00-00-A2-00") {' in several
    assert several.count("Tunnel-Private-Group-Id") == several.count("if (&Calling-Station-Id")
    ignored = settings(rendered.path("vlan-ignored", "ap-a/hostapd.conf"))
    assert "dynamic_vlan" not in ignored
    assert not rendered.path("vlan-ignored", "ap-a/hostapd.vlan").exists()
    said = rendered.path("vlan-ignored", "ha-a/freeradius/radiusd.conf").read_text()
    assert "Tunnel-Private-Group-Id" in said
    assert "Tunnel-" not in rendered.path("accounted", "ha-a/freeradius/radiusd.conf").read_text()


def test_access_points_pass_fast_transition_on_where_the_policy_says(rendered: Rendered) -> None:
    """Over the DS, by the key management of fast transition."""
    ap, station = both(rendered, "over-ds")
    assert (ap["ft_over_ds"], ap["wpa_key_mgmt"], station["key_mgmt"]) == ("1", "FT-SAE", "FT-SAE")
    assert "ft_over_ds" not in both(rendered, "wpa3-sae")[0]
    for end in both(rendered, "fast-192-bit"):
        assert "FT-EAP-SHA384" in (end.get("wpa_key_mgmt"), end.get("key_mgmt"))


def test_each_end_has_its_groups_of_sae(rendered: Rendered) -> None:
    """The station's list in its order; the access point accepts those that it lists."""
    ap = settings(rendered.path("sae-groups", "ap-a/hostapd.conf"))
    station = rendered.path("sae-groups", "a2/wpa_supplicant.conf").read_text()
    assert ap["sae_groups"] == "19 21"
    assert "sae_groups=20 19 21" in station.partition("network={")[0].splitlines()


def test_a_method_offered_first_needs_no_tunnel(rendered: Rendered) -> None:
    """The station refuses PEAP, and FreeRADIUS has no server for what would be inside."""
    radiusd = rendered.path("peap-first", "ha-a/freeradius/radiusd.conf").read_text()
    peap = radiusd.partition("\t\tpeap {\n")[2].partition("}")[0]
    assert "default_eap_type = mschapv2\n" in peap and "virtual_server = qop\n" in peap
    assert "server inner {" not in radiusd


def test_access_points_and_stations_get_hints_where_the_policy_says(rendered: Rendered) -> None:
    """Channels of a network would come before those that an access point names."""
    ap, station = both(rendered, "hints")
    assert (ap["rrm_neighbor_report"], ap["bss_transition"]) == ("1", "1")
    general = rendered.path("hints", "a2/wpa_supplicant.conf").read_text().partition("network={")[0]
    assert "freq_list=2412" in general.splitlines()
    assert "scan_freq" not in station
    plain, other = both(rendered, "wpa3-sae")
    assert not {"rrm_neighbor_report", "bss_transition"} & plain.keys()
    assert other["scan_freq"] == "2412"


def test_frames_to_all_have_the_group_cipher(rendered: Rendered) -> None:
    """Both sides name it, and stations have the better cipher between two."""
    ap, station = both(rendered, "tkip-group")
    assert (ap["group_cipher"], ap["rsn_pairwise"], ap["wpa"]) == ("TKIP", "CCMP", "2")
    assert (station["group"], station["pairwise"]) == ("TKIP", "CCMP")
    assert "group_cipher" not in both(rendered, "wpa2-psk")[0]


def test_hidden_network_is_asked_for_by_its_name(rendered: Rendered) -> None:
    """The station scans for it where the access point hides it, and nowhere else."""
    ap, station = both(rendered, "wpa2-enterprise")
    assert (ap["ignore_broadcast_ssid"], station["scan_ssid"]) == ("1", "1")
    assert "scan_ssid" not in both(rendered, "wpa2-psk")[1]


def test_eap_aka_is_hostapds(rendered: Rendered) -> None:
    """FreeRADIUS is not there; the server asks behind its socket, the station a card elsewhere."""
    server = rendered.path("aka", "ha-a")
    assert not (server / "freeradius").exists()
    assert {path.name for path in (server / "eap_server").iterdir()} == {
        "eap_server.conf", "eap_clients", "eap_users", "pki"}
    lines = (server / "eap_server" / "eap_server.conf").read_text().splitlines()
    assert f"eap_sim_db=unix:{MOUNT}/ha-a/run/hss.sock" in lines
    assert '"0"* AKA' in (server / "eap_server" / "eap_users").read_text().splitlines()
    station = rendered.path("aka", "a2/wpa_supplicant.conf").read_text().splitlines()
    assert station.index("external_sim=1") < station.index("network={")
    assert ('\tidentity="0001010123456789@wlan.mnc001.mcc001.3gppnetwork.org"') in station


def test_eap_aka_prime_is_known_by_its_identity(rendered: Rendered) -> None:
    """A leading 6 says that the permanent identity is of EAP-AKA', to server and station."""
    users = rendered.path("aka-prime", "ha-a/eap_server/eap_users").read_text().splitlines()
    assert "\"6\"* AKA'" in users
    station = rendered.path("aka-prime", "a2/wpa_supplicant.conf").read_text().splitlines()
    name = "6001010123456789@wlan.mnc001.mcc001.3gppnetwork.org"
    assert {"\teap=AKA'", "external_sim=1", f'\tidentity="{name}"'} <= set(station)


def test_a_temporary_identity_is_mapped(rendered: Rendered) -> None:
    """The station claims it, the server knows whose it is and whom it denies."""
    radius = rendered.path("temporary", "ha-a", "freeradius")
    station = rendered.path("temporary", "a2/wpa_supplicant.conf").read_text()
    assert 'identity="c0ffee00@home.example"' in station
    assert ("'c0ffee00@home.example' Tmp-String-0 := '001010123456789@home.example'\n"
            in (radius / "users").read_text())
    assert "check_cert_cn = %{control:Tmp-String-0}\n" in (radius / "radiusd.conf").read_text()
    assert "'001010000000000' Auth-Type := Reject\n" in (radius / "denied").read_text()
    assert not rendered.path("P8", "ha-a/freeradius/denied").exists()


def test_two_authorities_have_certified_each_other(rendered: Rendered) -> None:
    """Either side verifies the other's chain by its own root, and not without what it is shown."""
    server = rendered.path("temporary", "ha-a", "freeradius", "pki")
    station = rendered.path("temporary", "a2", "pki")
    for root, shown in ((station, server), (server, station)):
        verify = ["verify", "-CAfile", str(root / "ca.pem")]
        chain = ["-untrusted", str(shown / "cert.pem")]
        assert ": OK" in openssl(*verify, *chain, str(shown / "cert.pem"))
    alone = subprocess.run(["openssl", "verify", "-CAfile", str(station / "ca.pem"),
                            str(server / "cert.pem")], capture_output=True, check=False)
    assert alone.returncode != 0


def test_authorities_of_the_usual_form_certify_each_other(tmp_path: Path) -> None:
    """A policy that says nothing of its certificates may have a server of the visited network's."""
    for side, words in (("client", []), ("server", ["--visited"])):
        subprocess.run([sys.executable, str(PKI), "--store", str(tmp_path / "store"), "--output",
                        str(tmp_path / side), "--name", side, "--eap", side, *words], check=True)
    station, server = (tmp_path / side / "pki" for side in ("client", "server"))
    for root, shown in ((station, server), (server, station)):
        assert ": OK" in openssl("verify", "-CAfile", root / "ca.pem", "-untrusted",
                                 shown / "cert.pem", shown / "cert.pem")


def test_radius_goes_inside_tls(rendered: Rendered) -> None:
    """The access point asks its own proxy, which asks the server, which listens for TLS alone."""
    hostapd = settings(rendered.path("wired", "ap-a", "hostapd.conf"))
    assert hostapd["auth_server_addr"] == "10.1.0.2"
    proxy = rendered.path("wired", "ap-a", "radius_proxy", "proxy.conf").read_text()
    assert "\tipaddr = 10.1.0.1\n\tport = 2083\n" in proxy
    server = rendered.path("wired", "ha-a", "freeradius", "radiusd.conf").read_text()
    assert "port = 2083\n" in server
    assert "port = 1812\n" not in server
    assert "require_client_cert = yes\n" in server
    clients = rendered.path("wired", "ha-a", "freeradius", "clients.conf").read_text()
    assert "proto = tls\n" in clients
    assert "idle_timeout = 0\n" in clients  # the connection stays, however long nobody comes
    for node in ("ap-a", "ha-a"):
        folder = rendered.path("wired", node, "radsec")
        assert "OK" in openssl("verify", "-CAfile", folder / "ca.pem", "-untrusted",
                               folder / "cert.pem", folder / "cert.pem")
    users = rendered.path("wired", "a2", "pki", "cert.pem")
    assert "OK" not in openssl("verify", "-CAfile", folder / "ca.pem", "-untrusted", users, users)


def test_wires_ends_have_one_key(rendered: Rendered) -> None:
    """Encrypted where nothing else is said; the agent makes the keys of frames; nobody else has it.

    The negative control has another key at both ends.
    """
    ends = [settings(rendered.path("wired", node, "macsec.conf")) for node in ("ap-a", "ha-a")]
    assert {end["mka_cak"] for end in ends} == {"ca" * 16}
    assert {end["macsec_integ_only"] for end in ends} == {"0"}
    assert len({end["mka_ckn"] for end in ends}) == 1
    assert int(ends[0]["mka_priority"]) > int(ends[1]["mka_priority"])
    assert not rendered.path("wired", "a2", "macsec.conf").exists()
    assert not rendered.path("P8", "ap-a", "macsec.conf").exists()


def test_a_nameless_proxy_shows_no_certificate(rendered: Rendered) -> None:
    """The negative control: the server asks for none, and the proxy has none."""
    proxy = rendered.path("nameless-proxy", "ap-a", "radius_proxy", "proxy.conf").read_text()
    assert "certificate_file" not in proxy
    assert [path.name for path in rendered.path("nameless-proxy", "ap-a", "radsec").iterdir()] == [
        "ca.pem"]
    server = rendered.path("nameless-proxy", "ha-a", "freeradius", "radiusd.conf").read_text()
    assert "require_client_cert = no\n" in server


def test_tkip_and_short_wep(rendered: Rendered) -> None:
    """TKIP means WPA rather than RSN; WEP-40 takes the first ten digits of the key."""
    ap, station = both(rendered, "tkip")
    assert (ap["wpa"], ap["wpa_pairwise"], station["proto"]) == ("1", "TKIP", "WPA")
    ap, station = both(rendered, "wep-40")
    assert ap["wep_key0"] == station["wep_key0"] == "0102030405"


def test_ikev2_transport_between_the_two_addresses(rendered: Rendered) -> None:
    """Transport mode protects the two ends' own addresses and nothing else."""
    for node, own, other in (("a2", "10.1.0.12", "10.1.0.1"), ("ha-a", "10.1.0.1", "10.1.0.12")):
        text = rendered.path("ikev2-transport", node, "swanctl/swanctl.conf").read_text()
        for line in (
            "version = 2",
            "mode = transport",
            f"local_ts = {own}/32",
            f"remote_ts = {other}/32",
        ):
            assert f"{line}\n" in text


def test_gateway_knows_every_mobile_node(rendered: Rendered) -> None:
    """A second subnet is data: more stations and access points, one connection and client each."""
    folder = rendered.path("many-nodes", "ha-a")
    swanctl = (folder / "swanctl/swanctl.conf").read_text()
    assert "\tqop-a2 {\n" in swanctl
    assert "\tqop-a1 {\n" in swanctl
    assert {path.name for path in (folder / "swanctl/pubkey").iterdir()} == {
        "a1.pem",
        "a2.pem",
        "ha-a.pem",
    }
    clients = (folder / "freeradius/clients.conf").read_text()
    assert clients.count("client ") == 2


# --- what is refused ---------------------------------------------------------------------------

Spoil = Callable[[dict[str, Any]], object]
BAD_LAYERS: list[tuple[Spoil, str]] = [
    (lambda layers: layers["link"].update(cipher="WPA9"), "value of cipher must be one of"),
    (lambda layers: layers["link"].update(ciphre="WEP-104"), "ciphre. Supported parameters"),
    (lambda layers: layers["dot1x"].update(eap="LEAP"), "value of eap must be one of"),
    (lambda layers: layers["dot1x"].pop("eap"), "missing required arguments: eap"),
    (lambda layers: layers["ipsec"].update(ike=3), "value of ike must be one of"),
    (lambda layers: layers["ipsec"].pop("esp_proposal"), "missing required arguments: esp_prop"),
    (lambda layers: layers["dot1x"]["options"]["wpa_supplicant"].update(phase1=["a"]),
     "never rendered to text"),
    (lambda layers: layers["link"]["options"]["hostapd"].update(beacon_int=True),
     "beacon_int has the value True"),
    (lambda layers: layers["link"]["options"]["hostapd"].update(country_code=""),
     "country_code has no value"),
]
#: From here on it is the access point that refuses.
OF_HOSTAPD = 7


@pytest.fixture(scope="module")
def refused(rendered: Rendered, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What is said of each of the bad layers, by its number, and then of a node without a field."""
    folder = tmp_path_factory.mktemp("refused")

    def make() -> dict[int, str]:
        jobs = []
        for number, (spoil, _) in enumerate(BAD_LAYERS):
            layers = deepcopy(LAYERS["P12"])
            spoil(layers)
            groups = ("station", "access_point") if number >= OF_HOSTAPD else ("station",)
            jobs.append(Job(layers, folder / str(number), rendered.pki,
                            nodes={group: NODES[group] for group in groups}))
        nodes = {"station": deepcopy(NODES["station"])}
        del nodes["station"]["a2"]["ssid"]
        jobs.append(Job(LAYERS["P2"], folder / "node", rendered.pki, nodes=nodes))
        return failures(finish(start(folder / "scratch", jobs)).text)

    return shared.once("refused", make)


@pytest.mark.parametrize("number", range(len(BAD_LAYERS)), ids=[text for _, text in BAD_LAYERS])
def test_bad_layers_are_refused_by_name(refused: dict[int, str], number: int) -> None:
    """Misspelt, missing and impossible values stop the run with a message that names them."""
    assert BAD_LAYERS[number][1] in refused[number]


def test_a_node_without_a_field_is_refused(refused: dict[int, str]) -> None:
    """The field that the inventory lacks is named."""
    assert "missing required arguments: ssid" in refused[len(BAD_LAYERS)]


def test_bad_inputs_are_refused_by_name(tmp_path: Path) -> None:
    """A layer that is misspelt is named, a secret that is missing, a control, a relative path."""
    layers, unknown, lacking = deepcopy(LAYERS["P2"]), secrets(), secrets()
    layers["ipsc"] = layers.pop("ipsec")
    unknown["gateway"]["peers"] = "maybe"
    del lacking["network"]["wep_key"]
    job = Job(LAYERS["P2"], tmp_path / "conf", tmp_path / "pki")
    said = refuse(tmp_path / "scratch", replace(job, layers=layers, secrets=unknown))
    assert "layers.ipsc. Supported parameters" in said
    assert "value of peers must be one of: known, unknown" in said
    said = refuse(tmp_path / "scratch", replace(job, secrets=lacking))
    assert "missing required arguments: wep_key" in said
    said = refuse(tmp_path / "scratch", replace(job, output=Path("relative")))
    assert "must be absolute paths" in said


# --- the checker -------------------------------------------------------------------------------


def _load_checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "check_config", ANSIBLE / "files" / "check_config.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checker = _load_checker()
AP = "interface=wlan0\ndriver=nl80211\nctrl_interface=/run\nssid=q\nhw_mode=b\nchannel=1\n"
STATION = 'ctrl_interface=/run\nap_scan=1\nnetwork={\nssid="q"\nscan_freq=2412\nkey_mgmt=NONE\n}\n'
WIRES = ("ctrl_interface=/run\nap_scan=0\neapol_version=3\nnetwork={\nkey_mgmt=NONE\n"
         "macsec_policy=1\nmacsec_integ_only=0\nmacsec_replay_protect=1\nmacsec_replay_window=0\n"
         f"mka_cak={'0c' * 16}\nmka_ckn=01\nmka_priority=1\n}}\n")
CHARON = (
    "charon {\nload = a b\nplugins {\nvici {\nsocket = unix:///x\n}\n}\n"
    "filelog {\nq {\npath = /x\n}\n}\n}\n"
)
CLIENT = "client a {\nipaddr = 1.2.3.4\nsecret = 'x'\n}\n"

BAD_FILES = [
    ("hostapd.conf", AP + "channel=6\n", "7: channel is given twice"),
    ("hostapd.conf", AP + "wmm_enabled=\n", "7: wmm_enabled has no value"),
    ("hostapd.conf", AP + "wmm_enabled=False\n", "7: wmm_enabled has the value False"),
    ("hostapd.conf", AP + "ssid2={{ ssid }}\n", "never rendered"),
    ("hostapd.conf", AP + "country code=DE\n", "7: not KEY=VALUE"),
    ("hostapd.conf", AP.replace("ssid=q\n", ""), "0: hostapd needs ssid"),
    ("hostapd.conf", AP.replace("channel=1", "channel=one"), "channel must be a number"),
    ("hostapd.conf", AP + "ieee8021x=1\n", "ieee8021x=1 needs own_ip_addr"),
    ("hostapd.conf", AP + "wep_key0=0102030405\n", "wep_key0 needs wep_default_key"),
    ("hostapd.conf", AP + "wep_default_key=0\nwep_key0=01020304\n", "10 or 26 hexadecimal"),
    ("hostapd.conf", AP + "wep_key_len_unicast=13\n", "dynamic WEP needs ieee8021x"),
    ("hostapd.conf", AP + "wpa=2\n", "wpa needs wpa_key_mgmt"),
    ("hostapd.conf", AP + "wpa=2\nwpa_key_mgmt=SAE\n", "needs wpa_pairwise or rsn_pairwise"),
    ("hostapd.conf", AP + "wpa=2\nwpa_key_mgmt=WPA-PSK\nrsn_pairwise=CCMP\n", "wpa_passphrase"),
    ("hostapd.conf", AP + "wpa=2\nwpa_key_mgmt=WPA-EAP\nrsn_pairwise=CCMP\n", "needs ieee8021x"),
    ("wpa_supplicant.conf", STATION[:-2], "3: the block is never closed"),
    ("wpa_supplicant.conf", STATION + "}\n", "8: closes a block that was never opened"),
    ("wpa_supplicant.conf", STATION + STATION[STATION.index("network") :], "needs one network"),
    ("wpa_supplicant.conf", STATION.replace('"q"', '"q'), "the quote is not closed"),
    ("wpa_supplicant.conf", STATION.replace('"q"', '""'), "ssid has no value"),
    ("hostapd.conf", AP + "ht_capab=['HT40+', 'SHORT-GI-20']\n", "never rendered"),
    ("hostapd.conf", AP + "country_code=[US]\n", "never rendered"),
    ("wpa_supplicant.conf", STATION.replace("NONE", "IEEE8021X"), "IEEE8021X needs eap"),
    ("wpa_supplicant.conf", STATION.replace("NONE", "WPA-PSK"), "needs proto"),
    ("wpa_supplicant.conf", STATION.replace("NONE", "IEEE8021X\neap=TLS"), "needs identity"),
    ("wpa_supplicant.conf", STATION.replace("NONE", "IEEE8021X\neap=LEAP"),
     "eap=LEAP is no method with known credentials"),
    ("macsec.conf", WIRES.replace("0c", "0"), "mka_cak must be 32 hexadecimal digits"),
    ("macsec.conf", WIRES.replace("mka_ckn=01\n", ""), "network needs mka_ckn"),
    ("macsec.conf", WIRES.replace("only=0", "only=no"), "macsec_integ_only must be a number"),
    ("macsec.conf", WIRES.replace("eapol_version=3\n", ""), "macsec needs eapol_version"),
    ("strongswan.conf", CHARON[:-2], "1: the block is never closed"),
    ("strongswan.conf", CHARON + "}\n", "closes a block that was never opened"),
    ("strongswan.conf", CHARON.replace("unix:///x", "AnsibleUndefined"), "never rendered"),
    ("strongswan.conf", CHARON.replace("load = a b\n", ""), "charon needs load"),
    ("strongswan.conf", CHARON.replace("load = a b", "load"), "2: neither a setting nor a block"),
    ("swanctl.conf", "connections {\n}\n", "needs a block connections with something in it"),
    ("swanctl.conf", "connections {\nq {\nversion = 1\n}\n}\n", "q needs local_addrs"),
    ("swanctl.conf", "connections {\nhold-q {\nchildren {\nq {\nmode = drop\n}\n}\n}\n}\n",
     "hold-q.q needs start_action"),
    ("clients.conf", "# nobody\n", "clients.conf needs a client"),
    ("clients.conf", CLIENT.replace("'x'", "''"), "3: secret has no value"),
    ("clients.conf", CLIENT.replace("'x'", "'x' y'"), "3: secret: a quote inside quotes"),
    ("clients.conf", CLIENT + CLIENT, "5: client a is given twice"),
    ("clients.conf", CLIENT.replace("secret = 'x'\n", ""), "client a needs secret"),
    ("users", "mn Cleartext-Password := secret\n", "1: not 'NAME' Cleartext-Password"),
    ("users", "'mn' Cleartext-Password := 'None'\n", "never rendered"),
    ("radiusd.conf", "name = radiusd\n", "radiusd.conf needs pidfile"),
    ("other.conf", "", "no daemon's file"),
]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hostapd.conf", AP),
        ("hostapd.conf", AP + "ht_capab=[HT40+][SHORT-GI-20]\nvht_capab=[MAX-A-MPDU-LEN-EXP7]\n"),
        ("wpa_supplicant.conf", STATION),
        ("macsec.conf", WIRES),
        ("strongswan.conf", CHARON),
        ("clients.conf", CLIENT),
        ("users", "# nobody\n"),
        ("users", "'a' Cleartext-Password := 'b'\n"),
    ],
)
def test_checker_accepts(tmp_path: Path, name: str, text: str) -> None:
    """The smallest valid files pass (and with them what the cases below spoil)."""
    (tmp_path / name).write_text(text)
    assert checker.main([str(tmp_path / name)]) == 0


@pytest.mark.parametrize(("name", "text", "message"), BAD_FILES)
def test_checker_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    """Each way in which a template can go wrong is one line with file, line number and cause."""
    (tmp_path / name).write_text(text)
    assert checker.main([str(tmp_path / name)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{tmp_path / name}:")
    assert message in said
    assert said.count("\n") == 1


def test_checker_wants_the_offered_method(rendered: Rendered, tmp_path: Path) -> None:
    """A server that offers a method it has no block for is refused."""
    text = rendered.path("P5", "ha-a", "freeradius", "radiusd.conf").read_text()
    (tmp_path / "radiusd.conf").write_text(text.replace("type = md5", "type = tls"))
    assert checker.main([str(tmp_path / "radiusd.conf")]) == 1


def test_nothing_secret_is_in_the_repository() -> None:
    """No key, certificate or rendered file lies in ansible/."""
    texts = [
        path.read_text() for path in ANSIBLE.rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    assert texts
    assert not [text for text in texts if "-----BEGIN" in text]


# Mininet-WiFi -------------------------------------------------------------------------------------


@pytest.fixture
def upstream(tmp_path: Path) -> tuple[Path, str]:
    """A repository that could be Mininet-WiFi's, and the number of its first commit of two."""
    place = tmp_path / "upstream"
    git("init", "--quiet", str(place))
    for version in ("2.6", "2.7"):
        (place / "net.py").write_text(f'VERSION = "{version}"\n')
        git("-C", str(place), "add", ".")
        git("-C", str(place), "commit", "--quiet", "--message", version)
    return place, git("-C", str(place), "rev-parse", "HEAD^")


def git(*arguments: str) -> str:
    """What git prints; commits need somebody who makes them."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def fetch(folder: Path, sources: dict[str, tuple[str, str]]) -> str:
    """What is said when the role's part that fetches is really played, for a host a folder."""
    play = [{"hosts": "all", "connection": "local", "gather_facts": False,
             "vars": {"ansible_python_interpreter": sys.executable}, "tasks": [
        {"ansible.builtin.include_role": {"name": "mininet_wifi", "tasks_from": "fetch.yml"}}]}]
    (folder / "play.yml").write_text(json.dumps(play))
    (folder / "inventory.json").write_text(json.dumps({"all": {"hosts": {
        host: {"mininet_wifi_home": str(folder / host), "mininet_wifi_source": str(folder / source),
               "mininet_wifi_revision": revision}
        for host, (source, revision) in sources.items()}}}))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i",
         str(folder / "inventory.json"), str(folder / "play.yml")], capture_output=True, text=True,
        check=False, timeout=PATIENCE_S,
        env={**os.environ, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
             "ANSIBLE_ROLES_PATH": str(ANSIBLE / "roles"), "ANSIBLE_STRATEGY": "in_process",
             "ANSIBLE_STRATEGY_PLUGINS": str(ANSIBLE / "strategy_plugins")})
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_mininet_wifi_is_fetched_at_its_revision(upstream: tuple[Path, str],
                                                 tmp_path: Path) -> None:
    """An earlier commit, from a clone; the second time nothing is changed and nobody is asked.

    Out of reach, or without the revision: one line that says so, and no failure.
    """
    place, revision = upstream
    sources = {"there": (place.name, revision), "away": ("nowhere", "0" * 40),
               "other": (place.name, "0" * 40)}
    said = fetch(tmp_path, sources)
    assert "2.6" in (tmp_path / "there/net.py").read_text()
    for source, reason in {
            "nowhere": "is out of reach (fatal: '{}' does not appear to be a git repository)",
            place.name: f"lacks {'0' * 40}"}.items():
        where = tmp_path / source
        [line] = [line for line in said.splitlines() if f"No Mininet-WiFi: {where}" in line]
        assert f"{where} {reason.format(where)}." in line
        assert "--mininet-wifi-source" in line
    place.rename(tmp_path / "gone")
    again = fetch(tmp_path, {"there": sources["there"]})
    assert "changed=0" in again
    assert "failed=0" in again
    assert "No Mininet-WiFi" not in again

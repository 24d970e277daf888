"""Build the configurations of Kerberos client, KDCs, servers and proxy for one measurement.

`build_configurations` takes the instructions of the measurement (task), keys and device models
(times of a slow processor). The module runs inside the guest (virtual machine), and uses the
standard library and the protocol only.

Some words of the configurations:

- The way of a login is its family: `pkcross` (the KDCs of two realms authenticate each other),
  `pktapp` (the client authenticates to each application server), or `mobile` (PKINIT in one realm).
- A chain is the certificates from a party's own up to an authority.
- A proxy forwards the messages of a mobile client (`forward`). A trusted proxy also gets the
  client's session key (`trusted`), and may also add the client's chain to requests (`assist`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from protocols.kerberos.messages import krbtgt_name
from studies.kerberos2002.pki import LOCAL, PROXY_NAME, REMOTE, USER, service_principal
from studies.kerberos2002.variants import CIPHERS, VARIANTS

PORT = 88
_HANDLING = ("message-udp", "message-tcp", "chain-sent", "chain-read")
#: Changes of a party's configuration by injected faults: paths and values, by party. The module
#: `faults` says what each fault is, and which checks must then fail.
FAULTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "wrong-user": {"client": {"client.presents": "bob"}},
    "no-purpose": {"client": {"client.presents": "no purpose"}},
    "unfitting-key": {"client": {"client.presents": "unfitting key"}},
    "rogue-authority": {"client": {"client.presents": "rogue"}},
    "expired-certificate": {"client": {"client.presents": "expired"}},
    "clock-skew": {"client": {"clock_offset_s": 1200}},
    "weak-client-key": {"client": {"client.weak_keys": True}},
    "password-instead": {"client": {"client.initial": "password"}},
    "client-key-instead": {"client": {"client.initial": "client-key"}},
    "replayed-ap-request": {"client": {"client.repeats_ap_request": True}},
    "wrong-pkcross-key": {"kdc-r": {"kdc.pkcross_opening_secret": "pkcross of another day"}},
    "beyond-policy": {"kdc-l": {"kdc.ignores_policy": True}},
    "proxy-with-another-key": {"proxy": {"proxy.identity": "another proxy"}},
    "stale-chain": {"proxy": {"proxy.chains": {USER: "expired"}}},
    "byte-changed": {"proxy": {"proxy.alters": True}},
    "past-the-proxy": {"client": {"client.proxy": "none"}},
    "told-anyway": {"client": {"client.proxy": "trusted"},
                    "proxy": {"proxy.identity": PROXY_NAME}},
    "other-encoding": {"app1": {"lengthens": True}},
    "chain-by-radio": {"client": {"client.proxy": "trusted"}},
}


def operation_costs(device: Mapping[str, Any], suite: str) -> dict[str, list[float]]:
    """Return the time (s) of each operation on a device model, per call and per byte.

    Without a device model the result is {}. Handling of messages and certificate chains is free if
    the device states no time for it.
    """
    work = device.get("work", {})
    known = {name: [work[name]["seconds"], 0.0] for name in CIPHERS[suite]} if work else {}
    return known | {name: [work.get(name, {}).get("seconds", 0.0), 0.0]
                    for name in _HANDLING if work}


def build_configurations(task: Mapping[str, Any], keys: Path,
                         nodes: Mapping[str, Mapping[str, Any]],
                         fault: str = "") -> dict[str, dict[str, Any]]:
    """Build the configuration of each program: client, KDCs, servers and proxy.

    Args:
        task: instructions for the repetition.
        keys: the key file.
        nodes: for each program its `address`, `device` and `speed`, and whether each user has a
            processor (`own_processors`).
        fault: name of the injected fault, or "".
    """
    variant = VARIANTS[task["protocol"]]
    documents = {"client": _client_configuration(task), "kdc-l": _kdc_configuration(task, LOCAL)}
    if variant.way == "pkcross":
        documents["kdc-r"] = _kdc_configuration(task, REMOTE)
    if variant.proxy != "none":
        documents["proxy"] = _proxy_configuration(variant.proxy)
    if variant.way == "pktapp":
        del documents["kdc-l"]
    servers = server_nodes(task)
    for name in sorted(set(servers.values())):
        services = [principal for principal, node in servers.items() if node == name]
        documents[name] = {"role": "services", "services": services, "uses": services}
    for number, (name, document) in enumerate(documents.items()):
        document.update(_common_configuration(task, keys, nodes, name),
                        seed=task["seed"] * 100 + number)
        for path, value in FAULTS.get(fault, {}).get(name, {}).items():
            _set_value(document, path.split("."), value)
    return documents


def server_nodes(task: Mapping[str, Any]) -> dict[str, str]:
    """Return the node of each application server in a repetition, by the server's principal."""
    count, are_apart = int(task["servers"]), task.get("placement", "one") == "each"
    return {service_principal(number): f"app{number}" if are_apart else "app1"
            for number in range(1, count + 1)}


def _common_configuration(task: Mapping[str, Any], keys: Path,
                          nodes: Mapping[str, Mapping[str, Any]],
                          name: str) -> dict[str, Any]:
    """Return the entries that every program's configuration has."""
    node = nodes.get(name, {})
    addresses = {other: [document["address"], PORT] for other, document in nodes.items()}
    return {"suite": task["suite"], "keys": str(keys), "addresses": addresses, "port": PORT,
            "address": node.get("address", ""),
            "costs": operation_costs(node.get("device", {}), task["suite"]),
            "processor": {"speed": node.get("speed", 1.0), "variation": task["variation"],
                          "sharing": "own" if node.get("own_processors") else "shared"}}


def _client_configuration(task: Mapping[str, Any]) -> dict[str, Any]:
    variant = VARIANTS[task["protocol"]]
    is_mobile = variant.way == "mobile"
    return {
        "role": "client",
        "uses": [USER, "bob", "no purpose", "unfitting key", "rogue", "expired", f"kdc {LOCAL}",
                 PROXY_NAME],
        "client": {
            "identity": USER, "secret": USER, "services": list(server_nodes(task).items()),
            "service_realm": LOCAL if is_mobile else REMOTE, "kdc_key": f"kdc {LOCAL}",
            "proxy_key": PROXY_NAME, "proxy_name": PROXY_NAME,
            "initial": variant.initial, "proxy": variant.proxy,
            # Whether a trusted proxy gets a key of its own instead of the one for the KDC.
            "own_proxy_key": task["own_proxy_key"], "way": variant.way,
            # Whether decrypting the KDC's temporary key costs the client no time.
            "spares_opening": task["spares_opening"],
            "customers": task["customers"], "transactions": task["transactions"]}}


def _kdc_configuration(task: Mapping[str, Any], realm: str) -> dict[str, Any]:
    is_mobile = VARIANTS[task["protocol"]].way == "mobile"
    names = [krbtgt_name(realm)] + [USER] * (realm == LOCAL)
    if realm == REMOTE or is_mobile:
        names += server_nodes(task)
    return {"role": "kdc", "uses": [f"kdc {realm}"], "kdc": {
        "identity": f"kdc {realm}", "secrets": names, "pkcross_secret": "pkcross",
        "remote": {REMOTE: ["kdc-r", krbtgt_name(REMOTE)]} if realm == LOCAL else {},
        "keeps_cross_realm_tickets": task["xtkt_cache"],
        "signs_client_key_reply": task["kdc_signs"]}}


def _proxy_configuration(use: str) -> dict[str, Any]:
    targets = {krbtgt_name(LOCAL): "kdc-l", service_principal(1): "app1"}
    is_trusted = use in ("trusted", "assist")
    return {"role": "proxy", "uses": [PROXY_NAME, "another proxy", USER, "expired"], "proxy": {
        "name": PROXY_NAME, "realm": LOCAL, "targets": targets,
        "identity": PROXY_NAME if is_trusted else "",
        "chains": {USER: USER} if use == "assist" else {}}}


def _set_value(document: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        document = document[name]
    document[path[-1]] = value

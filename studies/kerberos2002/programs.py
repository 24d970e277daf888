"""Configurations of the protocol's programs from a task, keys and devices.

Runs inside the guest: standard library and the protocol only.
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
#: Changes of a party's configuration by negative controls: paths and values, by party.
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
    """Return the seconds of operations on a device and per byte ({}: no device).

    Handling of messages and chains is free where the device states no cost.
    """
    work = device.get("work", {})
    known = {name: [work[name]["seconds"], 0.0] for name in CIPHERS[suite]} if work else {}
    return known | {name: [work.get(name, {}).get("seconds", 0.0), 0.0]
                    for name in _HANDLING if work}


def build_configurations(task: Mapping[str, Any], keys: Path,
                         nodes: Mapping[str, Mapping[str, Any]],
                         fault: str = "") -> dict[str, dict[str, Any]]:
    """Return the configuration of each party.

    `nodes` has for each party its `address`, `device` and `speed`, and whether each customer has a
    processor of its own (`own_processors`).
    """
    variant = VARIANTS[task["protocol"]]
    made = {"client": _client_configuration(task), "kdc-l": _kdc_configuration(task, LOCAL)}
    if variant.way == "pkcross":
        made["kdc-r"] = _kdc_configuration(task, REMOTE)
    if variant.proxy != "none":
        made["proxy"] = _proxy_configuration(variant.proxy)
    if variant.way == "pktapp":
        del made["kdc-l"]
    places = server_nodes(task)
    for name in sorted(set(places.values())):
        services = [principal for principal, where in places.items() if where == name]
        made[name] = {"role": "services", "services": services, "uses": services}
    for number, (name, document) in enumerate(made.items()):
        document.update(_common_configuration(task, keys, nodes, name), seed=task["seed"] * 100
                        + number)
        for path, value in FAULTS.get(fault, {}).get(name, {}).items():
            _set_value(document, path.split("."), value)
    return made


def server_nodes(task: Mapping[str, Any]) -> dict[str, str]:
    """Return the node of each application server of a task."""
    count, apart = int(task["servers"]), task.get("placement", "one") == "each"
    return {service_principal(number): f"app{number}" if apart else "app1" for number
            in range(1, count + 1)}


def _common_configuration(task: Mapping[str, Any], keys: Path,
                          nodes: Mapping[str, Mapping[str, Any]],
                          name: str) -> dict[str, Any]:
    own = nodes.get(name, {})
    addresses = {other: [node["address"], PORT] for other, node in nodes.items()}
    return {"suite": task["suite"], "keys": str(keys), "addresses": addresses, "port": PORT,
            "address": own.get("address", ""),
            "costs": operation_costs(own.get("device", {}), task["suite"]),
            "processor": {"speed": own.get("speed", 1.0), "variation": task["variation"],
                          "sharing": "own" if own.get("own_processors") else "shared"}}


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
            "own_proxy_key": task["own_proxy_key"], "way": variant.way,
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
    knows = use in ("trusted", "assist")
    return {"role": "proxy", "uses": [PROXY_NAME, "another proxy", USER, "expired"], "proxy": {
        "name": PROXY_NAME, "realm": LOCAL, "targets": targets,
        "identity": PROXY_NAME if knows else "", "chains": {USER: USER} if use == "assist" else {}}}


def _set_value(document: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        document = document[name]
    document[path[-1]] = value

"""Daemons' files of a policy by the roles' own templates, without a playbook: in milliseconds."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from policies import Policy
from rendering import ANSIBLE, MOUNT, NETWORK_SECRETS, NODES

_ROLES = ANSIBLE / "roles"
_AGENT = {"name": "ha-a", "address": "10.1.0.1", "local": "", "selectors": []}


@cache
def _role_variables(role: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file in ("defaults/main.yml", "vars/main.yml"):
        path = _ROLES / role / file
        if path.exists():
            found |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return found


def _fill(role: str, template: str, **variables: Any) -> str:
    path = _ROLES / role / "templates" / template
    templar = Templar(loader=DataLoader(), variables={
        **_role_variables(role), **{f"{role}_{name}": value for name, value in variables.items()},
        f"{role}_mount": MOUNT})
    return str(templar.template(trust_as_template(path.read_text(encoding="utf-8"))))


def render_files(policy: Policy) -> dict[str, str]:
    """The text of each file by its name; only those that the policy needs."""
    layers = policy.layers.model_dump(mode="json")
    link, dot1x = layers["link"] or {}, layers["dot1x"] or {}
    files = {
        "hostapd.conf": _fill("hostapd", "hostapd.conf.j2", link=link, dot1x=dot1x,
                              secrets=NETWORK_SECRETS, node=NODES["access_point"]["ap-a"]
                              | {"name": "ap-a", "neighbours": ["02:00:00:00:b0:00"]}),
        "wpa_supplicant.conf": _fill("wpa_supplicant", "wpa_supplicant.conf.j2", link=link,
                                     dot1x=dot1x, aaa=layers.get("aaa") or {},
                                     secrets=NETWORK_SECRETS,
                                     node=NODES["station"]["a2"] | {"name": "a2"})}
    if layers["ipsec"]:
        files["swanctl.conf"] = _fill("strongswan", "swanctl.conf.j2", ipsec=layers["ipsec"],
                                      duty="mobile", name="a2", address="10.1.0.12",
                                      peers=[_AGENT])
    if layers.get("wire"):
        files["macsec.conf"] = _fill("macsec", "macsec.conf.j2", layer=layers["wire"], priority=16,
                                     secrets={"cak": "ca" * 16})
    return files

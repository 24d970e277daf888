"""A policy's settings as flat facts that rules in data files refer to: `link.cipher` CCMP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from policies.dot1x import EapMethod, Identity, Inner, Transport
from policies.layers import IpsecLayer, Macsec
from policies.link import Akm, Cipher, GroupManagement, Keys, Roaming, Sae
from policies.policy import Policy
from policies.proposals import ADDITIONAL, AEADS, CIPHERS, GROUPS, INTEGRITY, KEMS

#: Conditions on a policy: every key must have one of its words.
When = Mapping[str, Sequence[str]]

#: All keys that a rule can refer to, with their possible words.
KNOWN: Mapping[str, tuple[str, ...]] = {
    "link.cipher": get_args(Cipher),
    "link.keys": get_args(Keys),
    "link.pmf": ("1", "2"),
    "link.akm": get_args(Akm),
    "link.sae": get_args(Sae),
    "link.group": ("19", "20", "21"),
    "link.roaming": get_args(Roaming),
    "link.group_mgmt": get_args(GroupManagement),
    "link.beacon_protection": ("1",),
    "link.ocv": ("1",),
    "dot1x.eap": get_args(EapMethod),
    "dot1x.inner": get_args(Inner),
    "dot1x.identity": get_args(Identity),
    "dot1x.transport": get_args(Transport),
    "dot1x.tls": ("1.2", "1.3"),
    "dot1x.key": ("rsa-1024", "rsa-2048", "p-256", "p-384"),
    "wireguard.authentication": ("pubkey",),
    "wire.macsec": get_args(Macsec),
    "wire.encrypts": ("1",),
    "ipsec.ike": ("1", "2"),
    "ipsec.group": (*GROUPS, *KEMS),
    "ipsec.additional": ADDITIONAL,
    "ipsec.pfs": GROUPS,
    "ipsec.authentication": ("pubkey",),
    "ipsec.mode": ("tunnel", "transport"),
    "ipsec.encryption": (*CIPHERS, *AEADS),
    "ipsec.integrity": (*INTEGRITY, *AEADS),
}


def facts_from_policy(policy: Policy) -> dict[str, str]:
    """Return the policy's word for each key of KNOWN. Layers that are off have none.

    A cipher with its own integrity (AEAD) counts as both `encryption` and `integrity`.
    """
    facts: dict[str, str] = {}
    layers = policy.layers
    if layers.link is not None:
        facts |= _layer_facts("link", layers.link, _OF_LINK)
    if layers.dot1x is not None:
        facts |= _layer_facts("dot1x", layers.dot1x, ("eap", "inner", "identity", "transport"))
        if layers.dot1x.tls is not None:
            facts |= {"dot1x.tls": layers.dot1x.tls.version, "dot1x.key": layers.dot1x.tls.key}
    if layers.ipsec is not None:
        facts |= _ipsec_facts(layers.ipsec)
    if layers.wireguard is not None:
        facts |= _layer_facts("wireguard", layers.wireguard, ("authentication",))
    if layers.wire is not None:
        facts["wire.macsec"] = layers.wire.macsec
        facts |= {"wire.encrypts": "1"} if layers.wire.is_encrypted else {}
    return facts


#: Fields of the link layer that a rule can refer to; an unset field is left out.
_OF_LINK = ("cipher", "keys", "pmf", "akm", "sae", "group", "group_mgmt", "roaming",
            "beacon_protection", "ocv")


def _layer_facts(place: str, layer: object, fields: Sequence[str]) -> dict[str, str]:
    """Return the facts of a layer's fields that are set."""
    return {f"{place}.{field}": str(value) for field in fields
            if (value := getattr(layer, field))}


def _ipsec_facts(layer: IpsecLayer) -> dict[str, str]:
    tokens, exchanges = layer.esp_proposal.split("-"), layer.ike_proposal.split("-")[2:]
    said = {"ipsec.authentication": layer.authentication, "ipsec.mode": layer.mode,
            "ipsec.encryption": tokens[0],
            "ipsec.integrity": tokens[0] if tokens[0] in AEADS else tokens[1],
            "ipsec.ike": str(layer.ike), "ipsec.group": exchanges[0]}
    if exchanges[1:]:
        said["ipsec.additional"] = exchanges[1]
    return said | ({"ipsec.pfs": tokens[-1]} if tokens[-1] in GROUPS else {})


def is_fulfilled(when: When, policy_facts: Mapping[str, str]) -> bool:
    """Return whether facts fulfil every condition."""
    return all(policy_facts.get(key) in words for key, words in when.items())

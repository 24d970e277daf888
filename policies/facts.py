"""What a policy says, as flat words that rules in data files can ask for: `link.cipher` CCMP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from policies.layers import Cipher, EapMethod, Keys
from policies.policy import Policy
from policies.proposals import AEADS, CIPHERS, INTEGRITY

#: Conditions on a policy: every key must hold, by any of its words.
When = Mapping[str, Sequence[str]]

#: Every key that a rule can ask for, with the words that it can have.
KNOWN: Mapping[str, tuple[str, ...]] = {
    "link.cipher": get_args(Cipher),
    "link.keys": get_args(Keys),
    "dot1x.eap": get_args(EapMethod),
    "ipsec.authentication": ("pubkey",),
    "ipsec.mode": ("tunnel", "transport"),
    "ipsec.encryption": (*CIPHERS, *AEADS),
    "ipsec.integrity": (*INTEGRITY, *AEADS),
}


def facts(policy: Policy) -> dict[str, str]:
    """The policy's word for each key of KNOWN; layers that are switched off have none.

    A cipher with integrity of its own (AEAD) stands under both `encryption` and `integrity`.
    """
    facts: dict[str, str] = {}
    layers = policy.layers
    if layers.link is not None:
        facts |= {"link.cipher": layers.link.cipher, "link.keys": layers.link.keys}
    if layers.dot1x is not None:
        facts["dot1x.eap"] = layers.dot1x.eap
    if layers.ipsec is not None:
        tokens = layers.ipsec.esp_proposal.split("-")
        facts |= {"ipsec.authentication": layers.ipsec.authentication,
                  "ipsec.mode": layers.ipsec.mode, "ipsec.encryption": tokens[0],
                  "ipsec.integrity": tokens[0] if tokens[0] in AEADS else tokens[1]}
    return facts


def holds(when: When, said: Mapping[str, str]) -> bool:
    """Whether facts fulfil every condition."""
    return all(said.get(key) in words for key, words in when.items())

"""Define a security policy as a model that is loaded from its YAML file.

A `Policy` has an id, a name and layers. Its properties answer questions of other packages, such as
whether data frames are encrypted. `PolicyFile` is the policy as written, where it may extend
another one. `json_schema` returns the JSON Schema of a policy file, for editors.
`facts_from_policy` returns the policy's settings as flat words, such as `link.cipher` CCMP. Rules
in data files refer to these facts, and `is_fulfilled` tests their conditions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from policies.dot1x import CertificateKey, Identity, InnerMethod, TlsSettings, Transport
from policies.eap_methods import EapMethod
from policies.fields import PolicyId, PolicyName, plain_text
from policies.layers import IkeAuthentication, IpsecLayer, Layers, Macsec
from policies.link import Akm, Cipher, GroupManagement, KeySource, Roaming, SaeElement
from policies.proposals import ADDITIONAL, AEADS, CIPHERS, GROUPS, INTEGRITY, KEMS


class Policy(BaseModel):
    """A security policy: its id, name and layers, with defaults and base files applied."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: PolicyId
    name: PolicyName
    layers: Layers = Field(description="What is switched on; {} for nothing.")

    @property
    def encrypts_air(self) -> bool:
        """Return whether the link layer encrypts data frames on the air.

        IPsec alone does not count.
        """
        return self.layers.link is not None

    @property
    def uses_wep(self) -> bool:
        """Return whether data frames have a WEP header."""
        return self.layers.link is not None and self.layers.link.is_wep

    @property
    def uses_eap(self) -> bool:
        """Return whether 802.1X with EAP opens the port, so that a RADIUS server is needed."""
        return self.layers.dot1x is not None

    @property
    def eap_method(self) -> str | None:
        """Return the EAP method, None without 802.1X."""
        return self.layers.dot1x.eap if self.layers.dot1x else None

    @property
    def uses_certificates(self) -> bool:
        """Return whether station and RADIUS server need X.509 certificates."""
        return self.eap_method == "TLS"

    @property
    def uses_radsec(self) -> bool:
        """Return whether RADIUS between access points and server is inside TLS."""
        return self.layers.dot1x is not None and self.layers.dot1x.uses_radsec

    @property
    def user_realm(self) -> str:
        """Return the realm behind users' identities, "" without one."""
        tls = self.layers.dot1x.tls if self.layers.dot1x else None
        return (tls.realm if tls else None) or ""

    @property
    def has_accounting(self) -> bool:
        """Return whether access points report sessions to the RADIUS server."""
        return self.layers.dot1x is not None and bool(self.layers.dot1x.accounting)

    @property
    def requires_message_authenticator(self) -> bool:
        """Return whether the RADIUS server drops requests without a Message-Authenticator."""
        return self.layers.dot1x is not None and bool(self.layers.dot1x.message_authenticator)

    @property
    def station_vlan(self) -> int:
        """Return the VLAN into which access points put stations, 0 for none."""
        return (self.layers.link.vlan if self.layers.link else None) or 0

    @property
    def revocation_method(self) -> str:
        """Return how the RADIUS server finds revoked certificates, crl or ocsp, or "" if not."""
        tls = self.layers.dot1x.tls if self.layers.dot1x else None
        return (tls.revocation if tls else None) or ""

    @property
    def server_name_tls(self) -> TlsSettings | None:
        """Return the TLS settings with the RADIUS server's name, None if no name is checked."""
        tls = self.layers.dot1x.tls if self.layers.dot1x else None
        return tls if tls and tls.checked_name else None

    @property
    def resumes_sessions(self) -> bool:
        """Return whether an authentication resumes the TLS session of the previous one."""
        tls = self.layers.dot1x.tls if self.layers.dot1x else None
        return tls is not None and tls.sessions == "resumed"

    @property
    def resumes_once(self) -> bool:
        """Return whether a session is resumed once only, as FreeRADIUS does with TLS 1.3."""
        tls = self.layers.dot1x.tls if self.layers.dot1x else None
        return self.resumes_sessions and tls is not None and tls.version == "1.3"

    @property
    def keys_by_eapol(self) -> bool:
        """Return whether keys for the air are delivered or derived by EAPOL-Key frames."""
        return self.layers.link is not None and self.layers.link.keys != "static"

    @property
    def has_handshake(self) -> bool:
        """Return whether EAPOL frames (of 802.1X or a four-way handshake) precede traffic."""
        link = self.layers.link
        return self.uses_eap or (link is not None and link.has_own_handshake)

    @property
    def uses_ipsec(self) -> bool:
        """Return whether packets between mobile node and home agent are protected by ESP."""
        return self.layers.ipsec is not None

    @property
    def needs_mlkem(self) -> bool:
        """Return whether the policy needs a strongSwan with ML-KEM, which Debian's lacks."""
        return self.layers.ipsec is not None and self.layers.ipsec.is_post_quantum

    @property
    def uses_wireguard(self) -> bool:
        """Return whether packets between mobile node and home agent use WireGuard."""
        return self.layers.wireguard is not None

    @property
    def uses_quic(self) -> bool:
        """Return whether packets between mobile node and home agent use QUIC."""
        return self.layers.quic is not None

    @property
    def uses_mptcp(self) -> bool:
        """Return whether packets between mobile node and home agent use Multipath TCP."""
        return self.layers.mptcp is not None

    @property
    def uses_macsec(self) -> bool:
        """Return whether frames between access points and agents are protected by MACsec."""
        return self.layers.wire is not None

    @property
    def without_upper_layers(self) -> Policy:
        """Return a copy without the layers above the network layer, to configure the daemons."""
        above = dict.fromkeys(self.layers.upper_names)
        return self.model_copy(update={"layers": self.layers.model_copy(update=above)})

    def digest(self) -> str:
        """Return the SHA-256 (hex) of the policy's layers in canonical JSON.

        Digests are equal exactly if the layers are.
        """
        layers = self.layers.model_dump(mode="json", exclude_none=True)
        canonical = json.dumps(layers, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class PolicyFile(Policy):
    """A policy as written in its file, where it may extend another policy."""

    extends: Annotated[str, AfterValidator(plain_text)] | None = Field(
        default=None,
        description="A policy file, relative to this one; a layer given here replaces the base's, "
        "null removes it.",
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a policy file, for editors. It has no checks between layers."""
    schema = PolicyFile.model_json_schema()
    schema["required"].remove("layers")  # they may all come from the base
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "qop policy",
        "anyOf": [{"required": ["layers"]}, {"required": ["extends"]}],
    }


# --- Facts: a policy's settings as flat words, for rules in data files ---

#: Conditions on a policy: every key must have one of its words.
FactConditions = Mapping[str, Sequence[str]]

#: All keys that a rule can refer to, with their possible words.
KNOWN_FACTS: Mapping[str, tuple[str, ...]] = {
    "link.cipher": get_args(Cipher),
    "link.group_cipher": get_args(Cipher),
    "link.keys": get_args(KeySource),
    "link.pmf": ("1", "2"),
    "link.akm": get_args(Akm),
    "link.sae": get_args(SaeElement),
    "link.group": ("19", "20", "21"),
    "link.roaming": get_args(Roaming),
    "link.group_mgmt": get_args(GroupManagement),
    "link.beacon_protection": ("1",),
    "link.ocv": ("1",),
    "dot1x.eap": get_args(EapMethod),
    "dot1x.inner": get_args(InnerMethod),
    "dot1x.identity": get_args(Identity),
    "dot1x.transport": get_args(Transport),
    "dot1x.tls": ("1.2", "1.3"),
    "dot1x.key": get_args(CertificateKey),
    "wireguard.authentication": ("pubkey",),
    "quic.authentication": ("token",),
    "wire.macsec": get_args(Macsec),
    "wire.encrypts": ("1",),
    "ipsec.ike": ("1", "2"),
    "ipsec.group": (*GROUPS, *KEMS),
    "ipsec.additional": ADDITIONAL,
    "ipsec.pfs": GROUPS,
    "ipsec.authentication": get_args(IkeAuthentication),
    "ipsec.mode": ("tunnel", "transport"),
    "ipsec.encryption": (*CIPHERS, *AEADS),
    "ipsec.integrity": (*INTEGRITY, *AEADS),
}


def facts_from_policy(policy: Policy) -> dict[str, str]:
    """Return the policy's settings as flat words, for each key of KNOWN_FACTS.

    Layers that are off have none. Keys and protection of management frames are the weakest that the
    station accepts. The group cipher is that of frames between two, if the policy names no other.
    A cipher with its own integrity (AEAD) counts as both `encryption` and
    `integrity`.
    """
    facts: dict[str, str] = {}
    layers = policy.layers
    if layers.link is not None:
        facts |= _layer_facts("link", layers.link, _LINK_FACTS)
        facts["link.group_cipher"] = layers.link.group_cipher or layers.link.cipher
        facts["link.keys"] = layers.link.weakest_keys
        facts["link.pmf"] = str(layers.link.pmf_of_station)
        if not layers.link.pmf_of_station:
            del facts["link.pmf"]
    if layers.dot1x is not None:
        facts |= _layer_facts("dot1x", layers.dot1x, ("eap", "inner", "identity", "transport"))
        if layers.dot1x.tls is not None:
            tls = layers.dot1x.tls
            # Kinds of keys are listed from the weakest one on.
            weaker = min(tls.key, tls.client_key, key=KNOWN_FACTS["dot1x.key"].index)
            facts |= {"dot1x.tls": tls.version, "dot1x.key": weaker}
    if layers.ipsec is not None:
        facts |= _ipsec_facts(layers.ipsec)
    if layers.wireguard is not None:
        facts |= _layer_facts("wireguard", layers.wireguard, ("authentication",))
    if layers.quic is not None:
        facts |= _layer_facts("quic", layers.quic, ("authentication",))
    if layers.wire is not None:
        facts["wire.macsec"] = layers.wire.macsec
        facts |= {"wire.encrypts": "1"} if layers.wire.is_encrypted else {}
    return facts


#: Fields of the link layer that a rule can refer to; an unset field is left out.
_LINK_FACTS = ("cipher", "keys", "pmf", "akm", "sae", "group", "group_mgmt", "roaming",
               "beacon_protection", "ocv")


def _layer_facts(place: str, layer: object, fields: Sequence[str]) -> dict[str, str]:
    """Return the settings of one layer as flat words."""
    return {f"{place}.{field}": str(value) for field in fields
            if (value := getattr(layer, field))}


def _ipsec_facts(layer: IpsecLayer) -> dict[str, str]:
    tokens, exchanges = layer.esp_proposal.split("-"), layer.ike_proposal.split("-")[2:]
    facts = {"ipsec.authentication": layer.authentication, "ipsec.mode": layer.mode,
             "ipsec.encryption": tokens[0],
             "ipsec.integrity": tokens[0] if tokens[0] in AEADS else tokens[1],
             "ipsec.ike": str(layer.ike), "ipsec.group": exchanges[0]}
    if exchanges[1:]:
        facts["ipsec.additional"] = exchanges[1]
    return facts | ({"ipsec.pfs": tokens[-1]} if tokens[-1] in GROUPS else {})


def is_fulfilled(when: FactConditions, policy_facts: Mapping[str, str]) -> bool:
    """Return whether a policy's facts (settings as words) fulfil all conditions."""
    return all(policy_facts.get(key) in words for key, words in when.items())

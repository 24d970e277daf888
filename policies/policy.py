"""Security policies: an id, a name and layers, with properties for other packages."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from policies.fields import PolicyId, PolicyName, plain_text
from policies.layers import Layers


class Policy(BaseModel):
    """A policy's layers, with ``extends`` resolved and defaults filled in."""

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
        """Return whether the port opens only after EAP, so that a RADIUS server is needed."""
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
    def resumes_sessions(self) -> bool:
        """Return whether an authentication resumes the TLS session of the previous one."""
        tls = self.layers.dot1x.tls if self.layers.dot1x else None
        return tls is not None and tls.sessions == "resumed"

    @property
    def keys_by_eapol(self) -> bool:
        """Return whether EAPOL-Key frames deliver or derive the keys on the air."""
        return self.layers.link is not None and self.layers.link.keys != "static"

    @property
    def has_handshake(self) -> bool:
        """Return whether EAPOL frames precede traffic: of 802.1X, or of a handshake of the link."""
        link = self.layers.link
        return self.uses_eap or (link is not None and link.has_own_handshake)

    @property
    def uses_ipsec(self) -> bool:
        """Return whether packets between mobile node and home agent are protected by ESP."""
        return self.layers.ipsec is not None

    @property
    def needs_mlkem(self) -> bool:
        """Return whether it needs a strongSwan that Debian's stable releases do not have."""
        return self.layers.ipsec is not None and self.layers.ipsec.is_post_quantum

    @property
    def uses_wireguard(self) -> bool:
        """Return whether packets between mobile node and home agent use WireGuard."""
        return self.layers.wireguard is not None

    @property
    def uses_macsec(self) -> bool:
        """Return whether frames between access points and agents are protected by MACsec."""
        return self.layers.wire is not None

    @property
    def without_upper_layers(self) -> Policy:
        """Return the policy without the layers above the network layer, for rendering daemons."""
        above = dict.fromkeys(self.layers.upper_names)
        return self.model_copy(update={"layers": self.layers.model_copy(update=above)})

    def digest(self) -> str:
        """Return the SHA-256 in hex of the layers' canonical JSON.

        Digests are equal exactly if the layers are.
        """
        layers = self.layers.model_dump(mode="json", exclude_none=True)
        canonical = json.dumps(layers, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class PolicyFile(Policy):
    """A policy as written in a file, where it may extend another policy."""

    extends: Annotated[str, AfterValidator(plain_text)] | None = Field(
        default=None,
        description="A policy file, relative to this one; a layer given here replaces the base's, "
        "null removes it.",
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a policy file for editors, without checks between layers."""
    schema = PolicyFile.model_json_schema()
    schema["required"].remove("layers")  # they may all come from the base
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "qop policy",
        "anyOf": [{"required": ["layers"]}, {"required": ["extends"]}],
    }

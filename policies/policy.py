"""A policy: an id, a name and its layers, with the questions other packages ask of it."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from policies.fields import PolicyId, PolicyName, plain_text
from policies.layers import Layers


class Policy(BaseModel):
    """What is switched on, by layer, with ``extends`` resolved and defaults filled in."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: PolicyId
    name: PolicyName
    layers: Layers = Field(description="What is switched on; {} for nothing.")

    @property
    def encrypts_air(self) -> bool:
        """Whether the link layer encrypts data frames on the air (IPsec alone does not count)."""
        return self.layers.link is not None

    @property
    def uses_wep(self) -> bool:
        """Whether data frames carry a WEP header."""
        return self.layers.link is not None and self.layers.link.is_wep

    @property
    def uses_eap(self) -> bool:
        """Whether the port opens only after EAP, so that a RADIUS server is needed."""
        return self.layers.dot1x is not None

    @property
    def eap_method(self) -> str | None:
        """The EAP method that decides, or None without 802.1X."""
        return self.layers.dot1x.eap if self.layers.dot1x else None

    @property
    def uses_certificates(self) -> bool:
        """Whether station and RADIUS server need X.509 certificates."""
        return self.eap_method == "TLS"

    @property
    def uses_radsec(self) -> bool:
        """Whether RADIUS between access points and server goes inside TLS."""
        return self.layers.dot1x is not None and self.layers.dot1x.uses_radsec

    @property
    def resumes_sessions(self) -> bool:
        """Whether an authentication goes on with the TLS session of the one before."""
        tls = self.layers.dot1x.tls if self.layers.dot1x else None
        return tls is not None and tls.sessions == "resumed"

    @property
    def keys_by_eapol(self) -> bool:
        """Whether EAPOL-Key frames deliver or derive the keys on the air."""
        return self.layers.link is not None and self.layers.link.keys != "static"

    @property
    def has_handshake(self) -> bool:
        """Whether EAPOL frames come before traffic: 802.1X's, or a handshake of the link's own."""
        link = self.layers.link
        return self.uses_eap or (link is not None and link.has_own_handshake)

    @property
    def uses_ipsec(self) -> bool:
        """Whether packets between mobile node and home agent go through ESP."""
        return self.layers.ipsec is not None

    @property
    def needs_mlkem(self) -> bool:
        """Whether it takes a strongSwan that Debian's stable releases do not have."""
        return self.layers.ipsec is not None and self.layers.ipsec.is_post_quantum

    @property
    def uses_wireguard(self) -> bool:
        """Whether packets between mobile node and home agent go through WireGuard."""
        return self.layers.wireguard is not None

    @property
    def uses_macsec(self) -> bool:
        """Whether frames between access points and agents are protected (MACsec)."""
        return self.layers.wire is not None

    @property
    def lower(self) -> Policy:
        """The same without the layers above the network's: what daemons are rendered from."""
        above = dict.fromkeys(self.layers.upper)
        return self.model_copy(update={"layers": self.layers.model_copy(update=above)})

    def digest(self) -> str:
        """SHA-256, in hex, of the layers' canonical JSON: equal exactly when the layers are."""
        layers = self.layers.model_dump(mode="json", exclude_none=True)
        canonical = json.dumps(layers, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class PolicyFile(Policy):
    """A policy as it stands in a file, where it may build on another one."""

    extends: Annotated[str, AfterValidator(plain_text)] | None = Field(
        default=None,
        description="A policy file, relative to this one; a layer given here replaces the base's, "
        "null removes it.",
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a policy file, for editors; cross-checks between layers are not in it."""
    schema = PolicyFile.model_json_schema()
    schema["required"].remove("layers")  # they may all come from the base
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "qop policy",
        "anyOf": [{"required": ["layers"]}, {"required": ["extends"]}],
    }

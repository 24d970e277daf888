"""What a policy switches on, layer by layer, and which combinations cannot work."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from policies.errors import fault
from policies.fields import Whole, check_realm
from policies.options import DaemonOptions
from policies.proposals import check_esp, check_ike, pattern_esp, pattern_ike
from policies.upper import UpperLayers

Cipher = Literal["WEP-40", "WEP-104", "TKIP", "CCMP", "GCMP", "CCMP-256", "GCMP-256"]
Keys = Literal["static", "eap", "psk", "sae"]
EapMethod = Literal["MD5", "TLS"]

WEP_CIPHERS = frozenset({"WEP-40", "WEP-104"})

#: Bytes that a cipher adds to a data frame: IEEE 802.11-2020, 12.3.2 (WEP: IV and ICV), 12.5.2
#: (TKIP: extended IV, MIC, ICV), 12.5.3 and 12.5.5 (CCMP, GCMP: header and MIC).
FRAME_EXPANSION_BYTES: dict[str, int] = {
    "WEP-40": 8, "WEP-104": 8, "TKIP": 20, "CCMP": 16, "GCMP": 24, "CCMP-256": 24, "GCMP-256": 24}
KEY_DERIVING = frozenset({"TLS"})  # EAP-MD5 derives no keys (RFC 3748, section 5.4)

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)


class LinkLayer(BaseModel):
    """What protects frames on the air."""

    model_config = _CONFIG

    cipher: Cipher = Field(description="Protects data frames. WEP-128 is WEP-104 here.")
    keys: Keys = Field(description="Where keys come from: configured, EAP, passphrase or SAE.")
    pmf: Annotated[Literal[0, 1, 2], Whole] = Field(
        default=0, description="Protected management frames: 0 off, 1 optional, 2 required."
    )
    options: DaemonOptions = Field(
        default=DaemonOptions(), description="Further options by the daemons' own names."
    )

    @property
    def is_wep(self) -> bool:
        """Whether the cipher is one of the two WEP variants."""
        return self.cipher in WEP_CIPHERS

    @property
    def frame_expansion_bytes(self) -> int:
        """Bytes that the cipher adds to every data frame."""
        return FRAME_EXPANSION_BYTES[self.cipher]

    @model_validator(mode="after")
    def _keys_fit_cipher(self) -> Self:
        if self.is_wep and self.keys not in ("static", "eap"):
            raise fault(
                f"keys: {self.keys} cannot feed {self.cipher}",
                "write keys: static or eap, or a cipher such as CCMP",
                ("keys",),
            )
        if not self.is_wep and self.keys == "static":
            raise fault(
                f"{self.cipher} takes no static keys",
                "write keys: psk, sae or eap, or a WEP cipher",
                ("keys",),
            )
        if self.cipher == "TKIP" and self.keys == "sae":
            raise fault("SAE cannot feed TKIP", "write cipher: CCMP or GCMP", ("cipher",))
        return self

    @model_validator(mode="after")
    def _pmf_fits(self) -> Self:
        if self.pmf and (self.is_wep or self.cipher == "TKIP"):
            raise fault(
                f"{self.cipher} has no protected management frames",
                "write pmf: 0, or a cipher such as CCMP",
                ("pmf",),
            )
        if self.keys == "sae" and not self.pmf:
            raise fault(
                "keys: sae needs protected management frames",
                "write pmf: 2 (or 1, where older stations shall join)",
                ("pmf",),
                ("keys",),
            )
        return self


def _same_as_eap(data: dict[str, Any]) -> Any:
    return data["eap"]


class TlsSettings(BaseModel):
    """What EAP-TLS is done with; without these settings as the twelve policies have it.

    With them, the server also asks that a certificate's name is the identity that is claimed, and
    is ready for many requests at once.
    """

    model_config = _CONFIG

    version: Literal["1.2", "1.3"] = Field(default="1.2", description="Version of TLS.")
    key: Literal["rsa-1024", "rsa-2048", "p-256"] = Field(
        default="rsa-2048", description="Kind of every certificate's key.")
    chain: Annotated[Literal[1, 2, 3], Whole] = Field(
        default=2, description="Certificates that each side sends: its own, and those of "
        "authorities up to the root, which both know.")
    realm: Annotated[str, AfterValidator(check_realm)] | None = Field(
        default=None, description="What the identity has behind an @, by which a server that is "
        "not the realm's own forwards requests.")
    fragment_bytes: Annotated[int, Field(ge=100, le=1400)] | None = Field(
        default=None, description="How much of TLS the server puts into one EAP packet, 100 to "
        "1400 bytes; each further one takes a round trip. Left out: 1024.")
    sessions: Literal["full", "resumed"] = Field(
        default="full", description="Whether server and station keep sessions, so that a repeated "
        "authentication resumes the last one.")


class Dot1xLayer(BaseModel):
    """Who may pass the access point's port."""

    model_config = _CONFIG

    eap: EapMethod = Field(description="The EAP method that decides.")
    first_offer: EapMethod = Field(
        default_factory=_same_as_eap,
        description="What the server proposes first; another method than eap adds a request and "
        "its NAK. Left out: the same as eap.",
    )
    tls: TlsSettings | None = Field(
        default=None, description="What EAP-TLS is done with, where it is another than usual.")
    options: DaemonOptions = Field(
        default=DaemonOptions(), description="Further options by the daemons' own names."
    )

    @model_validator(mode="after")
    def _tls_fits_eap(self) -> Self:
        if self.tls is not None and self.eap != "TLS":
            raise fault(f"EAP-{self.eap} has no TLS to set", "leave out tls, or write eap: TLS",
                        ("tls",), ("eap",))
        return self

    @model_serializer(mode="wrap")
    def _without_usual_tls(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Policies without these settings say, render and digest what they always did.
        said: dict[str, Any] = handler(self)
        return said if self.tls is not None else {
            key: value for key, value in said.items() if key != "tls"}


class IpsecLayer(BaseModel):
    """The tunnel between mobile node and home agent."""

    model_config = _CONFIG

    ike: Annotated[Literal[1, 2], Whole] = Field(description="Version of the key exchange.")
    ike_proposal: str = Field(
        description="strongSwan's keywords: encryption-integrity-group.",
        json_schema_extra={"pattern": pattern_ike()},
    )
    esp_proposal: Annotated[str, AfterValidator(check_esp)] = Field(
        description="strongSwan's keywords: encryption-integrity, and a group for forward secrecy.",
        json_schema_extra={"pattern": pattern_esp()},
    )
    authentication: Literal["pubkey"] = Field(
        default="pubkey", description="Raw RSA keys, no certificates."
    )
    mode: Literal["tunnel", "transport"] = Field(default="tunnel", description="ESP mode.")

    @field_validator("ike_proposal")
    @classmethod
    def _ike_proposal_fits(cls, proposal: str, info: ValidationInfo) -> str:
        check_ike(proposal, info.data.get("ike", 2))  # absent when ike itself was wrong
        return proposal


class Layers(UpperLayers):
    """The layers of a policy; one that is absent or null is switched off."""

    model_config = _CONFIG

    link: LinkLayer | None = Field(default=None, description="Frames on the air; absent: open.")
    dot1x: Dot1xLayer | None = Field(
        default=None, description="Who may pass the port; absent: everybody."
    )
    ipsec: IpsecLayer | None = Field(
        default=None, description="Tunnel from mobile node to home agent; absent: none."
    )

    @model_validator(mode="after")
    def _link_fits_dot1x(self) -> Self:
        blame = (("link", "keys"), ("dot1x",))
        keys = self.link.keys if self.link else None
        if keys == "eap" and self.dot1x is None:
            raise fault(
                "link.keys: eap has no EAP to take keys from",
                "add layers.dot1x with eap: TLS, or choose other keys",
                *blame,
            )
        if keys == "eap" and self.dot1x and self.dot1x.eap not in KEY_DERIVING:
            raise fault(
                f"EAP-{self.dot1x.eap} derives no keys, and link.keys is eap",
                "write dot1x.eap: TLS, or link.keys: static with a WEP cipher",
                *blame,
            )
        if keys in ("psk", "sae") and self.dot1x is not None:
            raise fault(
                f"link.keys: {keys} and 802.1X exclude each other",
                "leave out layers.dot1x, or write link.keys: eap",
                *blame,
            )
        return self

    @model_validator(mode="after")
    def _option_said_once(self) -> Self:
        if self.link is None or self.dot1x is None:
            return self
        for daemon in ("hostapd", "wpa_supplicant"):
            ours: dict[str, Any] = getattr(self.dot1x.options, daemon)
            for name in sorted(ours.keys() & getattr(self.link.options, daemon)):
                raise fault(
                    f"{daemon}'s option {name} stands in both link and dot1x",
                    "leave it in one of them",
                    ("dot1x", "options", daemon, name),
                    ("link", "options", daemon, name),
                )
        return self

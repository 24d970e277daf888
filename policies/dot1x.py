"""The 802.1X layer of a policy: its EAP method, and the certificates for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from policies.errors import make_fault
from policies.fields import SparseLayer, Whole, check_realm
from policies.options import DaemonOptions

EapMethod = Literal["MD5", "TLS", "PEAP", "TTLS", "PWD", "AKA", "AKA'"]
Inner = Literal["MSCHAPV2", "PAP"]
Identity = Literal["clear", "anonymous"]
Transport = Literal["udp", "radsec"]

#: Methods that derive keys; EAP-MD5 does not (RFC 3748, section 5.4).
KEY_DERIVING = frozenset({"TLS", "PEAP", "TTLS", "PWD", "AKA", "AKA'"})
#: Methods that authenticate by a subscriber's card (USIM).
BY_CARD = frozenset({"AKA", "AKA'"})
#: Methods with a TLS tunnel, by the inner methods that they support.
TUNNELS: dict[str, tuple[str, ...]] = {"PEAP": ("MSCHAPV2",), "TTLS": ("PAP", "MSCHAPV2")}

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)


def _same_as_eap(data: dict[str, Any]) -> Any:
    return data["eap"]


class TlsSettings(BaseModel):
    """Settings of EAP-TLS. Without them it is as in the twelve policies.

    With them, the server also checks that the certificate's name is the claimed identity, unless
    that is anonymous. It is also configured for many requests at once.
    """

    model_config = _CONFIG

    version: Literal["1.2", "1.3"] = Field(default="1.2", description="Version of TLS.")
    key: Literal["rsa-1024", "rsa-2048", "p-256", "p-384"] = Field(
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
    group: Literal["p-256", "x25519"] | None = Field(
        default=None, description="Group of the key exchange. Left out: p-256, which costs TLS 1.3 "
        "a round trip, as stations guess x25519; p-384 with such keys.")

    @model_validator(mode="after")
    def _group_fits(self) -> Self:
        if self.group == "x25519" and (self.version == "1.2" or self.key == "p-384"):
            raise make_fault("the group x25519 goes with TLS 1.3, and with other keys than p-384",
                             "leave out group", ("group",))
        return self

    @model_serializer(mode="wrap")
    def _as_said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # The fields that came first have always written null for an unset value.
        said: dict[str, Any] = handler(self)
        return {key: value for key, value in said.items() if key != "group" or value is not None}


class Dot1xLayer(SparseLayer):
    """The conditions for passing the access point's port."""

    eap: EapMethod = Field(description="The EAP method that decides.")
    first_offer: EapMethod = Field(
        default_factory=_same_as_eap,
        description="What the server proposes first; another method than eap adds a request and "
        "its NAK. Left out: the same as eap.",
    )
    inner: Inner | None = Field(
        default=None, description="What is said inside the tunnel of PEAP or TTLS.")
    identity: Identity | None = Field(
        default=None, description="Whether the identity that passes in clear is the user's own, or "
        "says nothing. Left out: clear.")
    tls: TlsSettings | None = Field(
        default=None, description="What EAP-TLS is done with, where it is another than usual.")
    transport: Transport | None = Field(
        default=None, description="How access points talk to the authentication server: RADIUS by "
        "UDP, or inside TLS (RadSec, RFC 6614). Left out: udp.")
    options: DaemonOptions = Field(
        default=DaemonOptions(), description="Further options by the daemons' own names."
    )

    @property
    def uses_radsec(self) -> bool:
        """Return whether access points talk to the authentication server inside TLS."""
        return self.transport == "radsec"

    @property
    def has_certificate_of_server(self) -> bool:
        """Return whether the server presents a certificate."""
        return self.eap == "TLS" or self.eap in TUNNELS

    @model_validator(mode="after")
    def _tls_fits_eap(self) -> Self:
        # A server for EAP-AKA may serve stations with EAP-TLS, too.
        if self.tls is not None and self.eap not in ("TLS", *BY_CARD):
            what = f"EAP-{self.eap} has TLS 1.2 with the usual settings here, and no others" \
                if self.eap in TUNNELS else f"EAP-{self.eap} has no TLS to set"
            raise make_fault(f"{what}: tls is for EAP-TLS", "leave out tls, or write eap: TLS",
                             ("tls",), ("eap",))
        return self

    @model_validator(mode="after")
    def _inner_fits_eap(self) -> Self:
        known = TUNNELS.get(self.eap, ())
        if self.inner is not None and self.inner not in known:
            raise make_fault(f"EAP-{self.eap} has no {self.inner} inside",
                             f"write inner: {' or '.join(known)}" if known else
                             "leave out inner, or write eap: PEAP or TTLS", ("inner",), ("eap",))
        if self.inner is None and known:
            raise make_fault(f"EAP-{self.eap} is a tunnel, and nothing is said inside",
                             f"add inner: {' or '.join(known)}", ("eap",))
        return self

    @model_validator(mode="after")
    def _identity_fits_eap(self) -> Self:
        if self.identity == "anonymous" and not self.has_certificate_of_server:
            raise make_fault(f"EAP-{self.eap} needs the user's own identity in clear",
                             "leave out identity, or write eap: TLS, PEAP or TTLS", ("identity",),
                             ("eap",))
        if self.identity == "anonymous" and self.tls is not None and self.tls.realm:
            raise make_fault("a realm stands behind an identity, which is anonymous",
                             "leave out realm, or identity", ("identity",))
        return self

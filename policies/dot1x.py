"""Define the 802.1X layer of a policy: its EAP method, and the settings of TLS.

`Dot1xLayer` is a pydantic model of the key `dot1x` in a policy file: EAP method, inner method,
outer identity and options of daemons. `TlsSettings` has the settings of TLS inside EAP: version,
kind of keys, length of the certificate chain, sessions, revocation and the server's name. Both
check their values, and refuse combinations that cannot work.
"""

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

from policies.eap_methods import TUNNELS, USIM_METHODS, EapMethod
from policies.errors import make_fault
from policies.fields import SparseLayer, Whole, check_realm, check_server_name
from policies.options import DaemonOptions

InnerMethod = Literal["MSCHAPV2", "PAP", "CHAP", "MSCHAP", "GTC", "TLS"]
CertificateKey = Literal["rsa-1024", "rsa-2048", "rsa-3072", "rsa-4096", "p-256", "p-384",
                         "ml-dsa-44", "ml-dsa-65", "ml-dsa-87"]
Identity = Literal["clear", "anonymous"]
Transport = Literal["udp", "radsec"]
MessageAuthenticator = Literal["required"]
Revocation = Literal["crl", "ocsp"]

ServerName = Annotated[str, AfterValidator(check_server_name)]
#: Options of wpa_supplicant that check the server's name.
_NAME_OPTIONS = ("domain_match", "domain_suffix_match")

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)


def _same_as_eap(data: dict[str, Any]) -> Any:
    return data["eap"]


#: Fields that are left out of stored settings without a value.
_SPARSE = ("group", "revocation", "server_name", "server_domain", "station_key")


class TlsSettings(BaseModel):
    """The settings of TLS inside EAP: of EAP-TLS, or of the tunnel of PEAP and TTLS.

    Without them, EAP-TLS works as in the twelve policies of 2007. With them, the server also checks
    that a station's certificate has the claimed identity, unless that is anonymous. It is also
    configured for many requests at once.
    """

    model_config = _CONFIG

    version: Literal["1.2", "1.3"] = Field(default="1.2", description="Version of TLS.")
    key: CertificateKey = Field(
        default="rsa-2048", description="Kind of every certificate's key; ml-dsa of TLS 1.3 and "
        "Debian 13.")
    chain: Annotated[Literal[1, 2, 3], Whole] = Field(
        default=2, description="Certificates that each side sends: its own, and those of "
        "authorities up to the root, which both know.")
    realm: Annotated[str, AfterValidator(check_realm)] | None = Field(
        default=None, description="What identities have behind an @, also an anonymous one, by "
        "which a server that is not the realm's own forwards requests.")
    fragment_bytes: Annotated[int, Field(ge=100, le=1400)] | None = Field(
        default=None, description="How much of TLS the server puts into one EAP packet, 100 to "
        "1400 bytes; each further one takes a round trip. Left out: 1024.")
    sessions: Literal["full", "resumed"] = Field(
        default="full", description="Whether server and station keep sessions, so that a repeated "
        "authentication resumes the last one.")
    group: Literal["p-256", "x25519", "mlkem768", "mlkem1024", "x25519mlkem768",
                   "secp256r1mlkem768", "secp384r1mlkem1024"] | None = Field(
        default=None, description="Group of the key exchange; those with mlkem of TLS 1.3 and "
        "Debian 13. With transport: radsec also that of RADIUS inside TLS. Left out: "
        "p-256, which costs TLS 1.3 a round trip, as stations guess x25519; p-384 with such keys.")
    revocation: Revocation | None = Field(
        default=None, description="Whether the server refuses revoked certificates of stations: by "
        "the authority's list (CRL), or by asking an OCSP responder in each authentication (RFC "
        "6960). Left out: it does not.")
    server_name: ServerName | None = Field(
        default=None, description="DNS name of the RADIUS server. The station accepts a "
        "certificate with this name alone (domain_match). Left out: it does not check the name.")
    server_domain: ServerName | None = Field(
        default=None, description="Domain of the RADIUS server. The station accepts certificates "
        "with names in this domain alone (domain_suffix_match). Left out: it does not check it.")

    station_key: CertificateKey | None = Field(
        default=None, description="Kind of the station's key and of its authority's, if they are "
        "others than key, which is then the server's; not with p-384 as key. Left out: key.")

    @model_validator(mode="after")
    def _station_key_fits(self) -> Self:
        if self.station_key is None:
            return self
        place = ("station_key",)
        if self.station_key == self.key:
            raise make_fault(f"station_key is {self.key}, as key is", "leave out station_key",
                             place)
        if self.key == "p-384":
            raise make_fault("with key: p-384, both ends have such keys",
                             "leave out station_key, or write another key", place, ("key",))
        if self.station_key.startswith("ml-dsa") and self.version == "1.2":
            raise make_fault(f"certificates with {self.station_key} go with TLS 1.3",
                             'write version: "1.3"', place)
        if self.revocation:
            raise make_fault("revocation needs one kind of key at both ends",
                             "leave out station_key, or revocation", place, ("revocation",))
        if self.sessions == "resumed":
            raise make_fault("no certificate is shown where a session is resumed",
                             "leave out station_key, or sessions", place, ("sessions",))
        return self

    @model_validator(mode="after")
    def _group_fits(self) -> Self:
        if self.group not in (None, "p-256") and (self.version == "1.2" or self.key == "p-384"):
            raise make_fault(f"the group {self.group} goes with TLS 1.3, and with other keys than "
                             "p-384", "leave out group", ("group",))
        if self.group and self.key == "p-384":
            raise make_fault(f"the group is p-384 with such keys, and not {self.group}",
                             "leave out group", ("group",), ("key",))
        if self.key.startswith("ml-dsa") and self.version == "1.2":
            raise make_fault(f"certificates with {self.key} go with TLS 1.3",
                             'write version: "1.3"', ("key",))
        return self

    @model_validator(mode="after")
    def _revocation_fits(self) -> Self:
        if self.revocation and self.key.startswith("ml-dsa"):
            raise make_fault(f"certificates with {self.key} are not revoked here",
                             "leave out revocation, or write another key", ("revocation",),
                             ("key",))
        if self.revocation and self.sessions == "resumed":
            raise make_fault("no certificate is shown or checked where a session is resumed",
                             "leave out revocation, or sessions", ("revocation",), ("sessions",))
        return self

    @model_validator(mode="after")
    def _server_name_fits(self) -> Self:
        if self.server_name and self.server_domain:
            raise make_fault("server_name is the server's whole name, and server_domain its end",
                             "leave out one of them", ("server_name",), ("server_domain",))
        if self.checked_name and self.sessions == "resumed":
            raise make_fault("no name is checked where a session is resumed",
                             f"leave out {self.name_field}, or sessions", (self.name_field,),
                             ("sessions",))
        return self

    @property
    def client_key(self) -> str:
        """Return the kind of the station's key."""
        return self.station_key or self.key

    @property
    def name_field(self) -> str:
        """Return the field that has the server's name: server_name or server_domain."""
        return "server_domain" if self.server_domain else "server_name"

    @property
    def checked_name(self) -> str:
        """Return the name or domain that a server's certificate must have, "" for any."""
        return self.server_name or self.server_domain or ""

    @property
    def certified_name(self) -> str:
        """Return the name in certificates of RADIUS servers, "" for that of the server's node."""
        return f"radius.{self.server_domain}" if self.server_domain else self.server_name or ""

    @property
    def other_name(self) -> str:
        """Return the name that stations refuse, "" for none: it is almost the right one.

        The whole name has another one before it, and a domain other letters.
        """
        if self.server_domain:
            return f"radius.not-{self.server_domain}"
        return f"not.{self.server_name}" if self.server_name else ""

    def is_accepted_name(self, name: str) -> bool:
        """Return whether a station accepts a server whose certificate has this name."""
        name = name.casefold()
        return name == self.checked_name or bool(
            self.server_domain and name.endswith(f".{self.server_domain}"))

    @property
    def is_post_quantum(self) -> bool:
        """Return whether certificates or key agreement need an OpenSSL of version 3.5."""
        return any(key.startswith("ml-dsa") for key in (self.key, self.client_key)) or bool(
            self.group and "mlkem" in self.group)

    @model_serializer(mode="wrap")
    def _to_sparse(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # The fields that came first have always written null for an unset value.
        stored: dict[str, Any] = handler(self)
        return {key: value for key, value in stored.items()
                if key not in _SPARSE or value is not None}


class Dot1xLayer(SparseLayer):
    """The 802.1X layer: what a station must do before the access point opens its port."""

    eap: EapMethod = Field(description="The EAP method that decides.")
    first_offer: EapMethod = Field(
        default_factory=_same_as_eap,
        description="What the server proposes first; another method than eap adds a request and "
        "its NAK. Left out: the same as eap.",
    )
    inner: InnerMethod | None = Field(
        default=None, description="What is said inside the tunnel of PEAP or TTLS.")
    identity: Identity | None = Field(
        default=None, description="Whether the identity that passes in clear is the user's own, or "
        "says nothing. Left out: clear.")
    tls: TlsSettings | None = Field(
        default=None, description="How TLS inside EAP differs from the usual one.")
    transport: Transport | None = Field(
        default=None, description="How access points talk to the authentication server: RADIUS by "
        "UDP, or inside TLS (RadSec, RFC 6614). Left out: udp.")
    message_authenticator: MessageAuthenticator | None = Field(
        default=None, description="Whether the authentication server drops requests without the "
        "attribute Message-Authenticator (BlastRADIUS). Left out: requests with EAP alone need it.")
    accounting: Annotated[Literal[0, 1], Whole] | None = Field(
        default=None, description="Whether access points report sessions to the RADIUS server "
        "(RFC 2866). Left out: 0.")
    options: DaemonOptions = Field(
        default=DaemonOptions(), description="Further options by the daemons' own names."
    )

    @property
    def realm_suffix(self) -> str:
        """Return what identities have behind the user's name, such as @home.example, or ""."""
        return f"@{self.tls.realm}" if self.tls is not None and self.tls.realm else ""

    @property
    def uses_radsec(self) -> bool:
        """Return whether access points talk to the authentication server inside TLS (RadSec)."""
        return self.transport == "radsec"

    @property
    def has_certificate_of_server(self) -> bool:
        """Return whether the authentication server presents a certificate to the station."""
        return self.eap == "TLS" or self.eap in TUNNELS

    @model_validator(mode="after")
    def _tls_fits_eap(self) -> Self:
        # A server for EAP-AKA may serve stations with EAP-TLS, too.
        if self.tls is not None and self.eap not in ("TLS", *TUNNELS, *USIM_METHODS):
            raise make_fault(f"EAP-{self.eap} has no TLS to set",
                             "leave out tls, or write eap: TLS, PEAP or TTLS", ("tls",), ("eap",))
        return self

    @model_validator(mode="after")
    def _revocation_fits(self) -> Self:
        if self.tls is None or not self.tls.revocation:
            return self
        if self.eap != "TLS":
            shows = "shows none" if self.inner != "TLS" else "shows it inside a tunnel"
            raise make_fault("revocation is about certificates of stations, and a station of "
                             f"EAP-{self.eap} {shows}", "leave out revocation, or write eap: "
                             "TLS", ("tls", "revocation"), ("eap",))
        if self.uses_radsec:
            raise make_fault("revocation is proven by RADIUS by UDP, and transport is radsec",
                             "leave out one of them", ("tls", "revocation"), ("transport",))
        return self

    @model_validator(mode="after")
    def _server_name_fits(self) -> Self:
        if self.tls is None or not self.tls.checked_name:
            return self
        if not self.has_certificate_of_server:
            raise make_fault(f"{self.tls.name_field} is about certificates of servers, and "
                             f"EAP-{self.eap} shows none", f"leave out {self.tls.name_field}, or "
                             "write eap: TLS, PEAP or TTLS", ("tls", self.tls.name_field),
                             ("eap",))
        for name in _NAME_OPTIONS:
            if name in self.options.wpa_supplicant:
                raise make_fault(f"wpa_supplicant's option {name} and tls.{self.tls.name_field} "
                                 "say the same", "leave out one of them",
                                 ("tls", self.tls.name_field))
        return self

    @model_validator(mode="after")
    def _station_key_fits(self) -> Self:
        if self.tls is not None and self.tls.station_key and not (
                self.eap == "TLS" or self.inner == "TLS"):
            raise make_fault("station_key is about certificates of stations, and a station of "
                             f"EAP-{self.eap} shows none", "leave out station_key, or write eap: "
                             "TLS", ("tls", "station_key"), ("eap",))
        return self

    @model_validator(mode="after")
    def _authenticator_fits(self) -> Self:
        if self.message_authenticator and self.uses_radsec:
            raise make_fault("message_authenticator belongs to RADIUS by UDP, and transport is "
                             "radsec, where TLS protects messages", "leave out one of them",
                             ("message_authenticator",), ("transport",))
        if self.accounting and self.uses_radsec:
            raise make_fault("accounting goes by UDP here, and transport is radsec",
                             "leave out one of them", ("accounting",), ("transport",))
        return self

    @model_validator(mode="after")
    def _inner_fits_eap(self) -> Self:
        known = TUNNELS.get(self.eap, ())
        if self.inner is not None and self.inner not in known:
            raise make_fault(f"EAP-{self.eap} has no {self.inner} inside",
                             f"write inner: {' or '.join(known)}" if known else
                             "leave out inner, or write eap: PEAP or TTLS", ("inner",), ("eap",))
        if self.inner == "TLS" and self.tls is not None and self.tls.sessions == "resumed":
            raise make_fault("wpa_supplicant 2.10 does not answer the first request of a resumed "
                             "session where EAP-TLS is inside, which takes 3 s",
                             "leave out sessions, or write inner: MSCHAPV2", ("tls", "sessions"),
                             ("inner",))
        if self.inner is None and known:
            raise make_fault(f"EAP-{self.eap} is a tunnel, and the method inside is missing",
                             f"add inner: {' or '.join(known)}", ("eap",))
        return self

    @model_validator(mode="after")
    def _identity_fits_eap(self) -> Self:
        if self.identity == "anonymous" and not self.has_certificate_of_server:
            raise make_fault(f"EAP-{self.eap} needs the user's own identity in clear",
                             "leave out identity, or write eap: TLS, PEAP or TTLS", ("identity",),
                             ("eap",))
        return self

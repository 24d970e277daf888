"""Define the layers of a policy above the network layer, such as Kerberos.

They are pydantic models. `StreamLayer` is about authenticated packets of a stream, `KerberosLayer`
about realms and logins, and `ChannelLayer` about messages from host to host. `AaaLayer` names
another authentication server than FreeRADIUS. `UpperLayers` has all of them, as keys of a policy
file. A study (an experiment of this project) states which of them it runs, and refuses the others.
Daemons are configured only for `kerberos` and `aaa`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.errors import make_fault
from policies.fields import Whole

# --- AAA layer: authentication server, its operator, and the station's identity ---

#: Programs of an authentication server.
AaaServerProgram = Literal["freeradius", "hostapd"]


class AaaLayer(BaseModel):
    """The layer `aaa`: another authentication server than the home network's FreeRADIUS."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    server: AaaServerProgram = Field(
        default="freeradius", description="The server's program; EAP-AKA and EAP-AKA' are "
        "hostapd's alone.")
    authority: Literal["home", "visited"] = Field(
        default="home", description="Whose authority the server's certificate is of. The visited "
        "network's and the home network's have certified each other: either side knows its own "
        "root alone.")
    identity: Literal["permanent", "temporary"] = Field(
        default="permanent", description="What a station says it is: its subscriber's number "
        "(IMSI), or a temporary one (P-TMSI) that FreeRADIUS maps to it.")


# --- Kerberos layer: realms and logins ---
# They use MIT krb5, or programs for what was proposed before 2002. Combinations that neither
# supports are refused in one line.

class _LayerConflict(NamedTuple):
    """Settings of a layer that contradict each other, with the error's text and advice.

    `keys` are the fields to blame.
    """

    is_there: bool
    what: str
    advice: str
    keys: tuple[str, ...]


class KerberosLayer(BaseModel):
    """The layer `kerberos`: logins to realms, and tickets for the services of realms."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    by: Literal["mit", "programs"] = Field(
        default="mit", description="Whose Kerberos: MIT krb5, unmodified, or this project's "
        "programs of what was proposed before 2002.")
    initial: Literal["password", "fast", "pkinit", "anonymous"] | None = Field(
        default=None, description="How a user logs in. Left out: what the study varies.")
    agreement: Literal["dh", "rsa"] = Field(
        default="dh", description="How PKINIT of MIT's makes the reply's key.")
    realms: Literal["one", "shared-key", "pkcross", "pktapp"] = Field(
        default="one", description="Where the service is: in the user's realm, in one that shares "
        "a key, in one that PKCROSS leads to, or with a KDC of its own beside it.")
    proxy: Literal["none", "forward", "trusted", "assist"] = Field(
        default="none", description="Who stands between client and KDC: nobody, one that passes "
        "messages on, one that is told the key, or one that adds the certificates, too.")
    reply_key: Literal["kdc", "client"] = Field(
        default="kdc", description="Who makes the key of PKINIT's reply.")
    suite: Literal["era", "today"] | None = Field(
        default=None, description="Of programs: DES and RSA-1024, or AES and RSA-2048. Left out: "
        "what the study varies.")
    encryption: Literal["aes256-sha384", "aes256-sha1"] = Field(
        default="aes256-sha384", description="Of MIT's tickets and messages: RFC 8009's or RFC "
        "3962's.")
    certificate_bits: Annotated[Literal[2048, 3072, 4096], Whole] = Field(
        default=2048, description="Length of the keys in MIT's certificates for PKINIT.")
    group_bits: Annotated[Literal[2048, 4096], Whole] = Field(
        default=2048, description="Group of PKINIT's key agreement: MODP of so many bits.")
    udp_limit_bytes: Annotated[int, Field(ge=1, le=32700)] | None = Field(
        default=None, description="Longest request that goes by UDP first; 1: TCP first. Left "
        "out: the library's own 1465.")

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        conflicts = (*self._between_fields(), *(self._of_mit() if self.by == "mit"
                                                else self._of_programs()))
        for conflict in conflicts:
            if conflict.is_there:
                raise make_fault(conflict.what, conflict.advice, *((key,) for key in conflict.keys))
        return self

    def _between_fields(self) -> Iterator[_LayerConflict]:
        """Yield settings that contradict each other in every implementation of Kerberos."""
        given_fields = [name for name in ("agreement", "realms", "proxy", "reply_key")
                        if getattr(self, name) != KerberosLayer.model_fields[name].default]
        yield _LayerConflict(self.initial is None and bool(given_fields),
                             f"{(*given_fields, '')[0]} is of a login, and none is said",
                             "write initial: pkinit, or leave it out", (*given_fields, "initial"))
        yield _LayerConflict(self.proxy in ("trusted", "assist") and self.reply_key == "kdc",
                             f"proxy: {self.proxy} is told the key that a client makes, and here "
                             "the KDC makes it", "write reply_key: client, or proxy: forward",
                             ("proxy", "reply_key"))
        for name in ("proxy", "reply_key"):
            yield _LayerConflict(name in given_fields and self.initial not in (None, "pkinit"),
                                 f"{name} is for PKINIT, and the user logs in by {self.initial}",
                                 f"write initial: pkinit, or leave out {name}", (name, "initial"))
            yield _LayerConflict(name in given_fields and self.realms != "one",
                                 f"{name} is for one realm, and realms is {self.realms}",
                                 f"write realms: one, or leave out {name}", (name, "realms"))

    def _of_mit(self) -> Iterator[_LayerConflict]:
        """Yield settings that MIT Kerberos does not support."""
        yield _LayerConflict(self.realms == "pkcross", "MIT krb5 has no PKCROSS",
                             "write by: programs, or realms: shared-key", ("realms", "by"))
        yield _LayerConflict(self.proxy in ("trusted", "assist"),
                             f"proxy: {self.proxy} is not MIT's, whose proxy (IAKERB) is told no "
                             "key",
                             "write by: programs, or proxy: forward", ("proxy", "by"))
        yield _LayerConflict(self.reply_key == "client",
                             "MIT's client makes no key of PKINIT's reply",
                             "write by: programs, or reply_key: kdc", ("reply_key", "by"))
        yield _LayerConflict(self.realms != "one" and self.initial not in (None, "pkinit"),
                             f"realms: {self.realms} is measured with PKINIT alone",
                             "write initial: pkinit, or realms: one", ("realms", "initial"))
        plain = (self.initial, self.realms, self.proxy) == ("pkinit", "one", "none")
        yield _LayerConflict(self.agreement == "rsa" and not plain,
                             "agreement: rsa is for PKINIT in one realm, without a proxy",
                             "write initial: pkinit and leave out realms and proxy, or write dh",
                             ("agreement",))
        yield _LayerConflict(self.suite is not None, "suite is of the programs",
                             "write encryption, or by: programs", ("suite", "by"))

    def _of_programs(self) -> Iterator[_LayerConflict]:
        """Yield settings that qop's own programs, for protocols before 2002, do not support."""
        due = "password" if self.realms == "pkcross" else "pkinit"
        yield _LayerConflict(self.initial is None, "by: programs lacks the login",
                             "write initial: pkinit, or by: mit", ("by",))
        yield _LayerConflict(self.realms == "shared-key",
                             "the programs share no key between realms",
                             "write realms: pkcross, or by: mit", ("realms", "by"))
        yield _LayerConflict(self.initial != due, f"the programs begin realms: {self.realms} with "
                             f"{due}, not with {self.initial}", f"write initial: {due}, or by: mit",
                             ("initial", "by"))
        for name in ("agreement", "encryption", "certificate_bits", "group_bits",
                     "udp_limit_bytes"):
            yield _LayerConflict(getattr(self, name) != KerberosLayer.model_fields[name].default,
                                 f"{name} is MIT's, and by is programs",
                                 f"leave out {name}, or write by: mit", (name, "by"))


# --- Layers `stream` and `channel`, and the group of all upper layers ---

_UPPER_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)
_MOST_PACKETS = 1024
#: Packets that are signed together by default.
_BUNDLES = {"delayed": 3, "tree": 16}
_LONGEST_MS = 10_000
#: Bounds in bytes: the largest messages of a page and similar ones, and the limit of an IP
#: datagram.
_BOUNDS = (8192, 57_344)


_Percent = Annotated[int, Field(ge=0, le=100), Whole]
_Packets = Annotated[int, Field(ge=1, le=_MOST_PACKETS), Whole]


class StreamLayer(BaseModel):
    """The layer `stream`: authentication of each packet of a stream, from server to receiver."""

    model_config = _UPPER_CONFIG

    scheme: Literal["percentage", "delayed", "secret-key", "tree", "tesla"] = Field(
        description="What stands behind packets: a signature each, of which some are verified; "
        "one for a bundle; tags; one for a tree of packets; tags whose keys are told later.")
    bundle: _Packets | None = Field(
        default=None, description="Packets that are signed together, for delayed and tree. Left "
        "out: 3 and 16.")
    range: list[_Percent] = Field(
        default=[0, 100], description="Lowest and highest share of packets, in per cent, that is "
        "verified before they are used; the lowest is the floor.")
    level: _Percent | None = Field(
        default=None, description="The share that is verified at first, for percentage. Left out: "
        "the highest of the range.")
    controller: Literal["blend-1998", "delayed-first-1998", "bounded", "lyapunov"] | None = Field(
        default=None, description="What changes the setting while the stream runs; absent: "
        "nothing does.")
    limit_packets: _Packets | None = Field(
        default=None, description="How far a receiver may be behind before a controller of 1998 "
        "acts. Left out: what is asked of the run.")
    algorithm: Literal["DSA"] = Field(default="DSA", description="What signs packets.")

    @property
    def is_signed(self) -> bool:
        """Return whether packets are signed, so that a third party can verify their origin."""
        return self.scheme in ("percentage", "delayed", "tree")

    @property
    def bundle_packets(self) -> int:
        """Return how many packets of the stream are signed together."""
        return self.bundle or _BUNDLES.get(self.scheme, 1)

    @model_validator(mode="after")
    def _range_is_one(self) -> Self:
        if len(self.range) != 2:
            raise make_fault("range: two levels belong there",
                             "write [lowest, highest], in per cent",
                             ("range",))
        low, high = self.range
        if low > high:
            raise make_fault(f"range: {low} to {high} % is upside down",
                             "write the lower level first",
                             ("range",))
        return self

    @model_validator(mode="after")
    def _level_fits(self) -> Self:
        if self.level is None:
            return self
        if self.scheme != "percentage":
            raise make_fault(f"{self.scheme} verifies every packet, so that it has no level",
                             "leave out level, or write scheme: percentage", ("level",),
                             ("scheme",))
        low, high = self.range
        if not low <= self.level <= high:
            what = f"is below the floor of {low} %" if self.level < low else \
                f"is above the range, which ends at {high} %"
            raise make_fault(f"level: {self.level} % {what}", "change it, or the range", ("level",))
        return self

    @model_validator(mode="after")
    def _rest_fits(self) -> Self:
        if self.bundle is not None and self.scheme not in _BUNDLES:
            raise make_fault(f"{self.scheme} has no bundles", "leave out bundle, or write scheme: "
                             "delayed or tree", ("bundle",), ("scheme",))
        if self.limit_packets is not None and not (self.controller or "").endswith("1998"):
            raise make_fault("limit_packets is for the controllers of 1998",
                             "leave it out, or write controller: "
                             "blend-1998", ("limit_packets",), ("controller",))
        if self.controller == "bounded" and self.scheme not in _BUNDLES:
            raise make_fault("controller: bounded chooses bundles, and "
                             f"{self.scheme} has none", "write scheme: delayed or tree",
                             ("controller",),
                             ("scheme",))
        return self


class ChannelLayer(BaseModel):
    """The layer `channel`: protection of user messages from host to host, below transport.

    qop's own programs provide it.
    """

    model_config = _UPPER_CONFIG

    protocol: Literal["adp", "adp-1987"] = Field(
        description="Today's means, or those of 1987.")
    scope: Literal["none", "trailer", "all"] = Field(
        default="all", description="How much of a message is encrypted.")
    trailer: Literal["sequence", "checksum"] | None = Field(
        default=None, description="What ends a message of 1987. Left out: its number alone.")
    timeout_ms: Annotated[int, Field(ge=0, le=_LONGEST_MS), Whole] = Field(
        default=40, description="How long messages that are not urgent wait for others; 0: no "
        "message does.")
    queue_bytes: Annotated[int, Field(ge=_BOUNDS[0], le=_BOUNDS[1]), Whole] = Field(
        default=24_576, description="User data that makes a queue full.")

    @model_validator(mode="after")
    def _means_fit(self) -> Self:
        if self.protocol == "adp" and self.scope == "none":
            raise make_fault("scope: adp always authenticates",
                             "write trailer or all, or protocol: "
                             "adp-1987", ("scope",), ("protocol",))
        if self.protocol == "adp" and self.trailer is not None:
            raise make_fault("trailer: a message of adp ends with a tag of its own", "leave out "
                             "trailer, or write protocol: adp-1987", ("trailer",), ("protocol",))
        return self


class UpperLayers(BaseModel):
    """The layers above the network layer. A layer that is absent or null is switched off."""

    model_config = _UPPER_CONFIG

    stream: StreamLayer | None = Field(
        default=None, description="How a stream's packets are authenticated; absent: they are not.")
    kerberos: KerberosLayer | None = Field(
        default=None, description="Realms and logins; absent: none.")
    channel: ChannelLayer | None = Field(
        default=None, description="How messages are protected from host to host; absent: they are "
        "not.")
    aaa: AaaLayer | None = Field(
        default=None, description="Who decides on an authentication; absent: the home network's "
        "FreeRADIUS, by the name that is claimed.")

    @property
    def upper_names(self) -> list[str]:
        """Return the names of the layers that are switched on."""
        return [name for name in UpperLayers.model_fields if getattr(self, name) is not None]

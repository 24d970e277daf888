"""The Kerberos layer of a policy: realms and logins.

They use MIT krb5, or programs for what was proposed before 2002. Combinations that neither
supports are refused here, in one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from policies.errors import make_fault
from policies.fields import Whole


class _Conflict(NamedTuple):
    """A possible conflict in a layer, with its text and advice.

    `keys` are the fields to blame.
    """

    is_there: bool
    what: str
    advice: str
    keys: tuple[str, ...]


class KerberosLayer(BaseModel):
    """Logins to realms, and tickets for the services of realms."""

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

    def _between_fields(self) -> Iterator[_Conflict]:
        """Yield conflicts that no implementation can resolve."""
        said = [name for name in ("agreement", "realms", "proxy", "reply_key")
                if getattr(self, name) != KerberosLayer.model_fields[name].default]
        yield _Conflict(self.initial is None and bool(said),
                        f"{(*said, '')[0]} is of a login, and none is said",
                        "write initial: pkinit, or leave it out", (*said, "initial"))
        yield _Conflict(self.proxy in ("trusted", "assist") and self.reply_key == "kdc",
                        f"proxy: {self.proxy} is told the key that a client makes, and here the "
                        "KDC makes it", "write reply_key: client, or proxy: forward",
                        ("proxy", "reply_key"))
        for name in ("proxy", "reply_key"):
            yield _Conflict(name in said and self.initial not in (None, "pkinit"),
                            f"{name} is for PKINIT, and the user logs in by {self.initial}",
                            f"write initial: pkinit, or leave out {name}", (name, "initial"))
            yield _Conflict(name in said and self.realms != "one",
                            f"{name} is for one realm, and realms is {self.realms}",
                            f"write realms: one, or leave out {name}", (name, "realms"))

    def _of_mit(self) -> Iterator[_Conflict]:
        """Yield conflicts with the abilities of MIT krb5."""
        yield _Conflict(self.realms == "pkcross", "MIT krb5 has no PKCROSS",
                        "write by: programs, or realms: shared-key", ("realms", "by"))
        yield _Conflict(self.proxy in ("trusted", "assist"),
                        f"proxy: {self.proxy} is not MIT's, whose proxy (IAKERB) is told no key",
                        "write by: programs, or proxy: forward", ("proxy", "by"))
        yield _Conflict(self.reply_key == "client", "MIT's client makes no key of PKINIT's reply",
                        "write by: programs, or reply_key: kdc", ("reply_key", "by"))
        yield _Conflict(self.realms != "one" and self.initial not in (None, "pkinit"),
                        f"realms: {self.realms} is measured with PKINIT alone",
                        "write initial: pkinit, or realms: one", ("realms", "initial"))
        plain = (self.initial, self.realms, self.proxy) == ("pkinit", "one", "none")
        yield _Conflict(self.agreement == "rsa" and not plain,
                        "agreement: rsa is for PKINIT in one realm, without a proxy",
                        "write initial: pkinit and leave out realms and proxy, or write dh",
                        ("agreement",))
        yield _Conflict(self.suite is not None, "suite is of the programs",
                        "write encryption, or by: programs", ("suite", "by"))

    def _of_programs(self) -> Iterator[_Conflict]:
        """Yield conflicts with the abilities of the programs of protocols before 2002."""
        due = "password" if self.realms == "pkcross" else "pkinit"
        yield _Conflict(self.initial is None, "by: programs lacks the login",
                        "write initial: pkinit, or by: mit", ("by",))
        yield _Conflict(self.realms == "shared-key", "the programs share no key between realms",
                        "write realms: pkcross, or by: mit", ("realms", "by"))
        yield _Conflict(self.initial != due, f"the programs begin realms: {self.realms} with "
                        f"{due}, not with {self.initial}", f"write initial: {due}, or by: mit",
                        ("initial", "by"))
        for name in ("agreement", "encryption", "certificate_bits", "group_bits",
                     "udp_limit_bytes"):
            yield _Conflict(getattr(self, name) != KerberosLayer.model_fields[name].default,
                            f"{name} is MIT's, and by is programs",
                            f"leave out {name}, or write by: mit", (name, "by"))

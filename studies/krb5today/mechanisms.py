"""Define the login methods (mechanisms) of MIT krb5, with the commands to run.

A `LoginMechanism` describes one method, such as SPAKE or PKINIT with Diffie-Hellman.
`login_command` returns the kinit command of a method. The module also runs in the guest (virtual
machine), and uses the standard library only. `studies.krb5today` lists the terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

LOCAL, REMOTE, APP = "LOCAL.TEST", "REMOTE.TEST", "APP.TEST"
USER = "alice"


def service_principal(realm: str) -> str:
    """Return the name of the application server's principal, such as `host/app.local.test`.

    The host name depends on the realm. The part `@REALM` is not included.
    """
    return f"host/app.{realm.lower()}"


@dataclass(frozen=True)
class LoginMechanism:
    """A login method of MIT krb5.

    - `initial`: method for the first ticket
    - `realm`: realm of the KDC that issues the first ticket
    - `target`: realm of the service to which the client then authenticates ("" for none)
    - `agrees_by`: how PKINIT creates the key of the reply
    - `is_armoured`: the login is protected by FAST
    - `is_direct`: the first ticket is already that of the service (PKTAPP)
    - `is_proxied`: the application server forwards the messages (IAKERB)
    - `needs`, `lacking`: bytes that the installed PKINIT plugin must contain, and the message if
      not
    """

    title: str
    initial: Literal["spake", "pkinit", "anonymous"]
    agrees_by: Literal["DH", "ECDH", "RSA"] = "DH"
    is_armoured: bool = False
    is_direct: bool = False
    is_proxied: bool = False
    realm: str = LOCAL
    target: str = ""
    needs: bytes = b""
    lacking: str = ""

    @property
    def agreement(self) -> str:
        """Return the key agreement of PKINIT, such as DH, or "" without PKINIT."""
        return "" if self.initial == "spake" else self.agrees_by


MECHANISMS: Mapping[str, LoginMechanism] = {
    "spake": LoginMechanism("password, SPAKE", "spake"),
    "fast": LoginMechanism("password in FAST, armour held", "spake", is_armoured=True),
    "pkinit-dh": LoginMechanism("PKINIT, DH", "pkinit"),
    "pkinit-rsa": LoginMechanism(
        "PKINIT, RSA", "pkinit", agrees_by="RSA", needs=b"flag_RSA_PROTOCOL",
        lacking="this krb5 has no RSA mode (taken out in 1.22); choose pkinit-dh, or a machine "
        "with krb5 1.21 or before"),
    "pkinit-ecdh": LoginMechanism(
        "PKINIT, ECDH", "pkinit", agrees_by="ECDH", needs=b"P-256",
        lacking="this krb5 has no ECDH in PKINIT (it came with 1.22), and Debian's other KDC, "
        "Heimdal, is built without it; choose pkinit-dh, or a machine with krb5 1.22"),
    "anonymous": LoginMechanism("anonymous PKINIT, DH", "anonymous"),
    "cross-realm": LoginMechanism("PKINIT, then another realm's service", "pkinit", target=REMOTE),
    "pktapp": LoginMechanism("PKTAPP: a KDC beside the application server", "pkinit",
                             is_direct=True, realm=APP, target=APP),
    "iakerb": LoginMechanism("IAKERB: PKINIT through the application server", "pkinit",
                             is_proxied=True, target=LOCAL),
}
#: Curve that is at least as strong as the KDC's weakest group (MODP with this number of bits), in
#: the order of MIT's `pkinit_dh_min_bits`.
CURVES: Mapping[int, str] = {2048: "P-256", 4096: "P-384"}
#: Mechanisms that are measured under load: a login and nothing else.
LOADED = ("spake", "fast", "pkinit-dh", "pkinit-rsa", "anonymous")


def login_command(mechanism: LoginMechanism, pkinit: str, certificate: tuple[str, str], cache: str,
                  armour: str) -> list[str]:
    """Return the command that gets the first ticket.

    Args:
        mechanism: the login method.
        pkinit: folder of certificates and keys.
        certificate: names of the files of certificate and key, without suffix.
        cache: ticket cache for the ticket.
        armour: ticket cache with the anonymous ticket of FAST.
    """
    argv = ["kinit", "-c", cache]
    if mechanism.initial == "anonymous":
        return [*argv, "-n", f"@{mechanism.realm}"]
    if mechanism.initial == "pkinit":
        argv += ["-X", f"X509_user_identity={pkinit_identity(pkinit, certificate)}"]
        argv += ["-X", "flag_RSA_PROTOCOL=yes"] if mechanism.agrees_by == "RSA" else []
    argv += ["-T", armour] if mechanism.is_armoured else []
    argv += ["-S", service_principal(mechanism.realm)] if mechanism.is_direct else []
    return [*argv, f"{USER}@{mechanism.realm}"]


def pkinit_identity(pkinit: str, certificate: tuple[str, str]) -> str:
    """Return certificate and key in MIT krb5's syntax for PKINIT identities."""
    return f"FILE:{pkinit}/{certificate[0]}.pem,{pkinit}/{certificate[1]}.key"

"""Negative controls: deviations of a client from its mechanism.

The module also runs in the guest and uses the standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LoginControl:
    """A negative control in the client.

    `certificate` and `key` are the presented files. With `trusts_rogue`, the client itself trusts
    the authority of its certificate. Otherwise it would never present the certificate. With
    `is_believed`, the KDC trusts this authority too. `clock` is the shift of the client's clock, as
    faketime has it. With `types`, the user enters the password at the prompt. With `is_mutual`, the
    server must authenticate itself. `instead` replaces the cell's mechanism. With `tells`, the
    client sends its session key after each login (`telling`). With `babbles`, it sends the KDC a
    malformed message.
    """

    title: str
    certificate: str = "user"
    key: str = "user"
    trusts_rogue: bool = False
    is_believed: bool = False
    clock: str = ""
    types: bool = False
    is_mutual: bool = True
    instead: str = ""
    tells: bool = False
    babbles: bool = False


NOTHING = LoginControl("nothing")
CONTROLS: Mapping[str, LoginControl] = {
    "wrong-user": LoginControl("the client shows another user's certificate", "another-user",
                               "another-user"),
    "no-purpose": LoginControl("the client's certificate says that its key is for something else",
                               "no-purpose", "no-purpose"),
    "unfitting-key": LoginControl("the client signs with a key that does not fit its certificate",
                                  "user", "another-user"),
    "rogue-authority": LoginControl("the client's certificate is by an authority of its own",
                                    "rogue", "rogue", trusts_rogue=True),
    "believed-authority": LoginControl(
        "client and KDC trust the authority that the client's certificate is by, which is not the "
        "run's: the login succeeds", "rogue", "rogue", trusts_rogue=True, is_believed=True),
    "expired-certificate": LoginControl("the client's certificate has expired", "expired",
                                        "expired"),
    "clock-skew": LoginControl("the client's clock is 20 minutes ahead", clock="+20m"),
    "password-typed": LoginControl("PKINIT fails, and the user types the password when asked: the "
                                   "login succeeds", "rogue", "rogue", types=True),
    "dh-instead": LoginControl("DH where RSA is asked for", instead="pkinit-dh"),
    "no-armour": LoginControl("a password without FAST where FAST is asked for", instead="spake"),
    "past-the-proxy": LoginControl("the client goes to the KDC itself where a proxy is asked for",
                                   instead="around"),
    "through-a-login": LoginControl("a ticket got with a login's ticket where PKTAPP is asked for",
                                    instead="through a login"),
    "in-one-realm": LoginControl("a service of the user's own realm where another one's is asked "
                                 "for", instead="in one realm"),
    "unanswered": LoginControl("the client does not ask the server to prove itself",
                               is_mutual=False),
    "told-key": LoginControl("the client tells its session key in a request that nobody needs",
                             tells=True),
    "no-message": LoginControl("the client sends the KDC what is no message of Kerberos",
                               babbles=True),
}

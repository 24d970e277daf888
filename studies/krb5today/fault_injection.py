"""Define faults (negative controls) in which a client logs in otherwise than required.

Examples are another user's certificate, or a password in place of PKINIT. A `LoginControl` says
what the client does. `clients.py` applies it, and `faults.py` names the checks that must then fail.
The module also runs in the guest (virtual machine), and uses the standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LoginControl:
    """An injected fault in the client.

    - `certificate`, `key`: files that the client presents
    - `trusts_rogue`: the client trusts the wrong authority of its certificate. Otherwise it would
      never present it.
    - `is_believed`: the KDC trusts this authority, too
    - `clock`: shift of the client's clock, as faketime expects it
    - `types`: the user enters the password at the prompt
    - `is_mutual`: the server must authenticate itself
    - `instead`: another login method than the measured one
    - `tells`: the client sends its session key after each login (`key_disclosure`)
    - `babbles`: the client sends a malformed message to the KDC
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


NO_DEVIATION = LoginControl("nothing")
CONTROLS: Mapping[str, LoginControl] = {
    "wrong-user": LoginControl("the client shows another user's certificate", "another-user",
                               "another-user"),
    "no-purpose": LoginControl("the client's certificate has another extended key usage",
                               "no-purpose", "no-purpose"),
    "unfitting-key": LoginControl("the client signs with a key that does not fit its certificate",
                                  "user", "another-user"),
    "rogue-authority": LoginControl("the client's certificate is from an unknown authority",
                                    "rogue", "rogue", trusts_rogue=True),
    "believed-authority": LoginControl(
        "client and KDC trust the authority that the client's certificate is by, which is not the "
        "run's: the login succeeds", "rogue", "rogue", trusts_rogue=True, is_believed=True),
    "expired-certificate": LoginControl("the client's certificate has expired", "expired",
                                        "expired"),
    "clock-skew": LoginControl("the client's clock is 20 minutes ahead", clock="+20m"),
    "password-typed": LoginControl("PKINIT fails, and the user types the password at the prompt: "
                                   "the login succeeds", "rogue", "rogue", types=True),
    "dh-instead": LoginControl("DH where RSA is required", instead="pkinit-dh"),
    "no-armour": LoginControl("a password without FAST where FAST is required", instead="spake"),
    "past-the-proxy": LoginControl("the client goes to the KDC itself where a proxy is required",
                                   instead="around"),
    "through-a-login": LoginControl("a ticket obtained with the login's ticket where PKTAPP "
                                    "is required",
                                    instead="through a login"),
    "in-one-realm": LoginControl("a service of the user's own realm where another one's is "
                                 "required", instead="in one realm"),
    "unanswered": LoginControl("the client does not require mutual authentication",
                               is_mutual=False),
    "told-key": LoginControl("the client sends its session key in an additional request",
                             tells=True),
    "no-message": LoginControl("the client sends the KDC a malformed message",
                               babbles=True),
}

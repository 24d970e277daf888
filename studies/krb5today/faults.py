"""List the faults that the study krb5today injects into Kerberos logins on purpose.

They are negative controls. Each entry names the combination of factors to measure, and the checks
that must then fail. So a check that cannot fail is noticed. `fault_injection.py` describes what
clients do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from studies import policy_factors
from studies.krb5today import cells
from studies.krb5today.fault_injection import CONTROLS
from studies.policy_factors import change_layer
from studies.study import Fault

_USED, _COUNTED = "requested login method is used", "every login has its ticket"
_LENGTHS = "encryption and lengths are the policy's"
#: Mechanisms of the controls that are not shown with PKINIT by DH. Failing checks of the controls
#: whose login is not refused.
_MECHANISMS: Mapping[str, str] = {"dh-instead": "pkinit-rsa", "no-armour": "fast",
                                  "past-the-proxy": "iakerb", "through-a-login": "pktapp",
                                  "in-one-realm": "cross-realm", "unanswered": "pktapp"}
_FAILS: Mapping[str, tuple[str, ...]] = {
    "believed-authority": ("signatures verify",),
    "password-typed": (_USED, "tickets name the login method"), "dh-instead": (_USED,),
    "no-armour": (_USED,),
    "past-the-proxy": ("the client reaches the proxy only",
                       "the proxy forwards messages unchanged"),
    "through-a-login": ("the ticket is the service's own",),
    "in-one-realm": ("the other realm issues the service's ticket",),
    "unanswered": ("client and server prove the key",),
    "told-key": ("no key in clear",), "no-message": ("messages follow the schema",)}


def _control_cell(mechanism: str, wire: str = "lan") -> dict[str, str]:
    return dict(zip(cells.NAMES, cells.cell_ids(mechanism, wire), strict=True))


def _create_fault(name: str) -> Fault:
    return Fault(CONTROLS[name].title, on=_control_cell(_MECHANISMS.get(name, "pkinit-dh")),
                 fails=_FAILS.get(name, (_COUNTED, _USED)))


def _other_layer(title: str, mechanism: str, check: str, **changes: Any) -> Fault:
    """Create a fault in which the login uses other settings than the policy's."""
    return Fault(title, policy=change_layer("kerberos", **changes), on=_control_cell(mechanism),
                 fails=(check,))


FAULTS: Mapping[str, Fault] = {
    **{name: _create_fault(name) for name in CONTROLS},
    "other-encryption": _other_layer("AES with SHA-1 in place of AES with SHA-384", "fast",
                                     _LENGTHS, encryption="aes256-sha1"),
    "other-group": _other_layer("PKINIT agrees a key by 4096 bits in place of 2048", "pkinit-dh",
                                _LENGTHS, group_bits=4096),
    "other-certificates": _other_layer("certificates with keys of 3072 bits in place of 2048",
                                       "pkinit-rsa", _LENGTHS, certificate_bits=3072),
    "other-transport": _other_layer("TCP where UDP is required", "fast",
                                    "requests go by the policy's transport", udp_limit_bytes=1),
    "login-without-wep": policy_factors.make_wep_fault(
        "neither end of the air has WEP",
        {**_control_cell("spake", policy_factors.AIR), "policy": "P2", "scenario": "N2"}),
}

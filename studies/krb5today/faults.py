"""The negative controls as the engine is told of them: where each is shown, and what fails there.

What is done otherwise is in `controls`, which runs inside the machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies import mobile
from studies.krb5today import design
from studies.krb5today.controls import CONTROLS
from studies.study import Fault

_USED, _COUNTED = "the mechanism that was asked for", "every login has its ticket"
#: Cells of those that are not shown with PKINIT by DH, and what does not fail as a refusal does.
_MECHANISMS: Mapping[str, str] = {"dh-instead": "pkinit-rsa", "no-armour": "fast",
                                  "past-the-proxy": "iakerb"}
_FAILS: Mapping[str, tuple[str, ...]] = {
    "password-typed": (_USED, "tickets open and say how"), "dh-instead": (_USED,),
    "no-armour": (_USED,),
    "past-the-proxy": ("the client reaches the proxy only", "the proxy passes messages on")}


def _on(mechanism: str, wire: str = "lan") -> dict[str, str]:
    return dict(zip(design.NAMES, design.ids(mechanism, wire), strict=True))


def _fault(name: str) -> Fault:
    return Fault(CONTROLS[name].title, on=_on(_MECHANISMS.get(name, "pkinit-dh")),
                 fails=_FAILS.get(name, (_COUNTED, _USED)))


FAULTS: Mapping[str, Fault] = {
    **{name: _fault(name) for name in CONTROLS},
    "login-without-wep": mobile.without_wep(
        "neither end of the air has WEP",
        {**_on("spake", mobile.AIR), "policy": "P2", "scenario": "N2"}),
}

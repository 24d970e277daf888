"""The negative controls by name: what is wrong in each, and where it is shown, what fails.

A KRB-ERROR in a reply's place is no message of the protocol, so that what was to follow is missing.
Those without a cell are refused as early and fail the same checks as others; each one's code is
that of a test of the protocol's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from studies.kerberos2002 import design
from studies.study import Fault

_ORDER, _SIGNED = "messages in the protocol's order", "signatures and keys verify"
_DONE = "operations are the protocol's"
_TOLD, _CHAINS = "the proxy opens what it was told", "chains stay behind the proxy"


def _control(title: str, protocol: str, fails: Sequence[str]) -> Fault:
    """One that its workload does, in a transaction of a protocol on the test bed."""
    return Fault(title, on=dict(zip(design.NAMES, design.ids(protocol), strict=True)), fails=fails)


FAULTS: Mapping[str, Fault] = {
    "wrong-user": Fault("the client shows another user's certificate"),
    "no-purpose": Fault("the client's certificate does not say what its key is for"),
    "unfitting-key": Fault("the client signs with a key that does not fit its certificate"),
    "rogue-authority": Fault("the client's certificate is by an authority of its own"),
    "expired-certificate": Fault("the client's certificate has expired"),
    "clock-skew": Fault("the client's clock is 20 minutes ahead"),
    "weak-client-key": Fault("the client makes a weak key (client session key)"),
    "password-instead": _control("the client uses its password where PKINIT is asked for (mobile)",
                                 "m-standard", (_DONE, _ORDER)),
    "replayed-ap-request": _control("the client's last request is sent again", "m-standard",
                                    (_ORDER, _SIGNED)),
    "wrong-pkcross-key": _control("the remote KDC has lost its secret PKCROSS key (PKCROSS)",
                                  "pkcross", (_ORDER, _SIGNED)),
    "beyond-policy": Fault("the local KDC issues longer tickets than the remote one allows "
                           "(PKCROSS)"),
    "proxy-with-another-key": _control(
        "the proxy has another key than the client knows (trusted, assist)", "mp-assist",
        (_DONE, _ORDER, _SIGNED, _TOLD, _CHAINS)),
    "stale-chain": Fault("the proxy adds a chain that has expired (assist)"),
}

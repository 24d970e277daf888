"""The negative controls by name: what is wrong in each, a cell that shows it, and what fails there.

A KRB-ERROR in a reply's place is no message of the protocol, so that what was to follow is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from studies import mobile
from studies.kerberos2002 import design
from studies.study import Fault

_ORDER, _SIGNED = "messages in the protocol's order", "signatures and keys verify"
_DONE, _OPENED = "operations are the protocol's", "only the right key opens each part"
_TOLD = "the proxy opens what it was told"
#: What a refused request fails, and one whose KDC has done all its operations before it refuses.
_REFUSED = (_DONE, _ORDER, _SIGNED)
_REFUSED_LATE = (_ORDER, _SIGNED)


def _control(title: str, protocol: str, fails: Sequence[str]) -> Fault:
    """One that its workload does, in a transaction of a protocol on the test bed."""
    return Fault(title, on=dict(zip(design.NAMES, design.ids(protocol), strict=True)), fails=fails)


FAULTS: Mapping[str, Fault] = {
    "wrong-user": _control("the client shows another user's certificate", "m-standard", _REFUSED),
    "no-purpose": _control("the client's certificate does not say what its key is for",
                           "m-standard", _REFUSED),
    "unfitting-key": _control("the client signs with a key that does not fit its certificate",
                              "m-standard", _REFUSED),
    "rogue-authority": _control("the client's certificate is by an authority of its own",
                                "m-standard", _REFUSED),
    "expired-certificate": _control("the client's certificate has expired", "m-standard",
                                    _REFUSED),
    "clock-skew": _control("the client's clock is 20 minutes ahead", "m-standard", _REFUSED),
    "weak-client-key": _control("the client makes a weak key (client session key)", "m-client-key",
                                _REFUSED),
    "password-instead": _control("the client uses its password where PKINIT is asked for (mobile)",
                                 "m-standard", _REFUSED),
    "replayed-ap-request": _control("the client's last request is sent again", "m-standard",
                                    _REFUSED_LATE),
    "wrong-pkcross-key": _control("the remote KDC has lost its secret PKCROSS key (PKCROSS)",
                                  "pkcross", _REFUSED_LATE),
    "beyond-policy": _control("the local KDC issues longer tickets than the remote one allows "
                              "(PKCROSS)", "pkcross", _REFUSED_LATE),
    "proxy-with-another-key": _control("the proxy has another key than the client knows (trusted, "
                                       "assist)", "mp-assist", (*_REFUSED, _TOLD)),
    "stale-chain": _control("the proxy adds a chain that has expired (assist)", "mp-assist",
                            _REFUSED),
    "login-without-wpa": Fault(
        "neither end of the air has WPA", policy=mobile.without_link,
        on={**dict(zip(design.NAMES, design.ids("m-client-key", wire=mobile.AIR), strict=True)),
            "policy": "M2", "scenario": "N2"}, fails=()),
}

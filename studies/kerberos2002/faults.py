"""List the faults that the study kerberos2002 injects into Kerberos logins on purpose.

They are negative controls. Each entry names the login protocol to measure, and the checks that must
then fail. So a check that cannot fail is noticed. If a KDC answers by an error, later messages are
missing, and their checks fail, too. With seven faults the login still succeeds:

- a password, or a key made by the client, in place of the required one
- a proxy that is bypassed, that gets a key, or that has no chain to add
- a key that two services share
- a message in BER that is not DER

`studies.kerberos2002` lists the terms.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies.kerberos2002 import cells
from studies.study import Fault

_ORDER, _SIGNED = "messages in the protocol's order", "signatures and keys verify"
_DONE, _OWN = "operations are as the protocol requires", "only the right key opens each part"
_CLEAR, _WAY = "no key in clear", "pre-authentication is as the protocol requires"
_TOLD, _CHAINS = "the proxy opens only the key that it was given", "chains stay behind the proxy"
_NEAR, _PASSED = "the client reaches the proxy only", "the proxy forwards messages unchanged"


def _make_control(title: str, protocol: str, *fails: str) -> Fault:
    """Create a fault that the workload injects into a login by the given protocol."""
    return Fault(title, on=dict(zip(cells.NAMES, cells.cell_ids(protocol), strict=True)),
                 fails=fails)


FAULTS: Mapping[str, Fault] = {
    "wrong-user": _make_control("the client shows another user's certificate", "m-standard",
                                _DONE, _ORDER, _SIGNED),
    "no-purpose": _make_control("the client's certificate has no extended key usage",
                                "m-standard", _DONE, _ORDER, _SIGNED),
    "unfitting-key": _make_control("the client signs with a key that does not fit its certificate",
                                   "m-standard", _DONE, _ORDER, _SIGNED),
    "rogue-authority": _make_control("the client's certificate is from an unknown authority",
                                     "m-standard", _DONE, _ORDER, _SIGNED),
    "expired-certificate": _make_control("the client's certificate has expired", "m-standard",
                                         _DONE, _ORDER, _SIGNED),
    "byte-changed": _make_control(
        "the proxy changes a bit in forwarded messages (store and forward)",
                                  "mp-standard", _DONE, _ORDER, _SIGNED, _PASSED),
    "clock-skew": _make_control("the client's clock is 20 minutes ahead", "m-standard",
                                _DONE, _ORDER, _SIGNED),
    "weak-client-key": _make_control("the client makes a weak key (client session key)",
                                     "m-client-key",
                                     _ORDER, _SIGNED, _CLEAR),
    "password-instead": _make_control(
        "the client uses its password where PKINIT is required (mobile)",
                                      "m-standard", _DONE, _ORDER, _WAY),
    "client-key-instead": _make_control(
        "the client makes the reply's key where the KDC is to (mobile)",
                                        "m-standard", _DONE, _WAY),
    "replayed-ap-request": _make_control("the client's last request is sent again", "m-standard",
                                         _ORDER, _SIGNED),
    "wrong-pkcross-key": _make_control("the remote KDC has lost its secret PKCROSS key (PKCROSS)",
                                       "pkcross", _ORDER, _SIGNED),
    "beyond-policy": _make_control("the local KDC issues longer tickets than the remote one allows "
                                   "(PKCROSS)", "pkcross", _ORDER, _SIGNED),
    "proxy-with-another-key": _make_control(
        "the proxy has another key than the client knows (trusted, assist)", "mp-assist",
        _DONE, _ORDER, _SIGNED, _TOLD, _CHAINS),
    "stale-chain": _make_control("the proxy adds a chain that has expired (assist)", "mp-assist",
                                 _DONE, _ORDER, _SIGNED, _TOLD, _CHAINS),
    "past-the-proxy": _make_control("the client goes to the KDC itself where a proxy is required",
                                    "mp-standard", _ORDER, _NEAR),
    "told-anyway": _make_control("the client gives its key to a proxy that should only forward",
                                 "mp-client-key", _DONE, _TOLD),
    "chain-by-radio": _make_control("the client sends its chain itself, which the proxy is to add "
                                    "(assist)", "mp-assist", _CHAINS),
    "other-encoding": _make_control("the server's last message is encoded in another way than the "
                                    "schema's", "m-standard", "messages follow the schema"),
    "one-key-for-two": _make_control("the server has the key that the realm's tickets are under",
                                     "m-standard", _OWN),
}

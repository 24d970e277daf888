"""List the faults that the study eapload2004 injects on purpose (negative controls).

Examples are a load at half of its rate, or a server without session cache. Each entry names the
combination of factors to measure, and the checks that must then fail. So a check that cannot fail
is noticed. The study is about EAP-TLS at a loaded RADIUS server. `studies.eapload2004` lists the
terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies import Policy
from studies.eapload2004.cells import NAMES, TODAYS, USUAL_FRAGMENT_BYTES, cell_ids
from studies.policy_factors import Change, change_layer
from studies.study import Fault, StudyError


def _cell_levels(**changes: str) -> Mapping[str, str]:
    """Return the factor values of a fault: the paper's experiment, except for `changes`."""
    return dict(zip(NAMES, cell_ids(**changes), strict=True))


def _change_tls(**changes: Any) -> Change:
    """Return a function that copies a policy with other settings of TLS."""
    def change_policy(policy: Policy) -> Policy:
        layer = policy.layers.dot1x
        if layer is None or layer.tls is None:
            raise StudyError(f"policy {policy.id}: has no settings of TLS, which the control "
                             "changes; choose method=tls")
        return change_layer("dot1x", tls=layer.tls.model_copy(update=changes))(policy)
    return change_policy


_LOADED, _ALONE, _NEAR = _cell_levels(load="20"), _cell_levels(load="0"), _cell_levels(
    load="0", path="near")
_TEMPORARY = _cell_levels(load="0", identity="p-tmsi")
_AKA = _cell_levels(load="0", method="aka", server="hostapd", hss="40")
_POST_QUANTUM = _cell_levels(load="0", **TODAYS["ML-DSA-65, X25519MLKEM768"])
#: Devices that have times of ML-DSA.
_NEW_DEVICES = {"server_device": "epyc-openssl", "client_device": "epyc-openssl"}

CONTROLS: Mapping[str, Fault | str] = {
    "no-cache": Fault("the server's session cache is switched off, against the policy",
                      on=_cell_levels(sessions="resumed"), fails=("certificates", "resumption")),
    "longer-chain": Fault("the supplicant shows a certificate more than its policy has",
                          on=_ALONE, fails=("policy",)),
    "other-fragments": Fault("the server cuts TLS into fragments that are 4 bytes longer",
                             policy=_change_tls(fragment_bytes=USUAL_FRAGMENT_BYTES + 4),
                             on=_ALONE, fails=("policy",)),
    "classical-certificates": Fault("certificates of RSA-2048 in place of ML-DSA-65",
                                    policy=_change_tls(key="rsa-2048"), on=_POST_QUANTUM,
                                    sets=_NEW_DEVICES, fails=("policy",)),
    "classical-group": Fault("a key agreement by X25519 alone, without ML-KEM",
                             policy=_change_tls(group="x25519"), on=_POST_QUANTUM,
                             sets=_NEW_DEVICES, fails=("policy",)),
    "half-rate": Fault("the background comes at half of its rate", on=_LOADED,
                       fails=("offered load",)),
    "even-gaps": Fault("the background comes at its rate, but in equal gaps", on=_LOADED,
                       fails=("gaps",)),
    "late-arrivals": Fault("everybody in the background begins 2 ms late", on=_LOADED,
                           fails=("lateness",)),
    "late-sample": Fault("the capture of the background begins when that has begun", on=_LOADED,
                         fails=("background",)),
    "one-fewer": Fault("the supplicant authenticates once less than requested", on=_ALONE,
                       fails=("authentications",)),
    "longer-way": Fault("the path to the server takes 10 ms more than configured", on=_ALONE,
                        fails=("round trip",)),
    "around-the-proxy": Fault("the access point sends to the server itself, past the proxy",
                              on=_cell_levels(path="proxied"), fails=("path",)),
    "half-processor": Fault("the server's processor is half as fast as its device model",
                            on=_ALONE, fails=("demands",)),
    "late-frames": Fault("every second request to the supplicant is as late as one sent again",
                         on=_ALONE, fails=("losses on the air",)),
    "request-lost": Fault("a request to the server is lost, and sent again", on=_ALONE,
                          fails=("no retransmission",)),
    "server-stopped": Fault("the server is stopped for a second", on=_LOADED,
                            fails=("no stall",)),
    "uncharged": Fault("the server's signatures take none of its processor's time", on=_NEAR,
                       fails=("signatures",)),
    "expired-certificate": Fault("the supplicant's certificate has expired", on=_ALONE,
                                 secrets={"station.certificate": "expired"}),
    "rogue-authority": Fault("the supplicant trusts another authority than the server's",
                             on=_ALONE, secrets={"station.trust": "rogue"}),
    "another-identity": Fault("the supplicant claims an identity that is not its certificate's",
                              on=_ALONE, secrets={"station.eap_identity": "somebody-else"}),
    "denied-identity": Fault("the server denies the subscriber, by the permanent number",
                             on=_TEMPORARY, secrets={"network.denied": "001010123456789"}),
    "other-offer": Fault("the server offers EAP-MD5 first, which the station refuses",
                         policy=change_layer("dot1x", first_offer="MD5"), on=_TEMPORARY,
                         fails=("packets",)),
    "no-cross-certificate": Fault("a near server does not send the certificate of its authority",
                                  on=_NEAR, secrets={"gateway.cross": "unknown"}),
    "permanent-identity": Fault("the station claims its permanent number, for all to see",
                                policy=change_layer("aaa", identity="permanent"), on=_TEMPORARY,
                                fails=("identity",)),
    "home-authority": Fault("a near server's certificate is of the home network's authority",
                            policy=change_layer("aaa", authority="home"), on=_NEAR,
                            fails=("authority",)),
    "wrong-key": Fault("the card has another key than the subscriber server", on=_AKA,
                       secrets={"card.key_hex": ""}),
    "stale-sequence": Fault("the card has seen later sequence numbers than its server made",
                            on=_AKA, secrets={"card.sqn": "100000000"}, fails=("challenges",)),
    "hss-down": Fault("the subscriber server is stopped while the server waits for it", on=_AKA),
    "killed": Fault("the load generator is killed in the first repetition, the server in the next",
                    on=_LOADED)}

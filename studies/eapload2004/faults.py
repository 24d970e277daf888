"""List the faults that the study eapload2004 injects on purpose (negative controls).

Examples are a load at half of its rate, or a server without session cache. Each entry names the
combination of factors to measure, and the checks that must then fail. So a check that cannot fail
is noticed. The study is about EAP-TLS at a loaded RADIUS server. `studies.eapload2004` lists the
terms.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies.eapload2004.cells import NAMES, cell_ids
from studies.policy_factors import change_layer
from studies.study import Fault


def _cell_levels(**changes: str) -> Mapping[str, str]:
    """Return the factor values of a fault: the paper's experiment, except for `changes`."""
    return dict(zip(NAMES, cell_ids(**changes), strict=True))


_LOADED, _ALONE, _NEAR = _cell_levels(load="20"), _cell_levels(load="0"), _cell_levels(
    load="0", path="near")
_TEMPORARY = _cell_levels(load="0", identity="p-tmsi")
_AKA = _cell_levels(load="0", method="aka", server="hostapd", hss="40")

CONTROLS: Mapping[str, Fault | str] = {
    "no-cache": Fault("the server's session cache is switched off, against the policy",
                      on=_cell_levels(sessions="resumed"), fails=("certificates", "resumption")),
    "longer-chain": Fault("the supplicant shows a certificate more than its policy has",
                          on=_ALONE, fails=("policy",)),
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

"""Check that a station refuses a RADIUS server whose certificate has another name.

Once in a testbed, the RADIUS server shows the mobile node a certificate of its own authority with
another name (`AttachmentSteps.check_port`). `check_server_name` takes the policy's settings of TLS
and the captures of a repetition (one measurement of a policy). The station must end TLS with an
alert, and EAP must fail. In the measured authentications, the server must have the right name.
"""

from __future__ import annotations

from collections.abc import Sequence

from measure.capture import tshark
from measure.capture.tcpdump import OTHER_NAME
from measure.checks.observation import Check, Observation, join_values
from measure.packets import eap
from measure.packets.eap import InnerEapFrame
from policies import TlsSettings

#: Alerts with which a client refuses a certificate (RFC 8446, 6.2). OpenSSL's is internal_error if
#: the program refuses it, as wpa_supplicant does for a name.
_ALERTS = {42: "bad_certificate", 43: "unsupported_certificate", 46: "certificate_unknown",
           80: "internal_error"}
_ENDS = {tshark.EAP_SUCCESS: "EAP-Success", tshark.EAP_FAILURE: "EAP-Failure"}
_CERTIFICATE = 11


def check_server_name(tls: TlsSettings, observed: Observation) -> Check:
    """Check that the station accepts servers with the policy's name alone.

    Args:
        tls: The policy's settings of TLS, with the name or domain of the server.
        observed: The results of the repetition.
    """
    file, raw = observed.capture_path(f"port-{OTHER_NAME}"), observed.raw.get("other_name", {})
    frames = eap.read_inner_eap_frames(file, raw.get("tls_keys", ())) if file.exists() else []
    others = _shown_names(frames, observed.mac)
    shown = [_shown_names(stay, observed.mac)
             for stay in observed.select_full(observed.split_by_attachment(observed.inside))]
    alerts = [alert for frame in frames if frame.source == observed.mac for alert in frame.alerts
              if alert in _ALERTS]
    ends = [frame.code for frame in frames if frame.code in _ENDS]
    is_refused = bool(others) and not any(map(tls.is_accepted_name, others)) and bool(alerts) \
        and bool(ends) and set(ends) == {tshark.EAP_FAILURE}
    is_right = bool(shown) and all(names and all(map(tls.is_accepted_name, names))
                                   for names in shown)
    answers = [*(f"TLS alert {_ALERTS[alert]}" for alert in dict.fromkeys(alerts)),
               *map(_ENDS.__getitem__, dict.fromkeys(ends))]
    return Check("server with another name is refused", is_refused and is_right,
                 f"once in this testbed, certificate for {_join_names(others)} in place of "
                 f"{join_values([*map(_join_names, shown)]) or 'nobody'}: "
                 f"{', '.join(answers) or 'no answer'}; the station's log: "
                 f"{raw.get('cause') or '-'}")


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody"


def _shown_names(frames: Sequence[InnerEapFrame], mac: str) -> list[str]:
    """Return the DNS names in certificates that a station receives, once each."""
    return list(dict.fromkeys(
        name for frame in frames if frame.source != mac and _CERTIFICATE in frame.handshakes
        for name in frame.dns_names))

"""Find in a capture why TLS inside EAP failed, such as a refused certificate.

These are rules of `qop explain` for EAP-TLS, PEAP and TTLS (`TLS_RULES`). Each rule takes the
`Evidence` of one negotiation (all messages of a station that joins or roams). It yields a
`Finding`: a cause, a text and the frames that show it, such as a TLS alert. In TLS 1.3 alerts are
encrypted, and known by their length alone. `measure.explain.causes` runs the rules.
`find_encrypted_certificate` returns the message that ends the station's certificate in TLS 1.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure.capture import tshark
from measure.explain import messages
from measure.explain.evidence import LARGE_EAP_BYTES, Evidence, Finding, list_frames
from measure.explain.messages import EAP, IDENTITY, RADIUS, TLS_1_3, Message

#: Handshake messages of TLS.
CERTIFICATE, CLIENT_KEY_EXCHANGE = 11, 16
#: TLS alerts (RFC 8446, 6.2) of a client that refuses the server's certificate.
_DISTRUST = {42: "bad certificate", 43: "unsupported certificate", 44: "certificate revoked",
             45: "certificate expired", 46: "certificate unknown", 48: "unknown CA"}
_ALERTS = _DISTRUST | {40: "handshake failure", 47: "illegal parameter", 49: "access denied",
                       51: "decrypt error", 70: "protocol version", 71: "insufficient security",
                       80: "internal error", 113: "bad certificate status response",
                       116: "certificate required"}
_PROTOCOL_VERSION, _INTERNAL_ERROR = 70, 80
_CLIENT_HELLO, _TLS_1_2, _EAP_TLS = 1, 0x0303, 13
#: EAP-TLS, TTLS, PEAP and TEAP, which begin with the station's hello.
_TLS_METHODS = (_EAP_TLS, 21, 25, 55)
_TLS_VERSIONS = {0x0301: "TLS 1.0", 0x0302: "TLS 1.1", _TLS_1_2: "TLS 1.2", TLS_1_3: "TLS 1.3"}
#: Number of cipher suites from which a station counts as able to agree with any server.
_MANY_SUITES = 8
#: Length of an EAP-TLS packet without TLS data, and with an encrypted alert.
#: The alert has 24 bytes, with the length and a change of cipher specification up to 34.
_ACKNOWLEDGEMENT_BYTES, _ALERT_BYTES = 10, range(30, 42)
#: Length of the field with the total length, which the first fragment has.
_LENGTH_BYTES = 4


def find_encrypted_certificate(evidence: Evidence) -> Message | None:
    """Return the end of the station's certificate in EAP-TLS with TLS 1.3, or None.

    It is the station's first message with content after the server's flight.
    """
    responses = [m for m in _after_hello_1_3(evidence.negotiation.of_phase(EAP, RADIUS))
                 if m.frame.packet.eap_code == messages.EAP_RESPONSE]
    if not responses or responses[0].frame.packet.eap_type != _EAP_TLS:
        return None
    size = responses[0].frame.get_number("eap.len") or 0
    if size in _ALERT_BYTES:
        return None
    # Fragments are of equal size, except for the last one.
    same = [m for m in responses if (m.frame.get_number("eap.len") or 0) >= size - _LENGTH_BYTES]
    has_more = size >= LARGE_EAP_BYTES and len(responses) > len(same)
    return responses[len(same)] if has_more else responses[0]


def _after_hello_1_3(sent: Sequence[Message]) -> list[Message]:
    """Return the messages with content after the server's hello of TLS 1.3."""
    # The last one, because a hello may ask for another group first.
    hello = next((place for place, m in reversed(list(enumerate(sent)))
                  if m.has_hello_1_3), None)
    return [] if hello is None else [
        m for m in sent[hello + 1:]
        if (m.frame.get_number("eap.len") or 0) > _ACKNOWLEDGEMENT_BYTES]


def _tls_alerts(evidence: Evidence) -> Iterator[Finding]:
    sent = evidence.negotiation.of_phase(EAP, RADIUS)
    for place, message in enumerate(sent):
        kind = message.frame.get_number("tls.alert_message.desc")
        if kind:  # 0 closes a connection
            yield _name_alert(kind, message, sent[:place])
            return


def _list_flights(sent: Sequence[Message]) -> list[Message]:
    """Return the station's TLS messages with content in the newest attempt.

    Their places say what they are: the first one is the hello. On a wire, several authentications
    share ports, and tshark takes the later ones for encrypted.
    """
    flights: list[Message] = []
    for message in sent:
        packet = message.frame.packet
        if packet.eap_code == messages.EAP_RESPONSE:
            if packet.eap_type == IDENTITY:
                flights = []
            elif (message.frame.get_number("eap.len") or 0) > _ACKNOWLEDGEMENT_BYTES:
                flights.append(message)
    return flights


def _name_alert(kind: int, message: Message, before: Sequence[Message]) -> Finding:
    by_station = message.frame.packet.eap_code == messages.EAP_RESPONSE
    # wpa_supplicant says so of a certificate with another name than the expected one.
    is_of_name = kind == _INTERNAL_ERROR and by_station and len(_list_flights(before)) == 1
    if kind == _PROTOCOL_VERSION:
        cause = "tls-version-refused"
    elif kind in _DISTRUST or is_of_name:
        cause = "server-not-trusted" if by_station else "client-certificate-refused"
    else:
        cause = "tls-refused"
    return Finding(cause, f"{'the station' if by_station else 'the server'} ends TLS with "
                   f"'{_ALERTS.get(kind, f'alert {kind}')}'" + " right after the server's "
                   "certificate" * is_of_name, list_frames(message))


def _find_rejection(evidence: Evidence) -> Iterator[Finding]:
    sent = evidence.negotiation.of_phase(EAP, RADIUS)
    rejected = next((m for m in sent if m.is_rejection), None)
    if not rejected or any(m.frame.get_number("tls.alert_message.desc") for m in sent):
        return
    before = [m for m in sent if m.time_s < rejected.time_s]
    found = (_find_encrypted_alert(before) or _find_refused_hello(before)
             or _find_refused_certificate(evidence, before))
    if found:
        yield found
    else:
        yield Finding("rejected-by-server", f"{rejected.name} without a TLS alert: the credentials "
                      "or the server's rules", list_frames(rejected))


def _find_encrypted_alert(sent: Sequence[Message]) -> Finding | None:
    """Return the finding of a TLS 1.3 alert, which is encrypted and known by its length alone.

    It counts as the station's if that is the first of its messages after the server's flight. It
    counts as the server's in EAP-TLS only, where no other short message comes before a failure.
    """
    filled = _after_hello_1_3(sent)
    responses = [m for m in filled if m.frame.packet.eap_code == messages.EAP_RESPONSE]
    if len(responses) == 1 and (responses[0].frame.get_number("eap.len") or 0) in _ALERT_BYTES:
        return Finding("server-not-trusted", "after the server's certificate the station sends an "
                       "encrypted TLS alert, by its length", list_frames(responses[0]))
    last = filled[-1] if filled else None
    is_servers = last and last.frame.packet.eap_code == tshark.EAP_REQUEST
    if last and is_servers and last.frame.packet.eap_type == _EAP_TLS and (
            last.frame.get_number("eap.len") or 0) in _ALERT_BYTES:
        return Finding("client-certificate-refused", "after the station's certificate the server "
                       "sends an encrypted TLS alert, by its length", list_frames(last))
    return None


def _find_refused_hello(sent: Sequence[Message]) -> Finding | None:
    """Return the finding of a rejection that follows the station's hello, without an alert.

    FreeRADIUS rejects so if it has no version or cipher suite in common with the station. A station
    with many suites has one in common with any server of its version.
    """
    last = next((m for m in reversed(sent)
                 if m.frame.packet.eap_code == messages.EAP_RESPONSE), None)
    if last is None or last.frame.packet.eap_type not in _TLS_METHODS or (
            last not in _list_flights(sent)[:1]):
        return None
    if _CLIENT_HELLO not in last.frame.packet.tls_handshakes:
        return Finding("tls-refused", "the server rejects right after the station's hello",
                       list_frames(last))
    offered = (last.frame.get_numbers("tls.handshake.extensions.supported_version")
               or last.frame.get_numbers("tls.handshake.version"))
    suites = last.frame.get_numbers("tls.handshake.ciphersuite")
    version = max(offered, default=0)
    name = _TLS_VERSIONS.get(version, f"version {version:#06x}")
    text = f"the server rejects after a hello with at most {name} and {len(suites)} cipher suites"
    cause = ("tls-version-refused" if version < _TLS_1_2 or (
        version == _TLS_1_2 and len(suites) >= _MANY_SUITES) else "tls-refused")
    return Finding(cause, text, list_frames(last))


def _find_refused_certificate(evidence: Evidence, sent: Sequence[Message]) -> Finding | None:
    """Return the finding of a rejection that follows the station's certificate, without an alert.

    A server that takes the certificate completes TLS before it rejects.
    """
    last = next((m for m in reversed(sent)
                 if m.frame.packet.eap_code == messages.EAP_RESPONSE), None)
    if last is None or last.frame.packet.eap_type != _EAP_TLS or not (
            last in _list_flights(sent)[1:] or last is find_encrypted_certificate(evidence)):
        return None
    return Finding("client-certificate-refused", "the server rejects after the station's "
                   "certificate, before TLS is complete", list_frames(last))


TLS_RULES = (_tls_alerts, _find_rejection)

"""Find which security policy a captured network uses, such as WPA2 with EAP-TLS.

`read_policy` takes a negotiation: the captured messages of a station that joins or roams. It
returns a `SeenPolicy`: cipher, AKM suite, frame protection, EAP method, TLS version, and whether
the data frames are really protected. `judge_outcome` returns whether the negotiation succeeded,
with the reason. `qop explain` uses both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from measure.capture import tshark
from measure.explain import messages
from measure.explain.messages import ASSOCIATION, EAP, IDENTITY, NAK, RADIUS, STATION, Message
from measure.explain.negotiations import Negotiation

#: Cipher and AKM suites (IEEE 802.11-2020, tables 9-149 and 9-151; OWE: RFC 8110).
CIPHERS = {1: "WEP-40", 2: "TKIP", 4: "CCMP", 5: "WEP-104", 8: "GCMP", 9: "GCMP-256",
           10: "CCMP-256"}
AKMS = {1: "802.1X", 2: "PSK", 3: "FT-802.1X", 4: "FT-PSK", 5: "802.1X-SHA256", 6: "PSK-SHA256",
        8: "SAE", 9: "FT-SAE", 11: "Suite-B", 12: "Suite-B-192", 13: "FT-802.1X-SHA384",
        14: "FILS-SHA256", 15: "FILS-SHA384", 16: "FT-FILS-SHA256", 17: "FT-FILS-SHA384",
        18: "OWE", 24: "SAE-EXT", 25: "FT-SAE-EXT"}
#: AKM suites for fast transition.
FAST_AKMS = frozenset({3, 4, 9, 13, 16, 17, 25})
#: Headers of protected frames by cipher; those of CCMP and GCMP are the same.
_HEADERS = {"TKIP": "TKIP", "WEP-40": "WEP", "WEP-104": "WEP"}
_TLS_VERSIONS = {0x0301: "1.0", 0x0302: "1.1", 0x0303: "1.2", messages.TLS_1_3: "1.3"}
#: Handshake messages of a full handshake up to TLS 1.2: Certificate, or ServerKeyExchange without a
#: certificate.
_FULL_HANDSHAKE = frozenset({11, 12})
#: Extension of a server's hello that resumes a session of TLS 1.3 (RFC 8446, 4.2.11).
_PRE_SHARED_KEY = 41
FULL, RESUMED = "full", "resumed"
#: Fewest data frames from which a statement on all of them is made.
_FEWEST_FRAMES = 2


@dataclass(frozen=True)
class SeenPolicy:
    """The policy that a negotiation shows. "" and None stand for what the capture does not say."""

    cipher: str = ""
    akm: str = ""
    pmf: str = ""
    eap: str = ""
    tls: str = ""
    #: Whether the TLS handshake was in full or resumed a session: `FULL` or `RESUMED`.
    session: str = ""
    #: Sizes of the certificates that server and station sent, in bytes.
    certificates_bytes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    ike: str = ""
    #: Whether data frames are protected as agreed, and the counts behind that.
    is_in_force: bool | None = None
    evidence: str = ""

    @property
    def short_name(self) -> str:
        """Return the policy in a few words, "" if nothing of it is visible."""
        return ", ".join(filter(None, (
            self.akm, self.cipher, self.pmf and f"PMF {self.pmf}", self.eap,
            self.tls and f"TLS {self.tls}" + " resumed" * (self.session == RESUMED), self.ike)))


def read_policy(negotiation: Negotiation) -> SeenPolicy:
    """Return the policy that a negotiation shows."""
    request = negotiation.association_request
    packet = request.frame.packet if request else None
    cipher = CIPHERS.get(packet.rsn_cipher or 0, "") if packet else ""
    akm = AKMS.get(packet.rsn_akm or 0, "") if packet else ""
    is_in_force, evidence = _judge_data(negotiation, cipher)
    return SeenPolicy(cipher, akm, _frame_protection(negotiation), _eap_method(negotiation),
                      _tls_version(negotiation), _tls_session(negotiation),
                      _certificate_sizes(negotiation),
                      next((m.frame.packet.ike_suite for m in reversed(negotiation.messages)
                            if m.frame.packet.ike_suite), ""), is_in_force, evidence)


def _frame_protection(negotiation: Negotiation) -> str:
    for message in negotiation.of_phase(ASSOCIATION):
        if message.sender == STATION and message.frame.packet.rsn_akm:
            return describe_protection(message.frame.parse_management())
    return ""


class _Protection(Protocol):
    """An end of a link that says how it protects management frames."""

    @property
    def can_protect(self) -> bool:
        """Return whether protected management frames are supported."""

    @property
    def requires_protection(self) -> bool:
        """Return whether protected management frames are required."""


def describe_protection(end: _Protection) -> str:
    """Return whether protected management frames are `required`, `capable` or `off` at an end."""
    if end.requires_protection:
        return "required"
    return "capable" if end.can_protect else "off"


def _eap_packets(negotiation: Negotiation) -> Iterator[messages.Message]:
    yield from negotiation.of_phase(EAP) or negotiation.of_phase(RADIUS)


def _eap_method(negotiation: Negotiation) -> str:
    kinds = [m.frame.packet.eap_type for m in _eap_packets(negotiation)
             if m.frame.packet.eap_type not in (None, IDENTITY, 2, NAK)]
    return messages.EAP_METHODS.get(kinds[-1] or 0, f"EAP type {kinds[-1]}") if kinds else ""


def _server_hellos(negotiation: Negotiation) -> Iterator[messages.Message]:
    return (message for message in _eap_packets(negotiation)
            if messages.SERVER_HELLO in message.frame.packet.tls_handshakes)


def _tls_version(negotiation: Negotiation) -> str:
    for message in _server_hellos(negotiation):
        numbers = (message.frame.get_numbers("tls.handshake.extensions.supported_version")
                   or message.frame.get_numbers("tls.handshake.version"))
        return _TLS_VERSIONS.get(numbers[0], "") if numbers else ""
    return ""


def _tls_session(negotiation: Negotiation) -> str:
    """Return how the newest TLS handshake began, "" without a server's hello.

    Up to TLS 1.2, a server that resumes a session sends neither certificate nor key exchange.
    """
    hello = next(reversed([*_server_hellos(negotiation)]), None)
    if hello is None:
        return ""
    if hello.has_hello_1_3:
        is_resumed = _PRE_SHARED_KEY in hello.frame.get_numbers("tls.handshake.extension.type")
    else:
        is_resumed = not any(_FULL_HANDSHAKE & {*message.frame.packet.tls_handshakes}
                             for message in _eap_packets(negotiation)
                             if message.time_s >= hello.time_s
                             and message.frame.packet.eap_code == tshark.EAP_REQUEST)
    return RESUMED if is_resumed else FULL


def _certificate_sizes(negotiation: Negotiation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes (bytes) of the TLS certificates that the server and the station sent."""
    shown: tuple[list[int], list[int]] = ([], [])
    for message in _eap_packets(negotiation):
        is_station = message.frame.packet.eap_code == messages.EAP_RESPONSE
        shown[is_station].extend(message.frame.get_numbers("tls.handshake.certificate_length"))
    return tuple(shown[0]), tuple(shown[1])


def _judge_data(negotiation: Negotiation, cipher: str) -> tuple[bool | None, str]:
    """Judge whether the data frames are protected with the agreed cipher.

    Returns:
        Whether they are (None if unknown), and the number of frames by cipher ("" with too few).
    """
    data = negotiation.data
    if not negotiation.is_wireless or data.count < _FEWEST_FRAMES:
        return None, ""
    clear = data.ciphers.get("", 0)
    shown = ", ".join(f"{count} {cipher or 'in clear'}" for cipher, count
                      in data.ciphers.most_common())
    text = f"{data.count} data frames: {shown}"
    if clear == data.count:
        has_keys = any(m.frame.packet.rsn_akm for m in negotiation.of_phase(ASSOCIATION)) or \
            negotiation.of_phase(messages.FOUR_WAY)
        return (False if has_keys else None), text
    [*headers] = data.ciphers
    expected = _HEADERS.get(cipher, "CCMP or GCMP") if cipher else headers[0]
    return clear == 0 and headers == [expected], text


#: Errors of Kerberos after which the client goes on: with pre-authentication, over TCP, in another
#: realm (RFC 4120, 7.5.9), and within pre-authentication (RFC 6113).
_KERBEROS_GOES_ON = frozenset({25, 52, 68, 90, 91})
_AS_REQ, _AS_REP = 10, 11


class Outcome(NamedTuple):
    """The end of a negotiation: `success`, `failure` or "" (cannot tell), with the reason.

    `message` is the one that shows the reason, None without one.
    """

    result: str
    reason: str = ""
    message: Message | None = None


def judge_outcome(  # noqa: PLR0911 # a way to end each
        negotiation: Negotiation) -> Outcome:
    """Return how a negotiation ended."""
    refused = _find_refusal(negotiation)
    if refused:
        return refused
    joined = [m for m in negotiation.messages if m.phase in (
        messages.AUTHENTICATION, ASSOCIATION, EAP, RADIUS, messages.FOUR_WAY)]
    if not joined:
        end = negotiation.messages[-1]
        error = None if _has_ticket(negotiation) else end.frame.get_number("kerberos.error_code")
        if error is not None and error not in _KERBEROS_GOES_ON:
            return Outcome("failure", f"{end.name} with code {error}", end)
        if negotiation.is_answered and error is None:
            return Outcome("success")
        return Outcome("", f"the capture has no answer to {end.name}")
    last = joined[-1]
    if last.phase == messages.FOUR_WAY and last.frame.key_message in (4, None):
        return Outcome("success")
    if last.phase == ASSOCIATION and last.sender != STATION and _needs_no_keys(negotiation):
        return Outcome("success")
    if last.phase in (EAP, RADIUS) and (
            last.frame.packet.eap_code == tshark.EAP_SUCCESS
            or last.frame.packet.radius_code == messages.ACCESS_ACCEPT):
        return Outcome("success", "" if not negotiation.is_wireless
                       else "no keys follow in the capture")
    if negotiation.is_ended:
        end = negotiation.messages[-1]
        return Outcome("failure", f"{end.name} after {last.name}", end)
    if negotiation.data.ciphers.total() > negotiation.data.ciphers.get("", 0):
        return Outcome("success", "the end of the negotiation is not in the capture")
    return Outcome("", f"the capture ends after {last.name}")


def _has_ticket(negotiation: Negotiation) -> bool:
    """Return whether the newest Kerberos login succeeded. Later errors are of services."""
    kinds = [message.frame.get_number("kerberos.msg_type") for message in negotiation.messages]
    return [kind for kind in kinds if kind in (_AS_REQ, _AS_REP)][-1:] == [_AS_REP]


def _find_refusal(negotiation: Negotiation) -> Outcome | None:
    for message in negotiation.messages:
        if message.is_rejection:
            return Outcome("failure", message.name, message)
        if message.phase == ASSOCIATION and message.sender != STATION:
            status = message.frame.parse_management().status
            if status:
                return Outcome("failure", f"{message.name} with status {status}", message)
    return None


def _needs_no_keys(negotiation: Negotiation) -> bool:
    has_policy = any(m.frame.packet.rsn_akm for m in negotiation.of_phase(ASSOCIATION)) or (
        not negotiation.association_request and negotiation.network and negotiation.network.akms)
    return negotiation.is_fast or not has_policy

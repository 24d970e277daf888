"""Find causes of slow or failed exchanges above the link in a capture, such as DHCP.

These are rules of `qop explain` for DHCP, ARP, IKE, WireGuard and Kerberos (`UPPER_RULES`). Each
rule takes the `Evidence` of one negotiation: all messages of a station that joins, or of a tunnel
that is set up. It yields a `Finding` for each cause: a name, a text and the frames that show it.
`measure.explain.causes` runs the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from measure.explain import messages
from measure.explain.evidence import Evidence, Finding, list_frames
from measure.explain.messages import STATION, Message

#: Time in s from which DHCP counts as slow.
_DHCP_S = 1.0
#: Keys of WireGuard are refused after 180 s, and renewed after 120 s of use (its white paper, 6.1).
_WIREGUARD_IDLE_S = 60.0
#: Notifications of IKEv2 (RFC 7296, 3.10.1), the first two also of IKEv1.
_NO_PROPOSAL, _AUTHENTICATION_FAILED, _INVALID_KE, _COOKIE = 14, 24, 17, 16390
_TS_UNACCEPTABLE = 38
#: Length of an encrypted IKEv2 message with one notification, of any cipher.
_IKE_ERROR_BYTES = range(52, 97)
#: Error codes of Kerberos (RFC 4120, 7.5.9).
_SKEW, _PREAUTH_FAILED = 37, 24
_DHCP_ACK, _DHCP_NAK = 5, 6


def _slow_dhcp(evidence: Evidence) -> Iterator[Finding]:
    sent = evidence.negotiation.of_phase(messages.DHCP)
    if not sent:
        return
    refused = next((m for m in sent if m.frame.get_number("dhcp.option.dhcp") == _DHCP_NAK), None)
    if refused:
        yield Finding("dhcp-refused", "the server refuses the address", list_frames(refused))
    # Informs and renewals may follow.
    last = next((m for m in sent if m.frame.get_number("dhcp.option.dhcp") == _DHCP_ACK), sent[-1])
    duration_s = last.time_s - sent[0].time_s
    again = [each for each in evidence.again_of(messages.DHCP)
             if each.again.time_s <= last.time_s]
    if duration_s >= _DHCP_S or again:
        yield Finding("dhcp-slow", f"{duration_s:.3f} s of DHCP, {len(again)} messages sent again",
                      list_frames(sent[0], last), duration_s)


def _stalled_arp(evidence: Evidence) -> Iterator[Finding]:
    again = evidence.again_of(messages.ARP)
    if again:
        cost_s = again[-1].again.time_s - again[0].first.time_s
        yield Finding("arp-stall", f"{len(again) + 1} ARP requests for "
                      f"{again[0].first.frame.get_text('arp.dst.proto_ipv4')} in {cost_s:.3f} s",
                      list_frames(again[0].first, *(each.again for each in again)), cost_s)


def _failed_ike(evidence: Evidence) -> Iterator[Finding]:
    causes = {_NO_PROPOSAL: ("ike-no-proposal", "no proposal is acceptable"),
              _TS_UNACCEPTABLE: ("ike-no-proposal", "no traffic selector is acceptable"),
              _AUTHENTICATION_FAILED: ("ike-authentication-failed", "authentication failed"),
              _INVALID_KE: ("ike-group-refused", "the group is refused, which takes a round trip"),
              _COOKIE: ("ike-cookie", "the responder demands a cookie, which takes a round trip")}
    for message in evidence.negotiation.of_phase(messages.IKE):
        for kind in message.frame.get_numbers("isakmp.notify.msgtype"):
            if kind in causes and message.sender != STATION:
                cause, text = causes[kind]
                gap = next((each for each in evidence.gaps if each.after is message), None)
                yield Finding(cause, text, list_frames(message), gap.duration_s if gap else 0.0)
    yield from _find_encrypted_ike_error(evidence.negotiation.of_phase(messages.IKE))
    again = evidence.again_of(messages.IKE)
    if again:
        yield Finding("ike-retransmission", f"{len(again)} IKE messages sent again",
                      list_frames(*(m for each in again for m in (each.first, each.again))),
                      sum(each.again.time_s - each.first.time_s for each in again))


def _find_encrypted_ike_error(sent: Sequence[Message]) -> Iterator[Finding]:
    """Yield the finding of an encrypted error that ends an IKEv2 negotiation, by its length.

    A success has identity, authentication and traffic selectors, which take more.
    """
    last = sent[-1] if sent else None
    size = last.frame.get_number("isakmp.length") if last else None
    if last and last.sender != STATION and last.name == "IKE_AUTH" and (
            size in _IKE_ERROR_BYTES):
        yield Finding("ike-authentication-failed", f"the negotiation ends with {last.name} of "
                      f"{size} bytes, which has room for an error only", list_frames(last))


def _unanswered_wireguard(evidence: Evidence) -> Iterator[Finding]:
    sent = evidence.negotiation.of_phase(messages.WIREGUARD)
    idle_s = evidence.negotiation.idle_before_s
    if sent and idle_s is not None and idle_s >= _WIREGUARD_IDLE_S:
        cost_s = sent[-1].time_s - sent[0].time_s
        yield Finding("wireguard-after-idle", f"the tunnel was idle for {idle_s:.0f} s; data waits "
                      f"{cost_s:.3f} s for the handshake", list_frames(sent[0], sent[-1]), cost_s)
    again = evidence.again_of(messages.WIREGUARD)
    if again:
        cost_s = again[-1].again.time_s - again[0].first.time_s
        yield Finding("wireguard-unanswered", f"{len(again) + 1} initiations in {cost_s:.3f} s",
                      list_frames(again[0].first, *(each.again for each in again)), cost_s)


def _refused_kerberos(evidence: Evidence) -> Iterator[Finding]:
    causes = {_SKEW: ("kerberos-clock-skew", "the clocks differ by more than is allowed"),
              _PREAUTH_FAILED: ("kerberos-wrong-password", "pre-authentication failed")}
    for message in evidence.negotiation.of_phase(messages.KERBEROS):
        kind = message.frame.get_number("kerberos.error_code")
        if kind in causes:
            cause, text = causes[kind]
            yield Finding(cause, text, list_frames(message))

UPPER_RULES = (_slow_dhcp, _stalled_arp, _failed_ike, _unanswered_wireguard, _refused_kerberos)

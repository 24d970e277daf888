"""Find in a capture why an association was refused or ended.

These are rules of `qop explain` for 802.11 authentication and association (`REFUSAL_RULES`). Each
rule takes the `Evidence` of one negotiation (all messages of a station that joins or roams). It
yields a `Finding`: status or reason code, the frames that show it, and offers that do not match,
such as AKM suites. `measure.explain.causes` runs the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from measure.explain.evidence import Evidence, Finding, list_frames
from measure.explain.messages import ASSOCIATION, AUTHENTICATION, STATION, Message
from measure.explain.negotiations import Negotiation, Network
from measure.explain.policy import AKMS, CIPHERS, describe_protection
from measure.packets.management_frames import FILS, SAE, SAE_STATUSES

#: Statuses with which an access point refuses fast transition (IEEE 802.11-2020, table 9-50).
FAST_REFUSALS = {28: "R0 key holder unreachable", 52: "invalid FT action frame count",
                 53: "invalid PMKID", 54: "invalid mobility domain", 55: "invalid FT element"}
_REASONS = {
    1: "unspecified", 2: "authentication no longer valid", 3: "station is leaving",
    4: "inactivity", 5: "access point is full", 6: "frame of a station that is not authenticated",
    7: "frame of a station that is not associated", 8: "station is leaving", 13: "invalid element",
    14: "MIC failure", 15: "4-way handshake timeout", 16: "group key handshake timeout",
    17: "RSN element differs", 18: "invalid group cipher", 19: "invalid pairwise cipher",
    20: "invalid AKM", 22: "invalid RSN capabilities", 23: "802.1X authentication failed",
    24: "cipher rejected", 34: "poor channel conditions"}
_PMF, _AKM, _CIPHER = "pmf-mismatch", "akm-mismatch", "cipher-mismatch"
#: What statuses and reasons say alone (IEEE 802.11-2020, tables 9-50 and 9-49).
_STATUS_CAUSES = {31: _PMF, 41: _CIPHER, 42: _CIPHER, 43: _AKM, 46: _CIPHER}
_REASON_CAUSES = {18: _CIPHER, 19: _CIPHER, 20: _AKM, 24: _CIPHER}
#: Those that leave open what does not match: unspecified, invalid element, RSN capabilities.
_VAGUE_STATUSES, _VAGUE_REASONS = (1, 40, 45), (1, 13, 17, 22)
#: Status for an authentication algorithm that the access point does not support.
_ALGORITHM_REFUSED = 13


def _refused_association(evidence: Evidence) -> Iterator[Finding]:
    negotiation = evidence.negotiation
    for message in negotiation.of_phase(AUTHENTICATION, ASSOCIATION):
        managed = message.frame.parse_management()
        status = managed.status
        is_confirm = (managed.algorithm, managed.sequence) == (SAE, 2)  # has a rule of its own
        is_plain = message.sender != STATION and status and not (
            message.phase == AUTHENTICATION and (
                status in FAST_REFUSALS or status in SAE_STATUSES or is_confirm))
        if not is_plain or status is None:
            continue
        cause = _STATUS_CAUSES.get(status, "")
        if status == _ALGORITHM_REFUSED and managed.algorithm in (SAE, *FILS):
            cause = _AKM
        if status in _VAGUE_STATUSES and message.phase == ASSOCIATION:
            cause = _compare_offers(negotiation)
        yield _name_refusal(negotiation, message, cause or "association-refused",
                            f"{message.name} with status {status}")


def _name_refusal(negotiation: Negotiation, message: Message, cause: str, text: str) -> Finding:
    """Return the finding of a refusal, with the settings of both sides if they do not match."""
    if cause not in _DESCRIPTIONS:
        return Finding(cause, text, list_frames(message))
    request = negotiation.association_request
    return Finding(cause, f"{text}; {_DESCRIPTIONS[cause](request, negotiation.network)}",
                   list_frames(*([request] if request else []), message))


def _compare_offers(negotiation: Negotiation) -> str:
    """Return the cause that the offers of station and access point show, "" without one."""
    request, network = negotiation.association_request, negotiation.network
    if request is None or network is None or not network.akms:
        return ""
    station, packet = request.frame.parse_management(), request.frame.packet
    if packet.rsn_akm and packet.rsn_akm not in network.akms:
        return _AKM
    if (network.requires_protection and not station.can_protect) or (
            station.requires_protection and not network.can_protect):
        return _PMF
    return ""


def _describe_protection(request: Message | None, network: Network | None) -> str:
    return (f"PMF is {describe_protection(network) if network else 'unknown'} at the access point "
            f"and {describe_protection(request.frame.parse_management()) if request else 'unknown'}"
            " at the station")


def _describe_akms(request: Message | None, network: Network | None) -> str:
    akm = AKMS.get(request.frame.packet.rsn_akm or 0, "another AKM") if request else "SAE or FILS"
    offered = ", ".join(AKMS.get(number, f"AKM {number}") for number in network.akms
                        ) if network else ""
    return (f"the station asks for {akm}" + f", and the beacons offer {offered}" * bool(offered))


def _describe_ciphers(request: Message | None, _network: Network | None) -> str:
    cipher = CIPHERS.get(request.frame.packet.rsn_cipher or 0, "") if request else ""
    return f"the station asks for {cipher or 'another cipher'}"


_DESCRIPTIONS: Mapping[str, Callable[[Message | None, Network | None], str]] = {
    _PMF: _describe_protection, _AKM: _describe_akms, _CIPHER: _describe_ciphers}


def _find_deauthentication(evidence: Evidence) -> Iterator[Finding]:
    negotiation = evidence.negotiation
    if not negotiation.is_ended:
        return
    last = negotiation.messages[-1]
    if last.sender == STATION:
        return
    reason = last.frame.get_number("wlan.fixed.reason_code")
    name = _REASONS.get(reason or 0, "")
    why = "whose reason is encrypted" if reason is None else (
        f"reason {reason}" + (f" ({name})" if name else ""))
    yield Finding("deauthenticated", f"the access point ends with {last.name}, {why}",
                  list_frames(last))
    cause = _REASON_CAUSES.get(reason or 0, "")
    if reason in _VAGUE_REASONS:
        cause = _compare_offers(negotiation)
    if cause:
        yield _name_refusal(negotiation, last, cause, f"{last.name}, {why}")


REFUSAL_RULES = (_refused_association, _find_deauthentication)

"""Find the causes of slow or failed negotiations, each with the frames that show it.

A negotiation is all messages of one station that joins or roams, or of one tunnel that is set up.
`find_causes` takes a negotiation with its waits and repeated messages, and returns findings. Each
`Finding` has a cause, a text, frames and the time that it cost. The rules are the functions below,
and those of `causes_above`, `causes_refused` and `causes_tls`. docs/explain-causes.md explains
every cause, its evidence and its cure. `qop explain` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from measure.capture import tshark
from measure.explain import messages
from measure.explain.causes_above import UPPER_RULES
from measure.explain.causes_refused import FAST_REFUSALS, REFUSAL_RULES
from measure.explain.causes_tls import (
    CERTIFICATE,
    CLIENT_KEY_EXCHANGE,
    TLS_RULES,
    find_encrypted_certificate,
)
from measure.explain.evidence import (
    LARGE_EAP_BYTES,
    Evidence,
    Finding,
    finding_from_gap,
    list_frames,
)
from measure.explain.messages import (
    ACCESS_POINT,
    ASSOCIATION,
    AUTHENTICATION,
    EAP,
    FOUR_WAY,
    GROUP_KEY,
    IDENTITY,
    NAK,
    NETWORK,
    RADIUS,
    SERVER,
    STATION,
    Message,
)
from measure.explain.negotiations import Mark, Negotiation, Network
from measure.explain.policy import FAST_AKMS
from measure.explain.timing import NEXT, Gap, Repeated
from measure.packets.management_frames import FAST_TRANSITION, SAE

#: Waits from which a node counts as late, in s. A server on the same continent takes less.
_LATE_S, _STATION_LATE_S = 0.2, 0.5
#: Waits for a person, and of FreeRADIUS before a reject (reject_delay: 1 s by default), in s.
_PROMPT_S, _REJECT_DELAY_S = 2.0, (0.5, 5.5)
_SCAN_S = 0.5
#: Time in s in which a station without a person answers, and time after which nobody answers.
_AT_ONCE_S, _SILENCE_S = 0.1, 5.0
_RETRIES, _RETRY_SHARE = 5, 0.5
#: Shares of time from which a channel counts as busy: of captured frames of others, which are a
#: part of all, and of the utilization that an access point states (IEEE 802.11-2020, 9.4.2.27).
_BUSY_SHARE, _BUSY_LOAD = 0.5, 0.7
_REPLAY_COUNTER = "eapol.keydes.replay_counter"
_PSK_AKMS = frozenset({2, 4, 6})
#: Reason with which an access point ends an association after an unanswered group key.
_GROUP_KEY_TIMEOUT = 16


def find_causes(negotiation: Negotiation, gaps: Sequence[Gap],
                repeated: Sequence[Repeated]) -> list[Finding]:
    """Return the findings of a negotiation, failures first, then by the time that they took."""
    again = {each.again.frame.reference for each in repeated if not each.is_link}
    answered = [gap for gap in gaps if gap.after.frame.reference not in again]
    evidence = Evidence(negotiation, answered, repeated)
    found = [finding for rule in _RULES for finding in rule(evidence)]
    return sorted(found, key=lambda each: (each.cause not in _FAILURES, -each.cost_s))


# --- Who was late ---

def _late_network(evidence: Evidence) -> Iterator[Finding]:
    for gap in evidence.gaps:
        if gap.waited_for not in (NETWORK, SERVER) or gap.duration_s < _LATE_S or (
                gap.after.phase not in (EAP, RADIUS) or _sleeps_in(evidence, gap)):
            continue
        if _starts_over(gap.after) and gap.before.frame.packet.eap_code == messages.EAP_RESPONSE:
            continue  # no answer, but another attempt
        who = ("the server" if gap.waited_for == SERVER
               else "the network side (server or access point: the air cannot tell)")
        if gap.after.is_rejection:
            low, high = _REJECT_DELAY_S
            if low <= gap.duration_s <= high:
                yield finding_from_gap("reject-delay", f"for {who} before {gap.after.name}",
                                       gap)
                continue
        yield finding_from_gap(_late_cause(evidence, gap.before),
                               f"for {who} after {gap.before.name}", gap)


def _late_cause(evidence: Evidence, before: Message) -> str:
    kinds = before.frame.packet.tls_handshakes
    if CERTIFICATE in kinds or CLIENT_KEY_EXCHANGE in kinds or (
            before is find_encrypted_certificate(evidence)):
        return "server-stall-after-certificate"
    return "late-radius"


def _late_access_point(evidence: Evidence) -> Iterator[Finding]:
    for gap in evidence.gaps:
        is_first_key = gap.after.phase == FOUR_WAY and gap.waited_for == NEXT
        if _is_unseen_before(evidence.negotiation, gap.after):
            yield finding_from_gap("key-message-lost", f"before {gap.after.name}, whose replay "
                                   "counter shows an earlier one that is not in the capture", gap)
        elif gap.duration_s >= _LATE_S and not _sleeps_in(evidence, gap) and (
                is_first_key or (gap.waited_for == ACCESS_POINT and gap.after.phase != RADIUS)):
            yield finding_from_gap("late-access-point",
                                   f"for the access point before {gap.after.name}", gap)


def _is_unseen_before(negotiation: Negotiation, message: Message) -> bool:
    """Return whether an earlier message 3 of the handshake is not in the capture.

    Each key message of the access point has the next replay counter.
    """
    if message.phase != FOUR_WAY or message.frame.key_message != 3:
        return False
    counts = [m.frame.get_number(_REPLAY_COUNTER) for m in negotiation.of_phase(FOUR_WAY)
              if m.sender != STATION and m.time_s <= message.time_s]
    return len(counts) > 1 and (counts[-1] or 0) > (counts[-2] or 0) + 1


def _sleeps_in(evidence: Evidence, gap: Gap) -> Mark | None:
    """Return the frame in a gap in which the station says that it goes to sleep, or None."""
    return next((mark for mark in evidence.negotiation.dozes
                 if gap.before.time_s <= mark.time_s < gap.after.time_s), None)


def _power_save(evidence: Evidence) -> Iterator[Finding]:
    for gap in evidence.gaps:
        mark = _sleeps_in(evidence, gap)
        if mark and gap.duration_s >= _LATE_S and gap.waited_for != STATION:
            yield Finding("power-save", f"{gap.duration_s:.3f} s before {gap.after.name}, in which "
                          "the station sleeps: its frames wait at the access point",
                          (gap.before.frame.reference, mark.reference, gap.after.frame.reference),
                          gap.duration_s)


def _late_station(evidence: Evidence) -> Iterator[Finding]:
    late = [gap for gap in evidence.gaps if gap.duration_s >= _STATION_LATE_S]
    # A person is asked once; a slow station is late with other messages, too.
    is_prompt = sum(gap.waited_for == STATION for gap in late) == 1
    again = {each.again.frame.reference for each in evidence.again_of(EAP)}
    for gap in late:
        if gap.waited_for == ACCESS_POINT and gap.after.phase == RADIUS:
            yield finding_from_gap(
                "late-station", "for the station or the access point (behind it the capture cannot "
                f"tell) before {gap.after.name}", gap)
        if gap.waited_for != STATION:
            continue
        if gap.after.frame.packet.eapol_type == messages.EAPOL_START and (
                gap.before.frame.packet.eap_code == tshark.EAP_REQUEST):
            yield finding_from_gap("eap-message-lost", f"until {gap.after.name}: the station has "
                                   f"not received {gap.before.name}", gap)
            continue
        is_identity = gap.after.frame.packet.eap_type == IDENTITY
        if is_identity and gap.before.frame.reference in again:
            continue  # has a rule of its own
        cause = ("identity-unanswered" if is_identity and is_prompt
                 and gap.duration_s >= _PROMPT_S else "late-station")
        yield finding_from_gap(cause, f"for the station before {gap.after.name}", gap)


def _long_scan(evidence: Evidence) -> Iterator[Finding]:
    scan = evidence.negotiation.scan
    if scan and scan.last.time_s - scan.first.time_s >= _SCAN_S:
        channels = ", ".join(sorted(filter(None, scan.channels), key=lambda name: name.zfill(3)))
        duration_s = scan.last.time_s - scan.first.time_s
        yield Finding("long-scan", f"{duration_s:.3f} s of {scan.count} probe requests"
                      + (f" on channels {channels}" if channels else ""),
                      (scan.first.reference, scan.last.reference), duration_s)


def _busy_channel(evidence: Evidence) -> Iterator[Finding]:
    """Yield the finding that a slow negotiation was on a busy channel.

    Frames of others in the capture show it, or else the load that the access point states.
    """
    negotiation = evidence.negotiation
    sent = negotiation.of_phase(AUTHENTICATION, ASSOCIATION, EAP, FOUR_WAY)
    if not negotiation.is_wireless or not sent:
        return
    duration_s = sent[-1].time_s - sent[0].time_s
    if duration_s < _LATE_S:
        return
    use, network = negotiation.channel_use, negotiation.network
    if use and use.others_s >= _BUSY_SHARE * duration_s:
        channel = f" {use.channel_number}" * bool(use.channel_number)
        yield Finding("busy-channel", f"frames of others fill {use.others_s / duration_s:.0%} of "
                      f"the {duration_s:.3f} s on channel{channel}: a wait may be one for the air",
                      list_frames(sent[0], sent[-1]))
    elif network and network.load_from and (network.load or 0.0) >= _BUSY_LOAD:
        yield Finding("busy-channel", f"the access point states a channel utilization of "
                      f"{network.load:.0%}: a wait may be one for the air", (network.load_from,))


# --- What was lost or sent again ---

def _lost_keys(evidence: Evidence) -> Iterator[Finding]:
    again = evidence.again_of(FOUR_WAY)
    refused = _refused_keys(evidence.negotiation)
    if refused:
        yield refused
    elif again:
        cost_s = sum(each.again.time_s - each.first.time_s for each in again
                     if each.again.sender != STATION)
        names = ", ".join(dict.fromkeys(each.again.name for each in again))
        yield Finding("key-message-lost", f"{names} sent again: it or its answer was lost",
                      list_frames(*(m for each in again for m in (each.first, each.again))), cost_s)


def _refused_keys(negotiation: Negotiation) -> Finding | None:
    """Return the finding that the access point refuses the second key message."""
    keys = negotiation.of_phase(FOUR_WAY)
    numbers = [each.frame.key_message for each in keys]
    if 3 in numbers or numbers.count(2) < 2 or not _uses_passphrase(negotiation):
        return None
    cost_s = keys[-1].time_s - keys[0].time_s
    return Finding("wrong-passphrase", f"{numbers.count(2)} times the station answers message 1, "
                   "and the access point does not go on", list_frames(*keys), cost_s)


def _uses_passphrase(negotiation: Negotiation) -> bool:
    akms = {m.frame.packet.rsn_akm for m in negotiation.of_phase(ASSOCIATION)
            if m.sender == STATION and m.frame.packet.rsn_akm}
    if akms:
        return bool(akms & _PSK_AKMS)
    offered = set(negotiation.network.akms) if negotiation.network else set()
    return not negotiation.of_phase(EAP) and (not offered or bool(offered & _PSK_AKMS))


def _refused_sae(evidence: Evidence) -> Iterator[Finding]:
    sent = [m for m in evidence.negotiation.of_phase(AUTHENTICATION)
            if m.frame.parse_management().algorithm == SAE]
    confirms = [m for m in sent if m.frame.parse_management().sequence == 2]
    own_confirms = [m for m in confirms if m.sender == STATION]
    answers = [m for m in confirms if m.sender != STATION
               and not m.frame.parse_management().status]
    refused = [m for m in confirms if m.sender != STATION and m.frame.parse_management().status]
    if refused:
        yield Finding("wrong-passphrase", f"{refused[0].name} with status "
                      f"{refused[0].frame.parse_management().status}: the access point refuses "
                      "the station's confirm", list_frames(*refused))
    elif len(own_confirms) > 1 and not answers \
            and not evidence.negotiation.of_phase(ASSOCIATION):
        yield Finding("wrong-passphrase", f"{len(own_confirms)} SAE confirms of the station and "
                      "none of the access point", list_frames(*own_confirms),
                      own_confirms[-1].time_s - own_confirms[0].time_s)


def _lost_eap(evidence: Evidence) -> Iterator[Finding]:
    sent = evidence.negotiation.of_phase(EAP)
    again = evidence.again_of(EAP)
    requests = [each for each in again if each.again.sender != STATION]
    numbers = {each.first.frame.packet.eap_id for each in requests}
    for each in again:
        number = each.again.frame.packet.eap_id
        if each.again.sender == STATION and number is not None and number in numbers:
            continue  # the answer to a request that was sent again
        wait_s = each.again.time_s - each.first.time_s
        frames = list_frames(each.first, each.again)
        answers = [m for m in sent if m.sender == STATION and m.time_s > each.first.time_s
                   and number is not None and m.frame.packet.eap_id == number]
        is_early = any(m.time_s < each.again.time_s for m in answers)
        text = f"{wait_s:.3f} s until {each.again.name} was sent again"
        if each.again.sender != STATION and len(answers) > 1 and not is_early:
            yield Finding("late-station", f"{answers[0].time_s - each.first.time_s:.3f} s for the "
                          f"station before {answers[0].name}", list_frames(each.first, answers[0]),
                          answers[0].time_s - each.first.time_s)
        elif _waits_for_identity(each, requests, answers) and not is_early:
            yield Finding("identity-unanswered", text, frames, wait_s)
        elif large := [m for m in sent if each.first.time_s <= m.time_s <= each.again.time_s
                       and (m.frame.get_number("eap.len") or 0) >= LARGE_EAP_BYTES]:
            yield Finding("eap-fragment-lost", f"{text}; an EAP message of "
                          f"{large[-1].frame.get_number('eap.len')} bytes is not answered",
                          (*frames, *list_frames(large[-1])), wait_s)
        else:
            yield Finding("eap-message-lost", text, frames, wait_s)


def _waits_for_identity(each: Repeated, requests: Sequence[Repeated],
                        answers: Sequence[Message]) -> bool:
    """Return whether a person may be asked for the identity that a repeated request is about.

    A station that answers the second request at once has not received the first one.
    """
    is_prompt = each.again.sender != STATION and each.again.frame.packet.eap_type == IDENTITY
    same = [one for one in requests if one.again.frame.packet.eap_id
            == each.again.frame.packet.eap_id]
    is_lost = len(same) == 1 and len(answers) == 1 and (
        answers[0].time_s - each.again.time_s < _AT_ONCE_S)
    return is_prompt and not is_lost


def _lost_radius(evidence: Evidence) -> Iterator[Finding]:
    requests = [m for m in evidence.negotiation.of_phase(RADIUS) if m.sender != SERVER]
    # A proxy is a client of another server, which is no failover.
    for client in dict.fromkeys(m.frame.source_ip for m in requests):
        yield from _find_failover([m for m in requests if m.frame.source_ip == client])
    again = evidence.again_of(RADIUS)
    if again:
        cost_s = sum(each.again.time_s - each.first.time_s for each in again)
        yield Finding("radius-retransmission", f"{len(again)} RADIUS messages sent again",
                      list_frames(*(m for each in again for m in (each.first, each.again))), cost_s)


def _find_failover(requests: Sequence[Message]) -> Iterator[Finding]:
    """Yield the finding that a RADIUS client changes to another server."""
    first = requests[0].frame.target_ip
    change = next((m for m in requests if m.frame.target_ip != first), None)
    if change:
        before = requests[requests.index(change) - 1]
        cost_s = change.time_s - before.time_s
        yield Finding("radius-failover", f"{first} does not answer; after {cost_s:.3f} s the "
                      f"access point asks {change.frame.target_ip}", list_frames(before, change),
                      cost_s)


def _unanswered_requests(evidence: Evidence) -> Iterator[Finding]:
    """Yield the finding that the server answers a request never, although it was sent again."""
    sent = evidence.negotiation.of_phase(RADIUS)
    answered = {m.frame.get_text("radius.id") for m in sent if m.sender == SERVER}
    numbers = {each.again.frame.get_text("radius.id") for each in evidence.again_of(RADIUS)}
    silent = [m for m in sent if m.sender != SERVER
              and m.frame.get_text("radius.id") in numbers - answered]
    if silent:
        yield _name_silence(silent[0], silent[-1], is_lost=bool(answered), who="the server")


def _silent_network(evidence: Evidence) -> Iterator[Finding]:
    """Yield the finding that nothing follows an EAP message of the station on the air."""
    negotiation = evidence.negotiation
    sent = negotiation.of_phase(EAP)
    if not negotiation.is_wireless or negotiation.of_phase(RADIUS):
        return
    for last in sent:
        if last.frame.packet.eap_code != messages.EAP_RESPONSE:
            continue
        following = next((m for m in negotiation.messages if m.time_s > last.time_s
                          and (_starts_over(m) or m.sender != STATION)), None)
        if following and _starts_over(following) and (
                following.time_s - last.time_s >= _SILENCE_S):
            is_lost = sum(m.sender != STATION for m in sent if m.time_s < last.time_s) > 1
            yield _name_silence(last, following, is_lost=is_lost, who="the network side (server "
                                "or access point: the air cannot tell)")
            return


def _starts_over(message: Message) -> bool:
    """Return whether a message begins the authentication again, or ends it."""
    packet = message.frame.packet
    is_asked_again = packet.eap_code == tshark.EAP_REQUEST and packet.eap_type == IDENTITY
    return is_asked_again or message.phase == "end" or (
        message.sender == STATION and packet.eap_code is None)


def _name_silence(first: Message, last: Message, *, is_lost: bool, who: str) -> Finding:
    """Return the finding of an unanswered message: a large one is lost if others were answered."""
    size = first.frame.get_number("eap.len") or 0
    silence_s = last.time_s - first.time_s
    cause = "eap-fragment-lost" if is_lost and size >= LARGE_EAP_BYTES else "radius-unanswered"
    return Finding(cause, f"{silence_s:.3f} s without an answer of {who} to {first.name}"
                   + (f" of {size} bytes" if size else ""), list_frames(first, last), silence_s)


# --- What was refused ---

def _failed_rekeying(evidence: Evidence) -> Iterator[Finding]:
    again = [each for each in evidence.again_of(GROUP_KEY) if each.again.sender != STATION]
    if again:
        yield Finding("group-rekey-failed", "the station does not answer the group key: message 1 "
                      f"was sent {len(again) + 1} times",
                      list_frames(*(m for each in again for m in (each.first, each.again))),
                      again[-1].again.time_s - again[0].first.time_s)
        return
    last = evidence.negotiation.messages[-1]
    if last.phase == "end" and last.frame.get_number(
            "wlan.fixed.reason_code") == _GROUP_KEY_TIMEOUT:
        yield Finding("group-rekey-failed", f"{last.name} with reason {_GROUP_KEY_TIMEOUT}: the "
                      "station does not answer the group key", list_frames(last))


# --- Shortcuts that were offered and not taken ---

def _missed_shortcuts(evidence: Evidence) -> Iterator[Finding]:
    negotiation = evidence.negotiation
    yield from _refused_fast_transition(negotiation)
    yield from _unanswered_fast_transition(evidence)
    request = negotiation.association_request
    full = negotiation.of_phase(EAP)
    if not request or not full or len(full) < _FULL_EAP:
        return
    cost_s = full[-1].time_s - full[0].time_s
    if request.frame.parse_management().key_names:
        yield Finding("pmksa-miss", "the station names a cached PMK, and the access point does a "
                      "full authentication", list_frames(request, full[0]), cost_s)
    network, before = negotiation.network, negotiation.previous_network
    if not negotiation.previous or not network:
        return
    fast = FAST_AKMS & set(network.akms)
    if fast and request.frame.packet.rsn_akm not in FAST_AKMS:
        yield Finding("ft-not-used", "the access point offers fast transition, and the station "
                      "takes another AKM", list_frames(request), cost_s)
    elif fast and before and before.mobility_domain != network.mobility_domain:
        yield _name_domains(before, network, request, cost_s)


def _name_domains(before: Network, network: Network, request: Message, cost_s: float) -> Finding:
    return Finding("ft-other-domain", "the access points are of different mobility domains "
                   f"({before.mobility_domain} and {network.mobility_domain})",
                   list_frames(request), cost_s)


def _unanswered_fast_transition(evidence: Evidence) -> Iterator[Finding]:
    """Yield the finding that an access point does not answer requests of fast transition."""
    negotiation = evidence.negotiation
    sent = [m for m in negotiation.of_phase(AUTHENTICATION)
            if m.frame.parse_management().algorithm == FAST_TRANSITION]
    if len(sent) < _UNANSWERED or any(m.sender != STATION for m in sent):
        return
    network, before = negotiation.network, negotiation.previous_network
    cost_s = sent[-1].time_s - sent[0].time_s
    if network and before and before.mobility_domain != network.mobility_domain:
        yield _name_domains(before, network, sent[0], cost_s)
    else:
        yield Finding("ft-key-missing", f"{len(sent)} requests of fast transition without an "
                      "answer: the access point does not get the key", list_frames(*sent), cost_s)


#: Messages of EAP from which an authentication counts as full, and requests without an answer
#: from which the access point counts as silent.
_FULL_EAP, _UNANSWERED = 4, 2


def _refused_fast_transition(negotiation: Negotiation) -> Iterator[Finding]:
    for message in negotiation.of_phase(AUTHENTICATION, ASSOCIATION):
        managed = message.frame.parse_management()
        if message.sender == STATION or managed.status not in FAST_REFUSALS:
            continue
        if message.phase == AUTHENTICATION and not managed.is_over_ds and (
                managed.algorithm != FAST_TRANSITION):
            continue
        cost_s = negotiation.messages[-1].time_s - message.time_s
        yield Finding("ft-key-missing", f"fast transition is refused with status {managed.status} "
                      f"({FAST_REFUSALS[managed.status]})", list_frames(message), cost_s)


def _refused_method(evidence: Evidence) -> Iterator[Finding]:
    for message in evidence.negotiation.of_phase(EAP):
        if message.frame.packet.eap_type == NAK:
            wanted = message.frame.get_number("eap.desired_type")
            gap = next((each for each in evidence.gaps if each.before is message), None)
            method = messages.EAP_METHODS.get(wanted or 0, f"type {wanted}")
            yield Finding("eap-method-refused", f"the station refuses the server's first method "
                          f"and wants {method}, which takes a round trip", list_frames(message),
                          gap.duration_s if gap else 0.0)


def _late_roam(evidence: Evidence) -> Iterator[Finding]:
    retried = evidence.negotiation.retries_before
    if len(retried) >= _RETRIES and sum(flag for _, flag in retried) >= _RETRY_SHARE * len(retried):
        yield Finding("roam-too-late", f"{sum(flag for _, flag in retried)} of the last "
                      f"{len(retried)} data frames with the old access point are retries",
                      tuple(mark.reference for mark, flag in retried if flag))


_RULES: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    _late_network, _late_access_point, _power_save, _late_station, _long_scan, _lost_keys,
    _refused_sae, _lost_eap, _lost_radius, _unanswered_requests, _silent_network,
    *TLS_RULES, *REFUSAL_RULES, _busy_channel, _failed_rekeying,
    _missed_shortcuts, _refused_method, _late_roam, *UPPER_RULES)
#: Causes that end a negotiation; they come first.
_FAILURES = frozenset({
    "wrong-passphrase", "radius-unanswered", "server-not-trusted", "client-certificate-refused",
    "tls-version-refused", "tls-refused", "ike-no-proposal", "ike-authentication-failed",
    "kerberos-clock-skew", "kerberos-wrong-password", "association-refused", "dhcp-refused",
    "pmf-mismatch", "akm-mismatch", "cipher-mismatch"})

"""Find where the time of a negotiation went: phases, waits and repeated messages.

A negotiation is all captured messages of one station that joins or roams, or of one tunnel that is
set up. Each function takes one. `find_gaps` returns the time between each two messages, and the
node that was waited for. `find_repeated` returns messages that were sent again. `find_phases`
returns start and duration of each phase, such as EAP. `roam_times` returns the duration of a roam
by several definitions. `qop explain` shows these values.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from measure.checks import phases
from measure.checks.phases import Phase
from measure.explain import messages
from measure.explain.frames import Frame
from measure.explain.messages import (
    ACCESS_POINT,
    ASSOCIATION,
    AUTHENTICATION,
    EAP,
    FOUR_WAY,
    KERBEROS,
    NETWORK,
    RADIUS,
    SERVER,
    STATION,
    Message,
)
from measure.explain.negotiations import Mark, Negotiation

#: Order and names of the waterfall's phases.
_WATERFALL = (AUTHENTICATION, ASSOCIATION, EAP, RADIUS, FOUR_WAY, messages.GROUP_KEY,
              messages.DHCP, messages.ARP, messages.REGISTRATION, messages.IKE,
              messages.WIREGUARD, KERBEROS)
#: Exchanges that set up an IKE SA and its first pair of SAs (RFC 7296, RFC 9242, RFC 2409).
_IKE_SETUP = ("IKE_SA_INIT", "IKE_INTERMEDIATE", "IKE_AUTH", "IKEv1 main mode",
              "IKEv1 aggressive mode", "IKEv1 quick mode")
#: Phases whose repeated messages are known by a number, whatever is between them.
_NUMBERED = (EAP, RADIUS, messages.IKE, FOUR_WAY, messages.GROUP_KEY)
#: Name of the phase of EAPOL-Key frames that are of no handshake.
KEYS = "keys"
#: What a gap was, if it was no wait for another node. The last one is the time of a message from
#: one capture to another.
REPETITION, NEXT = "sent again", "next message of the same sender"
TRANSIT = "the way between captures"


@dataclass(frozen=True)
class Gap:
    """The time between two messages that follow each other, and the node that caused the wait.

    - `before`, `after`: the messages; both are the same for the way between captures
    - `waited_for`: the sender of the second message. It is `REPETITION` or `NEXT` where both are
      from the same sender
    - `begin`, `end`: the frames between which the time passed. A message that several captures have
      has several frames
    """

    before: Message
    after: Message
    waited_for: str
    begin: Frame
    end: Frame

    @property
    def duration_s(self) -> float:
        """Return the time in s."""
        return self.end.time_s - self.begin.time_s


@dataclass(frozen=True)
class Repeated:
    """A message that was sent again: its name, the first message and the repeated one.

    `is_link` says that the 802.11 link repeated the frame, and not the program that sent it.
    """

    name: str
    first: Message
    again: Message
    is_link: bool = False


def joining_messages(negotiation: Negotiation) -> list[Message]:
    """Return the messages of joining, or all messages if there is no joining."""
    if negotiation.kind == "IKE":
        return [m for m in negotiation.messages if m.name in _IKE_SETUP] or negotiation.messages
    return negotiation.of_phase(*messages.JOINING) or negotiation.messages


def find_gaps(negotiation: Negotiation) -> list[Gap]:
    """Return the gaps between the messages of joining, in order."""
    return [gap for before, after in itertools.pairwise(joining_messages(negotiation))
            for gap in _gaps_between(before, after)]


def _gaps_between(before: Message, after: Message) -> Iterator[Gap]:
    """Yield the way of the first message through the captures, and the wait for the second one."""
    first, last = before.frame, before.frame
    for frame in before.frame.later:
        last = frame if frame.time_s <= after.time_s else last
    if last is not first:
        yield Gap(before, before, TRANSIT, first, last)
    yield Gap(before, after, _waited_for(before, after), last, after.frame)


def _waited_for(before: Message, after: Message) -> str:
    if _side_of(before) != _side_of(after):
        return NEXT if before.phase == KERBEROS and before.sender == SERVER else after.sender
    if before.sender != after.sender and {before.phase, after.phase} & {RADIUS}:
        # Seen behind the access point, too: what comes from there on the air, it has passed on.
        return ACCESS_POINT if after.sender == NETWORK else after.sender
    return REPETITION if is_repetition(before, after) else NEXT


def _side_of(message: Message) -> str:
    return STATION if message.sender == STATION else NETWORK


def is_repetition(first: Message, second: Message) -> bool:
    """Return whether the second message is the first one, sent again by the same sender."""
    if (first.sender, first.phase) != (second.sender, second.phase):
        return False
    a, b = first.frame, second.frame
    if first.phase == EAP:
        return a.packet.eap_code == b.packet.eap_code and (
            a.packet.eap_id == b.packet.eap_id and a.packet.eapol_type == b.packet.eapol_type)
    if first.phase == RADIUS:
        return (first.name, a.get_text("radius.id"), a.source_ip, a.target_ip) == (
            second.name, b.get_text("radius.id"), b.source_ip, b.target_ip)
    if first.phase == messages.IKE:
        return (a.packet.ike_message_key, a.packet.length) == (
            b.packet.ike_message_key, b.packet.length)
    if first.phase == messages.DHCP and first.sender == SERVER:  # another server answers, too
        name = "dhcp.option.dhcp_server_id"
        return first.name == second.name and a.get_text(name) == b.get_text(name)
    is_nameless_key = first.phase == FOUR_WAY and a.key_message is None
    return first.name == second.name and not is_nameless_key


def find_repeated(negotiation: Negotiation) -> list[Repeated]:
    """Return the messages that were sent again: those that judges find, and further ones."""
    by_packet = {id(each.frame.packet): each for each in negotiation.messages}
    judged = [Repeated(each.name, by_packet[id(each.first)], by_packet[id(each.repeated)])
              for each in phases.find_repetitions(
                  [each.frame.packet for each in negotiation.messages
                   if each.phase not in (RADIUS, messages.DHCP)],
                  negotiation.station)]
    known = {each.again.frame.reference for each in judged}
    further = [each for each in _further_repetitions(negotiation.messages)
               if each.again.frame.reference not in known]
    every = [Repeated(each.name, each.first, each.again, _is_link_retry(each.first, each.again))
             for each in (*judged, *further)]
    return sorted(every, key=lambda each: each.again.time_s)


def _further_repetitions(sent: Sequence[Message]) -> Iterator[Repeated]:
    last: dict[str, Message] = {}
    for message in sent:
        before = last.get(message.sender)
        if before and message.phase != "end" and is_repetition(before, message):
            yield Repeated(message.name, before, message)
        if message.phase not in _NUMBERED:
            last = {}  # an answer ends the exchange
        last[message.sender] = message


def _is_link_retry(first: Message, second: Message) -> bool:
    a, b = first.frame, second.frame
    return b.is_set("wlan.fc.retry") and (
        a.get_text("wlan.seq") == b.get_text("wlan.seq"))


def waits_by_node(gaps: Sequence[Gap]) -> dict[str, float]:
    """Return how long each node was waited for, in s."""
    total: Counter[str] = Counter()
    for gap in gaps:
        total[gap.waited_for] += gap.duration_s  # type: ignore[assignment]
    return dict(total)


def find_phases(negotiation: Negotiation) -> list[Phase]:
    """Return the phases of a negotiation, in s after its first message, in order of time."""
    start = negotiation.messages[0].time_s
    found = [phase for name in _WATERFALL if (phase := phases.phase_of(
        _shown_name(negotiation, name), start,
        [each.frame.packet for each in negotiation.of_phase(name) if not each.over_ds_target]))]
    over_ds = phases.phase_of(messages.OVER_DS, start, [
        each.frame.packet for each in negotiation.of_phase(AUTHENTICATION) if each.over_ds_target])
    found += [over_ds] if over_ds else []
    scan = negotiation.scan
    if scan:
        found.append(Phase("scan", scan.first.time_s - start, scan.last.time_s - scan.first.time_s,
                           scan.count))
    data = negotiation.data.first
    if data:
        found.append(Phase("first_packet", data.time_s - start, 0.0, 1))
    return sorted(found, key=lambda phase: phase.start_s)


def _shown_name(negotiation: Negotiation, name: str) -> str:
    """Return the name of a phase: keys of WEP come without a four-way handshake."""
    has_none = name == FOUR_WAY and not any(
        each.frame.key_message for each in negotiation.of_phase(FOUR_WAY))
    return KEYS if has_none else name


# --- Roam times by the definitions that are in use ---


#: What is missing at the begin and at the end of each roam time.
_MISSING = {
    "reassociation": ("no authentication request", "no reassociation response"),
    "keys": ("no authentication request", "no message that installs keys"),
    "handoff": ("no probe request before the roam", "no reassociation response"),
    "data_gap": ("no data frame with the old access point",
                 "no data frame with the new access point")}
_HIDDEN = ("; an encrypted Action frame before may be the request over the DS, which the keys of "
           "the old association show")


def roam_times(negotiation: Negotiation) -> dict[str, float | None]:
    """Return the time of a roam by each definition in s, None where the capture does not say.

    - `reassociation`: authentication request to reassociation response.
    - `keys`: authentication request to the last message that installs keys.
    - `handoff`: first probe request to reassociation response.
    - `data_gap`: last data frame with the old access point to the first with the new one.

    The FT request is the authentication request of fast transition over the DS.
    """
    return {name: None if first is None or last is None else last.time_s - first.time_s
            for name, (first, last) in _roam_ends(negotiation).items()}


def find_missing_ends(negotiation: Negotiation) -> dict[str, str]:
    """Return which frame is missing, for each roam time that the capture does not say."""
    missing = {name: [text for end, text in zip(ends, _MISSING[name], strict=True) if end is None]
               for name, ends in _roam_ends(negotiation).items()}
    return {name: " and ".join(texts) + _HIDDEN * (
        negotiation.has_hidden_action and "no authentication request" in texts)
        for name, texts in missing.items() if texts}


def _roam_ends(negotiation: Negotiation) -> dict[
        str, tuple[Mark | Message | None, Mark | Message | None]]:
    """Return the begin and the end of a roam by each definition, None where it is missing."""
    first = next((m for m in negotiation.messages if m.phase == AUTHENTICATION), None)
    response = next((m for m in reversed(negotiation.of_phase(ASSOCIATION))
                     if m.sender == ACCESS_POINT), None)
    keys = negotiation.of_phase(FOUR_WAY)[-1:]
    end = keys[0] if keys else response if negotiation.is_fast else None
    return {"reassociation": (first, response), "keys": (first, end),
            "handoff": (negotiation.scan.first if negotiation.scan else None, response),
            "data_gap": (negotiation.data_before, negotiation.data.first)}

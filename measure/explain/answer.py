"""Explain captures of any network for the command `qop explain`: what was slow, and why.

`explain_captures` takes capture files and decryption keys, and returns an `Answer`. It has facts on
the files, and a document for each negotiation: the messages of one authentication, roam or tunnel.
The document states duration, phases, waits, policy, outcome and causes (`explain_negotiation`).
`Answer.answer_sentence` is the result in one sentence, and `to_document` the result as JSON. The
other modules of `measure.explain` compute the parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from measure.agent.errors import MeasureError
from measure.explain import causes, messages, points, timing
from measure.explain.documents import StoredDocuments
from measure.explain.frames import CaptureFacts, FrameReference, read_frames
from measure.explain.messages import ACCESS_POINT, NETWORK, SERVER, STATION
from measure.explain.negotiations import COPY_S, WIRED, WIRELESS, Negotiation, Tracker
from measure.explain.points import Clock
from measure.explain.policy import SeenPolicy, judge_outcome, read_policy
from measure.explain.recordings import Recording
from measure.explain.timing import Gap

#: Version of the document that `--json` prints. A changed or removed field raises it.
DOCUMENT_VERSION = 2
#: Waits that are listed, the longest first.
_LISTED_GAPS = 5
#: Stations with their access points that are named if there is no negotiation.
_LISTED_PAIRS = 3
#: Phases whose messages are counted by name, and kinds that authenticate a station.
_COUNTED = (messages.IKE, messages.KERBEROS, messages.WIREGUARD, messages.REGISTRATION)
_AUTHENTICATES = (WIRELESS, WIRED, "RADIUS")
_WRONG_KEYS = ("none of the keys fits a handshake in the capture; correct passphrase and SSID, or "
               "leave --psk out (the times do not need it)")


@dataclass
class Answer:
    """The result of `./qop explain`, as a sentence and as a JSON document.

    - `captures`: facts on each capture file
    - `negotiations`: a JSON object for each authentication, roam or exchange in the captures, in
      order of time, of which one at a time is in memory
    - `notes`: remarks for the reader
    """

    captures: list[CaptureFacts]
    #: Clock of each capture that is merged with others, by its name.
    clocks: dict[str, Clock] = field(default_factory=dict)
    negotiations: StoredDocuments = field(default_factory=StoredDocuments)
    notes: list[str] = field(default_factory=list)

    @property
    def answer_sentence(self) -> str:
        """Return the answer in one sentence."""
        return _summarize_answer(self)

    def to_document(self) -> dict[str, Any]:
        """Return the answer as a document for JSON (docs/explain.md), all of it in memory."""
        return {**self.to_stored_document(), "negotiations": list(self.negotiations)}

    def to_stored_document(self) -> dict[str, Any]:
        """Return the document with its negotiations as a sequence that is not in memory."""
        return {"version": DOCUMENT_VERSION, "answer": self.answer_sentence, "notes": self.notes,
                "captures": [_capture_document(each) | {"clock": self._clock_document(each.name)}
                             for each in self.captures],
                "negotiations": self.negotiations}

    def _clock_document(self, name: str) -> dict[str, Any] | None:
        clock = self.clocks.get(name)
        if clock is None:
            return None
        return {"offset_s": _round_time(clock.offset_s), "drift_ppm": round(clock.drift * 1e6, 3),
                "uncertainty_s": (None if clock.uncertainty_s is None
                                  else _round_time(clock.uncertainty_s)),
                "packets": clock.packets}


def explain_captures(captures: Sequence[Path], keys: Sequence[str] = (),
                     key_files: Mapping[str, Path | bytes] | None = None,
                     recordings: Sequence[Recording] = (),
                     report: Callable[[str, float], None] | None = None,
                     compare: Callable[[Mapping[str, Any]], dict[str, Any] | None] | None = None,
                     ) -> Answer:
    """Explain captures of any format that tshark reads.

    Captures that have packets in common are merged, by the clock of the first one.

    Args:
        captures: The capture files.
        keys: Decryption keys of 802.11, as for `measure.capture.dissection`.
        key_files: Files with keys of other protocols, by tshark's preference.
        recordings: Captures of results folders, with their own keys.
        report: Called with the name of a capture and the share of it that has been read, 0 to 1.
        compare: Returns the reference of a negotiation's document, None without one.

    Raises:
        MeasureError: tshark is missing, or reads nothing of a file.
    """
    every = [*captures, *(capture for recording in recordings for capture in recording.captures)]
    names = name_captures(every)
    reading = _Reading(Answer([]), {name: capture for capture, name in names.items()}, keys,
                       key_files or {}, report, compare)
    for clocks in reading.find_groups([names[capture] for capture in captures]):
        reading.explain_group(clocks)
    for recording in recordings:
        more: dict[str, Path | bytes] = {}
        if recording.tls_keys:
            more["tls.keylog_file"] = "\n".join((*recording.tls_keys, "")).encode()
        with_keys = replace(reading, keys=[*keys, *recording.link_keys], are_given=bool(keys),
                            key_files={**more, **(key_files or {})})
        with_keys.explain_group({names[capture]: Clock() for capture in recording.captures})
    return reading.answer


def name_captures(captures: Sequence[Path]) -> dict[Path, str]:
    """Return a unique name for each capture: its file name, with folders only if needed."""
    names: dict[Path, str] = {}
    for parts in (1, 2, 0):
        ends = {capture: "/".join(capture.parts[-parts:]) if parts else str(capture)
                for capture in captures if capture not in names}
        counts = Counter(ends.values())
        names |= {capture: end for capture, end in ends.items() if counts[end] == 1 or not parts}
    return names


@dataclass
class _Reading:
    """Capture files by name, with keys, and the answer to which their explanation is added."""

    answer: Answer
    files: Mapping[str, Path]
    keys: Sequence[str]
    key_files: Mapping[str, Path | bytes]
    report: Callable[[str, float], None] | None = None
    compare: Callable[[Mapping[str, Any]], dict[str, Any] | None] | None = None
    #: Whether there are keys that must fit. Those of a results folder may not.
    are_given: bool = True

    def find_groups(self, names: Sequence[str]) -> Iterator[Mapping[str, Clock]]:
        """Yield the captures of the same events, with their clocks."""
        if len(names) <= 1:
            yield from ({name: Clock()} for name in names)
            return
        groups, notes = points.group_captures({
            name: points.read_packet_times(self.files[name], self.keys, self.key_files,
                                           self._report_of(name))
            for name in names})
        self.answer.notes += notes
        yield from (group.clocks for group in groups)

    def explain_group(self, clocks: Mapping[str, Clock]) -> None:
        """Explain captures of the same events."""
        is_merged = len(clocks) > 1
        facts = {name: CaptureFacts(name) for name in clocks}
        tracker = Tracker(is_merged=is_merged)
        decrypts, had = False, len(self.answer.negotiations)
        has_handshake = False
        for frame, earlier in points.merge_frames([
                (clock, read_frames(self.files[name], facts[name], self.keys, self.key_files,
                                    points.FIELDS if is_merged else (), self._report_of(name)))
                for name, clock in clocks.items()]):
            tracker.feed_frame(frame, earlier)
            decrypts = decrypts or "wlan.analysis.pmk" in frame.columns
            has_handshake |= self._add_negotiations(tracker.take_ended())
        has_handshake |= self._add_negotiations(tracker.end_all())
        self._add_facts(facts.values(), clocks if is_merged else {})
        self.answer.notes += [_describe_copies(name, count)
                              for name, count in tracker.copies.items() if count]
        if self.are_given and self.keys and has_handshake and not decrypts:
            self.answer.notes.append(_WRONG_KEYS)
        if len(self.answer.negotiations) == had:
            self.answer.notes.append(_describe_content([*facts.values()], tracker))

    def _add_negotiations(self, ended: Iterable[Negotiation]) -> bool:
        """Store what is explained of negotiations, and return whether one has a handshake."""
        has_handshake = False
        for negotiation in ended:
            explained = explain_negotiation(negotiation)
            if self.compare:
                explained["reference"] = self.compare(explained)
            has_handshake |= any(phase["name"] == messages.FOUR_WAY
                                 for phase in explained["phases"])
            self.answer.negotiations.add_document(explained, explained["start"]["time_s"])
        return has_handshake

    def _report_of(self, name: str) -> Callable[[float], None] | None:
        return partial(self.report, name) if self.report else None

    def _add_facts(self, facts: Iterable[CaptureFacts], clocks: Mapping[str, Clock]) -> None:
        for each in facts:
            if each.complaint and not each.frames:
                raise MeasureError("data", f"{self.files[each.name]}: cannot be read "
                                   f"({_shorten_complaint(each.complaint)}); give a capture that "
                                   "Wireshark opens")
            if each.unreadable and not each.frames:  # tshark opens pictures and programs, too
                raise MeasureError("data", f"{self.files[each.name]}: cannot be read (no frame of "
                                   "it has a time); give a capture of packets")
            self.answer.captures.append(each)
            self.answer.notes += _capture_notes(each)
        self.answer.clocks |= clocks


def explain_negotiation(negotiation: Negotiation) -> dict[str, Any]:
    """Return the document of one negotiation."""
    gaps, policy = timing.find_gaps(negotiation), read_policy(negotiation)
    repeated = timing.find_repeated(negotiation)
    joined = timing.joining_messages(negotiation)
    outcome = judge_outcome(negotiation)
    first = joined[0]
    return {
        "captures": _points_document(negotiation),
        "kind": negotiation.kind, "station": negotiation.station, "peer": negotiation.peer,
        "ssid": negotiation.ssid, "previous": negotiation.previous,
        "start": first.frame.reference.to_document() | {"time_s": first.time_s},
        "messages": dict(Counter(each.name for each in negotiation.messages
                                 if each.phase in _COUNTED)),
        "end": joined[-1].frame.reference.to_document() | {"message": joined[-1].name},
        "is_from_start": _is_from_start(negotiation),
        "outcome": outcome.result or "cannot tell", "reason": outcome.reason,
        "reason_frame": (outcome.message.frame.reference.to_document() if outcome.message
                         else None),
        "duration_s": _round_time(joined[-1].time_s - first.time_s),
        "policy": _policy_document(policy),
        "phases": [{"name": each.name, "start_s": _round_time(each.start_s),
                    "duration_s": _round_time(each.duration_s), "packets": each.packets}
                   for each in timing.find_phases(negotiation)],
        "waited_for_s": _round_all(timing.waits_by_node(gaps)),
        "gaps": [_gap_document(gap) for gap in
                 sorted(gaps, key=lambda gap: -gap.duration_s)[:_LISTED_GAPS]],
        "repeated": [{"name": each.name,
                      "first_frame": each.first.frame.reference.to_document(),
                      "frame": each.again.frame.reference.to_document(),
                      "after_s": _round_time(each.again.time_s - each.first.time_s),
                      "is_link": each.is_link}
                     for each in repeated],
        "roam_times_s": (_round_all(timing.roam_times(negotiation)) if negotiation.previous
                         else None),
        "roam_times_missing": (timing.find_missing_ends(negotiation) if negotiation.previous
                               else None),
        "data": {"frames": negotiation.data.count, "retries": negotiation.data.retries,
                 "first_frame": (negotiation.data.first.reference.to_document()
                                 if negotiation.data.first else None)},
        "findings": [{"cause": each.cause, "text": each.text,
                      "frames": [frame.to_document() for frame in each.frames],
                      "filters": list(_make_filters(each.frames)),
                      "cost_s": _round_time(each.cost_s)}
                     for each in causes.find_causes(negotiation, gaps, repeated)],
        "left_out": negotiation.left_out, "reference": None}


def _points_document(negotiation: Negotiation) -> list[dict[str, Any]]:
    """Return what each capture has of a negotiation."""
    counts: Counter[str] = Counter()
    alone: dict[str, list[str]] = {}
    for message in negotiation.messages:
        captures = {each.reference.capture for each in (message.frame, *message.frame.later)}
        counts.update(sorted(captures))
        if len(captures) == 1:
            alone.setdefault(message.frame.reference.capture, []).append(message.phase)
    return [{"name": capture, "messages": count,
             "alone": dict(Counter(alone.get(capture, ())))} for capture, count in counts.items()]


def _round_time(time_s: float) -> float:
    """Round to microseconds, which captures and times since 1970 have."""
    return round(time_s, 6)


def _round_all(times_s: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if time_s is None else _round_time(time_s)
            for name, time_s in times_s.items()}


def _make_filters(frames: Sequence[FrameReference]) -> Iterator[dict[str, str]]:
    """Yield a display filter of Wireshark for each capture in which the frames are."""
    for capture in dict.fromkeys(frame.capture for frame in frames):
        numbers = ", ".join(str(frame.number) for frame in frames if frame.capture == capture)
        yield {"capture": capture, "filter": f"frame.number in {{{numbers}}}"}


def _is_from_start(negotiation: Negotiation) -> bool:
    """Return whether the capture has the beginning of the negotiation."""
    first = negotiation.messages[0]
    if negotiation.is_wireless:
        return first.phase == messages.AUTHENTICATION or (
            first.phase == messages.ASSOCIATION and not negotiation.has_hidden_action)
    if first.phase == messages.RADIUS:
        packet = first.frame.packet
        return (packet.radius_code == messages.ACCESS_REQUEST
                and packet.eap_type in (None, messages.IDENTITY))
    return first.sender == STATION or first.name == "EAP request, identity"


def _policy_document(policy: SeenPolicy) -> dict[str, Any]:
    server, station = policy.certificates_bytes
    return {"title": policy.short_name, "cipher": policy.cipher, "akm": policy.akm,
            "pmf": policy.pmf, "eap": policy.eap, "tls": policy.tls, "session": policy.session,
            "ike": policy.ike,
            "server_certificates_bytes": list(server),
            "station_certificates_bytes": list(station),
            "in_force": {True: "yes", False: "no", None: "cannot tell"}[policy.is_in_force],
            "evidence": policy.evidence}


def _gap_document(gap: Gap) -> dict[str, Any]:
    return {"duration_s": _round_time(gap.duration_s), "waited_for": gap.waited_for,
            "frames": [gap.before.frame.reference.to_document(),
                       gap.after.frame.reference.to_document()],
            "after": gap.before.name, "before": gap.after.name}


# --- The file as a whole ---

def _capture_document(facts: CaptureFacts) -> dict[str, Any]:
    duration_s = 0.0 if facts.first_s is None or facts.last_s is None else (
        facts.last_s - facts.first_s)
    return {"name": facts.name, "frames": facts.frames, "start_s": facts.first_s,
            "duration_s": _round_time(duration_s), "links": facts.links}


def _shorten_complaint(complaint: str) -> str:
    shorter = complaint.removeprefix("tshark: ").rstrip(".")
    return shorter.replace('The file "-"', "the file").replace("The standard input", "the file")


def _capture_notes(facts: CaptureFacts) -> Iterator[str]:
    if facts.complaint:
        yield (f"{facts.name}: unreadable after frame {facts.frames} "
               f"({_shorten_complaint(facts.complaint)}); what is before that is explained")
    for number, step_s in facts.clock_steps[:3]:
        yield (f"{facts.name}: the clock steps by {step_s:.3f} s at frame {number}; times across "
               "that frame are wrong")
    if len(facts.links) > 1:
        yield (f"{facts.name}: several link types ("
               + ", ".join(f"{count} {name}" for name, count in facts.links.items())
               + "); each is explained by itself")
    if facts.damaged:
        yield f"{facts.name}: frames received with errors, which are left out: {facts.damaged}"
    if facts.unreadable:
        yield f"{facts.name}: frames without a time or readable fields: {facts.unreadable}"


def _describe_copies(name: str, count: int) -> str:
    return (f"{name}: messages that are there again within {COPY_S * 1e3:g} ms, as of several "
            f"interfaces or a mirror port, which count once: {count}")


def _describe_content(facts: Sequence[CaptureFacts], tracker: Tracker) -> str:
    """Describe what captures of the same events have instead of a negotiation."""
    names = ", ".join(each.name for each in facts)
    links = sum((Counter(each.links) for each in facts), Counter())
    if not links:
        return f"{names}: no frames"
    data = tracker.data_frames
    if not data:
        shown = ", ".join(f"{count} {name}" for name, count in links.items())
        return f"{names}: no authentication inside; what is here: {shown} frames"
    kinds = ", ".join(f"{count} {name or 'open'}" for name, count in data.most_common())
    stations = len({station for station, _ in tracker.pairs})
    pairs = ", ".join(f"{station} and {bssid}" for (station, bssid), _
                      in tracker.pairs.most_common(_LISTED_PAIRS))
    return (f"{names}: no authentication inside; what is here: {kinds} data frames of "
            f"{stations} station{'s' * (stations != 1)}; no handshake between {pairs}"
            + ", ..." * (len(tracker.pairs) > _LISTED_PAIRS))


# --- The answer in one sentence ---

def format_time(time_s: float) -> str:
    """Return a time as text with three significant digits, in s or ms."""
    return f"{time_s:.2f} s" if abs(time_s) >= 1 else f"{time_s * 1e3:.3g} ms"


def _summarize_answer(answer: Answer) -> str:
    if not answer.negotiations:
        return answer.notes[-1]
    authenticates = any(each["kind"] in _AUTHENTICATES for each in answer.negotiations)
    slowest: dict[str, Any] = {}
    stations: set[str] = set()
    count = roams = failed = 0
    for each in answer.negotiations:
        if authenticates and each["kind"] not in _AUTHENTICATES:
            continue
        count += 1
        stations.add(each["station"])
        roams += bool(each["previous"])
        failed += each["outcome"] == "failure"
        slowest = max(slowest or each, each, key=_rank_slowness)
    several = len(answer.captures) > 1
    text = describe_negotiation(slowest, several=several)
    if count == 1:
        return text
    counts = f"{count} negotiations of {len(stations)} station{'s' * (len(stations) != 1)}"
    counts += f", {roams} of them roams" * bool(roams) + f", {failed} failed" * bool(failed)
    which = "a failed one" if slowest["outcome"] == "failure" else "the slowest"
    start = name_frames([slowest["start"]], several=several)
    return f"{counts}; {which} ({start}): {text}"


def _rank_slowness(each: Mapping[str, Any]) -> tuple[bool, float]:
    return each["outcome"] == "failure", each["duration_s"]


def name_frames(frames: Sequence[Mapping[str, Any]], *, several: bool) -> str:
    """Return frames as text, such as `frames 4 and 7`.

    Args:
        frames: References to frames, as in the document.
        several: Whether there is more than one capture, so that captures are named.
    """
    parts = []
    for capture in dict.fromkeys(frame["capture"] for frame in frames):
        numbers = [str(frame["frame"]) for frame in frames if frame["capture"] == capture]
        *most, last = numbers
        listed = f"{', '.join(most)} and {last}" if most else last
        parts.append(f"frame{'s' * bool(most)} {listed}" + f" of {capture}" * several)
    return " and ".join(parts)


def describe_negotiation(each: Mapping[str, Any], *, several: bool = False) -> str:
    """Return a sentence on how long a negotiation took, and who was waited for.

    Args:
        each: The negotiation, as in the document.
        several: Whether there is more than one capture, so that captures are named.
    """
    waits = each["waited_for_s"]
    parts = [f"{format_time(each['duration_s'])} {_describe_end(each, several=several)}"]
    sides = [node for node in (SERVER, ACCESS_POINT, NETWORK) if node in waits]
    if sides and SERVER not in waits:  # on the air: server and access point look alike
        total = format_time(sum(waits[node] for node in sides))
        parts.append(f"{total} of it waiting for the "
                     f"{_name_node(sides[0] if len(sides) == 1 else NETWORK)}")
    elif sides:
        shares = [f"{format_time(waits[node])} for the {_name_node(node)}" for node in sides]
        *most, last = shares
        parts.append("of it waiting " + (f"{', '.join(most)} and {last}" if most else last))
    if STATION in waits:
        parts.append(f"the station took {format_time(waits[STATION])}")
    gap = next(iter(each["gaps"]), None)
    if gap and gap["duration_s"] > each["duration_s"] / 4 and len(each["gaps"]) > 1:
        parts.append(_describe_gap(gap, several=several))
    reference = each["reference"]
    if reference:
        same = "the same" if reference["is_same_policy"] else "nearly the same"
        parts.append(f"measured with qop {same} policy takes "
                     f"{format_time(reference['duration_s'])}")
    return "; ".join(parts)


def _describe_gap(gap: Mapping[str, Any], *, several: bool) -> str:
    frames = name_frames(gap["frames"], several=several)
    length = format_time(gap["duration_s"])
    if gap["waited_for"] == timing.REPETITION:
        return f"the longest gap is {length} until {gap['before']} was sent again ({frames})"
    if gap["waited_for"] == timing.NEXT:
        return f"the longest gap is {length} between {gap['after']} and {gap['before']} ({frames})"
    is_first_flight = "Client Hello" in gap["after"]
    what = "the server's first TLS flight" if is_first_flight else gap["before"]
    return (f"the longest gap is {length} for the {_name_node(gap['waited_for'])} before {what} "
            f"({frames})")


def _name_node(node: str) -> str:
    return "network side" if node == NETWORK else node


def describe_reason(each: Mapping[str, Any], *, several: bool) -> str:
    """Return the reason of a negotiation's outcome with its frame, "" without one."""
    frame = each["reason_frame"]
    where = f" in {name_frames([frame], several=several)}" if frame else ""
    return f"{each['reason']}{where}"


def _describe_end(each: Mapping[str, Any], *, several: bool) -> str:
    if each["outcome"] == "failure":
        return f"to a failure: {describe_reason(each, several=several)}"
    if each["outcome"] == "cannot tell":
        return f"without a visible end: {each['reason']}"
    names = {phase["name"] for phase in each["phases"]}
    roam = "to the end of the roam" if each["previous"] else ""
    if messages.FOUR_WAY in names:
        return roam or "to the end of the handshake"
    if timing.KEYS in names:
        return roam or "to the last key"
    return roam or f"to the end ({each['end']['message']})"

"""The body of this study's records: what a repetition measured, and how older ones become it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from measure.record import RecordError, RecordPart, said

SCHEMA = 2
#: Fields of schema 1's flat records that are this study's own; all others are the envelope's.
_OWN = ("authentication_time_s", "authentication_components_s", "authentication_sum", "phases",
        "handoff", "tcp", "udp")
#: What moved into the list of authentications when bodies came to have several of them.
_OF_AN_AUTHENTICATION = {"authentication_components_s": "components_s", "phases": "phases"}
_ENVELOPE = ("repetition", "status", "reason", "evidence", "environment", "captures")
_ENVELOPE_OPTIONAL = ("attempt", "elapsed_s", "raw")


class PhaseRecord(RecordPart):
    """A phase of getting on the network; seconds after the start of its authentication."""

    name: str
    start_s: float
    duration_s: float
    packets: int


class AuthenticationRecord(RecordPart):
    """One authentication from nothing: what it consists of, and its phases in order of time.

    The last ones of a repetition that roams, as many as asked for, go on in the visited network.
    """

    components_s: dict[str, float]
    phases: list[PhaseRecord]


class StreamRecord(RecordPart):
    """One stream as the receiver saw it; `iperf` keeps what iperf3 said beside it."""

    goodput_bps: float
    bytes: int
    duration_s: float
    iperf: dict[str, float]


class HandoffRecord(RecordPart):
    """A move after an authentication before the last: its phases, and how long it took."""

    phases: list[PhaseRecord]
    handoff_s: float


class OutageRecord(RecordPart):
    """What a move did to a stream in one direction: its longest gap, and what never arrived."""

    gap_s: float
    lost_packets: int


class Measured(RecordPart):
    """Authentication times with their parts, the handoff's phases, and both streams.

    `authentication_sum` names the components that Table 4 of the paper adds up for this cell;
    `authentication_time_s` is the sum of their means over `authentications`. `handoff_s` is the
    time from leaving to the first answered packet of the last move, whatever the phases are.
    """

    schema_: int = Field(SCHEMA, alias="schema")
    authentication_time_s: float | None
    authentication_sum: list[str]
    authentications: list[AuthenticationRecord]
    handoff: list[PhaseRecord]
    handoff_s: float | None = None
    tcp: StreamRecord | None
    udp: StreamRecord | None
    #: By direction, where a stream went over the move.
    outages: dict[str, OutageRecord] | None = None
    #: Of moves before the last, in order of time, where there are any.
    earlier_handoffs: list[HandoffRecord] | None = None

    model_config = ConfigDict(populate_by_name=True)

    @property
    def phases(self) -> list[PhaseRecord]:
        """The phases of the authentication after which the node moved or streamed."""
        return self.authentications[-1].phases if self.authentications else []

    @property
    def handoffs(self) -> list[list[PhaseRecord]]:
        """The phases of each move, in order of time."""
        earlier = [each.phases for each in self.earlier_handoffs or ()]
        return [*earlier, *([self.handoff] if self.handoff else [])]

    @property
    def handoffs_s(self) -> list[float]:
        """Seconds that each move took, in order of time."""
        last = self.handoff_s
        if last is None and self.handoff:  # of records of before
            last = sum(phase.duration_s for phase in self.handoff)
        return [*(each.handoff_s for each in self.earlier_handoffs or ()),
                *([] if last is None else [last])]

    @property
    def authentication_components_s(self) -> dict[str, float]:
        """The mean of each component over the authentications that have it."""
        return mean_components_s([each.components_s for each in self.authentications])


def mean_components_s(authentications: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each component over the authentications that have it, in seconds."""
    names = dict.fromkeys(name for components in authentications for name in components)
    return {name: fmean(components[name] for components in authentications if name in components)
            for name in names}


#: What the name of a phase begins with that took place in the visited network.
FOREIGN = "foreign_"


def handoff_s(phases: Sequence[PhaseRecord], handoff: Sequence[PhaseRecord],
              stamps: Mapping[str, Any]) -> float | None:
    """Seconds from the order to leave to the first answered packet; None at home.

    Not from the handoff's phases, which are compared with it, but from the last phase of the stay
    away. Where that is missing, until the program that pings had seen the answer, which is some
    milliseconds later; without that either, the sum of the handoff's phases.
    """
    if not handoff:
        return None
    answered = [phase.start_s + phase.duration_s for phase in phases
                if phase.name == f"{FOREIGN}first_packet"]
    try:
        left = float(stamps["handoff"]) - float(stamps["start"])
        seen = float(stamps["foreign_first_packet"]) - float(stamps["start"])
    except (KeyError, TypeError, ValueError):
        return sum(phase.duration_s for phase in handoff)
    return (answered[-1] if answered else seen) - left


def with_one_authentication(body: dict[str, Any]) -> dict[str, Any]:
    """A body of schema 1, when a repetition authenticated once, as one of schema 2."""
    rest = {key: value for key, value in body.items() if key not in _OF_AN_AUTHENTICATION}
    return {**rest, "schema": 2, "authentications": [
        {name: body[key] for key, name in _OF_AN_AUTHENTICATION.items()}]}


def from_schema_1(document: dict[str, Any]) -> dict[str, Any]:
    """A record of schema 1, which knew this study alone, as one of schema 2; RecordError if none.

    What was asked stood in the run's plan only, so `asked` has what the record itself tells.
    """
    unknown = document.keys() - {"schema", "policy", "scenario", *_OWN, *_ENVELOPE,
                                 *_ENVELOPE_OPTIONAL}
    missing = {"policy", "scenario", *_OWN, *_ENVELOPE} - document.keys()
    if unknown or missing:
        raise RecordError(f"{', '.join(sorted(missing or unknown))}: "
                          f"{'missing' if missing else 'not a field of it'}")
    body = {"schema": 1, **{key: document[key] for key in _OWN}}
    try:
        measured = Measured.model_validate(with_one_authentication(body))
    except ValidationError as error:
        raise RecordError(said(error)) from None
    raw = document.get("raw")
    body["handoff_s"] = handoff_s(measured.phases, measured.handoff,
                                  raw.get("stamps") or {} if isinstance(raw, dict) else {})
    environment = dict(document["environment"])
    digest = environment.pop("policy_sha256", None)
    return {"schema": 2, "study": {"id": "qop2007", "version": 1},
            "cell": {"policy": document["policy"], "scenario": document["scenario"]},
            "digests": {"policy": digest} if digest else {}, "asked": {},
            "measured": body if any(document[key] for key in _OWN) else None,
            "environment": environment,
            **{key: document[key] for key in _ENVELOPE if key != "environment"},
            **{key: document[key] for key in _ENVELOPE_OPTIONAL if key in document}}

"""Body of this study's records: measured values, and the upgrade of older records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from measure.record import RecordError, RecordPart, describe_validation_error

SCHEMA = 2
#: Fields of flat schema 1 records that belong to this study. All others are the envelope's.
_OWN = ("authentication_time_s", "authentication_components_s", "authentication_sum", "phases",
        "handoff", "tcp", "udp")
#: Fields that moved into the list of authentications when bodies came to have several.
_OF_AN_AUTHENTICATION = {"authentication_components_s": "components_s", "phases": "phases"}
_ENVELOPE = ("repetition", "status", "reason", "evidence", "environment", "captures")
_ENVELOPE_OPTIONAL = ("attempt", "elapsed_s", "raw")


class PhaseRecord(RecordPart):
    """A phase of an authentication. Seconds count from the start of that authentication."""

    name: str
    start_s: float
    duration_s: float
    packets: int


class AuthenticationRecord(RecordPart):
    """An authentication from a clean state: its components, and its phases by time.

    The last ones of a repetition that roams, as many as there are moves, continue in the visited
    network.
    """

    components_s: dict[str, float]
    phases: list[PhaseRecord]


class StreamRecord(RecordPart):
    """A stream as the receiver measured it. `iperf` keeps iperf3's own values."""

    goodput_bps: float
    bytes: int
    duration_s: float
    iperf: dict[str, float]


class HandoffRecord(RecordPart):
    """A move after an authentication other than the last: its phases, and its duration (s)."""

    phases: list[PhaseRecord]
    handoff_s: float


class OutageRecord(RecordPart):
    """Effect of a move on a stream in a direction: longest gap (s) and losses."""

    gap_s: float
    lost_packets: int


class Measured(RecordPart):
    """Authentication times with their parts, phases of the handoff and both streams.

    `authentication_sum` names the components that Table 4 of the paper adds up for this cell.
    `authentication_time_s` is the sum of their means over `authentications`. `handoff_s` is the
    time from leaving to the first answered packet of the last move. It does not depend on the
    phases.
    """

    schema_: int = Field(SCHEMA, alias="schema")
    authentication_time_s: float | None
    authentication_sum: list[str]
    authentications: list[AuthenticationRecord]
    handoff: list[PhaseRecord]
    handoff_s: float | None = None
    tcp: StreamRecord | None
    udp: StreamRecord | None
    #: Outages by direction, where a stream ran during the move.
    outages: dict[str, OutageRecord] | None = None
    #: Moves before the last one, in order of time, if there are any.
    earlier_handoffs: list[HandoffRecord] | None = None

    model_config = ConfigDict(populate_by_name=True)

    @property
    def phases(self) -> list[PhaseRecord]:
        """Return the phases of the last authentication, after which the node moved or streamed."""
        return self.authentications[-1].phases if self.authentications else []

    @property
    def handoffs(self) -> list[list[PhaseRecord]]:
        """Return the phases of each move, in order of time."""
        earlier = [each.phases for each in self.earlier_handoffs or ()]
        return [*earlier, *([self.handoff] if self.handoff else [])]

    @property
    def handoffs_s(self) -> list[float]:
        """Return the duration of each move (s), in order of time."""
        last = self.handoff_s
        if last is None and self.handoff:  # Older records have no `handoff_s`.
            last = sum(phase.duration_s for phase in self.handoff)
        return [*(each.handoff_s for each in self.earlier_handoffs or ()),
                *([] if last is None else [last])]

    @property
    def authentication_components_s(self) -> dict[str, float]:
        """Return the mean of each component over the authentications that have it (s)."""
        return mean_components_s([each.components_s for each in self.authentications])


def mean_components_s(authentications: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each component over the authentications that have it (s)."""
    names = dict.fromkeys(name for components in authentications for name in components)
    return {name: fmean(components[name] for components in authentications if name in components)
            for name in names}


#: Prefix of the names of phases in the visited network.
FOREIGN = "foreign_"


def handoff_s(phases: Sequence[PhaseRecord], handoff: Sequence[PhaseRecord],
              stamps: Mapping[str, Any]) -> float | None:
    """Return the time (s) from the order to leave to the first answered packet.

    The result is None at home.

    The last phase of the stay in the visited network gives the end. The phases of the handoff are
    not used, because they are compared with this time. Without that phase, the end is when the ping
    program saw the answer, some milliseconds later. Without either, the result is the sum of the
    handoff's phases.
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
    """Upgrade a body of schema 1 with its one authentication to schema 2."""
    rest = {key: value for key, value in body.items() if key not in _OF_AN_AUTHENTICATION}
    return {**rest, "schema": 2, "authentications": [
        {name: body[key] for key, name in _OF_AN_AUTHENTICATION.items()}]}


def from_schema_1(document: dict[str, Any]) -> dict[str, Any]:
    """Upgrade a record of schema 1 to schema 2.

    Schema 1 knew this study alone.

    The settings stood in the run's plan only, so `asked` is empty.

    Raises RecordError where the document is not such a record.
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
        raise RecordError(describe_validation_error(error)) from None
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

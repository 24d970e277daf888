"""What a repetition of this study measured: the body of its record, and how older ones become it."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from measure.record import Part, RecordError, said

SCHEMA = 1
#: Fields of schema 1's flat records that are this study's own; all others are the envelope's.
_OWN = ("authentication_time_s", "authentication_components_s", "authentication_sum", "phases",
        "handoff", "tcp", "udp")
_ENVELOPE = ("repetition", "status", "reason", "evidence", "environment", "captures")
_ENVELOPE_OPTIONAL = ("attempt", "elapsed_s", "raw")


class PhaseRecord(Part):
    """A phase of getting on the network; seconds after the repetition's start."""

    name: str
    start_s: float
    duration_s: float
    packets: int


class StreamRecord(Part):
    """One stream as the receiver saw it; `iperf` keeps what iperf3 said beside it."""

    goodput_bps: float
    bytes: int
    duration_s: float
    iperf: dict[str, float]


class Measured(Part):
    """Authentication time with its parts, the handoff's phases, and both streams.

    `authentication_sum` names the components that Table 4 of the paper adds up for this cell.
    """

    schema_: int = Field(SCHEMA, alias="schema")
    authentication_time_s: float | None
    authentication_components_s: dict[str, float]
    authentication_sum: list[str]
    phases: list[PhaseRecord]
    handoff: list[PhaseRecord]
    tcp: StreamRecord | None
    udp: StreamRecord | None

    model_config = ConfigDict(populate_by_name=True)


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
    body = {"schema": SCHEMA, **{key: document[key] for key in _OWN}}
    try:
        Measured.model_validate(body)
    except ValidationError as error:
        raise RecordError(said(error)) from None
    environment = dict(document["environment"])
    digest = environment.pop("policy_sha256", None)
    return {"schema": 2, "study": {"id": "qop2007", "version": 1},
            "cell": {"policy": document["policy"], "scenario": document["scenario"]},
            "digests": {"policy": digest} if digest else {}, "asked": {},
            "measured": body if any(document[key] for key in _OWN) else None,
            "environment": environment,
            **{key: document[key] for key in _ENVELOPE if key != "environment"},
            **{key: document[key] for key in _ENVELOPE_OPTIONAL if key in document}}

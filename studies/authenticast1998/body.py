"""The body of this study's records: what became of every client's packets, and when."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from measure.record import RecordPart

SCHEMA = 1
#: Causes of losses that are told apart: on the way, by the handoff, for want of room, because
#: verification failed (alone, with a bundle, or because a bundle was not whole), shed, too late.
LOST = ("air", "handoff", "buffer", "failed", "bundle_failed", "bundle_incomplete", "shed", "late")


class ClientRecord(RecordPart):
    """One client's packets. All counts are of packets, `lost` by cause; they add up to `sent`.

    `sent`, `arrived` and `altered` are from captures, `processed` from what the application got,
    the rest from the receiver's account; `contended_pps` is the rate while all clients' streams
    lasted. Of those altered on the wire, some got as far as a
    verdict, and of these some were processed as they came. Times are seconds.
    """

    name: str
    sent: int
    arrived: int
    processed: int
    verified: int
    lost: dict[str, int]
    altered: int
    altered_settled: int
    altered_processed: int
    bytes_processed: int
    duration_s: float
    delay_median_s: float
    delay_p99_s: float
    exposure_s: float
    below_floor_s: float
    max_gap_packets: int
    signatures_verified: int
    sent_pps: float = 0.0
    contended_pps: float | None = None


class ChangeRecord(RecordPart):
    """The server has changed the first client's setting."""

    at_s: float
    sequence: int
    scheme: str
    level: float
    bundle: int
    cause: str


class Measured(RecordPart):
    """Means over the clients, every client, and the first client's stream over time.

    `handoff_s` is the time from leaving home to the first answered packet in the visited network.
    `lost_runs` are first and last sequence numbers of what the first client did not process.
    Timelines are pairs of seconds since the first packet, and value.
    """

    schema_: int = Field(SCHEMA, alias="schema")
    seed: int
    retention_share: float
    stream_goodput_bps: float
    delay_median_s: float | None
    delay_p99_s: float | None
    level_share: float | None
    exposure_share: float
    sent_pps: float
    max_gap_packets: float
    clients: list[ClientRecord]
    changes: list[ChangeRecord]
    lost_runs: list[tuple[int, int]]
    handoff_s: float | None = None
    gap_packets: list[tuple[float, float]]
    level_now_share: list[tuple[float, float]]
    retained_share: list[tuple[float, float]]

    model_config = ConfigDict(populate_by_name=True)

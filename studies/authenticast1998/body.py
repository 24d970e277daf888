"""Body of this study's records: what happened to each client's packets, and when."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from measure.record import RecordPart

SCHEMA = 1
#: Causes of lost packets: on the way, during the handoff, no room in the buffer, failed
#: verification, shed, too late.
#: Verification fails for a packet alone, for a packet with its bundle, or because a bundle is
#: incomplete.
LOST = ("air", "handoff", "buffer", "failed", "bundle_failed", "bundle_incomplete", "shed", "late")


class ClientRecord(RecordPart):
    """Packet counts and times of one client.

    All counts are of packets. `lost` is by cause. The losses, the processed and the waiting packets
    add up to `sent`.

    `sent`, `arrived` and `altered` come from captures, `processed` from the application's log, and
    the rest from the receiver's account. `contended_pps` is the rate (packets/s) while the streams
    of all clients lasted. `altered_settled` counts the packets altered on the wire that reached a
    verdict, and `altered_processed` those of them that were processed as altered. Times are in
    seconds.
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
    """A change of the first client's setting by the server."""

    at_s: float
    sequence: int
    scheme: str
    level: float
    bundle: int
    cause: str


class Measured(RecordPart):
    """Means over the clients, counts of each client, and the first client's timelines.

    `handoff_s` is the time (s) from leaving the home network to the first answered packet in the
    visited network. `lost_runs` holds the first and last sequence number of each run of packets
    that the first client did not process. Timelines are pairs of seconds since the first packet,
    and value.
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

"""Evaluate one measurement of authenticast1998: compute measured values and run its checks.

In one measurement (repetition), a server streams signed video to its clients. The workload leaves
captures, application logs and a list of each client's packets in a folder. `judge_repetition` reads
them outside of the guest (virtual machine). It returns measured values, checks and the reason of a
failure. `studies.authenticast1998` lists the terms.
"""

from __future__ import annotations

import csv
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.checks import proof
from measure.records import judgement
from studies import policy_factors
from studies.authenticast1998 import cells, checks, measurements, verification
from studies.authenticast1998.measurements import SCHEMA, ClientRecord, Measurements
from studies.authenticast1998.verification import (
    Key,
    VerificationResult,
    WireDatagram,
    verify_capture,
)
from studies.study import Judgement, Repetition

_RAW = ("stamps", "seed", "kernel_drops", "middle", "keys", "addresses", "processor_s",
        "clock_step_s", "failure", "parts")


@dataclass(frozen=True)
class PacketOutcome:
    """A row of the client's list of packets: numbers, times, and what happened to the packet.

    - `place`: stream and sequence number
    - `sent_ns`, `settled_ns`: when it was sent, and when the receiver had a result for it
    - `fate`: the result, such as verified
    - `crc32`: checksum of the payload that the application got
    """

    place: tuple[int, int]
    sent_ns: int
    settled_ns: int
    fate: str
    crc32: str

    @property
    def is_processed(self) -> bool:
        """Return whether the application got the packet."""
        return self.fate in {"verified", "unverified"}


@dataclass(frozen=True)
class ClientStream:
    """All data on the stream of one client, each value from its most reliable source.

    A place is the stream and sequence number of a packet.

    - `sent`, `arrived`: headers of data packets in the captures at server and client, by place
    - `sent_ns`: time of sending that the server wrote into each packet, by place
    - `repeated`: number of data packets that arrived more than once
    - `whole`: the client's capture
    - `verified`: result of the verification of that capture
    - `rows`: the client's list of packets
    - `account`: final counts that the client's program reported, None if it reported none
    - `gaps`: numbers of unread packets (DELTA) in the reports to the server
    - `kernel_drops`: number of datagrams that the client's kernel dropped
    - `made_up`: number of forged data packets in the capture
    - `away`: places of the packets sent during the handoff
    """

    name: str
    sent: Mapping[tuple[int, int], bytes]
    sent_ns: Mapping[tuple[int, int], int]
    arrived: Mapping[tuple[int, int], bytes]
    repeated: int
    whole: Sequence[WireDatagram]
    verified: VerificationResult
    rows: Sequence[PacketOutcome]
    account: Mapping[str, Any] | None
    gaps: Sequence[int]
    kernel_drops: int
    made_up: int
    away: AbstractSet[tuple[int, int]]
    address: str = ""

    @property
    def losses(self) -> dict[str, int]:
        """Return the number of lost packets by cause.

        The captures at both ends show losses on the way: on air or wire, or by the handoff if the
        packet was sent between two networks. The other missing packets were lost at the receive
        buffer.
        """
        counts: dict[str, int] = dict(self.account["lost"]) if self.account else {}
        if not counts:
            return {}
        unread = self.left_packets
        missing = self.sent.keys() - self.arrived.keys() - unread
        handoff = len(missing & self.away)
        return {**counts, "air": len(missing) - handoff, "handoff": handoff,
                "buffer": counts["air"] + counts["buffer"] - len(missing),
                **({"left": len(unread)} if unread else {})}

    @property
    def left_packets(self) -> set[tuple[int, int]]:
        """Return the packets that a client left unread, because it ended the stream early.

        Each packet is a pair of stream number and sequence number.
        """
        bye = next((datagram for datagram in self.whole if datagram.kind == verification.BYE), None)
        if bye is None or bye.source != self.address or self.account is None:
            return set()
        return {place for place in self.sent if place[1] >= self.account["sent"]}

    @property
    def altered_packets(self) -> set[tuple[int, int]]:
        """Return the packets whose bytes differ between the captures at server and client.

        Each packet is a pair of stream number and sequence number.
        """
        return {place for place, head in self.arrived.items()
                if place in self.sent and self.sent[place] != head}

    @property
    def processed_rows(self) -> list[PacketOutcome]:
        """Return the rows of the packets that the application got."""
        return [row for row in self.rows if row.is_processed]

    def altered_and_settled(self) -> tuple[int, int]:
        """Count the altered packets that the application got, and all altered packets settled.

        A packet is settled if the receiver has a result for it, such as verified or failed.
        """
        altered = self.altered_packets
        crcs = {packet.stream_and_sequence: f"{zlib.crc32(packet.payload):08x}" for datagram
                in self.whole
                if datagram.kind == verification.DATA
                and (packet := verification.parse_data_packet(datagram.payload))
                and packet.stream_and_sequence in altered}
        processed = {row.place for row in self.processed_rows if row.crc32 == crcs.get(row.place)}
        return len(processed), len({row.place for row in self.rows} & altered)


def judge_repetition(repetition: Repetition) -> Judgement:
    """Evaluate one repetition by the files that its workload left.

    Args:
        repetition: the combination of factors, settings, secrets of the run and folder of the
            files.

    Returns:
        Measured values, results of the checks, and the reason if the repetition failed.

    Raises:
        MeasureError, OSError: a file is missing or cannot be read.
    """
    raw = json.loads((repetition.out / "raw.json").read_text())
    raw_kept = judgement.select_raw_values(raw, _RAW)
    if raw["failure"]:
        return Judgement(None, reason=f"{raw['failure']['stage']}: {raw['failure']['reason']}",
                         captures=proof.list_captures(raw), raw=raw_kept)
    failures = [f"{name}: {event['reason']}" for name, events in raw["events"].items()
            for event in events if event["event"] == "failed"]
    if failures:
        return Judgement(None, reason="; ".join(failures), captures=proof.list_captures(raw),
                         raw=raw_kept)
    heads = list(verification.read_datagrams(repetition.out / "heads-server.pcap",
                                             proof.esp_keys(raw)))
    streams = list(_read_streams(raw, repetition.out, heads))
    heuristic, load = cells.heuristic_of(repetition.cell), repetition.cell.value("load")
    evidence = checks.run_checks(streams, heads, raw["addresses"],
                                 checks.CellRequirements.from_levels(heuristic, load))
    if policy_factors.is_on_air(repetition.cell):
        policy, scenario = (repetition.cell.value(name) for name in ("policy", "scenario"))
        evidence += proof.verify_repetition(policy, scenario, repetition.out, raw,
                                            repetition.secrets)
    unproven = judgement.failure_reasons(evidence)
    measured = _measure(streams, raw) if all(one.account and one.processed_rows for one
                                             in streams) else None
    if measured is None and not unproven:
        unproven = ["not proven: streams end (a client has no account)"]
    reason = "; ".join(unproven)
    return Judgement(measured if not reason else None, evidence, reason,
                     captures=proof.list_captures(raw), raw=raw_kept,
                     files=[f"{one.name}.csv" for one in streams])


def _read_streams(raw: Mapping[str, Any], out: Path,
                  server_datagrams: Sequence[WireDatagram]) -> Iterator[ClientStream]:
    """Yield the stream of each client, with its packets from captures and logs.

    Args:
        raw: raw values of the repetition.
        out: folder of the repetition.
        server_datagrams: datagrams captured at the server.
    """
    heads = [datagram for datagram in server_datagrams if datagram.kind == verification.DATA]
    server, moving = Key(raw["keys"]["server"]), proof.handoff_times(raw)
    for name, address in raw["addresses"].items():
        if name == "server":
            continue
        datagrams = list(verification.read_datagrams(out / f"whole-{name}.pcap",
                                                     proof.esp_keys(raw)))
        whole = [datagram for datagram in datagrams if not datagram.is_far_ahead]
        arrived = [datagram.payload for datagram in whole if datagram.kind == verification.DATA]
        sent = [datagram.payload for datagram in heads if datagram.target == address]
        events = raw["events"][name]
        yield ClientStream(
            name=name, address=address, sent={_parse_place(head): _head_of(head) for head in sent},
            sent_ns={_parse_place(head): int.from_bytes(head[16:24], "big") for head in sent},
            arrived={_parse_place(head): _head_of(head) for head in arrived},
            repeated=sum(count - 1 for count in Counter(map(bytes, arrived)).values()),
            whole=whole, verified=verify_capture(whole, server, Key(raw["keys"][name])),
            rows=list(_read_rows(out / f"{name}.csv")),
            account=next((event for event in events if event["event"] == "ended"), None),
            gaps=[event["delta"] for event in raw["events"]["server"]
                  if event["event"] == "report" and event["client"] == name],
            kernel_drops=raw["kernel_drops"][name], made_up=len(datagrams) - len(whole),
            away={_parse_place(datagram.payload) for datagram in heads
                  if datagram.target == address and moving[0] <= datagram.at_s <= moving[1]})


def _parse_place(head: bytes) -> tuple[int, int]:
    """Return stream number and sequence number from the header of a data packet."""
    return int.from_bytes(head[4:8], "big"), int.from_bytes(head[8:16], "big")


def _head_of(payload: bytes) -> bytes:
    return payload[:verification.COMMON_BYTES]


def _read_rows(file: Path) -> Iterator[PacketOutcome]:
    with file.open(newline="") as lines:
        for line in csv.DictReader(lines):
            yield PacketOutcome((int(line["stream"]), int(line["sequence"])),
                                int(line["sent_ns"] or 0),
                                int(line["settled_ns"]), line["fate"], line["crc32"])


def _measure(streams: Sequence[ClientStream], raw: Mapping[str, Any]) -> Measurements:
    """Return the measured values of a repetition, as means over the clients and in detail."""
    together_ns = (max(min(one.sent_ns.values()) for one in streams),
                   min(max(one.sent_ns.values()) for one in streams))
    clients = [_client_record(one, together_ns) for one in streams]
    first, events = streams[0], raw["events"]["server"]
    verified, processed = (sum(getattr(client, name) for client in clients)
                           for name in ("verified", "processed"))
    return Measurements(
        schema=SCHEMA, seed=raw["seed"],
        retention_share=_mean_of([client.processed / client.sent for client in clients]),
        stream_goodput_bps=_mean_of([8 * client.bytes_processed / client.duration_s
                                     for client in clients]),
        delay_median_s=_mean_of([client.delay_median_s for client in clients]),
        delay_p99_s=_mean_of([client.delay_p99_s for client in clients]),
        level_share=verified / processed if processed else None,
        exposure_share=_mean_of([min(1.0, client.exposure_s / client.duration_s)
                                 for client in clients]),
        sent_pps=_mean_of([client.sent_pps for client in clients]),
        max_gap_packets=_mean_of([client.max_gap_packets for client in clients]),
        handoff_s=proof.handoff_duration_s(raw), clients=clients,
        changes=measurements.setting_changes(events, first.name, first.sent_ns),
        lost_runs=measurements.lost_runs(first.sent_ns,
                                         {row.place for row in first.processed_rows}),
        gap_packets=measurements.reported_values(events, first.name, first.sent_ns, "delta"),
        level_now_share=measurements.reported_values(events, first.name, first.sent_ns, "level"),
        retained_share=measurements.retention_by_second(first.sent_ns,
                                                        {row.place for row
                                                         in first.processed_rows}))


def _client_record(one: ClientStream, together_ns: tuple[int, int]) -> ClientRecord:
    """Return packet counts and times of a client.

    `together_ns` is the begin and end of the time in which the streams of all clients lasted.
    """
    account = one.account or {}
    processed = one.processed_rows
    delays_s = sorted((row.settled_ns - row.sent_ns) / 1e9 for row in processed)
    begin_ns = min(one.sent_ns.values())
    altered_processed, altered_settled = one.altered_and_settled()
    return ClientRecord(
        name=one.name, sent=len(one.sent), arrived=len(one.arrived), processed=len(processed),
        verified=sum(row.fate == "verified" for row in processed),
        lost=one.losses, altered=len(one.altered_packets),
        altered_settled=altered_settled, altered_processed=altered_processed,
        bytes_processed=account["bytes_processed"],
        duration_s=(max(row.settled_ns for row in processed) - begin_ns) / 1e9,
        delay_median_s=_nearest_rank(delays_s, 0.5), delay_p99_s=_nearest_rank(delays_s, 0.99),
        exposure_s=account["exposure_s"], below_floor_s=account["below_floor_s"],
        max_gap_packets=max(one.gaps, default=0),
        signatures_verified=account["signatures_verified"], sent_pps=_sent_pps(one),
        contended_pps=_pps_within(one, *together_ns))


def _sent_pps(one: ClientStream) -> float:
    """Return the mean sending rate in packets per second, from the first to the last packet."""
    return 1e9 * (len(one.sent) - 1) / (max(one.sent_ns.values()) - min(one.sent_ns.values()))


def _pps_within(one: ClientStream, begin_ns: int, end_ns: int) -> float | None:
    """Return the sending rate (packets/s) within a part of the stream, or None if it has none."""
    if end_ns <= begin_ns:
        return None
    return 1e9 * sum(begin_ns <= stamp_ns < end_ns for stamp_ns in one.sent_ns.values()) / (
        end_ns - begin_ns)


def _nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the quantile of sorted values at a fraction of 0 to 1 (nearest rank)."""
    return values[min(len(values) - 1, int(share * len(values)))]


def _mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)

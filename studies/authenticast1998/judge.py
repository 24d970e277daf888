"""Judge: turn captures and application logs into measured values and evidence."""

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

from measure import judging, on_air
from studies import mobile
from studies.authenticast1998 import captures, checks, factors, timelines
from studies.authenticast1998.body import SCHEMA, ClientRecord, Measured
from studies.authenticast1998.captures import WireDatagram
from studies.authenticast1998.keys import Key
from studies.authenticast1998.verify import Verified, verify_capture
from studies.study import Judged, Repetition

_RAW = ("stamps", "seed", "kernel_drops", "middle", "keys", "addresses", "processor_s",
        "clock_step_s", "failure", "parts")


@dataclass(frozen=True)
class Row:
    """An entry of the client's series: what happened to a packet at the application."""

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
class Seen:
    """All data on one client's stream, each value from its most reliable source.

    `sent` and `arrived` hold the heads of data packets by stream and sequence number, from the
    captures at the server and at the client. `whole` is the client's capture, `account` the final
    event of its program. `gaps` are the values of DELTA in the server's reports. `away` holds the
    packets sent during the handoff.
    """

    name: str
    sent: Mapping[tuple[int, int], bytes]
    sent_ns: Mapping[tuple[int, int], int]
    arrived: Mapping[tuple[int, int], bytes]
    repeated: int
    whole: Sequence[WireDatagram]
    verified: Verified
    rows: Sequence[Row]
    account: Mapping[str, Any] | None
    gaps: Sequence[int]
    kernel_drops: int
    made_up: int
    away: AbstractSet[tuple[int, int]]
    address: str = ""

    @property
    def losses(self) -> dict[str, int]:
        """Return the losses by cause.

        Captures at both ends show the losses on the way. They are losses of the air or wire, or of
        the handoff where the packet was sent between two networks. The remaining missing packets
        were lost at the buffer.
        """
        said: dict[str, int] = dict(self.account["lost"]) if self.account else {}
        if not said:
            return {}
        left = self.left_packets
        missing = self.sent.keys() - self.arrived.keys() - left
        handoff = len(missing & self.away)
        return {**said, "air": len(missing) - handoff, "handoff": handoff,
                "buffer": said["air"] + said["buffer"] - len(missing),
                **({"left": len(left)} if left else {})}

    @property
    def left_packets(self) -> set[tuple[int, int]]:
        """Return the packets left behind by a client that said goodbye before its server."""
        bye = next((datagram for datagram in self.whole if datagram.kind == captures.BYE), None)
        if bye is None or bye.source != self.address or self.account is None:
            return set()
        return {place for place in self.sent if place[1] >= self.account["sent"]}

    @property
    def altered_packets(self) -> set[tuple[int, int]]:
        """Return packets that arrived with other bytes than were sent, by the captures alone."""
        return {place for place, head in self.arrived.items()
                if place in self.sent and self.sent[place] != head}

    @property
    def processed_rows(self) -> list[Row]:
        """Return the packets that the application got."""
        return [row for row in self.rows if row.is_processed]

    def altered_and_settled(self) -> tuple[int, int]:
        """Count the altered packets that the application got, and those with any verdict."""
        altered = self.altered_packets
        crcs = {packet.stream_and_sequence: f"{zlib.crc32(packet.payload):08x}" for datagram
                in self.whole
                if datagram.kind == captures.DATA
                and (packet := captures.parse_data_packet(datagram.payload))
                and packet.stream_and_sequence in altered}
        got = {row.place for row in self.processed_rows if row.crc32 == crcs.get(row.place)}
        return len(got), len({row.place for row in self.rows} & altered)


def judge_repetition(repetition: Repetition) -> Judged:
    """Verify, account for and measure a repetition by the files that its workload left.

    Args:
        repetition: the cell, the settings, the run's secrets and the folder of the files.

    Returns:
        The measured values, the evidence, and the reason of a failure.

    Raises:
        MeasureError, OSError: a file is missing or cannot be read.
    """
    raw = json.loads((repetition.out / "raw.json").read_text())
    raw_kept = judging.select_raw_values(raw, _RAW)
    if raw["failure"]:
        return Judged(None, reason=f"{raw['failure']['stage']}: {raw['failure']['reason']}",
                      captures=on_air.list_captures(raw), raw=raw_kept)
    said = [f"{name}: {event['reason']}" for name, events in raw["events"].items()
            for event in events if event["event"] == "failed"]
    if said:
        return Judged(None, reason="; ".join(said), captures=on_air.list_captures(raw),
                      raw=raw_kept,
                      status="failed")
    heads = list(captures.read_datagrams(repetition.out / "heads-server.pcap",
                                         on_air.esp_keys(raw)))
    seen = list(_read_streams(raw, repetition.out, heads))
    heuristic, load = factors.heuristic_of(repetition.cell), repetition.cell.value("load")
    evidence = checks.check_all(seen, heads, raw["addresses"],
                                checks.Expectation.from_levels(heuristic, load))
    if mobile.is_on_air(repetition.cell):
        policy, scenario = (repetition.cell.value(name) for name in ("policy", "scenario"))
        evidence += on_air.verify_repetition(policy, scenario, repetition.out, raw,
                                             repetition.secrets)
    unproven = judging.failure_reasons(evidence)
    measured = _measure(seen, raw) if all(one.account and one.processed_rows for one
                                          in seen) else None
    if measured is None and not unproven:
        unproven = ["not proven: streams end (a client has no account)"]
    reason = "; ".join(unproven)
    return Judged(measured if not reason else None, evidence, reason,
                  status="failed" if reason else "ok", captures=on_air.list_captures(raw),
                  raw=raw_kept,
                  files=[f"{one.name}.csv" for one in seen])


def _read_streams(raw: Mapping[str, Any], out: Path,
                  server_datagrams: Sequence[WireDatagram]) -> Iterator[Seen]:
    heads = [datagram for datagram in server_datagrams if datagram.kind == captures.DATA]
    server, moving = Key(raw["keys"]["server"]), on_air.handoff_times(raw)
    for name, address in raw["addresses"].items():
        if name == "server":
            continue
        every = list(captures.read_datagrams(out / f"whole-{name}.pcap", on_air.esp_keys(raw)))
        whole = [datagram for datagram in every if not datagram.is_far_ahead]
        arrived = [datagram.payload for datagram in whole if datagram.kind == captures.DATA]
        sent = [datagram.payload for datagram in heads if datagram.target == address]
        events = raw["events"][name]
        yield Seen(
            name=name, address=address, sent={_parse_place(head): _head_of(head) for head in sent},
            sent_ns={_parse_place(head): int.from_bytes(head[16:24], "big") for head in sent},
            arrived={_parse_place(head): _head_of(head) for head in arrived},
            repeated=sum(count - 1 for count in Counter(map(bytes, arrived)).values()),
            whole=whole, verified=verify_capture(whole, server, Key(raw["keys"][name])),
            rows=list(_read_rows(out / f"{name}.csv")),
            account=next((event for event in events if event["event"] == "ended"), None),
            gaps=[event["delta"] for event in raw["events"]["server"]
                  if event["event"] == "report" and event["client"] == name],
            kernel_drops=raw["kernel_drops"][name], made_up=len(every) - len(whole),
            away={_parse_place(datagram.payload) for datagram in heads
                  if datagram.target == address and moving[0] <= datagram.at_s <= moving[1]})


def _parse_place(head: bytes) -> tuple[int, int]:
    return int.from_bytes(head[4:8], "big"), int.from_bytes(head[8:16], "big")


def _head_of(payload: bytes) -> bytes:
    return payload[:captures.COMMON_BYTES]


def _read_rows(file: Path) -> Iterator[Row]:
    with file.open(newline="") as lines:
        for line in csv.DictReader(lines):
            yield Row((int(line["stream"]), int(line["sequence"])), int(line["sent_ns"] or 0),
                      int(line["settled_ns"]), line["fate"], line["crc32"])


def _measure(streams: Sequence[Seen], raw: Mapping[str, Any]) -> Measured:
    together_ns = (max(min(one.sent_ns.values()) for one in streams),
                   min(max(one.sent_ns.values()) for one in streams))
    clients = [_client_record(one, together_ns) for one in streams]
    first, events = streams[0], raw["events"]["server"]
    verified, processed = (sum(getattr(client, name) for client in clients)
                           for name in ("verified", "processed"))
    return Measured(
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
        handoff_s=on_air.handoff_took_s(raw), clients=clients,
        changes=timelines.setting_changes(events, first.name, first.sent_ns),
        lost_runs=timelines.lost_runs(first.sent_ns, {row.place for row in first.processed_rows}),
        gap_packets=timelines.reported_values(events, first.name, first.sent_ns, "delta"),
        level_now_share=timelines.reported_values(events, first.name, first.sent_ns, "level"),
        retained_share=timelines.retention_by_second(first.sent_ns,
                                                     {row.place for row in first.processed_rows}))


def _client_record(one: Seen, together_ns: tuple[int, int]) -> ClientRecord:
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


def _sent_pps(one: Seen) -> float:
    """Return the rate in packets per second, from the first to the last packet sent."""
    return 1e9 * (len(one.sent) - 1) / (max(one.sent_ns.values()) - min(one.sent_ns.values()))


def _pps_within(one: Seen, begin_ns: int, end_ns: int) -> float | None:
    """Return the rate (packets/s) within a part of the stream (None: empty part)."""
    if end_ns <= begin_ns:
        return None
    return 1e9 * sum(begin_ns <= stamp_ns < end_ns for stamp_ns in one.sent_ns.values()) / (
        end_ns - begin_ns)


def _nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the quantile of sorted values at a share of 0 to 1 (nearest rank)."""
    return values[min(len(values) - 1, int(share * len(values)))]


def _mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)

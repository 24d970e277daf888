"""Over the air: what is lost is told by both ends, and each check fails where it should."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import studies
from analysis import results as loading
from conftest import PROJECT, Qop
from harness.engine.request import RunRequest, build_plan
from harness.errors import UserError
from measure.capture.pcap import CapturedFrame
from measure.records.record import CheckRecord, Record, StudyRecord
from protocols.adp.packets import HEADER, HeaderFlag
from studies.adp1987.measurements import Measurements
from studies.adp1987.proof import air_checks, captured_messages
from studies.adp1987.proof.air_checks import (
    AirPhase,
    AirPhases,
    AirTraffic,
    HostDatagram,
    find_datagrams,
    run_checks,
)
from studies.adp1987.proof.captured_messages import PROTOCOL
from studies.adp1987.proof.checks import PieceCounts
from studies.adp1987.proof.realtime_checks import HostTraffic
from studies.adp1987.traces import Payload

STUDY = studies.load_study("adp1987")
ALPHA, BETA = "10.1.0.1", "10.1.0.12"
HOSTS = {"alpha": ALPHA, "beta": BETA}
POLICY = f"""id: C12
name: WEP with keys from EAP-TLS, an IPsec tunnel, and a channel of today's
extends: {PROJECT / 'policies' / 'P12.yml'}
layers:
  channel: {{protocol: adp, scope: all, timeout_ms: 20}}
"""
CHECKS = {"intact", "accounted", "carried", "nothing-else", "handshake", "sessions", "private"}
CLOSED = {f"{part}-{host}": PieceCounts(frames=9) for part in ("proof", "later") for host in HOSTS}


def packet(number: int, offset: int = 0, size: int = 8, *, more: bool = False, source: str = ALPHA,
           protocol: int = PROTOCOL) -> CapturedFrame:
    """A fragment from one host to the other."""
    target = BETA if source == ALPHA else ALPHA
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + size, number, (0x2000 * more) | offset // 8,
                       64, protocol, 0, *(bytes(map(int, end.split("."))) for end in
                                          (source, target)))
    return CapturedFrame(float(number), bytes(12) + b"\x08\x00" + head + bytes(size), 34 + size)


def test_datagrams_are_put_together_of_fragments() -> None:
    """One in a piece, one in two, one that lacks its end, and one of a number used again."""
    frames = [packet(1), packet(2, more=True, size=16), packet(2, 16, 5), packet(3, more=True),
              packet(1, size=24), packet(9, source=BETA), packet(4, protocol=50)]
    made = list(find_datagrams(frames, HOSTS))
    assert [(one.number, one.bytes, one.is_whole) for one in made] == [
        (1, 8, True), (2, 21, True), (3, 8, False), (1, 24, True), (9, 8, True)]
    assert {one.source for one in made} == {ALPHA, BETA}


def test_what_arrived_is_placed_by_size_and_content(tmp_path: Path) -> None:
    """Losses leave gaps; what was never handed over, or comes late, is strange."""
    payload = Payload(7)
    arrivals = [(0.1 * number, size, False) for number, size in enumerate((4, 90, 4, 90))]
    came = [(5, 90, payload.message_checksum(1, 90)), (6, 90, payload.message_checksum(3, 90)),
            (7, 4, payload.message_checksum(0, 4)), (8, 4, 1)]
    placed, strange = air_checks._match_deliveries(came, arrivals, payload)
    assert placed == [None, 5, None, 6]
    assert strange == 2


def datagram(number: int, messages: int, flags: int = int(HeaderFlag.SEALED), *,
             source: str = ALPHA,
             at_s: float = 10.0) -> HostDatagram:
    """An ADP message of a channel's, with its sequence number."""
    head = bytes((0x21, flags)) + messages.to_bytes(2) + b"channel!" + bytes(HEADER - 12) + \
        number.to_bytes(8)
    return HostDatagram(at_s, source, BETA if source == ALPHA else ALPHA, PROTOCOL, number, head,
                        1000, 1000)


def example() -> tuple[AirTraffic, AirPhases]:
    """A request, its answer, and two messages each in two datagrams, of which the last is lost."""
    shaking = [datagram(1, 0, HeaderFlag.REQUEST, at_s=1.0),
               datagram(2, 0, HeaderFlag.ACKNOWLEDGE, source=BETA, at_s=2.0)]
    sent = [datagram(3, 2), datagram(4, 2)]
    phase = AirPhase([(0.0, 100, False)] * 2, [0, 0], [1, 2])
    made = {"proof": phase, "latency": replace(phase, delivered_ns=[None, None])}
    return (AirTraffic("adp", [*shaking, *sent], [*shaking, sent[0]], ALPHA, CLOSED),
            AirPhases(made, 0, {}, latency_s=5.0))


def failed(seen: AirTraffic, made: AirPhases, scope: str = "all") -> set[str]:
    """The checks that do not hold."""
    # What a channel opens to is `test_opened`'s, and when messages went `test_dispatched`'s.
    every = [check for check in run_checks(seen, made, scope) if check.check != "owner"]
    assert {check.check for check in every} == CHECKS
    return {check.check for check in every if not check.ok}


def test_a_lost_datagram_is_accounted_for() -> None:
    """Both logs and both captures lack the same two messages: everything holds."""
    assert failed(*example()) == set()


def test_each_check_fails_where_it_should() -> None:
    """A loss that no capture has, a late handshake, another channel, a number again, and so on."""
    seen, made = example()
    sent = list(seen.at_alpha)
    came = replace(made, by_name={**made.by_name, "latency": made.by_name["proof"]})
    assert failed(seen, came) == {"accounted"}
    late = datagram(7, 0, HeaderFlag.REQUEST, at_s=9.0)
    assert failed(replace(seen, at_alpha=[*sent, late], at_beta=[*seen.at_beta, late]), made) == {
        "handshake"}
    other = replace(sent[2], head=sent[2].head[:4] + b"another!" + sent[2].head[12:])
    assert failed(replace(seen, at_beta=[*seen.at_beta, other]), made) == {"sessions"}
    again = replace(sent[3], head=sent[2].head)
    assert failed(replace(seen, at_alpha=[*sent[:3], again]), made) == {"sessions"}
    for port, checks_failed in ((4987, {"nothing-else"}), (9, {"nothing-else"}), (434, set())):
        udp = HostDatagram(10.0, ALPHA, BETA, 17, 8, struct.pack("!HH", port, port), 100, 100)
        assert failed(replace(seen, at_beta=[*seen.at_beta, udp]), made) == checks_failed
    shows = {**CLOSED, "later-beta": PieceCounts(frames=9, showing=1)}
    assert failed(replace(seen, shown=shows), made) == {"private"}
    assert failed(replace(seen, shown=shows), made, "trailer") == {"private"}
    assert failed(seen, made, "trailer") == {"private"}
    assert failed(seen, replace(made, wrong=1)) == {"intact"}
    assert failed(replace(seen, at_alpha=sent[:3]), made) == {"accounted", "carried"}


def with_next_keys(seen: AirTraffic) -> AirTraffic:
    """After two minutes: the exchange inside the channel, and a message under what comes of it."""
    def asks(number: int, flag: int, source: str) -> HostDatagram:
        made = datagram(number, 0, flag | HeaderFlag.REKEY | HeaderFlag.SEALED, source=source)
        about = (40).to_bytes(2) + b"follower" + bytes(32)
        return replace(made, head=made.head[:HEADER] + about + made.head[HEADER:])

    rekey = [asks(5, HeaderFlag.REQUEST, ALPHA), asks(6, HeaderFlag.ACKNOWLEDGE, BETA)]
    following = datagram(1, 0)
    following = replace(following, number=7,
                        head=following.head[:4] + b"follower" + following.head[12:])
    return replace(seen, at_alpha=[*seen.at_alpha, *rekey, following],
                   at_beta=[*seen.at_beta, *rekey, following])


def test_next_keys_are_of_the_same_channel() -> None:
    """No second handshake, and numbers that begin anew; one that nobody announced is another's."""
    seen, made = example()
    assert failed(with_next_keys(seen), made) == set()
    silent = with_next_keys(seen)
    silent = replace(silent, at_beta=[one for one in silent.at_beta if one.number not in (5, 6)])
    assert "sessions" in failed(silent, made)
    again = with_next_keys(seen)
    repeated = replace(again.at_alpha[-1], number=8)
    assert failed(replace(again, at_alpha=[*again.at_alpha, repeated],
                          at_beta=[*again.at_beta, repeated]), made) == {"sessions"}


def test_next_keys_are_no_handshake_in_real_time() -> None:
    """Its time, C, is of the first exchange; the channel is one."""
    for seen, channels in ((example()[0], 1), (with_next_keys(example()[0]), 1)):
        traffic = HostTraffic("adp")
        for one in seen.at_alpha:
            traffic.count_packet(one.at_s, b"\x45" + bytes(8) + bytes((PROTOCOL, 0, 0)) + bytes(map(
                int, one.source.split("."))) + bytes(4) + one.head)
        assert traffic.handshake_s == 1.0 and not traffic.repeated
        assert captured_messages.count_channels(traffic.sessions, traffic.announced) == channels


def cells(**levels: list[str]) -> list[Mapping[str, str]]:
    """The ids of a plan's cells of ALL."""
    return [cell.ids for cell in build_plan(RunRequest(STUDY, levels={
        "trace": ["ALL"], **levels}), {}).cells]


def test_the_air_waits_to_be_asked_for(tmp_path: Path) -> None:
    """Each policy has every protocol, and none; one with a layer of its own has that alone."""
    assert {ids["policy"] for ids in cells()} == {"no-policy"}
    made = cells(policy=["P1", "P12"], scenario=["N2"])
    assert len(made) == 8
    assert {(ids["protocol"], ids["queue"]) for ids in made} == {
        ("none", "OFF"), ("modern", "OFF"), ("modern", "ON"), ("1987", "ON")}
    (tmp_path / "c12.yml").write_text(POLICY)
    asked = RunRequest(STUDY, levels={"trace": ["ALL"], "scenario": ["R1"]},
                       files={"policy": [tmp_path / "c12.yml"]})
    [cell] = build_plan(asked, {}).cells
    assert (cell.ids["protocol"], cell.ids["scope"], cell.ids["queue"]) == ("of-policy", "FE", "ON")
    task = STUDY.task(cell, build_plan(asked, {}).asked)
    assert (task["protocol"], task["timeout_s"], task["has_port"]) == ("adp", 0.02, True)
    with pytest.raises(UserError, match="go with scenarios of the air: add --scenarios N2,R1"):
        cells(policy=["P12"])
    with pytest.raises(UserError, match="go with scenarios of the air: add --policies P1,P12"):
        cells(scenario=["R1"])
    with pytest.raises(UserError, match="not measured by the real clock"):
        build_plan(asked, {"clock": "real"})


@pytest.mark.parametrize("messages", ["100", "10000"])
def test_a_repetition_on_the_air_may_take_ten_times_as_long(messages: str) -> None:
    """As over wires: by the messages that are asked for, however many."""
    made = build_plan(RunRequest(STUDY,
                                 levels={"trace": ["ALL"], "policy": ["P1"], "scenario": ["N2"]},
                                 sets={"messages": messages}), {})
    for cell in made.cells:
        assert STUDY.deadline_s(cell, made.asked) > 10 * made.expected_cost(cell).processor_s


def test_a_layer_that_nothing_here_runs_is_refused(tmp_path: Path) -> None:
    """One line, with what the study runs."""
    (tmp_path / "s.yml").write_text(POLICY.replace(
        "channel: {protocol: adp, scope: all, timeout_ms: 20}", "stream: {scheme: tree}"))
    with pytest.raises(UserError, match=r"layers.stream is above the network's.*it runs channel"):
        build_plan(RunRequest(STUDY, files={"policy": [tmp_path / "s.yml"]}), {})


def test_a_wireguard_tunnel_on_the_air_is_refused() -> None:
    """Nothing in it could be proven; over wires it is measured beside."""
    with pytest.raises(UserError, match="policy M10: this study opens ESP's captures and not Wire"):
        build_plan(RunRequest(STUDY,
                              levels={"trace": ["ALL"], "policy": ["M10"], "scenario": ["N2"]}),
                   {})


def test_the_report_puts_each_protocol_beside_none() -> None:
    """Throughput as a share of none's in the same place; no claim of the paper's is about it."""
    made = build_plan(RunRequest(STUDY, levels={"trace": ["ALL"], "policy": ["P1"],
                                                "scenario": ["N2", "R1"]}), {})
    rates = {"none": 500.0, "modern": 600.0, "1987": 550.0}
    records = [Record(
        schema_=2, study=StudyRecord(id=STUDY.id, version=STUDY.version), cell=cell.ids,
        repetition=repetition, status="ok", reason="", digests={}, asked={}, captures=[],
        measured=Measurements(throughput_bytes_per_s=rates[cell.ids["protocol"]] * (
            1 + (cell.ids["scenario"] == "R1")), latency_s=0.01, lost_otherwise=0,
            lost_by_handoff=3).model_dump(),
        evidence=[CheckRecord(check="owner", ok=True, detail="made up")],
        environment={"medium": "", "clock": "virtual", "machine": "guest", "fault": None})
        for cell in made.cells for repetition in (1, 2)]
    report = STUDY.report(loading.from_records(records, STUDY, made.manifest), {})
    [table] = [table for table in report.tables if table.id == "table-on-air"]
    place = [column.key for column in table.columns].index("throughput_share")
    shares = {(row[3].text, round(number.value, 6)) for row in table.rows
              if (number := row[place].number) is not None}
    assert shares == {("none", 1.0), ("modern", 1.2), ("1987", 1.1)}
    assert len(table.rows) == 8
    assert not report.claims


SMALL = ("--traces", "ALL", "--repetitions", "1", "--messages", "150", "--set",
         "paced_messages=300", "--set", "proof_messages=30")


@pytest.mark.guest
@pytest.mark.shareable
def test_a_policys_channel_survives_a_handoff_and_is_proven(qop: Qop) -> None:
    """Through WEP, EAP-TLS, a tunnel and Mobile IP, one channel; judged anew, it says the same."""
    (qop.folder / "c12.yml").write_text(POLICY)
    done = qop("run", "adp1987", *SMALL, "--policy", "c12.yml", "--scenarios", "R1",
               "--out", "moved")
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = qop.records("moved").values()
    assert {check.check for check in record.evidence} > CHECKS | {"owner", "in-time"}
    assert record.measured is not None
    assert record.measured["handoff_s"] > 0 < record.measured["throughput_bytes_per_s"]
    assert len({name for name in record.measured if name.startswith("lost_")}) == 2
    again = qop("verify", "--redo", "moved")
    assert "; 1 records judged anew say the same" in again.stdout

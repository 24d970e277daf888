"""Tests of the study's judge: recordings become bodies, damage is named, streams are timed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recompute
from measure.agent.errors import MeasureError
from measure.capture import tshark
from measure.checks import packet_counts
from recorded import (
    AWAY,
    ELSEWHERE,
    IDS,
    POLICIES,
    has_static_key,
    judged,
    observed,
    packets,
    path,
    policy_of,
    raw,
    scenario_of,
)
from studies.qop2007 import judge
from studies.qop2007.measurements import FOREIGN, AuthenticationRecord, Measurements, StreamRecord
from studies.qop2007.phases import summed_components
from studies.study import Judgement

BLANK = tshark.parse_packets("0\t60\n")[0]
# So many of a stream are kept in a recording.
RECORDED_DATAGRAMS = 8


def udp(times: list[float], *, received_bytes: int = 140_000, length: int = 1442,
        others: list[float] | None = None, sent_s: float = 1e-4) -> StreamRecord | None:
    """The UDP stream of datagrams seen at these times, between 10 and 20 s, and other packets."""
    report = raw("P1")["iperf_udp"]
    report["end"]["sum_received"]["bytes"] = received_bytes
    report["end"]["sum_sent"]["seconds"] = sent_s
    values = {"iperf_udp": report, "stamps": {"udp_start": 10.0, "udp_end": 20.0}}
    wire = [replace(BLANK, time_s=at_s, length=length, ip_bytes=length - 14) for at_s in times]
    wire += [replace(BLANK, time_s=at_s, length=66, ip_bytes=52) for at_s in others or []]
    return judge._udp_record(values, sorted(wire, key=lambda packet: packet.time_s))


def test_udp_duration_is_n_intervals_of_the_mean_gap() -> None:
    """Five datagrams, 1 s apart, take 5 s: n/(n-1) of the time from first to last."""
    found = udp([11, 12, 13, 14, 15], received_bytes=5000)
    assert found is not None
    assert found.duration_s == pytest.approx(5.0)
    assert found.goodput_bps == pytest.approx(5000 * 8 / 5)
    assert found.bytes == 5000


def test_udp_counts_only_its_own_packets_in_its_own_time() -> None:
    """Iperf3's control packets and datagrams outside the stream's stamps do not move the clock."""
    plain_stream = udp([11, 12, 13])
    assert udp([11, 12, 13], others=[10.5, 19.5]) == plain_stream
    assert udp([9.0, 11, 12, 13, 21.0]) == plain_stream


@pytest.mark.parametrize("times", [[], [5.0, 25.0]])
def test_udp_without_an_arrival_is_no_stream(times: list[float]) -> None:
    """Where none of the stream's datagrams arrives in its time, no rate is made up."""
    assert udp(times) is None
    assert udp([11.0, 12.0], received_bytes=0) is None


@pytest.mark.parametrize("times", [[11.0], [11.0, 11.001], [12.0, 12.0], [11.0, 11.5, 12.0]])
def test_udp_that_arrives_in_a_part_of_its_time_is_timed_by_its_sending(
        times: list[float]) -> None:
    """Two datagrams of seventy, one behind the other, are not the rate of the whole stream."""
    found = udp(times, received_bytes=1400 * len(times), sent_s=4.0)
    assert found is not None
    assert found.duration_s == pytest.approx(4.0)
    assert found.goodput_bps == pytest.approx(1400 * len(times) * 8 / 4)


@given(st.integers(2, 400), st.floats(1e-4, 0.02))
def test_udp_recovers_the_rate(count: int, gap_s: float) -> None:
    """Datagrams of 1400 bytes, evenly spaced, give their rate whatever count and spacing."""
    times = [10.5 + n * gap_s for n in range(count)]
    found = udp(times, received_bytes=count * 1400)
    assert found is not None
    assert found.goodput_bps == pytest.approx(1400 * 8 / gap_s, rel=1e-6)


@pytest.mark.parametrize("recording", ["P1", "P3", "P3-N3", "P1-R2"])
def test_udp_of_a_recording_is_timed_where_it_arrives(recording: str) -> None:
    """A recording's duration is that of its datagrams at the peer, not iperf3's.

    Of a tunnel's packets, packed and unpacked in one capture, only the unpacked ones are timed.
    """
    values, arrived = raw(recording), packets(recording, "traffic-peer")
    found = judge._udp_record(values, arrived)
    assert found is not None
    times = [p.time_s for p in arrived if p.length == 1442 and p.udp_dst == 5201
             and p.time_s >= values["stamps"]["udp_start"]]
    assert len(times) == RECORDED_DATAGRAMS
    assert found.duration_s == pytest.approx(
        (times[-1] - times[0]) * RECORDED_DATAGRAMS / (RECORDED_DATAGRAMS - 1))
    assert found.bytes == values["iperf_udp"]["end"]["sum_received"]["bytes"]
    assert found.iperf["duration_s"] == values["iperf_udp"]["end"]["sum_received"]["seconds"]


def test_udp_in_a_tunnel_is_timed_by_its_commonest_packet() -> None:
    """Where only packed packets show at the peer, those of the stream's size are the stream."""
    plain_stream = udp([11, 12, 13, 14], length=1510)
    assert udp([11, 12, 13, 14], length=1510, others=[10.5, 19.5]) == plain_stream
    assert plain_stream is not None
    assert plain_stream.duration_s == pytest.approx(4.0)


def test_stream_that_was_not_asked_for_is_absent() -> None:
    """A size of 0 leaves a stream out; nothing is made up for it."""
    assert judge._tcp_record({}) is None
    assert judge._udp_record({"stamps": {}}, []) is None


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of P7's recorded repetition, to be damaged."""
    return Path(shutil.copytree(path("P7", "auth-mn").parent, tmp_path / "r1"))


def change_raw(folder: Path, **values: Any) -> None:
    """Change a repetition's raw values."""
    (folder / "raw.json").write_text(json.dumps(raw("P7") | values))


def body_of(made: Judgement) -> Measurements:
    """The body that the judge made; there always is one."""
    assert isinstance(made.measured, Measurements)
    return made.measured


def test_failure_inside_the_machine_is_the_reason(copied: Path) -> None:
    """What ended a repetition is its reason; the checks are kept beside it."""
    change_raw(copied, failure={"stage": "stream", "reason": "TCP stream did not end"})
    made = judged("P7", copied)
    assert (made.status, made.reason) == ("failed", "TCP stream did not end")
    assert body_of(made).authentication_time_s is None
    assert made.evidence
    assert body_of(made).phases


def test_repetition_that_ended_before_its_start(copied: Path) -> None:
    """A failure before the first stamp gives a record without phases."""
    change_raw(copied, captures=[], stamps={}, events=[], kernel={},
               failure={"stage": "testbed", "reason": "SAs are left over"})
    for name in ("iperf_tcp", "iperf_udp"):
        values = json.loads((copied / "raw.json").read_text())
        del values[name]
        (copied / "raw.json").write_text(json.dumps(values))
    made = judged("P7", copied)
    assert (made.status, made.reason, body_of(made).phases) == ("failed", "SAs are left over", [])


def test_missing_capture_is_named(copied: Path) -> None:
    """A capture that raw values name but that is not there is an error that names it."""
    (copied / "auth-wire.pcap").unlink()
    with pytest.raises(MeasureError, match=r"auth-wire\.pcap"):
        judged("P7", copied)


def test_missing_raw_values_are_an_os_error(copied: Path) -> None:
    """Without raw.json there is nothing to judge, as documented."""
    (copied / "raw.json").unlink()
    with pytest.raises(OSError, match=r"raw\.json"):
        judged("P7", copied)


def test_half_written_raw_values_are_a_measure_error(copied: Path) -> None:
    """A guest killed while it wrote raw.json gives one of the documented errors."""
    whole = (copied / "raw.json").read_text()
    (copied / "raw.json").write_text(whole[:len(whole) // 2])
    with pytest.raises((MeasureError, OSError)):
        judged("P7", copied)


@pytest.mark.parametrize("recording", [*IDS, *ELSEWHERE])
def test_recordings_are_judged_whole(recording: str) -> None:
    """A recording's files become a body with status ok, phases, streams and raw values."""
    made = judged(recording)
    body = body_of(made)
    assert (made.status, made.reason) == ("ok", "")
    assert body.tcp is not None
    assert body.udp is not None
    assert body.authentication_sum == list(summed_components(policy_of(recording),
                                                             roaming=recording in AWAY))
    assert body.authentication_time_s == pytest.approx(
        sum(body.authentication_components_s[name] for name in body.authentication_sum))
    assert bool(body.handoff) == (recording in AWAY)
    assert made.captures == raw(recording)["captures"]
    assert set(made.raw) >= {"stamps", "events", "kernel", "processor_s", "registration"}
    assert ("foreign_registration" in made.raw) == (recording in AWAY)
    assert "iperf_tcp" not in made.raw
    assert all(check.ok for check in made.evidence)
    _same_by_other_code(recording, body)


def _same_by_other_code(recording: str, body: Measurements) -> None:
    """Each negotiation, at home and away, has the packets and seconds that other code finds."""
    names = {"dot1x": "eapol", "four_way_handshake": "eapol", "registration": "registration",
             "ike": "ike"}
    theirs = {}
    for phase in body.phases:
        name = phase.name.removeprefix(FOREIGN)
        if name in names:
            theirs[FOREIGN * (name != phase.name) + names[name]] = phase
    ours = recompute.negotiations(path(recording, "auth-mn"),
                                  raw(recording)["stamps"].get("handoff", float("inf")))
    assert ours.keys() == theirs.keys()
    for name, (seconds, count) in ours.items():
        assert count == theirs[name].packets
        assert seconds == pytest.approx(theirs[name].duration_s, rel=1e-3)


@pytest.mark.parametrize(("later", "count"), [
    ([], 20), ([(7.0, 104)], 20), ([(7.0, 104), (7.5, 96)], 20), ([(8.5, 104), (8.6, 128)], 20),
    ([(7.0, 104), (7.1, 104)], 0), ([(8.5, 128), (8.6, 104), (8.7, 128)], 21)])
def test_what_arrived_past_a_gap_is_told_by_longer_acknowledgements(
        later: list[tuple[float, int]], count: int) -> None:
    """One of iperf3's other connection does not close it, nor does what refuses what follows."""
    before = [(float(at) / 10, 104) for at in range(50)]
    past = [(5.0 + at / 20, 128) for at in range(20)]
    assert recompute._past_the_gap([*before, *past, *later], stop=8.0) == count


def test_a_phase_that_was_not_seen_is_not_counted_as_zero(
        copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proven or not: without one of its components there is no authentication time."""
    assert judged("P7", copied).status == "ok"
    every = judge._find_phases
    monkeypatch.setattr(judge, "_find_phases", lambda seen: [
        phase for phase in every(seen) if phase.name != "dot1x"])
    made = judged("P7", copied)
    assert all(check.ok for check in made.evidence)
    assert (made.status, made.reason) == ("failed", "not measured: no eap_home in the captures")
    assert body_of(made).authentication_time_s is None


def test_static_policy_with_another_key_fails() -> None:
    """The judge says which check failed, with its counts, and gives no authentication time."""
    made = judged("P7", wep_key="00" * 13)
    assert made.status == "failed"
    assert body_of(made).authentication_time_s is None
    assert made.reason.startswith("not proven: static WEP key in use (0 of ")
    assert has_static_key(POLICIES["P7"])


def test_component_that_one_of_several_authentications_lacks_is_named() -> None:
    """A mean over those that have it would be of fewer authentications than were asked for."""
    whole = AuthenticationRecord(components_s={"ike_home": 0.1, "eap_foreign": 0.1}, phases=[])
    measured = Measurements(schema=2, authentication_time_s=0.1, handoff=[], tcp=None, udp=None,
                            authentication_sum=["ike_home", "mip_registration_foreign"],
                            authentications=[whole, whole])
    assert not judge._find_lacking(measured)
    lacking = measured.model_copy(update={"authentications": [
        whole, AuthenticationRecord(components_s={}, phases=[])]})
    assert judge._find_lacking(lacking) == (
        "not measured: no ike_home in the captures of authentication 2")


def test_stream_of_which_nothing_arrives_is_described_by_captures_and_links() -> None:
    """The place where datagrams were last captured, and a link that takes less than they have."""
    seen, scenario = observed("P1"), scenario_of("P1")
    network = scenario.network
    narrow = [replace(link, mtu_bytes=600) if "ap-a/eth-a" in link.ends else link
              for link in network.links]
    scenario = replace(scenario, network=replace(network, links=narrow))
    lost = replace(seen, captures={name: [p for p in seen.packets_of(name) if p.udp_dst != 5201
                                          or name == "traffic-air"] for name in seen.captures})
    lost.raw["iperf_udp"]["end"]["sum_received"]["bytes"] = 0
    assert judge._udp_record(lost.raw, lost.packets_of("traffic-peer")) is None
    said = judge._missing_stream_causes(lost, scenario)["udp_goodput_bps"]
    assert said.startswith("0 of 9 datagrams arrived: last captured on the air from a2; the link ")
    assert said.endswith("takes 600 bytes, datagrams have 1428")


def test_narrow_link_is_named_where_a_stream_does_not_end() -> None:
    """A tunnel's packets are longer than what is inside: TCP comes to a standstill there."""
    scenario = scenario_of("P1")
    assert not packet_counts.describe_narrow_link(scenario)
    links = [replace(link, mtu_bytes=1400) for link in scenario.network.links]
    narrow = replace(scenario, network=replace(scenario.network, links=links))
    assert packet_counts.describe_narrow_link(narrow).endswith(" takes 1400 bytes")
